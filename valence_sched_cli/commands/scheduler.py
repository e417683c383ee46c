# SPDX-License-Identifier: Apache-2.0
"""The command that explains a decision from its report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base
from valence_sched_cli.output.cells import PairLines, or_absent
from valence_sched_cli.output.columns import STRUCTURED
from valence_sched_cli.output.explanation import ReportRenderer

if TYPE_CHECKING:
    from valence_sched.model.decision import Report

COLUMNS = ("Podm", "Pool", "Outcome", "Score", "Behind", "Parts", "Filter", "Label", "Need",
           "Have", "Unit", "Near Miss")  # fmt: skip


class ExplainScheduler(base.Lister):
    """Explain a decision: why this one, why not that one, and what would change it.

    Reads what podm schedule --report wrote, of a file of requests one decision after another. As
    json and yaml it is the whole structure; in other formats, and where columns are named, a row
    per pod manager.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "report", metavar="<report>", help="report of a decision: a file, or - for stdin"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        self._document: Any
        self._document, warnings = self.scheduler_app.read_report(parsed_args.report)
        self.closing += [f"warning: {warning}" for warning in (*warnings, *self._document.warnings)]
        self._reports = _reports_by_name(self._document)
        if self._reports:
            if any(report.explanation is None for report in self._reports.values()):
                self.closing.append("of requests that got all their nodes, or that another one "
                                    "failed, the report holds no reasons")  # fmt: skip
            rows = ((name, *row) for name, one in self._reports.items() for row in _rows(one))
            return ("Request", *COLUMNS), rows
        if self._document.explanation is None:
            self.closing.append("the report holds neither near misses nor flips: an older program "
                                "wrote it; schedule again for them")  # fmt: skip
        return COLUMNS, _rows(self._document)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the screen for people, the whole for programs that take it, else rows."""
        if parsed_args.columns or parsed_args.sort_columns:
            return super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter in STRUCTURED:
            whole = (
                _combined_document(self._document, self._reports)
                if self._reports
                else _report_document(self._document)
            )
            self.formatter.emit_one(list(whole), list(whole.values()), self.app.stdout, parsed_args)
            return 0
        if parsed_args.formatter != "table":
            return super().produce_output(parsed_args, column_names, data)
        screen = ReportRenderer(self.formatter, self.app.stdout, parsed_args)
        many = screen.reports(self._document, self._reports)
        for part in many if self._reports else screen.report(self._document):
            self.app.stdout.write(f"{part}\n")
        return 0


def _reports_by_name(found: Any) -> dict[str, Report]:
    """Return the decisions on several requests by what each is called, none for one alone."""
    from valence_sched_cli.commands import request_file as many

    reports = getattr(found, "decisions", ())
    return dict(
        zip(many.request_names([report.request for report in reports]), reports, strict=True)
    )


def _combined_document(found: Any, reports: dict[str, Report]) -> dict[str, Any]:
    """Return several decisions as one map."""
    import msgspec

    return {
        "Outcome": found.outcome,
        "Requested": found.requested,
        "Placed": found.placed,
        "Inventory": msgspec.to_builtins(found.inventory),
        "Decisions": [
            {"Called": name, **_report_document(report)} for name, report in reports.items()
        ],
        "Warnings": list(found.warnings),
    }


def _rows(report: Report) -> Iterator[tuple[Any, ...]]:
    """Yield a row per pod manager; cells as in COLUMNS."""
    explanation = report.explanation
    parts = {
        one.podm: {part.weigher: part.part for part in one.parts}
        for one in (explanation.candidates if explanation else ())
    }
    misses = {one.podm: one.text for one in (explanation.nearest_misses if explanation else ())}
    for verdict in report.podms:
        reason = verdict.reason
        why = (
            (reason.filter, reason.label, reason.need, reason.have, reason.unit)
            if reason
            else ((None,) * 5)
        )
        yield (
            verdict.podm, verdict.pool, verdict.outcome, or_absent(verdict.score),
            or_absent(verdict.behind), PairLines(parts.get(verdict.podm, {})),
            *map(or_absent, why), or_absent(misses.get(verdict.podm)),
        )  # fmt: skip


def _report_document(report: Report) -> dict[str, Any]:
    """Return the report and its explanation as one map, with sentences beside the structure."""
    import msgspec

    whole: dict[str, Any] = msgspec.to_builtins(report)
    explanation = report.explanation
    found = whole.pop("explanation") or {}
    if explanation:
        if explanation.runner_up:
            found["runner_up"]["text"] = explanation.runner_up.text
        for name in ("nearest_misses", "flips"):
            for words, noun in zip(found[name], getattr(explanation, name), strict=True):
                words["text"] = noun.text
    whole = {name: words for name, words in whole.items() if name not in ("schema", "version")}
    return {name.replace("_", " ").title(): words for name, words in (whole | found).items()}
