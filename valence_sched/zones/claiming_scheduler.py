# SPDX-License-Identifier: Apache-2.0
"""ClaimingScheduler: the verbs about claims and nodes over a zone and those below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from valence_sched.errors import SchedulerError
from valence_sched.model.claim import Claim
from valence_sched.model.decision import Report
from valence_sched.model.decision_result import DecisionResult, Detail
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.lifecycle import (
    ClaimRecord,
    ClaimResult,
    NodeRecord,
    NodeStatus,
    ProvisionResult,
    ReconcileResult,
)
from valence_sched.model.podm_overview import PodmOverview, StatsReport
from valence_sched.model.request import Request
from valence_sched.model.scheduler import KEEP_S, TTL_S, WAIT_S, Scheduler
from valence_sched.model.zone import SealedRequest
from valence_sched.zones import paths
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.plans import ZonePlans
from valence_sched.zones.podms import ZonePodms
from valence_sched.zones.reports import ZoneReports
from valence_sched.zones.scheduler import ZonedScheduler
from valence_sched.zones.selection import Selected


class ClaimingScheduler:
    """Claims and composes over the zones that ``zoned`` decides over; ``nodes`` are theirs.

    ``podms`` finds the zone of a pod manager that is named; ``reports`` has the verbs about what
    pod managers have, and ``plans`` those about plans. Every other verb is that of ``others``: the
    same scheduler, or one of the caller's own. With ``dispatches`` each decision that is claimed is
    queued for the controller of this zone.
    """

    def __init__(
        self,
        others: Scheduler,
        zoned: ZonedScheduler,
        nodes: ZoneNodes,
        podms: ZonePodms,
        reports: ZoneReports,
        plans: ZonePlans,
        *,
        dispatches: bool = False,
    ) -> None:
        self._others, self._zoned, self._nodes, self._podms = others, zoned, nodes, podms
        self._claims, self._parts = nodes.claims, (reports, plans)
        self._dispatches = dispatches

    def __getattr__(self, name: str) -> Any:
        """Return a verb of the reports or the plans, or one that another scheduler answers."""
        if name.startswith("_"):
            raise AttributeError(name)
        parts = (part for part in self._parts if hasattr(type(part), name))
        return getattr(next(parts, self._others), name)

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> ClaimResult:
        """Decide over all zones and hold what was chosen; errors as of a scheduler."""
        decision = _Selecting(self._zoned, request, detail)
        report = decision.report if self._dispatches else None
        outcome = self._claims.claim(request, decision.select, key=key, ttl_s=ttl_s, report=report)
        result = decision.result(outcome.selected)
        return ClaimResult(claim=outcome.claim, decision=result, retries=outcome.retries)

    def compose(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
        detail: Detail = "placements",
    ) -> ProvisionResult:
        """Decide over all zones, hold what was chosen, and compose it; errors as of a scheduler."""
        decision = _Selecting(self._zoned, request, detail)
        provision, selected = self._nodes.compose(
            request, decision.select, key=key, ttl_s=ttl_s, wait_s=wait_s
        )
        return replace(provision, decision=decision.result(selected))

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> ProvisionResult:
        """Compose all that a claim holds, in all its zones at the same time."""
        return self._nodes.compose_claim(claim_id, wait_s=wait_s)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        """Return the claims of this zone and of those below, these by their paths."""
        return self._claims.claims(podm=self._path_of(podm), owner=owner, ended=ended)

    def claim_record(self, claim_id: str) -> ClaimRecord:
        """Return a claim by its id or path, with its nodes and events."""
        return self._claims.claim_record(claim_id)

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Let a claim that is held end ``ttl_s`` from now, in all its zones."""
        return self._claims.renew(claim_id, ttl_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        """Release claims; yield the error about each that could not be released."""
        return self._claims.release(claim_ids)

    def reconcile(self, *, dry_run: bool = False, keep_s: float = KEEP_S) -> ReconcileResult:
        """Reconcile the zone's own pod managers, and its claims with the zones directly below.

        The zones below reconcile their own.
        """
        own = self._others.reconcile(dry_run=dry_run, keep_s=keep_s)
        recovery = self._nodes.recovery
        actions = tuple(recovery.reap(dry_run=dry_run))
        composing = recovery.composing(own.composing, {action.id for action in actions})
        return replace(own, actions=(*own.actions, *actions), composing=composing)

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[NodeStatus]:
        """Return the nodes of this zone and of those below, these by their paths."""
        return self._nodes.nodes(podm=self._path_of(podm), owner=owner, live=live)

    def node_record(self, node_id: str) -> NodeRecord:
        """Return a node by its id or path."""
        return self._nodes.node_record(node_id)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[SchedulerError]:
        """Have nodes decomposed; yield the error about each that could not be, or not for sure."""
        return self._nodes.delete_nodes(node_ids, wait_s=wait_s)

    def _path_of(self, podm: str | None) -> str | None:
        """Return the path of a pod manager that is named, wherever it is."""
        if podm is None:
            return None
        place = self._podms.find(podm)
        return paths.path(place.zone, place.name)

    def podm(self, name: str) -> PodmOverview:
        """Return a pod manager of this zone or of one below, by its name or path."""
        return self._podms.podm(name)

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        """Store what a pod manager reports, in the zone that has it."""
        return self._podms.update_resource_stats(podm, stats)

    def reported_stats(self, podm: str) -> StatsReport:
        """Return what a pod manager of this zone or of one below reported."""
        return self._podms.reported_stats(podm)

    def forget_report(self, podm: str) -> None:
        """Forget what a pod manager of this zone or of one below reported."""
        self._podms.forget_report(podm)


class _Selecting:
    """Selects the nodes of one request; what fits is explained before it is held.

    What is held changes what zones would say of it.
    """

    def __init__(self, zoned: ZonedScheduler, request: Request, detail: Detail) -> None:
        self._zoned, self._request, self._detail = zoned, request, detail
        self._selections: list[tuple[Selected, SealedRequest, DecisionResult | None]] = []

    def select(self, request: Request, avoid: Sequence[SilentZone]) -> Selected:
        sealed, selected = self._zoned.select(request, avoid)
        fits = len(selected.nodes) >= self._request.required_count
        result = self._result(sealed, selected) if fits else None
        self._selections.append((selected, sealed, result))
        return selected

    def report(self, selected: Selected) -> Report:
        """Return the report of what was selected."""
        result = self.result(selected)
        assert result is not None, "it was selected just now"
        return result.report

    def result(self, selected: Selected | None) -> DecisionResult | None:
        """Return the decision on what was selected, None where an earlier one was found."""
        for one, sealed, result in self._selections:
            if one is selected:
                return result or self._result(sealed, one)
        return None

    def _result(self, sealed: SealedRequest, selected: Selected) -> DecisionResult:
        return self._zoned.result(self._request, sealed, selected, self._detail)
