# SPDX-License-Identifier: Apache-2.0
"""The weigher that trusts what pod managers tell."""

from __future__ import annotations

import msgspec
import numpy as np

from valence_sched.model.enough import enough
from valence_sched.model.request import Request
from valence_sched.model.view import Floats, View


def known(view: View, request: Request) -> Floats:
    """Prefers pools that can make the node without any device whose attributes are unknown.

    The share of the needs that devices with told attributes satisfy by themselves. A policy
    whose ``unknown`` is ``penalise`` adds this weigher, heavier than all others together.
    """
    needs = request.needs
    if any(need.unknown != "reject" for need in needs):
        needs = tuple([msgspec.structs.replace(need, unknown="reject") for need in needs])
    told = enough(view, needs)
    some = [mask for mask in told if mask is not view.every]
    satisfied = np.full(len(view), len(told) - len(some), dtype=np.int16)
    for mask in some:
        np.add(satisfied, mask, out=satisfied)
    return satisfied / np.float64(max(1, len(told)))
