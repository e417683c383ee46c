# SPDX-License-Identifier: Apache-2.0
"""ReportRenderer: a report as tables and sentences for a terminal, with a heat table of scores."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import Absent, or_absent
from valence_sched_cli.output.columns import prepare_formatter, printable
from valence_sched_cli.output.decision import request_names

if TYPE_CHECKING:
    from valence_sched.model.decision import PodmVerdict, Report, Reports
    from valence_sched.model.explanation import Explanation


@dataclass(frozen=True)
class HeatCell:
    """A cell with a temperature within 0..1."""

    text: str
    heat: float

    def __str__(self) -> str:
        return self.text


def supports_colour(stream: Any) -> bool:
    """Return whether to use colours: on a terminal that has them, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def heat_table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 0) -> str:
    """Return a table with escape codes, at most as wide as the terminal, or as ``width``."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ASCII, highlight=False)
    for name in names:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell)), style=_style(cell)) for cell in row))
    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=width or None, highlight=False)
    console.print(table)
    return page.getvalue().rstrip("\n")


def _style(cell: Any) -> str:
    """Return black on red, through yellow, to green; nothing for a cell without temperature."""
    if not isinstance(cell, HeatCell):
        return ""
    heat = min(1.0, max(0.0, cell.heat))
    red, green = min(1.0, 2.0 - 2.0 * heat), min(1.0, 2.0 * heat)
    return f"black on #{round(60 + 180 * red):02x}{round(60 + 150 * green):02x}3c"


Rows = list[tuple[Any, ...]]


class ReportRenderer:
    """Draws the parts of an explanation as text for one stream of one command."""

    def __init__(self, formatter: Any, stream: Any, parsed_args: argparse.Namespace) -> None:
        self._formatter = prepare_formatter(formatter, "table")
        self._parsed_args = parsed_args
        self._colour = parsed_args.formatter == "table" and supports_colour(stream)

    def table(self, names: Sequence[str], rows: Rows) -> str:
        """Return a table without any colour."""
        page = io.StringIO()
        self._formatter.emit_list(names, rows, page, self._parsed_args)
        return page.getvalue().rstrip("\n")

    def candidates(self, explanation: Explanation) -> Iterator[str]:
        """Yield the candidates with what each weigher adds to their scores, if there are any."""
        if not explanation.candidates:
            return
        yield "candidates: score, and what each weigher (and its weight) adds to it"
        first = explanation.candidates[0].parts
        weighers = sorted(first, key=lambda part: (-part.weight, part.weigher))
        names = ["Podm", "Pool", "Outcome", "Score"]
        names += [f"{part.weigher} ({_weight(explanation, part.weigher)})" for part in weighers]
        rows: Rows = []
        for one in explanation.candidates:
            parts = {part.weigher: part for part in one.parts}
            in_order = [parts[part.weigher] for part in weighers]
            cells = [HeatCell(f"{one.score:.6f}", one.score)]
            cells += [HeatCell(f"{part.part:.6f}", part.score) for part in in_order]
            rows.append((one.podm, one.pool, one.outcome, *cells))
        if self._colour:
            yield heat_table(names, rows, self._parsed_args.max_width)
        else:
            yield self.table(names, [tuple(map(str, row)) for row in rows])

    def explanation(self, report: Report) -> Iterator[str]:
        """Yield the candidates and the sentences of an explanation, if the report has one."""
        if report.explanation is not None:
            yield from self.candidates(report.explanation)
            yield from explanation_lines(report.explanation)

    def document(self, document: Report | Reports) -> Iterator[str]:
        """Yield a whole report, or one after another, each below the name of its request."""
        from valence_sched.model.decision import Report

        if isinstance(document, Report):
            yield from self.report(document)
            return
        for name, report in reports_by_name(document).items():
            yield printable(f"request {name}")
            yield from self.report(report)
        yield f"placed {document.placed:,} of {document.requested:,} in all"

    def report(self, report: Report) -> Iterator[str]:
        """Yield a whole report, from the request to what would change the choice."""
        yield from _header(report)
        steps: Rows = [
            (step.filter, step.came_in, step.went_on, step.came_in - step.went_on)
            for step in report.funnel
            if not step.undecided
        ]
        if steps:
            yield "filters: pools in and out"
            yield self.table(("Filter", "In", "Out", "Rejected"), steps)
        if undecided := sum(step.undecided for step in report.funnel):
            yield f"undecided: {undecided:,} of the pools that are left"
        if report.explanation:
            yield from self.candidates(report.explanation)
        if report.podms:
            yield "pod managers"
            yield self.table(*_verdicts(report))
        elif report.placements:
            yield "nodes"
            yield self.table(*_nodes(report))
        hidden = len(report.podms) - _max_listed_podms()
        if hidden > 0:
            yield f"{hidden:,} more pod managers: -f csv lists them all"
        if report.explanation:
            yield from explanation_lines(report.explanation)


def reports_by_name(document: Report | Reports) -> dict[str, Report]:
    """Return the reports on several requests by the names of these, none for one request alone."""
    reports: Sequence[Report] = getattr(document, "decisions", ())
    names = request_names([report.request for report in reports])
    return dict(zip(names, reports, strict=True))


def _max_listed_podms() -> int:
    from valence_sched.model.decision_result import MAX_LISTED_PODMS

    return MAX_LISTED_PODMS


def _weight(explanation: Explanation, weigher: str) -> str:
    """Return the weight of a weigher, or from what to what it goes on the candidates."""
    parts = [part for one in explanation.candidates for part in one.parts]
    weights = [part.weight for part in parts if part.weigher == weigher]
    least, most = min(weights), max(weights)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """Yield an explanation in sentences that are harmless to a terminal."""
    yield from map(printable, explanation.lines())


def _header(report: Report) -> Iterator[str]:
    request, policy, source = report.request, report.policy, report.inventory
    flavor = f" (flavor {request.flavor})" if request.flavor else ""
    outcome = report.outcome.replace("_", " ")
    weights = ", ".join(f"{use.name}={use.weight:g}" for use in policy.weighers)
    weighing = f" ({weights})" if weights else ""
    counts = f"{report.placed} of {report.requested}"
    yield printable(f"{outcome}: {counts}, request {request.id}{flavor}")
    yield printable(f"policy {policy.name}{weighing}, seed {report.seed}")
    sizes = f"{source.podms:,} pod managers, {source.pools:,} pools, {source.blocks:,} blocks"
    yield printable(f"inventory {source.digest}: {sizes}")


def _verdicts(report: Report) -> tuple[Sequence[str], Rows]:
    names = ("Podm", "Pool", "Outcome", "Score", "Behind", "Filter", "What", "Need", "Have", "Unit")
    return names, [_verdict(verdict) for verdict in report.podms[: _max_listed_podms()]]


def _nodes(report: Report) -> tuple[Sequence[str], Rows]:
    rows: Rows = [
        (one.node, one.chosen.podm, one.chosen.pool, f"{one.chosen.score:.6f}")
        for one in report.placements
    ]
    return ("Node", "Podm", "Pool", "Score"), rows


def _verdict(verdict: PodmVerdict) -> tuple[Any, ...]:
    from valence_sched.model.base import format_value

    why = ("",) * 5
    if it := verdict.reason:
        why = (it.filter, it.label, format_value(it.need), format_value(it.have), it.unit)
    score = Absent() if verdict.score is None else f"{verdict.score:.6f}"
    behind = f"{verdict.behind:.6f}" if verdict.behind else or_absent(None)
    return (verdict.podm, verdict.pool, verdict.outcome, score, behind, *why)
