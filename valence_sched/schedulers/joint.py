# SPDX-License-Identifier: Apache-2.0
"""Joint scheduler: plans all requested nodes together with an exact optimiser."""

from valence_sched.core.batch import Batch
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.view.terms import reads_podm


@reads_podm()
class JointScheduler:
    """Places the most nodes; of several such placements, takes the best by the policy's goals.

    If the filter scheduler places all nodes and the policy has no goals, both give the same answer.
    """

    #: requests of one decision are planned together
    plans_batches = True

    def schedule(self, context: EvaluationContext) -> Batch:
        """Plan all nodes of the request together, and place them."""
        from valence_sched.planning.batches import plan_nodes  # only if this scheduler is used

        return plan_nodes(context)
