# SPDX-License-Identifier: Apache-2.0
"""Relocation: new places for the nodes of hardware that fails or is drained.

Nodes that lost their hardware are re-placed, the hardest first. As in squeaky wheel optimisation
(Joslin and Clements, 1999), unplaced nodes move to the front of the order. All nodes are then
placed again, while fewer remain unplaced. A drained node takes new blocks, then frees the old ones.
"""

import contextlib
import glob
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from valence_sched.core.fit.fit import Fit
from valence_sched.errors import name_some
from valence_sched.model import flavor as specs, relocation as model
from valence_sched.model.decision import ReasonGroup
from valence_sched.model.inventory import Devices, Node, to_json, uri_tail
from valence_sched.model.quantity import format_count
from valence_sched.model.request import MAX_DEVICE_GROUPS, Request, request_for
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.model.scenario import Drain, Fail, Target
from valence_sched.planning.edits import Scope, edited
from valence_sched.planning.replay import reason_groups
from valence_sched.planning.site import Site, find_targets
from valence_sched.planning.succession import Succession
from valence_sched.view.view import View

BYTES_PER_GIB = 1 << 30
MOST_ROUNDS = 8  # orders of the nodes to try
MOST_SETS = 20_000  # sets of failed pod managers to try
Progress = Callable[[int, int], None]  # the number of sets tried, and of all sets


@dataclass(frozen=True, slots=True)
class Resident:
    """A node on a podm, by number, and the request for an equal node; None: unknown hardware.

    ``price``, in points, is high if it is hard to place.
    """

    podm: int
    node: Node
    shown: model.MovedNode
    request: Request | None
    price: int


class Residents:
    """The nodes of a View, and notes about nodes with unknown hardware or requests.

    A node's request is the original, else one for its flavor, else for all its hardware.
    """

    def __init__(self, view: View, policy: str, flavors: Mapping[str, specs.Flavor]) -> None:
        self.view, self._policy, self._flavors = view, policy, flavors
        self._requests: dict[tuple[object, ...], Request | None] = {}
        self.notes: dict[str, None] = {}

    def of(self, podm: int) -> list[Resident]:
        return [self._resident(podm, node) for node in self.view.podms[podm].nodes]

    def __iter__(self) -> Iterator[Resident]:
        for podm in range(len(self.view.podms)):
            yield from self.of(podm)

    def _resident(self, podm: int, node: Node) -> Resident:
        table = self.view.block_tables[podm]
        numbers = (table.numbers.get(uri) for uri in node.blocks)
        kinds = tuple(table.kinds[number] for number in numbers if number is not None)
        known = [self.view.kinds.kinds[kind] for kind in kinds]
        key: tuple[object, ...] = (tuple(sorted(kinds)), node.owner)
        asks_for: model.AsksFor = "hardware"
        if node.request is not None:
            key, asks_for = (to_json(node.request), node.flavor, node.owner), "request"
        elif node.flavor in self._flavors:
            key, asks_for = (node.flavor, node.owner), "flavor"
        if key not in self._requests:
            self._requests[key] = self._compiled(node, kinds)
        request, notes = self._requests[key], []
        if missing := len(node.blocks) - len(kinds):
            notes.append(f"{missing} of its {format_count(len(node.blocks), 'block')} unknown")
        elif request is None:
            notes.append("its hardware is unknown")
        if request is not None and asks_for == "hardware" and node.flavor is not None:
            notes.append(f"flavor {node.flavor!r} is unknown: give its file")
        place = self.view.podms[podm].id
        name = f"node {node.name or node.uri} of {place}"
        self.notes.update(dict.fromkeys(f"{name}: {text}" for text in notes))
        shown = model.MovedNode(
            node=node.name or uri_tail(node.uri),
            uri=node.uri,
            podm=place,
            owner=node.owner,
            devices=joined([kind.devices for kind in known]),
            asks_for=asks_for,
        )
        return Resident(podm, node, shown, request, sum(one.price for one in known))

    def _compiled(self, node: Node, kinds: tuple[int, ...]) -> Request | None:
        if node.request is not None:
            return request_for(node.request, node.flavor, node.owner, self._policy)
        if (flavor := self._flavors.get(node.flavor or "")) is not None:
            spec = RequestSpec(flavor=node.flavor, owner=node.owner, policy=self._policy)
            return compile_request(spec, flavor)
        known = self.view.kinds.kinds
        properties = like(joined([known[kind].devices for kind in sorted(kinds)]))
        if properties == specs.Properties():
            return None
        spec = RequestSpec(properties=properties, owner=node.owner, policy=self._policy)
        return compile_request(spec)


Placed = tuple[Resident, Request, Fit]


@dataclass(slots=True)
class Placing:
    """The result of placing nodes in one order: the placed nodes, and the unplaced nodes."""

    placed: list[Placed] = field(default_factory=list)
    stuck: list[Resident] = field(default_factory=list)

    def withdraw(self, succession: Succession) -> None:
        for _, request, fit in self.placed:
            succession.release(request, fit)


