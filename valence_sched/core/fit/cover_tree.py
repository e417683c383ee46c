# SPDX-License-Identifier: Apache-2.0
"""Cover trees: the cheapest covers of many offers that differ little, by few searches.

The cheapest cover of an offer is the cheapest cover of every smaller offer that still has its
blocks: a smaller offer has no other covers. Of equally cheap ones it is the same, too, the one
with more of the earlier blocks. So the root is an offer with enough of everything; whoever has too
few of a kind for its cover goes on to the offer with that many of that kind, and so on.

Demands and caps that no kind of block has in common are parts of their own, each with a tree: the
cheapest covers of all parts together are the cheapest cover of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.view.block_counts import Counts

Mask = npt.NDArray[np.bool_]

Offer = tuple[int, ...]  # numbers by kind


class CoverComponent(Struct, frozen=True):
    """A set cover by itself: the kinds of block that it is covered by, an item each, and as usual.

    Of each item as many are available as a node can use.
    """

    kinds: tuple[int, ...]
    items: tuple[Item, ...]
    amounts: tuple[int, ...]
    caps: tuple[int, ...]


def cover_components(
    kinds: Sequence[int], items: Sequence[Item], amounts: Sequence[int], caps: Sequence[int]
) -> list[CoverComponent]:
    """Return the parts of a set cover, of which the ``n``-th item is the ``n``-th kind of block."""
    demands = [number for number, amount in enumerate(amounts) if amount]
    groups: list[tuple[set[int], set[int]]] = [({demand}, set()) for demand in demands]
    for item in items:
        mine = ({demand for demand in demands if item.gives[demand]}, set(item.caps))
        joined = [one for one in groups if one[0] & mine[0] or one[1] & mine[1]]
        groups = [one for one in groups if one not in joined]
        groups.append((mine[0].union(*(one[0] for one in joined)),
                       mine[1].union(*(one[1] for one in joined))))  # fmt: skip
    return [_part(kinds, items, amounts, caps, *map(sorted, group)) for group in groups]


def _part(
    kinds: Sequence[int],
    items: Sequence[Item],
    amounts: Sequence[int],
    caps: Sequence[int],
    demands: list[int],
    capped: list[int],
) -> CoverComponent:
    mine = [number for number, item in enumerate(items)
            if any(item.gives[demand] for demand in demands)]  # fmt: skip
    return CoverComponent(
        kinds=tuple(kinds[number] for number in mine),
        items=tuple(
            Item(
                available=items[number].available,
                price=items[number].price,
                gives=tuple(items[number].gives[demand] for demand in demands),
                caps=tuple(capped.index(cap) for cap in items[number].caps),
            )
            for number in mine
        ),
        amounts=tuple(amounts[demand] for demand in demands),
        caps=tuple(caps[cap] for cap in capped),
    )


class CoverNode:
    """An offer, and how many of which kinds are its cheapest cover: None where there is none.

    It is ``complete`` where all was searched; where not, nothing is known of smaller offers.
    """

    __slots__ = ("children", "complete", "cover", "offer")

    def __init__(
        self, offer: Offer, cover: tuple[tuple[int, int], ...] | None, complete: bool
    ) -> None:
        self.offer, self.cover, self.complete = offer, cover, complete
        self.children: dict[tuple[int, float], CoverNode] = {}


class CoverTree:
    """The covers of all offers for one part, within so many states of the search each."""

    def __init__(self, part: CoverComponent, states: int) -> None:
        self._part, self._states = part, states
        self._position = {kind: position for position, kind in enumerate(part.kinds)}
        self._nodes: dict[Offer, CoverNode] = {}
        self.root = self._node(tuple(item.available for item in part.items))

    def find(self, node: CoverNode, free: Mapping[int, float]) -> CoverNode:
        """Return the node that has the cheapest cover of what is free, by kind.

        ``node`` is one whose offer has no less of any kind that the part can use: the root, or
        what was found when more was free.
        """
        while node.complete and node.cover is not None:
            for kind, number in node.cover:
                fewer = free[kind]
                if fewer < number:
                    child = node.children.get((kind, fewer))
                    node = child or self._child(node, kind, int(fewer))
                    break
            else:
                return node
        return node

    def settle(self, free: Mapping[int, Counts], size: int) -> tuple[Mask, Mask]:
        """Return which of several offers have a cover, and of which that is known.

        ``free`` has a number for each offer by kind, and there are ``size`` offers.
        """
        has_cover, known = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
        waiting = [(self.root, np.arange(size))]
        while waiting:
            node, offers = waiting.pop()
            if not node.complete:
                known[offers] = False
                continue
            for kind, number in node.cover or ():
                numbers = free[kind][offers]
                lacking = numbers < number
                if lacking.any():
                    for fewer in np.unique(numbers[lacking]).tolist():
                        child = self._child(node, kind, int(fewer))
                        waiting.append((child, offers[numbers == fewer]))
                    offers = offers[~lacking]
            if node.cover is not None:
                has_cover[offers] = True
        return has_cover, known

    def _child(self, node: CoverNode, kind: int, number: int) -> CoverNode:
        child = node.children.get((kind, number))
        if child is None:
            position = self._position[kind]
            offer = (*node.offer[:position], number, *node.offer[position + 1 :])
            child = node.children[kind, number] = self._node(offer)
        return child

    def _node(self, offer: Offer) -> CoverNode:
        node = self._nodes.get(offer)
        if node is None:
            part = self._part
            kinds = [kind for kind, number in zip(part.kinds, offer, strict=True) if number]
            items = [replace(item, available=number)
                     for item, number in zip(part.items, offer, strict=True) if number]  # fmt: skip
            found = cheapest_cover(items, part.amounts, part.caps, states=self._states)
            cover = None
            if found.complete and found.counts is not None:
                pairs = zip(kinds, found.counts, strict=True)
                cover = tuple((kind, number) for kind, number in pairs if number)
            node = self._nodes[offer] = CoverNode(offer, cover, found.complete)
        return node
