# SPDX-License-Identifier: Apache-2.0
"""A decision as rows and lines: its nodes, their alternates, and the outcome in a sentence."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import Cell, GrantsCell, PairLines, UriTails
from valence_sched_cli.output.not_chosen import reason_text

if TYPE_CHECKING:
    from valence_sched.model.decision import DecisionResult, FunnelStep, Report
    from valence_sched.model.request import Request

COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Blocks", "Amounts")
ZONE = "Zone"  # the column beside the pod manager, of decisions over zones
LONG_COLUMNS = (*COLUMNS, "Choice", "Scores", "Cost", "Waste")
#: What columns say where they say nothing, None where a line beside the rows says it.
REDUNDANT = {"Rank": "1", "Amounts": "", "Seed": None, "Request ID": None}
BLOCKS_WIDTH = 36  # of a cell with the blocks of a node
EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4, "undecided": 5}


class ScoreCell(Cell[float]):
    """A score: three decimals for people, six for machines."""

    def human_readable(self) -> str:
        return f"{self._value:.3f}"

    def machine_readable(self) -> float:
        return self._value

    def __lt__(self, other: object) -> bool:
        return self._value < other._value if isinstance(other, ScoreCell) else NotImplemented


class BlocksCell(UriTails):
    """The blocks of a node: the last parts of their URIs side by side for people."""

    def human_readable(self) -> str:
        tails = super().human_readable().split("\n")
        return textwrap.fill(", ".join(tails), BLOCKS_WIDTH, break_on_hyphens=False)


def placement_rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node and each of its alternates; cells as in LONG_COLUMNS."""
    for placement in report.placements:
        for rank, one in enumerate((placement.chosen, *placement.alternates), 1):
            yield (
                placement.node, rank, one.podm, one.pool, ScoreCell(one.score),
                BlocksCell([block.uri for block in one.blocks]), GrantsCell(one.grants),
                placement.choice, PairLines(one.scores), one.cost, one.waste,
            )  # fmt: skip


def zone_cells(report: Report) -> list[str] | None:
    """Return the zone of each row of placements, empty for that asked; None without zones."""
    if not report.zones:
        return None
    return [zone for one in report.zones.placements for zone in (one.zone, *one.alternates)]


def zone_notes(report: Report) -> Iterator[str]:
    """Yield a line each for the zones that gave no answer and for those that were not asked."""
    if report.zones:
        from valence_sched.model.phrases import zone_lines

        yield from zone_lines(report.zones)


def check_zones(report: Report) -> None:
    """Raise InventoryIncomplete where a zone gave no answer, which --strict does not allow."""
    from valence_sched.errors import InventoryIncomplete, one_line

    if report.zones and report.zones.silent:
        raise InventoryIncomplete(one_line(next(zone_notes(report))))


def with_zones(
    columns: Sequence[str], rows: list[tuple[Any, ...]], zones: Sequence[str] | None
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return columns and rows with the zone of each row before its pod manager, if it has any."""
    if zones is None:
        return columns, rows
    at = columns.index("Podm")
    rows = [(*row[:at], zone, *row[at:]) for row, zone in zip(rows, zones, strict=True)]
    return (*columns[:at], ZONE, *columns[at:]), rows


def summary_lines(
    result: DecisionResult, *, explain: bool, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about a decision beside its rows, the outcome last.

    With ``names_id`` the outcome has the id of the request, which is no digest of it.
    """
    from valence_sched.model.decision import MAX_LISTED_PODMS

    report = result.report
    yield from warning_lines((*report.warnings, *zone_notes(report)))
    reasons = {verdict.podm: verdict.reason for verdict in report.podms}
    chosen = dict.fromkeys(placement.chosen.podm for placement in report.placements)
    for podm in list(chosen)[:MAX_LISTED_PODMS]:
        if reason := reasons.get(podm):
            yield f"no more on {podm}: {reason_text(reason)}"
    *others, outcome = outcome_lines(result, names_id=names_id)
    yield from others
    yield outcome if explain or not report.placements else outcome + _others(report)


def _others(report: Report) -> str:
    """Return how many other pod managers fit and do not, where that is known."""
    if report.zones and not report.podms:
        from valence_sched.model.quantity import format_count

        return f"; {format_count(report.zones.answered, 'zone')} answered"
    outcomes = Counter(verdict.outcome for verdict in report.podms)
    fit = outcomes["fits"] + outcomes["alternate"]
    not_fit = outcomes["rejected"] + outcomes["undecided"]
    if not report.placements or outcomes["chosen"] + fit + not_fit < report.inventory.podms:
        return "; the others: --explain" if report.inventory.podms > 1 else ""
    if not fit + not_fit:
        return ""
    from valence_sched.model.quantity import format_count

    others = format_count(fit, "other fits", "others fit")
    return f"; {others}, {not_fit:,} {'does' if not_fit == 1 else 'do'} not: --explain"


def warning_lines(warnings: Iterable[str]) -> Iterator[str]:
    """Yield each warning as a line."""
    for warning in warnings:
        yield f"warning: {warning}"


def decided_by(request: Request, *, names_id: bool) -> str:
    """Return what decided on a request: its policy, and what breaks ties."""
    ties = f", request ID {request.id}" if names_id else ""
    return f"(policy {request.policy}, seed {request.seed}{ties})"


def outcome_lines(
    result: DecisionResult, fewer: str = "--min-count {}", *, names_id: bool = False
) -> Iterator[str]:
    """Yield the lines about the outcome, the outcome itself last.

    ``fewer`` is how the caller says that fewer nodes are enough; ``names_id`` as of the summary.
    """
    from valence_sched.model.quantity import format_count

    report, request = result.report, result.report.request
    choices = len(request.alternatives)
    for failed in result.details.failed_choices if result.details else ():
        funnel = funnel_text(report, failed.funnel)
        yield f"choice {failed.choice} of {choices} fits nowhere: {funnel}"
    if report.placements and choices > 1:
        counts = sorted(Counter(placement.choice for placement in report.placements).items())
        yield ", ".join(
            f"{format_count(count, 'node')} by choice {choice}" for choice, count in counts
        )
    if report.fitting and not report.placements:
        least = "all" if request.min_count is None else f"at least {request.required_count:,}"
        nodes = format_count(request.count, "node")
        would = f"{report.fitting:,} of {nodes} would fit, but {least} must"
        yield f"{would}: take what fits with {fewer.format(report.fitting)}"
    chosen_by = decided_by(request, names_id=names_id)
    nothing = "nothing fits: " if report.outcome == "nothing_fits" else ""
    yield f"{nothing}placed {report.placed} of {request.count} {chosen_by}"


def funnel_text(report: Report, funnel: Sequence[FunnelStep]) -> str:
    """Return a funnel in one line: how many pools each filter left that rejected some."""
    from valence_sched.model.quantity import format_count

    left = [format_count(report.inventory.pools, "pool")]
    cuts = (step for step in funnel if step.went_on < step.came_in and not step.undecided)
    left += [f"{step.went_on:,} after {step.filter}" for step in cuts]
    undecided = sum(step.undecided for step in funnel)
    return ", ".join(left) + (f"; undecided: {undecided:,}" if undecided else "")


def request_names(requests: Sequence[Request]) -> list[str]:
    """Return the name of each request: its number, and its id or its flavor."""
    return [
        f"{number}: {request.id or request.flavor or 'request'}"
        for number, request in enumerate(requests, 1)
    ]
