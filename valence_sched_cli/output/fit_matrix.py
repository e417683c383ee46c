# SPDX-License-Identifier: Apache-2.0
"""How many nodes fit, as a matrix: flavors down, pod managers across as far as they fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

MOST_PODMS = 5  # across, where not all fit the width
BORDER = 3  # characters that a column of a table has beside its widest cell

Counts = Mapping[str, Mapping[str, int]]  # by flavor, then by pod manager


def fit_matrix(counts: Counts, width: int | None = None) -> tuple[Sequence[str], list[Any]]:
    """Return the titles and rows of the matrix; ``width`` is that of the terminal, else 80.

    Where not all pod managers fit the width, the best few stand there and the others are one
    column. The best are those that take most nodes of all flavors together.
    """
    width = shutil.get_terminal_size().columns if width is None else width
    podms = list(dict.fromkeys(podm for by_podm in counts.values() for podm in by_podm))
    shown = podms
    if _width(counts, podms) > width:
        sums = {podm: sum(one.get(podm, 0) for one in counts.values()) for podm in podms}
        best = sorted(podms, key=lambda podm: -sums[podm])[:MOST_PODMS]
        while len(best) > 1 and _width(counts, (*best, _others(podms, best))) > width:
            best.pop()
        shown = best
    others = [podm for podm in podms if podm not in set(shown)]
    titles = ["Flavor", *shown, *([_others(podms, shown)] if others else []), "Total"]
    rows = []
    for flavor, by_podm in counts.items():
        rest = [sum(by_podm.get(podm, 0) for podm in others)] if others else []
        cells = [by_podm.get(podm, 0) for podm in shown]
        rows.append((flavor, *cells, *rest, sum(by_podm.values())))
    return titles, rows


def _others(podms: Sequence[str], shown: Sequence[str]) -> str:
    return f"{len(podms) - len(shown):,} others"


def _width(counts: Counts, titles: Sequence[str]) -> int:
    """Return the width of a table with these columns between the flavor and the total."""
    numbers = max((len(str(sum(one.values()))) for one in counts.values()), default=1)
    columns = [max(map(len, ("Flavor", *counts))), *(max(len(title), numbers) for title in titles)]
    return 1 + sum(column + BORDER for column in (*columns, max(numbers, len("Total"))))
