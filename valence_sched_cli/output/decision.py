# SPDX-License-Identifier: Apache-2.0
"""Prints a decision as rows and lines: its nodes, its outcome, and with --explain its reasons."""

import argparse
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from valence_sched.errors import escape
from valence_sched.model import decision as model
from valence_sched.model.claim import Claim, node_allocations
from valence_sched.model.quantity import format_count
from valence_sched.words import decision as words
from valence_sched.words.phrases import ReasonPhrases, excess_phrases, request_phrase, zone_lines
from valence_sched_cli.output import cells, table
from valence_sched_cli.output.cells import fields, grants_cell, hang, warning_lines

MOST_LINES = 16  # more lines of reasons are grouped, so that a decision fits a screen
WIDTH = 79
LEAST_EXCESS = 16  # characters of the column of excess hardware; with fewer, it is a line


def not_chosen(
    report: model.Report, given: Iterable[str] = (), *, every_reason: bool = False
) -> Iterator[str]:
    """Yield the reasons against pod managers that were not chosen, with the options ``given``."""
    rejected = words.not_chosen(report)
    if not rejected:
        return
    phrases = ReasonPhrases(frozenset(given))
    lines = [*words.rejection_lines(report, phrases)]
    yield ""
    yield f"Not chosen: {len(rejected):,} of {format_count(report.inventory.podms, 'pod manager')}"
    if len(lines) > MOST_LINES and not every_reason:
        yield from _groups(rejected, phrases)
        yield "  --all-reasons names each pod manager"
        return
    width = min(max(len(escape(one.podm)) for one in rejected), WIDTH // 2)
    for podm, text in lines:
        yield from hang(f"{escape(podm):{width}}  {escape(text)}", width + 6, "  ")


def _groups(rejected: Sequence[model.PodmVerdict], phrases: ReasonPhrases) -> Iterator[str]:
    groups = words.reason_groups(rejected, phrases)
    # pad only to the longest text that an example follows: other texts may exceed the screen
    lines = groups[:MOST_LINES]
    width = min(max((len(text) for _, text, nearest in lines if nearest), default=0), WIDTH // 2)
    for number, text, nearest in lines:
        yield from hang(escape(f"  {number:>5,}  {text:{width}}  {nearest}".rstrip()), 9)
    if others := sum(number for number, _, _ in groups[MOST_LINES:]):
        yield f"  {others:>5,}  for other reasons"


COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Blocks", "Amounts")
ZONE = "Zone"  # the column before Podm, in decisions over zones
LONG_COLUMNS = (*COLUMNS, "Choice", "Scores", "Cost", "Waste")
BLOCKS_WIDTH = 36  # characters of a cell with the blocks of a node


def blocks_cell(uris: Sequence[str]) -> cells.Shown[Any]:
    """Return the cell of a node's blocks; people see the last parts of URIs, side by side."""

    def people(uris: Sequence[str]) -> str:
        return textwrap.fill(", ".join(map(cells.tail, uris)), BLOCKS_WIDTH, break_on_hyphens=False)

    return cells.Shown(uris, people)


def placement_rows(report: model.Report) -> Iterator[dict[str, Any]]:
    """Yield a row for each node and each alternate, with the cells of LONG_COLUMNS and ZONE."""
    places = report.zones.placements if report.zones else ()
    zones = iter([zone for one in places for zone in (one.zone, *one.alternates)])
    for placement in report.placements:
        for rank, one in enumerate((placement.chosen, *placement.alternates), 1):
            yield {
                **fields(placement, "Node", "Choice"),
                "Rank": rank,
                ZONE: next(zones, ""),
                **fields(one, "Podm", "Pool", "Cost", "Waste", "Scores"),
                "Score": _score_cell(one.score),
                "Blocks": blocks_cell([block.uri for block in one.blocks]),
                "Amounts": grants_cell(one.grants),
            }


def claim_rows(claim: Claim) -> list[dict[str, Any]]:
    """Return a row for each node of a claim, with those cells of LONG_COLUMNS that a claim has."""
    rows, names = [], ("uri", "resource", "amount", "unit")
    for part, share in sorted(node_allocations(claim), key=lambda one: one[1].node):
        grants = [
            model.GrantRef(**{name: getattr(one, name) for name in names}) for one in share.grants
        ]
        row = dict.fromkeys(LONG_COLUMNS) | fields(share, "Node", "Pool")
        row |= {"Rank": 1, ZONE: "", "Podm": part.podm, "Score": _score_cell(share.score)}
        rows.append(row | {"Blocks": blocks_cell(share.blocks), "Amounts": grants_cell(grants)})
    return rows


def _score_cell(score: float | None) -> cells.Amount[float] | None:
    return None if score is None else cells.Amount(score, "{:.3f}".format)


def with_zone(columns: Sequence[str]) -> tuple[str, ...]:
    at = columns.index("Podm")
    return (*columns[:at], ZONE, *columns[at:])


def several_lines(decisions: model.DecisionResults, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines about several requests; the last line is the outcome of all."""
    report, failure = decisions.report, decisions.report.failure
    notes = (note for one in report.decisions for note in zone_lines(one.zones))
    yield from warning_lines(dict.fromkeys((*report.warnings, *notes)))
    for name, result in zip(names, decisions.results, strict=False):
        if result.details is not None and failure in (None, result.report):
            if failure is not None:
                yield from not_chosen(result.report)
            for line in words.outcome_lines(result, "min_count: {}"):
                yield f"{name}: {line}"
    count, tried = len(names), len(report.decisions)
    of = format_count(count, "request")
    if failure and count > 1:
        left = f", {count - tried} not tried" if count > tried else ""
        yield f"{names[tried - 1]} failed, so all {of} fail{left}"
    yield f"placed {report.placed:,} of {format_count(report.requested, 'node')} of {of}"


MOST_SHOWN = 3  # shown near misses, and sensitivities of each kind; the report has all


class ReportRenderer:
    """Prints a report as text for one stream; reasons name the options ``given`` by the user."""

    def __init__(
        self, formatter: Any, stream: Any, args: argparse.Namespace, given: Iterable[str] = ()
    ) -> None:
        self._formatter = table.PreparedFormatter(formatter, "table", stream=stream)
        self._args, self._given = args, given
        self._colour = args.formatter == "table" and cells.supports_colour(stream)

    def reasons(self, report: model.Report) -> Iterator[str]:
        every_reason = getattr(self._args, "all_reasons", False)
        return not_chosen(report, self._given, every_reason=every_reason)

    def explanation(self, report: model.Report) -> Iterator[str]:
        explanation = report.explanation
        if explanation is not None and explanation.candidates:
            yield from self._candidates(explanation)
        yield from self.reasons(report)
        if any(step.went_on < step.came_in for step in report.funnel):
            yield ""
            yield from _hang("Filters", words.funnel_text(report, report.funnel))
        if explanation is None:
            return
        near = map(words.near_miss_line, explanation.nearest_misses)
        flips = map(words.sensitivity_line, explanation.flips)
        for title, texts in ((words.NEAREST_MISS, [*near]), ("Sensitivity", [*flips])):
            yield from [""] if texts else []
            for number, text in enumerate(texts[:MOST_SHOWN]):
                yield from _hang(title if number == 0 else "", text)
            if len(texts) > MOST_SHOWN:
                yield from _hang("", f"{len(texts) - MOST_SHOWN} more in the report")
        for note in explanation.notes:
            yield from _hang("Note", note)

    def document(self, document: model.Report | model.Reports) -> Iterator[str]:
        if isinstance(document, model.Report):
            yield from self.report(document)
            return
        for name, report in words.reports_by_name(document).items():
            yield escape(f"request {name}")
            yield from self.report(report)
            yield ""
        yield f"placed {document.placed:,} of {document.requested:,} in all"

    def report(self, report: model.Report) -> Iterator[str]:
        request, source = report.request, report.inventory
        outcome, placed = report.outcome.replace("_", " "), f"{report.placed} of {report.requested}"
        yield escape(f"{outcome}: {placed} (policy {report.policy.name}, seed {report.seed})")
        yield from request_lines(report)
        counts = ((source.podms, "pod manager"), (source.pools, "pool"), (source.blocks, "block"))
        yield escape(f"request {request.id}, inventory {source.digest}")
        yield ", ".join(format_count(number, noun) for number, noun in counts)
        if rows := list(placement_rows(report)):
            columns = with_zone(COLUMNS) if report.zones else COLUMNS
            shown = table.telling_columns(columns, rows, self._args)
            page = io.StringIO()
            in_order = [table.in_order(row, shown) for row in rows]
            self._formatter.emit_list(shown, in_order, page, self._args)
            yield from page.getvalue().rstrip("\n").split("\n")
        yield from self.explanation(report)

    def _candidates(self, explanation: model.Explanation) -> Iterator[str]:
        candidates = list(words.score_parts(explanation))
        weighers = candidates[0][1]
        names = ["Podm", "Pool", "Score", *(part.weigher for part in weighers), "", "Excess"]
        if weighers:
            names[3] = f"= {names[3]}"
        heat = cells.HeatCell
        rows: list[list[Any]] = []
        for one, parts in candidates:
            scores = [heat(f"{part.part:.3f}", part.score) for part in parts]
            start = [one.podm, one.pool, heat(f"{one.score:.3f}", one.score), *scores]
            rows.append([*start, "chosen" if one.outcome == "chosen" else ""])
        excess = [", ".join(excess_phrases(one.excess)) for one, _ in candidates]
        columns = zip(names[:-1], zip(*rows, strict=True), strict=True)
        taken = sum(2 + max(len(str(cell)) for cell in (name, *column)) for name, column in columns)
        room = WIDTH - 2 - taken
        if room < LEAST_EXCESS:
            del names[-1]
        else:
            for row, text in zip(rows, excess, strict=True):
                row.append(textwrap.fill(text, room))
        yield ""
        yield "Candidates"
        drawn = cells.heat_table(names, rows, colour=self._colour)
        yield from (f"  {line.rstrip()}" for line in drawn.splitlines())
        if len(weighers) > 1:
            yield f"  weights: {words.weights_text(explanation, [it.weigher for it in weighers])}"
        if room < LEAST_EXCESS:
            podms = [one.podm for one, _ in candidates]
            told = [f"{podm} {text or 'none'}" for podm, text in zip(podms, excess, strict=True)]
            yield from hang(escape(f"  excess: {'; '.join(told)}"), 4)


def _hang(title: str, text: str) -> list[str]:
    width = len(f"{words.NEAREST_MISS}:  ")
    lead = f"{title}:" if title else ""
    return hang(escape(f"{lead:{width}}{text}"), width)


def request_lines(report: model.Report) -> list[str]:
    """Return the requested resources: ``gpu-large: 32 cores, 256 GiB memory, 2 GPU A100``."""
    return hang(escape(request_phrase(report.request)), 2)


VERDICT_COLUMNS = (
    *("Podm", "Pool", "Outcome", "Score", "Behind", "Parts", "Filter", "Label", "Need", "Have"),
    *("Unit", "Near Miss"),
)


def document_fields(document: model.Report | model.Reports) -> dict[str, Any]:
    """Return a document as one map for programs, with sentences for its reasons."""
    if isinstance(document, model.Report):
        return _report_fields(document)
    return {
        **fields(document, "Outcome", "Requested", "Placed"),
        "Inventory": msgspec.to_builtins(document.inventory),
        "Decisions": [
            {"Called": name, **_report_fields(report)}
            for name, report in words.reports_by_name(document).items()
        ],
        "Warnings": list(document.warnings),
    }


def verdict_rows(report: model.Report) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each pod manager, with the cells of VERDICT_COLUMNS."""
    explanation = report.explanation
    candidates = explanation.candidates if explanation else ()
    parts = {one.podm: {part.weigher: part.part for part in one.parts} for one in candidates}
    nearest = explanation.nearest_misses if explanation else ()
    misses = {one.podm: words.near_miss_line(one) for one in nearest}
    for one in report.podms:
        names = ("filter", "label", "need", "have", "unit")
        why = [getattr(one.reason, name, None) for name in names]
        row = (one.podm, one.pool, one.outcome, one.score, one.behind)
        yield (*row, cells.PairLines(parts.get(one.podm, {})), *why, misses.get(one.podm))


def _report_fields(report: model.Report) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(report)
    explained = fields.pop("explanation") or {}
    if explanation := report.explanation:
        if explanation.runner_up:
            explained["runner_up"]["text"] = words.runner_up_line(explanation.runner_up)
        lines = {
            "nearest_misses": map(words.near_miss_line, explanation.nearest_misses),
            "flips": map(words.sensitivity_line, explanation.flips),
        }
        for name, texts in lines.items():
            for entry, text in zip(explained[name], texts, strict=True):
                entry["text"] = text
    fields = {name: value for name, value in fields.items() if name not in ("schema", "version")}
    return {name.replace("_", " ").title(): value for name, value in (fields | explained).items()}
