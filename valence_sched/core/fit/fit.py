# SPDX-License-Identifier: Apache-2.0
"""Fit: finds the blocks and stock amounts of one pool that make one node with least waste (exact).

Assigning devices to the device groups of a request is a bipartite matching. By Hall's theorem a
matching exists if and only if each set of groups has enough devices that suit at least one of its
groups. So blocks make the node if and only if they cover integer demands: one per total, one per
set of groups, and the pool's minimum numbers of blocks. The cheapest cover has the least waste
(prices: ``view.block_kinds``). ``topology`` adds the topology constraints. A search that exceeds
its budget is undecided (``Spending``).
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from valence_sched.core.fit import set_cover, stocks
from valence_sched.core.fit.stocks import FREE_STATES, FREE_TOPOLOGY_STATES, SearchOutcome
from valence_sched.model.inventory import BlockType, Limit, Pool
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.view.block_kinds import BlockKinds, Counts
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.core.fit.topology import TopologyFitter

MOST_DEMANDS = 32  # most demands of a set cover; with more, the topology search assigns devices
MOST_ANSWERS = 100_000  # cached answers per request
NOTHING = "nothing"  # cache key if neither the request needs blocks nor the pool has limits

Offer = list[tuple[int, int]]  # (kind of block, number of blocks)
Search = Callable[[int], SearchOutcome]  # its argument is the allowed number of states
Limits = tuple[tuple[BlockType, Limit], ...]  # the limits of a pool


class Fit(Struct, frozen=True, gc=False):
    """The blocks of a node and ``(stock, amount)`` grants, by number; the waste in price points."""

    row: int
    blocks: tuple[int, ...]
    grants: tuple[tuple[int, float], ...]
    waste: int


class Undecided(Struct, frozen=True):
    """The search ended without an answer within its states."""

    states: int


class Spending:
    """The states that one decision has left, and its answers to hard questions.

    A question asks whether a node fits in one pool. Searches beyond the short, free one are limited
    per question and per decision. A cached answer costs its states again, so that decisions do not
    depend on the cache.
    """

    def __init__(self, budget: Budget = DEFAULT_BUDGET) -> None:
        self.left = budget.decision_states
        self._answers: dict[Hashable, SearchOutcome] = {}

    @property
    def undecided(self) -> int:
        return sum(answer.is_open for answer in self._answers.values())

    def answer(
        self, question: Hashable, short: SearchOutcome, search: Callable[[], SearchOutcome]
    ) -> SearchOutcome:
        """Return the answer of the long search, or ``short`` if no states are left."""
        answer = self._answers.get(question)
        if answer is None:
            answer = short
            if self.left > 0:
                answer = search()
                self.left -= answer.states
            self._answers[question] = answer
        return answer


@dataclass(slots=True)
class Fitter:
    """Fits one request in many pools; pools with equal useful blocks share a search."""

    needs: tuple[Need, ...]
    kinds: BlockKinds
    constraints: tuple[TopologyConstraint, ...] = ()
    budget: Budget = DEFAULT_BUDGET
    demands: list[set_cover.Demand] = field(init=False)
    _amounts: stocks.AmountsByResource = field(init=False)
    _coverage: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _useful: dict[Limits, Counts] = field(default_factory=dict)
    _answers: dict[tuple[Hashable, int], SearchOutcome] = field(default_factory=dict)
    _topology: "TopologyFitter | None" = field(init=False)

    def __post_init__(self) -> None:
        self.demands = list(set_cover.demands(self.needs))
        self._amounts = stocks.stock_amounts(self.needs)
        self._topology = None
        is_wide = len(self.demands) > MOST_DEMANDS
        if self.constraints or is_wide:
            from valence_sched.core.fit.topology import TopologyFitter  # few requests need it

            fitter = TopologyFitter(self.needs, self.constraints, self.demands, self.kinds)
            self._topology = fitter if fitter.domains or is_wide else None

    def fit(self, view: View, row: int, spending: Spending | None = None) -> Fit | Undecided | None:
        """Return the fit in pool ``row``: None if no node fits, Undecided if the budget ended."""
        return self._fit(view, row, spending or Spending(self.budget))

    def quick_fit(self, view: View, row: int) -> Fit | None:
        """Return the fit in pool ``row`` if the short, free search finds it, else None."""
        fit = self._fit(view, row, None)
        return fit if isinstance(fit, Fit) else None

    def _fit(self, view: View, row: int, spending: Spending | None) -> Fit | Undecided | None:
        grants: list[tuple[int, float]] = []
        if self._amounts:
            allocate = functools.partial(stocks.allocate_in_pool, view, row, self._amounts)
            answer = allocate(min(FREE_STATES, self.budget.pool_states))
            if not answer.complete and spending is not None:
                question = stocks.question(view, row, self._amounts)
                answer = self._spend(question, answer, allocate, spending)
            if answer.found is None or (spending is None and not answer.complete):
                return self._undecided(answer)
            grants = answer.found
        if (topology := self._topology) is not None:
            pool = view.pools[row]
            groups, keys = topology.block_offer(view, row)
            key = (groups, tuple(pool.limits.items()))
            search = functools.partial(topology.search, groups, pool)
            answer = self._answer(key, search, spending, FREE_TOPOLOGY_STATES)
        else:
            answer = self._answer(*self._cover_question(view, row), spending)
        if answer.found is None or (spending is None and not answer.complete):
            return self._undecided(answer)
        table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
        if topology is None:
            counts, wasted = answer.found
            blocks = table.free_blocks(position, counts)
        else:
            numbers = {keys[group]: number for group, number in answer.found.items()}
            blocks = table.free_blocks_by_topology(position, numbers, topology.domains)
            kinds = [(kind, number) for (kind, _), number in numbers.items()]
            wasted = set_cover.waste(self.kinds, kinds, self.needs)
        return Fit(row, tuple(blocks), tuple(grants), wasted)

    def _undecided(self, answer: SearchOutcome) -> Undecided | None:
        return None if answer.complete else Undecided(self.budget.pool_states)

    def _answer(
        self, key: Hashable, search: Search, spending: Spending | None, free: int = FREE_STATES
    ) -> SearchOutcome:
        """Return the outcome of a search; pools with the same ``key`` share it."""
        short = self._search_once(key, search, min(free, self.budget.pool_states))
        if short.complete or spending is None:
            return short
        return self._spend(key, short, search, spending)

    def _spend(
        self, key: Hashable, short: SearchOutcome, search: Search, spending: Spending
    ) -> SearchOutcome:
        long = functools.partial(self._search_once, key, search, self.budget.pool_states)
        return spending.answer((self.needs, self.constraints, key), short, long)

    def _search_once(self, key: Hashable, search: Search, states: int) -> SearchOutcome:
        answer = self._answers.get((key, states))
        if answer is None:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            answer = self._answers[key, states] = search(states)
        return answer

    @property
    def covers_blocks_alone(self) -> bool:
        """Return whether a fit is only a set cover of blocks: no stocks, no topology search."""
        return bool(self.demands) and not self._amounts and self._topology is None

    def whole_cover(self, pool: Pool) -> tuple[Offer, list[set_cover.Item], list[int], list[int]]:
        """Return offer, items, caps and demands of a pool with enough blocks of every kind."""
        every = [(kind, self._most_useful(kind, pool)) for kind in range(len(self.kinds))]
        offer = sorted([pair for pair in every if pair[1]], key=self._sort_key)
        return offer, *self._cover_problem(pool, offer)

    def pool_cover(self, view: View, row: int, spending: Spending) -> SearchOutcome:
        """Return the cheapest cover by free blocks of pool ``row``: the number by kind."""
        answer = self._answer(*self._cover_question(view, row), spending)
        if answer.found is None:
            return answer
        return SearchOutcome(answer.found[0], answer.complete, answer.states)

    def shortfall(self, view: View, row: int) -> tuple[str, float, float, str]:
        """Return the reason why no node fits: label, needed and possible number, and their unit."""
        states, pool = self.budget.pool_states, view.pools[row]
        if grants := stocks.stock_shortfall(view, row, self._amounts, states):
            return *grants, ""
        offer = self._offer(view.block_counts.kinds(row), pool)
        items, caps, demands = self._cover_problem(pool, offer)
        for index, needed in enumerate(demands):
            most = set_cover.upper_bound(items, index, caps)
            if most < needed:
                labels = [demand.label for demand in self.demands]
                labels += [f"{name} blocks" for name in set_cover.least_blocks(pool.limits)]
                unit = self.demands[index].needs[0].unit if index < len(self.demands) else ""
                return f"{labels[index]} within the pool's block limits", needed, most, unit
        if self._topology:
            groups, _ = self._topology.block_offer(view, row)
            if shortfall := self._topology.shortfall(groups, pool, states):
                return shortfall
        return "combination of free blocks for the whole node", 1, 0, ""

    def _cover_question(self, view: View, row: int) -> tuple[Hashable, Search]:
        """Return a cache key, equal for pools with equal offers, and the search of the pool."""
        limits = tuple(view.pools[row].limits.items())
        if not self.demands and not limits:
            return NOTHING, lambda states: SearchOutcome(({}, 0), True, 0)
        kinds, free = view.block_counts.row(row)
        useful = self._useful_by_kind(limits)
        key = (limits, kinds.tobytes(), np.minimum(free, useful[kinds]).tobytes())

        def solve(states: int) -> SearchOutcome:  # shared by pools that differ in useless blocks
            offer = self._offer(view.block_counts.kinds(row), view.pools[row])
            search = functools.partial(self._search, view.pools[row], offer)
            return self._search_once((limits, *offer), search, states)

        return key, solve

    def _search(self, pool: Pool, offer: Offer, states: int) -> SearchOutcome:
        items, caps, amounts = self._cover_problem(pool, offer)
        cover = set_cover.cheapest_cover(items, amounts, caps, states=states)
        if cover.found is None:
            return cover
        by_kind = {kind: n for (kind, _), n in zip(offer, cover.found, strict=True) if n}
        wasted = set_cover.waste(self.kinds, by_kind.items(), self.needs)
        return SearchOutcome((by_kind, wasted), cover.complete, cover.states)

    def _cover_problem(
        self, pool: Pool, offer: Offer
    ) -> tuple[list[set_cover.Item], list[int], list[int]]:
        return set_cover.problem(self.kinds, pool.limits, offer, self.demands, self.coverage)

    def _offer(self, free: Offer, pool: Pool) -> Offer:
        """Return ``(kind, number)`` of the free blocks, at most as many as a node can use."""
        useful = self._useful_by_kind(tuple(pool.limits.items()))
        offer: Offer = []
        for kind, number in free:
            if useful[kind] == np.inf:
                useful[kind] = self._most_useful(kind, pool)
            if useful[kind]:
                offer.append((kind, min(number, int(useful[kind]))))
        # sorted by the text of the kinds: the answer does not depend on the rest of the inventory
        return sorted(offer, key=self._sort_key)

    def _sort_key(self, pair: tuple[int, int]) -> bytes:
        return self.kinds.kinds[pair[0]].sort_key

    def _useful_by_kind(self, limits: Limits) -> Counts:
        """Return the number of blocks by kind that a node can use; infinity if not computed yet."""
        useful = self._useful.get(limits)
        if useful is None or len(useful) < len(self.kinds.kinds):
            useful = self._useful[limits] = np.full(len(self.kinds), np.inf, np.float32)
        return useful

    def is_tolerated(self, kind: int) -> bool:
        """Return whether the node may have blocks of a kind: it tolerates their taints."""
        return all(need.tolerates(self.kinds.kinds[kind].condition) for need in self.needs)

    def _most_useful(self, kind: int, pool: Pool) -> int:
        if not self.is_tolerated(kind):
            return 0
        pairs = zip(self.demands, self.coverage(kind), strict=True)
        useful = [-(-demand.amount // covered) for demand, covered in pairs if covered]
        least = set_cover.least_blocks(pool.limits).items()
        useful += [n for name, n in least if name in self.kinds.kinds[kind].types]
        return max(useful, default=0)

    def coverage(self, kind: int) -> tuple[int, ...]:
        if kind not in self._coverage:
            self._coverage[kind] = set_cover.coverage(self.kinds, self.demands, kind)
        return self._coverage[kind]
