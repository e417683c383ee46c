# SPDX-License-Identifier: Apache-2.0
"""Where each need of a request by itself finds enough."""

from __future__ import annotations

import numpy as np

from valence_sched.model.low import Low
from valence_sched.model.need import Need
from valence_sched.model.view import Floats, Mask, View


def enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return per need where enough of it is free: of a stock, for a single grant.

    It is ``view.every`` itself where no row lacks any. Kept for the plugins that ask next.
    """
    return view.of_free("enough", needs, lambda: _enough(view, needs))  # type: ignore[no-any-return]


def possible(view: View, needs: tuple[Need, ...]) -> Mask:
    """Return where enough of each need by itself is free; kept, as it may be asked again."""
    return view.of_free("possible", needs, lambda: _possible(view, needs))  # type: ignore[no-any-return]


def _possible(view: View, needs: tuple[Need, ...]) -> Mask:
    every = found = view.every
    for mask in enough(view, needs):
        if mask is not every:
            found = mask if found is every else found & mask
    found.flags.writeable = False
    return found


def _enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    having = view.of_free("having", subjects, lambda: [_having(view, need) for need in needs])
    return [_mask(view, low, need.amount) for need, low in zip(needs, having, strict=True)]


def _having(view: View, need: Need) -> Low | Floats:
    """Return what every row has of a need; of a stock, which many ask for, who has little."""
    return Low(view.most(need)) if need.kind == "stock" else view.free(need)


def _mask(view: View, have: Low | Floats, amount: float) -> Mask:
    if isinstance(have, np.ndarray):
        mask = have >= amount
    else:
        lacking = have.below(amount)
        if not len(lacking):
            return view.every
        mask = view.every.copy()
        mask[lacking] = False
    mask.flags.writeable = False
    return mask
