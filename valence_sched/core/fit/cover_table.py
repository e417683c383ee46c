# SPDX-License-Identifier: Apache-2.0
"""Cover table: a set cover as arrays of whole numbers, as tight as they can be made.

No gift is above its demand, a demand is counted in the unit that its gifts are multiples of, and no
item is there more often than can help: no choice is lost by that, and bounds are closer.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from valence_sched.core.fit.dive import Item

Ints = npt.NDArray[np.int64]

LARGEST = 1 << 45  # sums of numbers below stay whole in 64 bits


class CoverTable(Struct, frozen=True):
    """``gives`` is items × demands, ``uses`` items × caps; ``room`` is what the caps leave."""

    gives: Ints
    uses: Ints
    prices: Ints
    available: Ints
    demand: Ints
    room: Ints

    @classmethod
    def of(
        cls, items: Sequence[Item], demand: Sequence[int], caps: Sequence[int]
    ) -> "CoverTable | None":
        """Return the table of a cover; None where its numbers are too large to count with."""
        wanted = [number for number, amount in enumerate(demand) if amount]
        gives = [[min(item.gives[j], demand[j]) for j in wanted] for item in items]
        amounts = [demand[j] for j in wanted]
        for column, amount in enumerate(amounts):
            amounts[column], units = whole_units(amount, [line[column] for line in gives])
            for line, unit in zip(gives, units, strict=True):
                line[column] = unit
        available = [
            min(item.available, _helpful(line, amounts), *[caps[cap] for cap in item.caps])
            for item, line in zip(items, gives, strict=True)
        ]
        used = [0] * len(caps)
        uses = np.zeros((len(items), len(caps)), dtype=np.int64)
        for row, (item, number) in enumerate(zip(items, available, strict=True)):
            uses[row, list(item.caps)] = 1
            for cap in item.caps:
                used[cap] += number
        price = sum(item.price * number for item, number in zip(items, available, strict=True))
        if max(price, max(amounts) * (len(items) + 1) * len(amounts), *used, 0) >= LARGEST:
            return None
        return cls(
            np.array(gives, dtype=np.int64).reshape(len(items), len(wanted)),
            uses,
            np.array([item.price for item in items], dtype=np.int64),
            np.array(available, dtype=np.int64),
            np.array(amounts, dtype=np.int64),
            np.array([min(cap, most) for cap, most in zip(caps, used, strict=True)], np.int64),
        )

    def is_cover(self, counts: Ints) -> bool:
        """Return whether so many of each item meet every demand within the caps."""
        return bool(
            ((counts >= 0) & (counts <= self.available)).all()
            and (counts @ self.gives >= self.demand).all()
            and (counts @ self.uses <= self.room).all()
        )


def _helpful(gives: Sequence[int], amounts: Sequence[int]) -> int:
    """Return how many of an item help to meet some demand."""
    pairs = zip(gives, amounts, strict=True)
    return max([-(-amount // give) for give, amount in pairs if give], default=0)


def whole_units(amount: int, gives: Sequence[int]) -> tuple[int, list[int]]:
    """Return a demand in the unit that all gifts below it are multiples of, and the gifts."""
    unit = math.gcd(*[give for give in gives if give < amount])
    if unit <= 1:
        return amount, list(gives)
    whole = -(-amount // unit)
    return whole, [min(whole, -(-give // unit)) for give in gives]
