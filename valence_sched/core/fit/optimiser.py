# SPDX-License-Identifier: Apache-2.0
"""Optimiser: what HiGHS says of an integer programme, in whole numbers and counted in states.

HiGHS counts with floating-point numbers. So a solution that it finds is checked in whole numbers,
and its word that there is none is taken only where all numbers are so small that tolerances cannot
matter.
"""

from collections.abc import Mapping, Sequence

from valence_sched.core.fit.programme import (
    INFINITY,
    Effort,
    Programme,
    ProgrammePart,
    least_work,
)
from valence_sched.core.fit.spending import SearchOutcome

WORK_PER_STATE = 5  # of the optimiser, in the time of a state of a set cover
LARGEST_TRUSTED = 1_000_000  # number up to which "there is none" is believed


def optimum(
    part: ProgrammePart,
    prices: Mapping[int, int],
    states: int,
    start: Sequence[int] | None = None,
) -> SearchOutcome:
    """Return the values of the columns at the least price that is found within so many states.

    ``start`` is a solution that is known.
    """
    known = None if start is None else list(start)
    if states * WORK_PER_STATE <= least_work(len(part.entries)):
        return SearchOutcome(known, False, 0)
    programme = Programme()
    programme.add(part)
    programme.set_costs({column: -price for column, price in prices.items()})
    effort = Effort(nodes=states, work=states * WORK_PER_STATE)
    solution = programme.solve(effort, whole=True, start=start)
    spent = solution.work // WORK_PER_STATE
    if not solution.feasible:
        trusted = known is None and _largest(part) <= LARGEST_TRUSTED
        return SearchOutcome(known, trusted, spent)
    found = None if solution.values is None else [int(value) for value in solution.values]
    if found is None or not is_solution(part, found):
        return SearchOutcome(known, False, spent)
    return SearchOutcome(found, solution.optimal, spent)


def is_solution(part: ProgrammePart, values: Sequence[int]) -> bool:
    """Return whether whole numbers are within the bounds of all columns and rows."""
    sums = [0] * len(part.lower_rows)
    for row, column, coefficient in part.entries:
        sums[row] += int(coefficient) * values[column]
    rows = zip(part.lower_rows, sums, part.upper_rows, strict=True)
    columns = zip(values, part.upper, strict=True)
    return all(0 <= value <= most for value, most in columns) and all(
        least <= value <= most for least, value, most in rows
    )


def _largest(part: ProgrammePart) -> float:
    limits = (abs(one) for one in (*part.lower_rows, *part.upper_rows) if abs(one) != INFINITY)
    return max(max(limits, default=0), max(part.upper, default=0))
