# SPDX-License-Identifier: Apache-2.0
"""How many nodes fit, as a matrix: flavors down, pod managers across as far as they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched.errors import escape
from valence_sched_cli.output.fitting import BORDER, USUAL_WIDTH, screen_width
from valence_sched_cli.output.heat import painted

MOST_PODMS = 5  # across, where not all fit the width


class FitCell(int):
    """How many nodes fit on a pod manager; in colour by the most that fit on any of them.

    ``width`` is that of its column, which the colour fills.
    """

    def __new__(cls, nodes: int, most: int, width: int) -> FitCell:
        cell = super().__new__(cls, nodes)
        cell._most, cell._width = most, width
        return cell

    _most: int
    _width: int

    def coloured(self) -> str:
        """Return the number in its colour: red for none, green for the most."""
        text = f"{self:>{self._width}}"
        return painted(text, self / self._most) if self._most else text


Counts = Mapping[str, Mapping[str, int]]  # by flavor, then by pod manager
Totals = Mapping[str, Mapping[str, Any]]  # by title, then by flavor


def fit_matrix(
    counts: Counts, width: int | None = None, totals: Totals | None = None
) -> tuple[Sequence[str], list[Any]]:
    """Return the titles and rows of the matrix; ``width`` is that of the screen, else 80.

    The last columns are ``totals``: the sum of each row if none are given. Where not all pod
    managers fit the width, the best few stand there and the others are one column. The best are
    those that take most nodes of all flavors together.
    """
    width = width or screen_width() or USUAL_WIDTH
    if totals is None:
        totals = {"Total": {flavor: sum(one.values()) for flavor, one in counts.items()}}
    podms = list(dict.fromkeys(podm for by_podm in counts.values() for podm in by_podm))
    shown = podms
    if _width(counts, podms, totals) > width:
        sums = {podm: sum(one.get(podm, 0) for one in counts.values()) for podm in podms}
        best = sorted(podms, key=lambda podm: -sums[podm])[:MOST_PODMS]
        while len(best) > 1 and _width(counts, (*best, _others(podms, best)), totals) > width:
            best.pop()
        shown = best
    others = [podm for podm in podms if podm not in set(shown)]
    titles = ["Flavor", *shown, *([_others(podms, shown)] if others else []), *totals]
    widths = _column_widths(counts, shown)
    rows = []
    for flavor, by_podm in counts.items():
        most = max(by_podm.values(), default=0)
        rest = [sum(by_podm.get(podm, 0) for podm in others)] if others else []
        cells = [FitCell(by_podm.get(podm, 0), most, width) for podm, width in widths.items()]
        rows.append((flavor, *cells, *rest, *(one[flavor] for one in totals.values())))
    return titles, rows


def _column_widths(counts: Counts, podms: Sequence[str]) -> dict[str, int]:
    """Return the width of each column of a pod manager, as wide as its title or its numbers."""
    return {
        podm: max(len(escape(podm)), *(len(str(one.get(podm, 0))) for one in counts.values()))
        if counts else 0
        for podm in podms
    }  # fmt: skip


def _others(podms: Sequence[str], shown: Sequence[str]) -> str:
    from valence_sched.model.quantity import format_count

    return format_count(len(podms) - len(shown), "other")


def _width(counts: Counts, titles: Sequence[str], totals: Totals) -> int:
    """Return the width of a table with these columns between the flavor and the totals."""
    numbers = max((len(str(sum(one.values()))) for one in counts.values()), default=1)
    columns = [max(map(len, ("Flavor", *counts))), *(max(len(title), numbers) for title in titles)]
    columns += [max(map(len, (title, *map(str, one.values())))) for title, one in totals.items()]
    return 1 + sum(column + BORDER for column in columns)
