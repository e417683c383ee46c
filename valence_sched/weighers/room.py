# SPDX-License-Identifier: Apache-2.0
"""Room weigher: spreads nodes over pod managers, most room first."""

import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.availability import free_share
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import By, Floats, View


@reads_podm()
def room(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) that stay emptiest once the node is composed.

    The score is the mean over the needs of ``(free - requested) / total``, at most 1. Unknown
    amounts may be free, but are not in the total. A resource with a total of 0 counts as 0. A pool
    with too little for one of the needs scores 0. Source: LeastAllocated of kube-scheduler, here
    absolute.
    """
    share = free_share(view, request.needs, by)
    return np.minimum(share.mean, 1.0) if share.table.exceeds_total else share.mean
