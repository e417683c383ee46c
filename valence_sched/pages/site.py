# SPDX-License-Identifier: Apache-2.0
"""The pages of a site that is served: all of it, and one pod manager with who uses its blocks."""

from collections import Counter
from collections.abc import Iterator, Sequence

from valence_sched.model.base import format_value
from valence_sched.model.page import Lines, Page, PageTable, Row, Section, TableCell
from valence_sched.model.podm_overview import BlockUsage, PodmOverview, PodmSummary
from valence_sched.pages.hardware import HardwareListing, inventory_map, tail
from valence_sched.pages.inventory import device_table, podm_table, totals_table
from valence_sched.pages.page_links import PageLinks

MOST_ROWS = 500  # of blocks that are held, and of pools
MOST_LINES = 100


def site_page(podms: Sequence[PodmOverview], shown: HardwareListing, links: PageLinks) -> Page:
    """Return the page of these pod managers; of those in ``shown`` the hardware is drawn."""
    free, every = (sum(one.amounts.blocks[n] for one in podms) for n in (0, 1))
    nodes = sum(len(one.podm.nodes) for one in podms)
    return Page(
        title="Site",
        lead=f"{free:,} of {every:,} blocks are free on {len(podms):,} pod managers",
        facts=(
            ("Pod managers", f"{len(podms):,}"),
            ("Pools", f"{sum(one.pool_count for one in podms):,}"),
            ("Blocks", f"{every:,}"),
            ("Nodes", f"{nodes:,}"),
        ),
        sections=(
            totals_table(podms),
            inventory_map(shown),
            podm_table(shown.podms, links.podm),
        ),
    )


def podm_page(
    one: PodmOverview, hardware: HardwareListing, usage: BlockUsage, links: PageLinks
) -> Page:
    """Return the page of a pod manager, its pools, its blocks and what holds them."""
    podm = one.podm
    free, every = one.amounts.blocks
    uses = Counter(block.use for block in hardware.blocks[podm.id])
    facts = [
        ("Name", podm.name or podm.id),
        ("Status", podm.status if podm.enabled else f"{podm.status}, disabled"),
        ("Zone", podm.zone or "none"),
        ("Read at", podm.read_at or "unknown"),
        ("Pools", f"{one.pool_count:,}"),
        ("Blocks", f"{every:,}"),
        ("Nodes", f"{len(podm.nodes):,}"),
    ]
    facts += [(f"{use.capitalize()} blocks", f"{uses[use]:,}")
              for use in ("shared", "unusable") if uses[use]]  # fmt: skip
    return Page(
        title=f"Podm {podm.id}",
        lead=f"{free:,} of {every:,} blocks are free",
        facts=tuple(facts),
        sections=(
            totals_table([one]),
            inventory_map(hardware),
            _pools(one.pools),
            device_table(hardware),
            *_usage(usage, links),
        ),
    )


def _pools(pools: dict[str, PodmSummary]) -> PageTable:
    rows = [
        (name, *(_of(pair) for pair in (one.blocks, one.cores, one.gpus)))
        for name, one in list(pools.items())[:MOST_ROWS]
    ]
    columns = ("Pool", "Blocks", "Cores", "GPUs")
    return PageTable(
        title="Pools",
        columns=columns,
        rows=tuple(rows),
        numbers=frozenset(columns[1:]),
        text=_first(len(pools), "Free of all."),
    )


def _of(pair: tuple[int | None, int | None]) -> str:
    free, total = pair
    return f"{format_value(free)} of {format_value(total)}"


def _usage(usage: BlockUsage, links: PageLinks) -> Iterator[Section]:
    held = sorted(usage.held.items())
    rows: list[Row] = [(tail(uri), _holder(ids, links)) for uri, ids in held[:MOST_ROWS]]
    yield PageTable(
        title="Held blocks",
        columns=("Block", "Claim"),
        rows=tuple(rows),
        text=_first(len(held), "Blocks that claims hold, or that nodes of claims are made of."),
    )
    if usage.foreign:
        lines = [tail(uri) for uri in usage.foreign[:MOST_LINES]]
        if len(usage.foreign) > len(lines):
            lines.append(f"and {len(usage.foreign) - len(lines):,} more")
        yield Lines(title="Blocks in use that no claim holds", lines=tuple(lines))


def _holder(ids: str, links: PageLinks) -> TableCell:
    """Return who holds a block: a claim, several, or another owner, of whom no more is known."""
    return TableCell(text=ids, href="" if " " in ids else links.claim(ids))


def _first(number: int, text: str) -> str:
    return text if number <= MOST_ROWS else f"{text} The first {MOST_ROWS} of {number:,}."
