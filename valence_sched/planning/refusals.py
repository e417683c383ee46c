# SPDX-License-Identifier: Apache-2.0
"""Refusals: how many nodes each flavor was refused at which step, and why the first ones were."""

from __future__ import annotations

from collections import Counter, defaultdict

from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_warnings, funnel_steps
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.decision import PodmVerdict, Reason
from valence_sched.model.replay import FirstRefusal, NodeCount, ReasonGroup, Refusal
from valence_sched.planning.occupancy import rounded
from valence_sched.view.view import Mask

MOST_REASONS = 8  # that are named of a first refusal
FIT = "fit"  # the step after the last filter
OUTCOMES = ("placed", "refused", "undecided")


class Refusals:
    """Counts the nodes of decisions by flavor, and reads why the first of each was refused."""

    def __init__(self) -> None:
        self.warnings: dict[str, None] = {}
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._steps: Counter[tuple[str | None, str]] = Counter()
        self._first: dict[str | None, FirstRefusal] = {}

    def count(self, flavor: str | None, outcome: str, nodes: int) -> None:
        """Count nodes of a flavor by what became of them: one of ``OUTCOMES``."""
        self._counts[flavor, outcome] += nodes

    def refuse(self, decision: Decision, nodes: int, line: int, time_s: float) -> None:
        """Count nodes that were refused, before anything else is taken from the site."""
        flavor = decision.request.flavor
        self.count(flavor, "refused", nodes)
        self._steps[flavor, last_step(decision)] += nodes
        if flavor not in self._first:
            self._first[flavor] = _first_refusal(decision, line, time_s)
            self.warnings.update(dict.fromkeys(decision_warnings(decision)))

    def total(self, outcome: str) -> int:
        """Return how many nodes of all flavors had an outcome."""
        return sum(number for (_, one), number in self._counts.items() if one == outcome)

    def by_flavor(self) -> tuple[NodeCount, ...]:
        """Return the counts of each flavor, by name."""
        flavors = sorted({flavor for flavor, _ in self._counts}, key=_by_name)
        rows = [(flavor, [self._counts[flavor, one] for one in OUTCOMES]) for flavor in flavors]
        return tuple(
            NodeCount(flavor=flavor, requested=sum(counts), placed=counts[0], refused=counts[1],
                      undecided=counts[2])
            for flavor, counts in rows
        )  # fmt: skip

    def by_step(self) -> tuple[Refusal, ...]:
        """Return the refused nodes of each flavor and step, the most frequent first."""
        ordered = sorted(self._steps.items(), key=lambda item: (-item[1], item[0][1],
                                                                 _by_name(item[0][0])))  # fmt: skip
        return tuple(Refusal(flavor=flavor, step=step, nodes=nodes)
                     for (flavor, step), nodes in ordered)  # fmt: skip

    def first(self) -> tuple[FirstRefusal, ...]:
        """Return the first refusal of each flavor, by name."""
        return tuple(self._first[flavor] for flavor in sorted(self._first, key=_by_name))


def last_step(decision: Decision) -> str:
    """Return the step of the funnel where the last pools went: a filter, or else ``fit``."""
    attempt = decision.main_attempt
    left: Mask | None = None
    for filter_, verdict in zip(
        attempt.context.bound.filters, attempt.batch.evaluation.verdicts, strict=True
    ):
        left = verdict if left is None else left & verdict
        if not left.any():
            return filter_.name
    return FIT


def _first_refusal(decision: Decision, line: int, time_s: float) -> FirstRefusal:
    return FirstRefusal(
        flavor=decision.request.flavor,
        line=line,
        time_s=rounded(time_s),
        funnel=funnel_steps(decision),
        reasons=reason_groups(decision),
    )


def reason_groups(decision: Decision) -> tuple[ReasonGroup, ...]:
    """Return why pod managers make no node of a request, the most frequent reasons first."""
    groups: dict[tuple[str, str, bool], list[PodmVerdict]] = defaultdict(list)
    for verdict in Verdicts(decision).podm_verdicts():
        if verdict.reason is not None:
            groups[_group_key(verdict.reason)].append(verdict)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_REASONS]
    return tuple(_reason_group(verdicts) for _, verdicts in largest)


def _group_key(reason: Reason) -> tuple[str, str, bool]:
    return reason.filter, reason.label, reason.podm_have is not None


def _reason_group(verdicts: list[PodmVerdict]) -> ReasonGroup:
    """Return a group with the pod manager that has most of what was needed, else the first."""
    nearest = max(verdicts, key=_amount)
    return ReasonGroup(podms=len(verdicts), nearest=nearest.podm, reason=nearest.reason)


def _amount(verdict: PodmVerdict) -> float:
    have = verdict.reason.have if verdict.reason else None
    return float(have) if isinstance(have, float | int) else 0.0


def _by_name(flavor: str | None) -> tuple[bool, str]:
    return flavor is None, flavor or ""
