# SPDX-License-Identifier: Apache-2.0
"""The weigher that spreads nodes: most room first."""

from __future__ import annotations

from valence_sched.model.request import Request
from valence_sched.model.shares import left
from valence_sched.model.view import By, Floats, View


def room(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) that stay emptiest once the node is composed.

    The mean over the needs of ``(free - asked) / total``; what a pod manager has none of counts
    as 0. A pool where one of the needs finds too little scores 0. Source: LeastAllocated of
    kube-scheduler, here absolute.
    """
    return left(view, request.needs, by).mean
