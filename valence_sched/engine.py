# SPDX-License-Identifier: Apache-2.0
"""Engine: the scheduler in this process, over one selection of pod managers."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.config.settings import ZONES_FILE, Configuration
from valence_sched.core.explain.report import decision_result, inventory_summary
from valence_sched.core.plugins import plugin_list
from valence_sched.core.policy import fields_read
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.state_verbs import StateVerbs
from valence_sched.model import codec, diagnostic, lifecycle, reading, scheduler, zone
from valence_sched.model.claim import KEEP_S, NO_USAGE, TTL_S, WAIT_S, remaining_podm
from valence_sched.model.decision import DecisionResult, DecisionResults, Detail, FitCounts, Ranking
from valence_sched.model.diagnostic import awaiting
from valence_sched.model.inventory import FullPodm, LeanPodm, to_json
from valence_sched.model.policy import PluginKind, PluginList, PodmReads, Policy
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request, asked_content
from valence_sched.model.request_spec import RequestSpec
from valence_sched.view import hardware
from valence_sched.view.builder import ViewBuilder

if TYPE_CHECKING:
    from valence_sched.core.decider import Decider
    from valence_sched.core.decision import Decision
    from valence_sched.inventory.loader import InventoryLoader
    from valence_sched.inventory.sources import SourceReader
    from valence_sched.lifecycle.access import PodmAccess
    from valence_sched.lifecycle.change import Drain
    from valence_sched.lifecycle.claim import Claimer
    from valence_sched.lifecycle.drain import SiteDrain
    from valence_sched.lifecycle.plan import PlanClaimer, Planner
    from valence_sched.lifecycle.stored_deciders import StoredDeciders
    from valence_sched.model import hardware as nouns
    from valence_sched.model.capacity import Capacity, StrandedAmount
    from valence_sched.model.claim import Claim, ComposedNode, NodeShrink, Usage
    from valence_sched.model.decision import Candidate, InventorySummary, Report
    from valence_sched.model.dispatch import Receipt
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.node_change import DryRun, NodeChange, NodeChangeResult
    from valence_sched.model.plan import Plan, PlanRefresh, PlanResult
    from valence_sched.planning.capacity import SiteCapacity
    from valence_sched.store.store import Store
    from valence_sched.view.view import View
    from valence_sched.zones.children import ZoneRegistry
    from valence_sched.zones.tokens import PlanSignatures

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", DecisionResult, DecisionResults)


class Engine(scheduler.OwnScheduler):
    """Implements every verb of a scheduler on the pod managers that ``selection`` names.

    The snapshot to decide on is read when a verb first needs it, and again after a verb changed the
    state. Flavors are read once. For stored pod managers, every verb applies the new part of the
    change log, and reads no pod manager live. While a verb waits, the progress of ``sources`` shows
    the reason. ``effects`` notes the changes of a verb, even while it runs. ``drain`` returns the
    hook of the site that drains nodes, if any.
    """

    def __init__(
        self,
        config: Configuration,
        sources: SourceReader,
        loader: InventoryLoader,
        selection: reading.Selection = reading.DEFAULT_SELECTION,
        *,
        effects: diagnostic.EffectLog | None = None,
        drain: Callable[[], SiteDrain | None] = lambda: None,
    ) -> None:
        self._config, self._sources, self._site_drain = config, sources, drain
        self._selection, self._live = selection, selection.live
        self._intake = Intake(config, sources, loader, selection)
        self._effects = effects if effects is not None else diagnostic.EffectLog()
        self._view: View | None = None
        self._decider: Decider | None = None
        self._stored: StoredDeciders | None = None
        #: Whether each verb applies the changes of the state.
        self.follows = selection.live.stored and not sources.named_sources(selection)
        self._state = StateVerbs(
            sources, self._live, self._effects, self._changing_store, self._forget_snapshot
        )

    def close(self) -> None:
        """Close the state if the engine follows it."""
        if self._stored is not None:
            self._stored.store.close()
            self._stored = None

    @property
    def changes(self) -> int:
        """Return the number of applied changes of the change log, 0 without a change log."""
        return self._stored.changes if self._stored is not None else 0

    @functools.cached_property
    def _zone_settings(self) -> zone.ZoneSettings:
        return self._selection.zones or self._config.zones()

    @functools.cached_property
    def _zones(self) -> ZoneRegistry:
        from valence_sched.zones.children import ZoneRegistry  # HTTP and SQL: only for zones

        here = "the section zones of the settings of the service"
        file = here if self._selection.zones else str(self._config.user_file(ZONES_FILE))
        return ZoneRegistry(
            self._zone_settings,
            file,
            self._state.registry,
            self._config.zone_password,
            self._effects,
            podms=self._podms_of_zone,
            now=self._sources.now,
        )

    @functools.cached_property
    def _flavors(self) -> Sequence[Flavor]:
        return tuple(self._config.flavors(self._selection.flavor_files).values())

    def _call(self, verb: Callable[Concatenate[Any, P], T], *words: P.args, **named: P.kwargs) -> T:
        # a verb belongs to the state, to the child zones, or to the decider of a zone
        name = verb.__name__
        part: Any = self._state
        if verb.__qualname__.startswith("ZoneVerbs."):
            part = self._zones
        elif not hasattr(part, name):
            part = self._zone_decider()
        answer: T = getattr(part, name)(*words, **named)
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
            result = decide_all(decider, requests).result(detail)
        return self._no_outage(requests, result)

    def seal(self, request: Request) -> zone.SealedRequest:
        decider = self._zone_decider()
        sealed = decider.seal(request)
        policy, most_cost = decider.policy(sealed)
        return zone.SealedRequest(
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

    def policies(self) -> Sequence[Policy]:
        return list(self._config.policies(self._selection.policy_files).values())

    def podm_reads(self, policy: str, flavor: str | None = None) -> PodmReads:
        known = self._config.policies(self._selection.policy_files)
        if policy not in known:
            raise errors.UnknownName("policy", policy, known)
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
        raise errors.UnknownName("flavor", name, [flavor.name for flavor in self._flavors])

    def flavors(self) -> Sequence[Flavor]:
        return self._flavors

    def plugins(self, kind: PluginKind) -> PluginList:
        return plugin_list(kind)

    def inventory(self) -> InventorySummary:
        return inventory_summary(self.view())

    def podms(self) -> Sequence[nouns.PodmOverview]:
        return self._overviews(hardware.overviews(self.view(), self._sources.live_ids))

    def podm(self, name: str) -> nouns.PodmOverview:
        found = hardware.overview(self.view(), name, self._sources.live_ids)
        return self._overviews([found])[0]

    def blocks(self, wanted: nouns.BlockFilter) -> Iterator[nouns.BlockOverview]:
        return hardware.blocks(self.view(), wanted)

    def block(self, name: str, podm: str | None = None) -> nouns.BlockOverview:
        return hardware.block(self.view(), name, podm)

    def pools(self, podm: str | None = None) -> Sequence[nouns.PoolOverview]:
        return list(hardware.pools(self.view(), podm))

    def device_counts(self, wanted: nouns.BlockFilter) -> Sequence[nouns.DeviceCount]:
        return hardware.device_counts(self.view(), wanted)

    def documents(self) -> Iterator[FullPodm]:
        _, podms = self._intake.loader.view_and_podms(self._selection)
        for number, podm in enumerate(podms):
            yield codec.decode(to_json(podm), FullPodm, "the inventory", f"$.podms[{number}]")

    def _podms_of_zone(self) -> Sequence[nouns.PodmOverview]:
        try:
            return self.podms()
        except errors.NoPodm:
            return ()

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        detail: Detail = "placements",
    ) -> lifecycle.ClaimResult:
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
        return lifecycle.ClaimResult(
            claim=outcome.claim, decision=decision, retries=outcome.retries
        )

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
        """Hold exactly the candidates that were offered for a request; errors as for a claimer."""
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
    ) -> lifecycle.ProvisionResult:
        self._refuse_recordings("composed")
        with (
            self._access(wait_s, ttl_s) as access,
            self._claimer(access.store) as claimer,
            self._naming_outage(request),
        ):
            provisioner = access.provisioner(claimer)
            result = provisioner.provision(request, key=key, ttl_s=ttl_s, detail=detail)
        if (decided := result.decision) is None:
            return result
        if not decided.report.placements and decided.report.policy.shrink != "never":
            content = asked_content(request).decode()
            for is_last in (False, True):
                planned, plan = self._planned(request)
                if plan is None:
                    break
                try:
                    result = self._carry_out(plan, key, ttl_s, wait_s, content)
                except errors.ClaimLost as error:  # a reading or another program came between
                    if is_last or error.undone:  # a node is drained once
                        raise
                else:
                    return replace(result, decision=planned)
        self._no_outage([request], decided)
        return result

    def compose_claim(self, claim_id: str, *, wait_s: float = WAIT_S) -> lifecycle.ProvisionResult:
        with self._access(wait_s) as access:
            return access.provisioner().compose_claim(claim_id)

    def reconcile(
        self, *, dry_run: bool = False, keep_s: float = KEEP_S
    ) -> lifecycle.ReconcileResult:
        if self._state.registry.empty:
            return lifecycle.ReconcileResult()
        with self._access() as access:
            return access.reconcile(self._effects, dry_run=dry_run, keep_s=keep_s)

    def nodes(
        self, *, podm: str | None = None, owner: str | None = None, live: bool = False
    ) -> Sequence[lifecycle.NodeStatus]:
        if self._state.registry.empty and not live:
            return ()
        with self._access() as access:
            statuses = access.nodes(podm, live=live)
        return [status for status in statuses if owner in (None, status.node.owner)]

    def node_record(self, node_id: str) -> lifecycle.NodeRecord:
        with self._access() as access:
            return access.node_record(node_id)

    def delete_nodes(
        self, node_ids: Sequence[str], *, wait_s: float = WAIT_S
    ) -> Iterator[errors.SchedulerError]:
        with self._access(wait_s) as access:
            nodes = access.store.nodes
            yield from errors.each_error(
                lambda id_: access.composer.remove(nodes.show(id_)), node_ids
            )

    def change_node(
        self,
        node_id: str,
        change: NodeChange,
        *,
        key: str | None = None,
        wait_s: float = WAIT_S,
        dry_run: DryRun = False,
    ) -> NodeChangeResult:
        self._refuse_recordings("changed")
        with self._access(wait_s) as access:
            marks = change.shrinkable is not None
            if not (self.follows or marks):
                access.refresh(access.store.nodes.show(node_id).podm)
            changer = access.changer(
                self.compile_request, self._decide_on, *self._drain(access.store)
            )
            if not marks:
                return changer.change(node_id, change, key=key, dry_run=dry_run)
            with self._effects.change("node", node_id, "may be marked", "is marked"):
                return changer.change(node_id, change, key=key, dry_run=dry_run)

    def _drain(self, store: Store) -> tuple[Drain, float] | tuple[()]:
        """Return the hook of the site with its deadline, empty without a hook."""
        if (site := self._site_drain()) is None:
            return ()

        def drain(node: ComposedNode, blocks: Sequence[str]) -> None:
            site.drain(node, blocks, store.events(node.claim))

        return drain, site.settings.deadline_s

    def _decide_on(self, podm: FullPodm, request: Request) -> DecisionResult:
        decision = self._decided_on([podm], request)
        return decision_result(decision, "placements" if decision.placements else "summary")

    def _decided_on(self, podms: Iterable[FullPodm], request: Request) -> Decision:
        builder = ViewBuilder()
        for podm in podms:
            builder.add(codec.decode(to_json(podm), LeanPodm, podm.id), podm.id)
        decider = self._intake.decider(builder.view(), self._intake.policies())
        return decider.select_destinations(request)

    def preview(self, report: Report) -> Iterator[lifecycle.Preview]:
        from valence_sched.planning.succession import verify

        self._refuse_recordings("previewed")
        decider, chosen = self.decider(), [one.chosen for one in report.placements]
        with self._access() as access:
            # without the nodes on pod managers of other zones
            here = [one for one in chosen if one.podm in access.members]
            verify(decider, report.request, here, partial=True)
            yield from map(access.preview, report.placements)

    def plan(self, request: Request) -> PlanResult:
        from valence_sched.model.plan import PlanResult

        decided, plan = self._planned(request)
        if plan is not None and (signatures := self._plan_signatures) is not None:
            plan = signatures.sign(plan)
        return PlanResult(decision=decided, plan=plan)

    def _planned(self, request: Request) -> tuple[DecisionResult, Plan | None]:
        """Return a decision and its plan without a signature."""
        texts: dict[str, bytes] = {}
        policies = self._intake.policies()
        decider = self._intake.decider(self._intake.view(texts), policies)
        decision = decider.select_destinations(request)
        result = self._no_outage([request], decision_result(decision, "report"))
        shrinks: tuple[NodeShrink, ...] = ()
        if not result.report.placements:
            if (shrunk := self._shrink(request, decider, texts)) is None:
                return result, None
            result, shrinks = shrunk
        return result, self._planner.plan(result.report, texts, shrinks)

    def _shrink(
        self, request: Request, decider: Decider, texts: Mapping[str, bytes]
    ) -> tuple[DecisionResult, tuple[NodeShrink, ...]] | None:
        """Return a decision that takes blocks of shrinkable nodes of its owner, if allowed."""
        policy = decider.bound_policies.policy(request.policy).policy
        if policy.shrink == "never" or self._sources.named_sources(self._selection):
            return None
        from valence_sched.planning.node_change import shrink

        none: tuple[Sequence[ComposedNode], Mapping[str, Usage]] = ((), {})
        every, usages = self._state.registry.read(
            lambda store: (store.nodes.list(), store.usages(texts)), none
        )
        nodes = [
            one
            for one in every
            if one.shrinkable and one.state == "COMPOSED" and request.owner in (None, one.owner)
        ]
        floors = {
            one.id: self.compile_request(RequestSpec(flavor=one.floor))
            for one in nodes
            if one.floor is not None
        }
        podms = {
            name: remaining_podm(text, usages.get(name, NO_USAGE), name)
            for name, text in texts.items()
        }

        def decide_all(site: Mapping[str, FullPodm]) -> DecisionResult:
            return decision_result(self._decided_on(site.values(), request), "report")

        return shrink(podms, nodes, floors, self._decide_on, decide_all)

    def check_plan(self, plan: Plan) -> None:
        if self._serves and self._plan_signatures is not None:
            self._plan_signatures.check(plan)

    def claim_plan(self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S) -> Claim:
        self.check_plan(plan)
        self._refuse_recordings("claimed")
        if plan.shrinks:
            hint = "compose it (podm apply without --claim)"
            raise errors.RequestError(f"the plan shrinks nodes, and cannot be only claimed: {hint}")
        with self._changing_store() as store, self._plan_claimer(store, plan) as claimer:
            claim = claimer.claim(
                plan.decision.request, key=key, ttl_s=ttl_s, dispatched=self._selection.dispatches
            ).claim
        assert claim is not None, "a claim of a plan is complete, or an error is raised"
        return claim

    def compose_plan(
        self, plan: Plan, *, key: str | None = None, ttl_s: float = TTL_S, wait_s: float = WAIT_S
    ) -> lifecycle.ProvisionResult:
        self.check_plan(plan)
        return self._carry_out(plan, key, ttl_s, wait_s)

    def _carry_out(
        self, plan: Plan, key: str | None, ttl_s: float, wait_s: float, content: str = ""
    ) -> lifecycle.ProvisionResult:
        from valence_sched.lifecycle.plan import compose_plan

        self._refuse_recordings("composed")
        with (
            self._access(wait_s, ttl_s) as access,
            self._plan_claimer(access.store, plan) as claimer,
        ):
            claimer.key_content = content
            drain = self._drain(access.store)
            changer = access.changer(self.compile_request, self._decide_on, *drain)
            return compose_plan(access, claimer, changer, key, ttl_s)

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
        """Send a whole report to an external composer; errors as for a dispatch.

        The report comes from :meth:`App.dispatchable <valence_sched.app.App.dispatchable>`.
        """
        from valence_sched.lifecycle.dispatch import dispatch  # only to dispatch

        environ = self._config.environ
        with awaiting(self._sources.progress, target.partition("=")[0], "receiving the decision"):
            return dispatch(
                target, report, environ=environ, key_variable=key_variable, timeout_s=timeout_s
            )

    def view(self) -> View:
        """Return the snapshot to decide on; it is read now if it was not read before."""
        if self.follows:
            return self.decider().snapshot()
        if self._view is None:
            self._view = self._intake.view()
        return self._view

    def decider(self) -> Decider:
        """Return the decider on that snapshot."""
        if self.follows:
            return self._followed().decider()
        if self._decider is None:
            policies = self._intake.policies()
            self._decider = self._intake.decider(self.view(), policies)
        return self._decider

    def _zone_decider(self) -> Decider:  # without own pod managers its snapshot is empty
        try:
            return self.decider()
        except errors.NoPodm:
            return self._decider_on_none

    @functools.cached_property
    def _decider_on_none(self) -> Decider:
        return self._intake.decider(ViewBuilder().view(), self._intake.policies())

    def _forget_snapshot(self) -> None:
        self._view = self._decider = None

    def _changing_store(self) -> AbstractContextManager[Store]:
        """Open the store; the next decision reads a new snapshot."""
        self._forget_snapshot()
        if self.follows:
            return contextlib.nullcontext(self._followed(create=True).store)
        return self._state.registry.store(self._effects)

    def _followed(self, *, create: bool = False) -> StoredDeciders:
        """Return the deciders that follow the state; with ``create``, a missing state is made."""
        if self._stored is None:
            if self._state.registry.empty and not create:
                raise errors.NoPodm(self._sources.no_podm_message(self._live))
            from valence_sched.lifecycle.stored_deciders import StoredDeciders  # SQL

            self._stored = StoredDeciders(self._intake, self._state.registry.store(self._effects))
        return self._stored

    def _claimer(self, store: Store) -> AbstractContextManager[Claimer]:
        if self.follows:
            return self._followed().claimer()
        return contextlib.nullcontext(self._intake.claimer(store))

    def _overviews(self, found: Sequence[nouns.PodmOverview]) -> Sequence[nouns.PodmOverview]:
        return self._followed().with_read_times(found) if self.follows else found

    @contextlib.contextmanager
    def _access(self, wait_s: float = WAIT_S, ttl_s: float = 0.0) -> Iterator[PodmAccess]:
        """Yield the store and the live pod managers for a change.

        A claim has ``ttl_s`` to be composed, or longer if the allowed waits are longer in total.
        """
        from valence_sched.lifecycle import access, guard  # HTTP and SQL: only to compose

        members = [member.registration for member in self._state.registry.members(self._live)]
        with self._changing_store() as store:
            known = store.identities()
            yield access.PodmAccess(
                store,
                {
                    one.name: replace(one, identity=one.identity or known.get(one.name))
                    for one in members
                },
                self._state.registry.password,
                timeout_s=self._live.timeout_s,
                patience_s=wait_s,
                ttl_s=ttl_s,
                progress=self._sources.progress,
                guard=guard.HardwareGuard(self._config.baremetals),
            )

    def _refuse_recordings(self, what: str) -> None:
        if self._sources.named_sources(self._selection):
            raise errors.UsageError(
                f"a recorded inventory cannot be {what}: register the pod manager (podm create "
                "NAME URL) and omit --inventory (and VALENCE_SCHED_INVENTORY), or save a plan "
                "(podm schedule --plan FILE) and apply it (podm apply FILE)"
            )

    def _no_outage(self, requests: Sequence[Request], result: R) -> R:
        """Return a result; InventoryIncomplete if nothing fits because of unread pod managers."""
        if result.report.outcome == "nothing_fits":
            self._refuse_outage(requests)
        return result

    @contextlib.contextmanager
    def _naming_outage(self, request: Request) -> Iterator[None]:
        """Raise InventoryIncomplete, not UnknownName, for a pod manager that was not read."""
        try:
            yield
        except errors.UnknownName:
            self._refuse_outage([request])
            raise

    def _refuse_outage(self, requests: Sequence[Request]) -> None:
        has_view = self.follows or self._view is not None
        known = {podm.id for podm in self.view().podms} if has_view else self._sources.live_ids
        self._intake.refuse_outage(requests, known)

    @contextlib.contextmanager
    def _plan_claimer(self, store: Store, plan: Plan) -> Iterator[PlanClaimer]:
        stored = self._followed().claimer() if self.follows else contextlib.nullcontext()
        with stored as claimer:
            yield self._planner.claimer(store, plan, claimer)

    @property
    def _serves(self) -> bool:
        return self._selection.zones is not None

    @functools.cached_property
    def _plan_signatures(self) -> PlanSignatures | None:
        """Return the signer of plans, if any; AccessDenied, CredentialError without its key."""
        try:
            keys = self._state.registry.zone_keys(self._zone_settings, make=self._serves)
        except errors.CredentialError as error:
            if not self._serves:
                raise
            LOG.error("plans are refused: %s", error)
            hint = "the operator sets it in zones: secrets of its settings"
            raise errors.AccessDenied(f"this service has no key that signs plans: {hint}") from None
        if not keys:
            return None
        from valence_sched.zones.tokens import PlanSignatures  # only for plans

        return PlanSignatures(keys)

    @functools.cached_property
    def _planner(self) -> Planner:
        from valence_sched.lifecycle.plan import Planner  # SQL

        return Planner(self._intake)


def _refuse_none(requests: Sequence[Request]) -> None:
    if not requests:
        raise errors.RequestError("no request: name at least one flavor")
