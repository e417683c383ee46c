# SPDX-License-Identifier: Apache-2.0
"""Small set covers by chance, every choice of their items, and the searches over them."""

import itertools
from random import Random

from valence_sched.core.fit.optimiser import ProgrammePart
from valence_sched.core.fit.set_cover import Dive, Item

ENOUGH = 10_000_000


def covers(items: list[Item], counts: tuple[int, ...], asked: tuple[int, ...], caps) -> bool:
    for demand, least in enumerate(asked):
        if sum(n * item.gives[demand] for n, item in zip(counts, items, strict=True)) < least:
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
    """Return items of several amounts, about as many as are asked for: few covers, if any."""
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
    sums = [sum(item.gives[j] * item.available for item in items) for j in range(demands)]
    asked = tuple(random.randint(max(1, total // 3), max(1, total * 4 // 5)) for total in sums)
    return items, asked, tuple(random.randint(1, 4) for _ in range(caps))


def dived(items: list[Item], asked, caps) -> Dive:
    dive = Dive(items, asked, ENOUGH)
    dive.run(asked, caps)
    return dive


def programme(items: list[Item], asked, caps) -> tuple[ProgrammePart, dict[int, int]]:
    """Return a cover as a programme, its numbers as they are given, and its prices."""
    part = ProgrammePart([item.available for item in items])
    for demand, least in enumerate(asked):
        part.row([(n, item.gives[demand]) for n, item in enumerate(items)], lower=least)
    for cap, room in enumerate(caps):
        part.row([(n, 1) for n, item in enumerate(items) if cap in item.caps], upper=room)
    return part, {number: item.price for number, item in enumerate(items)}
