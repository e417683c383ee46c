# SPDX-License-Identifier: Apache-2.0
"""Topology groups: the free blocks of a pool by kind and domain values, numbered without names.

The values of a domain are numbered in the order of the blocks at them, so pools that differ only in
the names of their switches are one problem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import TopologyValues

ValueNumbers = tuple[int | None, ...]  # numbers of the domain values, None where unreported


class BlockGroup(NamedTuple):
    """Free blocks of one kind with the same domain values, no more than could help."""

    kind: int
    values: ValueNumbers
    number: int


class BlockOffer(NamedTuple):
    """The groups of a pool in a stable order, and their kinds and domain values."""

    groups: tuple[BlockGroup, ...]
    keys: tuple[tuple[int, TopologyValues], ...]


def block_offer(
    free: Mapping[tuple[int, TopologyValues], int],
    kinds: BlockKinds,
    useful: Callable[[int], int],
    most: int,
) -> BlockOffer:
    """Return the blocks that could help, at most ``useful(kind)`` in a group.

    Of values with equal blocks, ``most`` remain: a node has no more blocks than that.
    """
    counts = {key: min(number, useful(key[0])) for key, number in free.items() if useful(key[0])}
    width = len(next(iter(counts))[1]) if counts else 0
    numbers = [_number_values(counts, domain, kinds) for domain in range(width)]
    pairs = [
        (BlockGroup(kind, _to_numbers(values, numbers), number), (kind, values))
        for (kind, values), number in counts.items()
    ]
    for domain in range(width):
        surplus = _surplus_values([group for group, _ in pairs], domain, most)
        pairs = [pair for pair in pairs if pair[0].values[domain] not in surplus]
    pairs.sort(key=lambda pair: (kinds.kinds[pair[0].kind].sort_key, _sort_key(pair[0].values)))
    return BlockOffer(tuple(group for group, _ in pairs), tuple(key for _, key in pairs))


def blocks_by_value(groups: Iterable[BlockGroup], domain: int) -> dict[int, Hashable]:
    """Return the blocks at each value of a domain; values with equal blocks can be swapped."""
    counts: dict[int, list[tuple[int, ValueNumbers, int]]] = {}
    for kind, values, number in groups:
        value = values[domain]
        if value is not None:
            others = values[:domain] + values[domain + 1 :]
            counts.setdefault(value, []).append((kind, others, number))
    return {value: frozenset(blocks) for value, blocks in sorted(counts.items())}


def _number_values(
    counts: Mapping[tuple[int, TopologyValues], int], domain: int, kinds: BlockKinds
) -> dict[str, int]:
    blocks: dict[str, list[tuple[bytes, int]]] = {}
    for (kind, values), number in counts.items():
        value = values[domain]
        if value is not None:
            blocks.setdefault(value, []).append((kinds.kinds[kind].sort_key, number))
    ordered = sorted(blocks, key=lambda value: (sorted(blocks[value]), value))
    return {value: number for number, value in enumerate(ordered)}


def _to_numbers(values: TopologyValues, numbers: list[dict[str, int]]) -> ValueNumbers:
    return tuple(
        None if value is None else table[value]
        for value, table in zip(values, numbers, strict=True)
    )


def _surplus_values(groups: list[BlockGroup], domain: int, most: int) -> set[int | None]:
    seen: dict[Hashable, int] = {}
    surplus: set[int | None] = set()
    for value, blocks in blocks_by_value(groups, domain).items():
        seen[blocks] = seen.get(blocks, 0) + 1
        if seen[blocks] > most:
            surplus.add(value)
    return surplus


def _sort_key(values: ValueNumbers) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in values)
