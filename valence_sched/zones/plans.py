# SPDX-License-Identifier: Apache-2.0
"""Zone plans: a plan is of one zone, which makes it and carries it out; others pass it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from valence_sched.errors import RequestError, UnknownName, UsageError, one_line
from valence_sched.model.claim import Claim
from valence_sched.model.lifecycle import PlanRefresh, PlanResult, ProvisionResult
from valence_sched.model.plan import Plan, plan_in
from valence_sched.model.request import Request
from valence_sched.model.scheduler import TTL_S, WAIT_S
from valence_sched.zones import paths
from valence_sched.zones.claims import OWN
from valence_sched.zones.nodes import provision_below
from valence_sched.zones.podms import ZonePodms
from valence_sched.zones.result import zoned_report
from valence_sched.zones.scheduler import ZonedScheduler
from valence_sched.zones.selection import crosses_zones

if TYPE_CHECKING:
    from valence_sched.model.scheduler import Scheduler


@dataclass(frozen=True)
class ZonePlans:
    """The plans of a zone's ``own`` pod managers, and of its children, by name.

    ``zoned`` decides over all of them, and ``find`` finds the zone of a pod manager. Errors are
    those of a scheduler.
    """

    own: Scheduler
    children: Mapping[str, Callable[[], Scheduler]]
    zoned: ZonedScheduler
    find: ZonePodms

    def plan(self, request: Request) -> PlanResult:
        """Return a plan for a request, made by the zone that its nodes are in.

        Raises:
            RequestError: its nodes are in several zones, or the rules of its group reach over them.
        """
        self._check_group(request)
        sealed, selected = self.zoned.select(request)
        if len(selected.nodes) < sealed.request.required_count:
            return PlanResult(decision=self.zoned.result(request, sealed, selected, "report"))
        zones = sorted({one.chosen.zone.partition("/")[0] for one in selected.nodes})
        if len(zones) > 1:
            names = ", ".join(zone or OWN for zone in zones)
            text = f"a plan is of one zone, and these nodes are in several ({names})"
            raise RequestError(one_line(f"{text}: ask for fewer nodes, or claim them here"))
        zone = zones[0]
        found = self._verbs(zone).plan(self.find.requests(request)(zone))
        if not zone:
            return found
        report = zoned_report(zone, found.decision.report, selected)
        plan = found.plan and plan_in(found.plan, paths.way(zone, found.plan.zone))
        return PlanResult(decision=replace(found.decision, report=report), plan=plan)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan for own pod managers that this zone did not sign; others check theirs."""
        zone, plan = self._placed(plan)
        self._verbs(zone).check_plan(plan)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        """Hold what a plan says, in the zone that has its pod managers."""
        self._check_group(plan.decision.request)
        zone, plan = self._placed(plan)
        claim = self._verbs(zone).claim_plan(plan, key=key, ttl_s=ttl_s)
        return paths.claim_below(zone, claim)

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> ProvisionResult:
        """Compose what a plan says, in the zone that has its pod managers."""
        self._check_group(plan.decision.request)
        zone, plan = self._placed(plan)
        result = self._verbs(zone).compose_plan(plan, key=key, ttl_s=ttl_s, wait_s=wait_s)
        return provision_below(zone, result) if zone else result

    def refresh(self, plan: Plan) -> PlanRefresh:
        """Decide again on the request of a plan, in the zone that has its pod managers."""
        zone, plan = self._placed(plan)
        return self._verbs(zone).refresh(plan)

    def _check_group(self, request: Request) -> None:
        """Refuse hard rules over several zones: the zone of a plan knows its own members alone."""
        group = request.group
        if self.children and group is not None and group.hard and crosses_zones(request):
            rules = f"the rules of group {group.name!r} are over all zones"
            text = f"a plan is of one zone, and {rules}: claim the nodes here, without a plan"
            raise RequestError(one_line(text))

    def _verbs(self, zone: str) -> Scheduler:
        return self.children[zone]() if zone else self.own

    def _placed(self, plan: Plan) -> tuple[str, Plan]:
        """Return the zone directly below that a plan is of, or this one, and the plan as of it.

        A plan that does not name a zone of this one is of the zone that has its pod managers.

        Raises:
            RequestError: no zone has one of them, or several zones have them.
        """
        zone, _, rest = plan.zone.partition("/")
        while zone and zone not in self.children:  # of zones above this one
            zone, _, rest = rest.partition("/")
        return zone or self._zone_of(plan), plan_in(plan, rest)

    def _zone_of(self, plan: Plan) -> str:
        podms = [basis.podm.id for basis in plan.podms]
        try:
            zones = {self.find.find(podm).zone for podm in podms}
        except UsageError as error:
            text = f"the plan does not name its zone, and {error}"
            raise RequestError(one_line(f"{text} in a new plan, or apply it at its zone")) from None
        if len(zones) > 1:
            raise RequestError("the plan has pod managers of several zones: plan again")
        zone = next(iter(zones), "")
        for podm in podms if not zone else ():
            try:
                self.own.registration(podm)
            except UnknownName:
                text = f"the plan has pod manager {podm!r}, which no zone here has"
                raise RequestError(one_line(f"{text}: apply it at the zone that has it")) from None
        return zone
