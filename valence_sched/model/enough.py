# SPDX-License-Identifier: Apache-2.0
"""Where each need of a request by itself finds enough."""

from __future__ import annotations

import numpy as np

from valence_sched.model.need import Need
from valence_sched.model.view import Floats, Mask, View


def enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return per need where enough of it is free: of a stock, for a single grant.

    It is ``view.every`` itself where no row lacks any. Kept for the plugins that ask next.
    """
    return view.of_free("enough", needs, lambda: _enough(view, needs))  # type: ignore[no-any-return]


def _enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    having = view.of_free("having", subjects, lambda: [_having(view, need) for need in needs])
    every = view.every
    return [
        every if least >= need.amount else have >= need.amount
        for need, (have, least) in zip(needs, having, strict=True)
    ]


def _having(view: View, need: Need) -> tuple[Floats, float]:
    """Return what every row has of a need, and the least of it on any row; of stocks alone."""
    if need.kind != "stock":
        return view.free(need), -np.inf
    most = view.most(need)
    return most, float(most.min(initial=np.inf))
