# SPDX-License-Identifier: Apache-2.0
"""The command ``podm schedule``: selects the pod manager, the pool and the blocks of each node."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import (
    InventoryIncomplete,
    RequestError,
    SchedulerError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched_cli import base
from valence_sched_cli.commands import claim as claims
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory
from valence_sched_cli.options.request import (
    OPTION_DESTS,
    add_request_options,
    flavor_named,
    make_request,
)
from valence_sched_cli.output.cells import format_count
from valence_sched_cli.output.table import MACHINE, telling_columns

if TYPE_CHECKING:
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import DecisionResult, Report, Reports
    from valence_sched.model.page import Page
    from valence_sched.model.reading import Selection
    from valence_sched.model.request import Request
    from valence_sched.model.scheduler import Scheduler
    from valence_sched.pages.hardware import HardwareListing

#: Options that are not allowed beside a file, which has them for each request by itself.
_FILE_ONLY_OPTIONS = (
    *("flavor", "count", "min_count", "alternates", "podm", "exclude_podm", "zone", "attribute"),
    *(*OPTION_DESTS, "nova_flavor", "request_id"),
)
EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4, "undecided": 5}


class SchedulePodm(base.Lister):
    """Choose the pod manager, pool and blocks of a node.

    Nothing is held or composed unless --claim or --compose says so; --plan saves what podm apply
    does later, --dispatch hands the decision to somebody else. Exit codes: 0 placed; 1
    error; 2 usage; 3 nothing fits; 4 placed in part; 5 when the budget of the policy left undecided
    what fits, with --max-age when something is older, or with --strict when something was not read;
    6 somebody else was faster; 7 what was composed could not be verified, or not all of it be told.
    """

    examples = (
        "--inventory examples/site.json --flavor gpu-large --explain",
        "--flavor gpu-large --count 4 --compose --owner team-a",
    )
    _report_writer: Callable[[Report | Reports], None] | None = None
    _page_writer: Callable[[Page], None]
    _hardware: HardwareListing | None = None  # of the page, if there is one
    _claim: Claim | None = None
    _tied: Request | None = None  # of which something is taken
    _names_id = False
    _has_zones = False
    _sections: Sequence[str] = ()
    _question: Sequence[str] = ()
    option_settings = claim_options.SETTINGS
    option_groups = (
        inventory.INVENTORY,
        inventory.ZONE_FILE,
        functools.partial(add_request_options, many=False),
        """
        what --request-file <file>: YAML or JSON file of one or more requests, placed together or
            not at all, or - for standard input; instead of --flavor
        what --count <n>: how many nodes (default: 1)
        what --min-count <m>: place fewer nodes, but at least so many (default: all or nothing)
        decide --alternates <k>: also name the next best pod managers for each node
        output --explain: the candidates with their scores, why each other pod manager was not
            chosen, near misses, and what would change the choice
        output --all-reasons: name every pod manager that was not chosen, however many there are
        output --long: list more columns
        output --report <file>: write the whole decision as JSON, with - in place of the rows
        """,
        inventory.html_option("the decision and a map of the site"),
        claim_options.CLAIM_OR_COMPOSE,
    )

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        from valence_sched_cli.output.decision import COLUMNS, LONG_COLUMNS, ZONE

        may_have_zones = parsed_args.zone_file is not None or self.scheduler_app.service is not None
        zones = (ZONE,) if may_have_zones else ()
        if parsed_args.request_file is not None:
            return ("Request", *COLUMNS, *zones)
        return (*LONG_COLUMNS, *zones, *claims.result_columns(parsed_args))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        claim_options.check_options(parsed_args)
        inventory.check_zone_file(parsed_args)
        with contextlib.ExitStack() as stack:
            if parsed_args.report == "-":
                self._report_writer = self._print_report
            elif parsed_args.report:
                writer = self.scheduler_app.report_writer(parsed_args.report)
                self._report_writer = stack.enter_context(writer)
            self._page_writer = stack.enter_context(self.page_writer(parsed_args))
            if parsed_args.request_file is not None:
                return self._schedule_all(parsed_args)
            return self._schedule(parsed_args)

    def scheduler(
        self, parsed_args: argparse.Namespace, selection: Selection | None = None
    ) -> Scheduler:
        """Return the scheduler: over the zones of a file, where one is named.

        A service over zones says which gave no answer, so that --strict has a meaning there.
        """
        selection = selection or self.selection(parsed_args)
        app = self.scheduler_app
        if parsed_args.zone_file is not None:
            return app.zoned_scheduler(selection, parsed_args.zone_file, effects=self.effects)
        acts = parsed_args.claim or parsed_args.compose or parsed_args.plan is not None
        if app.service is not None and selection.strict and not acts:
            from msgspec.structs import replace

            selection = replace(selection, strict=False)
        return super().scheduler(parsed_args, selection)

    def _check_strict(self, parsed_args: argparse.Namespace, report: Report) -> None:
        if parsed_args.strict and self.scheduler_app.service is not None and not report.zones:
            hint = "leave it out, or name an inventory or a state to decide here"
            raise UsageError(f"--strict: the service decides by its own settings: {hint}")
        if parsed_args.strict and report.zones and report.zones.silent:
            from valence_sched.words.phrases import zone_lines

            raise InventoryIncomplete(one_line(next(zone_lines(report.zones))))

    def _schedule(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        from valence_sched_cli.output import decision

        request = self._request(parsed_args)
        if parsed_args.claim or parsed_args.compose:
            self._read_hardware(parsed_args, lambda: self.scheduler(parsed_args), reads_again=True)
        if parsed_args.compose:
            return self._compose(parsed_args, request)
        if parsed_args.claim:
            claimed = claims.claim_request(self, parsed_args, request)
            self._claim, result = claimed.claim, claimed.decision
            if result is None:
                assert claimed.claim is not None, "what was not decided now was claimed before"
                self._tell_no_report(parsed_args)
                self.exit_code = 0 if claimed.claim.nodes == request.count else 4
                columns = decision.LONG_COLUMNS if parsed_args.long else decision.COLUMNS
                return self._table(parsed_args, columns, decision.claim_rows(claimed.claim))
        else:
            scheduler = self.scheduler(parsed_args)
            plans = parsed_args.plan is not None
            self._read_hardware(parsed_args, lambda: scheduler, reads_again=plans)
            with flavor_named(request, parsed_args):
                result = self._decide(parsed_args, request, scheduler)
            if parsed_args.dispatch is not None and result.report.placements:
                report = self.scheduler_app.dispatchable(scheduler, result.report)
                return self._dispatch(parsed_args, msgspec.structs.replace(result, report=report))
        return self._show_decision(parsed_args, result)

    def _request(self, parsed_args: argparse.Namespace) -> Request:
        """Return the request with its id: the same question has the same answer.

        What takes hardware has an id of its own, unless a seed is given: of equal pools, equal
        callers do not all take the same.
        """
        from valence_sched.model.request import with_content_id, with_own_id

        request = make_request(self, parsed_args, parsed_args.flavor, parsed_args.nova_flavor)
        takes = parsed_args.claim or parsed_args.compose or parsed_args.dispatch is not None
        if takes and parsed_args.seed is None:
            request = with_own_id(request, parsed_args.key)
        self._names_id = bool(request.id)
        request = with_content_id(request)
        self._tied = request if takes else None
        return request

    def _read_hardware(
        self,
        parsed_args: argparse.Namespace,
        scheduler: Callable[[], Scheduler],
        *,
        reads_again: bool = False,
    ) -> None:
        """Read what the page is about before an effect changes it."""
        if parsed_args.html is not None:
            from valence_sched.pages.hardware import read_hardware

            self._hardware = read_hardware(scheduler())
            if reads_again:  # and tells then what could not be read
                self.scheduler_app.diagnostics.clear()

    def _decide(
        self, parsed_args: argparse.Namespace, request: Request, scheduler: Scheduler
    ) -> DecisionResult:
        detail = claims.detail_of(parsed_args)
        if parsed_args.plan is None:
            return scheduler.select_destinations(request, detail=detail)
        planned = scheduler.plan(request)
        if planned.plan is None:
            self.closing.append("nothing fits: no plan was written")
        else:
            with self.effects.change("plan", parsed_args.plan, "may be written", "is written"):
                self.scheduler_app.write_plan(planned.plan, parsed_args.plan)
            self.closing.append(f"plan written: podm apply {parsed_args.plan} does it")
        return planned.decision

    def _dispatch(self, parsed_args: argparse.Namespace, result: DecisionResult) -> base.Table:
        self._write_report(result.report)
        rows = claims.dispatch(self, parsed_args, result.report)
        from valence_sched_cli.output.decision import summary_lines

        self.exit_code = EXIT_CODES[result.report.outcome]
        self.closing += summary_lines(result, explain=parsed_args.explain, names_id=self._names_id)
        return self._table(parsed_args, claims.DISPATCH_COLUMNS, rows)

    def _compose(self, parsed_args: argparse.Namespace, request: Request) -> base.Table:
        from valence_sched.words.decision import decided_by

        ttl_s, wait_s = claim_options.ttl_s(parsed_args), claim_options.wait_s(parsed_args)
        detail, key = claims.detail_of(parsed_args), parsed_args.key
        scheduler = self.scheduler(parsed_args)
        result = scheduler.compose(request, key=key, ttl_s=ttl_s, wait_s=wait_s, detail=detail)
        by = ""
        if result.decision is None:
            self._tell_no_report(parsed_args)
        elif not result.decision.report.placements:
            return self._show_decision(parsed_args, result.decision)
        else:
            facts = [("Composed", f"{len(result.nodes)} of {format_count(request.count, 'node')}")]
            self._write_report(result.decision.report, facts)
            self._explain(parsed_args, result.decision.report)
            by = f" {decided_by(request, names_id=self._names_id)}"
        claims.describe_result(self, result, request.count, waits=wait_s > 0, by=by)
        return claims.node_table(parsed_args, result, request)

    def _show_decision(self, parsed_args: argparse.Namespace, result: DecisionResult) -> base.Table:
        from valence_sched_cli.output import decision

        self._check_strict(parsed_args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self._has_zones = bool(result.report.zones)
        if parsed_args.dry_run == "server":
            self._preview(parsed_args, result.report)
        facts = [] if self._claim is None else [("Claim", f"{self._claim.id}, {self._claim.state}")]
        self._write_report(result.report, facts)
        self._explain(parsed_args, result.report)
        explain, names_id = parsed_args.explain, self._names_id
        self.closing += decision.summary_lines(result, explain=explain, names_id=names_id)
        columns = decision.LONG_COLUMNS if parsed_args.long else decision.COLUMNS
        return self._table(parsed_args, columns, list(decision.placement_rows(result.report)))

    def _preview(self, parsed_args: argparse.Namespace, report: Report) -> None:
        """Tell whether each chosen pod manager says that it would compose its nodes."""
        for answer in self.scheduler(parsed_args).preview(report):
            if answer.problem is not None:
                text = f"cannot tell: {answer.problem}"
            elif answer.refusal is not None:
                text = f"would not: {answer.refusal}"
                self.exit_code = self.exit_code or 1
            else:
                text = "would compose it"
            self.closing.append(f"node {answer.node}: {answer.podm} {text}")

    def _table(
        self, parsed_args: argparse.Namespace, columns: Sequence[str], rows: list[dict[str, Any]]
    ) -> base.Table:
        """Return the table with what broke the ties, and with zones where some or one is named."""
        from valence_sched_cli.output import decision

        named = {name.casefold() for name in parsed_args.columns}
        if self._has_zones or decision.ZONE.casefold() in named:
            columns = decision.with_zone(columns)
            rows = [{decision.ZONE: "", **row} for row in rows]
        if self._claim is not None:
            columns = (*columns, "Claim")
            rows = [{**row, "Claim": self._claim.id if row["Rank"] == 1 else None} for row in rows]
        if self._tied is not None:
            ties = claims.tie_cells(self._tied)
            columns, rows = (*columns, *ties), [row | ties for row in rows]
        return telling_columns(columns, rows, parsed_args), rows

    def _explain(self, parsed_args: argparse.Namespace, report: Report) -> None:
        from valence_sched_cli.output.decision import ReportRenderer, request_lines

        if not parsed_args.explain and report.placements:
            return
        given = [name for name, value in vars(parsed_args).items() if value]
        table = self._formatter_plugins["table"].obj
        renderer = ReportRenderer(table, self.app.stdout, parsed_args, given)
        if parsed_args.explain:
            self._question = request_lines(report)
            self._sections = list(renderer.explanation(report))
        else:
            self._sections = list(renderer.reasons(report))

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the rows and the sections; for programs only why nothing fits, on stderr."""
        if parsed_args.report == "-":
            return 0
        rows, people = list(data), parsed_args.formatter not in MACHINE
        if not people:
            status = super().produce_output(parsed_args, column_names, rows)
            if not rows:
                self.closing[:0] = filter(None, self._sections)
            return status
        if self._question:
            self.print_lines(self._question)
        if rows:
            super().produce_output(parsed_args, column_names, rows)
        self.print_lines(self._sections if rows or parsed_args.explain else self._sections[1:])
        return 0

    def _schedule_all(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched_cli.output import decision

        requests = self._read_requests(parsed_args)
        scheduler = self.scheduler(parsed_args)
        self._read_hardware(parsed_args, lambda: scheduler)
        whole = parsed_args.report or parsed_args.html
        try:
            decisions = scheduler.select_all(requests, detail="report" if whole else "summary")
        except (RequestError, UnknownName) as error:
            if parsed_args.policy is not None and getattr(error, "kind", "") == "policy":
                known = [policy.name for policy in scheduler.policies()]
                raise UnknownName("policy", parsed_args.policy, known) from None
            raise error.at(parsed_args.request_file) from None
        self.exit_code = EXIT_CODES[decisions.report.outcome]
        self._write_report(decisions.report)
        names = decision.request_names(requests)
        self.closing += decision.several_lines(decisions, names)
        for report in decisions.report.decisions:
            self._check_strict(parsed_args, report)
        rows = []
        for name, result in zip(names, decisions.results, strict=False):
            if decisions.failure in (None, result.report):  # where one failed, nothing is placed
                rows += [{**row, "Request": name} for row in decision.placement_rows(result.report)]
        self._has_zones = all(result.report.zones for result in decisions.results)
        return self._table(parsed_args, ("Request", *decision.COLUMNS), rows)

    def _read_requests(self, parsed_args: argparse.Namespace) -> list[Request]:
        """Return the requests of the file, all with ``--policy`` and ``--seed``.

        UsageError if an option is given that belongs into the file.
        """
        import msgspec

        for name in _FILE_ONLY_OPTIONS:
            if getattr(parsed_args, name) not in (None, []):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: with --request-file, say it in the file")
        if parsed_args.explain:
            hint = "write --report FILE and read it with scheduler explain FILE"
            raise UsageError(f"--explain: not with --request-file: {hint}")
        words = {"policy": parsed_args.policy, "seed": parsed_args.seed}
        common = {name: word for name, word in words.items() if word is not None}
        files = (parsed_args.request_file, parsed_args.flavor_file, parsed_args.near_map)
        requests = self.scheduler_app.config.read_requests(*files)
        return [msgspec.structs.replace(request, **common) for request in requests]

    def _write_report(
        self, report: Report | Reports, facts: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Write the report and the page; after an effect, a failure waits for the rows."""
        writers: list[Callable[[], None]] = []
        if self._report_writer is not None:
            writers.append(functools.partial(self._report_writer, report))
        if (hardware := self._hardware) is not None:
            from valence_sched.pages.decision import decision_page

            writers.append(lambda: self._page_writer(decision_page(report, hardware, tuple(facts))))
        for write in writers:
            try:
                write()
            except SchedulerError as error:
                if not self.effects:
                    raise
                self.untold = self.untold or error

    def _print_report(self, report: Report | Reports) -> None:
        text = self.scheduler_app.report_text(report)
        self._delivery.print(lambda stream: stream.write(text))

    def _tell_no_report(self, parsed_args: argparse.Namespace) -> None:
        known = f"what --key {parsed_args.key} stands for was decided on before"
        for option, noun in ((parsed_args.report, "report"), (parsed_args.html, "page")):
            if option:
                self.closing.append(f"no {noun}: {known}")
