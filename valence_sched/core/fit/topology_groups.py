# SPDX-License-Identifier: Apache-2.0
"""The free blocks of a pool by kind and spot, in numbers that do not depend on names.

A place's values are numbered in the order of what stands at them, so pools that are alike but
for the names of their switches ask the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from valence_sched.view.block_kinds import Kinds
from valence_sched.view.blocks import Spot

Numbers = tuple[int | None, ...]  # a spot with its values as numbers, None where it is untold


class Group(NamedTuple):
    """Free blocks of one kind at one spot, no more than could help."""

    kind: int
    spot: Numbers
    number: int


class Offer(NamedTuple):
    """The groups of a pool in a stable order, and what they are called on the shelf."""

    groups: tuple[Group, ...]
    keys: tuple[tuple[int, Spot], ...]


def offer(
    free: Mapping[tuple[int, Spot], int], kinds: Kinds, useful: Callable[[int], int], most: int
) -> Offer:
    """Return the blocks that could help, of at most ``useful(kind)`` at a spot.

    Of values at which the same stands, ``most`` are kept: a node has no more blocks than that.
    """
    found = {key: min(number, useful(key[0])) for key, number in free.items() if useful(key[0])}
    width = len(next(iter(found))[1]) if found else 0
    numbers = [_numbered(found, place, kinds) for place in range(width)]
    pairs = [
        (Group(kind, _in_numbers(spot, numbers), number), (kind, spot))
        for (kind, spot), number in found.items()
    ]
    for place in range(width):
        spare = _spare([group for group, _ in pairs], place, most)
        pairs = [pair for pair in pairs if pair[0].spot[place] not in spare]
    pairs.sort(key=lambda pair: (kinds.kinds[pair[0].kind].order, _sortable(pair[0].spot)))
    return Offer(tuple(group for group, _ in pairs), tuple(key for _, key in pairs))


def stands(groups: Iterable[Group], place: int) -> dict[int, Hashable]:
    """Return what stands at each value of a place; equal things, and the values may be swapped."""
    found: dict[int, list[tuple[int, Numbers, int]]] = {}
    for kind, spot, number in groups:
        value = spot[place]
        if value is not None:
            others = spot[:place] + spot[place + 1 :]
            found.setdefault(value, []).append((kind, others, number))
    return {value: frozenset(here) for value, here in sorted(found.items())}


def _numbered(found: Mapping[tuple[int, Spot], int], place: int, kinds: Kinds) -> dict[str, int]:
    here: dict[str, list[tuple[bytes, int]]] = {}
    for (kind, spot), number in found.items():
        value = spot[place]
        if value is not None:
            here.setdefault(value, []).append((kinds.kinds[kind].order, number))
    ordered = sorted(here, key=lambda value: (sorted(here[value]), value))
    return {value: number for number, value in enumerate(ordered)}


def _in_numbers(spot: Spot, numbers: list[dict[str, int]]) -> Numbers:
    return tuple(
        None if value is None else known[value] for value, known in zip(spot, numbers, strict=True)
    )


def _spare(groups: list[Group], place: int, most: int) -> set[int | None]:
    seen: dict[Hashable, int] = {}
    spare: set[int | None] = set()
    for value, here in stands(groups, place).items():
        seen[here] = seen.get(here, 0) + 1
        if seen[here] > most:
            spare.add(value)
    return spare


def _sortable(spot: Numbers) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in spot)
