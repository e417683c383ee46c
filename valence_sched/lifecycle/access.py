# SPDX-License-Identifier: Apache-2.0
"""A store, and the pod managers that it is about within reach: where claims become nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from valence_sched.core import plugins
from valence_sched.drivers.composer import Composer
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl import pool as driver
from valence_sched.drivers.dialect import Dialects
from valence_sched.errors import PodmError, SchedulerError
from valence_sched.lifecycle.compose import NodeComposer, StateCallback
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.composition import ComposedNode, request_from_node
from valence_sched.model.inventory import FullPodm, Node
from valence_sched.model.registration import Registration
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store


@dataclass(frozen=True)
class PodmAccess:
    """``members`` are the live pod managers by name, ``password`` finds theirs.

    ``timeout_s`` is how long to wait for an answer, ``patience_s`` for what a pod manager does
    after it has answered, ``ttl_s`` until a claim that is being composed is reaped.
    """

    store: Store
    members: Mapping[str, Registration]
    password: Callable[[Registration], str | None] = field(repr=False)
    timeout_s: float = 30.0
    patience_s: float = 300.0
    ttl_s: float = TTL_S
    on_state: StateCallback = field(default=lambda _claim, _state: None)
    checkpoint: Callable[[str], None] = field(default=lambda _point: None)

    @property
    def composer(self) -> NodeComposer:
        """Return who composes; nobody reaps what it may still be waiting for."""
        ttl_s = max(self.ttl_s, 2 * self.patience_s + 4 * self.timeout_s)
        return NodeComposer(
            self.store, self.connect, self.read, ttl_s, self.on_state, self.checkpoint
        )

    def reconciler(self, *, dry_run: bool = False) -> Reconciler:
        """Return who reaps."""
        return Reconciler(self.store, self.connect, self.read, dry_run)

    @contextlib.contextmanager
    def connect(self, name: str) -> Iterator[Composer]:
        """Yield the hands on a pod manager.

        Raises:
            PodmError: it is not registered, or cannot be reached.
            CredentialError: its password cannot be had.
        """
        with connect(self._target(name), self._dialects, self.timeout_s, self.patience_s) as hands:
            yield hands

    def read(self, name: str) -> FullPodm | None:
        """Return a pod manager as it is now, None when it does not tell."""
        try:
            target = self._target(name)
        except SchedulerError:
            return None
        settings = driver.ReadSettings(timeout_s=self.timeout_s)
        (reading,) = driver.read([target], self._dialects, settings)
        return reading.podm if reading.failure is None else None

    def nodes(
        self, podm: str | None = None, *, live: bool = False
    ) -> list[tuple[ComposedNode, str]]:
        """Return nodes, each with its state: of all pod managers or of one.

        With ``ask`` the pod managers say which are there (COMPOSED), which went (GONE) and which
        nobody here composed (FOREIGN); one that does not tell leaves its nodes UNKNOWN.
        """
        ours = self.store.nodes.list(podm)
        if not live:
            return [(node, "COMPOSED") for node in ours]
        found: list[tuple[ComposedNode, str]] = []
        for name in sorted({node.podm for node in ours} | self.members.keys()):
            if podm in (None, name):
                found += self._live_nodes(name, [node for node in ours if node.podm == name])
        return found

    def _live_nodes(
        self, name: str, ours: list[ComposedNode]
    ) -> Iterator[tuple[ComposedNode, str]]:
        there = self.read(name)
        if there is None:
            yield from ((node, "UNKNOWN") for node in ours)
            return
        uris = {node.uri: node for node in there.nodes}
        yield from (
            (node, "COMPOSED" if node.uri in uris else self._unlisted_state(node)) for node in ours
        )
        known = {node.uri for node in ours}
        for uri, node in uris.items():
            if uri not in known:
                yield _foreign_node(name, node), "FOREIGN"

    def _unlisted_state(self, node: ComposedNode) -> str:
        """Return the state of a node that a reading does not show, which is not enough."""
        try:
            with self.connect(node.podm) as hands:
                found = hands.read_node(request_from_node(node), node.uri)
        except SchedulerError:
            return "UNKNOWN"
        if found.node is not None:
            return "COMPOSED"
        return "UNKNOWN" if found.state == "unknown" else "GONE"

    @property
    def _dialects(self) -> Dialects:
        return plugins.installed(plugins.DIALECTS)

    def _target(self, name: str) -> driver.ReadTarget:
        if name not in self.members:
            raise PodmError(f"{name!r} is not registered here, so it cannot be asked (podm create)")
        return driver.ReadTarget(self.members[name], self.password(self.members[name]))


def _foreign_node(podm: str, node: Node) -> ComposedNode:
    """Return a node that nobody here composed."""
    return ComposedNode(
        id=node.name or node.uri,
        podm=podm,
        uri=node.uri,
        claim="-",
        name=node.name,
        owner=node.owner,
        blocks=node.blocks,
    )
