# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler explain``, ``scheduler check`` and ``scheduler audit list``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree

from valence_sched.errors import UsageError, escape
from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import PairLines, format_count, or_absent, time_cell
from valence_sched_cli.output.decision import (
    ReportRenderer,
    reports_by_name,
    warning_lines,
    zone_notes,
)
from valence_sched_cli.output.table import STRUCTURED, prepare_formatter

if TYPE_CHECKING:
    from valence_sched.model.check import Check, CheckResult
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
    arguments = "<report>: report of a decision: a file, or - for stdin"

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
    from valence_sched.words.decision import near_miss_line

    explanation = report.explanation
    parts = {
        one.podm: {part.weigher: part.part for part in one.parts}
        for one in (explanation.candidates if explanation else ())
    }
    misses = {one.podm: near_miss_line(one)
              for one in (explanation.nearest_misses if explanation else ())}  # fmt: skip
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

    from valence_sched.words import decision

    fields: dict[str, Any] = msgspec.to_builtins(report)
    explanation = report.explanation
    explained = fields.pop("explanation") or {}
    if explanation:
        if explanation.runner_up:
            explained["runner_up"]["text"] = decision.runner_up_line(explanation.runner_up)
        lines = {"nearest_misses": map(decision.near_miss_line, explanation.nearest_misses),
                 "flips": map(decision.sensitivity_line, explanation.flips)}  # fmt: skip
        for name, texts in lines.items():
            for entry, text in zip(explained[name], texts, strict=True):
                entry["text"] = text
    fields = {name: value for name, value in fields.items() if name not in ("schema", "version")}
    return {name.replace("_", " ").title(): value for name, value in (fields | explained).items()}


CHECK_COLUMNS = ("Result", "Expectation", "Found")
LONG_COLUMNS = (*CHECK_COLUMNS, "File", "Line")

#: What GitHub's runner unescapes in the text of a workflow command, and besides in its properties.
_TEXT_ESCAPES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_ESCAPES = (*_TEXT_ESCAPES, (":", "%3A"), (",", "%2C"))


