# SPDX-License-Identifier: Apache-2.0
"""Balance weigher: scores how evenly the resources of a pod manager are used."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.availability import free_share, free_share_squared, infeasible_rows
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import By, Floats, View


@reads_podm()
def balance(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) whose resources are evenly used once the node is composed.

    The score is ``1 - std``, at least 0: ``std`` is the standard deviation of ``(used + requested)
    / total`` over the needs. With a single need, every pool that has enough scores 1. A pool with
    too little for one of the needs scores 0. Source: BalancedAllocation of kube-scheduler, here
    over the requested needs.
    """
    # free shares have the same deviation
    share = free_share(view, request.needs, by)
    mean, deviation = share.mean, free_share_squared(view, request.needs, by)
    if share.absent is not None:  # a resource with no total counts as unused
        mean = mean + share.absent
        np.add(deviation, share.absent, out=deviation)
    np.subtract(deviation, mean * mean, out=deviation)
    np.abs(deviation, out=deviation)  # rounding may leave it just below 0
    np.sqrt(deviation, out=deviation)
    if share.table.exceeds_total:  # shares outside 0..1 may deviate by more than 1
        np.minimum(deviation, 1.0, out=deviation)
    deviation[infeasible_rows(view, request.needs)] = 1.0
    return np.subtract(1.0, deviation, out=deviation)
