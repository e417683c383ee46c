# SPDX-License-Identifier: Apache-2.0
"""Several requests together: each decided as if the nodes of those before it had been composed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from valence_sched.core.alternatives import Part, tried
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision
from valence_sched.core.digest import inventory_source
from valence_sched.core.evaluation import Case
from valence_sched.core.group_state import Earlier
from valence_sched.core.ledger import Ledger
from valence_sched.model import decision as words
from valence_sched.model.request import Request
from valence_sched.view.overlay import Draft
from valence_sched.view.view import View


@dataclass
class Decisions:
    """The decisions on several requests, in order; after one that fails there are none.

    A request that must have more nodes than fit fails them all: nothing of them is placed.
    """

    requests: Sequence[Request]
    view: View
    skipped: Sequence[str] = ()
    decisions: list[Decision] = field(default_factory=list)

    @property
    def failed(self) -> Decision | None:
        """Return the decision for which fewer nodes fit than must be placed."""
        last = self.decisions[-1] if self.decisions else None
        return last if last and len(last.placed) < last.request.least else None

    @property
    def requested(self) -> int:
        """Return how many nodes are asked for in all."""
        return sum(request.count for request in self.requests)

    @property
    def placed(self) -> int:
        """Return how many nodes are placed in all."""
        return 0 if self.failed else sum(len(decision.placed) for decision in self.decisions)

    @property
    def outcome(self) -> words.Outcome:
        """Return how it ended."""
        if not self.placed:
            return "nothing_fits"
        return "placed" if self.placed == self.requested else "placed_in_part"

    @property
    def warnings(self) -> list[str]:
        """Return what the judging had to say, each once."""
        notes = (note for decision in self.decisions for note in decision.warnings)
        return list(dict.fromkeys(notes))

    def report(self) -> words.Reports:
        """Return all decisions as one document; of requests that failed, no node is placed."""
        source = inventory_source(self.view, self.skipped)
        reports = [decision.report(source) for decision in self.decisions]
        if self.failed:
            reports[:-1] = map(_unplaced, reports[:-1])
        return words.Reports(
            outcome=self.outcome,
            requested=self.requested,
            placed=self.placed,
            inventory=source,
            decisions=tuple(reports),
            warnings=tuple(self.warnings),
        )


def decide_all(
    view: View,
    requests: Sequence[Request],
    case_of: Callable[[Ledger, Request, Earlier], Case],
    schedule: Callable[[Case], Batch],
    skipped: Sequence[str] = (),
) -> Decisions:
    """Decide on requests in order, up to the first that cannot have what it must."""
    ledger = Ledger(view)
    found = Decisions(requests, view, skipped)
    earlier: list[tuple[Request, int]] = []
    every = sum(request.count for request in requests)
    for request in requests:
        case = replace(case_of(ledger, request, earlier), beside=every - request.count)
        decision = Decision(tried(case, schedule), skipped)
        found.decisions.append(decision)
        if found.failed or len(requests) == 1:
            break
        if len(decision.placed) < request.count or len(decision.parts) > 1:
            decision.parts = _as_it_is(decision.parts, ledger.view)
        else:
            decision.whole = False
        for _, node in decision.placed:
            ledger.take(node.chosen)
            earlier.append((request, int(view.podm_of[node.chosen.row])))
    _spare_alternates(found.decisions)
    return found


def _spare_alternates(decisions: Sequence[Decision]) -> None:
    """Leave out of each decision the alternates on podms that take nodes of the others."""
    taking = Counter(podm for decision in decisions for podm in decision.fitting_on)
    for decision in decisions:
        if decision.request.alternates:
            own = decision.fitting_on
            others = (podm for podm, number in taking.items() if number > (podm in own))
            decision.elsewhere = frozenset(others)
            vars(decision).pop("placed", None)


def _unplaced(report: words.Report) -> words.Report:
    """Return the report of a decision that another request has brought to nothing."""
    return msgspec.structs.replace(
        report,
        outcome="nothing_fits",
        placed=0,
        placements=(),
        podms=(),
        funnel=(),
        explanation=None,
    )


def _as_it_is(parts: Sequence[Part], live: View) -> list[Part]:
    """Return the parts with copies of what goes on changing, so that words can wait."""
    still = Draft(live).view
    return [
        Part(
            replace(
                part.case,
                view=still if part.case.view is live else part.case.view,
                judgement=part.case.judgement.copy(),
            ),
            replace(
                part.batch,
                view=still if part.batch.view is live else part.batch.view,
                judgement=part.batch.judgement.copy(),
            ),
        )
        for part in parts
    ]
