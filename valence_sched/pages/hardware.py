# SPDX-License-Identifier: Apache-2.0
"""The page of an inventory, and the map of it and of what decisions take of it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from valence_sched.model import page as pages
from valence_sched.model.base import format_value
from valence_sched.model.decision import Candidate, PodmVerdict, Report
from valence_sched.model.hardware import (
    BlockFilter,
    BlockOverview,
    BlockUse,
    PodmOverview,
    PodmSummary,
    PoolOverview,
    count_devices,
)
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.quantity import format_count, format_mib
from valence_sched.model.scheduler import Scheduler
from valence_sched.pages.tables import Facts, table
from valence_sched.words.phrases import ReasonPhrases, device_phrases, request_phrase, short_model

MOST_PODMS = 2000  # that a map draws
NO_POOL = "in no pool"
_ROLES: dict[str, pages.Role] = {
    "chosen": "chosen",
    "alternate": "alternate",
    "fits": "candidate",
    "undecided": "undecided",
    "rejected": "rejected",
}
_ORDER = {role: number for number, role in enumerate(_ROLES.values())}

#: By (pod manager, URI): what becomes of a block, and the numbers of its takers.
BlockMarks = Mapping[tuple[str, str], tuple[pages.BlockRole, tuple[int, ...]]]


@dataclass(frozen=True)
class HardwareListing:
    """Pod managers, and by their ids their pools and blocks."""

    podms: Sequence[PodmOverview]
    pools: Mapping[str, Sequence[PoolOverview]]
    blocks: Mapping[str, Sequence[BlockOverview]]


def read_hardware(
    scheduler: Scheduler, podms: Sequence[PodmOverview] | None = None
) -> HardwareListing:
    """Return what a scheduler decides on, or of it the named pod managers; errors as of it."""
    podms = scheduler.podms() if podms is None else podms
    return hardware_listing(podms, scheduler.pools(), scheduler.blocks(BlockFilter()))


def hardware_listing(
    podms: Sequence[PodmOverview], pools: Iterable[PoolOverview], blocks: Iterable[BlockOverview]
) -> HardwareListing:
    """Return these pod managers with those of the pools and blocks that are theirs."""
    pools_of: dict[str, list[PoolOverview]] = {one.podm.id: [] for one in podms}
    blocks_of: dict[str, list[BlockOverview]] = {one.podm.id: [] for one in podms}
    for pool in pools:
        pools_of.get(pool.podm, []).append(pool)
    for block in blocks:
        blocks_of.get(block.podm, []).append(block)
    return HardwareListing(podms, pools_of, blocks_of)


def tail(uri: str) -> str:
    """Return the last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def inventory_map(hardware: HardwareListing) -> pages.HardwareMap:
    """Return the map of hardware on which nothing was decided."""
    return hardware_map(
        hardware, [map_podm(hardware, one.podm, {}) for one in hardware.podms[:MOST_PODMS]]
    )


def decision_map(hardware: HardwareListing, reports: Sequence[Report]) -> pages.HardwareMap:
    """Return the map of the hardware that was decided on; what is chosen stands first.

    Of several decisions a pod manager has the verdict of the one that is kindest to it, and each
    request takes blocks; of one decision each node does.
    """
    verdicts: dict[str, PodmVerdict] = {}
    for verdict in (verdict for report in reports for verdict in report.podms):
        known = verdicts.get(verdict.podm)
        if known is None or _rank(verdict) < _rank(known):
            verdicts[verdict.podm] = verdict
    ordered = sorted(hardware.podms, key=lambda one: _rank(verdicts.get(one.podm.id)))[:MOST_PODMS]
    marks, takers = _block_marks(reports)
    return hardware_map(
        hardware,
        [map_podm(hardware, one.podm, marks, verdicts.get(one.podm.id)) for one in ordered],
        takers if len(takers) > 1 else (),
    )


def hardware_map(
    hardware: HardwareListing, podms: Sequence[pages.MapPodm], takers: Sequence[str] = ()
) -> pages.HardwareMap:
    """Return the map with these pod managers; marks have the numbers of ``takers``."""
    text = "A square is a block. A block that stands in several pools is drawn in each."
    if len(hardware.podms) > len(podms):
        text += f" The first {len(podms):,} of {len(hardware.podms):,} pod managers are drawn."
    return pages.HardwareMap(title="Hardware", podms=tuple(podms), text=text, takers=tuple(takers))


def _rank(verdict: PodmVerdict | None) -> tuple[int, float]:
    if verdict is None:
        return len(_ORDER), 0.0
    return _ORDER[_ROLES[verdict.outcome]], -(verdict.score or 0.0)


