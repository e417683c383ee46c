# SPDX-License-Identifier: Apache-2.0
"""The page of an inventory: what is free, its map, its devices and pod managers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from valence_sched.model.base import format_value
from valence_sched.model.hardware import BlockUse, PodmOverview, PodmSummary, count_devices
from valence_sched.model.page import Page, PageTable, Row, TableCell
from valence_sched.model.quantity import format_mib
from valence_sched.pages.hardware import HardwareListing, inventory_map
from valence_sched.pages.tables import Facts, table
from valence_sched.words.phrases import short_model

Pair = tuple[float | None, float | None]

#: The field of a summary, and its title.
_MEASURES = (
    ("blocks", "Blocks"),
    ("cores", "Cores"),
    ("memory_mib", "Memory"),
    ("gpus", "GPUs"),
    ("drives", "Drives"),
    ("nics", "NICs"),
)
_IN_TABLE = ("blocks", "cores", "memory_mib", "gpus")
_BARS = "A bar is the part that is not free: in use or unusable."


def inventory_page(hardware: HardwareListing) -> Page:
    """Return the page of an inventory."""
    podms = hardware.podms
    uses = Counter(block.use for blocks in hardware.blocks.values() for block in blocks)
    every = sum(uses.values())
    free = uses["free"] + uses["shared"]
    return Page(
        title="Inventory",
        lead=f"{free:,} of {every:,} blocks are free on {len(podms):,} pod managers",
        facts=(*size_facts(podms, every), *use_facts(uses)),
        sections=(totals_table(podms), inventory_map(hardware), device_table(hardware),
                  podm_table(podms)),
    )  # fmt: skip


def size_facts(podms: Sequence[PodmOverview], blocks: int) -> Facts:
    """Return how many pod managers, pools, blocks and nodes there are."""
    pools, nodes = sum(one.pool_count for one in podms), sum(len(one.podm.nodes) for one in podms)
    return (("Pod managers", f"{len(podms):,}"), ("Pools", f"{pools:,}"),
            ("Blocks", f"{blocks:,}"), ("Nodes", f"{nodes:,}"))  # fmt: skip


def use_facts(uses: Mapping[BlockUse, int]) -> Facts:
    """Return how many blocks are shared and unusable, where some are."""
    words: tuple[BlockUse, ...] = ("shared", "unusable")
    return tuple((f"{word.capitalize()} blocks", f"{uses[word]:,}") for word in words if uses[word])


def totals_table(podms: Sequence[PodmOverview]) -> PageTable:
    """Return what pod managers have together, and what of it is free."""
    pairs: dict[str, list[Pair]] = {}
    for one in podms:
        for field, title in _MEASURES:
            pairs.setdefault(title, []).append(getattr(one.amounts, field))
        for name, pair in one.amounts.stocks.items():
            pairs.setdefault(name, []).append(pair)
    rows: list[Row] = [
        (title, *_total_texts(title, each))
        for title, each in pairs.items()
        if any(pair != (0, 0) for pair in each)
    ]
    columns = ("Resource", "Free", "Total", "Not free")
    return table("What is free", columns, rows, columns[1:], _BARS)


def _total_texts(title: str, pairs: Sequence[Pair]) -> Iterable[str | TableCell]:
    """Yield the sums of what is known, with a plus where a part is not, and the share in use."""
    sums: list[float] = []
    for amounts in zip(*pairs, strict=True):
        known = [amount for amount in amounts if amount is not None]
        sums.append(sum(known))
        yield _amount_text(title, sum(known)) + ("+" if len(known) < len(amounts) else "")
    whole = all(None not in pair for pair in pairs)
    yield _used((sums[0], sums[1])) if whole else TableCell(text="unknown")


def _amount_text(title: str, amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return format_mib(amount) if title == "Memory" else format_value(amount)


def _amount_texts(title: str, pair: Pair) -> tuple[str, ...]:
    return tuple(_amount_text(title, amount) for amount in pair)


def _used(pair: Pair) -> TableCell:
    free, total = pair
    if free is None or not total:
        return TableCell(text="unknown" if free is None or total is None else "none")
    share = (total - free) / total
    return TableCell(text=f"{share:.0%}", share=share)


def device_table(hardware: HardwareListing) -> PageTable:
    """Return the devices of hardware, counted by model."""
    devices = count_devices(block for blocks in hardware.blocks.values() for block in blocks)
    rows: list[Row] = [
        (one.kind, short_model(one.model) or "unknown", *_amount_texts("", (one.free, one.devices)),
         _used((one.free, one.devices)), f"{one.podms:,}")
        for one in devices
    ]  # fmt: skip
    columns = ("Device", "Model", "Free", "Total", "Not free", "On podms")
    return table("Devices", columns, rows, columns[2:])


def podm_table(
    podms: Sequence[PodmOverview], href: Callable[[str], str] = lambda _podm: ""
) -> PageTable:
    """Return pod managers, a row each; ``href`` gives the page of one where it has one."""
    titles = [title for field, title in _MEASURES if field in _IN_TABLE]
    rows: list[Row] = [
        (TableCell(text=one.podm.id, href=page) if (page := href(one.podm.id)) else one.podm.id,
         one.podm.status if one.podm.enabled else f"{one.podm.status}, disabled",
         one.podm.zone or "", *_free_cells(one.amounts), f"{len(one.podm.nodes):,}",
         one.podm.read_at or "")
        for one in podms
    ]  # fmt: skip
    columns = ("Podm", "Status", "Zone", *titles, "Nodes", "Read at")
    return table("Pod managers", columns, rows, (*titles, "Nodes"), f"Free of all. {_BARS}")


def _free_cells(amounts: PodmSummary) -> Iterable[TableCell]:
    for field, title in _MEASURES:
        if field in _IN_TABLE:
            pair = getattr(amounts, field)
            free, total = _amount_texts(title, pair)
            text = "none" if pair == (0, 0) else f"{free} of {total}"
            yield TableCell(text=text, share=_used(pair).share)
