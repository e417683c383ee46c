# SPDX-License-Identifier: Apache-2.0
"""Podm room: how many more nodes of a type each podm makes, one after another, on a state."""

from __future__ import annotations

from dataclasses import dataclass, field

from valence_sched.planning.optimise.migration_state import MigrationState
from valence_sched.view.blocks import BlockTable

MOST_COUNTED = 10_000  # nodes of one podm: a stock without a total makes any number


@dataclass(slots=True)
class PodmRoom:
    """Counts nodes by podm; only podms that changed since the last count are counted again."""

    state: MigrationState
    node_type: int
    _known: dict[int, tuple[BlockTable, int]] = field(default_factory=dict)

    def total(self) -> int:
        """Return how many more nodes all podms make."""
        return sum(map(self._count, range(len(self.state.view.podms))))

    def _count(self, podm: int) -> int:
        table = self.state.current.block_tables[podm]
        known = self._known.get(podm)
        if known is None or known[0] is not table:
            known = self._known[podm] = table, self._take_all(podm)
        return known[1]

    def _take_all(self, podm: int) -> int:
        state, mark, nodes = self.state, self.state.mark(), 0
        while nodes < MOST_COUNTED and (fit := state.fit(self.node_type, only=podm)):
            state.take(fit)
            nodes += 1
        state.go_back(mark)
        return nodes
