# SPDX-License-Identifier: Apache-2.0
"""Things side by side as a table: a row for each thing, a column for each measure."""

from valence_sched.model.page import BarComparison, Measure, PageTable, TableCell


def best_values(measure: Measure) -> tuple[bool, ...]:
    """Return which values are the best; none where all are equal or none is better."""
    known = [value for value in measure.values if value is not None]
    if not measure.better or len(set(known)) < 2:
        return tuple(False for _ in measure.values)
    best = max(known) if measure.better == "higher" else min(known)
    return tuple(value == best for value in measure.values)


def comparison_table(section: BarComparison) -> PageTable:
    """Return the numbers of a comparison, the best of each measure marked."""
    columns = [[_cell(measure, value, is_best)
                for value, is_best in zip(measure.values, best_values(measure), strict=True)]
               for measure in section.measures]  # fmt: skip
    titles = tuple(measure.name for measure in section.measures)
    rows = zip(section.names, *columns, strict=True)
    return PageTable(title=f"{section.title}: numbers", columns=("", *titles),
                     numbers=frozenset(titles), rows=tuple(rows))  # fmt: skip


def _cell(measure: Measure, value: float | None, is_best: bool) -> TableCell:
    if value is None:
        return TableCell(text="unknown")
    return TableCell(text=measured_text(value, measure.unit), best=is_best)


def measured_text(value: float, unit: str) -> str:
    """Return a number as :func:`amount_text` does, with its unit where it has one."""
    return f"{amount_text(value)} {unit}".rstrip()


def amount_text(value: float) -> str:
    """Return a number with at most two digits behind the point, and none that says nothing."""
    whole = f"{value:,.2f}"
    return whole.rstrip("0").rstrip(".")
