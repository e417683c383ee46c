# SPDX-License-Identifier: Apache-2.0
"""Lists the hardware of a View: the amounts of pod managers and pools, blocks, and devices."""

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.errors import UnknownName, UsageError
from valence_sched.model import hardware as nouns
from valence_sched.model.inventory import Pool, Stock, uri_tail
from valence_sched.model.need import MEASURES, has_words, taints_in
from valence_sched.model.quantity import format_count
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import By, Floats, Mask, View

Sums = dict[str, tuple[list[int | None], list[int | None]]]  # free and total by row, by measure
StockSums = dict[str, tuple[Floats, Floats]]  # the same by resource

_MOST_NAMED = 4  # blocks of the same name that an error lists


def overviews(view: View, live: Container[str] = ()) -> list[nouns.PodmOverview]:
    """Return every pod manager with its amounts; ``live`` are the ids of live pod managers."""
    pool_counts = (view.first_row[1:] - view.first_row[:-1]).tolist()
    return [
        nouns.PodmOverview(podm=podm, amounts=amounts, pool_count=pools, live=podm.id in live)
        for podm, amounts, pools in zip(view.podms, summarise_podms(view), pool_counts, strict=True)
    ]


def overview(view: View, name: str, live: Container[str] = ()) -> nouns.PodmOverview:
    """Return one pod manager by its id or name, with its pools; UnknownName if unknown."""
    numbers = {name: i for i, podm in enumerate(view.podms) for name in (podm.name, podm.id)}
    if name not in numbers:
        raise UnknownName("pod manager", name, view.podm_ids)
    found = overviews(view, live)[numbers[name]]
    return replace(found, pools=summarise_pools(view, numbers[name]))


def summarise_podms(view: View) -> list[nouns.PodmSummary]:
    """Return one summary per podm; a block in two pools counts once."""
    sums = _sums(view, "podm")
    amounts = {name: (one.podm_free, one.podm_total) for name, one in view.resources.items()}
    rows = zip(view.first_row[:-1].tolist(), view.block_tables, strict=True)
    return [
        _summary(row, sums, amounts, _plain_slots(view, table), table.stocks) for row, table in rows
    ]


def summarise_pools(view: View, podm: int) -> dict[str, nouns.PodmSummary]:
    """Return one summary per pool of a podm; a block in two pools counts in both."""
    part, table = view.window(*view.rows(podm)), view.block_tables[podm]
    sums = _sums(part, "pool")
    amounts = {name: (one.free, one.total) for name, one in part.resources.items()}
    summaries = {}
    for row, pool in enumerate(part.pools):
        every = zip(_plain_slots(view, table), table.pools, strict=True)
        slots = [n for n, pools in every if row in pools]
        both = zip(table.stocks, table.stock_pools, strict=True)
        here = [stock for stock, pools in both if row in pools]
        summaries[pool.id] = _summary(row, sums, amounts, slots, here)
    return summaries


def _plain_slots(view: View, table: BlockTable) -> Sequence[int]:
    """Return the free slots of each block for requests without tolerations."""
    kinds = view.kinds
    tainted = {kind for kind in kinds.impaired if taints_in(kinds.kinds[kind].condition)}
    if not tainted:
        return table.slots
    pairs = zip(table.kinds, table.slots, strict=True)
    return [0 if kind in tainted else slots for kind, slots in pairs]


def _summary(
    row: int, sums: Sums, amounts: StockSums, slots: Sequence[int], stocks: Sequence[Stock]
) -> nouns.PodmSummary:
    known = {stock.resource for stock in stocks if stock.total is not None}
    return nouns.PodmSummary(
        blocks=(sum(one > 0 for one in slots), len(slots)),
        stocks={
            name: (float(free[row]), float(total[row])) if name in known else (None, None)
            for name, (free, total) in amounts.items()
            if any(stock.resource == name for stock in stocks)
        },
        **{name: (free[row], total[row]) for name, (free, total) in sums.items()},
    )


def _sums(view: View, by: By) -> Sums:
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


