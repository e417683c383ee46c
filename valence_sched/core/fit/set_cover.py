# SPDX-License-Identifier: Apache-2.0
"""Set cover: the cheapest choice of items that meets every demand within the caps.

Minimise ``sum(price * n)`` subject to ``sum(gives[j] * n) >= demand[j]`` for every demand,
``sum(n over the items that count against a cap) <= cap`` and ``0 <= n <= available``. All
numbers are whole, so an answer is exact. Three searches follow one another, each where the one
before it ended without an answer:

1. depth first, item by item in order of price per share of the demand, for ``FREE_STATES``: nearly
   every question ends here;
2. layer by layer, over all states that are still open, with the bounds of the linear relaxation
   (``layered_search``);
3. HiGHS (``optimiser``).

The work is counted in states, not timed: equal questions get equal answers. A question that all
three leave open is undecided. Of equally cheap covers the one with more of the earlier items wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from valence_sched.core.fit.dive import Dive, Item
from valence_sched.core.fit.spending import FREE_STATES

if TYPE_CHECKING:
    from valence_sched.core.fit.cover_table import CoverTable
    from valence_sched.core.fit.programme import ProgrammePart

IMPROVE_STATES = 50_000  # states of the second in search of a cheaper cover once one is known
OPTIMISER_STATES = 200_000  # of the third
WIDTH = 16  # demands and caps from which on a state counts as several


class Cover(NamedTuple):
    """How many to take of each item; None where no choice was found.

    It is ``complete`` where all was searched: then there is no better one, or none at all.
    """

    counts: list[int] | None
    states: int
    complete: bool

    @property
    def is_open(self) -> bool:
        """Return whether it is not known if there is a cover."""
        return self.counts is None and not self.complete


def cheapest_cover(
    items: Sequence[Item],
    demand: Sequence[int],
    caps: Sequence[int] = (),
    *,
    states: int = FREE_STATES,
    improve: bool = True,
) -> Cover:
    """Return the cheapest cover found within so many states.

    Without ``improve`` the first that is found will do.
    """
    if not any(demand):
        return Cover([0] * len(items), 0, True)
    weight = 1 + (len(demand) + len(caps)) // WIDTH
    dive = Dive(items, tuple(demand), None, min(states, FREE_STATES) // weight)
    dive.improve = improve
    dive.run(tuple(demand), tuple(caps))
    visited = dive.states * weight
    if dive.complete or states <= FREE_STATES or not (improve or dive.best is None):
        return Cover(_counts(items, demand, dive, dive.best, dive.complete), visited, dive.complete)
    return _search_further(items, demand, caps, states, weight, dive)


def _search_further(
    items: Sequence[Item],
    demand: Sequence[int],
    caps: Sequence[int],
    states: int,
    weight: int,
    dive: Dive,
) -> Cover:
    """Return the cheapest cover by the searches that follow a dive; few questions need them."""
    from valence_sched.core.fit import optimiser
    from valence_sched.core.fit.cover_table import CoverTable
    from valence_sched.core.fit.layered_search import LayeredSearch

    visited = dive.states * weight
    in_order = [items[position] for position in dive.order]
    table = CoverTable.of(in_order, demand, caps)
    if table is None:
        return Cover(_counts(items, demand, dive, dive.best, False), visited, False)
    left = states - visited
    left = left if dive.best is None else min(left, IMPROVE_STATES)
    search = LayeredSearch(table, dive.ceiling, left // weight)
    complete = search.run()
    visited += search.states * weight
    best = search.best or dive.best
    if complete or best is not None:
        return Cover(_counts(items, demand, dive, best, complete), visited, complete)
    prices = dict(enumerate(table.prices.tolist()))
    found = optimiser.optimum(_programme(table), prices, OPTIMISER_STATES)
    counts = _counts(items, demand, dive, found.found, found.complete)
    return Cover(counts, visited + found.states, found.complete)


def _programme(table: CoverTable) -> ProgrammePart:
    from valence_sched.core.fit.programme import ProgrammePart

    part = ProgrammePart(table.available.tolist())
    for gives, amount in zip(table.gives.T.tolist(), table.demand.tolist(), strict=True):
        part.row([(item, give) for item, give in enumerate(gives) if give], lower=amount)
    for uses, room in zip(table.uses.T.tolist(), table.room.tolist(), strict=True):
        part.row([(item, 1) for item, use in enumerate(uses) if use], upper=room)
    return part


def _counts(
    items: Sequence[Item],
    demand: Sequence[int],
    dive: Dive,
    best: Sequence[int] | None,
    complete: bool,
) -> list[int] | None:
    """Return the counts of a cover, of which every one is needed.

    The cheapest cover has no needless one. The best of a search that was ended may: these are left
    out, the dearest first.
    """
    counts = dive.counts(best)
    if counts is None or complete:
        return counts
    surplus = [sum(item.gives[j] * n for item, n in zip(items, counts, strict=True)) - needed
               for j, needed in enumerate(demand)]  # fmt: skip
    for index in sorted(range(len(items)), key=lambda index: -items[index].price):
        gives = items[index].gives
        spare = [surplus[j] // give for j, give in enumerate(gives) if give and demand[j]]
        needless = min([counts[index], *spare])
        counts[index] -= needless
        surplus = [left - needless * give for left, give in zip(surplus, gives, strict=True)]
    return counts
