# SPDX-License-Identifier: Apache-2.0
"""What a scheduler returns of a decision: its report, and what a screen shows beside it."""

from typing import Literal

from msgspec import Struct

from valence_sched.model.decision import Candidate, FunnelStep, Report, Reports
from valence_sched.model.decision_zones import SilentZone

#: How much is said about a decision; saying more takes longer.
#:
#: placements   the nodes, their alternates and the warnings
#: summary      also the verdicts, where nothing fits or at most MAX_LISTED_PODMS are listed
#: report       the whole report: every verdict, the funnel, the explanation, the digests
Detail = Literal["placements", "summary", "report"]

MAX_LISTED_PODMS = 50  # how many pod managers a decision lists unless every one is asked for


class FailedChoice(Struct, frozen=True, kw_only=True):
    """An alternative of the request, numbered from 1, that was tried and made no node."""

    choice: int
    funnel: tuple[FunnelStep, ...]


class DecisionDetails(Struct, frozen=True, kw_only=True):
    """What a screen shows of a decision beside its report."""

    failed_choices: tuple[FailedChoice, ...] = ()


class DecisionResult(Struct, frozen=True, kw_only=True):
    """A decision: its report, as whole as the caller asked for, and details for a screen.

    ``details`` is None where what was decided on has changed since, by later requests.
    """

    report: Report
    details: DecisionDetails | None = None


class DecisionResults(Struct, frozen=True, kw_only=True):
    """The decisions on several requests: their report, and the details of each in order."""

    report: Reports
    details: tuple[DecisionDetails | None, ...] = ()

    @property
    def results(self) -> tuple[DecisionResult, ...]:
        return tuple(
            DecisionResult(report=report, details=details)
            for report, details in zip(self.report.decisions, self.details, strict=True)
        )

    @property
    def failure(self) -> Report | None:
        """Return the report of the request that must have more nodes than fit, if there is one."""
        last = self.report.decisions[-1] if self.report.decisions else None
        return last if last and last.placed < last.request.required_count else None


class FitCounts(Struct, frozen=True, kw_only=True):
    """How many more nodes of one request fit, by pod manager; and what to know about that.

    Pod managers that are ``undecided`` may make more: it was not settled within the budget. What
    ``silent`` zones have is not counted.
    """

    podms: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()


class Ranking(Struct, frozen=True, kw_only=True):
    """Candidates best first, and the parts of the scheduler that did not answer.

    The request has the same candidates again with this ``request_id`` and ``seed``.
    """

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()
    request_id: str = ""
    seed: int = 0