def blocks(view: View, wanted: nouns.BlockFilter) -> Iterator[nouns.BlockOverview]:
    """Yield the blocks that pass a filter; UnknownName for an unknown pod manager or pool."""
    podm_numbers = _podm_numbers(view, wanted.podm)
    known_pools = {pool.id for number in podm_numbers for pool in _pools(view, number)}
    if wanted.pool is not None and wanted.pool not in known_pools:
        raise UnknownName("pool", wanted.pool, sorted(known_pools))
    keeps_kind: list[bool] = []
    words = wanted.model
    for kind in view.kinds.kinds:
        models = [model for _, model, _ in nouns.device_groups(kind.devices) if model]
        named = words is None or any(has_words(model, words) for model in models)
        keeps_kind.append(named and (wanted.type is None or wanted.type in kind.types))
    for number in podm_numbers:
        podm, table, known = view.podms[number], view.block_tables[number], _pools(view, number)
        slots = _plain_slots(view, table)
        users: dict[str, list[str]] = defaultdict(list)
        for node in podm.nodes:
            for uri in node.blocks:
                users[uri].append(node.label)
        for block, uri in enumerate(table.uris):
            pools = tuple(known[position].id for position in table.pools[block])
            if not keeps_kind[table.kinds[block]] or (wanted.free and slots[block] <= 0):
                continue
            if wanted.pool is not None and wanted.pool not in pools:
                continue
            kind = view.kinds.kinds[table.kinds[block]]
            in_use = table.gains[block] > 0 or table.shared[block] or uri in users
            use: nouns.BlockUse = "used" if in_use else "unusable"
            if slots[block] > 0:
                use = "shared" if in_use else "free"
            topology = (table.topologies[block] if table.topologies else None) or {}
            yield nouns.BlockOverview(
                podm=podm.id,
                uri=uri,
                types=kind.types,
                pools=pools,
                devices=kind.devices,
                slots=slots[block],
                use=use,
                nodes=tuple(users.get(uri, ())),
                topology=dict(topology),
                condition=kind.condition,
            )


def block(view: View, name: str, podm: str | None = None) -> nouns.BlockOverview:
    """Return a block by its URI or the last part of it; UnknownName, UsageError for several."""
    every = list(blocks(view, nouns.BlockFilter(podm=podm)))
    names = [uri_tail(one.uri) for one in every]
    alike = [one for one, last in zip(every, names, strict=True) if last == name]
    found = [one for one in every if one.uri == name] or alike
    if not found:
        raise UnknownName("block", name, set(names))
    if len(found) > 1:
        places = ", ".join(f"{one.uri} of {one.podm}" for one in found[:_MOST_NAMED])
        hint = f"give the URI, and --podm if two pod managers have it ({places})"
        count = format_count(len(found), "block")
        raise UsageError(f"{count} are named {name!r}: {hint}")
    return found[0]


def pools(view: View, podm: str | None = None) -> Iterator[nouns.PoolOverview]:
    """Yield the pools of every pod manager, or of one; UnknownName if that is unknown."""
    for number in _podm_numbers(view, podm):
        summaries = summarise_pools(view, number)
        for one in _pools(view, number):
            yield nouns.PoolOverview(
                podm=view.podms[number].id,
                pool=one.id,
                name=one.name,
                traits=one.traits,
                amounts=summaries[one.id],
            )


def _pools(view: View, podm: int) -> Sequence[Pool]:
    return view.pools[slice(*view.rows(podm))]


def device_counts(view: View, wanted: nouns.BlockFilter) -> list[nouns.DeviceCount]:
    """Count the devices of filtered blocks by model; ``wanted.model`` also selects devices."""
    return nouns.count_devices(blocks(view, wanted), wanted.model)


def _podm_numbers(view: View, name: str | None) -> list[int]:
    if name is None:
        return list(range(len(view.podms)))
    found = [number for number, podm in enumerate(view.podms) if name in (podm.id, podm.name)]
    if not found:
        raise UnknownName("pod manager", name, view.podm_ids)
    return found[:1]
