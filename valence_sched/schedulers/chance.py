# SPDX-License-Identifier: Apache-2.0
"""The chance scheduler: any pod manager that can make the node, by lot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from valence_sched.core.batch import Batch, place
from valence_sched.core.fit import Plan
from valence_sched.core.judge import NEVER, Judgement
from valence_sched.core.policies import BoundPolicy
from valence_sched.core.rank import drawn
from valence_sched.model.request import Request
from valence_sched.model.view import Ints, View


class ChanceScheduler:
    """Draws a pod manager uniformly, then one of its pools, until one makes the node."""

    def schedule(
        self,
        view: View,
        judgement: Judgement,
        plan: Plan,
        request: Request,
        bound: BoundPolicy,
        *,
        strict: bool = False,
    ) -> Batch:
        """Place the request's nodes one after another, each by a draw of its own."""
        return place(view, judgement, plan, request, bound, by_chance, strict=strict)


def by_chance(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows in random order, podm by podm: one of many pools is no better a chance."""
    podm_lots = drawn(view.podm_lots, request, turn)[view.podm_of]
    row_lots = drawn(view.lot, request, turn)
    for row in np.lexsort((row_lots, podm_lots)).tolist():
        if cost[row] != NEVER:
            yield row
