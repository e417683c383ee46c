# SPDX-License-Identifier: Apache-2.0
"""Feasibility and least price by brute force: every subset of blocks, every matching, every grant.

Shares only the price of devices with the fit. It has its own implementation of free slots, of tests
on devices, of limits, of matchings and of grants.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched.model.inventory import Devices, Status
from valence_sched.model.need import Need, Test, TopologyConstraint
from valence_sched.view.block_kinds import price

#: The types of a block, its devices, and its topology by domain, if reported.
Block = tuple[Any, ...]

GROUPS = {
    "processor": "processors",
    "accelerator": "accelerators",
    "memory": "memory",
    "drive": "drives",
    "nic": "nics",
}


def passes(test: Test, device: Any, unknown: str) -> bool:
    """Apply a test to a device, as request.py defines it."""
    reported = getattr(device, test.attribute)
    if reported is None:
        return unknown == "allow"
    if test.operator == "at_least":
        return reported >= test.value
    if test.operator == "equal":
        return str(reported).lower() == str(test.value).lower()
    text = " ".join(reported.lower().replace("-", " ").split())
    words = " ".join(str(test.value).lower().replace("-", " ").split())
    return f" {words} " in f" {text} "


def suits(need: Need, device: Any) -> bool:
    return all(passes(test, device, need.unknown) for test in need.tests)


def total(need: Need, blocks: Sequence[Devices]) -> int:
    """Return the sum that the blocks have of a total."""
    found = 0
    for block in blocks:
        for device in getattr(block, GROUPS[need.kind]):
            if not suits(need, device):
                continue
            if need.measure == "sockets":
                found += device.count
                continue
            reported = getattr(device, need.measure)
            if reported is None:
                found += int(need.amount) if need.unknown == "allow" else 0
            else:
                found += device.count * reported
    return found


def matched(groups: Sequence[Need], blocks: Sequence[Devices]) -> bool:
    """Assign a different device to every place of every group, by augmenting paths."""
    units = [
        device
        for block in blocks
        for device in getattr(block, GROUPS[groups[0].kind])
        for _ in range(device.count)
    ]
    places = [need for need in groups for _ in range(int(need.amount))]
    if len(places) > len(units):
        return False
    edges = [[u for u, device in enumerate(units) if suits(need, device)] for need in places]
    taken: dict[int, int] = {}

    def seat(place: int, tried: set[int]) -> bool:
        for unit in edges[place]:
            if unit not in tried:
                tried.add(unit)
                if unit not in taken or seat(taken[unit], tried):
                    taken[unit] = place
                    return True
        return False

    return all(seat(place, set()) for place in range(len(places)))


def makes(needs: Sequence[Need], blocks: Sequence[Devices]) -> bool:
    """Return whether these blocks have all the devices of the node."""
    for need in needs:
        if need.measure in ("cores", "sockets", "capacity_mib") and (
            total(need, blocks) < need.amount
        ):
            return False
    for kind in GROUPS:
        groups = [need for need in needs if need.kind == kind and need.measure == "devices"]
        if groups and not matched(groups, blocks):
            return False
    return True


def within(limits: dict[str, dict[str, int]], types: Sequence[Sequence[str]]) -> bool:
    """Return whether these numbers of blocks by type may be composed in the pool."""
    for name, limit in limits.items():
        count = sum(name in block for block in types)
        if count < limit.get("min", 0) or count > limit.get("max", count):
            return False
    return True


def subsets(size: int) -> Iterator[tuple[int, ...]]:
    for many in range(size + 1):
        yield from itertools.combinations(range(size), many)


def least_price(
    needs: Sequence[Need],
    limits: dict[str, dict[str, int]],
    free: Sequence[Block],
    constraints: Sequence[TopologyConstraint] | None = None,
) -> int | None:
    """Return the least price of a subset of the free blocks that makes the node."""
    found = None
    for chosen in subsets(len(free)):
        blocks = [free[number] for number in chosen]
        cost = sum(price(devices) for _, devices, *_ in blocks)
        if (
            (found is None or cost < found)
            and within(limits, [types for types, *_ in blocks])
            and makes(needs, [devices for _, devices, *_ in blocks])
            and (constraints is None or makes_bound(needs, constraints, blocks))
        ):
            found = cost
    return found


def is_free(status: Status) -> bool:
    """Apply the rules of a free block independently, one expression per rule."""
    refused = (
        status.reserved
        or status.active
        or status.enabled is False
        or status.health == "Critical"
        or status.state not in ("Unused", "ComposedAndAvailable")
    )
    if refused:
        return False
    if not status.shareable:
        return status.state == "Unused" and status.compositions == 0
    return status.max_compositions is None or status.compositions < status.max_compositions


def grants_of(stock: Any, asked: int) -> int | None:
    """Return the least whole amount that a stock of whole numbers grants, by counting up."""
    if stock.total is None:
        return None
    room = int(stock.total - stock.used)
    for amount in range(asked, room + 1):
        if amount < stock.min or (stock.max is not None and amount > stock.max):
            continue
        if stock.step and amount % stock.step:
            continue
        return amount
    return None


def least_granted(stocks: Sequence[Any], amounts: Sequence[int]) -> int | None:
    """Return the least total granted, over every assignment of the amounts to the stocks."""
    found = None
    for places in itertools.product(range(len(stocks)), repeat=len(amounts)):
        granted = [
            grants_of(stocks[place], asked) for place, asked in zip(places, amounts, strict=True)
        ]
        if None in granted:
            continue
        sums = [0] * len(stocks)
        for place, amount in zip(places, granted, strict=True):
            sums[place] += amount
        if all((s.total is not None and s.used + used <= s.total) or not used
               for s, used in zip(stocks, sums, strict=True)):  # fmt: skip
            best = sum(granted)
            found = best if found is None else min(found, best)
    return found


def makes_bound(
    needs: Sequence[Need], constraints: Sequence[TopologyConstraint], blocks: Sequence[Block]
) -> bool:
    """Return whether devices of these blocks can meet every need and constraint."""
    choices = [list(_counted(need, blocks)) for need in needs]
    return _some(needs, constraints, blocks, choices, [])


def _some(needs, constraints, blocks, choices, chosen) -> bool:
    if not _holds(needs, constraints, blocks, chosen):
        return False
    if len(chosen) == len(needs):
        return True
    return any(
        _some(needs, constraints, blocks, choices, [*chosen, one]) for one in choices[len(chosen)]
    )


def _counted(need: Need, blocks: Sequence[Block]) -> Iterator[tuple[Any, ...]]:
    """Yield each choice of devices for a need, as (kind, block, line, number)."""
    units = [
        (need.kind, block, line, number)
        for block, (_, devices, _) in enumerate(blocks)
        for line, device in enumerate(getattr(devices, GROUPS[need.kind]))
        if suits(need, device)
        for number in range(device.count)
    ]
    if need.measure == "devices":
        yield from itertools.combinations(units, int(need.amount))
        return
    sources = sorted({block for _, block, _, _ in units})
    for many in range(1, len(sources) + 1):
        for some in itertools.combinations(sources, many):
            if total(need, [blocks[block][1] for block in some]) >= need.amount:
                yield tuple(unit for unit in units if unit[1] in some)


def _holds(needs, constraints, blocks, chosen) -> bool:
    """Return whether the chosen devices break no constraint and are not chosen twice."""
    pairs = list(zip(needs, chosen, strict=False))
    taken = [unit for need, units in pairs if need.measure == "devices" for unit in units]
    if len(set(taken)) < len(taken):
        return False
    for constraint in constraints:
        spots: dict[str, list[str | None]] = {}
        for need, units in pairs:
            name = need.name or need.kind
            if name in constraint.of:
                # an unknown place is some place: a separate one, or the suitable one
                found = [blocks[u[1]][2].get(constraint.place, f"?{u[1]}") for u in units]
                if need.unknown == "reject" and any(one.startswith("?") for one in found):
                    return False
                spots.setdefault(name, []).extend(found)
        if constraint.relation == "same":
            if len({s for every in spots.values() for s in every if not s.startswith("?")}) > 1:
                return False
        elif len(set(constraint.of)) == 1:
            if any(len(set(every)) < len(every) for every in spots.values()):
                return False
        elif any(set(a) & set(b) for a, b in itertools.combinations(spots.values(), 2)):
            return False
    return True
