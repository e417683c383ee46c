# SPDX-License-Identifier: Apache-2.0
"""Chance scheduler: places each node on a random pod manager that it fits."""

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.ranking import random_order
from valence_sched.view.terms import reads_podm


@reads_podm()
class ChanceScheduler:
    """Draws a pod manager uniformly, then one of its pools, until the node fits."""

    def schedule(self, context: EvaluationContext) -> Batch:
        """Place the request's nodes one after another, each drawn separately."""
        return place(context, random_order)
