# SPDX-License-Identifier: Apache-2.0
"""Neighbourhood search: ruins one or two pod managers and makes their nodes anew, so that more fit.

It begins with nodes that are placed, and some that are missing. Each step frees all nodes of one
pod manager, or of two, and places these and the missing ones in an order drawn by lot. The step is
kept if no fewer nodes stand afterwards: equal ones let the search drift. The work is counted in
fits, and lots come from a seed. Source: ruin and recreate (Schrimpf and others, 2000).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from valence_sched.core.fit.fit import Fit
from valence_sched.core.fit.spending import Spending
from valence_sched.planning.optimise.node_types import NodeType, Variant
from valence_sched.planning.optimise.witness import WitnessNode
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

LEAST_STEPS, STEPS_PER_PODM = 100, 20  # that find nothing better before the search ends

Score = tuple[int, int]  # nodes that must be placed and are not, and nodes that are not placed


@dataclass(slots=True)
class NeighbourhoodSearch:
    """The nodes placed so far on an overlay; the View that it began with is unchanged.

    ``most`` and ``least`` are how many nodes of each type are asked for, and how many must be
    placed; ``fixed`` types stay where they are, and none is added. ``nodes`` are within ``most``.
    """

    view: View
    node_types: Sequence[NodeType]
    variants: Sequence[Variant]
    nodes: Sequence[WitnessNode]
    most: Sequence[int]
    least: Sequence[int]
    fixed: frozenset[int]
    fits_left: int
    seed: int
    spending: Spending
    _overlay: Overlay = field(init=False)
    _random: Random = field(init=False)
    _by_podm: list[list[WitnessNode]] = field(init=False)
    _variants_by_type: list[list[int]] = field(init=False)
    _left: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._overlay = Overlay(self.view)
        self._random = Random(self.seed)  # noqa: S311 - repeatable, not secret
        self._by_podm = [[] for _ in self.view.podms]
        self._variants_by_type = [[] for _ in self.node_types]
        for number, variant in enumerate(self.variants):
            self._variants_by_type[variant.node_type].append(number)
        for node in self.nodes:
            self._overlay.allocate(node.fit.row, node.fit.blocks, node.fit.grants)
            self._by_podm[self._podm(node)].append(node)
        counts = Counter(node.node_type for node in self.nodes)
        self._left = [most - counts[number] for number, most in enumerate(self.most)]

    def run(self) -> list[WitnessNode]:
        """Search until no node is missing or nothing is found any more; return nodes by podm."""
        patience = max(LEAST_STEPS, STEPS_PER_PODM * len(self._by_podm))
        best, since = self.score, 0
        while self.fits_left > 0 and self._missing() and since < patience:
            podms = self._neighbourhood()
            if not podms:
                break
            self._step(podms)
            since += 1
            if self.score < best:
                best, since = self.score, 0
        return [node for nodes in self._by_podm for node in nodes]

    @property
    def score(self) -> Score:
        """Return how far the nodes are from what is asked for: lower is better."""
        placed = (most - left for most, left in zip(self.most, self._left, strict=True))
        short = sum(max(0, least - one) for least, one in zip(self.least, placed, strict=True))
        return short, sum(self._left)

    def _missing(self) -> list[int]:
        """Return the types of which a node is missing that the search may add."""
        return [
            number for number, left in enumerate(self._left) if left and number not in self.fixed
        ]

    def _neighbourhood(self) -> list[int]:
        """Draw a podm that may make a missing node, and often one beside it."""
        mask = self.node_types[self._random.choice(self._missing())].rows
        rows = range(len(self.view)) if mask is None else mask.nonzero()[0].tolist()
        if not rows:
            return []
        first = int(self.view.podm_of[self._random.choice(rows)])
        other = self._random.randrange(len(self._by_podm))
        single = other == first or self._random.random() < 0.5
        return [first] if single else [first, other]

    def _step(self, podms: list[int]) -> None:
        """Make the nodes of some podms anew; where that makes it worse, go back."""
        before = self.score
        removed = [
            node for podm in podms for node in self._by_podm[podm]
            if node.node_type not in self.fixed
        ]  # fmt: skip
        for node in removed:
            self._release(node)
        added = list(self._recreate(podms))
        if self.score > before:
            for node in added:
                self._release(node)
            for node in removed:
                self._take(node)

    def _recreate(self, podms: list[int]) -> Iterator[WitnessNode]:
        """Yield nodes taken of each type in an order drawn by lot, one pool after another."""
        rows = [
            row for podm in podms
            for row in range(int(self.view.first_row[podm]), int(self.view.first_row[podm + 1]))
        ]  # fmt: skip
        types = self._missing()
        self._random.shuffle(types)
        for number in types:
            mask = self.node_types[number].rows
            own = [row for row in rows if mask is None or mask[row]]
            for variant in self._variants_by_type[number]:
                yield from self._fill(variant, own)

    def _fill(self, variant: int, rows: list[int]) -> Iterator[WitnessNode]:
        """Yield the missing nodes of a variant that pools make, which take turns."""
        node_type, fitter = self.variants[variant].node_type, self.variants[variant].fitter
        left = list(rows)
        self._random.shuffle(left)
        while left:
            for row in tuple(left):
                if not self._left[node_type]:
                    return
                self.fits_left -= 1
                fit = fitter.fit(self._overlay.view, row, self.spending)
                if isinstance(fit, Fit):
                    node = WitnessNode(node_type, variant, fit)
                    self._take(node)
                    yield node
                else:
                    left.remove(row)

    def _take(self, node: WitnessNode) -> None:
        self._overlay.allocate(node.fit.row, node.fit.blocks, node.fit.grants)
        self._by_podm[self._podm(node)].append(node)
        self._left[node.node_type] -= 1

    def _release(self, node: WitnessNode) -> None:
        self._overlay.deallocate(node.fit.row, node.fit.blocks, node.fit.grants)
        self._by_podm[self._podm(node)].remove(node)
        self._left[node.node_type] += 1

    def _podm(self, node: WitnessNode) -> int:
        return int(self.view.podm_of[node.fit.row])