def _block_marks(reports: Sequence[Report]) -> tuple[BlockMarks, list[str]]:
    takers: list[str] = []
    taken: list[tuple[int, Candidate]] = []
    alternates: list[Candidate] = []
    for report in reports:
        if len(reports) > 1 and report.placements:
            takers.append(request_phrase(report.request))
        for node in report.placements:
            if len(reports) == 1:
                takers.append(f"node {node.node}")
            taken.append((len(takers), node.chosen))
            alternates += node.alternates
    marks: dict[tuple[str, str], tuple[pages.BlockRole, tuple[int, ...]]] = {}
    for one in alternates:
        marks.update({(one.podm, block.uri): ("alternate", ()) for block in one.blocks})
    chosen: dict[tuple[str, str], dict[int, None]] = {}
    for number, one in taken:
        for block in one.blocks:
            chosen.setdefault((one.podm, block.uri), {})[number] = None
    marks.update({key: ("chosen", tuple(numbers)) for key, numbers in chosen.items()})
    return marks, takers


def map_podm(
    hardware: HardwareListing,
    podm: LeanPodm,
    marks: BlockMarks,
    verdict: PodmVerdict | None = None,
    *,
    role: pages.Role = "",
    text: str = "",
) -> pages.MapPodm:
    """Return a pod manager of a map; what a verdict makes of it stands for role and text."""
    blocks = hardware.blocks[podm.id]
    return pages.MapPodm(
        name=podm.id,
        uses=dict(Counter(block.use for block in blocks)),
        role=_ROLES[verdict.outcome] if verdict else role,
        text=_text(verdict) or text,
        labels=tuple(_labels(podm)),
        pools=_pools(hardware, podm.id, blocks, marks, verdict),
    )


def _labels(podm: LeanPodm) -> Iterable[str]:
    if podm.name and podm.name != podm.id:
        yield podm.name
    if podm.status != "Online":
        yield podm.status
    if not podm.enabled:
        yield "disabled"
    if podm.zone:
        yield f"zone {podm.zone}"
    if podm.nodes:
        yield format_count(len(podm.nodes), "node")