def site_after(site: Site, result: model.Relocation | model.Survival) -> Site:
    """Return the site after the failure or drain of a result, or after its worst failures."""
    if isinstance(result, model.Survival):
        targets = [Target(podm=glob.escape(podm)) for podm in result.worst]
        return edited(site, [Fail(target) for target in targets])
    edit = Fail if result.why == "failed" else Drain
    return edited(site, [edit(target) for target in result.targets])


def fail(site: Site, targets: Sequence[Target]) -> model.Relocation:
    """Return the new places of the nodes of pod managers, pools or blocks that fail.

    Blocks of lost nodes that did not fail are free. NothingMatches: a target does not exist.
    UnknownName, RequestError: the policy of the site cannot place nodes.
    """
    after = edited(site, [Fail(target) for target in targets])
    residents = Residents(site.view(), site.policy, site.flavors)
    present = [{node.uri for node in podm.nodes} for podm in after.podms]
    lost = [one for one in residents if one.node.uri not in present[one.podm]]
    succession = Succession(after.decider())
    placing = place_again(succession, lost)
    return _relocation("failed", targets, succession, residents, lost, placing)


def drain(site: Site, targets: Sequence[Target]) -> model.Relocation:
    """Return the moves of all nodes off targets, also to freed hardware; errors as :func:`fail`."""
    after = edited(site, [Drain(target) for target in targets])
    residents = Residents(after.view(), site.policy, site.flavors)
    drained: dict[int, set[str]] = {}
    whole: set[int] = set()
    for target in targets:
        for match in find_targets(site.podms, target, site.kinds):
            podm = site.podms[match.podm]
            scope = Scope.of(podm, match)
            blocks = (podm.blocks[number].uri for number in scope.blocks)
            drained.setdefault(match.podm, set()).update(blocks)
            whole.update([match.podm] if scope.whole else ())
    affected = [
        one
        for podm in sorted(drained)
        for one in residents.of(podm)
        if podm in whole or not drained[podm].isdisjoint(one.node.blocks)
    ]
    succession, placing, moved = Succession(after.decider()), Placing(stuck=affected), True
    while placing.stuck and moved:
        step = _place(succession, _hardest_first(placing.stuck), removing=True)
        placing, moved = Placing(placing.placed + step.placed, step.stuck), bool(step.placed)
    return _relocation("drained", targets, succession, residents, affected, placing)


def _relocation(
    why: model.Why,
    targets: Sequence[Target],
    succession: Succession,
    residents: Residents,
    nodes: Sequence[Resident],
    placing: Placing,
) -> model.Relocation:
    return model.Relocation(
        why=why,
        target=", ".join(map(str, targets)),
        targets=tuple(targets),
        nodes=len(nodes),
        moves=tuple(
            move(succession.view, one, step, fit)
            for step, (one, _, fit) in enumerate(placing.placed, 1)
        ),
        stuck=_stuck_nodes(succession, placing.stuck),
        notes=(*residents.notes, *hardware_notes(nodes)),
    )


def survive(
    site: Site, failures: int, progress: Progress = lambda tried, sets: None
) -> model.Survival:
    """Return whether all nodes can be re-placed after any ``failures`` pod managers fail.

    At most ``MOST_SETS`` sets are tried, the most expensive first, without idle pod managers that
    are disabled or offline.
    """
    view = site.view()
    residents = Residents(view, site.policy, site.flavors)
    nodes = [residents.of(podm) for podm in range(len(view.podms))]
    succession = Succession(site.decider())
    alive = (one.enabled and one.status != "Offline" for one in view.podms)
    losses = {
        podm: sum(one.price for one in nodes[podm])
        for podm, matters in enumerate(alive)
        if matters or nodes[podm]
    }
    failures = min(failures, len(losses))
    total = math.comb(len(losses), failures)
    tried = bad = worst_count = 0
    worst: tuple[int, ...] = ()
    dearest_first = sorted(losses, key=lambda podm: (-losses[podm], podm))
    for podms in itertools.islice(itertools.combinations(dearest_first, failures), MOST_SETS):
        with _failed(succession, podms, nodes) as placing:
            stuck = len(placing.stuck)
        tried += 1
        bad += bool(stuck)
        if stuck > worst_count or not worst:
            worst, worst_count = podms, stuck
        progress(tried, min(total, MOST_SETS))
    with _failed(succession, worst, nodes) as placing:
        explained = _stuck_nodes(succession, placing.stuck)
    return model.Survival(
        failures=failures,
        sets=total,
        tried=tried,
        bad_sets=bad,
        worst=tuple(view.podms[podm].id for podm in worst),
        worst_nodes=sum(len(nodes[podm]) for podm in worst),
        stuck=explained,
        notes=(*residents.notes, *hardware_notes(itertools.chain(*nodes))),
    )


@contextlib.contextmanager
def _failed(
    succession: Succession, podms: Sequence[int], nodes: Sequence[Sequence[Resident]]
) -> Iterator[Placing]:
    """Re-place the nodes of failed podms, yield the result, and undo it afterwards."""
    reopen = [succession.close(podm) for podm in podms]
    placing = place_again(succession, [one for podm in podms for one in nodes[podm]])
    yield placing
    placing.withdraw(succession)
    for undo in reversed(reopen):
        undo()


