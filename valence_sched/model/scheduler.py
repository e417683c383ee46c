# SPDX-License-Identifier: Apache-2.0
"""The Scheduler protocol: the verbs of every scheduler, in this process or elsewhere.

Every verb raises errors of :mod:`valence_sched.errors`; a docstring names the errors of its verb,
but not the errors of reading an inventory. An iterator that a verb returns is lazy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from valence_sched.model.claim import KEEP_S, TTL_S, WAIT_S
from valence_sched.model.http import MOST_HOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from valence_sched.errors import SchedulerError
    from valence_sched.model import decision as decisions, hardware, lifecycle, zone, zone_registry
    from valence_sched.model.capacity import Capacity, StrandedAmount
    from valence_sched.model.claim import Claim
    from valence_sched.model.diagnostic import AuditLine, AuditQuery
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.inventory import FullPodm
    from valence_sched.model.node_change import DryRun, NodeChange, NodeChangeResult
    from valence_sched.model.plan import Plan, PlanRefresh, PlanResult
    from valence_sched.model.policy import PluginKind, PluginList, PodmReads, Policy
    from valence_sched.model.quota import Quota
    from valence_sched.model.registration import RegisteredPodm, Registration, RegistrationChange
    from valence_sched.model.request import GroupState, MixSupplies, Request
    from valence_sched.model.request_spec import RequestSpec

P = ParamSpec("P")
R = TypeVar("R")
TREE_S = 30.0  # how long a tree of zones has to answer


class Verbs(Protocol):
    """Verbs that a class may implement in part; ``_call`` handles all others."""

    def _call(self, verb: Callable[Concatenate[Any, P], R], *words: P.args, **named: P.kwargs) -> R:
        """Return the answer of another scheduler to a verb with these arguments."""


class DecidingVerbs(Verbs, Protocol):
    """The part of a scheduler that decides on the places of nodes."""

    def compile_request(self, spec: RequestSpec) -> Request:
        """Return a request compiled with its flavor and the places of its external resources.

        UnknownName for an unknown flavor or resource; InputError or RequestError if the spec is
        invalid.
        """
        return self._call(DecidingVerbs.compile_request, spec)

    def select_destinations(
        self, request: Request, *, detail: decisions.Detail = "placements"
    ) -> decisions.DecisionResult:
        """Choose pool and blocks for every node; the result has the reasons if nothing fits.

        RequestError if the request is invalid, or its policy ignores a requirement; UnknownName for
        an unknown policy, pod manager or amount.
        """
        return self._call(DecidingVerbs.select_destinations, request, detail=detail)

    def select_all(
        self, requests: Sequence[Request], *, detail: decisions.Detail = "placements"
    ) -> decisions.DecisionResults:
        """Decide requests in order, all or nothing; same errors as ``select_destinations``."""
        return self._call(DecidingVerbs.select_all, requests, detail=detail)

    def rank(self, request: Request, limit: int) -> decisions.Ranking:
        """Return at most ``limit`` candidates, best first; same errors as a decision."""
        return self._call(DecidingVerbs.rank, request, limit)

    def count_fits(self, request: Request, most: int) -> decisions.FitCounts:
        """Count how many more nodes of a request fit, at most ``most`` on each pod manager."""
        return self._call(DecidingVerbs.count_fits, request, most)

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        """Count as ``count_fits`` does; ``explain`` adds exhausted resources and bounds by sums.

        ``proven`` adds a proven bound; SchedulerError if the solver is not installed.
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
        """Count the nodes of a mix with whole ``shares``, as ``capacity`` does."""
        verb = DecidingVerbs.mix_capacity
        return self._call(verb, requests, shares, most, explain=explain, proven=proven)

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        """Return the free amounts that no node of these requests can use, with reasons."""
        return self._call(DecidingVerbs.stranded, requests)

    def decision(self, decision_id: str) -> decisions.Report | decisions.Reports:
        """Return the report of a stored decision; UnknownName if it is not stored."""
        return self._call(DecidingVerbs.decision, decision_id)

    def plan(self, request: Request) -> PlanResult:
        """Decide, and return the plan of the decision, to be claimed or composed later."""
        return self._call(DecidingVerbs.plan, request)

    def refresh(self, plan: Plan) -> PlanRefresh:
        """Decide the request of a plan again, and report the changes since."""
        return self._call(DecidingVerbs.refresh, plan)


