# SPDX-License-Identifier: Apache-2.0
"""StateVerbs: the verbs of an engine that read or change its stored state without a decision."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valence_sched.errors import SchedulerError, UnknownName, each_error
from valence_sched.model import registration as nouns
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES, TTL_S
from valence_sched.model.diagnostic import AuditLine, AuditQuery, Diagnostic, EffectLog, awaiting
from valence_sched.model.hardware import BlockUsage, StatsReport, block_usage
from valence_sched.model.lifecycle import ClaimRecord
from valence_sched.model.quota import Quota, check_limits, check_owner
from valence_sched.model.stats import podm_id

if TYPE_CHECKING:
    from valence_sched.inventory.registry import Registry
    from valence_sched.inventory.sources import SourceReader
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import Report, Reports
    from valence_sched.model.inventory import FullPodm
    from valence_sched.model.reading import ReadOptions
    from valence_sched.store.store import Store


@dataclass
class StateVerbs:
    """Implements verbs of a scheduler on the state of ``live``; ``effects`` records changes.

    ``changing_store`` opens the store for changes that affect decisions. ``forget_snapshot`` makes
    the next decision read the state again.
    """

    sources: SourceReader
    live: ReadOptions
    effects: EffectLog
    changing_store: Callable[[], AbstractContextManager[Store]]
    forget_snapshot: Callable[[], object]

    @functools.cached_property
    def registry(self) -> Registry:
        return self.sources.registry(self.live.state)

    def change(self, kind: str, id_: str, done: str) -> AbstractContextManager[None]:
        """Return a context that records a change; ``done`` is a word such as ``deleted``."""
        return self.effects.change(kind, id_, f"may be {done}", f"is {done}")

    def decision(self, decision_id: str) -> Report | Reports:
        with self.registry.opened() as store:
            return store.decisions.get(decision_id)

    def block_usage(self, podm: str) -> BlockUsage:
        def read(store: Store) -> BlockUsage:
            stored = store.load_podms([podm]).get(podm)
            return block_usage(podm, stored, store.claims.list(podm=podm), store.nodes.list(podm))

        return self.registry.read(read, BlockUsage())

    def registration(self, name: str) -> nouns.RegisteredPodm:
        members = {one.registration.name: one for one in self.registry.members(self.live)}
        if name not in members:
            raise UnknownName("registered pod manager", name, members, self.registry.where)
        found = members[name]
        return nouns.RegisteredPodm(registration=found.registration, source=found.source)

    def register(
        self,
        registration: nouns.Registration,
        *,
        password: str | None = None,
        check: bool = True,
        timeout_s: float = 30.0,
    ) -> nouns.RegisteredPodm:
        name, registry = registration.name, self.registry
        registry.check_new(registration)
        podm: FullPodm | None = None
        reading: nouns.PodmReading | None = None
        diagnostics: tuple[Diagnostic, ...] = ()
        if check:
            with awaiting(self.sources.progress, name, "reading"):
                podm, diagnostics = registry.check(registration, password, timeout_s)
            counts = {what: len(getattr(podm, what)) for what in ("blocks", "pools", "nodes")}
            counts["pools"] = counts["pools"] or min(1, len(podm.stocks))
            reading = nouns.PodmReading(status=podm.status, driver=podm.driver, **counts)
        with self._registering(name, "registered"):
            registered = registry.create(registration, password, podm)
        return nouns.RegisteredPodm(
            registration=registered, source=registry.where, reading=reading, diagnostics=diagnostics
        )

    def change_registration(
        self, name: str, change: nouns.RegistrationChange, *, password: str | None = None
    ) -> nouns.RegisteredPodm:
        changed = change.applied_to(self.registry.get(name))
        with self._registering(name, "changed"):
            self.registry.change(changed, password)
        return nouns.RegisteredPodm(registration=changed, source=self.registry.where)

    def unregister(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        def unregister(name: str) -> None:
            with self.change("pod manager", name, "deleted"):
                self.registry.delete(name)

        yield from each_error(unregister, names)

    @contextlib.contextmanager
    def _registering(self, name: str, done: str) -> Iterator[None]:
        identifying = awaiting(self.sources.progress, name, "identifying")
        with self.change("pod manager", name, done), identifying:
            yield
        self.forget_snapshot()

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        with self.changing_store() as store, self.change("stats", podm_id(podm), "stored"):
            return store.update_stats(podm, dict(stats))

    def reported_stats(self, podm: str) -> StatsReport:
        reports = self.registry.reports()
        if podm not in reports:
            raise self._never_reported(podm, reports)
        return reports[podm]

    def forget_report(self, podm: str) -> None:
        if self.registry.empty:
            raise self._never_reported(podm, ())
        with self.changing_store() as store, self.change("stats", podm, "forgotten"):
            store.forget_report(podm)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        def read(store: Store) -> Sequence[Claim]:
            store.claims.expire()
            states = (*ACTIVE_STATES, *FINAL_STATES) if ended else ACTIVE_STATES
            return store.claims.list(states, podm, owner)

        return self.registry.read(read, ())

    def claim_record(self, claim_id: str) -> ClaimRecord:
        if self.registry.empty:
            raise UnknownName("claim", claim_id, (), self.registry.where)
        with self.registry.opened() as store:
            store.claims.expire()
            claim = store.claims.show(claim_id)
            events, nodes = store.events(claim.id), store.nodes.list(claim=claim.id)
        return ClaimRecord(claim=claim, nodes=tuple(nodes), events=tuple(events))

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        with self.registry.opened() as store, self.change("claim", claim_id, "renewed"):
            store.claims.expire()
            return store.claims.renew(claim_id, ttl_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        with self.changing_store() as store:

            def release(id_: str) -> None:
                releasing = awaiting(self.sources.progress, f"claim {id_}", "releasing")
                with self.change("claim", id_, "released"), releasing:
                    store.claims.release(id_)

            yield from each_error(release, claim_ids)

    def audit(self, query: AuditQuery) -> Sequence[AuditLine]:
        return self.registry.read(lambda store: store.audit.newest(query), [])

    def quotas(self) -> Sequence[Quota]:
        return self.registry.read(lambda store: tuple(store.quotas.list()), ())

    def quota(self, owner: str) -> Quota:
        check_owner(owner)
        return self.registry.read(lambda store: store.quotas.show(owner), Quota(owner=owner))

    def set_quota(self, owner: str | None, limits: Mapping[str, float]) -> Quota:
        return self._limit(owner, limits, keep=False)

    def change_quota(self, owner: str | None, limits: Mapping[str, float | None]) -> Quota:
        return self._limit(owner, limits, keep=True)

    def _limit(self, owner: str | None, limits: Mapping[str, float | None], *, keep: bool) -> Quota:
        check_owner(owner)
        check_limits(limits, "limits")
        name = owner if owner is not None else "of all owners"
        with self.registry.opened() as store, self.change("quota", name, "set"):
            return store.quotas.change(owner, limits, keep=keep)

    def _never_reported(self, podm: str, known: Iterable[str]) -> UnknownName:
        return UnknownName("pod manager that reported", podm, known, self.registry.where)
