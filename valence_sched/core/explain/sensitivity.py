# SPDX-License-Identifier: Apache-2.0
"""Sensitivity: the smallest change of one weight, or of one amount, that changes the choice.

A pool's cost is linear in each weight, in whole numbers: the crossing with the chosen pool's is
solved for, added up and ranked again. For amounts the search doubles the change and then halves
the gap; each try is evaluated and placed as any request. It reports a step at which the choice
changes while one step before it does not.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from valence_sched.core.batch import Batch, goes_by_cost, needs_anchor, schedule
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import (
    EvaluationContext,
    context_of,
    write_costs,
)
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import COST_SCALE, INFINITE_COST, WEIGHT_UNITS
from valence_sched.core.ranking import order_by_lot
from valence_sched.model.explanation import Sensitivity
from valence_sched.model.need import Alternative, Need
from valence_sched.view.view import Ints

MOST_WEIGHT = 1000 * WEIGHT_UNITS
MOST_FITS = 2000  # fits tried for one weight and direction
MOST_TIES = 64  # fits tried of pools of equal cost


def schedule_one(context: EvaluationContext) -> Batch:
    """Return the batch in which the policy's scheduler places the first node, if any fits."""
    alone = msgspec.structs.replace(context.request, count=1, min_count=None, alternates=0)
    return schedule(dataclasses.replace(context, request=alone))


def has_ties(context: EvaluationContext, row: int) -> bool:
    """Return whether another podm makes the node at the same cost: then lots decided."""
    equal = context.evaluation.cost == context.evaluation.cost[row]
    others = np.flatnonzero(equal & (context.view.podm_of != context.view.podm_of[row]))[:MOST_TIES]
    return any(isinstance(context.fit(context.view, other), Fit) for other in others.tolist())


def is_by_cost(decision: Decision) -> bool:
    """Return whether cost alone decides the choice, and lots only between equals."""
    best_of = decision.context.bound.policy.pick.best_of
    return best_of == 1 and goes_by_cost(decision.context)


