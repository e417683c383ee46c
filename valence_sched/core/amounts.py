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

from valence_sched.core.case import Case
from valence_sched.core.fit import Plan
from valence_sched.core.flips import choose, flip
from valence_sched.core.judge import judge
from valence_sched.model.explanation import Flip
from valence_sched.model.need import Need

MOST_DECISIONS = 160  # tries for all needs of a request together
GIB_IN_MIB = 1024


@dataclass(slots=True)
class Amounts:
    """Tries other amounts of each need; ``bitten`` says that the number of tries ran out.

    The request keeps its identity, and so its lots: what changes is the need alone.
    """

    case: Case
    chosen: int | None
    bitten: bool = False
    _tries: int = 0
    _rows: dict[tuple[int, float], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.case.view  # what the tries make it work out is forgotten with them
        self.case = dataclasses.replace(
            self.case, view=dataclasses.replace(view, _kept=dict(view._kept))
        )

    def flips(self) -> Iterator[Flip]:
        """Yield for each need the least more and the least less that change the choice."""
        for number, need in enumerate(self.case.request.needs):
            yield from self._fewer(number, need)
            if self.chosen is not None:
                yield from self._more(number, need)

    def _fewer(self, number: int, need: Need) -> Iterator[Flip]:
        request = self.case.request
        kept = len(request.needs) == 1 or any(bond.binds(need) for bond in request.bonds)
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
            yield flip(self._changed(number, need, amount), "need", need.label, need.unit,
                       need.amount, amount, self._rows[number, amount], self.chosen)  # fmt: skip

    def _differs(self, number: int, need: Need, steps: int) -> bool:
        """Return whether so many steps change the choice; when the tries ran out, that they do."""
        amount = need.amount + steps * _step(need)
        key = number, amount
        if key not in self._rows:
            if self._tries >= MOST_DECISIONS:
                self.bitten = True
                return True
            self._tries += 1
            fit = choose(self._changed(number, need, amount))
            self._rows[key] = None if fit is None else fit.row
        return self._rows[key] != self.chosen

    def _changed(self, number: int, need: Need, amount: float) -> Case:
        needs = list(self.case.request.needs)
        needs[number : number + 1] = (
            [msgspec.structs.replace(need, amount=amount)] if amount else []
        )
        request = msgspec.structs.replace(self.case.request, needs=tuple(needs))
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
