# SPDX-License-Identifier: Apache-2.0
"""The nodes of a request: decided, claimed together, composed side by side, or all taken back.

A node that its pod manager refuses goes to the next best one. When fewer come to be than the
request must have, those that did are taken apart again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from valence_sched.claiming import Claims
from valence_sched.composing import Composer
from valence_sched.core.decision import Decision
from valence_sched.errors import ClaimLost, ComposeFailed, SchedulerError, Unverified
from valence_sched.model.claim import Claim
from valence_sched.model.composed import Composed
from valence_sched.model.inventory import FullPodm
from valence_sched.model.request import Request
from valence_sched.store.store import Store

MOST_ATTEMPTS = 5
AT_ONCE_PER_PODM = 2
MOST_AT_ONCE = 32


@dataclass
class Provisioned:
    """What came of a request; ``decision`` is None where its key had been given before.

    ``failures`` has a line for each node that did not come to be, and ``left`` the errors about
    what could neither be confirmed nor taken back.
    """

    decision: Decision | None
    nodes: list[Composed] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left: list[Unverified] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Provisioner:
    """Makes the nodes of requests; ``read`` gives a pod manager as it is, None when silent."""

    store: Store
    claimant: Claims
    composer: Composer
    read: Callable[[str], FullPodm | None]
    at_once_per_podm: int = AT_ONCE_PER_PODM
    _deciding: threading.Lock = field(default_factory=threading.Lock)
    _doors: dict[str, threading.Semaphore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        doors: dict[str, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(self.at_once_per_podm)
        )
        object.__setattr__(self, "_doors", doors)

    def provision(
        self, request: Request, *, key: str | None = None, ttl_s: float = 600.0
    ) -> Provisioned:
        """Make the nodes of a request, or as many as it must have.

        Raises:
            ClaimLost: somebody was faster every time; nothing is held.
        """
        earlier = self._earlier(request, key)
        if earlier:
            return Provisioned(None, earlier)
        claimed = self.claimant.claim(request, key=key, ttl_s=ttl_s)
        if claimed.claim is None:
            return Provisioned(claimed.decision)
        claims = self._one_each(claimed.claim)
        done = Provisioned(claimed.decision)
        with ThreadPoolExecutor(min(MOST_AT_ONCE, len(claims))) as pool:
            for node, notes in pool.map(lambda claim: self._node(request, claim), claims):
                done.notes += notes
                if isinstance(node, Composed):
                    done.nodes.append(node)
                elif isinstance(node, Unverified):
                    done.left.append(node)
                else:
                    done.failures.append(str(node))
        if len(done.nodes) < request.least:
            self._take_back(done)
        return done

    def _earlier(self, request: Request, key: str | None) -> list[Composed]:
        """Return the nodes that a key stands for already."""
        if key is None:
            return []
        keys = {key, *(f"{key}#{number}" for number in range(1, request.count + 1))}
        owner = request.owner
        claims = self.store.claims.list(("COMPOSED", "SETTLED"), owner=owner)
        ours = {claim.id for claim in claims if claim.key in keys}
        return [node for node in self.store.nodes.list() if node.claim in ours]

    def _one_each(self, claim: Claim) -> Sequence[Claim]:
        return [claim] if claim.nodes == 1 else self.store.claims.split(claim.id)

    def _node(self, request: Request, claim: Claim) -> tuple[Composed | SchedulerError, list[str]]:
        """Compose one claim, or what takes its place; return the node or why there is none."""
        notes: list[str] = []
        avoid: tuple[str, ...] = ()
        problem: SchedulerError
        for attempt in range(1, MOST_ATTEMPTS + 1):
            (part,) = claim.parts
            try:
                with self._doors[part.podm]:
                    return self.composer.compose(claim), notes
            except Unverified as error:
                return error, notes
            except ComposeFailed as error:
                avoid, problem = (*avoid, part.podm), error
            except ClaimLost as error:
                self._read_again(part.podm)
                problem = error
            another = self._another(request, avoid) if attempt < MOST_ATTEMPTS else None
            if another is None:
                return problem, notes
            notes.append(f"{problem}: tried {another.parts[0].podm} instead")
            claim = another
        raise AssertionError("unreachable")

    def _another(self, request: Request, avoid: tuple[str, ...]) -> Claim | None:
        """Claim one more node anywhere but there."""
        one = msgspec.structs.replace(
            request, count=1, min_count=None, exclude_podms=(*request.exclude_podms, *avoid)
        )
        with self._deciding:
            try:
                return self.claimant.claim(one).claim
            except SchedulerError:
                return None

    def _read_again(self, podm: str) -> None:
        fresh = self.read(podm)
        if fresh is not None:
            self.store.remember(fresh)

    def _take_back(self, done: Provisioned) -> None:
        """Take apart what came to be of too little."""
        for node in done.nodes:
            try:
                self.composer.remove(node)
                done.failures.append(
                    f"{node.podm}: {node.uri} taken apart again: too few came to be"
                )
            except Unverified as error:
                done.left.append(error)
        done.nodes = []
