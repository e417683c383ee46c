# SPDX-License-Identifier: Apache-2.0
"""The command ``podm schedule``: selects the pod manager, the pool and the blocks of each node."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched.errors import (
    InventoryIncomplete,
    RequestError,
    SchedulerError,
    UnknownName,
    UsageError,
    one_line,
)
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands import claim as claims
from valence_sched_cli.late import model, msgspec, pages, words
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
    error; 2 usage; 3 nothing fits; 4 placed in part; 5 undecided within the budget of the policy,
    or --max-age or --strict not met; 6 lost a race; 7 the composed node could not be verified, or
    the output failed.
    """

    examples = (
        "--inventory examples/site.json --flavor gpu-large --explain",
        "--flavor gpu-large --count 4 --compose --owner team-a",
    )
    _report_writer: Callable[[model.decision.Report | model.decision.Reports], None] | None = None
    _page_writer: Callable[[model.page.Page], None]
    _hardware: pages.hardware.HardwareListing | None = None  # of the page, if there is one
    _claim: model.claim.Claim | None = None
    _tied: model.request.Request | None = None  # of which something is taken
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

    def column_names(self, args: base.Args) -> Sequence[str]:
        may_have_zones = args.zone_file is not None or self.scheduler_app.service is not None
        zones = (output.decision.ZONE,) if may_have_zones else ()
        if args.request_file is not None:
            return ("Request", *output.decision.COLUMNS, *zones)
        return (*output.decision.LONG_COLUMNS, *zones, *claims.result_columns(args))

    def take_action(self, args: base.Args) -> base.Table:
        claim_options.check_options(args)
        inventory.check_zone_file(args)
        with contextlib.ExitStack() as stack:
            if args.report == "-":
                self._report_writer = self._print_report
            elif args.report:
                writer = self.scheduler_app.report_writer(args.report)
                self._report_writer = stack.enter_context(writer)
            self._page_writer = stack.enter_context(self.page_writer(args))
            if args.request_file is not None:
                return self._schedule_all(args)
            return self._schedule(args)

    def scheduler(
        self, args: base.Args, selection: model.reading.Selection | None = None
    ) -> model.scheduler.Scheduler:
        """Return the scheduler: over the zones of a file, where one is named.

        A service over zones says which gave no answer, so that --strict has a meaning there.
        """
        selection = selection or self.selection(args)
        app = self.scheduler_app
        if args.zone_file is not None:
            return app.zoned_scheduler(selection, args.zone_file, effects=self.effects)
        acts = args.claim or args.compose or args.plan is not None
        if app.service is not None and selection.strict and not acts:
            selection = msgspec.structs.replace(selection, strict=False)
        return super().scheduler(args, selection)

    def _check_strict(self, args: base.Args, report: model.decision.Report) -> None:
        if args.strict and self.scheduler_app.service is not None and not report.zones:
            hint = "leave it out, or name an inventory or a state to decide here"
            raise UsageError(f"--strict: the service decides by its own settings: {hint}")
        if args.strict and report.zones and report.zones.silent:
            raise InventoryIncomplete(one_line(next(words.phrases.zone_lines(report.zones))))

    def _schedule(self, args: base.Args) -> base.Table:
        request = self._request(args)
        if args.claim or args.compose:
            self._read_hardware(args, lambda: self.scheduler(args), reads_again=True)
        if args.compose:
            return self._compose(args, request)
        if args.claim:
            claimed = claims.claim_request(self, args, request)
            self._claim, result = claimed.claim, claimed.decision
            if result is None:
                assert claimed.claim is not None, "what was not decided now was claimed before"
                self._tell_no_report(args)
                self.exit_code = 0 if claimed.claim.nodes == request.count else 4
                columns = output.decision.LONG_COLUMNS if args.long else output.decision.COLUMNS
                return self._table(args, columns, output.decision.claim_rows(claimed.claim))
        else:
            scheduler = self.scheduler(args)
            plans = args.plan is not None
            self._read_hardware(args, lambda: scheduler, reads_again=plans)
            with flavor_named(request, args):
                result = self._decide(args, request, scheduler)
            if args.dispatch is not None and result.report.placements:
                report = self.scheduler_app.dispatchable(scheduler, result.report)
                return self._dispatch(args, msgspec.structs.replace(result, report=report))
        return self._show_decision(args, result)

    def _request(self, args: base.Args) -> model.request.Request:
        """Return the request with its id: the same question has the same answer.

        What takes hardware has an id of its own, unless a seed is given: of equal pools, equal
        callers do not all take the same.
        """
        request = make_request(self, args, args.flavor, args.nova_flavor)
        takes = args.claim or args.compose or args.dispatch is not None
        if takes and args.seed is None:
            request = model.request.with_own_id(request, args.key)
        self._names_id = bool(request.id)
        request = model.request.with_content_id(request)
        self._tied = request if takes else None
        return request

    def _read_hardware(
        self,
        args: base.Args,
        scheduler: Callable[[], model.scheduler.Scheduler],
        *,
        reads_again: bool = False,
    ) -> None:
        """Read what the page is about before an effect changes it."""
        if args.html is not None:
            self._hardware = pages.hardware.read_hardware(scheduler())
            if reads_again:  # and tells then what could not be read
                self.scheduler_app.diagnostics.clear()

    def _decide(
        self, args: base.Args, request: model.request.Request, scheduler: model.scheduler.Scheduler
    ) -> model.decision.DecisionResult:
        detail = claims.detail_of(args)
        if args.plan is None:
            return scheduler.select_destinations(request, detail=detail)
        planned = scheduler.plan(request)
        if planned.plan is None:
            self.closing.append("nothing fits: no plan was written")
        else:
            with self.effects.change("plan", args.plan, "may be written", "is written"):
                self.scheduler_app.write_plan(planned.plan, args.plan)
            self.closing.append(f"plan written: podm apply {args.plan} does it")
        return planned.decision

    def _dispatch(self, args: base.Args, result: model.decision.DecisionResult) -> base.Table:
        self._write_report(result.report)
        rows = claims.dispatch(self, args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self.closing += output.decision.summary_lines(
            result, explain=args.explain, names_id=self._names_id
        )
        return self._table(args, claims.DISPATCH_COLUMNS, rows)

    def _compose(self, args: base.Args, request: model.request.Request) -> base.Table:
        ttl_s, wait_s = claim_options.ttl_s(args), claim_options.wait_s(args)
        detail, key = claims.detail_of(args), args.key
        scheduler = self.scheduler(args)
        result = scheduler.compose(request, key=key, ttl_s=ttl_s, wait_s=wait_s, detail=detail)
        by = ""
        if result.decision is None:
            self._tell_no_report(args)
        elif not result.decision.report.placements:
            return self._show_decision(args, result.decision)
        else:
            facts = [("Composed", f"{len(result.nodes)} of {format_count(request.count, 'node')}")]
            self._write_report(result.decision.report, facts)
            self._explain(args, result.decision.report)
            by = f" {words.decision.decided_by(request, names_id=self._names_id)}"
        claims.describe_result(self, result, request.count, waits=wait_s > 0, by=by)
        return claims.node_table(args, result, request)

    def _show_decision(self, args: base.Args, result: model.decision.DecisionResult) -> base.Table:
        self._check_strict(args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self._has_zones = bool(result.report.zones)
        if args.dry_run == "server":
            self._preview(args, result.report)
        facts = [] if self._claim is None else [("Claim", f"{self._claim.id}, {self._claim.state}")]
        self._write_report(result.report, facts)
        self._explain(args, result.report)
        explain, names_id = args.explain, self._names_id
        self.closing += output.decision.summary_lines(result, explain=explain, names_id=names_id)
        columns = output.decision.LONG_COLUMNS if args.long else output.decision.COLUMNS
        return self._table(args, columns, list(output.decision.placement_rows(result.report)))

    def _preview(self, args: base.Args, report: model.decision.Report) -> None:
        """Tell whether each chosen pod manager says that it would compose its nodes."""
        for answer in self.scheduler(args).preview(report):
            if answer.problem is not None:
                text = f"cannot tell: {answer.problem}"
            elif answer.refusal is not None:
                text = f"would not: {answer.refusal}"
                self.exit_code = self.exit_code or 1
            else:
                text = "would compose it"
            self.closing.append(f"node {answer.node}: {answer.podm} {text}")

    def _table(
        self, args: base.Args, columns: Sequence[str], rows: list[dict[str, Any]]
    ) -> base.Table:
        """Return the table with what broke the ties, and with zones where some or one is named."""
        named = {name.casefold() for name in args.columns}
        if self._has_zones or output.decision.ZONE.casefold() in named:
            columns = output.decision.with_zone(columns)
            rows = [{output.decision.ZONE: "", **row} for row in rows]
        if self._claim is not None:
            columns = (*columns, "Claim")
            rows = [{**row, "Claim": self._claim.id if row["Rank"] == 1 else None} for row in rows]
        if self._tied is not None:
            ties = claims.tie_cells(self._tied)
            columns, rows = (*columns, *ties), [row | ties for row in rows]
        return telling_columns(columns, rows, args), rows

    def _explain(self, args: base.Args, report: model.decision.Report) -> None:
        if not args.explain and report.placements:
            return
        given = [name for name, value in vars(args).items() if value]
        table = self._formatter_plugins["table"].obj
        renderer = output.decision.ReportRenderer(table, self.app.stdout, args, given)
        if args.explain:
            self._question = output.decision.request_lines(report)
            self._sections = list(renderer.explanation(report))
        else:
            self._sections = list(renderer.reasons(report))

    def produce_output(self, args: base.Args, column_names: Sequence[str], data: Any) -> int:
        """Print the rows and the sections; for programs only why nothing fits, on stderr."""
        if args.report == "-":
            return 0
        rows, people = list(data), args.formatter not in MACHINE
        if not people:
            status = super().produce_output(args, column_names, rows)
            if not rows:
                self.closing[:0] = filter(None, self._sections)
            return status
        if self._question:
            self.print_lines(self._question)
        if rows:
            super().produce_output(args, column_names, rows)
        self.print_lines(self._sections if rows or args.explain else self._sections[1:])
        return 0

    def _schedule_all(self, args: base.Args) -> base.Table:
        requests = self._read_requests(args)
        scheduler = self.scheduler(args)
        self._read_hardware(args, lambda: scheduler)
        whole = args.report or args.html
        try:
            decisions = scheduler.select_all(requests, detail="report" if whole else "summary")
        except (RequestError, UnknownName) as error:
            if args.policy is not None and getattr(error, "kind", "") == "policy":
                known = [policy.name for policy in scheduler.policies()]
                raise UnknownName("policy", args.policy, known) from None
            raise error.at(args.request_file) from None
        self.exit_code = EXIT_CODES[decisions.report.outcome]
        self._write_report(decisions.report)
        names = output.decision.request_names(requests)
        self.closing += output.decision.several_lines(decisions, names)
        for report in decisions.report.decisions:
            self._check_strict(args, report)
        rows = []
        for name, result in zip(names, decisions.results, strict=False):
            if decisions.failure in (None, result.report):  # where one failed, nothing is placed
                rows += [
                    {**row, "Request": name}
                    for row in output.decision.placement_rows(result.report)
                ]
        self._has_zones = all(result.report.zones for result in decisions.results)
        return self._table(args, ("Request", *output.decision.COLUMNS), rows)

    def _read_requests(self, args: base.Args) -> list[model.request.Request]:
        """Return the requests of the file, all with ``--policy`` and ``--seed``.

        UsageError if an option is given that belongs into the file.
        """
        for name in _FILE_ONLY_OPTIONS:
            if getattr(args, name) not in (None, []):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: with --request-file, say it in the file")
        if args.explain:
            hint = "write --report FILE and read it with scheduler explain FILE"
            raise UsageError(f"--explain: not with --request-file: {hint}")
        words = {"policy": args.policy, "seed": args.seed}
        common = {name: word for name, word in words.items() if word is not None}
        files = (args.request_file, args.flavor_file, args.near_map)
        requests = self.scheduler_app.config.read_requests(*files)
        return [msgspec.structs.replace(request, **common) for request in requests]

    def _write_report(
        self,
        report: model.decision.Report | model.decision.Reports,
        facts: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Write the report and the page; after an effect, a failure waits for the rows."""
        writers: list[Callable[[], None]] = []
        if self._report_writer is not None:
            writers.append(functools.partial(self._report_writer, report))
        if (hardware := self._hardware) is not None:
            writers.append(
                lambda: self._page_writer(
                    pages.decision.decision_page(report, hardware, tuple(facts))
                )
            )
        for write in writers:
            try:
                write()
            except SchedulerError as error:
                if not self.effects:
                    raise
                self.untold = self.untold or error

    def _print_report(self, report: model.decision.Report | model.decision.Reports) -> None:
        text = self.scheduler_app.report_text(report)
        self._delivery.print(lambda stream: stream.write(text))

    def _tell_no_report(self, args: base.Args) -> None:
        known = f"what --key {args.key} stands for was decided on before"
        for option, noun in ((args.report, "report"), (args.html, "page")):
            if option:
                self.closing.append(f"no {noun}: {known}")
