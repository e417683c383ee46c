# SPDX-License-Identifier: Apache-2.0
"""Succession: decides on requests one after another, as if each node were composed or removed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from valence_sched.core.batch import schedule, try_alternatives
from valence_sched.core.decider import Decider, eligible_rows
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.fit.fit import Fit, Fitter, Spending
from valence_sched.core.group_state import NodeCounts, with_group_state
from valence_sched.core.offers import CandidateFitter
from valence_sched.core.policy import INFINITE_COST, BoundPolicy
from valence_sched.errors import StaleOffer
from valence_sched.model.decision import Candidate
from valence_sched.model.inventory import Node
from valence_sched.model.policy import DEFAULT_BUDGET, Budget, Policy
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.view.view import Ints, Mask
from valence_sched.words.phrases import ReasonPhrases

MOST_PREPARED = 4096  # prepared requests that are remembered


class Succession:
    """Decides on requests one after another on a snapshot; the nodes take and release hardware.

    Its arrays change with the next node. Nodes outside the View also count for groups.
    """

    def __init__(self, decider: Decider) -> None:
        self.view = decider.snapshot()
        self.skipped = decider.skipped
        self._ledger = Ledger(self.view)
        self.current_view = self._ledger.view  # with the present free hardware
        self._policies = decider.bound_policies
        self._strict = decider.strict
        self._other_podms = decider.other_podms
        self._counts = NodeCounts()
        #: Keyed by the id of a request object. The value references the object, so that no other
        #: object gets its id.
        self._prepared: dict[int, tuple[Request, Request, BoundPolicy, BoundPolicy]] = {}

    def budget(self, requests: Iterable[Request]) -> Budget:
        budgets = [self.policy(one).budget for one in requests]
        return max(budgets, key=lambda budget: budget.decision_states, default=DEFAULT_BUDGET)

    def policy(self, request: Request) -> Policy:
        """Return the policy of a request; UnknownName if it does not exist."""
        return self._policies.policy(request.policy).policy

    def costs(self, request: Request) -> Ints:
        return self._context(request).evaluation.cost.copy()

    def prepare(self, request: Request) -> Request:
        """Return a request sealed for its policy; same errors as ``BoundPolicies.prepare``."""
        return self._prepare(request)[0]

    def decide(
        self,
        request: Request,
        *,
        other_nodes: int = 0,
        spending: Spending | None = None,
        planned: tuple[tuple[Fit, ...], ...] | None = None,
    ) -> Decision:
        """Choose pool and blocks for every node of a request, without taking them.

        ``other_nodes`` of other requests share ``spending``. Only ``planned`` fits, by alternative,
        are placed if given. Errors as for a decider, except DecisionUndecided.
        """
        context = self._context(request)
        if planned is not None:
            context = replace(context, planned=planned)
        if other_nodes or spending is not None:
            context = context.with_others(other_nodes, spending)
        return Decision(try_alternatives(context, schedule), self.skipped)

    def check_pool(self, request: Request, row: int) -> None:
        """Raise StaleOffer if the policy rejects a pool for the next node of a request."""
        if self._context(request).evaluation.cost[row] != INFINITE_COST:
            return
        from valence_sched.core.explain.verdicts import Verdicts  # only to explain

        reasons = Verdicts(self.decide(request, planned=((),))).reasons(row)
        place = f"{self.view.podm(row).id}: pool {self.view.pools[row].id!r}"
        raise StaleOffer(f"{place}: {ReasonPhrases().of_pool(reasons)}")

    def eligible(self, request: Request) -> Mask:
        """Return the rows that pass all filters except filters on free capacity and the group."""
        sealed, bound, _ = self._prepare(request)
        return self._eligible(sealed, bound)

    def take(self, request: Request, fit: Fit) -> None:
        self._ledger.take(fit)
        self._count(request, fit, 1)

    def release(self, request: Request, fit: Fit) -> None:
        """Free the blocks and amounts of a node of a request; UsageError if it was not taken."""
        self._ledger.release(fit)
        self._count(request, fit, -1)

    def remove(self, podm: int, node: Node) -> None:
        """Remove a node of the inventory once; its unknown amounts of stocks stay in use."""
        numbers = self.view.block_tables[podm].numbers
        self._ledger.remove_node(podm, [numbers[uri] for uri in node.blocks if uri in numbers])
        self._counts.add(node.group, node.owner, podm, -1)

    def close(self, podm: int) -> Callable[[], None]:
        """Close a podm to all nodes; return its undo, which is valid while no node changes."""
        return self._ledger.close(podm)

    def _count(self, request: Request, fit: Fit, number: int) -> None:
        group = request.group.name if request.group else None
        if group is not None or request.owner is not None:
            podm = int(self.view.podm_of[fit.row])
            self._counts.add(group, request.owner, podm, number)

    def _context(self, request: Request) -> EvaluationContext:
        alone, bound, active = self._prepare(request)
        sealed = alone
        if alone.group is not None or alone.owner is not None:
            view = self.current_view
            sealed = with_group_state(
                view, alone, lambda: self._eligible(alone, bound), self._counts, self._other_podms
            )
            active = self._policies.active(sealed, bound)
        return self._ledger.context(sealed, active, strict=self._strict)

    def _prepare(self, request: Request) -> tuple[Request, BoundPolicy, BoundPolicy]:
        known = self._prepared.get(id(request))
        if known is None:
            sealed, bound = self._policies.prepare(request, self.view)
            if sealed.group is None and sealed.owner is None:
                sealed = with_group_state(self.view, sealed, lambda: self.view.all_rows)
            while len(self._prepared) >= MOST_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            active = self._policies.active(sealed, bound)
            known = self._prepared[id(request)] = (request, sealed, bound, active)
            self._prepared[id(sealed)] = (sealed, sealed, bound, active)
        return known[1:]

    def _eligible(self, request: Request, bound: BoundPolicy) -> Mask:
        alone = msgspec.structs.replace(request, group=None)
        active = self._policies.active(alone, bound)
        return eligible_rows(self._ledger.context(alone, active, strict=self._strict))


def verify(
    decider: Decider, request: Request, candidates: Sequence[Candidate], *, partial: bool = False
) -> list[Fit]:
    """Return the fits of earlier candidates, one after another, if all are still valid.

    With ``partial``, their scheduler checks the rules of the group. Errors as for a decision, and
    StaleOffer: a candidate is not free, does not fit, or is rejected.
    """
    succession, fits = Succession(decider), []
    names = {name for podm in succession.view.podms for name in (podm.id, podm.name)}
    request = msgspec.structs.replace(  # some pod managers of the plan may be missing
        request,
        podms=tuple(filter(names.__contains__, request.podms)) or request.podms,
        exclude_podms=tuple(filter(names.__contains__, request.exclude_podms)),
    )
    if partial:
        sealed = decider.seal(msgspec.structs.replace(request, min_count=0))
        eligible = decider.eligible(sealed, decider.bound_policies.policy(sealed.policy))
    else:
        sealed = succession.prepare(request)
    if not (0 if partial else sealed.required_count) <= len(candidates) <= sealed.count:
        nodes = format_count(sealed.count, "node")
        raise StaleOffer(f"{nodes} requested, {len(candidates):,} chosen")
    ways, budget = sealed.alternatives, succession.policy(sealed).budget
    fitters = [Fitter(one.needs, succession.view.kinds, one.topology, budget) for one in ways]
    fitter = CandidateFitter(succession.view, fitters)
    for candidate in candidates:
        fit, number = fitter.fit(succession.current_view, candidate)
        needs, topology = ways[number].needs, ways[number].topology
        node = msgspec.structs.replace(
            sealed, needs=needs, topology=topology, other_alternatives=(), count=1, min_count=None
        )
        if not partial:
            succession.check_pool(node, fit.row)
        elif not eligible[fit.row]:
            text = f"{candidate.podm}: pool {candidate.pool!r}: a filter rejects it now"
            raise StaleOffer(text)
        succession.take(node, fit)
        fits.append(fit)
    return fits
