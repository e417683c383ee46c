# SPDX-License-Identifier: Apache-2.0
"""Weight sensitivity: the smallest change of one weight that changes the choice.

A pool's cost is linear in each weight, in whole numbers: the crossing with the chosen pool's is
solved for, not searched. Each result is added up and ranked again before it is reported.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import msgspec
import numpy as np

from valence_sched.core.batch import schedule
from valence_sched.core.costs import write_costs
from valence_sched.core.evaluation import COST_SCALE, INFINITE_COST, EvaluationContext
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import order_by_lot
from valence_sched.model.explanation import Sensitivity
from valence_sched.view.view import Ints

MOST_WEIGHT = 1000 * WEIGHT_UNITS
MOST_FITS = 2000  # fits tried for one weight and direction
MOST_TIES = 64  # fits tried of pools of equal cost


def schedule_one(context: EvaluationContext) -> Fit | None:
    """Return the first node that the policy's scheduler places, None when nothing fits."""
    alone = msgspec.structs.replace(context.request, count=1, min_count=None, alternates=0)
    placed = schedule(dataclasses.replace(context, request=alone)).nodes
    return placed[0].chosen if placed else None


def has_ties(context: EvaluationContext, row: int) -> bool:
    """Return whether another podm makes the node at the same cost: then lots decided."""
    equal = context.evaluation.cost == context.evaluation.cost[row]
    others = np.flatnonzero(equal & (context.view.podm_of != context.view.podm_of[row]))[:MOST_TIES]
    return any(context.fitter.fit(context.view, other) is not None for other in others.tolist())


def weight_changes(context: EvaluationContext, chosen: int) -> Iterator[Sensitivity]:
    """Yield for each weight the smallest change that makes another pool the choice, if any.

    Weights are whole thousandths within 0..1000. Only for the filter scheduler that takes the
    best: with others, cost alone does not decide the choice.
    """
    rows, margin, ahead = _contenders_behind(context, chosen)
    losses = COST_SCALE - np.rint(context.evaluation.scores * COST_SCALE).astype(np.int64)
    for number, weigher in enumerate(context.bound.weighers):
        gain = losses[number, chosen] - losses[number, rows]
        steps_by_sign = []
        for sign, most in ((1, MOST_WEIGHT - weigher.weight), (-1, weigher.weight)):
            step = _least_step(context, rows, margin, ahead, sign * gain, most)
            if step is not None:
                steps_by_sign.append(sign * step)
        for step in sorted(steps_by_sign, key=lambda step: (abs(step), step)):
            change = _verify(context, chosen, number, weigher.weight + step)
            if change is not None:
                yield change
                break


def _contenders_behind(context: EvaluationContext, chosen: int) -> tuple[Ints, Ints, Ints]:
    """Return the other rows that pass, how far behind each is, and 1 where its lot is better."""
    cost = context.evaluation.cost
    passed = np.flatnonzero(cost != INFINITE_COST)
    order = order_by_lot(context.view, passed, context.request)
    position = np.empty(len(context.view), dtype=np.int64)
    position[order] = np.arange(len(order))
    rows = passed[(passed != chosen) & (cost[passed] >= cost[chosen])]  # cheaper ones do not fit
    ahead = (position[rows] < position[chosen]).astype(np.int64)
    return rows, cost[rows] - cost[chosen], ahead


def _least_step(
    context: EvaluationContext, rows: Ints, margin: Ints, ahead: Ints, gain: Ints, most: int
) -> int | None:
    """Return the least step, in thousandths, at which a row that makes the node gets ahead.

    ``gain`` is how much a row closes the gap to the chosen one with each step. At equal cost the
    better lot is ahead.
    """
    able = np.flatnonzero(gain > 0)
    gain, margin, ahead = gain[able], margin[able], ahead[able]
    steps = -(-margin // gain)
    steps += (steps * gain == margin) & (ahead == 0)
    within = steps <= most
    able, steps = able[within], steps[within]
    for index in np.argsort(steps, kind="stable")[:MOST_FITS].tolist():
        if context.fitter.fit(context.view, int(rows[able[index]])) is not None:
            return int(steps[index])
    return None


def _verify(
    context: EvaluationContext, chosen: int, number: int, weight: int
) -> Sensitivity | None:
    """Return the change of choice at another weight, after adding up and ranking again."""
    old = context.bound.weighers[number]
    weighers = list(context.bound.weighers)
    weighers[number] = dataclasses.replace(old, weight=weight)
    bound = dataclasses.replace(context.bound, weighers=tuple(weighers))
    evaluation = context.evaluation.copy()
    write_costs(evaluation, bound)
    changed = dataclasses.replace(context, bound=bound, evaluation=evaluation)
    fit = schedule_one(changed)
    if fit is None or fit.row == chosen:
        return None
    return choice_change(
        changed, "weight", old.name, "", old.weight / WEIGHT_UNITS, weight / WEIGHT_UNITS,
        fit.row, chosen,
    )  # fmt: skip


def choice_change(
    context: EvaluationContext, of: str, name: str, unit: str, was: float, becomes: float,
    row: int | None, chosen: int | None,
) -> Sensitivity:  # fmt: skip
    """Return a change from row ``chosen`` to ``row``, of the context after it; None: no row."""
    view = context.view
    return Sensitivity(
        of=of,  # type: ignore[arg-type]
        name=name,
        unit=unit,
        was=was,
        becomes=becomes,
        podm=None if row is None else view.podm(row).id,
        pool=None if row is None else view.pools[row].id,
        instead_of=None if chosen is None else view.podm(chosen).id,
        instead_of_pool=None if chosen is None else view.pools[chosen].id,
        by_lot=row is not None and has_ties(context, row),
    )


def relative_size(change: Sensitivity) -> float:
    """Return how large a change is, measured against what it changes."""
    return abs(change.becomes - change.was) / change.was if change.was else math.inf
