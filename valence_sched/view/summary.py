# SPDX-License-Identifier: Apache-2.0
"""Summaries for lists: free and total amounts of each pod manager, or of each of its pools."""

from collections.abc import Container, Iterable

from valence_sched.errors import UnknownName
from valence_sched.model.hardware import PodmOverview, PodmSummary
from valence_sched.model.inventory import Stock
from valence_sched.model.need import MEASURES
from valence_sched.view.view import By, Floats, Mask, View


def overviews(view: View, live: Container[str] = ()) -> list[PodmOverview]:
    """Return every pod manager with its amounts; ``live`` are the ids of those that are live."""
    pool_counts = (view.first_row[1:] - view.first_row[:-1]).tolist()
    return [
        PodmOverview(podm=podm, amounts=amounts, pool_count=pools, live=podm.id in live)
        for podm, amounts, pools in zip(view.podms, summarise_podms(view), pool_counts, strict=True)
    ]


def overview(view: View, name: str, live: Container[str] = ()) -> PodmOverview:
    """Return one pod manager by its id or name, with its pools; UnknownName if there is none."""
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
    sums = _sums(view, "podm")
    summaries = []
    for podm, table in enumerate(view.block_tables):
        row = int(rows[podm])
        pairs = {name: (free[row], total[row]) for name, (free, total) in sums.items()}
        blocks = (sum(slots > 0 for slots in table.slots), len(table.slots))
        stocks = {
            name: _if_known(table.stocks, name, column.podm_free[row], column.podm_total[row])
            for name, column in view.resources.items()
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
    sums = _sums(part, "pool")
    for row, pool in enumerate(part.pools):
        pool_blocks = [block for block, pools in enumerate(table.pools) if row in pools]
        pairs = {name: (free[row], total[row]) for name, (free, total) in sums.items()}
        here = [table.stocks[number] for number in table.stocks_in(row)]
        stocks = {
            name: _if_known(here, name, column.free[row], column.total[row])
            for name, column in part.resources.items()
            if any(stock.resource == name for stock in here)
        }
        blocks = (sum(table.slots[block] > 0 for block in pool_blocks), len(pool_blocks))
        summaries[pool.id] = PodmSummary(blocks=blocks, stocks=stocks, **pairs)
    return summaries


def _sums(view: View, by: By) -> dict[str, tuple[list[int | None], list[int | None]]]:
    """Return what is free and what there is of each measure, per row; None where it is unknown."""
    return {
        name: (
            _known_amounts(view.free(need, by), view.is_unknown(need, by, free=True)),
            _known_amounts(view.total(need, by), view.is_unknown(need, by, free=False)),
        )
        for name, need in MEASURES.items()
    }


def _known_amounts(amounts: Floats, unknown: Mask) -> list[int | None]:
    pairs = zip(amounts.tolist(), unknown.tolist(), strict=True)
    return [None if is_unknown else int(amount) for amount, is_unknown in pairs]


def _if_known(
    stocks: Iterable[Stock], resource: str, free: float, total: float
) -> tuple[float | None, float | None]:
    """Return free and total amounts of a resource, None if no stock of it tells its total."""
    if all(stock.total is None for stock in stocks if stock.resource == resource):
        return None, None
    return float(free), float(total)
