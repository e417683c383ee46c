# SPDX-License-Identifier: Apache-2.0
"""Summaries for lists: free and total amounts of each pod manager, or of each of its pools."""

from __future__ import annotations

from collections.abc import Container

from valence_sched.errors import UnknownName
from valence_sched.model.measures import MEASURES, PodmSummary
from valence_sched.model.podm_overview import PodmOverview
from valence_sched.view.view import View


def overviews(view: View, live: Container[str] = ()) -> list[PodmOverview]:
    """Return every pod manager with its amounts; ``live`` are the ids of those that are live."""
    pool_counts = (view.first_row[1:] - view.first_row[:-1]).tolist()
    return [
        PodmOverview(podm=podm, amounts=amounts, pool_count=pools, live=podm.id in live)
        for podm, amounts, pools in zip(view.podms, summarise_podms(view), pool_counts, strict=True)
    ]


def overview(view: View, name: str, live: Container[str] = ()) -> PodmOverview:
    """Return one pod manager, by its id or its name, with the amounts of its pools.

    Raises:
        UnknownName: there is none of this name.
    """
    numbers = {name: i for i, podm in enumerate(view.podms) for name in (podm.name, podm.id)}
    if name not in numbers:
        raise UnknownName("pod manager", name, [podm.id for podm in view.podms])
    number = numbers[name]
    pools = summarise_pools(view, number)
    return PodmOverview(podm=view.podms[number], amounts=summarise_podms(view)[number],
                        pool_count=len(pools), live=view.podms[number].id in live,
                        pools=pools)  # fmt: skip


def summarise_podms(view: View) -> list[PodmSummary]:
    """Return one summary per podm; a block in two pools counts once."""
    rows = view.first_row[:-1]
    sums = {
        name: (view.free(need, "podm")[rows].tolist(), view.total(need, "podm")[rows].tolist())
        for name, need in MEASURES.items()
    }
    summaries = []
    for podm, table in enumerate(view.block_tables):
        pairs = {name: (int(free[podm]), int(total[podm])) for name, (free, total) in sums.items()}
        blocks = (sum(slots > 0 for slots in table.slots), len(table.slots))
        stocks = {
            name: (float(c.podm_free[rows[podm]]), float(c.podm_total[rows[podm]]))
            for name, c in view.resources.items()
            if any(stock.resource == name for stock in table.stocks)
        }
        summaries.append(PodmSummary(blocks=blocks, stocks=stocks, **pairs))
    return summaries


def summarise_pools(view: View, podm: int) -> dict[str, PodmSummary]:
    """Return one summary per pool of a podm; a block in two pools counts in both."""
    first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
    part = view.window(first, last)
    table = view.block_tables[podm]
    summaries = {}
    for row, pool in enumerate(part.pools):
        pool_blocks = [block for block, pools in enumerate(table.pools) if row in pools]
        pairs = {
            name: (int(part.free(need)[row]), int(part.total(need)[row]))
            for name, need in MEASURES.items()
        }
        numbers = table.stocks_in(row)
        stocks = {
            name: (float(column.free[row]), float(column.total[row]))
            for name, column in part.resources.items()
            if any(table.stocks[number].resource == name for number in numbers)
        }
        blocks = (sum(table.slots[block] > 0 for block in pool_blocks), len(pool_blocks))
        summaries[pool.id] = PodmSummary(blocks=blocks, stocks=stocks, **pairs)
    return summaries
