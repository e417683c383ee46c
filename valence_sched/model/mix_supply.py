# SPDX-License-Identifier: Apache-2.0
"""Mix supplies: what pools have of use to each share of a mix, as numbers that add up exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from valence_sched.model.request import MixSupplies

MOST_PARTS = 64  # of one amount: the exponents of floats need no more
MOST_SUPPLY = 2.0**60


def exact_sum(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return a few floats with the same exact sum: the nearest to it, and to what is left of it.

    However many numbers are divided into groups, the sums of the groups have the sum of all.
    """
    parts: list[float] = []
    while rest := math.fsum([*numbers, *(-part for part in parts)]):
        parts.append(rest)
    return tuple(parts)


def added_supplies(supplies: Iterable[MixSupplies]) -> MixSupplies:
    """Return what several groups of pools supply to the same shares together."""
    by_share = zip(*supplies, strict=True)
    return tuple(exact_sum(list(itertools.chain.from_iterable(parts))) for parts in by_share)


def is_supply(supplies: MixSupplies, shares: int) -> bool:
    """Return whether supplies are amounts of 0 or more, two for each of so many shares."""
    return len(supplies) == 2 * shares and all(map(_is_amount, supplies))


def _is_amount(parts: Sequence[float]) -> bool:
    if len(parts) == 1:  # as most are
        return 0.0 <= parts[0] <= MOST_SUPPLY
    return (
        len(parts) <= MOST_PARTS
        and all(abs(part) <= MOST_SUPPLY for part in parts)
        and 0.0 <= math.fsum(parts) <= MOST_SUPPLY
    )
