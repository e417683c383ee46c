# SPDX-License-Identifier: Apache-2.0
"""The scheduler protocol: the verbs every scheduler offers, local or remote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from valence_sched.model.decision import Candidate
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request


class Ranking(Struct, frozen=True, kw_only=True):
    """Candidates best first, and the parts of the scheduler that did not answer."""

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()


class Ranker(Protocol):
    """Whatever can rank the pools it knows for a request."""

    def rank(self, request: Request, limit: int) -> Ranking:
        """Return at most ``limit`` candidates, best first."""


class Scheduler(Ranker, Protocol):
    """Whatever can decide where a node is made."""

    def select_destinations(self, request: Request) -> Any:
        """Return the decision for a request: chosen, alternates, and the reasons."""

    def update_resource_stats(self, podm: str | tuple[str, str], stats: Mapping[str, Any]) -> int:
        """Take in what a pod manager reports by itself; return its generation.

        ``podm`` is its id, as a decision names it, or host and node. The very next decision sees
        it. Words that are no fields of a pod manager are kept as facts.
        """

    def policies(self) -> Sequence[Policy]:
        """Return the policies a request may name."""
