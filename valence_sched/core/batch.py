# SPDX-License-Identifier: Apache-2.0
"""Many nodes of one request: place, take what was placed on a private copy, place again."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from valence_sched.core.fit import Fit, Plan
from valence_sched.core.judge import Judgement
from valence_sched.core.lookahead import Lookahead
from valence_sched.core.policies import BoundPolicy
from valence_sched.core.rank import Fits, Order, alternates, best, ranked
from valence_sched.model.request import Request
from valence_sched.model.view import View


@dataclass(frozen=True, slots=True)
class Placed:
    """One node: the fit that was chosen, its scores, cost, and the fits of its alternates."""

    chosen: Fit
    cost: int
    scores: tuple[float, ...]
    alternates: tuple[tuple[Fit, int, tuple[float, ...]], ...] = ()


@dataclass(slots=True)
class Batch:
    """The outcome: nodes in order, the view and the judgement as the last node left them."""

    placed: list[Placed]
    view: View
    judgement: Judgement
    barren: set[int] = field(default_factory=set)


def place(
    view: View,
    judgement: Judgement,
    plan: Plan,
    request: Request,
    bound: BoundPolicy,
    order: Order,
    *,
    strict: bool = False,
) -> Batch:
    """Place ``request.count`` nodes, or as many as fit.

    Each node is chosen as if those before it had been composed. The shared view is never
    touched: a draft keeps the books, and only the rows of the podm that gave blocks are judged
    again, several podms at a time (``lookahead``).
    """
    batch = Batch([], view, judgement)
    ahead: Lookahead | None = None
    fits: Fits = functools.partial(plan.fit, view)
    for turn in range(request.count):
        rows = order(batch.view, batch.judgement.cost, request, turn)
        fit = best(batch.view, rows, fits, request, bound, turn, batch.barren)
        if fit is None:
            break
        others: list[Fit] = []
        if request.alternates:
            rows = order(batch.view, batch.judgement.cost, request, turn)
            others = alternates(batch.view, rows, fits, request, fit)
        batch.placed.append(_placed(batch.judgement, fit, others))
        if turn + 1 < request.count:
            if ahead is None:
                ahead = Lookahead(view, judgement, plan, request, bound, strict=strict)
                batch.view, batch.judgement, fits = ahead.view, ahead.judgement, ahead.fit
            first, last = ahead.take(fit)
            batch.barren.difference_update(range(first, last))
    if ahead is not None:
        ahead.close()
    return batch


def _placed(judgement: Judgement, fit: Fit, others: list[Fit]) -> Placed:
    return Placed(
        fit,
        *_marks(judgement, fit.row),
        tuple((other, *_marks(judgement, other.row)) for other in others),
    )


def _marks(judgement: Judgement, row: int) -> tuple[int, tuple[float, ...]]:
    return int(judgement.cost[row]), tuple(judgement.scores[:, row].tolist())


def count_fits(
    view: View, judgement: Judgement, plan: Plan, request: Request, bound: BoundPolicy, most: int
) -> Iterator[tuple[int, int]]:
    """Yield ``(podm number, nodes)``: how many more nodes each podm makes one after another.

    At most ``most`` a podm. Placing one after another, least waste first, is a lower bound of
    what could be made: packing a whole pod at its best is a harder question.
    """
    for podm in range(len(view.podms)):
        first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
        part = view.window(first, last)
        part_judgement = judgement.window(first, last)
        many = msgspec.structs.replace(request, count=most, alternates=0)
        yield podm, len(place(part, part_judgement, plan, many, bound, ranked).placed)
