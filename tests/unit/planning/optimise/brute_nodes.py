# SPDX-License-Identifier: Apache-2.0
"""The possible numbers of nodes of a podm by brute force: every set of blocks, in every order."""

import functools
import itertools
from collections.abc import Sequence

import msgspec

from tests.unit.core.fit import brute
from valence_sched.model.inventory import Devices, Status
from valence_sched.model.need import Need

Counts = tuple[int, ...]


def possible_counts(podm: dict, asked: Sequence[Sequence[Need]]) -> frozenset[Counts]:
    """Return all maximal combinations of numbers of nodes by need."""
    slots = [slots_of(msgspec.convert(block["status"], Status)) for block in podm["blocks"]]
    usable = [number for number, free in enumerate(slots) if free]
    hardware = [msgspec.convert(block["devices"], Devices) for block in podm["blocks"]]
    types = [block["type"] for block in podm["blocks"]]
    made: list[tuple[int, frozenset[int]]] = []
    for number, needs in enumerate(asked):
        for size in range(1, len(usable) + 1):
            for chosen in itertools.combinations(usable, size):
                if any(before[1] <= set(chosen) for before in made if before[0] == number):
                    continue  # a smaller set is enough
                if brute.makes(needs, [hardware[one] for one in chosen]) and any(
                    all(pool["id"] in podm["blocks"][one]["pools"] for one in chosen)
                    and brute.within(pool["limits"], [types[one] for one in chosen])
                    for pool in podm["pools"]
                ):
                    made.append((number, frozenset(chosen)))

    @functools.cache
    def search(free: Counts) -> frozenset[Counts]:
        found = {(0,) * len(asked)}
        for number, blocks in made:
            if all(free[block] for block in blocks):
                left = tuple(n - (block in blocks) for block, n in enumerate(free))
                for counts in search(left):
                    found.add(tuple(n + (at == number) for at, n in enumerate(counts)))
        return frozenset(_largest(found))

    return search(tuple(slots))


def _largest(found: set[Counts]) -> set[Counts]:
    return {
        one for one in found
        if not any(other != one and all(map(int.__ge__, other, one)) for other in found)
    }  # fmt: skip


def added(parts: Sequence[frozenset[Counts]]) -> frozenset[Counts]:
    """Return the numbers of nodes of several podms together."""
    sums = {tuple(map(sum, zip(*choice, strict=True))) for choice in itertools.product(*parts)}
    return frozenset(_largest(sums))


def slots_of(status: Status) -> int:
    """Return the number of further nodes that may use a block."""
    if not brute.is_free(status):
        return 0
    if not status.shareable:
        return 1
    return 1 if status.max_compositions is None else status.max_compositions - status.compositions


def largest_mix(counts: Counts, shares: Sequence[int]) -> int:
    """Return the largest mix within these numbers of nodes of each type, by counting down."""
    weight = sum(shares)
    for size in range(sum(counts), -1, -1):
        low = [size * share // weight for share in shares]
        high = [-(-size * share // weight) for share in shares]
        usable = [min(have, most) for have, most in zip(counts, high, strict=True)]
        if all(have >= least for have, least in zip(counts, low, strict=True)) and (
            sum(usable) >= size
        ):
            return size
    return 0
