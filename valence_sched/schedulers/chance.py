# SPDX-License-Identifier: Apache-2.0
"""Chance scheduler: places each node on a random pod manager that can make it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluation import INFINITE_COST, EvaluationContext
from valence_sched.core.ranking import draw_lots
from valence_sched.model.request import Request
from valence_sched.view.view import Ints, View


class ChanceScheduler:
    """Draws a pod manager uniformly, then one of its pools, until one makes the node."""

    def schedule(self, context: EvaluationContext) -> Batch:
        """Place the request's nodes one after another, each by a draw of its own."""
        return place(context, random_order)


def random_order(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows in random order, podm by podm: more pools give a podm no better chance."""
    podm_lots = draw_lots(view.podm_lots, request, turn)[view.podm_of]
    row_lots = draw_lots(view.lot, request, turn)
    for row in np.lexsort((row_lots, podm_lots)).tolist():
        if cost[row] != INFINITE_COST:
            yield row
