# SPDX-License-Identifier: Apache-2.0
"""ZoneScheduler: the verbs of a scheduler over the pod managers of a zone and its children.

A *merged* verb queries all zones in parallel, names rows of zones below by their path, and lists
the missing zones. A *routed* verb calls the zone with the named object. The zone's *own* scheduler
handles every other verb.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from valence_sched.errors import NoPodm, RequestError, ServiceError, UnknownName, UsageError
from valence_sched.model import decision as nouns, hardware
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.claim import KEEP_S, TTL_S, WAIT_S, Claim
from valence_sched.model.lifecycle import ClaimResult, ProvisionResult, ReconcileResult
from valence_sched.model.plan import Plan, PlanRefresh, PlanResult, plan_in
from valence_sched.model.request import Request
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.stats import podm_id
from valence_sched.model.zone import ZonedList, listed
from valence_sched.zones import paths, result
from valence_sched.zones.below import zone_claim_id
from valence_sched.zones.claims import OWN, Select
from valence_sched.zones.decider import ZoneDecider
from valence_sched.zones.mixes import as_asked_below
from valence_sched.zones.nodes import ZoneNodes, provision_below
from valence_sched.zones.selection import Selected, crosses_zones

P = ParamSpec("P")
R = TypeVar("R")

#: Verbs routed to the zone of the pod manager, or of the node, that their first argument names.
_OF_PODM = ("reported_stats", "forget_report", "update_resource_stats")
_OF_NODE = ("node_record", "change_node")


class ZoneScheduler(Scheduler):
    """Decides, claims and composes over zones; with ``dispatches``, queues claimed decisions."""

    def __init__(self, zoned: ZoneDecider, nodes: ZoneNodes, *, dispatches: bool = False) -> None:
        self._zoned, self._nodes, self._claims = zoned, nodes, nodes.claims
        self._below, self._dispatches = nodes.claims.below, dispatches

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        name = verb.__name__
        answer: Any
        if name in _OF_PODM or name in _OF_NODE:
            find = self._below.find_podm if name in _OF_PODM else self._below.find
            named_first: Any = words
            zone, part, known = find(podm_id(named_first[0]))
            answer = getattr(part, name)(known, *named_first[1:], **named)
            answer = paths.below(zone, answer) if name in _OF_NODE else answer
        else:
            parts = (self._claims, self._nodes)
            owner = next((one for one in parts if hasattr(one, name)), self._zoned)
            answer = getattr(owner, name)(*words, **named)
        routed: R = answer
        return routed

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: nouns.Detail = "placements",
    ) -> ClaimResult:
        select = self._selecting(request, detail)
        outcome = self._claims.claim(
            request, select, key=key, ttl_s=ttl_s, dispatches=self._dispatches
        )
        decided = _explained(outcome.selected)
        return ClaimResult(claim=outcome.claim, decision=decided, retries=outcome.retries)

    def compose(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
        detail: nouns.Detail = "placements",
    ) -> ProvisionResult:
        select = self._selecting(request, detail)
        provision, selected = self._nodes.compose(
            request, select, key=key, ttl_s=ttl_s, wait_s=wait_s
        )
        decided = _explained(selected)
        is_placed = decided is None or bool(decided.report.placements)
        # a zone below composes alone, so that a key here would not name its nodes
        if selected is not None and decided is not None and not (is_placed or key):
            for zone, planned in self._shrinking(request, decided.report):
                own = self._below.requests(request)(zone)
                compose = self._below.named(zone).compose
                found = compose(own, key=key, ttl_s=ttl_s, wait_s=wait_s, detail=detail)
                provision = provision_below(zone, found) if zone else found
                decided = _planned_in(zone, planned, selected).decision
                break
        return replace(provision, decision=decided)

    def _selecting(self, request: Request, detail: nouns.Detail) -> Select:
        def select(asked: Request, avoid: Sequence[nouns.SilentZone]) -> Selected:
            sealed, selected = self._zoned.select(asked, avoid)
            decided = functools.partial(self._zoned.result, request, sealed, selected, detail)
            selected.explain = functools.cache(decided)
            if len(selected.nodes) >= request.required_count:
                selected.explain()  # before the nodes are held
            return selected

        return select

    def _shrinking(
        self, request: Request, report: nouns.Report
    ) -> Iterator[tuple[str, PlanResult]]:
        """Yield each zone whose shrinkable nodes make room for a request, with its plan.

        A request whose group covers all zones gets none, since the plan of a zone knows only the
        nodes of this zone.
        """
        group = request.group
        if report.policy.shrink == "never" or (group and group.hard and crosses_zones(request)):
            return
        for zone in ("", *sorted(self._below.children)):
            try:
                found = self._below.part(zone).plan(self._below.requests(request)(zone))
            except (ServiceError, NoPodm):  # the report names a silent zone
                continue
            if found.plan is not None and found.plan.shrinks:
                yield zone, found

    def reconcile(self, *, dry_run: bool = False, keep_s: float = KEEP_S) -> ReconcileResult:
        """Reconcile the zone's own pod managers and its claims; child zones reconcile theirs."""
        own = self._below.own.reconcile(dry_run=dry_run, keep_s=keep_s)
        actions = tuple(self._nodes.reap(dry_run=dry_run))
        composing = self._nodes.composing(own.composing, {action.id for action in actions})
        return replace(own, actions=(*own.actions, *actions), composing=composing)

    def podm(self, name: str) -> hardware.PodmOverview:
        zone, verbs, name_there = self._below.find_podm(name)
        if not zone and not self._below.has("", name):
            raise UnknownName("pod manager", name, ())
        return paths.below(zone, verbs.podm(name_there))

    def inventory(self) -> nouns.InventorySummary:
        answers = self._below.ask(lambda zone: zone.inventory())
        return result.added_inventories(*answers)

    def podms(self) -> Sequence[hardware.PodmOverview]:
        return self._below.merged(lambda zone: zone.podms(), paths.below)

    def pools(self, podm: str | None = None) -> Sequence[hardware.PoolOverview]:
        if podm is None:
            return self._below.merged(lambda zone: zone.pools(), paths.below)
        zone, verbs, name = self._below.find_podm(podm)
        return [paths.below(zone, one) for one in verbs.pools(name)]

    def blocks(self, wanted: hardware.BlockFilter) -> Sequence[hardware.BlockOverview]:
        if wanted.podm is None:
            return self._below.merged(lambda zone: listed(zone.blocks(wanted)), paths.below)
        zone, verbs, name = self._below.find_podm(wanted.podm)
        return [paths.below(zone, one) for one in verbs.blocks(replace(wanted, podm=name))]

    def block(self, name: str, podm: str | None = None) -> hardware.BlockOverview:
        """Return a block; ServiceError if only a silent zone may have it."""
        if podm is not None:
            zone, verbs, known = self._below.find_podm(podm)
            return paths.below(zone, verbs.block(name, known))
        answers = self._below.ask(lambda zone: zone.block(name))
        blocks: Mapping[str, hardware.BlockOverview] = answers.by_zone
        found = [paths.below(zone, one) for zone, one in blocks.items()]
        if len(found) > 1:
            podms = ", ".join(one.podm for one in found)
            raise UsageError(f"block {name!r} is on pod managers {podms}: choose one with --podm")
        if not found:
            first = answers.silent[0]
            text = f"zone {first.zone} may have block {name!r}, but does not answer: {first.reason}"
            raise ServiceError(text)
        return found[0]

    def device_counts(self, wanted: hardware.BlockFilter) -> Sequence[hardware.DeviceCount]:
        if wanted.podm is not None:
            _, verbs, name = self._below.find_podm(wanted.podm)
            return verbs.device_counts(replace(wanted, podm=name))
        found = self._below.merged(lambda zone: zone.device_counts(wanted), lambda _zone, one: one)
        return ZonedList(hardware.added_devices(found), found.silent)

    def block_usage(self, podm: str) -> hardware.BlockUsage:
        zone, verbs, name = self._below.find_podm(podm)
        found = verbs.block_usage(name)
        rows = {one.id: zone_claim_id(one) for one in verbs.claims(podm=name)} if found.held else {}

        def named(claim: str) -> str:
            row = rows.get(claim)
            known = row is not None and self._claims.rows.get(row) is not None
            return row if row and known else paths.path(zone, claim)

        held = {
            uri: ", ".join(map(named, claims.split(", "))) for uri, claims in found.held.items()
        }
        return replace(found, held=held)

    def count_fits(self, request: Request, most: int) -> nouns.FitCounts:
        answers = self._below.ask(lambda zone, one: zone.count_fits(one, most), request)
        return result.added_fit_counts(*answers)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        answers = self._below.ask(
            lambda zone, one: zone.capacity(one, most, explain=explain, proven=proven), request
        )
        return result.added_capacities(request.flavor or "", *answers)

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        def ask(zone: Scheduler, *mix: Request) -> Capacity:
            return zone.mix_capacity(mix, shares, most, explain=explain, proven=proven)

        answers = self._below.ask(ask, *requests)
        return result.added_capacities("", *answers, mix=True)

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        return self._below.merged(lambda zone, *mix: zone.stranded(mix), paths.below, *requests)

    def plan(self, request: Request) -> PlanResult:
        """Return a plan of the zone that has all nodes; RequestError for nodes in several zones."""
        self._check_group(request)
        sealed, selected = self._zoned.select(request)
        if len(selected.nodes) < sealed.request.required_count:
            decided = self._zoned.result(request, sealed, selected, "report")
            for zone, found in self._shrinking(request, decided.report):
                return _planned_in(zone, found, selected)
            return PlanResult(decision=decided)
        zones = sorted({one.chosen.zone.partition("/")[0] for one in selected.nodes})
        if len(zones) > 1:
            names = ", ".join(zone or OWN for zone in zones)
            text = f"a plan covers one zone, but these nodes are in several zones ({names})"
            raise RequestError(f"{text}: request fewer nodes, or claim them here")
        zone = zones[0]
        if selected.request is not None:  # the supplies of all zones, not of this one alone
            request = replace(request, mix=as_asked_below(selected.request).mix)
        found = self._below.named(zone).plan(self._below.requests(request)(zone))
        return _planned_in(zone, found, selected)

    def check_plan(self, plan: Plan) -> None:
        zone, plan = self._placed(plan)
        self._below.named(zone).check_plan(plan)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        self._check_group(plan.decision.request)
        zone, plan = self._placed(plan)
        claim = self._below.named(zone).claim_plan(plan, key=key, ttl_s=ttl_s)
        return paths.below(zone, claim)

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> ProvisionResult:
        self._check_group(plan.decision.request)
        zone, plan = self._placed(plan)
        found = self._below.named(zone).compose_plan(plan, key=key, ttl_s=ttl_s, wait_s=wait_s)
        return provision_below(zone, found) if zone else found

    def refresh(self, plan: Plan) -> PlanRefresh:
        zone, plan = self._placed(plan)
        return self._below.named(zone).refresh(plan)

    def _check_group(self, request: Request) -> None:
        group = request.group
        if self._below.children and group is not None and group.hard and crosses_zones(request):
            rules = f"the rules of group {group.name!r} cover all zones"
            text = f"a plan covers one zone, but {rules}: claim the nodes here without a plan"
            raise RequestError(text)

    def _placed(self, plan: Plan) -> tuple[str, Plan]:
        """Return the plan and its zone; RequestError if its pod managers are in several zones."""
        zone, _, rest = plan.zone.partition("/")
        while zone and zone not in self._below.children:  # skip names that parent zones added
            zone, _, rest = rest.partition("/")
        return zone or self._zone_of(plan), plan_in(plan, rest)

    def _zone_of(self, plan: Plan) -> str:
        podms = [basis.podm.id for basis in plan.podms]
        try:
            zones = {self._below.find_podm(podm)[0] for podm in podms}
        except UsageError as error:
            text = f"the plan does not name its zone: {error}"
            raise RequestError(f"{text} in a new plan, or apply it at its zone") from None
        if len(zones) > 1:
            raise RequestError("the plan has pod managers of several zones: plan again")
        zone = next(iter(zones), "")
        for podm in podms if not zone else ():
            try:
                self._below.own.registration(podm)
            except UnknownName:
                text = f"the plan has pod manager {podm!r}, which is unknown here"
                raise RequestError(f"{text}: apply it at the zone that has it") from None
        return zone


def _explained(selected: Selected | None) -> nouns.DecisionResult | None:
    return selected.explain() if selected is not None and selected.explain is not None else None


def _planned_in(zone: str, found: PlanResult, selected: Selected) -> PlanResult:
    """Return the plan of a zone with the names that its parent uses."""
    if not zone:
        return found
    report = result.zoned_report(zone, found.decision.report, selected)
    plan = found.plan and plan_in(found.plan, paths.way(zone, found.plan.zone))
    return PlanResult(decision=replace(found.decision, report=report), plan=plan)
