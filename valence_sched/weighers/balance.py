# SPDX-License-Identifier: Apache-2.0
"""The weigher that keeps the resources of a pod manager in proportion."""

from __future__ import annotations

import numpy as np

from valence_sched.model.request import Request
from valence_sched.model.view import By, Floats, View


def balance(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) whose resources are used in equal shares afterwards.

    ``1 - std`` of the shares ``(used + asked) / total`` over the needs; a single need is always
    in balance. Source: BalancedAllocation of kube-scheduler, here over the asked needs.
    """
    shares = np.empty((len(request.needs), len(view)))
    for share, need in zip(shares, request.needs, strict=True):
        used = view.total(need, by) - view.free(need, by) + need.amount * need.count
        np.multiply(used, view.inverse(need, by), out=share)
    balanced: Floats = 1.0 - np.std(np.minimum(shares, 1.0), axis=0)
    return balanced
