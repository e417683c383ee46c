# SPDX-License-Identifier: Apache-2.0
"""Which shares of what there is are free, and what of them a request would leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from valence_sched.model.need import Need
from valence_sched.model.view import By, Floats, Mask, View


class Share(NamedTuple):
    """What is ``free`` of one need, in parts of all there is of it, 0 where there is nothing.

    ``least`` is the smallest amount that is free on any row; ``none`` says where there is
    nothing, None where every row has some.
    """

    free: Floats
    least: float
    none: Mask | None


def summed(view: View, needs: Sequence[Need], by: By) -> Floats:
    """Return per row the sum over the needs of ``(free - asked) / total``, none below 0.

    What there is nothing of counts as 0. All that is free is added up first, so that the amounts
    that are asked for come off what the next request finds added up.
    """
    shares, total = _shares(view, needs, by)
    left, part = total.copy(), np.empty(len(view))
    for need, share in zip(needs, shares, strict=True):
        asked = need.amount * need.count
        np.multiply(view.inverse(need, by), asked, out=part)
        np.subtract(left, part, out=left)
        if share.least < asked:  # elsewhere nothing is lacking, which is exact
            np.subtract(part, share.free, out=part)
            np.maximum(part, 0.0, out=part)
            np.add(left, part, out=left)
    return np.maximum(left, 0.0, out=left)


def each(view: View, needs: Sequence[Need], by: By) -> Iterator[Floats]:
    """Yield per need the shares ``1 - (used + asked) / total``, none below 0.

    Of what there is nothing, nothing is used. The array is the same one each time.
    """
    part = np.empty(len(view))
    for need, share in zip(needs, _shares(view, needs, by)[0], strict=True):
        asked = need.amount * need.count
        np.multiply(view.inverse(need, by), asked, out=part)
        np.subtract(share.free, part, out=part)
        if share.least < asked:
            np.maximum(part, 0.0, out=part)
        if share.none is not None:
            np.add(part, share.none, out=part)
        yield part


def _shares(view: View, needs: Sequence[Need], by: By) -> tuple[list[Share], Floats]:
    """Return the share of each need and the sum of what is free of all."""

    def make() -> tuple[list[Share], Floats]:
        shares = [_share(view, need, by) for need in needs]
        total = np.zeros(len(view))
        for share in shares:
            total += share.free
        return shares, total

    # of a stock no more depends on the amount
    subjects = tuple([need.resource or need for need in needs])
    return view.of_free("shares", (subjects, by), make)  # type: ignore[no-any-return]


def _share(view: View, need: Need, by: By) -> Share:
    free, inverse = view.free(need, by), view.inverse(need, by)
    least = float(free.min()) if len(free) else 0.0
    none = inverse == 0.0
    return Share(free * inverse, least, none if none.any() else None)
