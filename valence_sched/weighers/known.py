# SPDX-License-Identifier: Apache-2.0
"""Known weigher: prefers devices whose attributes are reported."""

import msgspec
import numpy as np

from valence_sched.model.request import Request
from valence_sched.view.availability import infeasible_rows, sufficient
from valence_sched.view.terms import penalises_unknown, reads_podm
from valence_sched.view.view import Floats, View


@penalises_unknown
@reads_podm()
def known(view: View, request: Request) -> Floats:
    """Prefers pools where the node needs no device with unknown attributes.

    The score is the share of the needs that devices with reported attributes satisfy alone. A
    policy with ``unknown: penalise`` adds this weigher, heavier than all others together. If no
    need accepts unknown devices, all pools score 1.
    """
    if not [need for need in request.needs if need.unknown != "reject" and need.kind != "stock"]:
        return view.constant(1.0)
    needs = tuple([msgspec.structs.replace(need, unknown="reject") for need in request.needs])
    score = np.ones(len(view))
    lack = infeasible_rows(view, needs)
    if len(lack):
        some = [mask[lack] for mask in sufficient(view, needs) if mask is not view.all_rows]
        satisfied = np.add.reduce(some, dtype=np.int64) + (len(needs) - len(some))
        score[lack] = satisfied / len(needs)
    return score
