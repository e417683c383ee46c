# SPDX-License-Identifier: Apache-2.0
"""The free blocks of a pool by kind and spot, in numbers that do not depend on names.

A place's values are numbered in the order of what stands at them, so pools that are alike but
for the names of their switches ask the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import TopologyValues

ValueNumbers = tuple[int | None, ...]  # a spot with its values as numbers, None where it is untold


class BlockGroup(NamedTuple):
    """Free blocks of one kind at one spot, no more than could help."""

    kind: int
    values: ValueNumbers
    number: int


class BlockOffer(NamedTuple):
    """The groups of a pool in a stable order, and what they are called on the shelf."""

    groups: tuple[BlockGroup, ...]
    keys: tuple[tuple[int, TopologyValues], ...]


def block_offer(
    free: Mapping[tuple[int, TopologyValues], int],
    kinds: BlockKinds,
    useful: Callable[[int], int],
    most: int,
) -> BlockOffer:
    """Return the blocks that could help, of at most ``useful(kind)`` at a spot.

    Of values at which the same stands, ``most`` are kept: a node has no more blocks than that.
    """
    found = {key: min(number, useful(key[0])) for key, number in free.items() if useful(key[0])}
    width = len(next(iter(found))[1]) if found else 0
    numbers = [_number_values(found, place, kinds) for place in range(width)]
    pairs = [
        (BlockGroup(kind, _to_numbers(spot, numbers), number), (kind, spot))
        for (kind, spot), number in found.items()
    ]
    for place in range(width):
        spare = _surplus_values([group for group, _ in pairs], place, most)
        pairs = [pair for pair in pairs if pair[0].values[place] not in spare]
    pairs.sort(key=lambda pair: (kinds.kinds[pair[0].kind].sort_key, _sort_key(pair[0].values)))
    return BlockOffer(tuple(group for group, _ in pairs), tuple(key for _, key in pairs))


def blocks_by_value(groups: Iterable[BlockGroup], domain: int) -> dict[int, Hashable]:
    """Return what stands at each value of a place; equal things, and the values may be swapped."""
    found: dict[int, list[tuple[int, ValueNumbers, int]]] = {}
    for kind, spot, number in groups:
        value = spot[domain]
        if value is not None:
            others = spot[:domain] + spot[domain + 1 :]
            found.setdefault(value, []).append((kind, others, number))
    return {value: frozenset(here) for value, here in sorted(found.items())}


def _number_values(
    found: Mapping[tuple[int, TopologyValues], int], domain: int, kinds: BlockKinds
) -> dict[str, int]:
    here: dict[str, list[tuple[bytes, int]]] = {}
    for (kind, spot), number in found.items():
        value = spot[domain]
        if value is not None:
            here.setdefault(value, []).append((kinds.kinds[kind].sort_key, number))
    ordered = sorted(here, key=lambda value: (sorted(here[value]), value))
    return {value: number for number, value in enumerate(ordered)}


def _to_numbers(values: TopologyValues, numbers: list[dict[str, int]]) -> ValueNumbers:
    return tuple(
        None if value is None else known[value]
        for value, known in zip(values, numbers, strict=True)
    )


def _surplus_values(groups: list[BlockGroup], domain: int, most: int) -> set[int | None]:
    seen: dict[Hashable, int] = {}
    spare: set[int | None] = set()
    for value, here in blocks_by_value(groups, domain).items():
        seen[here] = seen.get(here, 0) + 1
        if seen[here] > most:
            spare.add(value)
    return spare


def _sort_key(values: ValueNumbers) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in values)
