# SPDX-License-Identifier: Apache-2.0
"""Pack weigher: fills pod managers one after another, fullest first."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.availability import free_share, infeasible_rows
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import By, Floats, View


@reads_podm()
def pack(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) that are fullest once the node is composed.

    The score is the mean over the needs of ``(used + requested) / total``, at least 0. Unknown
    amounts may be free, but are not in the total. A resource with a total of 0 counts as 0.
    A pool with too little for one of the needs scores 0. Source: MostAllocated of kube-scheduler,
    here absolute.
    """
    share = free_share(view, request.needs, by)
    full = np.subtract(1.0, share.mean)
    if share.absent is not None:
        np.subtract(full, share.absent, out=full)
    if share.absent is not None or share.table.exceeds_total:
        np.maximum(full, 0.0, out=full)  # rounding may leave it just below 0
    full[infeasible_rows(view, request.needs)] = 0.0
    return full
