# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - the table has a line for each route
"""Routes: every path of the service with its handler, nouns, rule and role, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.claim import Claim
from valence_sched.model.decision import InventorySummary, Report, Reports
from valence_sched.model.decision_result import DecisionResult, DecisionResults, FitCounts, Ranking
from valence_sched.model.decision_summary import DecisionSummary
from valence_sched.model.effect import AuditLine, AuditQuery
from valence_sched.model.flavor import Flavor
from valence_sched.model.hardware import BlockFilter, BlockOverview, DeviceCount, PoolOverview
from valence_sched.model.inventory import FullPodm
from valence_sched.model.lifecycle import (
    ClaimRecord,
    ClaimResult,
    NodeRecord,
    NodeStatus,
    PlanRefresh,
    PlanResult,
    Preview,
)
from valence_sched.model.podm_overview import BlockUsage, PodmOverview, StatsReport
from valence_sched.model.policy import PluginList, PodmReads, Policy
from valence_sched.model.quota import Quota, QuotaChange, QuotaLimits
from valence_sched.model.registration import RegisteredPodm, RegistrationChange
from valence_sched.model.request import Request
from valence_sched.model.service_bodies import (
    ApiVersions,
    CandidatesBody,
    CapacityBody,
    ClaimBody,
    EventBody,
    FitsBody,
    Generation,
    Health,
    MixCapacityBody,
    NodesBody,
    Operation,
    PreviewBody,
    ReconcileBody,
    RefreshBody,
    RegisterBody,
    RenewBody,
    RequestBody,
    RequestsBody,
    SelectAllBody,
    SelectBody,
    SpecBody,
    StatsBody,
)
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.model.zone_registry import (
    ZoneChange,
    ZoneInfo,
    ZoneNode,
    ZoneOverview,
    ZoneRegistration,
    ZoneTreeQuery,
)
from valence_sched.service.call import Call
from valence_sched.service.handlers import (
    catalogue,
    claims,
    decisions,
    events,
    nodes,
    offers,
    podms,
    quotas,
    ui,
    zone_claims,
    zones,
)
from valence_sched.service.html import MEDIA_TYPE as HTML
from valence_sched.service.users import Role


class Route(NamedTuple):
    """One method of one path.

    ``rule`` names who may, ``role`` is the least role that does; without a rule everybody may, or
    of a path with a ``{token}`` its pod manager alone.
    ``query`` are the words of the query besides the name of a path that ends in ``-``, ``media``
    is the type of what it answers. One that ``reads`` changes nothing, whoever may use it.
    """

    method: str
    path: str
    handler: Callable[[Call], Any]
    body: Any = None
    answer: Any = None
    rule: str = ""
    role: Role = "reader"
    status: int = 200
    query: Sequence[str] = ()
    media: str = "application/json"
    reads: bool = False

    @property
    def changes(self) -> bool:
        """Return whether it counts as a change, where these have a rate of their own."""
        return self.role != "reader" and not self.reads

    @property
    def audited(self) -> bool:
        """Return whether each request leaves a line in the audit."""
        return self.changes and self.method != "GET"

    @property
    def takes_token(self) -> bool:
        """Return whether the path has a secret of its caller."""
        return "{token}" in self.path


_BLOCKS = BlockFilter.__struct_fields__
_OWNED = ("podm", "owner")

# fmt: off
ROUTES = (
    Route("GET", "/", catalogue.versions, None, ApiVersions),
    Route("GET", "/v1", catalogue.versions, None, ApiVersions),
    Route("GET", "/healthcheck", catalogue.health, None, Health),
    Route("GET", "/healthcheck/alive", catalogue.alive, None, Health),
    Route("GET", "/metrics", catalogue.metrics, None, str, "metrics:get", media="text/plain"),
    Route("GET", "/v1/openapi.json", catalogue.openapi, None, dict[str, Any]),
    Route("POST", "/v1/requests", decisions.compile_request, SpecBody, Request, "requests:create"),
    Route("POST", "/v1/select_destinations", decisions.select_destinations, SelectBody, DecisionResult, "decisions:create"),
    Route("POST", "/v1/select_all", decisions.select_all, SelectAllBody, DecisionResults, "decisions:create"),
    Route("POST", "/v1/candidates", decisions.rank, CandidatesBody, Ranking, "decisions:create"),
    Route("POST", "/v1/fits", decisions.count_fits, FitsBody, FitCounts, "decisions:create"),
    Route("POST", "/v1/capacity", decisions.capacity, CapacityBody, Capacity, "decisions:create"),
    Route("POST", "/v1/mix_capacity", decisions.mix_capacity, MixCapacityBody, Capacity, "decisions:create"),
    Route("POST", "/v1/stranded", decisions.stranded, RequestsBody, tuple[StrandedAmount, ...], "decisions:create"),
    Route("GET", "/v1/decisions", decisions.decisions, None, tuple[DecisionSummary, ...], "decisions:list", query=("limit", "skip")),
    Route("GET", "/v1/decisions/{name}", decisions.decision, None, Report | Reports, "decisions:get"),
    Route("POST", "/v1/plans", decisions.plan, RequestBody, PlanResult, "plans:create"),
    Route("POST", "/v1/plans/refresh", decisions.refresh, RefreshBody, PlanRefresh, "plans:create"),
    Route("POST", "/v1/previews", decisions.preview, PreviewBody, tuple[Preview, ...], "previews:create", "member", reads=True),
    Route("GET", "/v1/claims", claims.claims, None, tuple[Claim, ...], "claims:list", query=(*_OWNED, "ended")),
    Route("POST", "/v1/claims", claims.claim, ClaimBody, ClaimResult, "claims:create", "member", 201),
    Route("GET", "/v1/claims/{name}", claims.claim_record, None, ClaimRecord, "claims:get"),
    Route("DELETE", "/v1/claims/{name}", claims.release, None, None, "claims:delete", "member", 204),
    Route("POST", "/v1/claims/{name}/renew", claims.renew, RenewBody, Claim, "claims:renew", "member"),
    Route("GET", "/v1/nodes", nodes.nodes, None, tuple[NodeStatus, ...], "nodes:list", query=(*_OWNED, "live")),
    Route("POST", "/v1/nodes", nodes.compose, NodesBody, Operation, "nodes:create", "member", 202),
    Route("GET", "/v1/nodes/{name}", nodes.node_record, None, NodeRecord, "nodes:get"),
    Route("DELETE", "/v1/nodes/{name}", nodes.delete, None, Operation, "nodes:delete", "member", 202, ("wait_s",)),
    Route("POST", "/v1/reconciliations", nodes.reconcile, ReconcileBody, Operation, "reconciliations:create", "admin", 202),
    Route("GET", "/v1/operations/{name}", nodes.operation, None, Operation, "operations:get"),
    Route("GET", "/v1/quotas", quotas.quotas, None, tuple[Quota, ...], "quotas:list", "admin"),
    Route("PUT", "/v1/quotas", quotas.set_default, QuotaLimits, Quota, "quotas:update", "admin"),
    Route("PATCH", "/v1/quotas", quotas.change_default, QuotaChange, Quota, "quotas:update", "admin"),
    Route("GET", "/v1/quotas/{name}", quotas.quota, None, Quota, "quotas:get"),
    Route("PUT", "/v1/quotas/{name}", quotas.set_quota, QuotaLimits, Quota, "quotas:update", "admin"),
    Route("PATCH", "/v1/quotas/{name}", quotas.change_quota, QuotaChange, Quota, "quotas:update", "admin"),
    Route("GET", "/v1/audit", catalogue.audit, None, tuple[AuditLine, ...], "audit:list", "admin", query=AuditQuery.__struct_fields__),
    Route("GET", "/v1/policies", catalogue.policies, None, tuple[Policy, ...], "policies:list"),
    Route("GET", "/v1/policies/{name}/podm_reads", catalogue.podm_reads, None, PodmReads, "policies:list", query=("flavor",)),
    Route("GET", "/v1/flavors", catalogue.flavors, None, tuple[Flavor, ...], "flavors:list"),
    Route("GET", "/v1/plugins/{name}", catalogue.plugins, None, PluginList, "plugins:list"),
    Route("GET", "/v1/inventory", podms.inventory, None, InventorySummary, "podms:list"),
    Route("GET", "/v1/inventory/podms", podms.documents, None, tuple[FullPodm, ...], "inventory:get", "admin"),
    Route("GET", "/v1/podms", podms.podms, None, tuple[PodmOverview, ...], "podms:list"),
    Route("GET", "/v1/podms/{name}", podms.podm, None, PodmOverview, "podms:get"),
    Route("POST", "/v1/podms", podms.register, RegisterBody, RegisteredPodm, "podms:create", "admin", 201),
    Route("PATCH", "/v1/podms/{name}", podms.change_registration, RegistrationChange, RegisteredPodm, "podms:update", "admin"),
    Route("DELETE", "/v1/podms/{name}", podms.unregister, None, None, "podms:delete", "admin", 204),
    Route("GET", "/v1/podms/{name}/registration", podms.registration, None, RegisteredPodm, "registrations:get", "admin"),
    Route("GET", "/v1/podms/{name}/usage", podms.usage, None, BlockUsage, "podms:get"),
    Route("GET", "/v1/podms/{name}/stats", podms.reported_stats, None, StatsReport, "stats:get"),
    Route("POST", "/v1/podms/{name}/stats", podms.update_stats, StatsBody, Generation, "stats:update", "admin"),
    Route("DELETE", "/v1/podms/{name}/stats", podms.forget_report, None, None, "stats:delete", "admin", 204),
    Route("POST", "/v1/events/{token}", events.receive, EventBody, None, status=204),
    Route("GET", "/v1/zones/info", zones.zone_info, None, ZoneInfo, "zones:info"),
    Route("GET", "/v1/zones/tree", zones.zone_tree, None, ZoneNode, "zones:tree", query=ZoneTreeQuery.__struct_fields__),
    Route("GET", "/v1/zones", zones.zones, None, tuple[ZoneOverview, ...], "zones:list", "admin"),
    Route("POST", "/v1/zones", zones.add_zone, ZoneRegistration, ZoneOverview, "zones:create", "admin", 201),
    Route("GET", "/v1/zones/{name}", zones.zone, None, ZoneOverview, "zones:get", "admin"),
    Route("PATCH", "/v1/zones/{name}", zones.change_zone, ZoneChange, ZoneOverview, "zones:update", "admin"),
    Route("DELETE", "/v1/zones/{name}", zones.delete_zone, None, None, "zones:delete", "admin", 204),
    Route("GET", "/v1/blocks", podms.blocks, None, tuple[BlockOverview, ...], "blocks:list", query=_BLOCKS),
    Route("GET", "/v1/blocks/{name}", podms.block, None, BlockOverview, "blocks:get", query=("podm",)),
    Route("GET", "/v1/pools", podms.pools, None, tuple[PoolOverview, ...], "pools:list", query=("podm",)),
    Route("GET", "/v1/devices", podms.device_counts, None, tuple[DeviceCount, ...], "devices:list", query=_BLOCKS),
    Route("POST", "/v1/zones/offers", offers.offers, OfferQuery, ZoneAnswer, "zones:offers", "admin", reads=True),
    Route("POST", "/v1/zones/group_state", offers.group_state, OfferQuery, GroupAnswer, "zones:offers", "admin", reads=True),
    Route("POST", "/v1/zones/claims", zone_claims.hold, ZoneClaimBody, Claim, "zones:claims", "admin", 201),
    Route("GET", "/ui", ui.site, None, str, "podms:list", query=("search", "page"), media=HTML),
    Route("GET", "/ui/podms/{name}", ui.podm, None, str, "podms:get", media=HTML),
    Route("GET", "/ui/decisions", ui.decisions, None, str, "decisions:list", query=("page",), media=HTML),
    Route("GET", "/ui/decisions/{name}", ui.decision, None, str, "decisions:get", media=HTML),
    Route("GET", "/ui/claims", ui.claims, None, str, "claims:list", query=(*_OWNED, "ended", "page"), media=HTML),
    Route("GET", "/ui/claims/{name}", ui.claim, None, str, "claims:get", media=HTML),
    Route("GET", "/ui/nodes", ui.nodes, None, str, "nodes:list", query=(*_OWNED, "ended", "page"), media=HTML),
)
# fmt: on
