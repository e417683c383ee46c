# SPDX-License-Identifier: Apache-2.0
"""The weigher that trusts what pod managers tell."""

from __future__ import annotations

import msgspec
import numpy as np

from valence_sched.model.request import Request
from valence_sched.model.view import Floats, View


def known(view: View, request: Request) -> Floats:
    """Prefers pools that can make the node without any device whose attributes are unknown.

    The share of the needs that devices with told attributes satisfy by themselves. A policy
    whose ``unknown`` is ``penalise`` adds this weigher, heavier than all others together.
    """
    satisfied = np.zeros(len(view), dtype=np.int16)
    for need in request.needs:
        told = msgspec.structs.replace(need, unknown="reject")
        have = view.most(told) if told.kind == "stock" else view.free(told)
        satisfied += have >= told.amount
    return satisfied / np.float64(max(1, len(request.needs)))
