# SPDX-License-Identifier: Apache-2.0
"""Small set covers by chance, every choice of their items, and the searches over them."""

import itertools
from random import Random

from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.fit.dive import Dive, Item
from valence_sched.core.fit.layered_search import LayeredSearch

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
    dive = Dive(items, asked, None, ENOUGH)
    dive.run(asked, caps)
    return dive


def layered(items: list[Item], asked, caps, most: int = ENOUGH) -> tuple[LayeredSearch, bool]:
    order = Dive(items, asked, None, 0).order
    table = CoverTable.of([items[position] for position in order], asked, caps)
    search = LayeredSearch(table, None, most)
    return search, search.run()
