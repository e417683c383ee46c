# SPDX-License-Identifier: Apache-2.0
"""The Scheduler protocol: the verbs of every scheduler, in this process or elsewhere.

Every verb raises errors of :mod:`valence_sched.errors`; those named here are its own. What may be
read first, such as an inventory, may fail in its own way. An iterator that a verb returns does its
work while the caller goes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from valence_sched.model.claim import KEEP_S, TTL_S, WAIT_S
from valence_sched.model.http_headers import MOST_HOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from valence_sched.errors import SchedulerError
    from valence_sched.model import hardware, lifecycle
    from valence_sched.model.capacity import Capacity, StrandedAmount
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import (
        Candidate,
        DecisionResult,
        DecisionResults,
        Detail,
        FitCounts,
        InventorySummary,
        Ranking,
        Report,
        Reports,
    )
    from valence_sched.model.effect import AuditLine, AuditQuery
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.inventory import FullPodm
    from valence_sched.model.plan import Plan, PlanRefresh, PlanResult
    from valence_sched.model.policy import PluginKind, PluginList, PodmReads, Policy
    from valence_sched.model.quota import Quota
    from valence_sched.model.registration import RegisteredPodm, Registration, RegistrationChange
    from valence_sched.model.request import GroupState, MixSupplies, Request
    from valence_sched.model.request_spec import RequestSpec
    from valence_sched.model.zone import (
        OfferQuery,
        OtherCandidate,
        SealedRequest,
        ZoneAnswer,
        ZoneSupplies,
    )
    from valence_sched.model.zone_registry import (
        ZoneChange,
        ZoneInfo,
        ZoneNode,
        ZoneOverview,
        ZoneRegistration,
    )

P = ParamSpec("P")
R = TypeVar("R")

TREE_S = 30.0  # how long a tree of zones has to answer


class Verbs(Protocol):
    """What answers verbs: one that a class does not implement goes where ``_call`` sends it."""

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        """Return what another scheduler answers to a verb with these arguments."""


class DecidingVerbs(Verbs, Protocol):
    """The part of a scheduler that decides where nodes are made."""

    def compile_request(self, spec: RequestSpec) -> Request:
        """Return a request as people write it, compiled with its flavor.

        What it is to be near to is located by the maps of the scheduler.

        Raises:
            UnknownName: no such flavor; nobody knows where a resource is.
            InputError, RequestError: an expression of the request is invalid; a resource has no
                place.
        """
        return self._call(DecidingVerbs.compile_request, spec)

    def select_destinations(
        self, request: Request, *, detail: Detail = "placements"
    ) -> DecisionResult:
        """Choose pool and blocks for every node of a request.

        Where nothing fits, the decision has the reasons, as many as ``detail`` asks for.

        Raises:
            RequestError: the request asks for nothing, contradicts itself, or states a wish
                that its policy does not read.
            UnknownName: no such policy or pod manager, or a misspelt name of an amount.
        """
        return self._call(DecidingVerbs.select_destinations, request, detail=detail)

    def select_all(
        self, requests: Sequence[Request], *, detail: Detail = "placements"
    ) -> DecisionResults:
        """Choose for several requests, each as if the nodes of those before it were composed.

        All or nothing: a request for which fewer nodes fit than it must have fails them all.
        Errors as for one request.
        """
        return self._call(DecidingVerbs.select_all, requests, detail=detail)

    def rank(self, request: Request, limit: int) -> Ranking:
        """Return at most ``limit`` candidates, best first; errors as for a decision."""
        return self._call(DecidingVerbs.rank, request, limit)

    def count_fits(self, request: Request, most: int) -> FitCounts:
        """Count how many more nodes of a request fit, at most ``most`` on each pod manager."""
        return self._call(DecidingVerbs.count_fits, request, most)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        """Count as ``count_fits``; with ``explain`` say what ends that and what sums promise.

        With ``proven`` also prove how many fit at most: SchedulerError where the solver is needed
        and not installed.
        """
        return self._call(DecidingVerbs.capacity, request, most, explain=explain, proven=proven)

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        """Count the nodes of a mix with whole ``shares`` as ``capacity``; RequestError for none."""
        return self._call(
            DecidingVerbs.mix_capacity, requests, shares, most, explain=explain, proven=proven
        )

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        """Return how much of what is free no node of some requests can use, and why.

        RequestError where there is no request.
        """
        return self._call(DecidingVerbs.stranded, requests)

    def decision(self, decision_id: str) -> Report | Reports:
        """Return the report of a decision that the scheduler keeps; UnknownName for any other."""
        return self._call(DecidingVerbs.decision, decision_id)

    def plan(self, request: Request) -> PlanResult:
        """Decide, and return the plan of the decision, to be claimed or composed later."""
        return self._call(DecidingVerbs.plan, request)

    def refresh(self, plan: Plan) -> PlanRefresh:
        """Decide again what a plan decided, and say what has changed; nothing is held."""
        return self._call(DecidingVerbs.refresh, plan)


class ClaimingVerbs(Verbs, Protocol):
    """The part of a scheduler that holds what was decided, within the limits of owners."""

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> lifecycle.ClaimResult:
        """Decide and hold what was chosen for ``ttl_s``.

        The same ``key`` again returns the same claim, and holds no other.

        Raises:
            ClaimLost: another scheduler was faster every time.
            NameTaken: the key stands for another request.
        """
        return self._call(ClaimingVerbs.claim, request, key=key, ttl_s=ttl_s, detail=detail)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        """Hold the very blocks of a plan; errors as to check it, and of a decision.

        Raises:
            ClaimLost: the plan is out of date, or something of it is in use, or not what the
                request takes, or rejected by the policy.
            InventoryIncomplete: a pod manager of the plan cannot be read.
            NameTaken: the key stands for another plan.
        """
        return self._call(ClaimingVerbs.claim_plan, plan, key=key, ttl_s=ttl_s)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan that may not be carried out here; one of another zone passes.

        AccessDenied where it came to a service, and no key of that has signed it as it is.
        """
        return self._call(ClaimingVerbs.check_plan, plan)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        """Return claims: of one pod manager or owner, with ``ended`` also those that ended."""
        return self._call(ClaimingVerbs.claims, podm=podm, owner=owner, ended=ended)

    def claim_record(self, claim_id: str) -> lifecycle.ClaimRecord:
        """Return a claim with its nodes and events; UnknownName where there is none."""
        return self._call(ClaimingVerbs.claim_record, claim_id)

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Let a claim that is held end ``ttl_s`` from now; ClaimState where it is not held."""
        return self._call(ClaimingVerbs.renew, claim_id, ttl_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        """Release claims, which may have ended; yield the error about each that could not be."""
        return self._call(ClaimingVerbs.release, claim_ids)

    def audit(self, query: AuditQuery) -> Sequence[AuditLine]:
        """Return the newest changes that a query describes, and those that were refused."""
        return self._call(ClaimingVerbs.audit, query)

    def quotas(self) -> Sequence[Quota]:
        """Return the limits that are set, first those of all owners, whose owner is None."""
        return self._call(ClaimingVerbs.quotas)

    def quota(self, owner: str) -> Quota:
        """Return the limits that hold for an owner, and what it has claimed and composed."""
        return self._call(ClaimingVerbs.quota, owner)

    def set_quota(self, owner: str | None, limits: Mapping[str, float]) -> Quota:
        """Set the limits of an owner, None: of all, by resource, in place of those it had.

        Return what then holds for the owner. What is in use beyond a limit stays. InputError where
        a resource is not counted, or a limit is not one.
        """
        return self._call(ClaimingVerbs.set_quota, owner, limits)

    def change_quota(self, owner: str | None, limits: Mapping[str, float | None]) -> Quota:
        """Change limits of an owner, None: of all; None unsets one. Else as to set a quota."""
        return self._call(ClaimingVerbs.change_quota, owner, limits)


class ComposingVerbs(Verbs, Protocol):
    """The part of a scheduler that has pod managers compose and decompose nodes."""

    def compose(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
        detail: Detail = "placements",
    ) -> lifecycle.ProvisionResult:
        """Decide, hold what was chosen, and have the pod managers compose it.

        ``wait_s`` is how long to wait for a pod manager that goes on composing.

        Raises:
            ClaimLost: another scheduler was faster every time; nothing is held.
            ClaimState: the key stands for nodes that are being composed.
            NameTaken: the key stands for another request.
        """
        return self._call(
            ComposingVerbs.compose, request, key=key, ttl_s=ttl_s, wait_s=wait_s, detail=detail
        )

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> lifecycle.ProvisionResult:
        """Hold the very blocks of a plan and have them composed; errors as for both."""
        return self._call(ComposingVerbs.compose_plan, plan, key=key, ttl_s=ttl_s, wait_s=wait_s)

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> lifecycle.ProvisionResult:
        """Have the pod managers compose all that a claim holds, and nothing else in its place.

        ClaimState where it is not held, or not any more; UnknownName where there is none.
        """
        return self._call(ComposingVerbs.compose_claim, claim_id, wait_s=wait_s)

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[lifecycle.NodeStatus]:
        """Return the nodes that were composed: of one pod manager or owner.

        With ``live`` the pod managers are asked: which are gone, and which are foreign.
        """
        return self._call(ComposingVerbs.nodes, podm=podm, owner=owner, live=live)

    def node_record(self, node_id: str) -> lifecycle.NodeRecord:
        """Return a node by its id or URI, as its pod manager has it; UnknownName for others."""
        return self._call(ComposingVerbs.node_record, node_id)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[SchedulerError]:
        """Have nodes decomposed; yield the error about each that could not be, or not for sure."""
        return self._call(ComposingVerbs.delete_nodes, node_ids, wait_s=wait_s)

    def reconcile(
        self, *, dry_run: bool = False, keep_s: float = KEEP_S
    ) -> lifecycle.ReconcileResult:
        """Make claims and nodes agree with the pod managers; forget what ended ``keep_s`` ago."""
        return self._call(ComposingVerbs.reconcile, dry_run=dry_run, keep_s=keep_s)

    def preview(self, report: Report) -> Iterator[lifecycle.Preview]:
        """Ask the chosen pod managers whether they would compose the nodes of a decision.

        StaleOffer where one is not free, not what the request takes, or rejected by the policy.
        """
        return self._call(ComposingVerbs.preview, report)


class InventoryVerbs(Verbs, Protocol):
    """The part of a scheduler that tells what pod managers have, and takes in what they report."""

    def inventory(self) -> InventorySummary:
        """Return how large the inventory is; its digest is left empty."""
        return self._call(InventoryVerbs.inventory)

    def podms(self) -> Sequence[hardware.PodmOverview]:
        """Return the pod managers that are decided on."""
        return self._call(InventoryVerbs.podms)

    def podm(self, name: str) -> hardware.PodmOverview:
        """Return one pod manager by its id or its name, with its pools; UnknownName for others."""
        return self._call(InventoryVerbs.podm, name)

    def blocks(self, wanted: hardware.BlockFilter) -> Iterable[hardware.BlockOverview]:
        """Return the blocks that a filter keeps; UnknownName for its pod manager or pool."""
        return self._call(InventoryVerbs.blocks, wanted)

    def block(self, name: str, podm: str | None = None) -> hardware.BlockOverview:
        """Return a block by its URI or the last part of it, of all pod managers or of one.

        UnknownName where there is none; UsageError where several have this name.
        """
        return self._call(InventoryVerbs.block, name, podm)

    def pools(self, podm: str | None = None) -> Sequence[hardware.PoolOverview]:
        """Return the pools of all pod managers or of one; UnknownName where that is not there."""
        return self._call(InventoryVerbs.pools, podm)

    def device_counts(self, wanted: hardware.BlockFilter) -> Sequence[hardware.DeviceCount]:
        """Count the devices of the blocks that a filter keeps by model; errors as for blocks."""
        return self._call(InventoryVerbs.device_counts, wanted)

    def block_usage(self, podm: str) -> hardware.BlockUsage:
        """Return which blocks of a pod manager are in use; none where it was never stored."""
        return self._call(InventoryVerbs.block_usage, podm)

    def documents(self) -> Iterator[FullPodm]:
        """Yield the pod managers that are decided on, less what claims hold, as an inventory."""
        return self._call(InventoryVerbs.documents)

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        """Store the statistics that a pod manager reports; return its generation.

        ``podm`` is its id, as a decision names it, or host and node. The very next decision sees
        it. Words that are no fields of a pod manager are kept as facts. InputError where a value is
        not what it must be; nothing is stored.
        """
        return self._call(InventoryVerbs.update_resource_stats, podm, stats)

    def reported_stats(self, podm: str) -> hardware.StatsReport:
        """Return what a pod manager reported by itself; UnknownName where it never did."""
        return self._call(InventoryVerbs.reported_stats, podm)

    def forget_report(self, podm: str) -> None:
        """Forget what a pod manager reported by itself; UnknownName where it never did."""
        return self._call(InventoryVerbs.forget_report, podm)


class RegistryVerbs(Verbs, Protocol):
    """The part of a scheduler that registers pod managers, and tells what requests may name."""

    def registration(self, name: str) -> RegisteredPodm:
        """Return how a registered pod manager is reached, and where; UnknownName for others."""
        return self._call(RegistryVerbs.registration, name)

    def register(
        self,
        registration: Registration,
        *,
        password: str | None = None,
        check: bool = True,
        timeout_s: float = 30.0,
    ) -> RegisteredPodm:
        """Register a pod manager; with ``check`` it is read once, within ``timeout_s``, before.

        A ``password`` is stored beside the state, only by a scheduler in this process.

        Raises:
            NameTaken, IdentityConflict: its name is taken, or its service has another name.
            InputError: its URL, driver or name is invalid.
            PodmError, CredentialError: it cannot be read, or its password cannot be had.
        """
        return self._call(
            RegistryVerbs.register,
            registration,
            password=password,
            check=check,
            timeout_s=timeout_s,
        )

    def change_registration(
        self, name: str, change: RegistrationChange, *, password: str | None = None
    ) -> RegisteredPodm:
        """Change the registration of a pod manager; errors as to register, and UnknownName."""
        return self._call(RegistryVerbs.change_registration, name, change, password=password)

    def unregister(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        """Unregister pod managers; yield the error about each that could not be."""
        return self._call(RegistryVerbs.unregister, names)

    def policies(self) -> Sequence[Policy]:
        """Return the policies that a request may name."""
        return self._call(RegistryVerbs.policies)

    def podm_reads(self, policy: str, flavor: str | None = None) -> PodmReads:
        """Return the fields of pod managers that decisions of a policy read; UnknownName.

        Of any request, or with a flavor of one that says no more than the flavor does.
        """
        return self._call(RegistryVerbs.podm_reads, policy, flavor)

    def flavors(self) -> Sequence[Flavor]:
        """Return the flavors that a request may name."""
        return self._call(RegistryVerbs.flavors)

    def plugins(self, kind: PluginKind) -> PluginList:
        """Return the installed filters or weighers, which policies may name."""
        return self._call(RegistryVerbs.plugins, kind)


class ZoneVerbs(Verbs, Protocol):
    """The part of a scheduler that knows the zones below."""

    def zone_info(self) -> ZoneInfo:
        """Return what the zone of the scheduler tells of itself: name and capabilities."""
        return self._call(ZoneVerbs.zone_info)

    def zones(self) -> Sequence[ZoneOverview]:
        """Return the zones directly below, with what is known of each by polling it."""
        return self._call(ZoneVerbs.zones)

    def zone(self, name: str) -> ZoneOverview:
        """Return a zone directly below by its name or ID; UnknownName for others."""
        return self._call(ZoneVerbs.zone, name)

    def add_zone(self, registration: ZoneRegistration) -> ZoneOverview:
        """Store a zone directly below; no connection to it is made.

        Raises:
            AccessDenied: the settings of this zone do not enable zones below it.
            InputError, NameTaken: the registration is invalid; another one has the name.
        """
        return self._call(ZoneVerbs.add_zone, registration)

    def change_zone(self, name: str, change: ZoneChange) -> ZoneOverview:
        """Change what is stored of a zone directly below; errors as to add, and UnknownName."""
        return self._call(ZoneVerbs.change_zone, name, change)

    def delete_zones(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        """Forget zones directly below, unasked; yield the error about each that could not be."""
        return self._call(ZoneVerbs.delete_zones, names)

    def zone_tree(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> ZoneNode:
        """Return this zone with what it has, and those below it, asked at once.

        At most ``hops`` levels below are asked; what does not answer within ``deadline_s`` is
        silent. ``route`` are the ids of the zones above, which end a circle.
        """
        return self._call(ZoneVerbs.zone_tree, hops=hops, deadline_s=deadline_s, route=route)

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> Sequence[ZoneNode]:
        """Return the trees of the zones directly below, as ``zone_tree`` has them."""
        return self._call(ZoneVerbs.zone_branches, hops=hops, deadline_s=deadline_s, route=route)


class Scheduler(
    DecidingVerbs, ClaimingVerbs, ComposingVerbs, InventoryVerbs, RegistryVerbs, ZoneVerbs, Protocol
):
    """Decides where nodes are made, holds what was decided, and has it composed."""


class OwnPodms(Verbs, Protocol):
    """The pod managers directly below a zone; it signs what they offer.

    ``earlier`` are those of their candidates that the tokens of the query stand for, and ``others``
    those that other requests took.
    """

    def seal(self, request: Request) -> SealedRequest:
        """Return a request as it is asked of every zone; errors as for a decision."""
        return self._call(OwnPodms.seal, request)

    def offers(
        self, query: OfferQuery, earlier: Sequence[Candidate], others: Sequence[OtherCandidate] = ()
    ) -> ZoneAnswer:
        """Return what they offer, without tokens; errors as for a decision."""
        return self._call(OwnPodms.offers, query, earlier, others)

    def group_state(
        self, query: OfferQuery, earlier: Sequence[Candidate], others: Sequence[OtherCandidate] = ()
    ) -> GroupState:
        """Return the group state of the request on them, which counts those candidates, too."""
        return self._call(OwnPodms.group_state, query, earlier, others)

    def mix_supplies(
        self, query: OfferQuery, others: Sequence[OtherCandidate] = ()
    ) -> ZoneSupplies:
        """Return what they supply to the mix of the request beside those candidates."""
        return self._call(OwnPodms.mix_supplies, query, others)

    def complete_mix(self, request: Request, supplies: Mapping[str, MixSupplies]) -> Request:
        """Return a sealed request with its mix completed by what all pools supply to it."""
        return self._call(OwnPodms.complete_mix, request, supplies)

    def claim_candidates(
        self,
        request: Request,
        candidates: Sequence[Candidate],
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        content: str | None = None,
        generation: int | None = None,
    ) -> Claim:
        """Hold the very candidates that were offered for a request; errors as of a claimer."""
        words: dict[str, Any] = {"key": key, "ttl_s": ttl_s, "content": content}
        verb = OwnPodms.claim_candidates
        return self._call(verb, request, candidates, generation=generation, **words)


class OwnScheduler(Scheduler, OwnPodms, Protocol):
    """A scheduler over the pod managers directly below a zone, which offers them to the zone."""
