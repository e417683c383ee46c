# SPDX-License-Identifier: Apache-2.0
"""The page of an inventory, and the hardware map, which may mark the blocks of decisions."""

import datetime
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec.structs import replace

from valence_sched.errors import name_some
from valence_sched.model import hardware as nouns, page as pages, quantity
from valence_sched.model.base import format_value
from valence_sched.model.decision import Candidate, PodmVerdict, Report
from valence_sched.model.inventory import COUNTED_CONDITIONS, HIDDEN, OTHERS, LeanPodm, Node
from valence_sched.model.scheduler import Scheduler
from valence_sched.pages.render import PageLinks, anchor
from valence_sched.pages.tables import MOST_ROWS, Facts, first_of, sentence, table
from valence_sched.words import phrases

MOST_PODMS = 2000  # pod managers that a map draws
MOST_MARKED = 12  # above it, if all readings are old, the most frequent day is not marked
NO_POOL = "in no pool"
_ROLES: dict[str, pages.Role] = {"chosen": "chosen", "alternate": "alternate", "fits": "candidate"}
_ROLES |= {"undecided": "undecided", "rejected": "rejected"}
_ORDER = {role: number for number, role in enumerate(_ROLES.values())}

#: The role of a block and the numbers of its takers, by pod manager and URI.
BlockMarks = Mapping[tuple[str, str], tuple[pages.BlockRole, tuple[int, ...]]]
OLD_READING_S = 86400.0  # the default age at which a page marks a reading as old
#: The field of a summary, and its title.
_MEASURES = {"blocks": "Blocks", "cores": "Cores", "memory_mib": "Memory", "gpus": "GPUs"}
_MEASURES |= {"drives": "Drives", "nics": "NICs"}
_IN_TABLE = ("blocks", "cores", "memory_mib", "gpus")
_BARS = "A bar shows the unusable part: in use, in a bad condition, or on an unusable pod manager."
Amounts = tuple[float | None, float | None, float | None]  # usable, free and total
CLAIM = "claim:"  # prefix of the name of a node that a claim holds, in place of a URI
MOST_NAMED = 30  # blocks that a node shows


@dataclass(frozen=True)
class HardwareListing:
    """Pod managers, with their pools and blocks by the id of the pod manager.

    ``old`` has the days of old readings by the same id. ``links`` is None outside a service.
    """

    podms: Sequence[nouns.PodmOverview]
    pools: Mapping[str, Sequence[nouns.PoolOverview]]
    blocks: Mapping[str, Sequence[nouns.BlockOverview]]
    old: Mapping[str, str] = field(default_factory=dict)
    links: PageLinks | None = None

    @functools.cached_property
    def common_day(self) -> str:
        """The most frequent reading day, if all readings of a large map are old; else empty."""
        if len(self.podms) <= MOST_MARKED or len(self.old) < len(self.podms):
            return ""
        return Counter(self.old.values()).most_common(1)[0][0]


def old_readings(
    podms: Iterable[nouns.PodmOverview], now: datetime.datetime, limit_s: float | None = None
) -> dict[str, str]:
    most_s = OLD_READING_S if limit_s is None else limit_s
    ages = ((one.podm.id, quantity.age_s(one.podm.read_at, now)) for one in podms)
    return {
        podm: f"{now - datetime.timedelta(seconds=age):%Y-%m-%d}"
        for podm, age in ages
        if age is not None and age > most_s
    }


def read_hardware(
    scheduler: Scheduler,
    podms: Sequence[nouns.PodmOverview] | None = None,
    old: Mapping[str, str] = MappingProxyType({}),
) -> HardwareListing:
    """Return the hardware of all or of these pod managers; errors as for lists of a scheduler."""
    podms = scheduler.podms() if podms is None else podms
    return hardware_listing(podms, scheduler.pools(), scheduler.blocks(nouns.BlockFilter()), old)


def hardware_listing(
    podms: Sequence[nouns.PodmOverview],
    pools: Iterable[nouns.PoolOverview],
    blocks: Iterable[nouns.BlockOverview],
    old: Mapping[str, str] = MappingProxyType({}),
    links: PageLinks | None = None,
) -> HardwareListing:
    pools_of: dict[str, list[nouns.PoolOverview]] = {one.podm.id: [] for one in podms}
    blocks_of: dict[str, list[nouns.BlockOverview]] = {one.podm.id: [] for one in podms}
    for pool in pools:
        pools_of.get(pool.podm, []).append(pool)
    for block in blocks:
        blocks_of.get(block.podm, []).append(block)
    return HardwareListing(podms, pools_of, blocks_of, old, links)


