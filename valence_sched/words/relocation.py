# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes in words: what a failure, a drain and a rebalance come to, and who is stuck."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import Relocation, Survival

NO_HARDWARE = "the inventory does not say what it is made of"

#: For one node and for several, and the word after.
_VERBS = {"failed": ("lands again", "land again"), "drained": ("moves away", "move away")}


def relocation_phrase(result: Relocation) -> str:
    """Return what failing or draining comes to, in one sentence."""
    if not result.nodes:
        return f"no node is on {result.target}: nothing has to move"
    one, many = _VERBS[result.why]
    nodes = format_count(result.nodes, "node")
    if not result.stuck:
        return f"every node {one}: {nodes} of {result.target}"
    moved, stuck = len(result.moves), len(result.stuck)
    return f"{moved:,} of {nodes} of {result.target} {many}, {stuck:,} cannot"


def survival_phrases(result: Survival) -> Iterator[str]:
    """Yield whether any so many pod managers may fail, and the worst set of them."""
    podms = format_count(result.failures, "pod manager")
    tried = f"{result.tried:,} of {result.sets:,} sets tried"
    bad = f"{result.bad_sets:,} of {result.tried:,} sets"
    if result.answer:
        yield f"any {podms} may fail: every node lands again ({tried})"
        return
    if result.answer is None:
        yield f"undecided: no bad set of {podms} found, but only {tried}, the dearest first"
        return
    worst = ", ".join(result.worst)
    yield f"not any {podms} may fail: {bad} leave nodes without a place"
    nodes = format_count(result.worst_nodes, "node")
    yield f"worst: {worst}: {len(result.stuck):,} of {nodes} cannot land again"
