# SPDX-License-Identifier: Apache-2.0
"""The map of an inventory, and of what decisions take of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from valence_sched.model.decision import Candidate, PodmVerdict, Report
from valence_sched.model.hardware import BlockFilter, BlockOverview, PodmOverview, PoolOverview
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.page import (
    BlockRole,
    HardwareMap,
    MapBlock,
    MapGroup,
    MapPodm,
    MapPool,
    Role,
)
from valence_sched.model.scheduler import Scheduler
from valence_sched.words.phrases import ReasonPhrases, device_phrases, request_phrase

MOST_PODMS = 2000  # that a map draws
NO_POOL = "in no pool"
_ROLES: dict[str, Role] = {
    "chosen": "chosen",
    "alternate": "alternate",
    "fits": "candidate",
    "undecided": "undecided",
    "rejected": "rejected",
}
_ORDER = {role: number for number, role in enumerate(_ROLES.values())}

#: By (pod manager, URI): what becomes of a block, and the numbers of its takers.
BlockMarks = Mapping[tuple[str, str], tuple[BlockRole, tuple[int, ...]]]


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
        if pool.podm in pools_of:
            pools_of[pool.podm].append(pool)
    for block in blocks:
        if block.podm in blocks_of:
            blocks_of[block.podm].append(block)
    return HardwareListing(podms, pools_of, blocks_of)


def tail(uri: str) -> str:
    """Return the last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def inventory_map(hardware: HardwareListing) -> HardwareMap:
    """Return the map of hardware on which nothing was decided."""
    return hardware_map(
        hardware, [map_podm(hardware, one.podm, {}) for one in hardware.podms[:MOST_PODMS]]
    )


def decision_map(hardware: HardwareListing, reports: Sequence[Report]) -> HardwareMap:
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
    hardware: HardwareListing, podms: Sequence[MapPodm], takers: Sequence[str] = ()
) -> HardwareMap:
    """Return the map with these pod managers; marks have the numbers of ``takers``."""
    text = "A square is a block. A block that stands in several pools is drawn in each."
    if len(hardware.podms) > len(podms):
        text += f" The first {len(podms):,} of {len(hardware.podms):,} pod managers are drawn."
    return HardwareMap(title="Hardware", podms=tuple(podms), text=text, takers=tuple(takers))


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
    marks: dict[tuple[str, str], tuple[BlockRole, tuple[int, ...]]] = {}
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
    role: Role = "",
    text: str = "",
) -> MapPodm:
    """Return a pod manager of a map; what a verdict makes of it stands for role and text."""
    blocks = hardware.blocks[podm.id]
    return MapPodm(
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
        yield f"{len(podm.nodes):,} " + ("node" if len(podm.nodes) == 1 else "nodes")


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
) -> tuple[MapPool, ...]:
    """Return the pools of a pod manager with their blocks, those that hold the same together."""
    groups: dict[str, dict[str, list[MapBlock]]] = {
        pool.pool: defaultdict(list) for pool in hardware.pools[podm]
    }
    labels: dict[int, str] = {}  # equal devices are one object: each is put into words once
    for block in blocks:
        label = labels.get(id(block.devices))
        if label is None:
            label = labels[id(block.devices)] = ", ".join(device_phrases(block.devices))
        square = MapBlock(tail(block.uri), block.use, *marks.get((podm, block.uri), ()))
        for pool in block.pools or (NO_POOL,):
            here = groups.setdefault(pool, defaultdict(list))
            here[label or " ".join(block.types) or "devices unknown"].append(square)
    reasons = {one.pool: one.reasons for one in verdict.pool_reasons} if verdict else {}
    several = len(groups) > 1
    return tuple(
        MapPool(
            name=pool,
            groups=tuple(MapGroup(label=label, blocks=tuple(squares))
                         for label, squares in by_label.items()),
            role=_pool_role(pool, verdict),
            text=ReasonPhrases().of_pool(reasons[pool]) if several and pool in reasons else "",
        )
        for pool, by_label in groups.items()
    )  # fmt: skip


def _pool_role(pool: str, verdict: PodmVerdict | None) -> Role:
    """Return what a decision makes of a pool: its best one stands for the pod manager."""
    if verdict is None:
        return ""
    if pool == verdict.pool:
        return _ROLES[verdict.outcome]
    return "rejected" if any(one.pool == pool for one in verdict.pool_reasons) else ""
