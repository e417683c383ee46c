# SPDX-License-Identifier: Apache-2.0
"""Tight weigher: fills the pools with the smallest remaining amounts."""

from collections.abc import Mapping

from valence_sched.model.request import Request
from valence_sched.view.remaining import (
    NO_SCALES,
    Remaining,
    Scale,
    Within,
    pool_counts,
    score_remaining,
)
from valence_sched.view.terms import reads, reads_podm
from valence_sched.view.view import Floats, View

LEAST = 1e-300  # avoids 0 / 0: on a full pod manager all pools score the same


@reads("mix", optional=True)
@reads_podm()
def tight(
    view: View, request: Request, *, within: Within = "site", of: Mapping[str, Scale] = NO_SCALES
) -> Floats:
    """Prefers pools with the smallest leftover, of requested and of all other resources.

    The score is ``1 / (1 + x)``: ``x`` is the sum of ``amount / scale`` over all resources of
    blocks, each stock, and each custom class. The amount is the free amount of a requested
    resource, and the total of any other resource, so a request without accelerators prefers pools
    without accelerators. The scale is the mean amount in a node of the mix of flavors, else the
    requested amount. A resource without a scale counts as 1 if the pool has any of it. ``of`` sets
    scales by measure or by stock resource. With ``within: podm``, ``x`` is divided by its mean over
    the pools of the pod manager, so only pools of one pod manager are compared; a single pool
    scores 0.5. Source: best fit.

    Raises:
        ValueError: a scale is not above 0.
    """
    for name, scale in of.items():
        if not scale > 0.0:
            raise ValueError(f"the scale of {name!r} must be above 0, not {scale}")
    if within == "podm" and pool_counts(view).max(initial=1.0) == 1.0:
        return view.constant(0.5)
    return score_remaining(view, request, _SCORES[within], ("tight", within), of)


def _score(_view: View, remaining: Remaining) -> Floats:
    score: Floats = 1.0 / (1.0 + remaining("pool"))
    return score


def _score_within_podm(view: View, remaining: Remaining) -> Floats:
    pools, every = pool_counts(view), remaining("podm") + LEAST
    score: Floats = every / (every + (remaining("pool") * pools + LEAST))
    score[pools == 1.0] = 0.5  # even if the pod manager has hardware outside its only pool
    return score


_SCORES = {"site": _score, "podm": _score_within_podm}
