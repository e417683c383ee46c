# SPDX-License-Identifier: Apache-2.0
"""Measures of runs side by side: which are compared, in which order, and by which titles."""

from collections.abc import Mapping, Sequence

from valence_sched.model.page import BarComparison, Measure
from valence_sched.model.replay_measures import RunMeasure
from valence_sched.pages.comparison import measured_text
from valence_sched.pages.replay_series import share_percent, used_title
from valence_sched.pages.text import in_sentence

MOST_MEASURES = 10
#: What is compared, in this order, with its title; of a measure with a dot what stands before it.
_TITLES = {
    "placed": "Placed", "refused": "Refused", "undecided": "Undecided",
    "podms_needed": "Podms needed", "fragmentation": "Fragmentation", "cost": "Cost",
    "utilisation": "",
}  # fmt: skip


def side_by_side(
    names: Sequence[str], found: Sequence[Mapping[str, RunMeasure]], text: str
) -> BarComparison:
    """Return the comparison of runs by these names; a measure that is equal in all is words."""
    known = {name: one for by_name in found for name, one in by_name.items()}
    ordered = [one for group in _TITLES for name, one in known.items()
               if name.partition(".")[0] == group]  # fmt: skip
    compared, equal = [], []
    for one in ordered:
        values = [by_name[one.name].value if one.name in by_name else None for by_name in found]
        measure = _measure(one, values)
        if len(set(measure.values)) > 1:
            compared.append(measure)
        elif (value := measure.values[0]) is not None:
            equal.append(f"{in_sentence(measure.name)} {measured_text(value, measure.unit)}")
    if equal and len(names) > 1:
        text += f" The same in each: {', '.join(equal)}."
    return BarComparison(title="Side by side", names=tuple(names),
                         measures=tuple(compared[:MOST_MEASURES]), text=text)  # fmt: skip


def _measure(one: RunMeasure, values: Sequence[float | None]) -> Measure:
    """Return the values of a measure as they are shown; shares become percentages."""
    _, dot, resource = one.name.partition(".")
    title = used_title(resource) if dot else _TITLES[one.name]
    shown = [None if value is None else share_percent(value) if one.is_share else round(value, 2)
             for value in values]  # fmt: skip
    return Measure(name=title, values=tuple(shown), unit="%" if one.is_share else "",
                   better=one.better or "")  # fmt: skip
