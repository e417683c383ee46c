# SPDX-License-Identifier: Apache-2.0
"""The smallest change of the amount of one need that changes the choice.

Searched by doubling the change and halving the gap, each try judged and placed as any request.
What is reported is a step at which the choice changes while one step before it does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from valence_sched.core.evaluate import judge
from valence_sched.core.evaluation import Case
from valence_sched.core.explain.weight_sensitivity import choose, flip
from valence_sched.core.fit.fit import Plan
from valence_sched.model.explanation import Flip
from valence_sched.model.need import Ask, Need

MOST_DECISIONS = 160  # tries for all needs of a request together
GIB_IN_MIB = 1024


@dataclass(slots=True)
class Amounts:
    """Tries other amounts of each need; ``bitten`` says that the number of tries ran out.

    The request keeps its identity, and so its lots: what changes is the need alone. ``asks`` are
    all its alternatives, of which number ``told`` is the case's: those before it make no node.
    What all begin with changes in all of them.
    """

    case: Case
    chosen: int | None
    asks: tuple[Ask, ...] = ()
    told: int = 0
    bitten: bool = False
    _tries: int = 0
    _rows: dict[tuple[int, float], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.case.view  # what the tries make it work out is forgotten with them
        self.case = dataclasses.replace(
            self.case, view=dataclasses.replace(view, _kept=dict(view._kept))
        )
        self.asks = self.asks or self.case.request.asks

    def flips(self) -> Iterator[Flip]:
        """Yield for each need the least more and the least less that change the choice."""
        for number, need in enumerate(self.case.request.needs):
            yield from self._fewer(number, need)
            if self.chosen is not None:
                yield from self._more(number, need)

    def _fewer(self, number: int, need: Need) -> Iterator[Flip]:
        kept = any(
            len(self.asks[place].needs) == 1
            or any(bond.binds(need) for bond in self.asks[place].bonds)
            for place in self._with(number)
        )
        steps = int(need.amount // _step(need))
        if kept and steps * _step(need) == need.amount:
            steps -= 1  # nothing of what is asked for is not asked for
        yield from self._search(number, need, -1, steps)

    def _more(self, number: int, need: Need) -> Iterator[Flip]:
        free = self.case.view.free(need)
        most = float(free.max()) if len(free) else 0.0
        steps = max(1, int((most - need.amount) // _step(need)) + 1)
        yield from self._search(number, need, 1, steps)

    def _search(self, number: int, need: Need, sign: int, most: int) -> Iterator[Flip]:
        """Yield the flip at the least of 1..most steps, unless the tries run out first."""
        same, step = 0, min(1, most)
        while step and not self._differs(number, need, sign * step):
            same, step = step, min(2 * step, most) if step < most else 0
        while step - same > 1:
            middle = (same + step) // 2
            if self._differs(number, need, sign * middle):
                step = middle
            else:
                same = middle
        if step and not self.bitten:
            amount = need.amount + sign * step * _step(need)
            case, row = self._decided(number, need, amount)
            yield flip(case, "need", need.label, need.unit, need.amount, amount, row, self.chosen)

    def _differs(self, number: int, need: Need, steps: int) -> bool:
        """Return whether so many steps change the choice; when the tries ran out, that they do."""
        amount = need.amount + steps * _step(need)
        key = number, amount
        if key not in self._rows:
            if self._tries >= MOST_DECISIONS:
                self.bitten = True
                return True
            _, self._rows[key] = self._decided(number, need, amount)
        return self._rows[key] != self.chosen

    def _with(self, number: int) -> list[int]:
        """Return the alternatives that have a need of the told one: all, if all begin alike."""
        alike = {ask.needs[: number + 1] for ask in self.asks}
        return [self.told] if len(alike) > 1 else list(range(len(self.asks)))

    def _decided(self, number: int, need: Need, amount: float) -> tuple[Case, int | None]:
        """Return the alternative that makes the node at another amount, and where, if any does."""
        case, changing = self.case, self._with(number)
        for place, ask in enumerate(self.asks):
            needs = list(ask.needs)
            if place in changing:
                needs[number : number + 1] = (
                    [msgspec.structs.replace(need, amount=amount)] if amount else []
                )
            elif place < self.told or self.chosen is None:
                continue  # it makes no node, as before
            self._tries += 1
            case = self._of(Ask(tuple(needs), ask.bonds))
            fit = choose(case)
            if fit is not None:
                return case, fit.row
        return case, None

    def _of(self, ask: Ask) -> Case:
        request = msgspec.structs.replace(self.case.request, needs=ask.needs, bonds=ask.bonds)
        return dataclasses.replace(
            self.case,
            request=request,
            judgement=judge(self.case.view, request, self.case.bound),
            plan=Plan(request.needs, self.case.view.kinds, request.bonds),
        )


def _step(need: Need) -> int:
    """Return the step in which an amount is changed: whole units, and of memory whole GiB."""
    whole = need.measure == "capacity_mib" and not need.amount % GIB_IN_MIB
    return GIB_IN_MIB if whole and need.amount > GIB_IN_MIB else 1
