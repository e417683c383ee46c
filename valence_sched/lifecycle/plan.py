# SPDX-License-Identifier: Apache-2.0
"""Planner: makes plans of decisions, compares them with the present, and claims their blocks."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec
from msgspec.structs import replace

from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_result
from valence_sched.errors import ClaimLost, InventoryIncomplete, UnknownName, name_some, one_line
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.lifecycle.claim import Claimer, ClaimOutcome
from valence_sched.lifecycle.follower import FixedMembers, Follower
from valence_sched.lifecycle.intake import Intake
from valence_sched.model.claim import Claim, NodeShrink
from valence_sched.model.codec import decode
from valence_sched.model.decision import Report
from valence_sched.model.diff import ADDED, REMOVED, Difference
from valence_sched.model.inventory import FREE_STATUS, OTHERS, FullPodm, PodmStatus, visible_podm
from valence_sched.model.lifecycle import ProvisionResult
from valence_sched.model.node_change import NodeChange, attach_again
from valence_sched.model.plan import Plan, PlanRefresh, make_plan, plan_drift
from valence_sched.model.policy import Policy
from valence_sched.model.reading import ReadOptions
from valence_sched.model.request import Request
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store

MOST_NAMED = 3  # largest number of changes in one line


@dataclass
class PlanClaimer:
    """Claims a plan once; ``statuses`` are the statuses of unread pod managers.

    After the checks, ``shrink`` detaches the blocks that shrinkable nodes lose. ``key_content`` is
    the content of an idempotency key, by default the digest of the plan.

    ``claimer`` verifies and holds the plan. A node of the plan is never replaced by another;
    ``claim_lost`` is set if a replacement was requested because of a lost race.
    """

    store: Store
    claimer: Claimer
    plan: Plan
    statuses: Mapping[str, PodmStatus] = field(default_factory=dict)
    shrink: Callable[[], None] = field(default=lambda: None)
    key_content: str = ""
    claim_lost: bool = False
    _done: bool = False

    def earlier_claim(self, key: str | None) -> Claim | None:
        """Return the claim of this plan under a key, if any; NameTaken for another plan."""
        if key is None:
            return None
        owner = self.plan.decision.request.owner
        content = self.content(self.plan.decision.request)
        self.store.claims.find_by_key(owner, f"{key}#1", content)  # the key of a split claim
        return self.store.claims.find_by_key(owner, key, content)

    def content(self, request: Request) -> str:
        return self.key_content or self.plan.digest

    def claim(
        self, request: Request, *, key: str | None = None, ttl_s: float = TTL_S,
        content: str | None = None, dispatched: bool = False,
    ) -> ClaimOutcome:  # fmt: skip
        """Hold the plan; ``dispatched`` as for :meth:`Claimer.claim`.

        ClaimLost if hardware of the plan has changed or is in use, NameTaken if the key belongs to
        another plan.
        """
        if self._done:
            excluded = self.plan.decision.request.exclude_podms
            self.claim_lost |= request.exclude_podms == excluded  # else a pod manager refused it
            return ClaimOutcome(None, None, 0)
        self._done = True
        claim = self.earlier_claim(key) or self._hold(key, ttl_s, dispatched=dispatched)
        return ClaimOutcome(claim, None, 0)

    def differences(self) -> list[Difference]:
        return list(plan_drift(self.plan, self._current_podms()))

    def _hold(self, key: str | None, ttl_s: float, *, dispatched: bool) -> Claim:
        decision, owner = self.plan.decision, self.plan.decision.request.owner
        for basis in self.plan.podms:
            if basis.recorded and basis.podm.identity is None:
                text = "the plan was made on a recording that does not identify the service of"
                hint = "plan on a new capture (podm capture), or live"
                text = f"{text} pod manager {basis.podm.id!r} (no identity): {hint}"
                raise ClaimLost(text, basis.podm.id)
        for conflict in self._usage_conflicts(owner):
            raise ClaimLost(conflict)
        if differences := list(plan_drift(self.plan, self._current_podms(), _seen_by(owner))):
            raise ClaimLost(f"the plan is out of date: {describe_differences(differences)}")
        self.shrink()
        return self.claimer.claim_candidates(
            decision.request,
            [placement.chosen for placement in decision.placements],
            key=key,
            ttl_s=ttl_s,
            content=self.content(decision.request),
            partial=False,
            dispatched=decision if dispatched else None,
        )

    def _current_podms(self) -> dict[str, FullPodm]:
        stored = self.store.load_podms([basis.podm.id for basis in self.plan.podms])
        return _with_statuses(stored.values(), self.statuses)

    def _usage_conflicts(self, owner: str | None) -> Iterator[str]:
        """Yield a line about each claim of planned blocks; claims of other owners are anonymous."""
        self.store.claims.expire()
        for basis in self.plan.podms:
            podm = basis.podm.id
            chosen = (one.chosen for one in self.plan.decision.placements)
            planned = {block.uri for one in chosen if one.podm == podm for block in one.blocks}
            blocks = basis.podm.blocks
            lost = (one.blocks for one in self.plan.shrinks if one.podm == podm)
            planned -= set(itertools.chain.from_iterable(lost))
            planned -= {one.uri for one in blocks if (one.status or FREE_STATUS).shareable}
            nodes = {node.claim: node.id for node in self.store.nodes.list(podm)}
            for claim in self.store.claims.list(podm=podm):
                parts = [part for part in claim.parts if part.podm == podm]
                uris = [uri for part in parts for uri in part.blocks if uri in planned]
                if not uris:
                    continue
                user = f"a claim of {OTHERS}"
                if owner is None or claim.owner == owner:
                    whose = f" of {claim.owner}" if claim.owner else ""
                    user, node = f"claim {claim.id}{whose}", nodes.get(claim.id)
                    user = f"node {node} ({user})" if node else user
                    if claim.state != "SETTLED":  # the line states that the block is in use
                        user = f"{user}, which is {claim.state}"
                yield f"block {name_some(uris, 1)} of pod manager {podm!r} is in use by {user}"


def describe_differences(differences: list[Difference], most: int = MOST_NAMED) -> str:
    return name_some([*map(_describe_difference, differences)], most, "; ", "; and")


def _describe_difference(one: Difference) -> str:
    what = f"pod manager {one.podm!r}"
    if one.kind != "podm":
        what += f": {one.kind} {one.name}"
    if one.change in (ADDED, REMOVED):
        return f"{what} {one.change}"
    changes = [(one.change, one.before, one.after)]
    if isinstance(one.before, dict) and isinstance(one.after, dict):
        before, after = one.before, one.after
        both = {name: (before.get(name), after.get(name)) for name in before | after}
        names = sorted(name for name, (was, is_) in both.items() if was != is_)
        changes = [(f"{one.change}.{name}", *both[name]) for name in names[:MOST_NAMED]]
    values = ", ".join(f"{name} was {_short(was)}, is {_short(is_)}" for name, was, is_ in changes)
    return one_line(f"{what}: {values}", 300)


def _short(value: object) -> str:
    if value is None:
        return "not set"
    text = msgspec.json.encode(value).decode() if not isinstance(value, str) else value
    return text if len(text) <= 80 else f"{text[:79]}…"


def _with_statuses(
    podms: Iterable[FullPodm], statuses: Mapping[str, PodmStatus]
) -> dict[str, FullPodm]:
    return {one.id: replace(one, status=statuses.get(one.id, one.status)) for one in podms}


def _seen_by(owner: str | None) -> Callable[[FullPodm], FullPodm]:
    return lambda podm: podm if owner is None else visible_podm(podm, owner)


class PlanShrinker:
    """Detaches the blocks that shrinkable nodes lose; attaches them again unless they are kept.

    A ``with`` block attaches them at its end. ``change`` changes a node as any other change: after
    the drain hook and the guard of Ironic. If the process dies, a reconciler attaches the blocks
    after ``ttl_s``.
    """

    def __init__(
        self, store: Store, plan: Plan, change: Callable[[str, NodeChange], object], ttl_s: float
    ) -> None:
        self._store, self._plan, self._change, self._ttl_s = store, plan, change, ttl_s
        self._undo = contextlib.ExitStack()
        self._taken: list[NodeShrink] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and not isinstance(error, Exception):
            self.leave()  # interrupted: the nodes of the plan may be composed
        if isinstance(error, ClaimLost) and self._taken:
            error.undone = True
        self._undo.close()

    def leave(self) -> None:
        """Leave the blocks detached; a reconciler decides later who has them."""
        self._undo.pop_all()

    def keep(self) -> None:
        """Leave the blocks to the nodes of the plan."""
        self.leave()
        for one in self._taken:
            with contextlib.suppress(UnknownName):  # the node was deleted meanwhile
                self._store.node_changes.end_taking(one.node, one.blocks)

    def detach(self) -> None:
        """Raise ClaimLost if a node is not shrinkable any more for the owner of the plan."""
        owner = self._plan.decision.request.owner
        for one in self._plan.shrinks:
            node, cycle = self._store.nodes.show(one.node), one.power_cycle
            if not (node.shrinkable and owner in (None, node.owner)):
                text = f"node {one.node} is not shrinkable any more"
                raise ClaimLost(f"the plan is out of date: {text}", one.podm)
            change = NodeChange(detach_blocks=one.blocks, before=one.before, power_cycle=cycle)
            self._store.node_changes.take(one.node, one.blocks, self._ttl_s)
            self._taken.append(one)
            self._undo.callback(self._attach, one)
            self._change(one.node, change)

    def _attach(self, one: NodeShrink) -> None:
        self._change(one.node, attach_again(one.blocks, power_cycle=one.power_cycle))
        if self._store.nodes.show(one.node).state == "COMPOSED":  # else the effect is unknown
            self._store.node_changes.end_taking(one.node, one.blocks)
        self._store.effects.forget("node", one.node)


def compose_plan(
    access: PodmAccess, claimer: PlanClaimer, changer: NodeChanger, key: str | None, ttl_s: float
) -> ProvisionResult:
    """Compose the nodes of a plan once, after the blocks that it takes are detached."""
    plan = claimer.plan
    claimer.earlier_claim(key)
    provisioner = access.provisioner(claimer)
    longest_s = changer.ttl_s * (len(plan.shrinks) + 1)
    with PlanShrinker(access.store, plan, changer.change, longest_s) as shrinker:
        claimer.shrink = shrinker.detach
        result = provisioner.provision(plan.decision.request, key=key, ttl_s=ttl_s)
        if result.nodes:
            shrinker.keep()
        elif result.unverified:
            shrinker.leave()
    shrinks = plan.shrinks if result.nodes else ()
    lost = result.claim_lost or claimer.claim_lost
    return replace(result, claim_lost=lost, shrinks=shrinks)


class Planner:
    """Makes and claims plans on the readings of an intake."""

    def __init__(self, intake: Intake) -> None:
        self._intake, self._sources, self._loader = intake, intake.sources, intake.loader
        self._selection, self._live = intake.selection, intake.selection.live

    def plan(
        self, report: Report, texts: Mapping[str, bytes], shrinks: tuple[NodeShrink, ...] = ()
    ) -> Plan:
        """Return the plan of a decision; ``texts`` are its pod managers as JSON."""
        chosen = {placement.chosen.podm for placement in report.placements}
        decided_at = self._sources.now().isoformat(timespec="seconds")
        podms = self._podms_as_read(texts, chosen)
        recorded = podms.keys() - self._sources.live_ids
        return make_plan(report, podms.values(), decided_at, recorded, shrinks)

    def claimer(self, store: Store, plan: Plan, claimer: Claimer | None = None) -> PlanClaimer:
        """Read and store the pod managers of a plan, and return its claimer.

        ``claimer`` holds the plan: by default a claimer on the state, under the policy of the plan
        unless policy files are given. ClaimLost if a pod manager of the plan is gone,
        InventoryIncomplete if a pod manager is unreadable.
        """
        names = tuple(basis.podm.id for basis in plan.podms)
        selection = replace(self._selection, live=self._options_for(names))
        read_at = self._intake.store_podms(store, selection, names).read_at
        for name in names:
            if name in self._sources.unread_ids:
                lines = self._sources.diagnostics.lines("unread")
                line = next(line for line in lines if line.startswith(f"{name}: "))
                raise InventoryIncomplete(f"the plan cannot be compared with the inventory: {line}")
            if name not in read_at:
                raise _missing_podm(name)
        statuses = self._loader.statuses(read_at.items(), self._live)
        if claimer is None:
            # the nodes of a group may be on any pod manager, so read all of them
            among = None if plan.decision.request.group else frozenset(names)
            declared = self._intake.declared_resources()
            make = functools.partial(Decider, policies=self._policies(plan))
            members = FixedMembers(among, declared=declared, statuses=statuses)
            claimer = Claimer(store, Follower(store, make, members))
        return PlanClaimer(store, claimer, plan, statuses)

    def refresh(self, plan: Plan) -> PlanRefresh:
        """Repeat the decision of a plan on present readings; return it with the differences.

        Uses the policy of the plan unless policy files are given. Raises the errors of reading and
        of deciding.
        """
        texts: dict[str, bytes] = {}
        live = replace(self._live, subtract_claims=True)
        view = self._loader.view(replace(self._selection, live=live), texts)
        decider = Decider(view, self._policies(plan), strict=self._selection.strict)
        request = plan.decision.request
        report = decision_result(decider.select_destinations(request)).report
        podms = self._podms_as_read(texts, {basis.podm.id for basis in plan.podms})
        drift = plan_drift(plan, podms, _seen_by(request.owner))
        changes = (describe_differences([change]) for change in drift)
        return PlanRefresh(report=report, changes=tuple(changes))

    def _podms_as_read(
        self, texts: Mapping[str, bytes], names: Collection[str]
    ) -> dict[str, FullPodm]:
        known = [name for name in names if name in texts]
        podms = [decode(texts[name], FullPodm, f"pod manager {name}") for name in known]
        statuses = self._loader.statuses([(podm.id, podm.read_at) for podm in podms], self._live)
        return _with_statuses(podms, statuses)

    def _options_for(self, names: Sequence[str]) -> ReadOptions:
        """Return options that read only these live pod managers; ClaimLost if one is missing."""
        live = self._live
        if "-" in live.podm_files:
            return live
        registry = self._sources.registry(live.state)
        known = {member.registration.name for member in registry.all_members(live)}
        if registry.uses_state(live):
            known |= registry.reports().keys()
        for name in names:
            if name not in known:
                raise _missing_podm(name)
        return replace(live, only=tuple(names))

    def _policies(self, plan: Plan) -> list[Policy]:
        return self._intake.policies() if self._selection.policy_files else [plan.decision.policy]


def _missing_podm(name: str) -> ClaimLost:
    found = f"no pod manager {name!r} is registered"
    hint = "register it with podm create, or plan again"
    return ClaimLost(f"the plan is out of date: {found}: {hint}", name)
