# SPDX-License-Identifier: Apache-2.0
"""The weigher that keeps the resources of a pod manager in proportion."""

from __future__ import annotations

import numpy as np

from valence_sched.model.request import Request
from valence_sched.model.shares import each
from valence_sched.model.view import By, Floats, View


def balance(view: View, request: Request, *, by: By = "podm") -> Floats:
    """Prefers pod managers (or pools) whose resources are used in equal shares afterwards.

    ``1 - std`` of the shares ``(used + asked) / total`` over the needs; a single need is always
    in balance. Source: BalancedAllocation of kube-scheduler, here over the asked needs.
    """
    total, squares = np.zeros(len(view)), np.zeros(len(view))
    for unused in each(view, request.needs, by):  # of what is left the deviation is the same
        np.add(total, unused, out=total)
        np.multiply(unused, unused, out=unused)
        np.add(squares, unused, out=squares)
    number = max(1, len(request.needs))
    np.multiply(total, total, out=total)
    np.divide(total, number, out=total)
    np.subtract(squares, total, out=squares)
    np.divide(squares, number, out=squares)
    np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
    return np.subtract(1.0, squares, out=squares)
