# SPDX-License-Identifier: Apache-2.0
"""RemoteScheduler: the verbs of a scheduler, over the HTTP of a service."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from valence_sched.errors import SchedulerError, ServiceError, Unverified, UsageError
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.claim import Claim
from valence_sched.model.decision import InventorySummary, Report, Reports
from valence_sched.model.decision_result import (
    DecisionResult,
    DecisionResults,
    Detail,
    FitCounts,
    Ranking,
)
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
    ProvisionResult,
    ReconcileResult,
)
from valence_sched.model.plan import Plan
from valence_sched.model.podm_overview import BlockUsage, PodmOverview, StatsReport
from valence_sched.model.policy import PluginKind, PluginList, PodmReads, Policy
from valence_sched.model.problem import error_of
from valence_sched.model.quota import Quota, QuotaChange, QuotaLimits
from valence_sched.model.registration import RegisteredPodm, Registration, RegistrationChange
from valence_sched.model.reports import parse_report
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import KEEP_S, TREE_S, TTL_S, WAIT_S, Scheduler
from valence_sched.model.service_bodies import (
    CandidatesBody,
    CapacityBody,
    ClaimBody,
    FitsBody,
    Generation,
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
from valence_sched.model.stats import podm_id
from valence_sched.model.zone_depth import MOST_HOPS
from valence_sched.model.zone_registry import (
    ZoneChange,
    ZoneInfo,
    ZoneNode,
    ZoneOverview,
    ZoneRegistration,
    ZoneTreeQuery,
)
from valence_sched.model.zoned_list import SILENT_HEADER, ZonedList, parse_silent_header
from valence_sched.remote.connection import ServiceConnection, path_of

R = TypeVar("R")

POLL_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # pauses before an operation is looked at again; the last stays


class RemoteScheduler(Scheduler):
    """Implements every verb of a scheduler by calls of a service; its errors are the same."""

    def __init__(
        self, connection: ServiceConnection, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._connection, self._sleep = connection, sleep

    def rank(self, request: Request, limit: int) -> Ranking:
        return self._post("candidates", CandidatesBody(compiled=request, limit=limit), Ranking)

    def compile_request(self, spec: RequestSpec) -> Request:
        return self._post("requests", SpecBody(request=spec), Request)

    def select_destinations(
        self, request: Request, *, detail: Detail = "placements"
    ) -> DecisionResult:
        body = SelectBody(compiled=request, detail=detail)
        return self._post("select_destinations", body, DecisionResult)

    def select_all(
        self, requests: Sequence[Request], *, detail: Detail = "placements"
    ) -> DecisionResults:
        body = SelectAllBody(compiled=tuple(requests), detail=detail)
        return self._post("select_all", body, DecisionResults)

    def count_fits(self, request: Request, most: int) -> FitCounts:
        return self._post("fits", FitsBody(compiled=request, most=most), FitCounts)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        body = CapacityBody(compiled=request, most=most, explain=explain, proven=proven)
        return self._post("capacity", body, Capacity)

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        body = MixCapacityBody(
            compiled=tuple(requests),
            shares=tuple(shares),
            most=most,
            explain=explain,
            proven=proven,
        )
        return self._post("mix_capacity", body, Capacity)

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        body = RequestsBody(compiled=tuple(requests))
        content, headers = self._connection.ask_headers("POST", "stranded", body=body)
        return self._zoned(content, headers, list[StrandedAmount])

    def decision(self, decision_id: str) -> Report | Reports:
        content = self._connection.ask("GET", *path_of("decisions", decision_id))
        return parse_report(content, f"decision {decision_id}")[0]

    def policies(self) -> Sequence[Policy]:
        return self._get("policies", tuple[Policy, ...])

    def podm_reads(self, policy: str, flavor: str | None = None) -> PodmReads:
        return self._get_named("policies", policy, PodmReads, "podm_reads", flavor=flavor)

    def flavors(self) -> Sequence[Flavor]:
        return self._get("flavors", tuple[Flavor, ...])

    def plugins(self, kind: PluginKind) -> PluginList:
        return self._get(f"plugins/{kind}", PluginList)

    def inventory(self) -> InventorySummary:
        return self._get("inventory", InventorySummary)

    def podms(self) -> Sequence[PodmOverview]:
        return self._get_zoned("podms", list[PodmOverview])

    def podm(self, name: str) -> PodmOverview:
        return self._get_named("podms", name, PodmOverview)

    def blocks(self, wanted: BlockFilter) -> Sequence[BlockOverview]:
        return self._get_zoned("blocks", list[BlockOverview], **msgspec.to_builtins(wanted))

    def block(self, name: str, podm: str | None = None) -> BlockOverview:
        return self._get_named("blocks", name, BlockOverview, podm=podm)

    def pools(self, podm: str | None = None) -> Sequence[PoolOverview]:
        return self._get_zoned("pools", list[PoolOverview], podm=podm)

    def device_counts(self, wanted: BlockFilter) -> Sequence[DeviceCount]:
        return self._get_zoned("devices", list[DeviceCount], **msgspec.to_builtins(wanted))

    def block_usage(self, podm: str) -> BlockUsage:
        return self._get_named("podms", podm, BlockUsage, "usage")

    def registration(self, name: str) -> RegisteredPodm:
        return self._get_named("podms", name, RegisteredPodm, "registration")

    def register(
        self,
        registration: Registration,
        *,
        password: str | None = None,
        check: bool = True,
        timeout_s: float = 30.0,
    ) -> RegisteredPodm:
        _refuse_password(password)
        body = RegisterBody(registration=registration, check=check, timeout_s=timeout_s)
        return self._post("podms", body, RegisteredPodm)

    def change_registration(
        self, name: str, change: RegistrationChange, *, password: str | None = None
    ) -> RegisteredPodm:
        _refuse_password(password)
        content = self._connection.ask("PATCH", *path_of("podms", name), body=change)
        return self._connection.decode(content, RegisteredPodm)

    def unregister(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        for name in dict.fromkeys(names):
            try:
                self._connection.ask("DELETE", *path_of("podms", name))
            except SchedulerError as error:
                yield error

    def documents(self) -> Iterator[FullPodm]:
        yield from self._get("inventory/podms", tuple[FullPodm, ...])

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        path, query = path_of("podms", podm_id(podm), "stats")
        content = self._connection.ask("POST", path, query, body=StatsBody(stats=dict(stats)))
        return self._connection.decode(content, Generation).generation

    def reported_stats(self, podm: str) -> StatsReport:
        return self._get_named("podms", podm, StatsReport, "stats")

    def forget_report(self, podm: str) -> None:
        self._connection.ask("DELETE", *path_of("podms", podm, "stats"))

    def zone_info(self) -> ZoneInfo:
        return self._get("zones/info", ZoneInfo)

    def zones(self) -> Sequence[ZoneOverview]:
        return self._get("zones", tuple[ZoneOverview, ...])

    def zone(self, name: str) -> ZoneOverview:
        return self._get_named("zones", name, ZoneOverview)

    def add_zone(self, registration: ZoneRegistration) -> ZoneOverview:
        return self._post("zones", registration, ZoneOverview)

    def change_zone(self, name: str, change: ZoneChange) -> ZoneOverview:
        content = self._connection.ask("PATCH", *path_of("zones", name), body=change)
        return self._connection.decode(content, ZoneOverview)

    def delete_zones(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        for name in dict.fromkeys(names):
            try:
                self._connection.ask("DELETE", *path_of("zones", name))
            except SchedulerError as error:
                yield error

    def zone_tree(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> ZoneNode:
        query = ZoneTreeQuery(hops=hops, deadline_s=deadline_s, route=",".join(route))
        return self._get("zones/tree", ZoneNode, **msgspec.to_builtins(query))

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> Sequence[ZoneNode]:
        return self.zone_tree(hops=hops, deadline_s=deadline_s, route=route).children

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> ClaimResult:
        body = ClaimBody(compiled=request, ttl_s=ttl_s, detail=detail)
        return self._post("claims", body, ClaimResult, key)

    def compose(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
        detail: Detail = "placements",
    ) -> ProvisionResult:
        body = NodesBody(compiled=request, ttl_s=ttl_s, wait_s=wait_s, detail=detail)
        return self._operate(self._post("nodes", body, Operation, key), ProvisionResult)

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> ProvisionResult:
        body = NodesBody(claim=claim_id, wait_s=wait_s)
        return self._operate(self._post("nodes", body, Operation), ProvisionResult)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        return self._get_zoned("claims", list[Claim], podm=podm, owner=owner, ended=ended)

    def claim_record(self, claim_id: str) -> ClaimRecord:
        return self._get_named("claims", claim_id, ClaimRecord)

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        path, query = path_of("claims", claim_id, "renew")
        content = self._connection.ask("POST", path, query, body=RenewBody(ttl_s=ttl_s))
        return self._connection.decode(content, Claim)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        for claim_id in dict.fromkeys(claim_ids):
            try:
                self._connection.ask("DELETE", *path_of("claims", claim_id))
            except SchedulerError as error:
                yield error

    def reconcile(self, *, dry_run: bool = False, keep_s: float = KEEP_S) -> ReconcileResult:
        body = ReconcileBody(dry_run=dry_run, keep_s=keep_s)
        return self._operate(self._post("reconciliations", body, Operation), ReconcileResult)

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[NodeStatus]:
        return self._get_zoned("nodes", list[NodeStatus], podm=podm, owner=owner, live=live)

    def node_record(self, node_id: str) -> NodeRecord:
        return self._get_named("nodes", node_id, NodeRecord)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[SchedulerError]:
        for node_id in dict.fromkeys(node_ids):
            path, query = path_of("nodes", node_id)
            try:
                content = self._connection.ask("DELETE", path, {**query, "wait_s": wait_s})
                self._operate(self._connection.decode(content, Operation), type(None))
            except SchedulerError as error:
                yield error

    def audit(self, query: AuditQuery) -> Sequence[AuditLine]:
        return self._get("audit", tuple[AuditLine, ...], **msgspec.structs.asdict(query))

    def quotas(self) -> Sequence[Quota]:
        return self._get("quotas", tuple[Quota, ...])

    def quota(self, owner: str) -> Quota:
        return self._get_named("quotas", owner, Quota)

    def set_quota(self, owner: str | None, limits: Mapping[str, float]) -> Quota:
        return self._limit("PUT", owner, QuotaLimits(limits=dict(limits)))

    def change_quota(self, owner: str | None, limits: Mapping[str, float | None]) -> Quota:
        return self._limit("PATCH", owner, QuotaChange(limits=dict(limits)))

    def _limit(self, method: str, owner: str | None, body: msgspec.Struct) -> Quota:
        path, query = ("quotas", {}) if owner is None else path_of("quotas", owner)
        content = self._connection.ask(method, path, query, body=body)
        return self._connection.decode(content, Quota)

    def preview(self, report: Report) -> Iterator[Preview]:
        yield from self._post("previews", PreviewBody(decision=report), tuple[Preview, ...])

    def plan(self, request: Request) -> PlanResult:
        return self._post("plans", RequestBody(compiled=request), PlanResult)

    def check_plan(self, plan: Plan) -> None:
        return  # its service does, with each verb

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        result = self._post("claims", ClaimBody(plan=plan, ttl_s=ttl_s), ClaimResult, key)
        assert result.claim is not None, "a plan is claimed whole, or that is an error"
        return result.claim

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> ProvisionResult:
        body = NodesBody(plan=plan, ttl_s=ttl_s, wait_s=wait_s)
        return self._operate(self._post("nodes", body, Operation, key), ProvisionResult)

    def refresh(self, plan: Plan) -> PlanRefresh:
        return self._post("plans/refresh", RefreshBody(plan=plan), PlanRefresh)

    def _get(self, path: str, kind: type[R], **query: Any) -> R:
        return self._connection.decode(self._connection.ask("GET", path, query), kind)

    def _get_zoned(self, path: str, kind: type[list[R]], **query: Any) -> ZonedList[R]:
        """Return a list over zones; ServiceError where it does not say which zones it lacks."""
        return self._zoned(*self._connection.ask_headers("GET", path, query), kind)

    def _zoned(
        self, content: bytes, headers: Mapping[str, str], kind: type[list[R]]
    ) -> ZonedList[R]:
        """Return an answer as a list over zones; errors as to get it."""
        try:
            silent = parse_silent_header(headers.get(SILENT_HEADER, ""))
        except ValueError as error:
            raise ServiceError(f"{self._connection.url}: {error}: is the service newer?") from None
        return ZonedList(self._connection.decode(content, kind), silent)

    def _get_named(
        self, collection: str, name: str, kind: type[R], part: str = "", **words: Any
    ) -> R:
        path, query = path_of(collection, name, part)
        return self._get(path, kind, **query, **words)

    def _post(self, path: str, body: msgspec.Struct, kind: type[R], key: str | None = None) -> R:
        return self._connection.decode(self._connection.ask("POST", path, body=body, key=key), kind)

    def _operate(self, operation: Operation, kind: type[R]) -> R:
        """Wait for the end of an operation, and return its result.

        Raises:
            Unverified: the service does not work on it any more.
        """
        for pause_s in itertools.chain(POLL_S, itertools.repeat(POLL_S[-1])):
            if operation.state != "running":
                break
            self._sleep(pause_s)
            operation = self._get(f"operations/{operation.id}", Operation)
        if operation.problem is not None:
            raise error_of(operation.problem)
        if operation.state != "done":
            raise Unverified(f"operation {operation.id} was interrupted with its process: see the "
                             "claims and nodes, and reconcile them")  # fmt: skip
        return self._connection.decode(bytes(operation.result), kind)


def _refuse_password(password: str | None) -> None:
    if password is not None:
        raise UsageError("a typed password is sent to no service: name --password-env or "
                         "--password-file, which it reads where it runs")  # fmt: skip
