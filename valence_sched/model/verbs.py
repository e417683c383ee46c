# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - the table has a line for each verb
"""The HTTP API: the table VERBS with a line for each verb of a scheduler, and all bodies."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_origin

import msgspec
from msgspec import Meta

from valence_sched.model import decision, hardware, lifecycle, zone_registry
from valence_sched.model.base import Noun
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.claim import KEEP_S, TTL_S, WAIT_S, Claim, TtlSeconds
from valence_sched.model.decision import Detail, Report
from valence_sched.model.diagnostic import AuditLine, AuditQuery
from valence_sched.model.flavor import Flavor, Properties
from valence_sched.model.http import Problem
from valence_sched.model.inventory import FullPodm
from valence_sched.model.node_change import DryRun, NodeChange, NodeChangeResult
from valence_sched.model.plan import Plan, PlanRefresh, PlanResult
from valence_sched.model.policy import PluginList, PodmReads, Policy
from valence_sched.model.quota import Quota, QuotaChange, QuotaLimits
from valence_sched.model.registration import RegisteredPodm, Registration, RegistrationChange
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec

Role = Literal["reader", "member", "admin"]
WaitSeconds = Annotated[float, Meta(ge=0, le=86400)]
MostNodes = Annotated[int, Meta(ge=1, le=1_000_000)]  # counted on each pod manager


class RequestBody(Noun, frozen=True, kw_only=True):
    """One request: as people write it in ``request``, or ``compiled`` by a client.

    A body has exactly one of its ``choices``.
    """

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled")
    request: RequestSpec | None = None
    compiled: Request | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.choices) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(self.choices)}")


class SpecBody(Noun, frozen=True, kw_only=True):
    """One request as people write it, to be compiled."""

    request: RequestSpec


class SelectBody(RequestBody, frozen=True, kw_only=True):
    """A request to decide on; with ``keep``, the whole decision is stored under its id."""

    detail: Detail = "placements"
    keep: bool = False


class RequestsBody(Noun, frozen=True, kw_only=True):
    """Several requests: as people write them in ``requests``, or ``compiled`` by a client."""

    requests: tuple[RequestSpec, ...] = ()
    compiled: tuple[Request, ...] = ()

    def __post_init__(self) -> None:
        if self.requests and self.compiled:
            raise ValueError("Expected either requests or compiled")


class SelectAllBody(RequestsBody, frozen=True, kw_only=True):
    """Several requests to decide on, each as if the nodes of earlier requests were composed."""

    detail: Detail = "placements"


class CandidatesBody(RequestBody, frozen=True, kw_only=True):
    """A request whose best candidates are listed."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10


class FitsBody(RequestBody, frozen=True, kw_only=True):
    """A request whose nodes are counted, at most ``most`` on each pod manager."""

    most: MostNodes = 1000


class CapacityBody(FitsBody, frozen=True, kw_only=True):
    """A request whose nodes are counted, with an explanation and a proven bound."""

    explain: bool = False
    proven: bool = False


class MixCapacityBody(RequestsBody, frozen=True, kw_only=True):
    """Requests whose nodes are counted as one mix, with a whole share for each."""

    shares: tuple[Annotated[int, Meta(ge=1)], ...]
    most: MostNodes = 1000
    explain: bool = False
    proven: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shares or len(self.shares) != len(self.requests) + len(self.compiled):
            raise ValueError("Expected a share for each of one or more requests")


class RefreshBody(Noun, frozen=True, kw_only=True):
    """A plan to decide again."""

    plan: Plan


class PreviewBody(Noun, frozen=True, kw_only=True):
    """A decision to preview on its pod managers."""

    decision: Report


class ClaimBody(RequestBody, frozen=True, kw_only=True):
    """A request, or a plan, to hold for ``ttl_s``."""

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled", "plan")
    plan: Plan | None = None
    detail: Detail = "placements"
    ttl_s: TtlSeconds = TTL_S


