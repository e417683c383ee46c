# SPDX-License-Identifier: Apache-2.0
"""Joint programme: the models of many pool groups, and the rows that couple them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from valence_sched.core.fit.optimiser import Effort, Floats, Programme, Solution
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.model import GroupModel, Terms


@dataclass(slots=True)
class JointProgramme:
    """Maximise the nodes of some groups, each so often.

    ``most`` is how many nodes of each type are asked for, None without limit. With ``shares``,
    whole numbers by type, a mix of ``n`` nodes has ``n × share / sum of shares`` nodes of each
    type, rounded down or up.
    """

    models: Sequence[tuple[GroupModel, int]]
    most: Sequence[int | None]
    shares: Sequence[int] | None = None
    programme: Programme = field(default_factory=Programme)
    _first: list[int] = field(default_factory=list)
    _nodes: Terms = field(default_factory=list)

    def __post_init__(self) -> None:
        columns: list[list[int]] = [[] for _ in self.most]
        for model, times in self.models:
            first = self.programme.add(model.programme, times)
            self._first.append(first)
            for node in model.nodes:
                node_type = model.classes.variants[node.variant].node_type
                columns[node_type].append(first + node.column)
                self.programme.set_cost(first + node.column, 1.0)
                self._nodes.append((first + node.column, 1.0))
        for own, most in zip(columns, self.most, strict=True):
            if most is not None and own:
                self.programme.row([(column, 1.0) for column in own], upper=most)
        if self.shares is not None:
            self._share(columns, self.shares)

    def _share(self, columns: list[list[int]], shares: Sequence[int]) -> None:
        """Require the shares: ``floor(x / w) <= n <= ceil(x / w)`` is ``|w × n - x| <= w - 1``."""
        size, weight = self.programme.column(), sum(shares)
        everything = [(column, 1.0) for own in columns for column in own]
        self.programme.row([*everything, (size, -1.0)], 0.0, 0.0)
        for own, share in zip(columns, shares, strict=True):
            terms = [(column, float(weight)) for column in own]
            self.programme.row([*terms, (size, -float(share))], 1.0 - weight, weight - 1.0)

    @property
    def most_nodes(self) -> int:
        """Return how many nodes are asked for at most."""
        return sum(MAX_NODES if most is None else most for most in self.most)

    def first(self, number: int) -> int:
        """Return the number of the first column of a model."""
        return self._first[number]

    def minimise(self, terms: Terms, nodes: int) -> None:
        """Minimise these terms in place of what was sought, with no fewer than so many nodes."""
        self.require(self._nodes, lower=nodes)
        self.programme.set_costs({column: -value for column, value in terms})

    def require(self, terms: Terms, lower: float = -math.inf, upper: float = math.inf) -> None:
        """Add a row over columns of any models."""
        self.programme.row(terms, lower, upper)

    def __len__(self) -> int:
        return len(self.programme)

    def solve(self, effort: Effort, *, whole: bool) -> Solution:
        """Return the best solution found, and the proven bound; errors as for a programme."""
        return self.programme.solve(effort, whole=whole)

    def values_of(self, number: int, values: Floats) -> Floats:
        """Return the values of a model, all its times together."""
        first = self._first[number]
        return values[first : first + len(self.models[number][0].programme.upper)]
