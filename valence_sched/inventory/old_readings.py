# SPDX-License-Identifier: Apache-2.0
"""Old readings: warns of pod managers that were read so long ago that they may differ by now."""

from __future__ import annotations

import datetime

from valence_sched.errors import one_line
from valence_sched.model.age import age_s, format_age
from valence_sched.model.diagnostic import Diagnostics


class OldReadings:
    """Collects the readings of one inventory that are older than a limit, None for no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._ages_s: dict[str, float] = {}

    def note(self, podm: str, read_at: str | None, now: datetime.datetime) -> None:
        """Note when a pod manager was read; nothing is known to be old where that is unknown."""
        if self._limit_s is None:
            return
        age = age_s(read_at, now)
        if age is not None and age > self._limit_s:
            self._ages_s[podm] = age

    def warn(self, diagnostics: Diagnostics) -> None:
        """Warn of all of them in one line, with the age of the oldest."""
        if not self._ages_s or self._limit_s is None:
            return
        oldest = max(self._ages_s, key=self._ages_s.__getitem__)
        age, count = format_age(self._ages_s[oldest]), len(self._ages_s)
        text = f"{oldest} was read {age} ago: read it again"
        if count > 1:
            start = f"{count:,} pod managers were read over {format_age(self._limit_s)} ago"
            text = f"{start}, {oldest} {age} ago: read them again"
        diagnostics.warn(one_line(f"{text} (--warn-age)"))