class NodesBody(RequestBody, frozen=True, kw_only=True):
    """A request, a plan, or the id of a claim that is held, to be composed."""

    choices: ClassVar[tuple[str, ...]] = ("request", "compiled", "plan", "claim")
    plan: Plan | None = None
    claim: str | None = None
    detail: Detail = "placements"
    ttl_s: TtlSeconds = TTL_S
    wait_s: WaitSeconds = WAIT_S


class NodeChangeBody(Noun, frozen=True, kw_only=True):
    """A change of a node; with ``dry_run``, its blocks are only chosen.

    With ``"server"``, the pod manager is read to find a reason against the change.
    """

    change: NodeChange
    wait_s: WaitSeconds = WAIT_S
    dry_run: DryRun = False


class RenewBody(Noun, frozen=True, kw_only=True):
    """The time from now for which a claim is held."""

    ttl_s: TtlSeconds = TTL_S


class ReconcileBody(Noun, frozen=True, kw_only=True):
    """The options of reconciling; ``keep_s`` is the age at which ended claims are deleted."""

    dry_run: bool = False
    keep_s: Annotated[float, Meta(ge=0)] = KEEP_S


class RegisterBody(Noun, frozen=True, kw_only=True):
    """A pod manager to register; with ``check``, it is read once within ``timeout_s``.

    The service reads the variables and files that it names.
    """

    registration: Registration
    check: bool = True
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 30.0


class StatsBody(Noun, frozen=True, kw_only=True):
    """The statistics that a pod manager reports."""

    stats: dict[str, Any]


class Generation(Noun, frozen=True, kw_only=True):
    """The generation of a pod manager after a report."""

    generation: int


class Operation(Noun, frozen=True, kw_only=True):
    """A long-running operation: poll it by its id until its state is not ``running``.

    ``interrupted``: its process ended; claims and nodes show its progress. ``content`` is a digest
    of the request. ``result`` is the result of the verb that ``kind`` names, ``problem`` its error.
    """

    id: str
    kind: str
    state: Literal["running", "done", "failed", "interrupted"]
    owner: str | None = None
    content: str = ""
    result: msgspec.Raw
    problem: Problem | None = None


class Route(NamedTuple):
    """One method of one path.

    It calls the ``verb`` of the scheduler; without ``verb``, only the service handles it.

    ``operation`` and ``text`` name and describe it in the document of the API. ``rule`` is its
    access rule, ``role`` the lowest role that has the rule by default. Without a rule, the route is
    public, or for a single pod manager if its path has a ``{token}``. ``query`` has the names of
    the query parameters, or their noun. ``reads``: the route changes nothing, although ``role`` is
    above reader. ``reading``: the scheduler only reads, and waiting tenants take turns.
    ``decides``: the request gets a new id, which breaks ties. ``result`` is the type of the result
    of a long-running operation. ``several``: the verb takes a list of names and yields errors.
    ``force`` is the further rule of a body whose change is forced, by default of admins.
    """

    verb: str
    operation: str
    method: str
    path: str
    text: str
    body: Any = None
    answer: Any = None
    rule: str = ""
    role: Role = "reader"
    status: int = 200
    query: Sequence[str] | type[Noun] = ()
    media: str = "application/json"
    reads: bool = False
    reading: bool = False
    decides: bool = False
    result: Any = None
    several: bool = False
    force: str = ""

    @property
    def changes(self) -> bool:
        return self.role != "reader" and not self.reads

    @property
    def audited(self) -> bool:
        return self.changes and self.method != "GET"

    @property
    def takes_token(self) -> bool:
        return "{token}" in self.path

    @property
    def lists(self) -> bool:
        return get_origin(self.answer) is tuple

    @property
    def words(self) -> Sequence[str]:
        return self.query.__struct_fields__ if isinstance(self.query, type) else self.query


