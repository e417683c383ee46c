# SPDX-License-Identifier: Apache-2.0
"""The weigher that prefers new hardware."""

import numpy as np

from valence_sched import Floats, Request, View


def newest(view: View, request: Request, *, fact: str = "year", oldest: float = 2015) -> Floats:
    """Prefers new pod managers: 0 for the year ``oldest``, 1 for twenty years later."""
    score = np.clip((view.number(fact) - oldest) / 20, 0, 1)
    # The year is NaN if a pod does not report it; the least preferred score is 0.
    return np.nan_to_num(score, nan=0.0)
