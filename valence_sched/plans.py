# SPDX-License-Identifier: Apache-2.0
"""Decisions held at once, or saved as plans and held later."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from valence_sched import files
from valence_sched.engine import Engine
from valence_sched.errors import ClaimLost, InventoryIncomplete
from valence_sched.model.difference import Difference
from valence_sched.model.documents import decode
from valence_sched.model.group import Company
from valence_sched.model.inventory import FullPodm
from valence_sched.model.live import EVERY, Live
from valence_sched.model.plan import Plan, moved, parse_plan, plan_of
from valence_sched.model.resource import Declared, declared_supplies, replaced
from valence_sched.states import States

if TYPE_CHECKING:
    from valence_sched.claiming import Claimant
    from valence_sched.core.decision import Decision
    from valence_sched.planning import Planned
    from valence_sched.store.store import Store


class Plans(States):
    """The scheduler's parts, and those that hold what was decided."""

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

        told = self._remembered(store, sources, live, strict=strict)
        resources = self.resources(resource_files)
        return Claimant(
            store,
            self.policies(policy_files).values(),
            mix=functools.partial(self.mix, flavor_files),
            declared=Declared(resources) if resources else None,
            skipped=[*self.unread, *self.skipped],
            strict=strict,
            among=frozenset(told),
            statuses=self.statuses(told.items(), live),
        )

    def plan(self, decision: Decision, texts: Mapping[str, bytes], live: Live = EVERY) -> Plan:
        """Return the plan of a decision; ``texts`` are the pod managers that a view was made of.

        Errors as for a view.
        """
        report = decision.report()
        podms = self._as_told(texts, {one.chosen.podm for one in report.placements}, live)
        at = self.now().isoformat(timespec="seconds")
        return plan_of(report, podms.values(), at)

    def write_plan(self, plan: Plan, file: str) -> None:
        """Write a plan as JSON, whole or not at all."""
        files.write_json(plan, file)

    def read_plan(self, file: str) -> Plan:
        """Read a plan, ``-`` for standard input; what is unknown in it is remarked on.

        Raises:
            InputError: it cannot be read, is no plan, or was changed since it was made.
            NewerSchema: its major version is newer than ours.
        """
        data = self.input.read() if file == "-" else files.read(file, limit=-1)
        plan, warnings = parse_plan(data, "stdin" if file == "-" else file)
        self.remarks += warnings
        return plan

    def planned(
        self,
        store: Store,
        plan: Plan,
        sources: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> Planned:
        """Return who claims what a plan says, after its pod managers were read and stored.

        Raises:
            ClaimLost: one of them is not here any more.
            InventoryIncomplete: one of them cannot be read.
            SchedulerError: as for a view.
        """
        from valence_sched.planning import Planned

        names = tuple(basis.podm.id for basis in plan.podms)
        told = self._remembered(store, sources, self._narrowed(names, sources, live),
                                strict=strict, only=names)  # fmt: skip
        for name in names:
            if name in self.unread_ids:
                line = next(line for line in self.unread if line.startswith(f"{name}: "))
                raise InventoryIncomplete(f"the plan cannot be compared with what is there: {line}")
            if name not in told:
                raise _gone(name)
        return Planned(store, plan, self.statuses(told.items(), live),
                       self._supplies(store, names, resource_files))  # fmt: skip

    def refresh(
        self,
        plan: Plan,
        sources: Sequence[str] = (),
        policy_files: Sequence[str] = (),
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> tuple[Decision, list[Difference]]:
        """Decide again what a plan decided, on what is there now; also return what moved.

        By the policy of the plan, unless files of policies are named. Errors as for a view and
        for a decision.
        """
        texts: dict[str, bytes] = {}
        live = msgspec.structs.replace(live, holds=True)
        view = self.view(sources, strict=strict, resource_files=resource_files, live=live,
                         texts=texts)  # fmt: skip
        policies = self.policies(policy_files).values() if policy_files else [plan.decision.policy]
        request = msgspec.structs.replace(plan.decision.request, company=Company())
        decision = Engine(view, policies, skipped=[str(line) for line in self.skipped],
                          strict=strict).select_destinations(request)  # fmt: skip
        names = {basis.podm.id for basis in plan.podms}
        return decision, list(moved(plan, self._as_told(texts, names, live)))

    def _as_told(
        self, texts: Mapping[str, bytes], names: Collection[str], live: Live
    ) -> dict[str, FullPodm]:
        """Return the pod managers of these names as they told, with the status they stand with."""
        found = {name: decode(texts[name], FullPodm, f"pod manager {name}")
                 for name in names if name in texts}  # fmt: skip
        statuses = self.statuses([(one.id, one.read_at) for one in found.values()], live)
        return {
            name: msgspec.structs.replace(podm, status=statuses.get(name, podm.status))
            for name, podm in found.items()
        }

    def _remembered(
        self,
        store: Store,
        sources: Sequence[str],
        live: Live,
        *,
        strict: bool,
        only: Collection[str] | None = None,
    ) -> dict[str, str | None]:
        """Read pod managers and store them as they told; return when each was read, by id."""
        told = {}
        for podm in self.podms(sources, strict=strict, live=live):
            if podm.id in self.unread_ids or (only is not None and podm.id not in only):
                continue
            if podm.id not in self.reported_ids:  # those told the state themselves
                store.remember(podm)
            told[podm.id] = podm.read_at
        return told

    def _narrowed(self, names: tuple[str, ...], sources: Sequence[str], live: Live) -> Live:
        """Return how to read no more live pod managers than these.

        Raises:
            ClaimLost: one of them is not known any more.
        """
        if self.sources(sources, live) or "-" in live.podm_files:
            return live
        registry = self.registry(live.state)
        here = {member.registered.name for member in registry.every(live)}
        if registry.uses_state(live) and not registry.empty:
            with registry.store() as store:
                here |= store.reported().keys()
        for name in names:
            if name not in here:
                raise _gone(name)
        return msgspec.structs.replace(live, only=names)

    def _supplies(
        self, store: Store, names: Sequence[str], resource_files: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """Return what is left of stocks that only their declaration tells of."""
        resources = self.resources(resource_files)
        if not resources:
            return {}
        declared = Declared(resources)
        return {name: declared_supplies(replaced(podm, declared))
                for name, podm in store.last(names).items()}  # fmt: skip


def _gone(name: str) -> ClaimLost:
    return ClaimLost(f"the plan is out of date: pod manager {name!r} is not here any more", name)
