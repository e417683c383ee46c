# SPDX-License-Identifier: Apache-2.0
"""Planner: makes plans of decisions, claims them later, and compares them with the present."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from valence_sched.core.decider import Decider
from valence_sched.errors import ClaimLost, InventoryIncomplete
from valence_sched.lifecycle.decision_result import decision_result
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.plan import PlanClaimer, describe_differences
from valence_sched.model.codec import decode
from valence_sched.model.custom_resource import declared_supplies, with_declared_stocks
from valence_sched.model.decision import Report
from valence_sched.model.group import GroupState
from valence_sched.model.inventory import FullPodm
from valence_sched.model.lifecycle import PlanRefresh
from valence_sched.model.plan import Plan, make_plan, plan_drift
from valence_sched.model.read_options import ReadOptions
from valence_sched.store.store import Store


class Planner:
    """Makes and claims plans on what an intake reads."""

    def __init__(self, intake: Intake) -> None:
        self._intake, self._sources, self._loader = intake, intake.sources, intake.loader
        self._selection, self._live = intake.selection, intake.selection.live

    def plan(self, report: Report, texts: Mapping[str, bytes]) -> Plan:
        """Return the plan of a decision; ``texts`` are the pod managers that it was made on."""
        chosen = {placement.chosen.podm for placement in report.placements}
        decided_at = self._sources.now().isoformat(timespec="seconds")
        return make_plan(report, self._podms_as_read(texts, chosen).values(), decided_at)

    def claimer(self, store: Store, plan: Plan) -> PlanClaimer:
        """Return the claimer of a plan, once its pod managers were read and stored.

        Raises:
            ClaimLost: one of them is gone.
            InventoryIncomplete: one of them cannot be read.
        """
        names = tuple(basis.podm.id for basis in plan.podms)
        selection = replace(self._selection, live=self._options_for(names))
        read_at = self._intake.store_podms(store, selection, names).read_at
        for name in names:
            if name in self._sources.unread_ids:
                lines = self._sources.diagnostics.lines("unread")
                line = next(line for line in lines if line.startswith(f"{name}: "))
                raise InventoryIncomplete(f"the plan cannot be compared with what is there: {line}")
            if name not in read_at:
                raise _missing_podm(name)
        statuses = self._loader.statuses(read_at.items(), self._live)
        return PlanClaimer(store, plan, statuses, self._supplies(store, names))

    def refresh(self, plan: Plan) -> PlanRefresh:
        """Decide again what a plan decided, on what is read now; also return what has changed.

        The policy is the one of the plan, unless files of policies are named. Errors as for a view
        and for a decision.
        """
        texts: dict[str, bytes] = {}
        live = replace(self._live, subtract_claims=True)
        view = self._loader.view(replace(self._selection, live=live), texts)
        named = bool(self._selection.policy_files)
        policies = self._intake.policies() if named else [plan.decision.policy]
        skipped = self._sources.diagnostics.lines("skipped")
        decider = Decider(view, policies, skipped=skipped, strict=self._selection.strict)
        request = replace(plan.decision.request, company=GroupState())
        report = decision_result(decider.select_destinations(request)).report
        podms = self._podms_as_read(texts, {basis.podm.id for basis in plan.podms})
        changes = (describe_differences([change]) for change in plan_drift(plan, podms))
        return PlanRefresh(report=report, changes=tuple(changes))

    def _podms_as_read(
        self, texts: Mapping[str, bytes], names: Collection[str]
    ) -> dict[str, FullPodm]:
        """Return pod managers by name as they were read, with their status by liveness."""
        podms = [decode(texts[name], FullPodm, f"pod manager {name}")
                 for name in names if name in texts]  # fmt: skip
        statuses = self._loader.statuses([(podm.id, podm.read_at) for podm in podms], self._live)
        return {podm.id: replace(podm, status=statuses.get(podm.id, podm.status)) for podm in podms}

    def _options_for(self, names: Sequence[str]) -> ReadOptions:
        """Return the options that read no other live pod managers than these.

        Raises:
            ClaimLost: one of them is not known any more.
        """
        live = self._live
        if self._sources.named_sources(self._selection) or "-" in live.podm_files:
            return live
        registry = self._sources.registry(live.state)
        known = {member.registration.name for member in registry.all_members(live)}
        if registry.uses_state(live) and not registry.empty:
            with registry.store() as store:
                known |= store.reported_stats().keys()
        for name in names:
            if name not in known:
                raise _missing_podm(name)
        return replace(live, only=tuple(names))

    def _supplies(self, store: Store, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return what is left of stocks that only their declaration tells of."""
        declared = self._intake.declared_stocks()
        if declared is None:
            return {}
        return {name: declared_supplies(with_declared_stocks(podm, declared))
                for name, podm in store.load_podms(names).items()}  # fmt: skip


def _missing_podm(name: str) -> ClaimLost:
    return ClaimLost(f"the plan is out of date: pod manager {name!r} is not here any more", name)
