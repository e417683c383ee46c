# SPDX-License-Identifier: Apache-2.0
"""Deadlock: nodes that would make room by moving all at once, and cannot one after another."""

from __future__ import annotations

import itertools

from valence_sched.planning.optimise.migration_state import MigrationState

MOST_NODES = 2  # that wait for each other


def waiting_nodes(state: MigrationState, wanted: int) -> tuple[int, ...]:
    """Return the fewest nodes that, all released first, leave room for a node and for themselves.

    They are looked for where no order of migrations makes room for a node of the type ``wanted``:
    each then waits for a place that another one, or it itself, still holds. Empty for none, and
    where the fits run out.
    """
    for size in range(1, MOST_NODES + 1):
        for chosen in itertools.combinations(range(len(state.places)), size):
            if state.is_spent:
                return ()
            if _fit_together(state, chosen, wanted):
                return chosen
    return ()


def _fit_together(state: MigrationState, chosen: tuple[int, ...], wanted: int) -> bool:
    mark = state.mark()
    for number in chosen:
        state.release(number)
    freed, found = state.mark(), False
    for order in itertools.permutations(chosen):
        found = _place(state, [wanted, *(state.places[number].node_type for number in order)])
        state.go_back(freed)
        if found:
            break
    state.go_back(mark)
    return found


def _place(state: MigrationState, node_types: list[int]) -> bool:
    """Take a place for a node of each type, one after another; return whether all have one."""
    for node_type in node_types:
        fit = state.fit(node_type)
        if fit is None:
            return False
        state.take(fit)
    return True
