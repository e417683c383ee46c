# SPDX-License-Identifier: Apache-2.0
"""The decider: answers requests on one snapshot of the inventory under named policies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from valence_sched.core.batch import candidate_of, ranked_nodes, schedule, try_alternatives
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.evaluation_cache import MOST_MIXES, EvaluationCache, Ledger, SplicedSnapshot
from valence_sched.core.explain.report import undecided_text
from valence_sched.core.group_state import NONE_EARLIER, NodeCounts, with_group_state
from valence_sched.core.policy import COST_SCALE, BoundPolicies, BoundPolicy
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import DecisionUndecided
from valence_sched.model.decision import Candidate, PoolRef, Ranking
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.policy import Policy
from valence_sched.model.request import GroupState, Mix, MixSupplies, Request
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.builder import UriKey, ViewBuilder, splice
from valence_sched.view.view import Mask, View

if TYPE_CHECKING:
    from valence_sched.model.zone import OfferQuery, OtherCandidate, ZoneAnswer, ZoneSupplies


class Decider:
    """Decides on requests for one View, which changes only through :meth:`replace`.

    ``mix`` returns the default mix of flavors; it is called once, if a policy reads it.
    """

    def __init__(
        self,
        view: View,
        policies: Iterable[Policy],
        *,
        mix: Callable[[], Mix] = Mix,
        skipped: Sequence[str] = (),
        strict: bool = False,
        stated: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._snapshot = SplicedSnapshot(view)
        self.bound_policies = BoundPolicies(policies, mix, stated)
        self._counts = NONE_EARLIER
        self._numbers = {podm.id: number for number, podm in enumerate(view.podms)}
        self._builder = ViewBuilder(view.kinds)
        self._cache = EvaluationCache(self._snapshot)
        self._supplied_mixes: BoundedMemo[tuple[str, str], bool] = BoundedMemo(MOST_MIXES)
        self.skipped = skipped  # lines about unread documents
        self.strict = strict
        #: Pod managers that the View lacks, and whose nodes count in later decisions.
        self.other_podms: Sequence[LeanPodm] = ()

    def snapshot(self) -> View:
        """Return the current snapshot; it never changes; a newer snapshot replaces it."""
        return self._snapshot.view

    def policies(self) -> Sequence[Policy]:
        """Return the policies a request may name."""
        return self.bound_policies.policies()

    def policy(self, sealed: Request) -> tuple[Policy, int]:
        """Return the policy of a sealed request, and the largest possible cost of a pool."""
        bound = active = self.bound_policies.policy(sealed.policy)
        if sealed.group is None and sealed.owner is None:
            active = self.bound_policies.active(sealed, bound)
        return bound.policy, active.worst_cost * COST_SCALE

    def select_destinations(self, request: Request) -> Decision:
        """Choose pool and blocks for every node; the decision has the reasons if nothing fits.

        Strict: PluginError for a broken plug-in; DecisionUndecided for a pool that might be chosen.
        """
        decision = Decision(try_alternatives(self.context(request), schedule), self.skipped)
        self.check_decided(decision.undecided, decision.context.bound.policy)
        return decision

    def rank(self, request: Request, limit: int) -> Ranking:
        """Return at most ``limit`` candidates, best first; same errors as a decision."""
        context = self.context(request)
        nodes, open_rows = ranked_nodes(context, rank_rows, limit)
        policy, open_pools = context.bound.policy, list(map(context.view.pool_ref, open_rows))
        self.check_decided(open_pools, policy)
        return Ranking(
            candidates=tuple(
                candidate_of(context, one.chosen, one.cost, one.scores) for one in nodes
            ),
            missing=(undecided_text(open_pools, policy),) if open_pools else (),
            request_id=context.request.id,
            seed=context.request.seed,
        )

    def _after(self, others: Sequence[OtherCandidate]) -> Decider:
        """Return a decider without the hardware of these candidates; StaleOffer if one is taken."""
        from valence_sched.core.offers import fit_of

        ledger, counts = Ledger(self._snapshot.view), NodeCounts()
        for one in others:
            fit = fit_of(ledger.view, one.candidate)
            ledger.take(fit)
            counts.add(one.group, one.owner, int(self._snapshot.view.podm_of[fit.row]))
        decider = Decider(ledger.view, (), strict=self.strict)
        decider.bound_policies, decider._counts = self.bound_policies, counts
        decider.other_podms = self.other_podms
        return decider

    def offers(
        self, query: OfferQuery, earlier: Sequence[Candidate], others: Sequence[OtherCandidate] = ()
    ) -> ZoneAnswer:
        """Return the offers of these podms for one alternative and anchor, without tokens.

        ``earlier`` and ``others`` are candidates on these podms; StaleOffer: one is not free.
        """
        if others:
            return self._after(others).offers(query, earlier)
        from valence_sched.core.offers import offers, with_candidates  # only in a tree of zones

        request, bound = self._prepared_for_offers(query.request)
        if query.group_state is None:
            request = self._with_group_state(request, bound)
        else:
            counted = msgspec.structs.replace(request, group_state=query.group_state)
            request = with_candidates(self._snapshot.view, counted, earlier, -1)
        found = offers(self._evaluate(request, bound), query, earlier)
        self.check_decided(found.undecided, bound.policy)
        if query.others or query.taken or not request.mix.scarcity:
            return found
        return msgspec.structs.replace(found, supplies=self._supplies(request, bound))

    def group_state(
        self, query: OfferQuery, earlier: Sequence[Candidate], others: Sequence[OtherCandidate] = ()
    ) -> GroupState:
        """Return the group state with these candidates; errors as ``offers``, and RequestError."""
        if others:
            return self._after(others).group_state(query, earlier)
        from valence_sched.core.offers import with_candidates  # only in a tree of zones

        request = self._with_group_state(*self._prepared_for_offers(query.request))
        return with_candidates(self._snapshot.view, request, earlier).group_state

    def _prepared_for_offers(self, request: Request) -> tuple[Request, BoundPolicy]:
        request = msgspec.structs.replace(request, other_alternatives=(), min_count=0)
        return self.bound_policies.prepare(request, self._snapshot.view, other_zones=True)

    def seal(self, request: Request) -> Request:
        """Return a request in the form sent to every zone; same errors as a decision."""
        return self.bound_policies.prepare(request, self._snapshot.view, other_zones=True)[0]

    def needs_supplies(self, sealed: Request) -> bool:
        """Return whether the mix of a sealed request must still be completed."""
        bound, mix = self.bound_policies.policy(sealed.policy), sealed.mix
        if not mix.shares or mix.scarcity or not bound.mix_completions:
            return False
        key = sealed.policy, mix.digest
        needed = self._supplied_mixes.get(key)  # another thread may empty the memo after a check
        if needed is None:
            needed = bool(bound.mix_supplies(self._builder.empty_copy().view(), mix))
            self._supplied_mixes.store(key, needed)
        return needed

    def mix_supplies(
        self, query: OfferQuery, others: Sequence[OtherCandidate] = ()
    ) -> ZoneSupplies:
        """Return the supplies of these pools for the mix of a request; errors as for ``offers``."""
        if others:
            return self._after(others).mix_supplies(query)
        from valence_sched.core.offers import most_nodes_alone
        from valence_sched.model.zone import ZoneSupplies

        request, bound = self._prepared_for_offers(query.request)
        if not request.mix.scarcity and (found := self._supplies(request, bound)).by_weigher:
            return found
        most = most_nodes_alone(self._snapshot.view, query.request, self.eligible(request, bound))
        return ZoneSupplies(pools=len(self._snapshot.view), most_nodes=most)

    def _supplies(self, request: Request, bound: BoundPolicy) -> ZoneSupplies:
        from valence_sched.model.zone import ZoneSupplies

        supplies = self._cache.mix_supplies(request.mix, self.bound_policies.active(request, bound))
        return ZoneSupplies(pools=len(self._snapshot.view), by_weigher=supplies)

    def complete_mix(self, sealed: Request, supplies: Mapping[str, MixSupplies]) -> Request:
        """Return a sealed request with its mix completed by the supplies of all pools."""
        mix = self.bound_policies.policy(sealed.policy).completed_mix(sealed.mix, supplies)
        return msgspec.structs.replace(sealed, mix=mix)

    def replace(self, podm: LeanPodm, file: str = "update", key: UriKey = str) -> None:
        """Replace a podm by a newer reading; InputError, without a change, if it is invalid."""
        builder = self._builder.empty_copy()
        builder.add(podm, file, key=key)
        number = self._numbers.setdefault(podm.id, len(self._numbers))
        self._snapshot.replace(*splice(self._snapshot.view, number, builder.view()))

    def check_decided(self, pools: Sequence[PoolRef], policy: Policy) -> None:
        """Raise DecisionUndecided if a strict decider leaves pools undecided."""
        if pools and self.strict:
            raise DecisionUndecided(undecided_text(pools, policy))

    def context(self, request: Request) -> EvaluationContext:
        """Return the context of a decision on a request; same errors as a decision."""
        alone, bound = self.bound_policies.prepare(request, self._snapshot.view)
        # identity and open values do not depend on the group state
        return self._evaluate(self._with_group_state(alone, bound), bound)

    def _with_group_state(self, request: Request, bound: BoundPolicy) -> Request:
        eligible = functools.partial(self.eligible, request, bound)
        return with_group_state(
            self._snapshot.view, request, eligible, self._counts, self.other_podms
        )

    def _evaluate(self, request: Request, bound: BoundPolicy) -> EvaluationContext:
        active = self.bound_policies.active(request, bound)
        return self._cache.context(request, active, strict=self.strict)

    def eligible(self, request: Request, bound: BoundPolicy) -> Mask:
        """Return the rows that pass all filters that read neither free capacity nor the group."""
        return eligible_rows(self._evaluate(msgspec.structs.replace(request, group=None), bound))


def eligible_rows(context: EvaluationContext) -> Mask:
    """Return the rows that pass all filters which read neither free capacity nor the group."""
    readers = context.evaluation.availability_readers
    fixed = [filter_.name not in readers for filter_ in context.bound.filters]
    passing: Mask = np.logical_and.reduce(context.evaluation.verdicts[fixed])
    return passing
