# SPDX-License-Identifier: Apache-2.0
"""The state of a scheduler: opened, told by pod managers themselves, and asked what is in use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from valence_sched.errors import InputError, UnknownName
from valence_sched.main import Main
from valence_sched.model.documents import load_yaml
from valence_sched.model.held import foreign
from valence_sched.model.live import EVERY, Live

if TYPE_CHECKING:
    from valence_sched.site import Site
    from valence_sched.store.store import Store


class States(Main):
    """The scheduler's parts, and those that know the state."""

    @contextlib.contextmanager
    def store(self, state: str | None = None) -> Iterator[Store]:
        """Yield the state at a URL, None for the usual one.

        Raises:
            StoreError: it cannot be opened.
        """
        with self.registry(state).store() as store:
            yield store

    @contextlib.contextmanager
    def site(self, live: Live = EVERY, **how: Any) -> Iterator[Site]:
        """Yield the state and the live pod managers of a command, within reach.

        ``how`` are fields of :class:`~valence_sched.site.Site`. Errors as for a store.
        """
        from valence_sched.site import Site  # HTTP and SQL: only for who composes

        registry = self.registry(live.state)
        members = {one.registered.name: one.registered for one in registry.members(live)}
        how.setdefault("timeout_s", live.timeout_s)
        with registry.store() as store:
            yield Site(store, members, registry.password, **how)

    def update_resource_stats(
        self, podm: str | tuple[str, str], stats: Mapping[str, Any], state: str | None = None
    ) -> int:
        """Take in what a pod manager reports by itself; return its generation.

        ``podm`` is its id, as a decision names it, or host and node. The very next decision sees
        it. Words that are no fields of a pod manager are kept as facts.

        Raises:
            InputError: something reported is not what it must be; nothing is stored.
            StoreError: the state cannot be written.
        """
        with self.store(state) as store:
            return store.stats(podm, dict(stats))

    def stats(self, file: str) -> dict[str, Any]:
        """Return what stands in a file of reports, ``-`` for standard input.

        Raises:
            InputError: it is no JSON or YAML object.
        """
        named = "stdin" if file == "-" else file
        document = load_yaml(self.read(file), named)
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise InputError(named, "$", type(document).__name__, "an object")
        return {str(word): value for word, value in document.items()}

    def reported(self, podm: str, state: str | None = None) -> tuple[dict[str, Any], float | None]:
        """Return what a pod manager reported by itself, and how many seconds ago it last did.

        Raises:
            UnknownName: it never did.
            StoreError: the state cannot be read.
        """
        registry = self.registry(state)
        found: dict[str, dict[str, Any]] = {}
        if not registry.empty:
            with registry.store() as store:
                found, beats = store.reported(), store.beats()
        if podm not in found:
            raise UnknownName("pod manager that reported", podm, found, registry.where)
        return found[podm], beats.get(podm)

    def unreport(self, podm: str, state: str | None = None) -> None:
        """Forget what a pod manager reported by itself; errors as of a store."""
        registry = self.registry(state)
        if registry.empty:
            raise UnknownName("pod manager that reported", podm, (), registry.where)
        with registry.store() as store:
            store.unreport(podm)

    def in_use(self, podm: str, state: str | None = None) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return what of a pod manager is taken: blocks by the claim that holds them, and foreign.

        Foreign are the URIs of blocks in use that nobody here claimed. Nothing where the state
        does not know the pod manager.
        """
        registry = self.registry(state)
        if registry.empty:
            return {}, ()
        with registry.store() as store:
            told = store.last([podm]).get(podm)
            claims = store.claims.list(podm=podm)
            nodes = store.nodes.list(podm)
        holders: dict[str, list[str]] = {}
        for claim in claims:
            for part in claim.parts:
                for uri in part.blocks if part.podm == podm else ():
                    holders.setdefault(uri, []).append(claim.id)
        ours = {*holders, *(uri for node in nodes for uri in node.blocks)}
        by_block = {uri: ", ".join(ids) for uri, ids in sorted(holders.items())}
        return by_block, foreign(told, ours) if told else ()