def _hardest_first(residents: Sequence[Resident]) -> list[Resident]:
    return sorted(residents, key=lambda one: (-one.price, one.podm, one.node.uri))


def place_again(succession: Succession, residents: Sequence[Resident]) -> Placing:
    """Place nodes whose hardware is lost, in the best of several orders."""
    order = _hardest_first(residents)
    best: Placing | None = None
    for _ in range(MOST_ROUNDS):
        placing = _place(succession, order)
        if best is not None and len(placing.stuck) >= len(best.stuck):
            placing.withdraw(succession)
            break
        best = placing
        movable = [one for one in placing.stuck if one.request is not None]
        if not movable:
            return best
        placing.withdraw(succession)
        front = {id(one) for one in movable}
        order = [*movable, *(one for one in order if id(one) not in front)]
    assert best is not None, "there is at least one round"
    for _, request, fit in best.placed:
        succession.take(request, fit)
    return best


def _place(
    succession: Succession, residents: Sequence[Resident], *, removing: bool = False
) -> Placing:
    placing = Placing()
    for one in residents:
        nodes = succession.decide(one.request).placed_nodes if one.request else []
        if one.request is None or not nodes:
            placing.stuck.append(one)
            continue
        fit = nodes[0][1].chosen
        succession.take(one.request, fit)
        if removing:
            succession.remove(one.podm, one.node)
        placing.placed.append((one, one.request, fit))
    return placing


def move(view: View, one: Resident, step: int, fit: Fit, podm: str | None = None) -> model.NodeMove:
    """Return the move of a node to its fit, from its pod manager, or ``podm`` if it has moved."""
    table = view.block_tables[view.podm_of[fit.row]]
    return model.NodeMove(
        **structs.asdict(structs.replace(one.shown, podm=podm or one.shown.podm)),
        step=step,
        to_podm=view.podm(fit.row).id,
        to_pool=view.pools[fit.row].id,
        to_blocks=tuple(table.uris[block] for block in fit.blocks),
    )


def _stuck_nodes(
    succession: Succession, residents: Sequence[Resident]
) -> tuple[model.StuckNode, ...]:
    reasons: dict[int, tuple[ReasonGroup, ...]] = {}
    for one in residents:
        if one.request is not None and id(one.request) not in reasons:
            reasons[id(one.request)] = reason_groups(succession.decide(one.request))
    pairs = ((one.shown, reasons.get(id(one.request), ())) for one in residents)
    return tuple(model.StuckNode(**structs.asdict(shown), reasons=why) for shown, why in pairs)


def hardware_notes(residents: Iterable[Resident]) -> Iterator[str]:
    """Yield one line about the nodes whose request was derived from their hardware, if any."""
    known = (one.shown for one in residents if one.request is not None)
    names = list(dict.fromkeys(one.node for one in known if one.asks_for == "hardware"))
    if names:
        nodes = format_count(len(names), "node")
        yield f"request of {nodes} unknown, matching hardware: {name_some(names, 1)}"


def joined(parts: list[Devices]) -> Devices:
    return Devices(
        **{
            name: tuple(one for part in parts for one in getattr(part, name))
            for name in Devices.__struct_fields__
        }
    )


def like(devices: Devices) -> specs.Properties:
    """Return the properties of a request for at least these devices, by their known attributes.

    Cores and memory count in total. Of more than ``MAX_DEVICE_GROUPS`` groups the largest remain.
    """
    cores = sum((cpu.cores or 0) * (cpu.count or 0) for cpu in devices.processors)
    sockets = sum(cpu.count or 0 for cpu in devices.processors)
    mib = sum((one.capacity_mib or 0) * (one.count or 0) for one in devices.memory)
    processor = specs.ProcessorSpec(total_cores=cores or None, sockets=None if cores else sockets)
    return specs.Properties(
        processor=processor if cores or sockets else None,
        memory=specs.MemorySpec(capacity_mib=mib) if mib else None,
        accelerators=tuple(
            specs.AcceleratorSpec(kind=kind, model=model, count=count)
            for (kind, model), count in _groups(devices.accelerators, "kind", "model")
        ),
        drives=tuple(
            specs.DriveSpec(
                media=media, capacity_gib=(size or 0) / BYTES_PER_GIB or None, count=count
            )
            for (media, size), count in _groups(devices.drives, "media", "capacity_bytes")
        ),
        nics=tuple(
            specs.NicSpec(speed_mbps=speed or None, count=count)
            for (speed,), count in _groups(devices.nics, "speed_mbps")
        ),
    )


def _groups(devices: Iterable[Any], *names: str) -> list[tuple[tuple[Any, ...], int]]:
    """Return the largest groups of devices that are equal in some attributes."""
    counts = Counter[tuple[Any, ...]]()
    for one in devices:
        counts[tuple(getattr(one, name) for name in names)] += one.count or 1
    return counts.most_common(MAX_DEVICE_GROUPS)
