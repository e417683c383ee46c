# SPDX-License-Identifier: Apache-2.0
"""Many nodes of one request: place, take what was placed on a private copy, place again."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from msgspec import Struct

from valence_sched.core.evaluation import Case, Judgement
from valence_sched.core.fit.fit import Fit
from valence_sched.core.lookahead import Lookahead
from valence_sched.core.ranking import Fits, Moved, Order, alternates, best
from valence_sched.model.request import Request
from valence_sched.view.view import View

SPARE = 16  # more alternates than asked for: those that other nodes rule out are left out at last


class Placed(Struct, frozen=True, gc=False):
    """One node: the fit that was chosen, its scores, cost, and the fits of its alternates."""

    chosen: Fit
    cost: int
    scores: tuple[float, ...]
    alternates: tuple[tuple[Fit, int, tuple[float, ...]], ...] = ()


@dataclass(slots=True)
class Batch:
    """The outcome: nodes in order; view, judgement and request as the last node left them."""

    placed: list[Placed]
    view: View
    judgement: Judgement
    request: Request
    barren: set[int] = field(default_factory=set)


def place(case: Case, order: Order, moved: Moved = lambda rows: None) -> Batch:
    """Place as many nodes as the request asks for, or as many as fit.

    Each node is chosen as if those before it had been composed. The shared view is never
    touched: a draft keeps the books, and only the rows of the podm that gave blocks are judged
    again, several podms at a time (``lookahead``). Whoever looks at the company of the request
    is asked again about every row. ``moved`` hears whose costs are others then.
    """
    request = case.request
    batch = Batch([], case.view, case.judgement, request)
    ahead: Lookahead | None = None
    fits: Fits = functools.partial(case.plan.fit, case.view)
    for turn in range(request.count):
        rows = order(batch.view, batch.judgement.cost, request, turn)
        fit = best(batch.view, rows, fits, request, case.bound, turn, batch.barren)
        if fit is None:
            break
        others: list[Fit] = []
        if request.alternates:
            rows = order(batch.view, batch.judgement.cost, request, turn)
            wanted = request.alternates + _spare(case)
            others = alternates(batch.view, rows, fits, fit, wanted)
        batch.placed.append(_placed(batch.judgement, fit, others))
        if turn + 1 < request.count:
            if ahead is None:
                ahead = Lookahead(case)
                batch.view, batch.judgement, fits = ahead.view, ahead.judgement, ahead.fit
            first, last = ahead.take(fit)
            batch.barren.difference_update(range(first, last))
            moved(ahead.moved)
    if ahead is not None:
        ahead.close()
        batch.request = ahead.request
    return batch


def _spare(case: Case) -> int:
    """Return how many alternates more than asked for are found for each node."""
    request, others = case.request, case.request.count - 1 + case.beside
    ruled = request.group is not None and request.group.hard
    return SPARE if ruled and others else min(others, SPARE)


def _placed(judgement: Judgement, fit: Fit, others: list[Fit]) -> Placed:
    return Placed(
        fit,
        *_marks(judgement, fit.row),
        tuple([(other, *_marks(judgement, other.row)) for other in others]),
    )


def _marks(judgement: Judgement, row: int) -> tuple[int, tuple[float, ...]]:
    return int(judgement.cost[row]), judgement.marks_of(row)
