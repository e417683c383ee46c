# SPDX-License-Identifier: Apache-2.0
"""Exact sums of many numbers at once, line by line of a table."""

from __future__ import annotations

import numpy as np

from valence_sched.view.view import Floats


def exact_sums(table: Floats) -> list[tuple[float, ...]]:
    """Return per line of a table a few floats with the exact sum of the line.

    In each round every number gives up its leading digits, down to one digit that is the same for
    all of a line and so far up that their sum needs no rounding, in whichever order they are added:
    ``ExtractVector`` of Rump, Ogita and Oishi, "Accurate Floating-Point Summation" (2008). Numbers
    are finite.
    """
    parts: list[list[float]] = [[] for _ in range(len(table))]
    if not table.size:
        return [()] * len(table)
    rest = table
    room = int(table.shape[1] + 1).bit_length()
    while len(lines := np.flatnonzero(rest.any(axis=1))):
        _, exponents = np.frexp(np.abs(rest).max(axis=1, keepdims=True))
        unit = np.ldexp(1.0, exponents + room)
        leading = (unit + rest) - unit
        rest = rest - leading
        sums = leading.sum(axis=1)
        for line in lines.tolist():
            if sums[line]:
                parts[line].append(float(sums[line]))
    return [tuple(some) for some in parts]
