# SPDX-License-Identifier: Apache-2.0
"""What changes the world: decisions held in the state, and composed on live pod managers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.main import Main
from valence_sched.model.live import EVERY, Live
from valence_sched.model.resource import Declared

if TYPE_CHECKING:
    from valence_sched.claiming import Claimant
    from valence_sched.site import Site
    from valence_sched.store.store import Store


class Operations(Main):
    """The scheduler's parts, and those that write: store, claims, nodes."""

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

    def claimant(
        self,
        store: Store,
        sources: Sequence[str],
        policy_files: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        flavor_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> Claimant:
        """Return who decides and claims on these inventories, after they were read and stored.

        What could not be read is not decided on. Errors as for a view.
        """
        from valence_sched.claiming import Claimant

        names = set()
        for podm in self.podms(sources, strict=strict, live=live):
            if podm.id not in self.unread_ids:
                store.remember(podm)
                names.add(podm.id)
        resources = self.resources(resource_files)
        return Claimant(
            store,
            self.policies(policy_files).values(),
            mix=functools.partial(self.mix, flavor_files),
            declared=Declared(resources) if resources else None,
            skipped=[*self.unread, *self.skipped],
            strict=strict,
            among=frozenset(names),
        )