class ClaimingVerbs(Verbs, Protocol):
    """The part of a scheduler that claims hardware within the quotas of owners."""

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: decisions.Detail = "placements",
    ) -> lifecycle.ClaimResult:
        """Decide and hold the chosen blocks for ``ttl_s``; the same ``key`` returns the same claim.

        ClaimLost if every race was lost; NameTaken if the key belongs to another request.
        """
        return self._call(ClaimingVerbs.claim, request, key=key, ttl_s=ttl_s, detail=detail)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        """Hold exactly the blocks of a plan; errors as for ``check_plan`` and for a decision.

        ClaimLost if the plan is out of date, or its blocks are in use or rejected by the policy;
        InventoryIncomplete if a pod manager cannot be read; NameTaken for the key of another plan.
        """
        return self._call(ClaimingVerbs.claim_plan, plan, key=key, ttl_s=ttl_s)

    def check_plan(self, plan: Plan) -> None:
        """Raise AccessDenied for a plan of this zone without a valid signature of its service."""
        return self._call(ClaimingVerbs.check_plan, plan)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        """Return claims, of one pod manager or owner if given; ``ended`` includes ended claims."""
        return self._call(ClaimingVerbs.claims, podm=podm, owner=owner, ended=ended)

    def claim_record(self, claim_id: str) -> lifecycle.ClaimRecord:
        """Return a claim with its nodes and events; UnknownName for an unknown id."""
        return self._call(ClaimingVerbs.claim_record, claim_id)

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        """Let a held claim expire ``ttl_s`` from now; ClaimState if it is not held."""
        return self._call(ClaimingVerbs.renew, claim_id, ttl_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        """Release claims, even ended claims; yield the error of each failure."""
        return self._call(ClaimingVerbs.release, claim_ids)

    def audit(self, query: AuditQuery) -> Sequence[AuditLine]:
        """Return the newest changes that match a query, including refused changes."""
        return self._call(ClaimingVerbs.audit, query)

    def quotas(self) -> Sequence[Quota]:
        """Return all quotas; the first is the default quota, which has no owner."""
        return self._call(ClaimingVerbs.quotas)

    def quota(self, owner: str) -> Quota:
        """Return the effective limits and the usage of an owner."""
        return self._call(ClaimingVerbs.quota, owner)

    def set_quota(self, owner: str | None, limits: Mapping[str, float]) -> Quota:
        """Replace the limits of an owner (None: the default limits); return the effective quota.

        Present usage may exceed the new limits. InputError for an invalid resource or limit.
        """
        return self._call(ClaimingVerbs.set_quota, owner, limits)

    def change_quota(self, owner: str | None, limits: Mapping[str, float | None]) -> Quota:
        """Change some limits (None: the default limit); otherwise the same as ``set_quota``."""
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
        detail: decisions.Detail = "placements",
    ) -> lifecycle.ProvisionResult:
        """Decide, hold the chosen blocks, and have the pod managers compose the nodes.

        Same errors as ``claim``; ClaimState if the nodes of the key are being composed. Wait up to
        ``wait_s`` for a pod manager that is still composing.
        """
        verb = ComposingVerbs.compose
        return self._call(verb, request, key=key, ttl_s=ttl_s, wait_s=wait_s, detail=detail)

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> lifecycle.ProvisionResult:
        """Claim and compose a plan; same errors as ``claim_plan`` and ``compose_claim``."""
        return self._call(ComposingVerbs.compose_plan, plan, key=key, ttl_s=ttl_s, wait_s=wait_s)

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> lifecycle.ProvisionResult:
        """Have the pod managers compose the blocks of a claim; ClaimState if it is not held."""
        return self._call(ComposingVerbs.compose_claim, claim_id, wait_s=wait_s)

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[lifecycle.NodeStatus]:
        """Return composed nodes; with ``live`` as their pod managers report them now."""
        return self._call(ComposingVerbs.nodes, podm=podm, owner=owner, live=live)

    def node_record(self, node_id: str) -> lifecycle.NodeRecord:
        """Return a node by its id or URI, read from its pod manager; UnknownName if unknown."""
        return self._call(ComposingVerbs.node_record, node_id)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[SchedulerError]:
        """Decompose nodes; yield the error of each failure."""
        return self._call(ComposingVerbs.delete_nodes, node_ids, wait_s=wait_s)

    def change_node(
        self,
        node_id: str,
        change: NodeChange,
        *,
        key: str | None = None,
        wait_s: float = WAIT_S,
        dry_run: DryRun = False,
    ) -> NodeChangeResult:
        """Attach devices to a node and detach others; with ``dry_run``, only choose them.

        With ``dry_run="server"``, the pod manager is read to find a reason against the change.
        The same ``key`` changes the node only once. NothingFits is not raised: the result has the
        decision. ClaimLost if a block is in use, HardwareInUse if the node must be off for the
        change, DrainRefused if the site does not drain it, ComposeFailed if the pod manager
        refuses, Unverified if a part of the change may remain.
        """
        verb = ComposingVerbs.change_node
        return self._call(verb, node_id, change, key=key, wait_s=wait_s, dry_run=dry_run)

    def reconcile(
        self, *, dry_run: bool = False, keep_s: float = KEEP_S
    ) -> lifecycle.ReconcileResult:
        """Reconcile claims and nodes with the pod managers; delete claims ended ``keep_s`` ago."""
        return self._call(ComposingVerbs.reconcile, dry_run=dry_run, keep_s=keep_s)

    def preview(self, report: decisions.Report) -> Iterator[lifecycle.Preview]:
        """Ask the chosen pod managers whether they would compose the nodes of a decision.

        StaleOffer if the blocks are in use, do not match the request, or the policy rejects them.
        """
        return self._call(ComposingVerbs.preview, report)