def _text(verdict: PodmVerdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.outcome in ("rejected", "undecided"):
        return ReasonPhrases().of_reason(verdict.reason) if verdict.reason else ""
    fitting = f"; {verdict.fitting:,} nodes of the request fit here" if verdict.fitting > 1 else ""
    return f"score {verdict.score:.3f}{fitting}" if verdict.score is not None else ""


def _pools(
    hardware: HardwareListing,
    podm: str,
    blocks: Sequence[BlockOverview],
    marks: BlockMarks,
    verdict: PodmVerdict | None,
) -> tuple[pages.MapPool, ...]:
    """Return the pools of a pod manager with their blocks, those that hold the same together."""
    groups: dict[str, dict[str, list[pages.MapBlock]]] = {
        pool.pool: defaultdict(list) for pool in hardware.pools[podm]
    }
    labels: dict[int, str] = {}  # equal devices are one object: each is put into words once
    for block in blocks:
        label = labels.get(id(block.devices))
        if label is None:
            label = labels[id(block.devices)] = ", ".join(device_phrases(block.devices))
        square = pages.MapBlock(tail(block.uri), block.use, *marks.get((podm, block.uri), ()))
        for pool in block.pools or (NO_POOL,):
            here = groups.setdefault(pool, defaultdict(list))
            here[label or " ".join(block.types) or "devices unknown"].append(square)
    reasons = {one.pool: one.reasons for one in verdict.pool_reasons} if verdict else {}
    several = len(groups) > 1
    drawn = []
    for pool, by_label in groups.items():
        text = ReasonPhrases().of_pool(reasons[pool]) if several and pool in reasons else ""
        held = by_label.items()
        some = tuple(pages.MapGroup(label=label, blocks=tuple(squares)) for label, squares in held)
        drawn.append(
            pages.MapPool(name=pool, groups=some, role=_pool_role(pool, verdict), text=text)
        )
    return tuple(drawn)


def _pool_role(pool: str, verdict: PodmVerdict | None) -> pages.Role:
    """Return what a decision makes of a pool: its best one stands for the pod manager."""
    if verdict is None:
        return ""
    if pool == verdict.pool:
        return _ROLES[verdict.outcome]
    return "rejected" if any(one.pool == pool for one in verdict.pool_reasons) else ""


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


def inventory_page(hardware: HardwareListing) -> pages.Page:
    """Return the page of an inventory."""
    podms = hardware.podms
    uses = Counter(block.use for blocks in hardware.blocks.values() for block in blocks)
    every = sum(uses.values())
    free = uses["free"] + uses["shared"]
    tables = (device_table(hardware), podm_table(podms))
    return pages.Page(
        title="Inventory",
        lead=f"{free:,} of {every:,} blocks are free on {len(podms):,} pod managers",
        facts=(*size_facts(podms, every), *use_facts(uses)),
        sections=(totals_table(podms), inventory_map(hardware), *tables),
    )


def size_facts(podms: Sequence[PodmOverview], blocks: int) -> Facts:
    """Return how many pod managers, pools, blocks and nodes there are."""
    pools, nodes = sum(one.pool_count for one in podms), sum(len(one.podm.nodes) for one in podms)
    numbers = {"Pod managers": len(podms), "Pools": pools, "Blocks": blocks, "Nodes": nodes}
    return tuple((name, f"{number:,}") for name, number in numbers.items())


def use_facts(uses: Mapping[BlockUse, int]) -> Facts:
    """Return how many blocks are shared and unusable, where some are."""
    words: tuple[BlockUse, ...] = ("shared", "unusable")
    return tuple((f"{word.capitalize()} blocks", f"{uses[word]:,}") for word in words if uses[word])


def totals_table(podms: Sequence[PodmOverview]) -> pages.PageTable:
    """Return what pod managers have together, and what of it is free."""
    pairs: dict[str, list[Pair]] = {}
    for one in podms:
        for field, title in _MEASURES:
            pairs.setdefault(title, []).append(getattr(one.amounts, field))
        for name, pair in one.amounts.stocks.items():
            pairs.setdefault(name, []).append(pair)
    rows: list[pages.Row] = [
        (title, *_total_texts(title, each))
        for title, each in pairs.items()
        if any(pair != (0, 0) for pair in each)
    ]
    columns = ("Resource", "Free", "Total", "Not free")
    return table("What is free", columns, rows, columns[1:], _BARS)


def _total_texts(title: str, pairs: Sequence[Pair]) -> Iterable[str | pages.TableCell]:
    """Yield the sums of what is known, with a plus where a part is not, and the share in use."""
    sums: list[float] = []
    for amounts in zip(*pairs, strict=True):
        known = [amount for amount in amounts if amount is not None]
        sums.append(sum(known))
        yield _amount_text(title, sum(known)) + ("+" if len(known) < len(amounts) else "")
    whole = all(None not in pair for pair in pairs)
    yield _used((sums[0], sums[1])) if whole else pages.TableCell(text="unknown")


def _amount_text(title: str, amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return format_mib(amount) if title == "Memory" else format_value(amount)


def _used(pair: Pair) -> pages.TableCell:
    free, total = pair
    if free is None or not total:
        return pages.TableCell(text="unknown" if free is None or total is None else "none")
    share = (total - free) / total
    return pages.TableCell(text=f"{share:.0%}", share=share)


def device_table(hardware: HardwareListing) -> pages.PageTable:
    """Return the devices of hardware, counted by model."""
    devices = count_devices(block for blocks in hardware.blocks.values() for block in blocks)
    rows: list[pages.Row] = []
    for one in devices:
        free, total = (_amount_text("", amount) for amount in (one.free, one.devices))
        used = _used((one.free, one.devices))
        model = short_model(one.model) or "unknown"
        rows.append((one.kind, model, free, total, used, f"{one.podms:,}"))
    columns = ("Device", "Model", "Free", "Total", "Not free", "On podms")
    return table("Devices", columns, rows, columns[2:])


def podm_table(
    podms: Sequence[PodmOverview], href: Callable[[str], str] = lambda _podm: ""
) -> pages.PageTable:
    """Return pod managers, a row each; ``href`` gives the page of one where it has one."""
    titles = [title for field, title in _MEASURES if field in _IN_TABLE]
    rows: list[pages.Row] = []
    for one in podms:
        podm, page = one.podm, href(one.podm.id)
        name = pages.TableCell(text=podm.id, href=page) if page else podm.id
        status = podm.status if podm.enabled else f"{podm.status}, disabled"
        nodes = f"{len(podm.nodes):,}"
        amounts = _free_cells(one.amounts)
        rows.append((name, status, podm.zone or "", *amounts, nodes, podm.read_at or ""))
    columns = ("Podm", "Status", "Zone", *titles, "Nodes", "Read at")
    return table("Pod managers", columns, rows, (*titles, "Nodes"), f"Free of all. {_BARS}")


def _free_cells(amounts: PodmSummary) -> Iterable[pages.TableCell]:
    for field, title in _MEASURES:
        if field in _IN_TABLE:
            pair = getattr(amounts, field)
            free, total = (_amount_text(title, amount) for amount in pair)
            text = "none" if pair == (0, 0) else f"{free} of {total}"
            yield pages.TableCell(text=text, share=_used(pair).share)
