# SPDX-License-Identifier: Apache-2.0
"""Amount sensitivity: the smallest change of one requested amount that changes the choice.

The search doubles the change and then halves the gap; each try is evaluated and placed as any
request. It reports a step at which the choice changes while one step before it does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from valence_sched.core.evaluate import evaluate
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.explain.weight_sensitivity import choice_change, schedule_one
from valence_sched.core.fit.fit import Fitter
from valence_sched.model.explanation import Sensitivity
from valence_sched.model.need import Alternative, Need

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
        protected = any(
            len(self.alternatives[index].needs) == 1
            or any(bond.applies_to(need) for bond in self.alternatives[index].bonds)
            for index in self._changed_alternatives(number)
        )
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
        while step and not self._differs(number, need, sign * step):
            unchanged, step = step, min(2 * step, most) if step < most else 0
        while step - unchanged > 1:
            middle = (unchanged + step) // 2
            if self._differs(number, need, sign * middle):
                step = middle
            else:
                unchanged = middle
        if step and not self.out_of_tries:
            amount = need.amount + sign * step * _step(need)
            context, row = self._decide(number, need, amount)
            yield choice_change(
                context, "need", need.label, need.unit, need.amount, amount, row, self.chosen
            )

    def _differs(self, number: int, need: Need, steps: int) -> bool:
        """Return whether so many steps change the choice; True when the tries ran out."""
        amount = need.amount + steps * _step(need)
        key = number, amount
        if key not in self._row_by_amount:
            if self._tries >= MOST_TRIES:
                self.out_of_tries = True
                return True
            _, self._row_by_amount[key] = self._decide(number, need, amount)
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
                needs[number : number + 1] = (
                    [msgspec.structs.replace(need, amount=amount)] if amount else []
                )
            elif index < self.attempt_index or self.chosen is None:
                continue  # it makes no node, as before
            self._tries += 1
            context = self._context_of(Alternative(tuple(needs), alternative.bonds))
            fit = schedule_one(context)
            if fit is not None:
                return context, fit.row
        return context, None

    def _context_of(self, alternative: Alternative) -> EvaluationContext:
        request = msgspec.structs.replace(
            self.context.request, needs=alternative.needs, bonds=alternative.bonds
        )
        return dataclasses.replace(
            self.context,
            request=request,
            evaluation=evaluate(self.context.view, request, self.context.bound),
            fitter=Fitter(request.needs, self.context.view.kinds, request.bonds),
        )


def _step(need: Need) -> int:
    """Return the step in which an amount is changed: whole units, and of memory whole GiB."""
    in_gib = need.measure == "capacity_mib" and not need.amount % GIB_IN_MIB
    return GIB_IN_MIB if in_gib and need.amount > GIB_IN_MIB else 1