_OWNED = ("podm", "owner")
# fmt: off
VERBS = {route.verb: route for route in (
    Route("compile_request", "decisions_compile_request", "POST", "/v1/requests", "Compile a request with its flavor and the places of its external resources.", SpecBody, Request, "requests:create", reading=True),
    Route("select_destinations", "decisions_select_destinations", "POST", "/v1/select_destinations", "Choose pool and blocks for every node of a request.", SelectBody, decision.DecisionResult, "decisions:create", reading=True, decides=True),
    Route("select_all", "decisions_select_all", "POST", "/v1/select_all", "Choose for several requests together; each sees the nodes of earlier requests as composed.", SelectAllBody, decision.DecisionResults, "decisions:create", reading=True, decides=True),
    Route("rank", "decisions_rank", "POST", "/v1/candidates", "Return the best candidates for one node of a request.", CandidatesBody, decision.Ranking, "decisions:create", reading=True, decides=True),
    Route("count_fits", "decisions_count_fits", "POST", "/v1/fits", "Count how many more nodes of a request fit on each pod manager.", FitsBody, decision.FitCounts, "decisions:create", reading=True),
    Route("capacity", "decisions_capacity", "POST", "/v1/capacity", "Count how many more nodes of a request fit, with an explanation or a proven bound.", CapacityBody, Capacity, "decisions:create", reading=True),
    Route("mix_capacity", "decisions_mix_capacity", "POST", "/v1/mix_capacity", "Count how many more nodes of a mix of requests fit.", MixCapacityBody, Capacity, "decisions:create", reading=True),
    Route("stranded", "decisions_stranded", "POST", "/v1/stranded", "Return each free amount, and the part of it that no node of these requests can use.", RequestsBody, tuple[StrandedAmount, ...], "decisions:create", reading=True),
    Route("decision", "decisions_decision", "GET", "/v1/decisions/{name}", "Return a stored decision.", None, Report | decision.Reports, "decisions:get", reading=True),
    Route("plan", "decisions_plan", "POST", "/v1/plans", "Decide, and return the plan of the decision.", RequestBody, PlanResult, "plans:create", decides=True),
    Route("refresh", "decisions_refresh", "POST", "/v1/plans/refresh", "Decide the request of a plan again.", RefreshBody, PlanRefresh, "plans:create"),
    Route("preview", "decisions_preview", "POST", "/v1/previews", "Ask the chosen pod managers whether they would compose the nodes of a decision.", PreviewBody, tuple[lifecycle.Preview, ...], "previews:create", "member", reads=True),
    Route("claims", "claims_claims", "GET", "/v1/claims", "List the claims that the user may see.", None, tuple[Claim, ...], "claims:list", query=(*_OWNED, "ended")),
    Route("claim", "claims_claim", "POST", "/v1/claims", "Decide and hold the chosen blocks, or hold exactly the blocks of a plan.", ClaimBody, lifecycle.ClaimResult, "claims:create", "member", 201, reading=True, decides=True),
    Route("claim_record", "claims_claim_record", "GET", "/v1/claims/{name}", "Show a claim with its nodes and events.", None, lifecycle.ClaimRecord, "claims:get"),
    Route("release", "claims_release", "DELETE", "/v1/claims/{name}", "Release a claim.", None, None, "claims:delete", "member", 204, several=True),
    Route("renew", "claims_renew", "POST", "/v1/claims/{name}/renew", "Extend a held claim.", RenewBody, Claim, "claims:renew", "member"),
    Route("nodes", "nodes_nodes", "GET", "/v1/nodes", "List the nodes that the user may see.", None, tuple[lifecycle.NodeStatus, ...], "nodes:list", query=(*_OWNED, "live")),
    Route("compose", "nodes_compose", "POST", "/v1/nodes", "Compose the nodes of a request, a plan or a claim.", NodesBody, Operation, "nodes:create", "member", 202, decides=True, result=lifecycle.ProvisionResult),
    Route("node_record", "nodes_node_record", "GET", "/v1/nodes/{name}", "Show a node, as its pod manager reports it.", None, lifecycle.NodeRecord, "nodes:get"),
    Route("change_node", "nodes_change", "POST", "/v1/nodes/{name}/changes", "Attach devices to a node, and detach others.", NodeChangeBody, Operation, "nodes:update", "member", 202, result=NodeChangeResult, force="nodes:force"),
    Route("delete_nodes", "nodes_delete", "DELETE", "/v1/nodes/{name}", "Decompose a node.", None, Operation, "nodes:delete", "member", 202, ("wait_s",), result=type(None), several=True),
    Route("reconcile", "nodes_reconcile", "POST", "/v1/reconciliations", "Reconcile claims and nodes with the pod managers.", ReconcileBody, Operation, "reconciliations:create", "admin", 202, result=lifecycle.ReconcileResult),
    Route("quotas", "quotas_quotas", "GET", "/v1/quotas", "List the quotas; the quota without an owner is the default.", None, tuple[Quota, ...], "quotas:list", "admin"),
    Route("quota", "quotas_quota", "GET", "/v1/quotas/{name}", "Show the effective limits and the usage of an owner.", None, Quota, "quotas:get"),
    Route("set_quota", "quotas_set_quota", "PUT", "/v1/quotas/{name}", "Replace the limits of an owner; an empty map restores the default limits.", QuotaLimits, Quota, "quotas:update", "admin"),
    Route("change_quota", "quotas_change_quota", "PATCH", "/v1/quotas/{name}", "Change limits of an owner; null restores the default limit.", QuotaChange, Quota, "quotas:update", "admin"),
    Route("audit", "catalogue_audit", "GET", "/v1/audit", "List the newest changes, including refused ones, by user and object.", None, tuple[AuditLine, ...], "audit:list", "admin", query=AuditQuery),
    Route("policies", "catalogue_policies", "GET", "/v1/policies", "List the policies that a request may name.", None, tuple[Policy, ...], "policies:list", reading=True),
    Route("podm_reads", "catalogue_podm_reads", "GET", "/v1/policies/{name}/podm_reads", "List the fields of pod managers that decisions of a policy read.", None, PodmReads, "policies:list", query=("flavor",), reading=True),
    Route("flavors", "catalogue_flavors", "GET", "/v1/flavors", "List the flavors that a request may name.", None, tuple[Flavor, ...], "flavors:list", reading=True),
    Route("plugins", "catalogue_plugins", "GET", "/v1/plugins/{name}", "List the installed filters or weighers.", None, PluginList, "plugins:list", reading=True),
    Route("inventory", "podms_inventory", "GET", "/v1/inventory", "Show the size of the inventory.", None, decision.InventorySummary, "podms:list", reading=True),
    Route("documents", "podms_documents", "GET", "/v1/inventory/podms", "List the pod managers as documents of an inventory.", None, tuple[FullPodm, ...], "inventory:get", "admin"),
    Route("podms", "podms_podms", "GET", "/v1/podms", "List the pod managers that decisions use.", None, tuple[hardware.PodmOverview, ...], "podms:list", reading=True),
    Route("podm", "podms_podm", "GET", "/v1/podms/{name}", "Show a pod manager with its pools.", None, hardware.PodmOverview, "podms:get", reading=True),
    Route("register", "podms_register", "POST", "/v1/podms", "Register a pod manager.", RegisterBody, RegisteredPodm, "podms:create", "admin", 201),
    Route("change_registration", "podms_change_registration", "PATCH", "/v1/podms/{name}", "Change the registration of a pod manager.", RegistrationChange, RegisteredPodm, "podms:update", "admin"),
    Route("unregister", "podms_unregister", "DELETE", "/v1/podms/{name}", "Unregister a pod manager without claims and nodes.", None, None, "podms:delete", "admin", 204, several=True),
    Route("registration", "podms_registration", "GET", "/v1/podms/{name}/registration", "Show the registration of a pod manager, with a reference to its password.", None, RegisteredPodm, "registrations:get", "admin"),
    Route("block_usage", "podms_usage", "GET", "/v1/podms/{name}/usage", "Show which blocks of a pod manager are in use, and by which claims.", None, hardware.BlockUsage, "podms:get"),
    Route("reported_stats", "podms_reported_stats", "GET", "/v1/podms/{name}/stats", "Show the reported statistics of a pod manager.", None, hardware.StatsReport, "stats:get"),
    Route("update_resource_stats", "podms_update_stats", "POST", "/v1/podms/{name}/stats", "Store the statistics that a pod manager reports.", StatsBody, Generation, "stats:update", "admin"),
    Route("forget_report", "podms_forget_report", "DELETE", "/v1/podms/{name}/stats", "Delete the reported statistics of a pod manager.", None, None, "stats:delete", "admin", 204),
    Route("zone_info", "zones_zone_info", "GET", "/v1/zones/info", "Show the name and the capabilities of the zone of the service.", None, zone_registry.ZoneInfo, "zones:info", reading=True),
    Route("zone_tree", "zones_zone_tree", "GET", "/v1/zones/tree", "Show the zone of the service and the zones below it, with their amounts.", None, zone_registry.ZoneNode, "zones:tree", query=zone_registry.ZoneTreeQuery.__struct_fields__, reading=True),
    Route("zones", "zones_zones", "GET", "/v1/zones", "List the child zones.", None, tuple[zone_registry.ZoneOverview, ...], "zones:list", "admin"),
    Route("add_zone", "zones_add_zone", "POST", "/v1/zones", "Register a child zone, without a connection to it.", zone_registry.ZoneRegistration, zone_registry.ZoneOverview, "zones:create", "admin", 201),
    Route("zone", "zones_zone", "GET", "/v1/zones/{name}", "Show a child zone.", None, zone_registry.ZoneOverview, "zones:get", "admin"),
    Route("change_zone", "zones_change_zone", "PATCH", "/v1/zones/{name}", "Change the registration of a child zone.", zone_registry.ZoneChange, zone_registry.ZoneOverview, "zones:update", "admin"),
    Route("delete_zones", "zones_delete_zone", "DELETE", "/v1/zones/{name}", "Unregister a child zone; the zone itself is not changed.", None, None, "zones:delete", "admin", 204, several=True),
    Route("blocks", "podms_blocks", "GET", "/v1/blocks", "List the blocks that match the query.", None, tuple[hardware.BlockOverview, ...], "blocks:list", query=hardware.BlockFilter, reading=True),
    Route("block", "podms_block", "GET", "/v1/blocks/{name}", "Show a block.", None, hardware.BlockOverview, "blocks:get", query=("podm",), reading=True),
    Route("pools", "podms_pools", "GET", "/v1/pools", "List the pools of all pod managers, or of one.", None, tuple[hardware.PoolOverview, ...], "pools:list", query=("podm",), reading=True),
    Route("device_counts", "podms_device_counts", "GET", "/v1/devices", "Count the devices of the blocks that match the query.", None, tuple[hardware.DeviceCount, ...], "devices:list", query=hardware.BlockFilter, reading=True),
)}
# fmt: on


