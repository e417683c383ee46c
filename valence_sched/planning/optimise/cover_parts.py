# SPDX-License-Identifier: Apache-2.0
"""Cover parts: the demands of a node in parts that no block serves two of, and each part's covers.

The blocks of a node are chosen part by part: processors and memory from sleds, accelerators from
trays. A part is written into a model of many nodes in one of three forms:

- ``chain``: one demand, the gifts of which divide one another and the demand. Blocks in order of
  their gifts fill node after node to the brim, so that sums over all nodes are exact;
- ``covers``: all minimal covers. Each node has one of them, which is exact, too;
- else sums over all nodes: more nodes may seem to fit than do.

Worked example: a node of 4 GPUs from trays of 1, 2 and 8 is a chain (a tray of 8 gives 4, the rest
of it is lost); from trays of 3 and 2 it has the covers {3, 3}, {3, 2} and {2, 2}.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from valence_sched.core.fit.set_cover import least_blocks
from valence_sched.planning.optimise.node_types import BlockClass, Limits

MOST_COVERS = 1_500  # minimal covers of a part that are written out
MOST_STATES, ALL_STATES = 20_000, 200_000  # visited in search of those of one part, of all parts
MOST_CLASSES = 40  # of a part that is searched

Counts = tuple[int, ...]
Line = dict[int, int]  # what a block of each class gives to one demand, where it gives anything


class CoverPart(Struct, frozen=True):
    """Demands that the same classes of block serve.

    ``gives`` is classes × demands. ``caps`` are the positions in ``classes`` of what is limited
    together, and the limit. ``covers`` are numbers of blocks by class.
    """

    classes: tuple[int, ...]
    gives: tuple[Counts, ...]
    demands: Counts
    caps: tuple[tuple[Counts, int], ...]
    is_chain: bool = False
    covers: tuple[Counts, ...] | None = None

    @property
    def is_exact(self) -> bool:
        return self.is_chain or self.covers is not None


def cover_parts(
    demands: Sequence[int],
    limits: Limits,
    variant: int,
    classes: dict[int, BlockClass],
    finder: CoverFinder,
) -> tuple[CoverPart, ...] | None:
    """Return the parts of a node of a variant in a pool that has blocks of these classes.

    None: the classes do not make the node, however many blocks of them there are.
    """
    least = least_blocks(dict(limits))
    lines: list[tuple[Line, int]] = []
    for number, amount in enumerate(demands):
        lines.append(({key: one.gives[variant][number] for key, one in classes.items()}, amount))
    for name, amount in least.items():
        lines.append(({key: int(name in one.types) for key, one in classes.items()}, amount))
    tight = [_tightened(line, amount) for line, amount in lines if amount]
    if any(not line for line, _ in tight):
        return None
    caps = [
        (frozenset(key for key, one in classes.items() if name in one.types), limit.max)
        for name, limit in limits if limit.max is not None
    ]  # fmt: skip
    parts = tuple(map(finder.solve, _split(_without_implied(tight, classes), caps)))
    return None if any(part.covers == () for part in parts) else parts


def _tightened(line: Line, amount: int) -> tuple[Line, int]:
    """Return a demand in the unit that all gifts are multiples of; no gift is above it."""
    line = {key: min(gift, amount) for key, gift in line.items() if gift}
    unit = math.gcd(*[gift for gift in line.values() if gift < amount])
    if unit > 1:
        whole = -(-amount // unit)
        line = {key: min(whole, -(-gift // unit)) for key, gift in line.items()}
        amount = whole
    return line, amount


def _without_implied(
    lines: list[tuple[Line, int]], classes: dict[int, BlockClass]
) -> list[tuple[Line, int]]:
    """Leave out each demand that another one implies: every class gives it a larger share."""

    def implies(one: int, other: int) -> bool:
        (gifts, amount), (others, other_amount) = lines[one], lines[other]
        return all(others.get(key, 0) * amount >= gifts.get(key, 0) * other_amount
                   for key in classes)  # fmt: skip

    size = range(len(lines))
    return [
        line for other, line in enumerate(lines)
        if not any(implies(one, other) and (one < other or not implies(other, one))
                   for one in size if one != other)
    ]  # fmt: skip


def _split(
    lines: list[tuple[Line, int]], caps: list[tuple[frozenset[int], int]]
) -> Iterator[CoverPart]:
    """Yield the demands in parts that share neither a class nor a cap."""
    useful = frozenset().union(*(line for line, _ in lines))
    caps = [(members & useful, most) for members, most in caps if members & useful]
    groups: list[set[int]] = []
    for link in [set(line) for line, _ in lines] + [set(members) for members, _ in caps]:
        joined = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link] + [link.union(*joined)]
    for group in sorted(groups, key=min):
        own = [(line, amount) for line, amount in lines if group & line.keys()]
        keys = tuple(sorted(group))
        yield CoverPart(
            keys,
            tuple(tuple(line.get(key, 0) for line, _ in own) for key in keys),
            tuple(amount for _, amount in own),
            tuple((tuple(n for n, key in enumerate(keys) if key in members), most)
                  for members, most in caps if members & group),
        )  # fmt: skip


class CoverFinder:
    """Finds the form of parts, each once, the cheapest one that is exact.

    All searches together visit so many states; when none are left, further parts become sums.
    """

    def __init__(self) -> None:
        self._left = ALL_STATES
        self._solved: dict[CoverPart, CoverPart] = {}

    def solve(self, part: CoverPart) -> CoverPart:
        """Return the part as a chain or with its covers, as it is where these are too many."""
        if part in self._solved:
            return self._solved[part]
        found = part
        if len(part.demands) == 1:
            gifts = [*sorted({gift for (gift,) in part.gives}), part.demands[0]]
            most = -(-part.demands[0] // gifts[0])
            divide = all(large % small == 0 for small, large in itertools.pairwise(gifts))
            if divide and all(cap >= most for _, cap in part.caps):
                found = msgspec.structs.replace(part, is_chain=True)
        if not found.is_chain and len(part.classes) <= MOST_CLASSES and self._left > 0:
            search = _CoverSearch(part, min(self._left, MOST_STATES))
            if search.run():
                found = msgspec.structs.replace(part, covers=tuple(search.found))
            self._left -= search.states
        self._solved[part] = found
        return found


class _CoverSearch:
    """Finds all minimal covers of a part, class by class; what is missing may not be negative."""

    def __init__(self, part: CoverPart, most_states: int) -> None:
        self.part, self.most_states = part, most_states
        self.found: list[Counts] = []
        self.states = 0
        size = range(len(part.demands))
        self._served = [
            tuple(any(gives[line] for gives in part.gives[position:]) for line in size)
            for position in range(len(part.classes) + 1)
        ]

    def run(self) -> bool:
        """Return whether all were found within the limits."""
        self._search((), self.part.demands)
        return self.states <= self.most_states and len(self.found) <= MOST_COVERS

    def _search(self, counts: Counts, missing: Counts) -> None:
        self.states += 1
        if self.states > self.most_states:
            return
        position = len(counts)
        if max(missing) <= 0:
            whole = counts + (0,) * (len(self.part.classes) - position)
            if self._is_minimal(whole, missing):
                self.found.append(whole)
            return
        pairs = zip(missing, self._served[position], strict=True)
        if any(amount > 0 and not served for amount, served in pairs):
            return
        gives = self.part.gives[position]
        most = max(-(-amount // gift) for amount, gift in zip(missing, gives, strict=True)
                   if gift) if any(gives) else 0  # fmt: skip
        room = min((  # that the caps leave
            cap - sum(counts[member] for member in members if member < position)
            for members, cap in self.part.caps if position in members
        ), default=max(self.part.demands))  # fmt: skip
        for number in range(min(max(most, 0), room), -1, -1):
            left = (amount - number * gift for amount, gift in zip(missing, gives, strict=True))
            self._search((*counts, number), tuple(left))

    def _is_minimal(self, counts: Counts, missing: Counts) -> bool:
        return all(
            any(amount + gift > 0 for amount, gift in zip(missing, gives, strict=True) if gift)
            for gives, number in zip(self.part.gives, counts, strict=True) if number
        )  # fmt: skip
