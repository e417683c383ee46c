# SPDX-License-Identifier: Apache-2.0
"""The weigher that keeps what is scarce usable for what is asked for over time."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from valence_sched.model.enough import enough
from valence_sched.model.leftover import Leftover, leftover
from valence_sched.model.request import Mix, Request, Share
from valence_sched.model.view import Floats, Ints, Mask, View
from valence_sched.model.workload import Look, Workload


def fragmentation(
    view: View,
    request: Request,
    *,
    of: str = "accelerators",
    step: Annotated[float, Meta(ge=0, le=1)] = 0.0,
) -> Floats:
    """Prefers pools whose scarce things lose least of their use for the mix of flavors.

    ``F`` is how much of what is free on a pool the mix is expected to have no use for: for each
    flavor by its weight all of it where the pool cannot make its node, else what is of another
    kind, left in too small pieces, or more than three times what ``m`` nodes take: of all else
    that they need, the pool has enough for ``m``, the least of ``free / needed`` and no whole
    number. The score is ``0.5 - g / (2 * (|g| + one))``, where ``g`` is the growth of ``F`` when
    this very node is taken: 0.5 where nothing is lost, less where use is lost, more where useless
    rests are used up. The scarce thing is ``accelerators`` of blocks, or ``of`` names a stock
    resource; ``one`` is one device, or the most that a flavor asks of one stock. Growths that
    round to one multiple of ``step``, in parts of ``one``, are equal. A pool where one of the
    needs finds too little scores 0. A request without a mix is its own. Source: the fragmentation
    gradient of "Beware of Fragmentation" (USENIX ATC 2023), here of a pool's blocks and stocks,
    and absolute. There, what can take one node is of use as a whole; the bound by what runs out
    first is ours: thrice what this flavor alone could use, for nodes of others need less besides.
    """
    mix = request.mix if request.mix.shares else Mix((Share(request.needs, request.traits),))
    workload = mix.workload(of)
    if not workload:
        return np.full(len(view), 0.5)
    possible = _possible(view, request)
    score = np.multiply(possible, 0.5)
    rows, left, before = _seen(view, workload, mix.digest, possible)
    if not len(rows):
        return score
    accepts = workload.accepts(view.traits)[:, rows]
    after = workload.look_after(before, left, request.needs)
    growth = (workload.useless(after, accepts) - workload.useless(before, accepts)) / workload.one
    if step:
        growth = np.rint(np.round(growth / step, 6)) * step
    score[rows] = 0.5 - growth / (2.0 * (np.abs(growth) + 1.0))
    return score


def _seen(
    view: View, workload: Workload, digest: str, possible: Mask
) -> tuple[Ints, Leftover, Look]:
    """Return the possible rows that have any of the scarce thing, and what is free on them.

    What the mix sees of a View as a whole is kept: the next request is asked about most of it.
    """

    def look(rows: Ints | None) -> tuple[Leftover, Look]:
        left = leftover(view, workload.resources, blocks=workload.blocks)
        left = left if rows is None else left.take(rows)
        return left, workload.look(left)

    if 2 * np.count_nonzero(possible) < len(view):
        rows = np.flatnonzero(possible)
        left, before = look(rows)
        some = np.flatnonzero(before.free > 0.0)
        rows = rows[some]
    else:
        left, before = view.latest("fragmentation", (digest, workload.of), lambda: look(None))
        some = rows = np.flatnonzero(possible & (before.free > 0.0))
    if len(some) in (0, len(before.free)):
        return rows, left, before
    return rows, left.take(some), before.take(some)


def _possible(view: View, request: Request) -> Mask:
    """Return per pool whether each need by itself finds enough."""
    possible = view.every
    for mask in enough(view, request.needs):
        if mask is not view.every:
            possible = possible & mask
    return possible