class WaitQuery(Noun, frozen=True, kw_only=True):
    """The query of an operation; ``name`` is a name that the path cannot contain."""

    name: str = ""
    wait_s: WaitSeconds = WAIT_S


class ValenceNodeBody(Noun, frozen=True, kw_only=True):
    """The body with which OpenStack Valence composes a node."""

    name: str = ""
    description: str = ""
    flavor_id: str | None = None
    properties: Properties | None = None
    podm_id: str | None = None


class EventBody(msgspec.Struct, frozen=True, kw_only=True):
    """A Redfish event of a pod manager; other fields are ignored."""

    records: tuple[dict[str, Any], ...] = msgspec.field(name="Events", default=())


class RecordedReply(msgspec.Struct, frozen=True):
    """A stored answer by its idempotency key, with a digest of its request."""

    content: str
    status: int
    headers: dict[str, str]
    body: msgspec.Raw


class ApiVersion(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """One version of the API, with its least and greatest microversion."""

    id: str
    status: str
    min_version: str
    version: str
    links: tuple[dict[str, str], ...]


class ApiVersions(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """The versions of the API."""

    versions: tuple[ApiVersion, ...]


class Health(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """The ability of the service to decide, and a line for each problem.

    ``starting``: the first reading of registered pod managers is in progress. ``degraded``: it
    decides, but stored rows cannot be decoded, or the controller accepts no decisions.
    """

    status: Literal["ok", "degraded", "starting", "failing"]
    problems: tuple[str, ...] = ()