class InventoryVerbs(Verbs, Protocol):
    """The part of a scheduler that lists hardware and stores reported statistics."""

    def inventory(self) -> decisions.InventorySummary:
        """Return the size of the inventory, without its digest."""
        return self._call(InventoryVerbs.inventory)

    def podms(self) -> Sequence[hardware.PodmOverview]:
        """Return the pod managers that decisions use."""
        return self._call(InventoryVerbs.podms)

    def podm(self, name: str) -> hardware.PodmOverview:
        """Return one pod manager by its id or its name, with its pools; UnknownName if unknown."""
        return self._call(InventoryVerbs.podm, name)

    def blocks(self, wanted: hardware.BlockFilter) -> Iterable[hardware.BlockOverview]:
        """Return the blocks that pass a filter; UnknownName for an unknown pod manager or pool."""
        return self._call(InventoryVerbs.blocks, wanted)

    def block(self, name: str, podm: str | None = None) -> hardware.BlockOverview:
        """Return a block by its URI or the last part of it; UsageError if several match."""
        return self._call(InventoryVerbs.block, name, podm)

    def pools(self, podm: str | None = None) -> Sequence[hardware.PoolOverview]:
        """Return the pools of all pod managers or of one."""
        return self._call(InventoryVerbs.pools, podm)

    def device_counts(self, wanted: hardware.BlockFilter) -> Sequence[hardware.DeviceCount]:
        """Count the devices of the filtered blocks by model; same errors as ``blocks``."""
        return self._call(InventoryVerbs.device_counts, wanted)

    def block_usage(self, podm: str) -> hardware.BlockUsage:
        """Return the blocks of a stored pod manager that are in use."""
        return self._call(InventoryVerbs.block_usage, podm)

    def documents(self) -> Iterator[FullPodm]:
        """Yield the pod managers that decisions use, without the hardware of claims."""
        return self._call(InventoryVerbs.documents)

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        """Store the statistics that a pod manager reports; return its generation.

        ``podm`` is its id, or host and node. Unknown fields become facts. InputError for an invalid
        value; nothing is stored.
        """
        return self._call(InventoryVerbs.update_resource_stats, podm, stats)

    def reported_stats(self, podm: str) -> hardware.StatsReport:
        """Return the reported statistics of a pod manager; UnknownName if it has none."""
        return self._call(InventoryVerbs.reported_stats, podm)

    def forget_report(self, podm: str) -> None:
        """Delete the reported statistics of a pod manager; UnknownName if it has none."""
        return self._call(InventoryVerbs.forget_report, podm)


