# SPDX-License-Identifier: Apache-2.0
"""Hints: the pod managers that may have changed, which are read soon."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from valence_sched.model.registration import Registration


class Hints:
    """The pod managers that are to be read soon, by name, each with its first reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, name: str, reason: str) -> None:
        """Add a hint; one that is there already stays."""
        with self._lock:
            self._reasons.setdefault(name, reason)

    def add_all(self, names: Iterable[str], reason: str) -> None:
        """Add a hint for each of these."""
        for name in names:
            self.add(name, reason)

    def take(self) -> dict[str, str]:
        """Return the hints since the last call."""
        with self._lock:
            taken, self._reasons = self._reasons, {}
        return taken


class NoStreams:
    """The events of pod managers that are not listened to."""

    def follow(self, members: Mapping[str, Registration]) -> None: ...
    def close(self) -> None: ...
    def take(self) -> dict[str, str]:
        return {}