def tail(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


def inventory_map(hardware: HardwareListing) -> pages.HardwareMap:
    podms = (one.podm for one in hardware.podms[:MOST_PODMS])
    return hardware_map(hardware, [map_podm(hardware, podm, {}) for podm in podms])


def decision_map(hardware: HardwareListing, reports: Sequence[Report]) -> pages.HardwareMap:
    """Return the hardware map of decisions; chosen pod managers come first.

    The takers of blocks are nodes, or the requests of several decisions with their best verdicts.
    """
    verdicts: dict[str, PodmVerdict] = {}
    for verdict in (verdict for report in reports for verdict in report.podms):
        known = verdicts.get(verdict.podm)
        if known is None or _rank(verdict) < _rank(known):
            verdicts[verdict.podm] = verdict
    ordered = sorted(hardware.podms, key=lambda one: _rank(verdicts.get(one.podm.id)))[:MOST_PODMS]
    marks, takers = _block_marks(reports)
    podms = [map_podm(hardware, it.podm, marks, verdicts.get(it.podm.id)) for it in ordered]
    return hardware_map(hardware, podms, takers if len(takers) > 1 else ())


def hardware_map(
    hardware: HardwareListing, podms: Sequence[pages.MapPodm], takers: Sequence[str] = ()
) -> pages.HardwareMap:
    """Return the map of these pod managers; blocks have the numbers of their ``takers``."""
    text = "A square is a block. A block of several pools is drawn in each of them."
    if len(hardware.podms) > len(podms):
        text += f" The first {len(podms):,} of {len(hardware.podms):,} pod managers are drawn."
    if day := hardware.common_day:
        others = ", unless another day is shown" if len(set(hardware.old.values())) > 1 else ""
        text += f" All readings are old: from {day}{others}."
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
            takers.append(phrases.request_phrase(report.request))
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
    day = hardware.old.get(podm.id)
    old = f"read {day}" if day and day != hardware.common_day else ""
    return pages.MapPodm(
        name=podm.id,
        uses=dict(block_uses(podm, hardware.blocks[podm.id])),
        role=_ROLES[verdict.outcome] if verdict else role,
        text=_text(verdict) or text,
        labels=(podm.name,) if podm.name and podm.name != podm.id else (),
        marks=tuple(filter(None, (podm.unusable, old))),
        zone=podm.zone or "",
        nodes=tuple(map(node_name, podm.nodes)),
        pools=_pools(hardware, podm, marks, verdict),
        href=hardware.links.named("podms", podm.id) if hardware.links else "",
    )


def block_uses(podm: LeanPodm, blocks: Iterable[nouns.BlockOverview]) -> Counter[pages.MapUse]:
    return Counter(_use(podm, block) for block in blocks)


def _use(podm: LeanPodm, block: nouns.BlockOverview) -> pages.MapUse:
    return "idle" if podm.unusable and block.use in ("free", "shared") else block.use


def _text(verdict: PodmVerdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.outcome in ("rejected", "undecided"):
        return phrases.ReasonPhrases().of_reason(verdict.reason) if verdict.reason else ""
    fitting = f"; {verdict.fitting:,} nodes of the request fit here" if verdict.fitting > 1 else ""
    return f"score {verdict.score:.3f}{fitting}" if verdict.score is not None else ""


def _pools(
    hardware: HardwareListing, podm: LeanPodm, marks: BlockMarks, verdict: PodmVerdict | None
) -> tuple[pages.MapPool, ...]:
    blocks, links = hardware.blocks[podm.id], hardware.links
    groups: dict[str, dict[str, list[pages.MapBlock]]] = {
        pool.pool: defaultdict(list) for pool in hardware.pools[podm.id]
    }
    alike = Counter(tail(block.uri) for block in blocks) if links else Counter()
    labels: dict[int, str] = {}  # by id(): equal devices are one object, so each text is made once
    for block in blocks:
        label = labels.get(id(block.devices))
        if label is None:
            label = labels[id(block.devices)] = ", ".join(phrases.device_phrases(block.devices))
        name = tail(block.uri)
        mark, takers = marks.get((podm.id, block.uri), ("", ()))
        condition = None if block.condition in COUNTED_CONDITIONS else block.condition
        named = block.uri if alike[name] > 1 else name
        href = links.named("blocks", named, podm=podm.id) if links else ""
        use = _use(podm, block)
        square = pages.MapBlock(name, use, mark, takers, condition, block.nodes, href)
        for pool in block.pools or (NO_POOL,):
            here = groups.setdefault(pool, defaultdict(list))
            here[label or " ".join(block.types) or "devices unknown"].append(square)
    reasons = {one.pool: one.reasons for one in verdict.pool_reasons} if verdict else {}
    several = len(groups) > 1
    drawn = []
    for pool, by_label in groups.items():
        text = phrases.ReasonPhrases().of_pool(reasons[pool]) if several and pool in reasons else ""
        held = by_label.items()
        some = tuple(pages.MapGroup(label=label, blocks=tuple(squares)) for label, squares in held)
        role: pages.Role = "rejected" if pool in reasons else ""
        if verdict and pool == verdict.pool:  # a verdict is about the best pool of a pod manager
            role = _ROLES[verdict.outcome]
        drawn.append(pages.MapPool(name=pool, groups=some, role=role, text=text))
    return tuple(drawn)


def inventory_page(hardware: HardwareListing) -> pages.Page:
    podms, facts = hardware.podms, (*size_facts(hardware.podms), *use_facts(hardware))
    tables = (device_table(hardware), podm_table(hardware), node_table(hardware))
    sections = (totals_table(podms), inventory_map(hardware), *tables)
    return pages.Page(title="Inventory", lead=usable_text(podms), facts=facts, sections=sections)


def usable_text(podms: Sequence[nouns.PodmOverview]) -> str:
    usable = sum(one.amounts.blocks[0] for one in podms if not one.podm.unusable)
    every = sum(one.amounts.blocks[1] for one in podms)
    count = quantity.format_count(len(podms), "pod manager")
    text = f"{usable:,} of {every:,} blocks are usable on {count}"
    if not (why := phrases.unusable_text(podms)):
        return text
    idle = sum(one.amounts.blocks[0] for one in podms) - usable
    return f"{text}; {idle:,} more are free on pod managers that take no nodes ({why})"


def size_facts(podms: Sequence[nouns.PodmOverview]) -> Facts:
    nodes = [node.uri for one in podms for node in one.podm.nodes]
    numbers = {
        "Pod managers": len(podms),
        "Pools": sum(one.pool_count for one in podms),
        "Blocks": sum(one.amounts.blocks[1] for one in podms),
        "Nodes": sum(not uri.startswith(CLAIM) for uri in nodes),
    }
    if held := sum(uri.startswith(CLAIM) for uri in nodes):
        numbers["Nodes with claimed blocks"] = held
    return tuple((name, f"{number:,}") for name, number in numbers.items())


def use_facts(hardware: HardwareListing) -> Facts:
    uses: Counter[str] = Counter()
    conditions: Counter[str] = Counter()
    for one in hardware.podms:
        blocks = hardware.blocks[one.podm.id]
        uses.update(block_uses(one.podm, blocks))
        conditions.update(b.condition for b in blocks if b.condition not in COUNTED_CONDITIONS)
    unwell = ", ".join(f"{number:,} {word}" for word, number in sorted(conditions.items()))
    words = {
        "Shared blocks": f"{uses['shared']:,}" if uses["shared"] else "",
        "Unusable blocks": f"{uses['unusable']:,}" if uses["unusable"] else "",
        "Blocks in a bad condition": unwell,
    }
    if hardware.old:
        words["Old readings"] = quantity.format_count(len(hardware.old), "pod manager")
    return tuple((name, text) for name, text in words.items() if text)


def totals_table(podms: Sequence[nouns.PodmOverview]) -> pages.PageTable:
    triples: dict[str, list[Amounts]] = {}
    for one in podms:
        pairs = {title: getattr(one.amounts, field) for field, title in _MEASURES.items()}
        for title, (free, total) in (pairs | one.amounts.stocks).items():
            usable = 0 if one.podm.unusable else free
            triples.setdefault(title, []).append((usable, free, total))
    rows: list[pages.Row] = [
        (sentence(quantity.resource_title(title)), *_total_texts(title, each))
        for title, each in triples.items()
        if any(amounts != (0, 0, 0) for amounts in each)
    ]
    columns = ("Resource", "Usable", "Free", "Total", "Not usable")
    return table("Free resources", columns, rows, columns[1:], _BARS)


def _total_texts(title: str, each: Sequence[Amounts]) -> Iterable[str | pages.TableCell]:
    """Yield the sums of known amounts (with ``+`` if one is unknown), then the share in use."""
    sums: list[float] = []
    for amounts in zip(*each, strict=True):
        known = [amount for amount in amounts if amount is not None]
        sums.append(sum(known))
        yield _amount_text(title, sum(known)) + ("+" if len(known) < len(amounts) else "")
    whole = all(None not in amounts for amounts in each)
    yield _used((sums[0], sums[2])) if whole else pages.TableCell(text="unknown")


def _amount_text(title: str, amount: float | None) -> str:
    if amount is None:
        return "unknown"
    mib = quantity.MIB_PER_UNIT.get("MiB" if title == "Memory" else quantity.unit_of(title) or "")
    return quantity.format_mib(amount * mib) if mib else format_value(amount)


def _used(pair: tuple[float | None, float | None]) -> pages.TableCell:
    usable, total = pair
    if usable is None or not total:
        return pages.TableCell(text="unknown" if usable is None or total is None else "none")
    share = (total - usable) / total
    return pages.TableCell(text=f"{share:.0%}", share=share)


def device_table(hardware: HardwareListing) -> pages.PageTable:
    rows: list[pages.Row] = []
    blocks = [block for some in hardware.blocks.values() for block in some]
    unusable = {one.podm.id for one in hardware.podms if one.podm.unusable}
    now = (replace(it, slots=0) if it.podm in unusable else it for it in blocks)
    for one, other in zip(nouns.count_devices(blocks), nouns.count_devices(now), strict=True):
        amounts = (other.free, one.free, one.devices)
        numbers = (_amount_text("", amount) for amount in amounts)
        model = phrases.short_model(one.model) or "unknown"
        used = _used((other.free, one.devices))
        rows.append((one.kind, model, *numbers, used, f"{one.podms:,}"))
    columns = ("Device", "Model", "Usable", "Free", "Total", "Not usable", "On podms")
    return table("Devices", columns, rows, columns[2:])


def podm_table(hardware: HardwareListing) -> pages.PageTable:
    titles = [_MEASURES[field] for field in _IN_TABLE]
    rows: list[pages.Row] = []
    for one in hardware.podms:
        podm = one.podm
        href = hardware.links.named("podms", podm.id) if hardware.links else f"#{anchor(podm.id)}"
        name = pages.TableCell(text=podm.id, href=href)
        read = f"{podm.read_at} (old)" if podm.id in hardware.old else podm.read_at or ""
        state = (name, podm.unusable or podm.status, podm.zone or "")
        rows.append((*state, *_usable_cells(one), f"{len(podm.nodes):,}", read))
    columns = ("Podm", "Status", "Zone", *titles, "Nodes", "Read at")
    note = f"Each cell shows the usable and the total amount. {_BARS}"
    return table("Pod managers", columns, rows, (*titles, "Nodes"), note)


def _usable_cells(one: nouns.PodmOverview) -> Iterator[pages.TableCell]:
    for name in _IN_TABLE:
        pair = getattr(one.amounts, name)
        free, total = (_amount_text(_MEASURES[name], amount) for amount in pair)
        if one.podm.unusable and pair[0] != 0:
            text, pair = f"0 of {total} ({free} free)", (0, pair[1])
        else:
            text = "none" if pair == (0, 0) else f"{free} of {total}"
        yield pages.TableCell(text=text, share=_used(pair).share)


def node_table(hardware: HardwareListing) -> pages.PageTable:
    rows: list[pages.Row] = []
    links = hardware.links
    every = [(one.podm.id, node) for one in hardware.podms for node in one.podm.nodes]
    for podm, node in every[:MOST_ROWS]:
        href = links.named("podms", podm) if links else f"#{anchor(podm)}"
        cells = node_cell(podm, node, links), pages.TableCell(text=podm, href=href)
        rows.append((*cells, node.flavor or "", node.owner or "", names_of(node.blocks)))
    text = first_of(MOST_ROWS, len(every), "nodes")
    return table("Nodes", ("Node", "Podm", "Flavor", "Owner", "Blocks"), rows, text=text)


def node_name(node: Node) -> str:
    if node.uri.startswith(HIDDEN):
        return f"a node of {OTHERS}"
    return node.name or (node.uri if node.uri.startswith(CLAIM) else tail(node.uri))


def node_cell(podm: str, node: Node, links: PageLinks | None) -> pages.TableCell:
    name = node_name(node)
    if links is None:
        href = f"#{anchor(podm, 'node', name)}"
    elif node.uri.startswith(CLAIM):
        href = links.named("claims", node.uri.removeprefix(CLAIM).partition("#")[0])
    else:
        href = "" if node.uri.startswith(HIDDEN) else links.named("nodes", node.uri, podm=podm)
    return pages.TableCell(text=name, href=href)


def names_of(uris: Sequence[str]) -> str:
    return name_some([*map(tail, uris)], MOST_NAMED)
