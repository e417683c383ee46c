# SPDX-License-Identifier: Apache-2.0
"""Reports: converts decisions to documents, with their verdicts and explanation."""

import itertools
from collections.abc import Iterator, Sequence

from valence_sched.core.batch import Attempt, goes_by_cost
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import funnel
from valence_sched.core.explain.unknown import decision_warnings
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import WEIGHT_UNITS
from valence_sched.core.ranking import rank_rows
from valence_sched.model import decision as nouns
from valence_sched.model.need import MEASURES
from valence_sched.model.quantity import format_count
from valence_sched.view.view import View, inventory_digest
from valence_sched.words.phrases import devices_by_condition, phrases

MOST_CANDIDATES = 6  # the chosen candidate, and the best on other pod managers
BUDGET_SHARE = 4  # an explanation may spend 1/4 of the states of a decision


def decision_report(
    decision: Decision, source: nouns.InventorySummary | None = None, *, explain: bool = True
) -> nouns.Report:
    """Return a decision as a document; ``source`` is the inventory, if known.

    The document has the explanation only with ``explain``, since it takes long to compute.
    """
    from valence_sched.core.explain.verdicts import Verdicts

    policy = decision.context.bound.policy
    return nouns.Report(
        outcome=decision.outcome,
        requested=decision.request.count,
        placed=len(decision.placed_nodes),
        fitting=decision.fit_count,
        seed=decision.request.seed,
        request=decision.request,
        policy=policy,
        policy_digest=decision.context.bound.digest,
        inventory=source or inventory_source(decision.view, decision.skipped),
        placements=decision.placements,
        podms=tuple(Verdicts(decision).podm_verdicts() if decision.explainable else ()),
        funnel=funnel_steps(decision),
        warnings=tuple(decision_warnings(decision)),
        explanation=explain_decision(decision) if explain and decision.explainable else None,
        undecided=decision.undecided,
    )


def funnel_steps(
    decision: Decision, attempt: Attempt | None = None
) -> tuple[nouns.FunnelStep, ...]:
    """Return the funnel of an attempt's first node: pools before and after each filter."""
    if not decision.explainable:
        return ()
    attempt = attempt or decision.main_attempt
    context, undecided = attempt.context, len(attempt.batch.undecided_rows)
    counts = funnel(context.bound, context.evaluation.verdicts, len(context.view))
    steps = [nouns.FunnelStep(filter=name, came_in=i, went_on=out) for name, i, out in counts]
    if undecided:
        passed = steps[-1].went_on if steps else len(context.view)
        left = max(0, passed - undecided)
        steps.append(
            nouns.FunnelStep(filter="fit", came_in=passed, went_on=left, undecided=undecided)
        )
    return tuple(steps)


def inventory_source(view: View, skipped: Sequence[str]) -> nouns.InventorySummary:
    """Return the inventory summary of a View for a report."""
    return nouns.InventorySummary(
        digest=inventory_digest(view),
        podms=len(view.podms),
        pools=len(view),
        blocks=view.block_count,
        skipped=tuple(skipped),
    )


