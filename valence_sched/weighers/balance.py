# SPDX-License-Identifier: Apache-2.0
"""The weigher that keeps the resources of a pod manager in proportion."""

from __future__ import annotations

import numpy as np

from valence_sched.model.request import Request
from valence_sched.model.shares import left, left_squared
from valence_sched.model.view import By, Floats, View


def balance(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) whose resources are used in equal shares afterwards.

    ``1 - std`` of the shares ``(used + asked) / total`` over the needs; a single need is always
    in balance. Source: BalancedAllocation of kube-scheduler, here over the asked needs.
    """
    # of what is left the deviation is the same
    found = left(view, request.needs, by)
    mean, squares = found.mean, left_squared(view, request.needs, by)
    if found.none is not None:  # of what there is nothing, nothing is used
        mean = mean + found.none
        np.add(squares, found.none, out=squares)
    np.subtract(squares, mean * mean, out=squares)
    np.maximum(squares, 0.0, out=squares)
    np.sqrt(squares, out=squares)
    return np.subtract(1.0, squares, out=squares)
