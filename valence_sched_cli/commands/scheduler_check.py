# SPDX-License-Identifier: Apache-2.0
"""The command ``scheduler check``: whether the expectations of a file are met, for CI."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.check_results import (
    COLUMNS,
    LONG_COLUMNS,
    check_outcome,
    check_rows,
    github_annotations,
    junit_document,
)
from valence_sched_cli.output.columns import MACHINE

if TYPE_CHECKING:
    from valence_sched.model.check import Check, CheckResult
    from valence_sched.model.decision import Report

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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        words = "YAML file of expectations, or - for standard input"
        parser.add_argument("file", metavar="<file>", help=words)
        inventory.add_inventory_options(parser)
        inventory.add_flavor_file_option(parser)
        inventory.add_policy_file_option(parser)
        output = section(parser, "output")
        add_option(output, "--junit <file>: also write the results as JUnit XML")
        add_option(
            output,
            "--github: also print an annotation of a GitHub workflow, on standard error, for each "
            "expectation that is not met",
        )
        add_option(
            section(parser, "then"),
            "--record: write each golden decision anew, in place of comparing it",
        )
        add_option(output, "--long: list the file and the line of each expectation, too")

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return LONG_COLUMNS

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
        long = parsed_args.long or bool(parsed_args.columns) or parsed_args.formatter in MACHINE
        return LONG_COLUMNS if long else COLUMNS, list(check_rows(results, long=long))

    def _results(
        self, checks: Sequence[Check], parsed_args: argparse.Namespace
    ) -> list[CheckResult]:
        """Return what became of each expectation, in the order of the file."""
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
        from valence_sched.model.quantity import format_count

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
