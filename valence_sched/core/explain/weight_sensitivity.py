# SPDX-License-Identifier: Apache-2.0
"""The smallest change of one weight that changes the choice.

A pool's cost is linear in each weight, in whole numbers: the crossing with the chosen pool's is
solved for, not searched. What is found is added up and ranked again before it is reported.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import msgspec
import numpy as np

from valence_sched.core import plugins
from valence_sched.core.costs import add_up
from valence_sched.core.evaluation import NEVER, SCALE, Case
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import by_lot
from valence_sched.model.explanation import Flip
from valence_sched.view.view import Ints

MOST_WEIGHT = 1000 * WEIGHT_UNITS
MOST_FITS = 2000  # pools asked whether they make the node, for one weight and direction
MOST_EQUALS = 64  # pools of equal cost asked the same


def choose(case: Case) -> Fit | None:
    """Return the first node that the policy's scheduler places, None when nothing fits."""
    alone = msgspec.structs.replace(case.request, count=1, min_count=None, alternates=0)
    scheduler = plugins.installed(plugins.SCHEDULERS).get(case.bound.policy.scheduler)()
    placed = scheduler.schedule(dataclasses.replace(case, request=alone)).placed
    return placed[0].chosen if placed else None


def has_equals(case: Case, row: int) -> bool:
    """Return whether another podm makes the node at the same cost: then lots decided."""
    equal = case.judgement.cost == case.judgement.cost[row]
    others = np.flatnonzero(equal & (case.view.podm_of != case.view.podm_of[row]))[:MOST_EQUALS]
    return any(case.plan.fit(case.view, other) is not None for other in others.tolist())


def weight_flips(case: Case, chosen: int) -> Iterator[Flip]:
    """Yield for each weight the smallest change that makes another pool the choice, if any.

    Weights are whole thousandths within 0..1000. Only for the filter scheduler that takes the
    best: of others the choice is no matter of cost alone.
    """
    rows, margin, ahead = _rivals(case, chosen)
    losses = SCALE - np.rint(case.judgement.scores * SCALE).astype(np.int64)
    for number, weigher in enumerate(case.bound.weighers):
        gain = losses[number, chosen] - losses[number, rows]
        found = []
        for sign, most in ((1, MOST_WEIGHT - weigher.weight), (-1, weigher.weight)):
            step = _least_step(case, rows, margin, ahead, sign * gain, most)
            if step is not None:
                found.append(sign * step)
        for step in sorted(found, key=lambda step: (abs(step), step)):
            flip = _verified(case, chosen, number, weigher.weight + step)
            if flip is not None:
                yield flip
                break


def _rivals(case: Case, chosen: int) -> tuple[Ints, Ints, Ints]:
    """Return the other rows that pass, how far behind each is, and 1 where its lot is better."""
    cost = case.judgement.cost
    passed = np.flatnonzero(cost != NEVER)
    order = by_lot(case.view, passed, case.request)
    place = np.empty(len(case.view), dtype=np.int64)
    place[order] = np.arange(len(order))
    rows = passed[(passed != chosen) & (cost[passed] >= cost[chosen])]  # cheaper ones do not fit
    ahead = (place[rows] < place[chosen]).astype(np.int64)
    return rows, cost[rows] - cost[chosen], ahead


def _least_step(
    case: Case, rows: Ints, margin: Ints, ahead: Ints, gain: Ints, most: int
) -> int | None:
    """Return the least step, in thousandths, at which a row that makes the node gets ahead.

    ``gain`` is what a row makes up on the chosen one with each step. At equal cost the better
    lot is ahead.
    """
    able = np.flatnonzero(gain > 0)
    gain, margin, ahead = gain[able], margin[able], ahead[able]
    steps = -(-margin // gain)
    steps += (steps * gain == margin) & (ahead == 0)
    within = steps <= most
    able, steps = able[within], steps[within]
    for index in np.argsort(steps, kind="stable")[:MOST_FITS].tolist():
        if case.plan.fit(case.view, int(rows[able[index]])) is not None:
            return int(steps[index])
    return None


def _verified(case: Case, chosen: int, number: int, weight: int) -> Flip | None:
    """Return the flip that a weight makes when everything is added up and ranked again."""
    old = case.bound.weighers[number]
    weighers = list(case.bound.weighers)
    weighers[number] = dataclasses.replace(old, weight=weight)
    bound = dataclasses.replace(case.bound, weighers=tuple(weighers))
    judgement = case.judgement.copy()
    add_up(judgement, bound)
    changed = dataclasses.replace(case, bound=bound, judgement=judgement)
    fit = choose(changed)
    if fit is None or fit.row == chosen:
        return None
    return flip(
        changed, "weight", old.name, "", old.weight / WEIGHT_UNITS, weight / WEIGHT_UNITS,
        fit.row, chosen,
    )  # fmt: skip


def flip(
    case: Case, of: str, name: str, unit: str, was: float, becomes: float,
    row: int | None, chosen: int | None,
) -> Flip:  # fmt: skip
    """Return a flip from row ``chosen`` to ``row`` of the case as it is then; None: nothing."""
    view = case.view
    return Flip(
        of=of,  # type: ignore[arg-type]
        name=name,
        unit=unit,
        was=was,
        becomes=becomes,
        podm=None if row is None else view.podm(row).id,
        pool=None if row is None else view.pools[row].id,
        instead_of=None if chosen is None else view.podm(chosen).id,
        instead_of_pool=None if chosen is None else view.pools[chosen].id,
        by_lot=row is not None and has_equals(case, row),
    )


def size(found: Flip) -> float:
    """Return how large a change is, measured against what it changes."""
    return abs(found.becomes - found.was) / found.was if found.was else math.inf