class RegistryVerbs(Verbs, Protocol):
    """The part of a scheduler that registers pod managers, and lists policies and flavors."""

    def registration(self, name: str) -> RegisteredPodm:
        """Return the registration of a pod manager; UnknownName if unknown."""
        return self._call(RegistryVerbs.registration, name)

    def register(
        self,
        registration: Registration,
        *,
        password: str | None = None,
        check: bool = True,
        timeout_s: float = 30.0,
    ) -> RegisteredPodm:
        """Register a pod manager; with ``check``, it is first read once, within ``timeout_s``.

        A scheduler in this process stores the ``password`` beside the state.

        Raises:
            NameTaken, IdentityConflict: its name, or its service by another name, is registered.
            InputError: its URL, driver or name is invalid.
            PodmError, CredentialError: it cannot be read, or its password is missing.
        """
        verb = RegistryVerbs.register
        return self._call(verb, registration, password=password, check=check, timeout_s=timeout_s)

    def change_registration(
        self, name: str, change: RegistrationChange, *, password: str | None = None
    ) -> RegisteredPodm:
        """Change a registration; same errors as ``register``, and UnknownName."""
        return self._call(RegistryVerbs.change_registration, name, change, password=password)

    def unregister(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        """Unregister pod managers; yield the error of each failure."""
        return self._call(RegistryVerbs.unregister, names)

    def policies(self) -> Sequence[Policy]:
        """Return the policies that a request may name."""
        return self._call(RegistryVerbs.policies)

    def podm_reads(self, policy: str, flavor: str | None = None) -> PodmReads:
        """Return the fields of pod managers that decisions of a policy read."""
        return self._call(RegistryVerbs.podm_reads, policy, flavor)

    def flavors(self) -> Sequence[Flavor]:
        """Return the flavors that a request may name."""
        return self._call(RegistryVerbs.flavors)

    def plugins(self, kind: PluginKind) -> PluginList:
        """Return the installed filters or weighers, which policies may name."""
        return self._call(RegistryVerbs.plugins, kind)


class ZoneVerbs(Verbs, Protocol):
    """The part of a scheduler that manages its child zones."""

    def zone_info(self) -> zone_registry.ZoneInfo:
        """Return the name and the capabilities of the zone of the scheduler."""
        return self._call(ZoneVerbs.zone_info)

    def zones(self) -> Sequence[zone_registry.ZoneOverview]:
        """Return the child zones, with the results of polling them."""
        return self._call(ZoneVerbs.zones)

    def zone(self, name: str) -> zone_registry.ZoneOverview:
        """Return a child zone by its name or ID; UnknownName if unknown."""
        return self._call(ZoneVerbs.zone, name)

    def add_zone(self, registration: zone_registry.ZoneRegistration) -> zone_registry.ZoneOverview:
        """Register a child zone, without a connection to it.

        AccessDenied if child zones are disabled; InputError or NameTaken if the
        registration is invalid or its name is taken.
        """
        return self._call(ZoneVerbs.add_zone, registration)

    def change_zone(
        self, name: str, change: zone_registry.ZoneChange
    ) -> zone_registry.ZoneOverview:
        """Change the registration of a child zone; same errors as registering."""
        return self._call(ZoneVerbs.change_zone, name, change)

    def delete_zones(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        """Unregister child zones without calling them; yield the error of each failure."""
        return self._call(ZoneVerbs.delete_zones, names)

    def zone_tree(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> zone_registry.ZoneNode:
        """Return this zone and the zones below it, which are queried in parallel.

        At most ``hops`` levels are queried; a zone without an answer within ``deadline_s`` is
        silent. ``route`` are the ids of the zones above; they prevent loops.
        """
        return self._call(ZoneVerbs.zone_tree, hops=hops, deadline_s=deadline_s, route=route)

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> Sequence[zone_registry.ZoneNode]:
        """Return the trees of the child zones, in the form of ``zone_tree``."""
        return self._call(ZoneVerbs.zone_branches, hops=hops, deadline_s=deadline_s, route=route)


class Scheduler(
    DecidingVerbs, ClaimingVerbs, ComposingVerbs, InventoryVerbs, RegistryVerbs, ZoneVerbs, Protocol
):
    """Decides on requests, claims the hardware, and has pod managers compose the nodes."""


class OwnPodms(Verbs, Protocol):
    """The pod managers of a zone itself, without those of child zones.

    In all verbs ``earlier`` are the candidates that the tokens of a query name, ``others`` are the
    candidates of other requests.
    """

    def seal(self, request: Request) -> zone.SealedRequest:
        """Return a request in the form sent to every zone; same errors as a decision."""
        return self._call(OwnPodms.seal, request)

    def offers(
        self,
        query: zone.OfferQuery,
        earlier: Sequence[decisions.Candidate],
        others: Sequence[zone.OtherCandidate] = (),
    ) -> zone.ZoneAnswer:
        """Return the offers of these pod managers, without tokens; same errors as a decision."""
        return self._call(OwnPodms.offers, query, earlier, others)

    def group_state(
        self,
        query: zone.OfferQuery,
        earlier: Sequence[decisions.Candidate],
        others: Sequence[zone.OtherCandidate] = (),
    ) -> GroupState:
        """Return the group state of the request on these pod managers, including the candidates."""
        return self._call(OwnPodms.group_state, query, earlier, others)

    def mix_supplies(
        self, query: zone.OfferQuery, others: Sequence[zone.OtherCandidate] = ()
    ) -> zone.ZoneSupplies:
        """Return the supplies of these pod managers for the mix, with the candidates placed."""
        return self._call(OwnPodms.mix_supplies, query, others)

    def complete_mix(self, request: Request, supplies: Mapping[str, MixSupplies]) -> Request:
        """Return a sealed request with its mix completed by the supplies of all pools."""
        return self._call(OwnPodms.complete_mix, request, supplies)

    def claim_candidates(
        self,
        request: Request,
        candidates: Sequence[decisions.Candidate],
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        content: str | None = None,
        generation: int | None = None,
    ) -> Claim:
        """Hold exactly these candidates for a request; same errors as a claim."""
        options: dict[str, Any] = {"key": key, "ttl_s": ttl_s, "content": content}
        verb = OwnPodms.claim_candidates
        return self._call(verb, request, candidates, generation=generation, **options)


class OwnScheduler(Scheduler, OwnPodms, Protocol):
    """A scheduler over the pod managers of a zone itself."""
