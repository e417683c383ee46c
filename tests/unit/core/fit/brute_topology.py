# SPDX-License-Identifier: Apache-2.0
"""Bonds between needs the slow way: every subset of blocks, every device given to some need.

Shares nothing with the fit but the price of devices. Totals are told by which blocks count for
them, devices one by one.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tests.unit.core.fit import brute
from valence_sched.model.inventory import Devices
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.view.block_kinds import price

Block = tuple[Sequence[str], Devices, dict[str, str]]


def least_price(
    needs: Sequence[Need], bonds: Sequence[TopologyConstraint], limits: dict, free: Sequence[Block]
) -> int | None:
    """Return the least price of any subset of the free blocks that makes the bound node."""
    found = None
    for chosen in brute.subsets(len(free)):
        blocks = [free[number] for number in chosen]
        cost = sum(price(devices) for _, devices, _ in blocks)
        if found is not None and cost >= found:
            continue
        if not brute.within(limits, [types for types, _, _ in blocks]):
            continue
        if not brute.makes(needs, [devices for _, devices, _ in blocks]):
            continue
        if makes(needs, bonds, blocks):
            found = cost
    return found


def makes(
    needs: Sequence[Need], bonds: Sequence[TopologyConstraint], blocks: Sequence[Block]
) -> bool:
    """Whether devices of these blocks can be counted so that every need and bond is met."""
    choices = [list(_counted(need, blocks)) for need in needs]
    return _some(needs, bonds, blocks, choices, [])


def _some(needs, bonds, blocks, choices, chosen) -> bool:
    if not _holds(needs, bonds, blocks, chosen):
        return False
    if len(chosen) == len(needs):
        return True
    return any(_some(needs, bonds, blocks, choices, [*chosen, one]) for one in choices[len(chosen)])


def _counted(need: Need, blocks: Sequence[Block]) -> Iterator[tuple[Any, ...]]:
    """Yield each choice of what counts for a need, as (kind, block, line, number) of devices."""
    units = [
        (need.kind, block, line, number)
        for block, (_, devices, _) in enumerate(blocks)
        for line, device in enumerate(getattr(devices, brute.GROUPS[need.kind]))
        if brute.suits(need, device)
        for number in range(device.count)
    ]
    if need.measure == "devices":
        yield from itertools.combinations(units, int(need.amount))
        return
    sources = sorted({block for _, block, _, _ in units})
    for many in range(1, len(sources) + 1):
        for some in itertools.combinations(sources, many):
            if brute.total(need, [blocks[block][1] for block in some]) >= need.amount:
                yield tuple(unit for unit in units if unit[1] in some)


def _holds(needs, bonds, blocks, chosen) -> bool:
    """Whether what is counted so far breaks no bond and counts no device for two groups."""
    pairs = list(zip(needs, chosen, strict=False))
    taken = [unit for need, units in pairs if need.measure == "devices" for unit in units]
    if len(set(taken)) < len(taken):
        return False
    for bond in bonds:
        spots: dict[str, list[str | None]] = {}
        for need, units in pairs:
            name = need.name or need.kind
            if name in bond.of:
                # an untold place is some place: its own, or the one that would do
                found = [blocks[u[1]][2].get(bond.place, f"?{u[1]}") for u in units]
                if need.unknown == "reject" and any(one.startswith("?") for one in found):
                    return False
                spots.setdefault(name, []).extend(found)
        if bond.relation == "same":
            if len({s for every in spots.values() for s in every if not s.startswith("?")}) > 1:
                return False
        elif len(set(bond.of)) == 1:
            if any(len(set(every)) < len(every) for every in spots.values()):
                return False
        elif any(set(a) & set(b) for a, b in itertools.combinations(spots.values(), 2)):
            return False
    return True
