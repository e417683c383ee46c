# SPDX-License-Identifier: Apache-2.0
"""What was found wrong while a pod manager was read: in order, each once, and not too much."""

from __future__ import annotations

from valence_sched.drivers.bounds import MAX_NOTES
from valence_sched.errors import one_line


class Notes:
    """The faults of one pod manager; a :class:`~valence_sched.errors.Remark` stays one."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, note: str) -> None:
        """Take one more."""
        self._found[note] = None

    def lines(self, file: str) -> list[str]:
        """Return them with where they were found in front."""
        found = list(self._found)
        lines = [type(note)(one_line(f"{file}: {note}")) for note in found[:MAX_NOTES]]
        if len(found) > MAX_NOTES:
            lines.append(f"{file}: and {len(found) - MAX_NOTES} more of this kind")
        return lines
