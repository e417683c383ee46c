# SPDX-License-Identifier: Apache-2.0
"""DecisionSummary: a stored decision as lists show it."""

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.model.decision import Outcome, Report
from valence_sched.model.phrases import request_phrase

MOST_PODMS = 5  # that a summary names
MOST_CHARACTERS = 400  # of what was asked for


class DecisionSummary(Struct, frozen=True, kw_only=True):
    """A stored decision: what was asked for, by whom, and what came of it.

    ``podms`` are the first pod managers that take nodes, of ``podm_count``. ``decided_at`` is
    seconds since 1970 by the clock of the database. Of a decision that an older program stored
    only ``id`` and ``decided_at`` are known.
    """

    id: str
    decided_at: float
    owner: str | None = None
    request: str | None = None
    outcome: Outcome | None = None
    requested: int | None = None
    placed: int | None = None
    podms: tuple[str, ...] = ()
    podm_count: int = 0


def summarise_decision(decision_id: str, report: Report) -> DecisionSummary:
    """Return the summary of a decision, whose time is that of the database that stores it."""
    podms = tuple(dict.fromkeys(one.chosen.podm for one in report.placements))
    return DecisionSummary(
        id=decision_id,
        decided_at=0.0,
        owner=report.request.owner,
        request=_cut(request_phrase(report.request)),
        outcome=report.outcome,
        requested=report.requested,
        placed=report.placed,
        podms=podms[:MOST_PODMS],
        podm_count=len(podms),
    )


def dated(summary: DecisionSummary, decided_at: float) -> DecisionSummary:
    """Return a summary with the time of its decision."""
    return replace(summary, decided_at=decided_at)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
