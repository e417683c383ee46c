# SPDX-License-Identifier: Apache-2.0
"""The cost of a tree of zones: 13 zones with 10,000 pod managers, relative to one flat zone.

All zones run in this process, one after another, so that the CPU time is that of the whole tree.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.measure import TINY, Measurement, against, in_turns, median_ms, sized
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.model.reading import Selection
from valence_sched.model.request import Group, Request, Spread
from valence_sched.model.zone import OfferQuery
from valence_sched.model.zone_registry import RecordedZone
from valence_sched.testing.generate import header, podms
from valence_sched.zones.decider import ZoneDecider
from valence_sched.zones.tree import recorded_tree

PODMS, BLOCKS, SEED = sized(10_000, 40), sized(20, 10), 1
FAN_OUT, LEVELS = sized(3, 2), sized(2, 1)
NODES, TURNS, CALLS = sized(100, 3), 5, sized(10, 1)
#: The limit of the tree's CPU time, in CPU times of the flat zone, for each zone of the tree.
AGAIN, NEW, MANY = 3.0, 1.0, 2.0
SIZES = (1000, 10_000, 50_000) if not TINY else (20,)
#: Limits in passes of the probe: of a query, and for each pod manager of a new query and of a poll.
QUERY_PASSES, NEW_PASSES, POLL_PASSES = 15.0, 0.002, 0.5
GROUPS = (
    None,
    Group(name="apart", anti_affinity=("podm",)),
    Group(name="spread", spread=(Spread("podm"),)),
)


def zoning() -> Iterator[Measurement]:
    """A tree and a flat zone decide alike; the CPU time of the tree, relative to the flat zone."""
    with tempfile.TemporaryDirectory() as name:
        top = write_sites(Path(name))
        app = App(environ={})
        flat, tree = _flat(app, top), _tree(app, top)
    needs = app.config.flavors()["medium"].needs
    one = Request(needs=needs)
    for asked in comparable_requests(app):
        check_same(flat.select_destinations(asked), tree.select_destinations(asked), asked)

    def again(scheduler: Any) -> Callable[[], Any]:
        return lambda: scheduler.select_destinations(one)

    def many(scheduler: Any) -> Callable[[], Any]:
        asked = msgspec.structs.replace(one, count=NODES)
        return lambda: scheduler.select_destinations(asked)

    def new(scheduler: Any) -> Callable[[], Any]:
        memory = itertools.count(needs[1].amount, 1)

        def decide() -> None:
            other = msgspec.structs.replace(needs[1], amount=next(memory))
            scheduler.select_destinations(Request(needs=(needs[0], other, *needs[2:])))

        return decide

    zones = sum(1 for _ in top.walk())
    yield _times_flat("zones: the same again", again(tree), again(flat), zones * AGAIN)
    yield _times_flat("zones: a new request", new(tree), new(flat), zones * NEW)
    yield _times_flat(f"zones: {NODES} nodes", many(tree), many(flat), zones * MANY)
    for size in SIZES:
        yield from _one_zone(app, size)


def _one_zone(app: App, size: int) -> Iterator[Measurement]:
    """Yield the cost of a new query, of a repeated query, and of a poll to one zone, by size."""
    with tempfile.TemporaryDirectory() as name:
        site = Path(name, "site.jsonl")
        _write(site, list(podms(size, BLOCKS, SEED)))
        engine = _read(app, [str(site)])
    needs = app.config.flavors()["medium"].needs
    memory = itertools.count(needs[1].amount, 1)

    def offers(request: Request) -> None:
        engine.offers(OfferQuery(request=engine.seal(request).request), ())

    def new() -> None:
        other = msgspec.structs.replace(needs[1], amount=next(memory))
        offers(Request(needs=(needs[0], other, *needs[2:])))

    new()
    most = QUERY_PASSES + NEW_PASSES * size
    yield in_turns(f"zones: {size} pod managers: offers, new", new, 3, most, CALLS)
    again = functools.partial(offers, Request(needs=needs))
    again()
    yield in_turns(f"zones: {size} pod managers: offers, again", again, 3, QUERY_PASSES, CALLS)
    poll = engine.zone_info
    poll()
    yield in_turns(f"zones: {size} pod managers: a poll", poll, 1, POLL_PASSES * size, 3)


def write_sites(folder: Path) -> RecordedZone:
    """Write the inventory of each zone of a tree, and return the zone at the top.

    Each zone, also the top, has the same number of pod managers.
    """
    top = _zone(folder, LEVELS, "top")
    lines = list(podms(PODMS, BLOCKS, SEED))
    zones = [zone for _, zone in top.walk()]
    for number, zone in enumerate(zones):
        _write(Path(zone.inventories[0]), lines[number :: len(zones)])
    return top


def comparable_requests(app: App) -> Iterator[Request]:
    """Yield requests of every flavor, policy, group and count, each with another seed."""
    sizes = (1, sized(12, 2))
    policies = ("default", "pack", "balanced", "chance", "fragmentation")
    flavors = app.config.flavors().values()
    chosen = itertools.product(flavors, policies, GROUPS, sizes)
    for seed, (flavor, policy, group, count) in enumerate(chosen):
        if group is not None and (count == 1 or policy == "chance"):
            continue  # it decides as without a group; it has no filter for groups
        if TINY and seed % 5:
            continue
        yield Request(
            needs=flavor.needs, policy=policy, group=group, count=count, min_count=0, seed=seed
        )


def check_same(flat: Any, tree: Any, request: Request) -> None:
    """Raise RuntimeError if two answers to a request have different nodes."""
    expected, found = (
        [(one.choice, one.chosen) for one in answer.report.placements] for answer in (flat, tree)
    )
    if expected != found:
        raise RuntimeError(f"the tree does not decide as one zone: {request}: {expected}, {found}")


def _write(site: Path, lines: Sequence[bytes]) -> None:
    site.write_bytes(b"\n".join([header(), *lines]) + b"\n")


def _zone(folder: Path, levels: int, name: str) -> RecordedZone:
    children = [_zone(folder, levels - 1, f"{name}-{number}") for number in range(FAN_OUT)
                if levels]  # fmt: skip
    site = str(folder / f"{name}.jsonl")
    return RecordedZone(name=name, inventories=(site,), children=tuple(children))


def sites(top: RecordedZone) -> Sequence[str]:
    """Return the inventories of all zones."""
    return [site for _, zone in top.walk() for site in zone.inventories]


def _flat(app: App, top: RecordedZone) -> Engine:
    return _read(app, sites(top))


def _tree(app: App, top: RecordedZone) -> ZoneDecider:
    engines = {zone.name: _read(app, zone.inventories) for _, zone in top.walk()}
    own = engines[top.name]
    tree = recorded_tree(top, lambda zone: engines[zone.name])
    return ZoneDecider(own, tree, deadline_s=600.0)


def _read(app: App, sources: Sequence[str]) -> Engine:
    engine = app.engine(Selection(sources=tuple(sources)))
    engine.inventory()  # otherwise the first decision would read them
    return engine


def _times_flat(
    name: str, tree: Callable[[], Any], flat: Callable[[], Any], target: float
) -> Measurement:
    """Return the CPU time of a decision of the tree and of the flat zone, in alternating turns."""
    found = []
    for run in (tree, flat):
        run()
    for _ in range(sized(TURNS, 1)):
        found.append([median_ms(run, CALLS, clock=time.process_time) for run in (tree, flat)])
    value, probe = (statistics.median(times) for times in zip(*found, strict=True))
    return against(name, value, probe, target)
