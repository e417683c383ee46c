# SPDX-License-Identifier: Apache-2.0
"""Filter scheduler: places each node on the pool of lowest cost that passes every filter."""

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.ranking import rank_rows
from valence_sched.view.terms import reads_podm


@reads_podm()
class FilterScheduler:
    """Filters, weighs, and takes the best pool that the node fits; the seed breaks ties."""

    goes_by_cost = True

    def schedule(self, context: EvaluationContext) -> Batch:
        """Place the request's nodes one after another, each on the best remaining pool."""
        return place(context, rank_rows)
