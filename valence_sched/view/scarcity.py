# SPDX-License-Identifier: Apache-2.0
"""Scarcity: how many times the use of each share of a mix counts, by what all pools supply."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct

MOST_SCARCITY = 1000.0  # a share with next to no supply is worth no more than that
MOST_COUNTED = 1e6  # with all that protects it
#: How many times as much a share counts that runs out sooner, and how fast that grows.
UNEVEN_WEIGHT = 10.0
UNEVEN_POWER = 2
PROTECTION_WEIGHT = 10.0  # what a unit counts of which certainly more is asked for than is free
LEAST_PROTECTION = 0.001  # probabilities below are none


class ShareSupply(Struct, frozen=True):
    """What all pools supply to one share of a mix, in the unit of the scarce resource.

    ``weight`` is the part of the requests that ask for it and ``amount`` what one of its nodes
    takes. ``usable`` is what its nodes can use of what is free, ``total`` all that they could take,
    in use or not. ``hardware`` tells what the share names from any other, and is None where it
    names nothing.
    """

    weight: float
    amount: float
    usable: float
    total: float
    hardware: Hashable | None


def scarcity(
    supplies: Sequence[ShareSupply], one: float, *, protect: bool = False
) -> tuple[float, ...]:
    """Return how many times the use of each share counts, 1 for what is not scarce.

    For a share that names hardware: ``(best + one) / (own + one)``, at most ``MOST_SCARCITY``, of
    the usable amount of the best supplied share and its own. ``one`` is one device, or the largest
    amount that a share asks of one stock. The growth of the fragmentation is then the gradient of
    ``-sum(weight × log(supply))``.

    With ``protect``, what a share names is not counted as named if that is all that any share can
    take. Where any share names less, all shares are as scarce as that, and it counts
    ``1 + UNEVEN_WEIGHT × (u ** UNEVEN_POWER − 1)`` times where a share can use less of its total
    than the best supplied one: ``u`` is its :func:`unevenness`. And each kind of request, that is
    the hardware named and the number of cards, gets ``PROTECTION_WEIGHT`` times its
    :func:`protection`, divided by its weight in the mix. Requests for one card that name nothing
    get none.
    """
    if not supplies:
        return ()
    best = max(supplies, key=lambda supply: supply.usable)
    most = max(supply.total for supply in supplies)
    named = [
        supply.hardware is not None and not (protect and supply.total >= most)
        for supply in supplies
    ]
    counted = [1.0] * len(supplies)
    for number, supply in enumerate(supplies):
        if supply.usable < best.usable and (named[number] or (protect and any(named))):
            counted[number] = min((best.usable + one) / (supply.usable + one), MOST_SCARCITY)
            if protect:
                uneven = unevenness(best, supply, one) ** UNEVEN_POWER
                counted[number] *= 1.0 + UNEVEN_WEIGHT * (uneven - 1.0)
    if protect:
        asked = math.fsum(supply.weight * supply.amount for supply in supplies)
        for numbers in _kinds(supplies, named, one):
            kind = [supplies[number] for number in numbers]
            weight = math.fsum(supply.weight for supply in kind)
            amount = math.fsum(supply.weight * supply.amount for supply in kind) / weight
            usable = math.fsum(supply.weight * supply.usable for supply in kind) / weight
            share = protection(weight * best.usable / asked, usable / amount)
            for number in numbers:
                counted[number] += PROTECTION_WEIGHT * share / weight
    return tuple(min(number, MOST_COUNTED) for number in counted)


def protection(expected: float, room: float) -> float:
    """Return the probability that a kind is asked for more often than there is room for.

    ``expected`` is how many nodes of the kind are asked for until all is used that is free, if the
    requests are those of the mix; ``room`` how many of them the free hardware makes, at least 1.
    A unit kept for the kind is used with that probability: Littlewood's rule of revenue management.
    The number that is asked for has a Poisson distribution; its tail is that of chi-squared, here
    by the cube root of Wilson and Hilferty (1931), and no more than Markov's bound.
    """
    room = max(room, 1.0)
    if expected <= 0.0:
        return 0.0
    ratio, ninth = expected / room, 1.0 / (9.0 * room)
    deviations = (ratio ** (1.0 / 3.0) - (1.0 - ninth)) / math.sqrt(ninth)
    tail = min(0.5 * math.erfc(-deviations / math.sqrt(2.0)), ratio)
    return tail if tail >= LEAST_PROTECTION else 0.0


def unevenness(best: ShareSupply, own: ShareSupply, one: float) -> float:
    """Return how many times as large a part of its total is free to ``best`` as to ``own``.

    At least 1: what is used up later than the rest needs no more than its scarcity.
    """
    left = (best.usable + one) / (best.total + one)
    return max(left / ((own.usable + one) / (own.total + one)), 1.0)


def _kinds(
    supplies: Sequence[ShareSupply], named: Sequence[bool], one: float
) -> Iterable[Sequence[int]]:
    """Return the numbers of the shares of each kind of request that is protected."""
    kinds: dict[tuple[Hashable | None, int], list[int]] = {}
    for number, supply in enumerate(supplies):
        cards = math.ceil(supply.amount / one)
        if named[number] or cards > 1:
            key = supply.hardware if named[number] else None, cards
            kinds.setdefault(key, []).append(number)
    return kinds.values()
