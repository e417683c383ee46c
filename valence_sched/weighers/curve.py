# SPDX-License-Identifier: Apache-2.0
"""Curve weigher: scores utilisation by a curve that the operator gives."""

from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from valence_sched.model.request import Request
from valence_sched.view.terms import reads_podm
from valence_sched.view.view import By, Floats, View

Fraction = Annotated[float, Meta(ge=0, le=1)]


class Point(NamedTuple):
    """A point of the curve: the score at a utilisation, both 0..1."""

    utilisation: Fraction
    score: Fraction


STRAIGHT = (Point(0.0, 0.0), Point(1.0, 1.0))


@reads_podm()
def curve(
    view: View,
    request: Request,
    *,
    points: Annotated[tuple[Point, ...], Meta(min_length=1)] = STRAIGHT,
    by: By = "podm",
) -> Floats:
    """Prefers pod managers (or pools) by a curve over their utilisation once the node is composed.

    The score is the mean of the curve over the needs, each at its utilisation ``(used + requested)
    / total``, at most 1. ``points`` are ``[utilisation, score]``, both 0..1, joined by straight
    lines; before the first and after the last point the curve is flat. A resource with a total of 0
    counts as fully used. Source: RequestedToCapacityRatio of kube-scheduler, here absolute and with
    equal weights of all needs.

    Raises:
        ValueError: ``points`` is empty.
    """
    if not points:
        raise ValueError("a curve needs at least one point")
    utilisations, scores = zip(*sorted(points, key=lambda point: point[0]), strict=True)
    total = np.zeros(len(view))
    for need in request.needs:
        used = view.total(need, by) - view.free(need, by) + need.amount * need.count
        inverse = view.inverse(need, by)
        share = np.where(inverse > 0.0, used * inverse, 1.0)  # beyond 1 it is flat
        total += np.interp(share, utilisations, scores)
    return total / max(1, len(request.needs))
