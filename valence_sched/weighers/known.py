# SPDX-License-Identifier: Apache-2.0
"""The weigher that trusts what pod managers tell."""

from __future__ import annotations

import msgspec
import numpy as np

from valence_sched.model.enough import enough, possible
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
    score = np.ones(len(view))
    lacking = (~possible(view, needs)).nonzero()[0]
    if len(lacking):
        some = [mask[lacking] for mask in enough(view, needs) if mask is not view.every]
        satisfied = np.add.reduce(some, dtype=np.int64) + (len(needs) - len(some))
        score[lacking] = satisfied / len(needs)
    return score
