# SPDX-License-Identifier: Apache-2.0
"""Random set covers with every choice of their items, and covers that are hard to decide."""

import itertools
import unittest
from collections.abc import Callable
from random import Random
from typing import Any
from unittest import mock

from valence_sched.core.fit import optimiser
from valence_sched.core.fit.optimiser import ProgrammePart
from valence_sched.core.fit.set_cover import Dive, Item
from valence_sched.core.fit.stocks import SearchOutcome

ENOUGH = 10_000_000


def covers(items: list[Item], counts: tuple[int, ...], asked: tuple[int, ...], caps) -> bool:
    for demand, least in enumerate(asked):
        if sum(n * item.coverage[demand] for n, item in zip(counts, items, strict=True)) < least:
            return False
    return all(
        sum(n for n, item in zip(counts, items, strict=True) if cap in item.caps) <= room
        for cap, room in enumerate(caps)
    )


def choices(items: list[Item]):
    return itertools.product(*(range(item.available + 1) for item in items))


def price(items: list[Item], counts: tuple[int, ...]) -> int:
    return sum(n * item.price for n, item in zip(counts, items, strict=True))


def near_cover(random: Random):
    """Return items of several amounts, close to the demands: few covers, if any."""
    demands, caps = random.randint(1, 3), random.randint(0, 2)
    items = [
        Item(
            random.randint(1, 2),
            random.randint(1, 9),
            tuple(random.choice([0, 2, 3, 4, 7]) for _ in range(demands)),
            tuple(cap for cap in range(caps) if random.random() < 0.7),
        )
        for _ in range(random.randint(2, 6))
    ]
    sums = [sum(item.coverage[j] * item.available for item in items) for j in range(demands)]
    asked = tuple(random.randint(max(1, total // 3), max(1, total * 4 // 5)) for total in sums)
    return items, asked, tuple(random.randint(1, 4) for _ in range(caps))


def dived(items: list[Item], asked, caps) -> Dive:
    dive = Dive(items, asked, ENOUGH)
    dive.run(asked, caps)
    return dive


def programme(items: list[Item], asked, caps) -> tuple[ProgrammePart, dict[int, int]]:
    """Return a cover as an integer programme, with its numbers and prices unchanged."""
    part = ProgrammePart([item.available for item in items])
    for demand, least in enumerate(asked):
        part.row([(n, item.coverage[demand]) for n, item in enumerate(items)], lower=least)
    for cap, room in enumerate(caps):
        part.row([(n, 1) for n, item in enumerate(items) if cap in item.caps], upper=room)
    return part, {number: item.price for number, item in enumerate(items)}


Cover = tuple[list[Item], tuple[int, ...], tuple[int, ...]]


def _blocks(pairs: list[tuple[int, ...]]) -> list[Item]:
    return [Item(1, 10 + 100 * pair[0] + pair[1] // 8, pair, (0,)) for pair in pairs]


def complementary(size: int, random: Random) -> Cover:
    """Cores and memory have the same sum in every block; the demands exceed it by one."""
    cores = [random.randint(10, 90) for _ in range(size)]
    cap = size // 2
    asked = sum(sorted(cores)[size // 4 : size // 4 + cap])
    items = _blocks([(one, 100 - one) for one in cores])
    return items, (asked, 100 * cap - asked + 1), (cap,)


def even(size: int, random: Random) -> Cover:
    """All amounts are even, and the exact demand is odd."""
    cores = [2 * random.randint(10, 90) for _ in range(size)]
    cap = size // 2
    asked = sum(sorted(cores)[size // 4 : size // 4 + cap]) + 1
    return _blocks([(one, 200 - one) for one in cores]), (asked, 200 * cap - asked), (cap,)


def split(size: int, random: Random) -> Cover:
    """An exact sum of large different numbers: a market split."""
    cores = [random.randint(10**5, 10**6) for _ in range(size)]
    cap = size // 2
    asked = sum(sorted(cores)[size // 4 : size // 4 + cap]) + 7
    return _blocks([(one, 10**6 - one) for one in cores]), (asked, 10**6 * cap - asked), (cap,)


def powers(size: int, random: Random) -> Cover:
    """The exact sum of every second power of two: only one choice makes it."""
    del random
    items = [Item(1, 10 + one, (2**one, 1), (0,)) for one in range(size)]
    return items, (sum(2**one for one in range(0, size, 2)), size // 2), (size // 2,)


def two_amounts(size: int, random: Random) -> Cover:
    """Random cores and memory; the demands are four fifths of the sum of each."""
    return _by_chance(size, random, 2, 80)


def three_amounts(size: int, random: Random) -> Cover:
    """Random cores, memory and cards; the demands are four fifths of the sum of each."""
    return _by_chance(size, random, 3, 80)


def _by_chance(size: int, random: Random, amounts: int, percent: int) -> Cover:
    limits = ((4, 64), (8, 512), (0, 4))[:amounts]
    lines = [tuple(random.randint(*limit) for limit in limits) for _ in range(size)]
    cap = size // 4
    most = [sum(sorted(column, reverse=True)[:cap]) for column in zip(*lines, strict=True)]
    return _blocks(lines), tuple(one * percent // 100 for one in most), (cap,)


FAMILIES: dict[str, Callable[[int, Random], Cover]] = {
    make.__name__: make for make in (complementary, even, split, powers, two_amounts, three_amounts)
}


def podm(name: str, cover: Cover) -> dict[str, Any]:
    """Return a podm of one pool whose blocks are the items of a cover of cores and memory."""
    items, _, (cap,) = cover
    blocks = [
        {
            "uri": f"b{number:02}",
            "type": ["Compute"],
            "pools": ["p"],
            "devices": {
                "processors": [{"cores": item.coverage[0]}],
                "memory": [{"capacity_mib": item.coverage[1]}],
            },
        }
        for number, item in enumerate(items)
    ]
    return {
        "id": name,
        "pools": [{"id": "p", "limits": {"Compute": {"max": cap}}}],
        "blocks": blocks,
    }


def properties(cover: Cover) -> dict[str, Any]:
    """Return the request to that podm."""
    cores, memory_mib = cover[1]
    return {"processor": {"total_cores": cores}, "memory": {"capacity_mib": memory_mib}}


def leave_open(test: unittest.TestCase) -> None:
    """Let the optimiser decide nothing during a test."""

    def none(part, prices, states, start=None):
        return SearchOutcome(start, False, 0)

    patch = mock.patch.object(optimiser, "optimum", none)
    patch.start()
    test.addCleanup(patch.stop)