def check_rows(results: Iterable[CheckResult], *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each expectation."""
    for one in results:
        row = (one.result, one.name, one.found)
        yield (*row, one.file, one.line) if long else row


def check_outcome(results: Sequence[CheckResult]) -> str:
    """Return how many expectations are met, in one sentence."""
    recorded = sum(one.result == "recorded" for one in results)
    failed = sum(one.result == "fail" for one in results)
    total = f"{len(results):,} expectation" + ("" if len(results) == 1 else "s")
    more = f", {recorded:,} recorded" if recorded else ""
    if failed:
        return f"{failed:,} of {total} not met{more}"
    return f"{total} met{more}" if not recorded else f"{total}: none failed{more}"


def junit_document(file: str, results: Sequence[CheckResult]) -> bytes:
    """Return results as a JUnit document, one test case each.

    What does not print, and so may be no character of XML, is escaped as in JSON.
    """
    failures = str(sum(one.result == "fail" for one in results))
    counts = {"tests": str(len(results)), "failures": failures, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": escape(file), **counts})
    for one in results:
        words = {"name": escape(one.name), "classname": "scheduler check",
                 "file": escape(one.file), "line": str(one.line)}  # fmt: skip
        case = ElementTree.SubElement(suite, "testcase", words)
        found = escape(one.found)
        if one.result == "fail":
            ElementTree.SubElement(case, "failure", {"message": found}).text = found
        else:
            ElementTree.SubElement(case, "system-out").text = found
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def github_annotations(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield a workflow command of GitHub for each expectation that is not met."""
    for one in results:
        if one.result == "fail":
            file = _escaped(one.file, _PROPERTY_ESCAPES)
            text = _escaped(f"{one.name}: {one.found}", _TEXT_ESCAPES)
            yield f"::error file={file},line={one.line}::{text}"


def _escaped(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for character, escaped in pairs:
        text = text.replace(character, escaped)
    return escape(text)


EXIT_NOT_MET = 10


class CheckScheduler(base.Lister):
    """Check what a file expects of an inventory.

    It says what fits, where it lands, what may fail. A row for each expectation. Exits 0 if all are
    met, 10 if one is not.
    """

    through_service = True
    effectful = True
    examples = (
        "examples/check.yaml --inventory examples/site.json",
        "examples/check.yaml --inventory examples/site.json --junit results.xml --github",
    )

    arguments = """
        <file>: YAML file of expectations, or - for standard input
        output --junit <file>: also write the results as JUnit XML
        output --github: also print an annotation of a GitHub workflow, on standard error, for each
            expectation that is not met
        then --record: write each golden decision anew, in place of comparing it
        output --long: list the file and the line of each expectation, too
        """
    option_groups = (inventory.INVENTORY, inventory.FLAVOR_FILE, inventory.POLICY_FILE)
    known_columns = LONG_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        app, file = self.scheduler_app, parsed_args.file
        if parsed_args.junit == "-":
            raise UsageError("--junit: standard output is for the rows: name a file")
        checks = app.read_checks(file)
        with contextlib.ExitStack() as stack:
            write: Callable[[bytes], None] = lambda data: None  # noqa: E731
            if parsed_args.junit:
                write = stack.enter_context(app.text_writer(parsed_args.junit))
            results = self._results(checks, parsed_args)
            write(junit_document(file, results))
        if parsed_args.github:
            self.closing += github_annotations(results)
        self.closing.append(check_outcome(results))
        if any(one.result == "fail" for one in results):
            self.exit_code = EXIT_NOT_MET
        long = parsed_args.long or not self.for_people(parsed_args)
        return LONG_COLUMNS if long else CHECK_COLUMNS, list(check_rows(results, long=long))

    def _results(
        self, checks: Sequence[Check], parsed_args: argparse.Namespace
    ) -> list[CheckResult]:
        app, line = self.scheduler_app, self.progress
        checker = app.checker(
            app.site(self.selection(parsed_args)),
            strict=parsed_args.strict,
            record=self._record if parsed_args.record else None,
            progress=lambda run: (
                lambda requests: line.begin("check", f"{run}: {requests:,} requests")
            ),
            survival_progress=lambda tried, sets: line.begin(
                "check", f"{tried:,} of {sets:,} sets of pod managers tried"
            ),
        )
        results = []
        for number, check in enumerate(checks, 1):
            line.begin("check", f"{number:,} of {format_count(len(checks), 'expectation')}")
            results.append(checker.result(check))
        line.finish("check")
        return results

    def _record(self, file: str, report: Report) -> None:
        change = self.effects.change("decision", file, "may be written", "is written")
        with change, self.scheduler_app.report_writer(file) as write:
            write(report)


AUDIT_COLUMNS = ("Time", "User", "Verb", "Object", "Outcome")
AUDIT_LONG = ("Owner", "Request ID")


class ListAudit(base.Lister):
    """List what was changed or refused, newest first.

    Of a service they are the changes of its users and need an admin. Commands that change a state
    on its own machine are there with the user of the machine.
    """

    through_service = True

    arguments = """
        --user <user>: changes of this user only
        --owner <owner>: changes by users of this project only
        --verb <verb>: only this, as claims:create, or "podm claim release" for a command
        --object <object>: changes of this object only, as claims/ID, nodes/ID or podms/NAME
        --outcome <outcome>: only accepted, done, or the code of an error
        --long: list more columns
        --limit <n>=100: print at most so many rows (default: 100)
        """
    option_groups = (inventory.STATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.model.effect import AuditQuery

        names = ("user", "owner", "verb", "object", "outcome", "limit")
        query = AuditQuery(**{name: getattr(parsed_args, name) for name in names})
        lines = self.scheduler(parsed_args).audit(query)
        now, long = self.scheduler_app.now().timestamp(), parsed_args.long
        rows = []
        for line in lines:
            at = time_cell(line.at, max(0.0, now - line.at), both=long)
            row = (at, line.user, line.verb, line.object, line.outcome)
            more = (or_absent(line.owner), line.request_id)
            rows.append((*row, *(more if long else ())))
        return (*AUDIT_COLUMNS, *(AUDIT_LONG if long else ())), rows
