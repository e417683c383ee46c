# SPDX-License-Identifier: Apache-2.0
"""Explanation: runner-up, near misses and sensitivity of one decision."""

import itertools
from collections.abc import Iterator

from valence_sched.core.batch import goes_by_cost, needs_anchor
from valence_sched.core.decision import Decision
from valence_sched.core.explain.near_misses import NearMissSearch
from valence_sched.core.explain.sensitivity import (
    MOST_TRIES,
    AmountSearch,
    relative_size,
    schedule_one,
    weight_changes,
)
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import rank_rows
from valence_sched.model.explanation import (
    Contender,
    Explanation,
    RunnerUp,
    ScoreDifference,
    ScorePart,
    Sensitivity,
)
from valence_sched.model.need import MEASURES
from valence_sched.model.phrases import devices_by_condition, phrases
from valence_sched.model.quantity import format_count

MOST_CANDIDATES = 6  # the chosen one and the best on other pod managers
BUDGET_SHARE = 4  # the part of a decision's states that its explanation may spend


def explain(decision: Decision) -> Explanation:
    """Explain the first node of a decision.

    The work is bounded by counts: the notes tell where a bound was reached.
    """
    notes = [*_health_notes(decision)]
    spending, budget = decision.context.spending, decision.context.bound.policy.budget
    spending.left = min(spending.left, budget.decision_states // BUDGET_SHARE)
    chosen = decision.placed_nodes[0][1].chosen.row if decision.placed_nodes else None
    rows = [] if chosen is None else [chosen]
    rows += itertools.islice(_others(decision, chosen), MOST_CANDIDATES - len(rows))
    search = NearMissSearch(decision, notes)
    changes = tuple(sorted(_changes(decision, chosen, notes), key=relative_size))
    misses = search.run()
    if undecided := spending.undecided:
        questions = format_count(undecided, "question")
        notes.append(f"undecided within the budget of the policy: {questions}: what depends on "
                     "the answer is left out")  # fmt: skip
    return Explanation(
        candidates=tuple(_contender(decision, row, chosen) for row in rows),
        runner_up=_runner_up(decision, rows) if _is_by_cost(decision) else None,
        nearest_misses=misses,
        flips=changes,
        notes=tuple(notes),
    )


def _health_notes(decision: Decision) -> Iterator[str]:
    """Yield the chosen hardware that counts although its health is Warning."""
    kinds = decision.view.kinds
    for _, node in decision.placed_nodes:
        row = node.chosen.row
        table, podm = (
            decision.view.block_tables[decision.view.podm_of[row]],
            decision.view.podm(row),
        )
        for block in node.chosen.blocks:
            if (number := table.kinds[block]) in kinds.impaired:
                kind, name = kinds.kinds[number], table.uris[block].rstrip("/").rpartition("/")[2]
                unwell = devices_by_condition(kind.devices).get("Warning")
                what = "the block" if kind.condition == "Warning" else ""
                what = what or ", ".join(phrases(unwell) if unwell else ())
                if what:
                    yield f"health Warning: {what} (in {name} of {podm.id})"


def _is_by_cost(decision: Decision) -> bool:
    """Return whether cost alone decides the choice, and lots only between equals."""
    best_of = decision.context.bound.policy.pick.best_of
    return best_of == 1 and goes_by_cost(decision.context)


def _others(decision: Decision, chosen: int | None) -> Iterator[int]:
    """Yield the best row of every other podm that makes the first node, best first."""
    context = decision.context
    seen_podms = set() if chosen is None else {int(context.view.podm_of[chosen])}
    for row in rank_rows(context.view, context.evaluation.cost, context.request, 0):
        podm = int(context.view.podm_of[row])
        if podm not in seen_podms and isinstance(context.fit(context.view, row), Fit):
            seen_podms.add(podm)
            yield row


def _changes(decision: Decision, chosen: int | None, notes: list[str]) -> Iterator[Sensitivity]:
    context = decision.context
    if chosen is None:
        if schedule_one(context).nodes:
            notes.append("flips: one node would fit, not as many as must")
            return
    elif context.request.count > 1 and needs_anchor(context.request):
        notes.append("flips: the first node goes where all of its group fit: "
                     "no other weight or need was tried")  # fmt: skip
        return
    elif context.bound.policy.pick.best_of > 1:
        notes.append(f"drawn by lot among the best {context.bound.policy.pick.best_of}: "
                     "another seed may choose another")  # fmt: skip
        return
    elif not _is_by_cost(decision):
        notes.append(f"the scheduler {context.bound.policy.scheduler!r} does not go by weights: "
                     "another seed may choose another")  # fmt: skip
        return
    elif context.bound.weights_vary:
        notes.append("flips: weights differ by aggregate or zone: no other weight was tried")
    else:
        yield from weight_changes(context, chosen)
    alternatives, earlier = decision.request.alternatives, len(decision.failed_attempts)
    amounts = AmountSearch(context, chosen, alternatives, earlier)
    yield from amounts.changes()
    if amounts.out_of_tries:
        notes.append(f"flips: stopped after {MOST_TRIES} tries of other amounts")


def _contender(decision: Decision, row: int, chosen: int | None) -> Contender:
    context = decision.context
    return Contender(
        podm=context.view.podm(row).id,
        pool=context.view.pools[row].id,
        outcome="chosen" if row == chosen else "fits",
        score=decision.score(int(context.evaluation.cost[row])),
        parts=_score_parts(decision, row),
        excess=_excess(decision, row),
    )


def _excess(decision: Decision, row: int) -> dict[str, float]:
    """Return what the blocks of a row have beyond the request, by measure, where there is any."""
    context = decision.context
    fit = context.fit(context.view, row)
    if not isinstance(fit, Fit):
        return {}
    table = context.view.block_tables[context.view.podm_of[row]]
    kinds = [table.kinds[block] for block in fit.blocks]
    excess = {}
    for name, every in MEASURES.items():
        alike = (one for one in context.request.needs
                 if (one.kind, one.measure) == (every.kind, every.measure))  # fmt: skip
        if name != "gpus":  # they are accelerators
            has = float(context.view.kinds.amounts(every)[kinds].sum())
            excess[name] = has - sum(need.amount for need in alike)
    return {name: amount for name, amount in excess.items() if amount > 0}


def _score_parts(decision: Decision, row: int) -> tuple[ScorePart, ...]:
    """Return what each weigher adds to a row's score, by the weights of that row."""
    context = decision.context
    scores, one_row = context.evaluation.scores_of(row), context.view.take([row])
    weights = [int(weigher.weights(one_row)[0]) for weigher in context.bound.weighers]
    total = sum(weights)
    parts = [
        ScorePart(
            weigher=weigher.name,
            weight=weight / WEIGHT_UNITS,
            score=round(score, 6),
            part=round(weight * score / total, 6) if total else 0.0,
        )
        for weigher, weight, score in zip(context.bound.weighers, weights, scores, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.part))


def _runner_up(decision: Decision, rows: list[int]) -> RunnerUp | None:
    if len(rows) < 2 or not decision.placed_nodes:
        return None
    first, second = rows[:2]
    view, cost = decision.view, decision.context.evaluation.cost
    first_score, score = (decision.score(int(cost[row])) for row in (first, second))
    second_parts = {part.weigher: part.part for part in _score_parts(decision, second)}
    parts = [(one.weigher, one.part) for one in _score_parts(decision, first)]
    gaps = ((name, round(part - second_parts[name], 6)) for name, part in parts)
    differences = [ScoreDifference(weigher=name, difference=gap) for name, gap in gaps]
    return RunnerUp(
        podm=view.podm(second).id,
        pool=view.pools[second].id,
        score=score,
        margin=round(first_score - score, 6),
        differences=tuple(sorted(differences, key=lambda one: -abs(one.difference))),
    )
