# SPDX-License-Identifier: Apache-2.0
"""Cover join: the states of one layer against every choice of the few items that are left.

For one or two demands and at most one cap. Of the choices that use no more than the room of a
state, sorted by what they give to the first demand, a state needs one that gives enough to it and,
of those, the one that gives most to the second: a search by halves in place of a tree below it.
"""

from typing import NamedTuple

import numpy as np

from valence_sched.core.fit.cover_table import CoverTable, Ints

MOST_CHOICES = 1 << 16  # of the items left, all together


class Completion(NamedTuple):
    """A state of the layer, and how many of each item left complete it."""

    state: int
    counts: list[int]


class CoverJoin:
    """The choices of the items of a table from ``level`` on; ``size`` is how many there are."""

    def __init__(self, table: CoverTable, level: int) -> None:
        self._numbers = [int(number) + 1 for number in table.available[level:]]
        self.size = 1
        for number in self._numbers:
            self.size = min(self.size * number, MOST_CHOICES + 1)
        self.is_possible = (
            self.size <= MOST_CHOICES and len(table.demand) <= 2 and len(table.room) <= 1
        )
        self._lines = np.hstack((table.gives, table.uses))[level:]
        self._demands = len(table.demand)

    def complete(self, unmet: Ints, room: Ints) -> Completion | None:
        """Return a state that a choice completes, None when there is none."""
        choices = np.zeros((1, self._lines.shape[1]), dtype=np.int64)
        for line, number in zip(self._lines, self._numbers, strict=True):
            taken = np.arange(number)[None, :, None] * line
            choices = (choices[:, None, :] + taken).reshape(-1, len(line))
        first, second = choices[:, 0], choices[:, self._demands - 1]
        uses = choices[:, self._demands :].sum(axis=1)
        order = np.argsort(-first, kind="stable")
        room_of = room.sum(axis=1) if room.shape[1] else np.zeros(len(unmet), dtype=np.int64)
        for left in np.unique(room_of).tolist():
            states = np.flatnonzero(room_of == left)
            within = order[uses[order] <= left]
            enough = np.searchsorted(-first[within], -unmet[states, 0], side="right")
            states, enough = states[enough > 0], enough[enough > 0]
            most = np.maximum.accumulate(second[within])
            found = np.flatnonzero(most[enough - 1] >= unmet[states, self._demands - 1])
            if len(found):
                among = within[: enough[found[0]]]
                best = int(among[second[among].argmax()])
                return Completion(int(states[found[0]]), self._counts(best))
        return None

    def _counts(self, choice: int) -> list[int]:
        """Return how many of each item a choice takes, by its number."""
        counts = []
        for number in reversed(self._numbers):
            choice, count = divmod(choice, number)
            counts.append(count)
        return counts[::-1]
