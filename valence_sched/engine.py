# SPDX-License-Identifier: Apache-2.0
"""Engine: the scheduler in this process, over one selection of pod managers."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import asdict, replace

from valence_sched.config.settings import ZONES_FILE
from valence_sched.core.plugins import plugin_list
from valence_sched.core.policy import fields_read
from valence_sched.errors import (
    AccessDenied,
    CredentialError,
    InventoryIncomplete,
    NoPodm,
    RequestError,
    SchedulerError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched.lifecycle.decision_result import (
    decision_result,
    decision_results,
    inventory_summary,
)
from valence_sched.lifecycle.intake import Intake
from valence_sched.model.claim import ACTIVE_STATES, FINAL_STATES, KEEP_S, TTL_S, WAIT_S
from valence_sched.model.codec import decode
from valence_sched.model.decision import DecisionResult, DecisionResults, Detail, FitCounts, Ranking
from valence_sched.model.diagnostic import awaiting
from valence_sched.model.effect import AuditLine, AuditQuery, EffectLog
from valence_sched.model.hardware import BlockUsage, StatsReport, block_usage
from valence_sched.model.http_headers import MOST_HOPS
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.policy import PluginKind, PluginList, PodmReads, Policy
from valence_sched.model.quantity import age_s, format_count
from valence_sched.model.quota import Quota, check_limits, check_owner
from valence_sched.model.reading import DEFAULT_SELECTION, Selection
from valence_sched.model.registration import PodmReading, RegisteredPodm
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scheduler import TREE_S, OwnScheduler
from valence_sched.model.stats import podm_id
from valence_sched.model.zone import SealedRequest
from valence_sched.view import hardware
from valence_sched.view.builder import ViewBuilder

if TYPE_CHECKING:
    from valence_sched.config.settings import Configuration
    from valence_sched.core.decider import Decider
    from valence_sched.inventory.loader import InventoryLoader
    from valence_sched.inventory.registry import Registry
    from valence_sched.inventory.sources import SourceReader
    from valence_sched.lifecycle.access import PodmAccess
    from valence_sched.lifecycle.claim import Claimer
    from valence_sched.lifecycle.plan import PlanClaimer, Planner
    from valence_sched.lifecycle.stored_deciders import StoredDeciders
    from valence_sched.model.capacity import Capacity, StrandedAmount
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import Candidate, InventorySummary, Report, Reports
    from valence_sched.model.diagnostic import Diagnostic
    from valence_sched.model.dispatch import Receipt
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.hardware import (
        BlockFilter,
        BlockOverview,
        DeviceCount,
        PodmOverview,
        PoolOverview,
    )
    from valence_sched.model.lifecycle import (
        ClaimRecord,
        ClaimResult,
        NodeRecord,
        NodeStatus,
        Preview,
        ProvisionResult,
        ReconcileResult,
    )
    from valence_sched.model.plan import Plan, PlanRefresh, PlanResult
    from valence_sched.model.registration import Registration, RegistrationChange
    from valence_sched.model.request import Request
    from valence_sched.model.zone import ZoneSettings
    from valence_sched.model.zone_registry import (
        ZoneChange,
        ZoneInfo,
        ZoneNode,
        ZoneOverview,
        ZoneRegistration,
    )
    from valence_sched.planning.capacity import SiteCapacity
    from valence_sched.store.store import Store
    from valence_sched.view.view import View
    from valence_sched.zones.children import ZoneRegistry
    from valence_sched.zones.tokens import PlanSignatures

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", DecisionResult, DecisionResults)


class Engine(OwnScheduler):
    """Implements every verb of a scheduler on the pod managers that ``selection`` names.

    What it decides on is read once, when a verb first needs it, and again after a verb changed
    it; flavors once. Where the selection is of what the state stores, every verb takes in what
    changed there since the last one, by its change log, and reads nothing live. The progress of
    ``sources`` is told whom a verb waits for. ``effects`` has what a verb has changed, and is about
    to change, also while it runs.
    """

    def __init__(
        self,
        config: Configuration,
        sources: SourceReader,
        loader: InventoryLoader,
        selection: Selection = DEFAULT_SELECTION,
        *,
        effects: EffectLog | None = None,
    ) -> None:
        self._config, self._sources = config, sources
        self._selection, self._live = selection, selection.live
        self._intake = Intake(config, sources, loader, selection)
        self._effects = effects if effects is not None else EffectLog()
        self._view: View | None = None
        self._decider: Decider | None = None
        self._stored: StoredDeciders | None = None
        self._is_stored = selection.live.stored and not sources.named_sources(selection)

    def close(self) -> None:
        """Close the state, if it is followed."""
        if self._stored is not None:
            self._stored.store.close()
            self._stored = None

    @property
    def follows(self) -> bool:
        """Return whether each verb takes in what changed in the state."""
        return self._is_stored

    @property
    def changes(self) -> int:
        """Return how many changes of the change log are taken in, 0 where none is followed."""
        return self._stored.changes if self._stored is not None else 0

    @functools.cached_property
    def _registry(self) -> Registry:
        return self._sources.registry(self._live.state)

    @functools.cached_property
    def _zone_settings(self) -> ZoneSettings:
        return self._selection.zones or self._config.zones()

    @functools.cached_property
    def _zones(self) -> ZoneRegistry:
        from valence_sched.zones.children import ZoneRegistry  # HTTP and SQL: only for zones

        here = "the section zones of the settings of the service"
        file = here if self._selection.zones else str(self._config.user_file(ZONES_FILE))
        return ZoneRegistry(self._zone_settings, file, self._registry, self._config.zone_password)

    @functools.cached_property
    def _flavors(self) -> Sequence[Flavor]:
        return tuple(self._config.flavors(self._selection.flavor_files).values())

    def _call(self, verb: Callable[Concatenate[Any, P], T], *words: P.args, **named: P.kwargs) -> T:
        # what a zone above asks of its own pod managers; all else is carried out here
        answer: T = getattr(self._zone_decider(), verb.__name__)(*words, **named)
        return answer

    def rank(self, request: Request, limit: int) -> Ranking:
        return self.decider().rank(request, limit)

    def compile_request(self, spec: RequestSpec) -> Request:
        self._config.check_request(spec)
        flavor = self._flavor(spec.flavor) if spec.flavor is not None else None
        return self._config.compile_request(spec, flavor, self._selection.near_maps)

    def select_destinations(
        self, request: Request, *, detail: Detail = "placements"
    ) -> DecisionResult:
        decider = self.decider()
        with awaiting(self._sources.progress, request.flavor or "the request", "deciding"):
            result = decision_result(decider.select_destinations(request), detail)
        return self._no_outage([request], result)

    def select_all(
        self, requests: Sequence[Request], *, detail: Detail = "placements"
    ) -> DecisionResults:
        from valence_sched.planning.batches import decide_all

        decider = self.decider()
        with awaiting(self._sources.progress, format_count(len(requests), "request"), "deciding"):
            result = decision_results(decide_all(decider, requests), detail)
        return self._no_outage(requests, result)

    def seal(self, request: Request) -> SealedRequest:
        decider = self._zone_decider()
        sealed = decider.seal(request)
        policy, most_cost = decider.policy(sealed)
        return SealedRequest(
            request=sealed,
            policy=policy,
            most_cost=most_cost,
            inventory=inventory_summary(decider.snapshot()),
            needs_supplies=decider.needs_supplies(sealed),
        )

    def count_fits(self, request: Request, most: int) -> FitCounts:
        from valence_sched.planning.fit_counts import count_fits

        decider = self.decider()
        with awaiting(self._sources.progress, request.flavor or "the request", "counting nodes"):
            counts = count_fits(decider, request, most)
        if not any(number for _, number in counts.podms):
            self._refuse_outage([request])
        return counts

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        with self._capacity(request.flavor or "the request", "counting nodes") as site:
            found = site.capacity(request, most, explain=explain, proven=proven)
        if not found.nodes:
            self._refuse_outage([request])
        return found

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        _refuse_none(requests)
        with self._capacity("the mix", "counting nodes") as site:
            found = site.mix_capacity(requests, shares, most, explain=explain, proven=proven)
        if not found.nodes:
            self._refuse_outage(requests)
        return found

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        _refuse_none(requests)
        with self._capacity("the site", "being filled with nodes") as site:
            return site.stranded(requests)

    @contextlib.contextmanager
    def _capacity(self, name: str, doing: str) -> Iterator[SiteCapacity]:
        from valence_sched.planning.capacity import SiteCapacity  # only to count

        decider = self.decider()
        with awaiting(self._sources.progress, name, doing):
            yield SiteCapacity(decider)

    def _of_state(self, read: Callable[[Store], T], without: T) -> T:
        """Return what is read of the store, and ``without`` a state that."""
        if self._registry.empty:
            return without
        with self._registry.store() as store:
            return read(store)

    def decision(self, decision_id: str) -> Report | Reports:
        with self._registry.store() as store:
            return store.decisions.get(decision_id)

    def policies(self) -> Sequence[Policy]:
        return list(self._config.policies(self._selection.policy_files).values())

    def podm_reads(self, policy: str, flavor: str | None = None) -> PodmReads:
        known = self._config.policies(self._selection.policy_files)
        if policy not in known:
            raise UnknownName("policy", policy, known)
        request = None
        if flavor is not None:
            found = self._flavor(flavor)
            request = self._config.compile_request(RequestSpec(flavor=found.name), found)
        resources = self._config.resources(self._selection.resource_files)
        fields = fields_read(known[policy], request, resources)
        return PodmReads(policy=policy, flavor=flavor, fields=fields)

    def _flavor(self, name: str) -> Flavor:
        for flavor in self._flavors:
            if name in (flavor.name, flavor.uuid):
                return flavor
        raise UnknownName("flavor", name, [flavor.name for flavor in self._flavors])

    def flavors(self) -> Sequence[Flavor]:
        return self._flavors

    def plugins(self, kind: PluginKind) -> PluginList:
        return plugin_list(kind)

    def inventory(self) -> InventorySummary:
        return inventory_summary(self.view())

    def podms(self) -> Sequence[PodmOverview]:
        return self._with_read_times(hardware.overviews(self.view(), self._sources.live_ids))

    def podm(self, name: str) -> PodmOverview:
        found = hardware.overview(self.view(), name, self._sources.live_ids)
        return self._with_read_times([found])[0]

    def blocks(self, wanted: BlockFilter) -> Iterator[BlockOverview]:
        return hardware.blocks(self.view(), wanted)

    def block(self, name: str, podm: str | None = None) -> BlockOverview:
        return hardware.block(self.view(), name, podm)

    def pools(self, podm: str | None = None) -> Sequence[PoolOverview]:
        return list(hardware.pools(self.view(), podm))

    def device_counts(self, wanted: BlockFilter) -> Sequence[DeviceCount]:
        return hardware.device_counts(self.view(), wanted)

    def block_usage(self, podm: str) -> BlockUsage:
        def read(store: Store) -> BlockUsage:
            stored = store.load_podms([podm]).get(podm)
            return block_usage(podm, stored, store.claims.list(podm=podm), store.nodes.list(podm))

        return self._of_state(read, BlockUsage())

    def registration(self, name: str) -> RegisteredPodm:
        members = self._registry.members(self._live)
        for member in members:
            if member.registration.name == name:
                return RegisteredPodm(registration=member.registration, source=member.source)
        known = [member.registration.name for member in members]
        raise UnknownName("registered pod manager", name, known, self._registry.where)

    def register(
        self,
        registration: Registration,
        *,
        password: str | None = None,
        check: bool = True,
        timeout_s: float = 30.0,
    ) -> RegisteredPodm:
        name, registry, progress = registration.name, self._registry, self._sources.progress
        registry.check_new(registration)
        podm: FullPodm | None = None
        reading: PodmReading | None = None
        diagnostics: tuple[Diagnostic, ...] = ()
        if check:
            with awaiting(progress, name, "reading"):
                podm, diagnostics = registry.check(registration, password, timeout_s)
            counts = {what: len(getattr(podm, what)) for what in ("blocks", "pools", "nodes")}
            reading = PodmReading(status=podm.status, driver=podm.driver, **counts)
        with self._registering(name, "registered"):
            registered = registry.create(registration, password, podm)
        found = RegisteredPodm(registration=registered, source=registry.where)
        return replace(found, reading=reading, diagnostics=diagnostics)

    def change_registration(
        self, name: str, change: RegistrationChange, *, password: str | None = None
    ) -> RegisteredPodm:
        changed = change.applied_to(self._registry.get(name))
        with self._registering(name, "changed"):
            self._registry.change(changed, password)
        return RegisteredPodm(registration=changed, source=self._registry.where)

    def unregister(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        def unregister(name: str) -> None:
            with self._change("pod manager", name, "deleted"):
                self._registry.delete(name)

        yield from _each(unregister, names)

    @contextlib.contextmanager
    def _registering(self, name: str, done: str) -> Iterator[None]:
        with (
            self._change("pod manager", name, done),
            awaiting(self._sources.progress, name, "asking who it is"),
        ):
            yield
        self._view = self._decider = None

    def documents(self) -> Iterator[FullPodm]:
        _, podms = self._intake.loader.view_and_podms(self._selection)
        for number, podm in enumerate(podms):
            yield decode(to_json(podm), FullPodm, "the inventory", f"$.podms[{number}]")

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        with self._changing_store() as store, self._change("stats", podm_id(podm), "stored"):
            return store.update_stats(podm, dict(stats))

    def reported_stats(self, podm: str) -> StatsReport:
        reports, ages_s, times = self._reports()
        if podm not in reports:
            raise self._never_reported(podm, reports)
        return StatsReport(stats=reports[podm], age_s=ages_s.get(podm), at=times.get(podm))

    def _reports(self) -> tuple[Mapping[str, Any], Mapping[str, float], Mapping[str, float]]:
        """Return what pod managers reported, and how old the reports are, and when they came."""
        if self._registry.empty:
            return {}, {}, {}
        with self._registry.store() as store:
            return store.reported_stats(), store.report_ages_s(), store.report_times()

    def forget_report(self, podm: str) -> None:
        if self._registry.empty:
            raise self._never_reported(podm, ())
        with self._changing_store() as store, self._change("stats", podm, "forgotten"):
            store.forget_report(podm)

    def zone_info(self) -> ZoneInfo:
        from valence_sched.zones.report import zone_info

        reports, ages_s, _ = self._reports()
        podms = self._podms_of_zone()
        enabled = (one.report for one in self._zones.list() if one.registration.enabled)
        below = [one.info for one in enabled if one.is_active and one.info is not None]
        return zone_info(self._zones.own_id(), self._zone_settings, podms, reports, ages_s, below)

    def zones(self) -> Sequence[ZoneOverview]:
        return self._zones.list()

    def zone(self, name: str) -> ZoneOverview:
        return self._zones.show(name)

    def add_zone(self, registration: ZoneRegistration) -> ZoneOverview:
        with self._change("zone", registration.name, "added"):
            return self._zones.add(registration)

    def change_zone(self, name: str, change: ZoneChange) -> ZoneOverview:
        with self._change("zone", name, "changed"):
            return self._zones.change(name, change)

    def delete_zones(self, names: Sequence[str]) -> Iterator[SchedulerError]:
        def delete(name: str) -> None:
            with self._change("zone", name, "deleted"):
                self._zones.delete(name)

        yield from _each(delete, names)

    def zone_tree(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> ZoneNode:
        from valence_sched.model.zone_registry import ZoneNode
        from valence_sched.zones.report import own_amounts

        podms = self._podms_of_zone()
        now = self._sources.now()
        times = (one.podm.read_at for one in podms)
        ages_s = {at: age for at in times if (age := age_s(at, now)) is not None}
        oldest = max(ages_s, key=ages_s.__getitem__, default=None)
        return ZoneNode(
            name=self._zone_settings.name,
            own=own_amounts(podms),
            age_s=ages_s.get(oldest),
            read_at=oldest,
            children=tuple(self.zone_branches(hops=hops, deadline_s=deadline_s, route=route)),
        )

    def zone_branches(
        self, *, hops: int = MOST_HOPS, deadline_s: float = TREE_S, route: Sequence[str] = ()
    ) -> Sequence[ZoneNode]:
        return self._zones.branches(hops, deadline_s, route)

    def _podms_of_zone(self) -> Sequence[PodmOverview]:
        try:
            return self.podms()
        except NoPodm:
            return ()

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> ClaimResult:
        from valence_sched.model.lifecycle import ClaimResult

        self._refuse_recordings("claimed")
        with (
            self._changing_store() as store,
            self._claimer(store) as claimer,
            self._naming_outage(request),
        ):
            outcome = claimer.claim(
                request, key=key, ttl_s=ttl_s, dispatched=self._selection.dispatches
            )
        decision = None
        if outcome.decision:
            decision = self._no_outage([request], decision_result(outcome.decision, detail))
        return ClaimResult(claim=outcome.claim, decision=decision, retries=outcome.retries)

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
        self._refuse_recordings("claimed")
        with self._changing_store() as store, self._claimer(store) as claimer:
            return claimer.claim_candidates(
                request, candidates, key=key, ttl_s=ttl_s, content=content, generation=generation
            )

    def compose(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = WAIT_S,
        detail: Detail = "placements",
    ) -> ProvisionResult:
        self._refuse_recordings("composed")
        with (
            self._access(wait_s, ttl_s) as access,
            self._claimer(access.store) as claimer,
            self._naming_outage(request),
        ):
            provisioner = access.provisioner(claimer)
            result = provisioner.provision(request, key=key, ttl_s=ttl_s, detail=detail)
        if result.decision is not None:
            self._no_outage([request], result.decision)
        return result

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> ProvisionResult:
        with self._access(wait_s) as access:
            return access.provisioner().compose_claim(claim_id)

    def claims(
        self, *, podm: str | None = None, owner: str | None = None, ended: bool = False
    ) -> Sequence[Claim]:
        if self._registry.empty:
            return ()
        states = (*ACTIVE_STATES, *FINAL_STATES) if ended else ACTIVE_STATES
        with self._registry.store() as store:
            store.claims.expire()
            return store.claims.list(states, podm, owner)

    def claim_record(self, claim_id: str) -> ClaimRecord:
        from valence_sched.model.lifecycle import ClaimRecord

        if self._registry.empty:
            raise UnknownName("claim", claim_id, (), self._registry.where)
        with self._registry.store() as store:
            store.claims.expire()
            claim = store.claims.show(claim_id)
            events, nodes = store.events(claim.id), store.nodes.list(claim=claim.id)
        return ClaimRecord(claim=claim, nodes=tuple(nodes), events=tuple(events))

    def renew(self, claim_id: str, ttl_s: float = TTL_S) -> Claim:
        with self._registry.store() as store, self._change("claim", claim_id, "renewed"):
            store.claims.expire()
            return store.claims.renew(claim_id, ttl_s)

    def release(self, claim_ids: Sequence[str]) -> Iterator[SchedulerError]:
        with self._changing_store() as store:

            def release(id_: str) -> None:
                with (
                    self._change("claim", id_, "released"),
                    awaiting(self._sources.progress, f"claim {id_}", "releasing"),
                ):
                    store.claims.release(id_)

            yield from _each(release, claim_ids)

    def reconcile(self, *, dry_run: bool = False, keep_s: float = KEEP_S) -> ReconcileResult:
        from valence_sched.model.lifecycle import ReconcileResult

        if self._registry.empty:
            return ReconcileResult()
        with self._access() as access:
            actions = []
            for action in access.reconciler(dry_run=dry_run).reconcile():
                actions.append(action)
                if not dry_run:
                    self._effects.note(action.kind, action.id, f"of {action.podm}: {action.done}")
            purged = access.store.purge(keep_s, dry_run=dry_run)
            found = access.store.claims.list(("COMPOSING",))
        reconciled = {action.id for action in actions}
        return ReconcileResult(
            actions=tuple(actions),
            composing=tuple(replace(one, parts=()) for one in found if one.id not in reconciled),
            forgotten_claims=purged.claims,
            forgotten_decisions=purged.decisions,
        )

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[NodeStatus]:
        if self._registry.empty and not live:
            return ()
        with self._access() as access:
            statuses = access.nodes(podm, live=live)
        return [status for status in statuses if owner in (None, status.node.owner)]

    def node_record(self, node_id: str) -> NodeRecord:
        from valence_sched.model.lifecycle import NodeRecord

        with self._access() as access:
            node = access.store.nodes.show(node_id)
            events = tuple(access.store.events(node.claim))
            status = access.node_status(node)
        return NodeRecord(**asdict(status), events=events)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[SchedulerError]:
        with self._access(wait_s) as access:
            nodes = access.store.nodes
            yield from _each(lambda id_: access.composer.remove(nodes.show(id_)), node_ids)

    def audit(self, query: AuditQuery) -> Sequence[AuditLine]:
        return self._of_state(lambda store: store.audit.newest(query), [])

    def quotas(self) -> Sequence[Quota]:
        return self._of_state(lambda store: tuple(store.quotas.list()), ())

    def quota(self, owner: str) -> Quota:
        check_owner(owner)
        return self._of_state(lambda store: store.quotas.show(owner), Quota(owner=owner))

    def set_quota(self, owner: str | None, limits: Mapping[str, float]) -> Quota:
        return self._limit(owner, limits, keep=False)

    def change_quota(self, owner: str | None, limits: Mapping[str, float | None]) -> Quota:
        return self._limit(owner, limits, keep=True)

    def _limit(self, owner: str | None, limits: Mapping[str, float | None], *, keep: bool) -> Quota:
        check_owner(owner)
        check_limits(limits, "limits")
        name = owner if owner is not None else "of all owners"
        with self._registry.store() as store, self._change("quota", name, "set"):
            return store.quotas.change(owner, limits, keep=keep)

    def preview(self, report: Report) -> Iterator[Preview]:
        from valence_sched.planning.succession import verify

        self._refuse_recordings("asked for a preview")
        decider, chosen = self.decider(), [one.chosen for one in report.placements]
        with self._access() as access:
            here = [one for one in chosen if one.podm in access.members]  # no other is asked
            verify(decider, report.request, here, elsewhere=True)
            yield from map(access.preview, report.placements)

    def plan(self, request: Request) -> PlanResult:
        from valence_sched.model.plan import PlanResult

        texts: dict[str, bytes] = {}
        policies = self._intake.policies()
        decider = self._intake.decider(self._intake.view(texts), policies)
        decision = decider.select_destinations(request)
        result = self._no_outage([request], decision_result(decision, "report"))
        if not result.report.placements:
            return PlanResult(decision=result)
        plan = self._planner.plan(result.report, texts)
        signatures = self._plan_signatures
        return PlanResult(decision=result, plan=signatures.sign(plan) if signatures else plan)

    def check_plan(self, plan: Plan) -> None:
        if self._serves and self._plan_signatures is not None:
            self._plan_signatures.check(plan)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        self.check_plan(plan)
        self._refuse_recordings("claimed")
        with self._changing_store() as store, self._plan_claimer(store, plan) as claimer:
            claim = claimer.claim(
                plan.decision.request, key=key, ttl_s=ttl_s, dispatched=self._selection.dispatches
            ).claim
        assert claim is not None, "the first time a plan is claimed whole, or that is an error"
        return claim

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> ProvisionResult:
        self.check_plan(plan)
        self._refuse_recordings("composed")
        with (
            self._access(wait_s, ttl_s) as access,
            self._plan_claimer(access.store, plan) as claimer,
        ):
            claimer.earlier_claim(key)
            provisioner = access.provisioner(claimer)
            result = provisioner.provision(plan.decision.request, key=key, ttl_s=ttl_s)
        return replace(result, claim_lost=result.claim_lost or claimer.claim_lost)

    def refresh(self, plan: Plan) -> PlanRefresh:
        self.check_plan(plan)
        return self._planner.refresh(plan)

    def dispatch(
        self,
        target: str,
        report: Report,
        *,
        key_variable: str | None = None,
        timeout_s: float = 30.0,
    ) -> Sequence[Receipt]:
        """Hand a whole report to another system that composes; errors as for a dispatch.

        The report is one of :meth:`App.dispatchable <valence_sched.app.App.dispatchable>`.
        """
        from valence_sched.lifecycle.dispatch import dispatch

        environ = self._config.environ
        with awaiting(self._sources.progress, target.partition("=")[0], "taking the decision"):
            return dispatch(
                target, report, environ=environ, key_variable=key_variable, timeout_s=timeout_s
            )

    def view(self) -> View:
        """Return the snapshot that is decided on; it is read now if it was not yet."""
        if self._is_stored:
            return self.decider().snapshot()
        if self._view is None:
            self._view = self._intake.view()
        return self._view

    def decider(self) -> Decider:
        """Return the decider on that snapshot."""
        if self._is_stored:
            return self._followed().decider()
        if self._decider is None:
            policies = self._intake.policies()
            self._decider = self._intake.decider(self.view(), policies)
        return self._decider

    def _zone_decider(self) -> Decider:
        """Return the decider, in a zone without pod managers of its own one on none."""
        try:
            return self.decider()
        except NoPodm:
            return self._decider_on_none

    @functools.cached_property
    def _decider_on_none(self) -> Decider:
        return self._intake.decider(ViewBuilder().view(), self._intake.policies())

    @contextlib.contextmanager
    def _changing_store(self) -> Iterator[Store]:
        """Yield the store; the next decision reads again what it decides on."""
        self._view = self._decider = None
        if self._is_stored:
            yield self._followed(create=True).store
            return
        with self._registry.store(self._effects) as store:
            yield store

    def _followed(self, *, create: bool = False) -> StoredDeciders:
        """Return what follows the state; a state that is not there is made only to ``create``."""
        if self._stored is None:
            if self._registry.empty and not create:
                raise NoPodm(self._sources.no_podm_message(self._live))
            from valence_sched.lifecycle.stored_deciders import StoredDeciders  # SQL

            self._stored = StoredDeciders(self._intake, self._registry.store(self._effects))
        return self._stored

    @contextlib.contextmanager
    def _claimer(self, store: Store) -> Iterator[Claimer]:
        """Yield the claimer of a selection; of stored pod managers it reads none."""
        if self._is_stored:
            with self._followed().claimer() as claimer:
                yield claimer
        else:
            yield self._intake.claimer(store)

    def _with_read_times(self, overviews: Sequence[PodmOverview]) -> Sequence[PodmOverview]:
        return self._followed().with_read_times(overviews) if self._is_stored else overviews

    @contextlib.contextmanager
    def _access(self, wait_s: float = WAIT_S, ttl_s: float = 0.0) -> Iterator[PodmAccess]:
        """Yield the store and the live pod managers, as for a change.

        A claim that is composed has ``ttl_s`` for it, or longer where all waiting may take longer.
        """
        from valence_sched.lifecycle.access import PodmAccess  # HTTP and SQL: only to compose
        from valence_sched.lifecycle.guard import HardwareGuard

        members = [member.registration for member in self._registry.members(self._live)]
        with self._changing_store() as store:
            known = store.identities()
            yield PodmAccess(
                store,
                {
                    one.name: replace(one, identity=one.identity or known.get(one.name))
                    for one in members
                },
                self._registry.password,
                timeout_s=self._live.timeout_s,
                patience_s=wait_s,
                ttl_s=ttl_s,
                progress=self._sources.progress,
                guard=HardwareGuard(self._config.baremetals),
            )

    def _change(self, kind: str, id_: str, done: str) -> contextlib.AbstractContextManager[None]:
        """Note a change that a block makes; ``done`` is a participle."""
        return self._effects.change(kind, id_, f"may be {done}", f"is {done}")

    def _refuse_recordings(self, what: str) -> None:
        """Refuse to act on a selection with inventories: each is a recording, whatever its age."""
        if self._sources.named_sources(self._selection):
            raise UsageError(
                f"nothing is {what} on a recording: leave --inventory (and "
                "VALENCE_SCHED_INVENTORY) out and register the pod manager, which is then read "
                "live (podm create NAME URL), or save a plan (podm schedule --plan FILE) and "
                "apply it (podm apply FILE)"
            )

    def _no_outage(self, requests: Sequence[Request], result: R) -> R:
        """Return a result, unless nothing fits only because no pod manager could be read."""
        if result.report.outcome == "nothing_fits":
            self._refuse_outage(requests)
        return result

    @contextlib.contextmanager
    def _naming_outage(self, request: Request) -> Iterator[None]:
        """Tell a pod manager that could not be read from one that is not there."""
        try:
            yield
        except UnknownName:
            self._refuse_outage([request])
            raise

    def _refuse_outage(self, requests: Sequence[Request]) -> None:
        """Raise InventoryIncomplete if no pod manager could be read that requests may be placed on.

        These are all, unless each of the requests names some.
        """
        known = self._sources.live_ids
        if self._is_stored or self._view is not None:
            known = {podm.id for podm in self.view().podms}
        if all(request.podms for request in requests):
            known = {name for request in requests for name in request.podms}
        if not known or not known <= self._sources.unread_ids:
            return
        starts = tuple(f"{name}: " for name in known)
        unread = self._sources.diagnostics.lines("unread")
        lines = [line for line in unread if line.startswith(starts)]
        if len(lines) == 1:
            raise InventoryIncomplete(one_line(f"no pod manager could be read: {lines[0]}"))
        raise InventoryIncomplete(
            f"none of {len(known):,} pod managers could be read: check that they run and that "
            "their URLs are right (podm check)"
        )

    @contextlib.contextmanager
    def _plan_claimer(self, store: Store, plan: Plan) -> Iterator[PlanClaimer]:
        """Yield the claimer of a plan, once its pod managers were read; errors as of a planner."""
        stored = self._followed().claimer() if self._is_stored else contextlib.nullcontext()
        with stored as claimer:
            yield self._planner.claimer(store, plan, claimer)

    @property
    def _serves(self) -> bool:
        """Return whether the engine is that of a service: clients have no say in its plans."""
        return self._selection.zones is not None

    @functools.cached_property
    def _plan_signatures(self) -> PlanSignatures | None:
        """Return what signs and verifies plans; None where a program has no key for that.

        Raises:
            AccessDenied: it is that of a service, which has to have one.
            CredentialError: the key of a program cannot be had.
        """
        try:
            keys = self._registry.zone_keys(self._zone_settings, make=self._serves)
        except CredentialError as error:
            if not self._serves:
                raise
            LOG.error("plans are refused: %s", error)
            hint = "its operator names one in zones: secrets of its settings"
            raise AccessDenied(f"this service has no key that signs plans: {hint}") from None
        if not keys:
            return None
        from valence_sched.zones.tokens import PlanSignatures  # only for plans

        return PlanSignatures(keys)

    @functools.cached_property
    def _planner(self) -> Planner:
        from valence_sched.lifecycle.plan import Planner

        return Planner(self._intake)

    def _never_reported(self, podm: str, known: Iterable[str]) -> UnknownName:
        return UnknownName("pod manager that reported", podm, known, self._registry.where)


def _refuse_none(requests: Sequence[Request]) -> None:
    if not requests:
        raise RequestError("no request: name at least one flavor")


def _each(change: Callable[[str], object], names: Iterable[str]) -> Iterator[SchedulerError]:
    """Call a change for each name; yield its errors, and go on with the other names."""
    for name in dict.fromkeys(names):
        try:
            change(name)
        except SchedulerError as error:
            yield error
