# SPDX-License-Identifier: Apache-2.0
"""The weigher that fills pod managers one after another: least room first."""

from __future__ import annotations

import numpy as np

from valence_sched.model.request import Request
from valence_sched.model.view import By, Floats, View


def pack(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) that are fullest once the node is composed.

    The mean over the needs of ``(used + asked) / total``, at most 1. What a pod manager has
    none of counts as 0. Source: MostAllocated of kube-scheduler, here absolute.
    """
    full, share = np.zeros(len(view)), np.empty(len(view))
    for need in request.needs:
        np.subtract(view.total(need, by), view.free(need, by), out=share)
        np.add(share, need.amount * need.count, out=share)
        np.multiply(share, view.inverse(need, by), out=share)
        np.minimum(share, 1.0, out=share)
        np.add(full, share, out=full)
    return np.divide(full, max(1, len(request.needs)), out=full)
