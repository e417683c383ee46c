# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision, from the matrices that decided."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from valence_sched.core.alternatives import founds
from valence_sched.core.evaluation import SCALE
from valence_sched.core.explain.amount_sensitivity import MOST_DECISIONS, Amounts
from valence_sched.core.explain.near_misses import Misses
from valence_sched.core.explain.weight_sensitivity import choose, size, weight_flips
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import ranked
from valence_sched.model.explanation import (
    Contender,
    Difference,
    Explanation,
    Flip,
    Part,
    RunnerUp,
)

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision

MOST_CANDIDATES = 6  # the chosen one and the best on other pod managers


def explained(decision: Decision) -> Explanation:
    """Explain the first node of a decision.

    The work is bounded by counts: the notes say where a bound was met.
    """
    notes: list[str] = []
    chosen = decision.placed[0][1].chosen.row if decision.placed else None
    rows = [] if chosen is None else [chosen]
    rows += itertools.islice(_others(decision, chosen), MOST_CANDIDATES - len(rows))
    misses = Misses(decision, notes)
    flips = tuple(sorted(_flips(decision, chosen, notes), key=size))
    return Explanation(
        candidates=tuple(_contender(decision, row, chosen) for row in rows),
        runner_up=_runner_up(decision, rows) if _by_cost(decision) else None,
        nearest_misses=misses.found(),
        flips=flips,
        notes=tuple(notes),
    )


def _by_cost(decision: Decision) -> bool:
    """Return whether the choice is a matter of cost alone, and of lots only between equals."""
    policy = decision.case.bound.policy
    return policy.scheduler == "filter" and policy.pick.best_of == 1


def _others(decision: Decision, chosen: int | None) -> Iterator[int]:
    """Yield the best row of every other podm that makes the first node, best first."""
    case = decision.case
    seen = set() if chosen is None else {int(case.view.podm_of[chosen])}
    for row in ranked(case.view, case.judgement.cost, case.request, 0):
        podm = int(case.view.podm_of[row])
        if podm not in seen and case.plan.fit(case.view, row) is not None:
            seen.add(podm)
            yield row


def _flips(decision: Decision, chosen: int | None, notes: list[str]) -> Iterator[Flip]:
    case = decision.case
    if chosen is None:
        if choose(case) is not None:
            notes.append("flips: one node would fit, not as many as must")
            return
    elif case.request.count > 1 and founds(case.request):
        notes.append("flips: the first node goes where all of its group fit: "
                     "no other weight or need was tried")  # fmt: skip
        return
    elif case.bound.policy.pick.best_of > 1:
        notes.append(f"drawn by lot among the best {case.bound.policy.pick.best_of}: "
                     "another seed may choose another")  # fmt: skip
        return
    elif not _by_cost(decision):
        notes.append(f"the scheduler {case.bound.policy.scheduler!r} does not go by weights: "
                     "another seed may choose another")  # fmt: skip
        return
    elif case.bound.varied:
        notes.append("flips: weights differ by aggregate or zone: no other weight was tried")
    else:
        yield from weight_flips(case, chosen)
    amounts = Amounts(case, chosen, decision.request.asks, len(decision.turned_down))
    yield from amounts.flips()
    if amounts.bitten:
        notes.append(f"flips: stopped after {MOST_DECISIONS} tries of other amounts")


def _contender(decision: Decision, row: int, chosen: int | None) -> Contender:
    case = decision.case
    return Contender(
        podm=case.view.podm(row).id,
        pool=case.view.pools[row].id,
        outcome="chosen" if row == chosen else "fits",
        score=_score(decision, row),
        parts=_parts(decision, row),
    )


def _parts(decision: Decision, row: int) -> tuple[Part, ...]:
    """Return what each weigher adds to a row's score, by the weights that count there."""
    case = decision.case
    scores, here = case.judgement.marks_of(row), case.view.take([row])
    weights = [int(weigher.weights(here)[0]) for weigher in case.bound.weighers]
    total = sum(weights)
    parts = [
        Part(
            weigher=weigher.name,
            weight=weight / WEIGHT_UNITS,
            score=round(score, 6),
            part=round(weight * score / total, 6) if total else 0.0,
        )
        for weigher, weight, score in zip(case.bound.weighers, weights, scores, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.part))


def _runner_up(decision: Decision, rows: list[int]) -> RunnerUp | None:
    if len(rows) < 2 or not decision.placed:
        return None
    first, second = rows[:2]
    view, mine = decision.view, _parts(decision, first)
    theirs = {part.weigher: part.part for part in _parts(decision, second)}
    differences = [
        Difference(weigher=part.weigher, difference=round(part.part - theirs[part.weigher], 6))
        for part in mine
    ]
    return RunnerUp(
        podm=view.podm(second).id,
        pool=view.pools[second].id,
        score=_score(decision, second),
        margin=round(_score(decision, first) - _score(decision, second), 6),
        differences=tuple(sorted(differences, key=lambda one: -abs(one.difference))),
    )


def _score(decision: Decision, row: int) -> float:
    worst = decision.case.bound.worst * SCALE
    return round(1.0 - int(decision.case.judgement.cost[row]) / worst, 6) if worst else 1.0