def explain_decision(decision: Decision) -> nouns.Explanation:
    """Explain the first node of a decision; the notes name the limits that were reached."""
    from valence_sched.core.explain import sensitivity  # both take long
    from valence_sched.core.explain.near_misses import NearMissSearch

    notes = [*_health_notes(decision)]
    spending, budget = decision.context.spending, decision.context.bound.policy.budget
    spending.left = min(spending.left, budget.decision_states // BUDGET_SHARE)
    chosen = decision.placed_nodes[0][1].chosen.row if decision.placed_nodes else None
    rows = [] if chosen is None else [chosen]
    rows += itertools.islice(_others(decision, chosen), MOST_CANDIDATES - len(rows))
    search = NearMissSearch(decision, notes)
    choices = sensitivity.FlatChoices(decision, chosen)
    changes = sorted(sensitivity.choice_changes(choices, notes), key=sensitivity.relative_size)
    is_by_cost = choices.policy.pick.best_of == 1 and goes_by_cost(choices.policy)
    misses = search.run()
    if undecided := spending.undecided:
        searches = f"{format_count(undecided, 'search', 'searches')} for the explanation"
        notes.append(f"{searches} reached the budget of the policy: dependent results are omitted")
    return nouns.Explanation(
        candidates=tuple(
            nouns.Contender(
                podm=decision.view.podm(row).id,
                pool=decision.view.pools[row].id,
                outcome="chosen" if row == chosen else "fits",
                score=decision.score(int(decision.context.evaluation.cost[row])),
                parts=_score_parts(decision, row),
                excess=_excess(decision, row),
            )
            for row in rows
        ),
        runner_up=_runner_up(decision, rows) if is_by_cost else None,
        nearest_misses=misses,
        flips=tuple(changes),
        notes=tuple(notes),
    )


def _health_notes(decision: Decision) -> Iterator[str]:
    """Yield a note for each chosen block whose health is Warning."""
    kinds = decision.view.kinds
    for _, node in decision.placed_nodes:
        podm = decision.view.podm(node.chosen.row)
        table = decision.view.block_tables[decision.view.podm_of[node.chosen.row]]
        for block in node.chosen.blocks:
            if (number := table.kinds[block]) in kinds.impaired:
                kind, name = kinds.kinds[number], table.uris[block].rstrip("/").rpartition("/")[2]
                unwell = devices_by_condition(kind.devices).get("Warning")
                what = "the block" if kind.condition == "Warning" else ""
                what = what or ", ".join(phrases(unwell) if unwell else ())
                if what:
                    yield f"health Warning: {what} (in {name} of {podm.id})"


def _others(decision: Decision, chosen: int | None) -> Iterator[int]:
    """Yield the best row of every other podm that the first node fits, best first."""
    context = decision.context
    seen_podms = set() if chosen is None else {int(context.view.podm_of[chosen])}
    for row in rank_rows(context.view, context.evaluation.cost, context.request, 0):
        podm = int(context.view.podm_of[row])
        if podm not in seen_podms and isinstance(context.fit(context.view, row), Fit):
            seen_podms.add(podm)
            yield row


def _excess(decision: Decision, row: int) -> dict[str, float]:
    context = decision.context
    fit = context.fit(context.view, row)
    if not isinstance(fit, Fit):
        return {}
    table = context.view.block_tables[context.view.podm_of[row]]
    kinds = [table.kinds[block] for block in fit.blocks]
    excess = {}
    for name, every in MEASURES.items():
        if name == "gpus":  # they are accelerators
            continue
        has = float(context.view.kinds.amounts(every)[kinds].sum())
        measure = every.kind, every.measure
        alike = (one for one in context.request.needs if (one.kind, one.measure) == measure)
        excess[name] = has - sum(need.amount for need in alike)
    return {name: amount for name, amount in excess.items() if amount > 0}


def _score_parts(decision: Decision, row: int) -> tuple[nouns.ScorePart, ...]:
    context = decision.context
    scores, one_row = context.evaluation.scores_of(row), context.view.take([row])
    weights = [int(weigher.weights(one_row)[0]) for weigher in context.bound.weighers]
    total = sum(weights)
    parts = [
        nouns.ScorePart(
            weigher=weigher.name,
            weight=weight / WEIGHT_UNITS,
            score=round(score, 6),
            part=round(weight * score / total, 6) if total else 0.0,
        )
        for weigher, weight, score in zip(context.bound.weighers, weights, scores, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.part))


def _runner_up(decision: Decision, rows: list[int]) -> nouns.RunnerUp | None:
    if len(rows) < 2 or not decision.placed_nodes:
        return None
    first, second = rows[:2]
    view, cost = decision.view, decision.context.evaluation.cost
    first_score, score = (decision.score(int(cost[row])) for row in (first, second))
    behind = {one.weigher: one.part for one in _score_parts(decision, second)}
    ahead = {one.weigher: one.part for one in _score_parts(decision, first)}
    gaps = {name: round(part - behind[name], 6) for name, part in ahead.items()}
    differences = [nouns.ScoreDifference(weigher=one, difference=gap) for one, gap in gaps.items()]
    return nouns.RunnerUp(
        podm=view.podm(second).id,
        pool=view.pools[second].id,
        score=score,
        margin=round(first_score - score, 6),
        differences=tuple(sorted(differences, key=lambda one: -abs(one.difference))),
    )
