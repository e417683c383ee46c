# SPDX-License-Identifier: Apache-2.0
"""Summaries for lists: free and total amounts of each pod manager, or of each of its pools."""

from __future__ import annotations

from valence_sched.model.measures import MEASURES, PodmSummary
from valence_sched.view.view import View


def summarise_podms(view: View) -> list[PodmSummary]:
    """Return one line per podm; a block that stands in two pools counts once."""
    rows = view.first_row[:-1]
    sums = {
        name: (view.free(need, "podm")[rows].tolist(), view.total(need, "podm")[rows].tolist())
        for name, need in MEASURES.items()
    }
    found = []
    for podm, shelf in enumerate(view.block_tables):
        pairs = {name: (int(free[podm]), int(total[podm])) for name, (free, total) in sums.items()}
        blocks = (sum(slots > 0 for slots in shelf.slots), len(shelf.slots))
        stocks = {
            name: (float(c.podm_free[rows[podm]]), float(c.podm_total[rows[podm]]))
            for name, c in view.resources.items()
            if any(stock.resource == name for stock in shelf.stocks)
        }
        found.append(PodmSummary(blocks=blocks, stocks=stocks, **pairs))
    return found


def summarise_pools(view: View, podm: int) -> dict[str, PodmSummary]:
    """Return one line per pool of a podm; a block that stands in two pools counts in both."""
    first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
    part = view.window(first, last)
    shelf = view.block_tables[podm]
    found = {}
    for row, pool in enumerate(part.pools):
        here = [block for block, pools in enumerate(shelf.pools) if row in pools]
        pairs = {
            name: (int(part.free(need)[row]), int(part.total(need)[row]))
            for name, need in MEASURES.items()
        }
        numbers = shelf.stocks_in(row)
        stocks = {
            name: (float(column.free[row]), float(column.total[row]))
            for name, column in part.resources.items()
            if any(shelf.stocks[number].resource == name for number in numbers)
        }
        blocks = (sum(shelf.slots[block] > 0 for block in here), len(here))
        found[pool.id] = PodmSummary(blocks=blocks, stocks=stocks, **pairs)
    return found
