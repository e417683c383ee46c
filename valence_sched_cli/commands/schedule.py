# SPDX-License-Identifier: Apache-2.0
"""The command that decides: which pod manager, which pool, which very blocks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base
from valence_sched_cli.commands import claim_compose, request_file
from valence_sched_cli.options import common
from valence_sched_cli.options.request import (
    add_request_options,
    check_policy,
    decider_for,
    make_request,
)
from valence_sched_cli.options.types import natural, positive
from valence_sched_cli.output.decision import (
    COLUMNS,
    EXPLAIN_COLUMNS,
    MAX_LISTED_PODMS,
    decision_rows,
    funnel_line,
    is_redundant,
    outcome_lines,
)
from valence_sched_cli.output.explanation import ReportRenderer, explanation_lines

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.model.request import Request

EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4}


class SchedulePodm(base.Lister):
    """Choose the pod manager, the pool and the very blocks that make a node.

    Nothing is held or composed unless --claim or --compose says so; --plan saves what podm apply
    does later, --dispatch hands the decision to somebody else. Exit codes: 0 placed; 1
    error; 2 usage; 3 nothing fits; 4 placed in part; 5 with --max-age when something is older, or
    with --strict when something was not read; 6 somebody else was faster; 7 what was composed
    could not be verified.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        common.add_inventory_options(parser)
        add_request_options(parser, many=False)
        request_file.add_request_file_option(parser)
        parser.add_argument(
            "--count", metavar="<n>", type=positive, help="how many nodes (default: 1)"
        )
        parser.add_argument(
            "--min-count",
            metavar="<m>",
            type=natural,
            help="place fewer nodes, but at least so many (default: all or nothing)",
        )
        parser.add_argument(
            "--alternates",
            metavar="<k>",
            type=natural,
            help="also name the next best pod managers for each node",
        )
        parser.add_argument(
            "--explain",
            action="store_true",
            help="every pod manager, every reason and the scores; and on stderr the funnel, the "
            "runner-up, near misses, and what would change the choice",
        )
        parser.add_argument("--report", metavar="<file>", help="write the whole decision as JSON")
        claim_compose.add_claim_compose_options(parser)
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.request_file is not None:
            return request_file.COLUMNS
        decided = EXPLAIN_COLUMNS if parsed_args.explain else COLUMNS
        return (*decided, *claim_compose.result_columns(parsed_args))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import UsageError

        if parsed_args.report in ("-", ""):
            raise UsageError("--report: standard output is for the rows: name a file")
        claim_compose.check_options(parsed_args)
        if parsed_args.request_file is not None:
            return self._schedule_all(parsed_args)
        request = make_request(
            self.main,
            parsed_args,
            parsed_args.flavor,
            parsed_args.nova_flavor,
            self.app.client_manager,
        )
        if parsed_args.compose:
            return self._compose(parsed_args, request)
        if parsed_args.claim:
            decision, _ = claim_compose.decide_and_claim(self, parsed_args, request)
            if decision is None:
                return (), ()
        else:
            decision = self._decide(parsed_args, request)
        if parsed_args.dispatch is not None and decision.placed_nodes:
            return self._dispatch(parsed_args, decision)
        return self._show_decision(parsed_args, decision)

    def _decide(self, parsed_args: argparse.Namespace, request: Request) -> Decision:
        texts: dict[str, bytes] | None = None if parsed_args.plan is None else {}
        engine = decider_for(self, parsed_args, texts)
        check_policy(engine, request, parsed_args)
        decision: Decision = engine.select_destinations(request)
        if texts is not None and decision.placed_nodes:
            plan = self.main.plan(decision, texts, self.live(parsed_args))
            self.main.write_plan(plan, parsed_args.plan)
            self.closing.append(f"plan written: podm apply {parsed_args.plan} does it")
        elif texts is not None:
            self.closing.append("nothing fits: no plan was written")
        return decision

    def _dispatch(
        self, parsed_args: argparse.Namespace, decision: Decision
    ) -> tuple[Sequence[str], Sequence[Any]]:
        if parsed_args.report:
            self.main.write_report(decision.report(), parsed_args.report)
        rows = claim_compose.dispatch(self, parsed_args, decision)
        self.exit_code = EXIT_CODES[decision.outcome]
        self._tell_outcome(decision, explain=parsed_args.explain)
        return claim_compose.DISPATCH_COLUMNS, rows

    def _compose(
        self, parsed_args: argparse.Namespace, request: Request
    ) -> tuple[Sequence[str], Sequence[Any]]:
        done = claim_compose.decide_and_compose(self, parsed_args, request)
        if done.decision is not None and not done.decision.placed_nodes:
            return self._show_decision(parsed_args, done.decision)
        if done.decision is not None and parsed_args.report:
            self.main.write_report(done.decision.report(), parsed_args.report)
        claim_compose.describe_result(self, done, request, waits=parsed_args.wait > 0)
        return claim_compose.NODE_COLUMNS, list(claim_compose.node_rows(done))

    def _show_decision(
        self, parsed_args: argparse.Namespace, decision: Decision
    ) -> tuple[Sequence[str], Sequence[Any]]:
        self.exit_code = EXIT_CODES[decision.outcome]
        if parsed_args.dry_run == "server":
            claim_compose.preview(self, parsed_args, decision)
        if parsed_args.report:
            self.main.write_report(decision.report(), parsed_args.report)
        columns = EXPLAIN_COLUMNS if parsed_args.explain else COLUMNS
        rows = list(decision_rows(decision, explain=parsed_args.explain))
        if parsed_args.explain:
            self._explain(decision, parsed_args)
        self._tell_outcome(decision, explain=parsed_args.explain)
        shown = [name for name in columns if not is_redundant(name, columns, rows, parsed_args)]
        picks = [columns.index(name) for name in shown]
        return shown, [tuple(row[pick] for pick in picks) for row in rows]

    def _schedule_all(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        requests = request_file.read_requests(self.main, parsed_args)
        engine = decider_for(self, parsed_args)
        found = request_file.decide(engine, requests, parsed_args)
        self.exit_code = EXIT_CODES[found.outcome]
        if parsed_args.report:
            self.main.write_report(found.report(), parsed_args.report)
        called = request_file.request_names(requests)
        self.closing += request_file.outcome_lines(found, called)
        return request_file.COLUMNS, list(request_file.rows(found, called))

    def _explain(self, decision: Decision, parsed_args: argparse.Namespace) -> None:
        explanation = decision.explanation
        assert explanation is not None, "one request alone is decided on what is there"
        formatter = self._formatter_plugins["table"].obj
        screen = ReportRenderer(formatter, self.app.stderr, parsed_args)
        self.closing += [funnel_line(decision), *screen.candidates(explanation)]
        self.closing += explanation_lines(explanation)

    def _tell_outcome(self, decision: Decision, *, explain: bool) -> None:
        for warning in decision.warnings:
            self.closing.append(f"warning: {warning}")
        hidden = len(decision.view.podms) - MAX_LISTED_PODMS
        if not explain and hidden > 0:
            every = len(decision.view.podms)
            self.closing.append(f"not all of {every:,} pod managers are listed: see --explain")
        for podm in decision.chosen_podms()[:MAX_LISTED_PODMS]:
            if reason := decision.stop_reason(podm):
                self.closing.append(f"no more on {decision.view.podms[podm].id}: {reason.text}")
        self.closing += outcome_lines(decision)
