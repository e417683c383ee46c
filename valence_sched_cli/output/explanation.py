# SPDX-License-Identifier: Apache-2.0
"""ReportRenderer: a report in sections: candidates, reasons, and what would change the choice."""

from __future__ import annotations

import argparse
import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import escape
from valence_sched_cli.output.columns import prepare_formatter, without_redundant
from valence_sched_cli.output.decision import (
    COLUMNS,
    REDUNDANT,
    funnel_text,
    placement_rows,
    request_names,
    with_zones,
    zone_cells,
)
from valence_sched_cli.output.heat import HeatCell, heat_table, supports_colour
from valence_sched_cli.output.not_chosen import WIDTH, not_chosen

if TYPE_CHECKING:
    from valence_sched.model.decision import Report, Reports
    from valence_sched.model.explanation import Explanation

MOST_SHOWN = 3  # near misses and changes of each sort; the report has all


class ReportRenderer:
    """Draws a report as text for one stream of one command.

    ``given`` are the options on the command line, which are named where one rejects pools.
    """

    def __init__(
        self,
        formatter: Any,
        stream: Any,
        parsed_args: argparse.Namespace,
        given: Iterable[str] = (),
    ) -> None:
        self._formatter = prepare_formatter(formatter, "table", stream=stream)
        self._parsed_args = parsed_args
        self._every_reason = getattr(parsed_args, "all_reasons", False)
        self._colour = parsed_args.formatter == "table" and supports_colour(stream)
        self._given = given

    def reasons(self, report: Report) -> Iterator[str]:
        """Yield why the other pod managers were not chosen."""
        yield from not_chosen(report, self._given, every_reason=self._every_reason)

    def explanation(self, report: Report) -> Iterator[str]:
        """Yield the candidates, why not the others, and what would change the choice."""
        if report.explanation is not None:
            yield from self._candidates(report.explanation)
        yield from self.reasons(report)
        if any(step.went_on < step.came_in for step in report.funnel):
            yield ""
            yield from _hang("Filters", funnel_text(report, report.funnel))
        if report.explanation is not None:
            yield from _what_would_change(report.explanation)

    def document(self, document: Report | Reports) -> Iterator[str]:
        """Yield a whole report, or one after another, each below the name of its request."""
        from valence_sched.model.decision import Report

        if isinstance(document, Report):
            yield from self.report(document)
            return
        for name, report in reports_by_name(document).items():
            yield escape(f"request {name}")
            yield from self.report(report)
            yield ""
        yield f"placed {document.placed:,} of {document.requested:,} in all"

    def report(self, report: Report) -> Iterator[str]:
        """Yield a whole report, from the request to what would change the choice."""
        yield from _header(report)
        rows = [row[: len(COLUMNS)] for row in placement_rows(report)]
        if rows:
            columns, rows = with_zones(COLUMNS, rows, zone_cells(report))
            page = io.StringIO()
            self._formatter.emit_list(
                *without_redundant(columns, rows, self._parsed_args, REDUNDANT),
                page,
                self._parsed_args,
            )
            yield from page.getvalue().rstrip("\n").split("\n")
        yield from self.explanation(report)

    def _candidates(self, explanation: Explanation) -> Iterator[str]:
        """Yield the candidates with what each weigher adds to their scores, if there are any."""
        from valence_sched.model.phrases import excess_phrases

        if not explanation.candidates:
            return
        first = explanation.candidates[0].parts
        weighers = sorted(first, key=lambda part: (-part.weight, part.weigher))
        names = [
            "Podm",
            "Pool",
            "Score",
            *(part.weigher for part in weighers),
            "",
            "Excess",
        ]
        if weighers:
            names[3] = f"= {names[3]}"
        rows = []
        for one in explanation.candidates:
            parts = {part.weigher: part for part in one.parts}
            in_order = [parts[part.weigher] for part in weighers]
            cells = [HeatCell(f"{one.score:.3f}", one.score)]
            cells += [HeatCell(f"{part.part:.3f}", part.score) for part in in_order]
            chosen = "chosen" if one.outcome == "chosen" else ""
            rows.append([one.podm, one.pool, *cells, chosen, ", ".join(excess_phrases(one.excess))])
        yield ""
        yield "Candidates"
        table = heat_table(names, list(_folded(names, rows)), colour=self._colour)
        yield from (f"  {line.rstrip()}" for line in table.splitlines())
        weights = [f"{part.weigher} {_weight(explanation, part.weigher)}" for part in weighers]
        if len(weights) > 1:
            yield f"  weights: {', '.join(weights)}"


def _folded(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield rows whose last cell is folded into as many rows as a screen needs for it."""
    cells = list(zip(*rows, strict=True))[:-1]
    widths = [max(len(name), *(len(str(cell)) for cell in column))
              for name, column in zip(names, cells, strict=False)]  # fmt: skip
    room = max(len(names[-1]), WIDTH - 2 - sum(width + 2 for width in widths))
    for *start, last in rows:
        first, *following = textwrap.wrap(last, room) or [""]
        yield [*start, first]
        yield from ([*[""] * len(start), line] for line in following)


def _what_would_change(explanation: Explanation) -> Iterator[str]:
    """Yield the near misses, the changes of the choice, and what was left out."""
    misses = [miss.text for miss in explanation.nearest_misses]
    changes = [flip.text for flip in explanation.flips]
    sections: Mapping[str, Sequence[str]] = {"Nearest miss": misses, "Sensitivity": changes}
    for title, texts in sections.items():
        if not texts:
            continue
        yield ""
        for number, text in enumerate(texts[:MOST_SHOWN]):
            yield from _hang(title if number == 0 else "", text)
        if len(texts) > MOST_SHOWN:
            yield from _hang("", f"{len(texts) - MOST_SHOWN} more in the report")
    for note in explanation.notes:
        yield from _hang("Note", note)


def _hang(title: str, text: str) -> list[str]:
    """Return the lines of a text behind its title, one below the other."""
    width = len("Nearest miss:  ")
    lead = f"{title}:" if title else ""
    return textwrap.wrap(
        escape(f"{lead:{width}}{text}"),
        WIDTH,
        subsequent_indent=" " * width,
        break_on_hyphens=False,
    )


def reports_by_name(document: Report | Reports) -> dict[str, Report]:
    """Return the reports on several requests by the names of these, none for one request alone."""
    reports: Sequence[Report] = getattr(document, "decisions", ())
    names = request_names([report.request for report in reports])
    return dict(zip(names, reports, strict=True))


def _weight(explanation: Explanation, weigher: str) -> str:
    """Return the weight of a weigher, or from what to what it goes on the candidates."""
    parts = [part for one in explanation.candidates for part in one.parts]
    weights = [part.weight for part in parts if part.weigher == weigher]
    least, most = min(weights), max(weights)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def request_lines(report: Report) -> list[str]:
    """Return what is asked for: ``gpu-large: 32 cores, 256 GiB memory, 2 GPU A100``."""
    from valence_sched.model.phrases import request_phrase

    text = escape(request_phrase(report.request))
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _header(report: Report) -> Iterator[str]:
    from valence_sched.model.quantity import format_count

    request, policy, source = report.request, report.policy, report.inventory
    outcome = report.outcome.replace("_", " ")
    placed = f"{report.placed} of {report.requested}"
    yield escape(f"{outcome}: {placed} (policy {policy.name}, seed {report.seed})")
    yield from request_lines(report)
    counts = ((source.podms, "pod manager"), (source.pools, "pool"), (source.blocks, "block"))
    yield escape(f"request {request.id}, inventory {source.digest}")
    yield ", ".join(format_count(number, noun) for number, noun in counts)
