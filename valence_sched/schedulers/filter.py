# SPDX-License-Identifier: Apache-2.0
"""The filter scheduler: the pool that passes every filter and costs least."""

from __future__ import annotations

from valence_sched.core.batch import Batch, place
from valence_sched.core.fit import Plan
from valence_sched.core.judge import Judgement
from valence_sched.core.policies import BoundPolicy
from valence_sched.core.rank import ranked
from valence_sched.model.request import Request
from valence_sched.model.view import View


class FilterScheduler:
    """Filters, weighs, and takes the best pool that makes the node; equals by lot."""

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
        """Place the request's nodes one after another, each on the best pool left."""
        return place(view, judgement, plan, request, bound, ranked, strict=strict)
