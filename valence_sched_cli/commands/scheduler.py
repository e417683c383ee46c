# SPDX-License-Identifier: Apache-2.0
"""The command ``scheduler explain``: explains a decision from its report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from valence_sched_cli import base
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import PairLines, or_absent
from valence_sched_cli.output.columns import STRUCTURED, prepare_formatter
from valence_sched_cli.output.decision import warning_lines, zone_notes
from valence_sched_cli.output.explanation import ReportRenderer, reports_by_name

if TYPE_CHECKING:
    from valence_sched.model.decision import Report, Reports

COLUMNS = ("Podm", "Pool", "Outcome", "Score", "Behind", "Parts", "Filter", "Label", "Need",
           "Have", "Unit", "Near Miss")  # fmt: skip


class ExplainScheduler(base.Lister):
    """Explain a decision and what would change it.

    Reads what podm schedule --report wrote, of a file of requests one decision after another. As
    json and yaml it is the whole structure; in other formats, and where columns are named, a row
    per pod manager.
    """

    reads_files_only = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<report>: report of a decision: a file, or - for stdin")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        self._document, warnings = self.scheduler_app.read_report(parsed_args.report)
        self.closing += warning_lines((*warnings, *self._document.warnings))
        if reports := reports_by_name(self._document):
            if any(report.explanation is None for report in reports.values()):
                self.closing.append("of requests that got all their nodes, or that another one "
                                    "failed, the report holds no reasons")  # fmt: skip
            for one in reports.values():
                self.closing += warning_lines(zone_notes(one))
            rows = ((name, *row) for name, one in reports.items() for row in _rows(one))
            return ("Request", *COLUMNS), rows
        report = cast("Report", self._document)
        self.closing += warning_lines(zone_notes(report))
        if report.explanation is None and not report.zones:
            self.closing.append("the report holds neither near misses nor flips: an older program "
                                "wrote it; schedule again for them")  # fmt: skip
        return COLUMNS, _rows(report)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the screen for people, the whole for programs that take it, else rows."""
        if parsed_args.columns or parsed_args.sort_columns:
            return super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter in STRUCTURED:
            fields = _document_fields(self._document)
            formatter = prepare_formatter(self.formatter, parsed_args.formatter)
            formatter.emit_one([*fields], [*fields.values()], self.app.stdout, parsed_args)
            return 0
        if parsed_args.formatter != "table":
            return super().produce_output(parsed_args, column_names, data)
        renderer = ReportRenderer(self.formatter, self.app.stdout, parsed_args)
        for part in renderer.document(self._document):
            self.app.stdout.write(f"{part}\n")
        return 0


def _document_fields(document: Report | Reports) -> dict[str, Any]:
    import msgspec

    from valence_sched.model.decision import Report

    if isinstance(document, Report):
        return _report_fields(document)
    return {
        "Outcome": document.outcome,
        "Requested": document.requested,
        "Placed": document.placed,
        "Inventory": msgspec.to_builtins(document.inventory),
        "Decisions": [
            {"Called": name, **_report_fields(report)}
            for name, report in reports_by_name(document).items()
        ],
        "Warnings": list(document.warnings),
    }


def _rows(report: Report) -> Iterator[tuple[Any, ...]]:
    explanation = report.explanation
    parts = {
        one.podm: {part.weigher: part.part for part in one.parts}
        for one in (explanation.candidates if explanation else ())
    }
    misses = {one.podm: one.text for one in (explanation.nearest_misses if explanation else ())}
    for verdict in report.podms:
        reason = verdict.reason
        why: tuple[Any, ...] = (None,) * 5
        if reason:
            why = (reason.filter, reason.label, reason.need, reason.have, reason.unit)
        yield (
            verdict.podm, verdict.pool, verdict.outcome, or_absent(verdict.score),
            or_absent(verdict.behind), PairLines(parts.get(verdict.podm, {})),
            *map(or_absent, why), or_absent(misses.get(verdict.podm)),
        )  # fmt: skip


def _report_fields(report: Report) -> dict[str, Any]:
    """Return the report and its explanation as one map, with sentences beside the structure."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(report)
    explanation = report.explanation
    explained = fields.pop("explanation") or {}
    if explanation:
        if explanation.runner_up:
            explained["runner_up"]["text"] = explanation.runner_up.text
        for name in ("nearest_misses", "flips"):
            for entry, noun in zip(explained[name], getattr(explanation, name), strict=True):
                entry["text"] = noun.text
    fields = {name: value for name, value in fields.items() if name not in ("schema", "version")}
    return {name.replace("_", " ").title(): value for name, value in (fields | explained).items()}