def choice_changes(
    decision: Decision, chosen: int | None, notes: list[str]
) -> Iterator[Sensitivity]:
    """Yield the least changes of weights and needs that change the choice; the notes tell of none.

    ``chosen`` is the row of the first node, None where there is none.
    """
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
    elif not is_by_cost(decision):
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

    ``gain`` is how much each step closes the gap to the chosen row; at equal cost, lots decide.
    """
    able = np.flatnonzero(gain > 0)
    gain, margin, ahead = gain[able], margin[able], ahead[able]
    steps = -(-margin // gain)
    steps += (steps * gain == margin) & (ahead == 0)
    within = steps <= most
    able, steps = able[within], steps[within]
    for index in np.argsort(steps, kind="stable")[:MOST_FITS].tolist():
        if isinstance(context.fit(context.view, int(rows[able[index]])), Fit):
            return int(steps[index])
    return None


def _verify(
    context: EvaluationContext, chosen: int, number: int, weight: int
) -> Sensitivity | None:
    """Return the change of choice at another weight, after adding up and ranking again."""
    old = context.bound.weighers[number]
    weighers = list(context.bound.weighers)
    weighers[number] = msgspec.structs.replace(old, weight=weight)
    bound = msgspec.structs.replace(context.bound, weighers=tuple(weighers))
    evaluation = context.evaluation.copy()
    write_costs(evaluation, bound)
    changed = dataclasses.replace(context, bound=bound, evaluation=evaluation)
    batch = schedule_one(changed)
    if batch.undecided_rows or not batch.nodes or batch.nodes[0].chosen.row == chosen:
        return None
    change = "weight", old.name, "", old.weight / WEIGHT_UNITS, weight / WEIGHT_UNITS
    return choice_change(changed, *change, batch.nodes[0].chosen.row, chosen)


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


MOST_TRIES = 160  # tries for all needs of a request together
GIB_IN_MIB = 1024


@dataclass(slots=True)
class AmountSearch:
    """Tries other amounts of each need; ``out_of_tries`` if the number of tries ran out.

    The request keeps its identity, and so its lots: only the need changes. ``alternatives`` are
    all those of the request; number ``attempt_index`` is that of the context, and those before it
    make no node. A need that all alternatives begin with changes in all of them.
    """

    context: EvaluationContext
    chosen: int | None
    alternatives: tuple[Alternative, ...] = ()
    attempt_index: int = 0
    out_of_tries: bool = False
    _undecided: bool = False  # an amount that the present search came across
    _tries: int = 0
    _row_by_amount: dict[tuple[int, float], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.context.view  # what the tries memoise is dropped with them
        self.context = dataclasses.replace(self.context, view=view.with_own_memo())
        self.alternatives = self.alternatives or self.context.request.alternatives

    def changes(self) -> Iterator[Sensitivity]:
        """Yield for each need the least more and the least less that change the choice."""
        for number, need in enumerate(self.context.request.needs):
            yield from self._decreases(number, need)
            if self.chosen is not None:
                yield from self._increases(number, need)

    def _decreases(self, number: int, need: Need) -> Iterator[Sensitivity]:
        changed = [self.alternatives[index] for index in self._changed_alternatives(number)]
        bonds = [bond for one in changed for bond in one.bonds]
        protected = any(len(one.needs) == 1 for one in changed)
        protected = protected or any(bond.applies_to(need) for bond in bonds)
        steps = int(need.amount // _step(need))
        if protected and steps * _step(need) == need.amount:
            steps -= 1  # an amount of 0 would leave the need out
        yield from self._smallest_change(number, need, -1, steps)

    def _increases(self, number: int, need: Need) -> Iterator[Sensitivity]:
        free = self.context.view.free(need)
        most = float(free.max()) if len(free) else 0.0
        steps = max(1, int((most - need.amount) // _step(need)) + 1)
        yield from self._smallest_change(number, need, 1, steps)

    def _smallest_change(
        self, number: int, need: Need, sign: int, most: int
    ) -> Iterator[Sensitivity]:
        """Yield the change at the least of 1..most steps, unless the tries run out first."""
        unchanged, step = 0, min(1, most)
        self._undecided = False
        while step and not self._differs(number, need, sign * step):
            unchanged, step = step, min(2 * step, most) if step < most else 0
        while step - unchanged > 1 and not (self.out_of_tries or self._undecided):
            middle = (unchanged + step) // 2
            if self._differs(number, need, sign * middle):
                step = middle
            else:
                unchanged = middle
        if step and not (self.out_of_tries or self._undecided):
            amount = need.amount + sign * step * _step(need)
            context, row = self._decide(number, need, amount)
            change = "need", need.label, need.unit, need.amount, amount
            yield choice_change(context, *change, row, self.chosen)

    def _differs(self, number: int, need: Need, steps: int) -> bool:
        """Return whether so many steps change the choice; True when that cannot be told."""
        amount = need.amount + steps * _step(need)
        key = number, amount
        if key not in self._row_by_amount:
            if self._tries >= MOST_TRIES:
                self.out_of_tries = True
                return True
            _, row = self._decide(number, need, amount)
            if self._undecided:
                return True
            self._row_by_amount[key] = row
        return self._row_by_amount[key] != self.chosen

    def _changed_alternatives(self, number: int) -> list[int]:
        """Return which alternatives change with a need: all, if all begin with the same needs."""
        beginnings = {alternative.needs[: number + 1] for alternative in self.alternatives}
        return [self.attempt_index] if len(beginnings) > 1 else list(range(len(self.alternatives)))

    def _decide(
        self, number: int, need: Need, amount: float
    ) -> tuple[EvaluationContext, int | None]:
        """Return the context of the alternative that makes the node at an amount, and its row."""
        context, changing = self.context, self._changed_alternatives(number)
        for index, alternative in enumerate(self.alternatives):
            needs = list(alternative.needs)
            if index in changing:
                changed = [msgspec.structs.replace(need, amount=amount)] if amount else []
                needs[number : number + 1] = changed
            elif index < self.attempt_index or self.chosen is None:
                continue  # it makes no node, as before
            self._tries += 1
            context = self._context_of(Alternative(tuple(needs), alternative.bonds))
            batch = schedule_one(context)
            self._undecided = self._undecided or bool(batch.undecided_rows)
            if batch.nodes:
                return context, batch.nodes[0].chosen.row
        return context, None

    def _context_of(self, alternative: Alternative) -> EvaluationContext:
        context, needs, bonds = self.context, alternative.needs, alternative.bonds
        request = msgspec.structs.replace(context.request, needs=needs, bonds=bonds)
        tried = context_of(context.view, request, context.bound, other_nodes=context.other_nodes,
                           spending=context.spending)  # fmt: skip
        return dataclasses.replace(tried, strict=context.strict)


def _step(need: Need) -> int:
    """Return the step in which an amount is changed: whole units, and of memory whole GiB."""
    in_gib = need.measure == "capacity_mib" and not need.amount % GIB_IN_MIB
    return GIB_IN_MIB if in_gib and need.amount > GIB_IN_MIB else 1
