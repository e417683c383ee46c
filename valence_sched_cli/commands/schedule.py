# SPDX-License-Identifier: Apache-2.0
"""The command ``podm schedule``: selects the pod manager, the pool and the blocks of each node."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from valence_sched_cli import base
from valence_sched_cli.commands import claim_compose, request_file
from valence_sched_cli.options import inventory
from valence_sched_cli.options.request import add_request_options, flavor_named, make_request
from valence_sched_cli.options.types import add_options, natural, positive
from valence_sched_cli.output.decision import (
    COLUMNS,
    EXIT_CODES,
    EXPLAIN_COLUMNS,
    decision_rows,
    funnel_line,
    request_names,
    summary_lines,
    without_redundant,
)
from valence_sched_cli.output.explanation import ReportRenderer

if TYPE_CHECKING:
    from valence_sched.model.decision import Report, Reports
    from valence_sched.model.decision_result import DecisionResult
    from valence_sched.model.request import Request


class SchedulePodm(base.Lister):
    """Choose the pod manager, the pool and the very blocks that make a node.

    Nothing is held or composed unless --claim or --compose says so; --plan saves what podm apply
    does later, --dispatch hands the decision to somebody else. Exit codes: 0 placed; 1
    error; 2 usage; 3 nothing fits; 4 placed in part; 5 when the budget of the policy left undecided
    what fits, with --max-age when something is older, or with --strict when something was not read;
    6 somebody else was faster; 7 what was composed could not be verified.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        add_request_options(parser, many=False)
        request_file.add_request_file_option(parser)
        add_options(
            parser,
            """
            --count <n>: how many nodes (default: 1)
            --min-count <m>: place fewer nodes, but at least so many (default: all or nothing)
            --alternates <k>: also name the next best pod managers for each node
            --explain: every pod manager, every reason and the scores; and on stderr the funnel, the
                runner-up, near misses, and what would change the choice
            --report <file>: write the whole decision as JSON
            """,
            count={"type": positive},
            min_count={"type": natural},
            alternates={"type": natural},
        )
        claim_compose.add_claim_compose_options(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.request_file is not None:
            return request_file.COLUMNS
        decided = EXPLAIN_COLUMNS if parsed_args.explain else COLUMNS
        return (*decided, *claim_compose.result_columns(parsed_args))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.errors import UsageError

        if parsed_args.report in ("-", ""):
            raise UsageError("--report: standard output is for the rows: name a file")
        claim_compose.check_options(parsed_args)
        if parsed_args.request_file is not None:
            return self._schedule_all(parsed_args)
        request = make_request(self, parsed_args, parsed_args.flavor, parsed_args.nova_flavor)
        if parsed_args.compose:
            return self._compose(parsed_args, request)
        if parsed_args.claim:
            result = claim_compose.claim(self, parsed_args, request).decision
            if result is None:
                return (), ()
        else:
            with flavor_named(request, parsed_args):
                result = self._decide(parsed_args, request)
        if parsed_args.dispatch is not None and result.report.placements:
            return self._dispatch(parsed_args, result)
        return self._show_decision(parsed_args, result)

    def _decide(self, parsed_args: argparse.Namespace, request: Request) -> DecisionResult:
        detail = claim_compose.detail_of(parsed_args)
        scheduler = self.scheduler(parsed_args)
        if parsed_args.plan is None:
            return scheduler.select_destinations(request, detail=detail)
        planned = scheduler.plan(request, detail=detail)
        if planned.plan is None:
            self.closing.append("nothing fits: no plan was written")
        else:
            self.scheduler_app.write_plan(planned.plan, parsed_args.plan)
            self.closing.append(f"plan written: podm apply {parsed_args.plan} does it")
        return planned.decision

    def _dispatch(self, parsed_args: argparse.Namespace, result: DecisionResult) -> base.Table:
        self._write_report(parsed_args, result.report)
        rows = claim_compose.dispatch(self, parsed_args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self.closing += summary_lines(result, explain=parsed_args.explain)
        return claim_compose.DISPATCH_COLUMNS, rows

    def _compose(self, parsed_args: argparse.Namespace, request: Request) -> base.Table:
        with claim_compose.changing_scheduler(self, parsed_args) as scheduler:
            times = {"ttl_s": parsed_args.ttl, "wait_s": parsed_args.wait}
            detail = claim_compose.detail_of(parsed_args)
            result = scheduler.compose(request, key=parsed_args.key, detail=detail, **times)
        if result.decision is not None:
            if not result.decision.report.placements:
                return self._show_decision(parsed_args, result.decision)
            self._write_report(parsed_args, result.decision.report)
        claim_compose.describe_result(self, result, request, waits=parsed_args.wait > 0)
        return claim_compose.NODE_COLUMNS, list(claim_compose.node_rows(result))

    def _show_decision(self, parsed_args: argparse.Namespace, result: DecisionResult) -> base.Table:
        explain = parsed_args.explain
        self.exit_code = EXIT_CODES[result.report.outcome]
        if parsed_args.dry_run == "server":
            claim_compose.preview(self, parsed_args, result.report)
        self._write_report(parsed_args, result.report)
        rows = list(decision_rows(result, explain=explain))
        if explain:
            table = self._formatter_plugins["table"].obj
            renderer = ReportRenderer(table, self.app.stderr, parsed_args)
            self.closing.append(funnel_line(result.report, result.report.funnel))
            self.closing += renderer.explanation(result.report)
        self.closing += summary_lines(result, explain=explain)
        return without_redundant(EXPLAIN_COLUMNS if explain else COLUMNS, rows, parsed_args)

    def _schedule_all(self, parsed_args: argparse.Namespace) -> base.Table:
        requests = request_file.read_requests(self.scheduler_app, parsed_args)
        decisions = request_file.decide(self.scheduler(parsed_args), requests, parsed_args)
        self.exit_code = EXIT_CODES[decisions.report.outcome]
        self._write_report(parsed_args, decisions.report)
        names = request_names(requests)
        self.closing += request_file.outcome_lines(decisions, names)
        return request_file.COLUMNS, list(request_file.rows(decisions, names))

    def _write_report(self, parsed_args: argparse.Namespace, report: Report | Reports) -> None:
        if parsed_args.report:
            self.scheduler_app.write_report(report, parsed_args.report)
