# SPDX-License-Identifier: Apache-2.0
"""The command ``podm schedule``: selects the pod manager, the pool and the blocks of each node."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import RequestError, SchedulerError, UnknownName, UsageError
from valence_sched_cli import base
from valence_sched_cli.commands import page_file
from valence_sched_cli.commands.claim import (
    DISPATCH_COLUMNS,
    claim_request,
    claim_rows,
    describe_result,
    detail_of,
    dispatch,
    node_table,
    preview,
    result_columns,
    with_ties,
)
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory, placement
from valence_sched_cli.options.request import add_request_options, flavor_named, make_request
from valence_sched_cli.output import decision
from valence_sched_cli.output.cells import format_count, or_absent
from valence_sched_cli.output.decision import (
    COLUMNS,
    EXIT_CODES,
    LONG_COLUMNS,
    REDUNDANT,
    ZONE,
    ReportRenderer,
    check_zones,
    decided_by,
    not_chosen,
    placement_rows,
    request_lines,
    request_names,
    summary_lines,
    with_zones,
    zone_cells,
)
from valence_sched_cli.output.table import MACHINE, without_redundant

if TYPE_CHECKING:
    from valence_sched.app import App
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import (
        DecisionResult,
        DecisionResults,
        Detail,
        Report,
        Reports,
    )
    from valence_sched.model.reading import Selection
    from valence_sched.model.request import Request
    from valence_sched.model.scheduler import Scheduler

FILE_COLUMNS = ("Request", *decision.COLUMNS)

#: Options that are allowed beside a file; the file has all others, for each request by itself.
_COMMON_OPTIONS = ("policy", "seed")
_FILE_ONLY_OPTIONS = (
    "flavor", "count", "min_count", "alternates", "podm", "exclude_podm", "zone", "attribute",
    *placement.OPTION_DESTS, "nova_flavor", "request_id",
)  # fmt: skip


def read_requests(app: App, args: argparse.Namespace) -> list[Request]:
    """Return the requests of the file, all with ``--policy`` and ``--seed``.

    UsageError if an option is given that belongs into the file.
    """
    import msgspec

    for name in _FILE_ONLY_OPTIONS:
        if getattr(args, name) not in (None, []):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: with --request-file, say it in the file")
    if args.explain:
        hint = "write --report FILE and read it with scheduler explain FILE"
        raise UsageError(f"--explain: not with --request-file: {hint}")
    common = {name: value for name in _COMMON_OPTIONS if (value := getattr(args, name)) is not None}
    requests = app.config.read_requests(args.request_file, args.flavor_file, args.near_map)
    return [msgspec.structs.replace(request, **common) for request in requests]


def decide_file(
    scheduler: Scheduler, requests: Sequence[Request], args: argparse.Namespace
) -> DecisionResults:
    """Return the decisions on the requests of the file; errors name the file."""
    detail: Detail = "report" if args.report or args.html else "summary"
    try:
        return scheduler.select_all(requests, detail=detail)
    except (RequestError, UnknownName) as error:
        if args.policy is not None and getattr(error, "kind", "") == "policy":
            known = [policy.name for policy in scheduler.policies()]
            raise UnknownName("policy", args.policy, known) from None
        raise error.at(args.request_file) from None


def file_zones(decisions: DecisionResults) -> list[str] | None:
    """Return the zone of each row, None where no zones were asked."""
    found: list[str] = []
    for result in decisions.results:
        cells = decision.zone_cells(result.report)
        if cells is None:
            return None
        found += cells
    return found


def file_rows(decisions: DecisionResults, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node; where one request failed, nothing is placed."""
    for name, result in zip(names, decisions.results, strict=False):
        if decisions.failure in (None, result.report):
            for row in decision.placement_rows(result.report):
                yield (name, *row[: len(decision.COLUMNS)])


def file_lines(decisions: DecisionResults, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines about the outcome, the outcome itself last."""
    report, failure = decisions.report, decisions.failure
    notes = (note for one in report.decisions for note in decision.zone_notes(one))
    yield from decision.warning_lines(dict.fromkeys((*report.warnings, *notes)))
    for name, result in zip(names, decisions.results, strict=False):
        if result.details is not None and failure in (None, result.report):
            if failure is not None:
                yield from not_chosen(result.report)
            for line in decision.outcome_lines(result, "min_count: {}"):
                yield f"{name}: {line}"
    count, tried = len(names), len(report.decisions)
    of = format_count(count, "request")
    if failure and count > 1:
        left = f", {count - tried} not tried" if count > tried else ""
        yield f"{names[tried - 1]} fails all {of}{left}"
    yield f"placed {report.placed:,} of {format_count(report.requested, 'node')} of {of}"


class SchedulePodm(base.Lister):
    """Choose the pod manager, pool and blocks of a node.

    Nothing is held or composed unless --claim or --compose says so; --plan saves what podm apply
    does later, --dispatch hands the decision to somebody else. Exit codes: 0 placed; 1
    error; 2 usage; 3 nothing fits; 4 placed in part; 5 when the budget of the policy left undecided
    what fits, with --max-age when something is older, or with --strict when something was not read;
    6 somebody else was faster; 7 what was composed could not be verified, or not all of it be told.
    """

    through_service = True
    effectful = True
    examples = (
        "--inventory examples/site.json --flavor gpu-large --explain",
        "--flavor gpu-large --count 4 --compose --owner team-a",
    )
    _report_writer: Callable[[Report | Reports], None] | None = None
    _page: page_file.PageFile | None = None
    _claim: Claim | None = None
    _tied: Request | None = None  # of which something is taken
    _names_id = False
    _zones: Sequence[str] | None = None
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
        page_file.html_option("the decision and a map of the site"),
        claim_options.CLAIM_OR_COMPOSE,
    )

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        may_have_zones = parsed_args.zone_file is not None or self.scheduler_app.service is not None
        zones = (ZONE,) if may_have_zones else ()
        if parsed_args.request_file is not None:
            return (*FILE_COLUMNS, *zones)
        return (*LONG_COLUMNS, *zones, *result_columns(parsed_args))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        claim_options.check_options(parsed_args)
        inventory.check_zone_file(parsed_args)
        with contextlib.ExitStack() as stack:
            if parsed_args.report == "-":
                self._report_writer = self._print_report
            elif parsed_args.report:
                writer = self.scheduler_app.report_writer(parsed_args.report)
                self._report_writer = stack.enter_context(writer)
            self._page = stack.enter_context(page_file.page_file(self.scheduler_app, parsed_args))
            return self._act(parsed_args)

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
        if not parsed_args.strict:
            return
        if self.scheduler_app.service is not None and not report.zones:
            raise UsageError("--strict: the service decides by its own settings: leave it out, or "
                             "name an inventory or a state to decide here")  # fmt: skip
        check_zones(report)

    def _act(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        if parsed_args.request_file is not None:
            return self._schedule_all(parsed_args)
        request = self._request(parsed_args)
        if parsed_args.claim or parsed_args.compose:
            self._read_hardware(lambda: self.scheduler(parsed_args), reads_again=True)
        if parsed_args.compose:
            return self._compose(parsed_args, request)
        if parsed_args.claim:
            claimed = claim_request(self, parsed_args, request)
            self._claim, result = claimed.claim, claimed.decision
            if result is None:
                assert claimed.claim is not None, "what was not decided now was claimed before"
                self._tell_no_report(parsed_args)
                self.exit_code = 0 if claimed.claim.nodes == request.count else 4
                return self._rows(parsed_args, claim_rows(claimed.claim))
        else:
            scheduler = self.scheduler(parsed_args)
            self._read_hardware(lambda: scheduler, reads_again=parsed_args.plan is not None)
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
        self, scheduler: Callable[[], Scheduler], *, reads_again: bool = False
    ) -> None:
        if self._page is not None:
            self._page.read_hardware(scheduler())
            if reads_again:  # and tells then what could not be read
                self.scheduler_app.diagnostics.clear()

    def _decide(
        self, parsed_args: argparse.Namespace, request: Request, scheduler: Scheduler
    ) -> DecisionResult:
        detail = detail_of(parsed_args)
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
        rows = dispatch(self, parsed_args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self.closing += summary_lines(result, explain=parsed_args.explain, names_id=self._names_id)
        columns: Sequence[str] = DISPATCH_COLUMNS
        if self._tied is not None:
            columns, rows = with_ties(columns, rows, self._tied)
        return without_redundant(columns, rows, parsed_args, REDUNDANT)

    def _compose(self, parsed_args: argparse.Namespace, request: Request) -> base.Table:
        ttl_s, wait_s = claim_options.ttl_s(parsed_args), claim_options.wait_s(parsed_args)
        detail = detail_of(parsed_args)
        result = self.scheduler(parsed_args).compose(
            request, key=parsed_args.key, ttl_s=ttl_s, wait_s=wait_s, detail=detail
        )
        if result.decision is not None:
            if not result.decision.report.placements:
                return self._show_decision(parsed_args, result.decision)
            facts = [("Composed", f"{len(result.nodes)} of {format_count(request.count, 'node')}")]
            self._write_report(result.decision.report, facts)
            self._explain(parsed_args, result.decision.report)
        else:
            self._tell_no_report(parsed_args)
        by = f" {decided_by(request, names_id=self._names_id)}" if result.decision else ""
        describe_result(self, result, request.count, waits=wait_s > 0, by=by)
        return node_table(parsed_args, result, request)

    def _show_decision(self, parsed_args: argparse.Namespace, result: DecisionResult) -> base.Table:
        self._check_strict(parsed_args, result.report)
        self.exit_code = EXIT_CODES[result.report.outcome]
        self._zones = zone_cells(result.report)
        if parsed_args.dry_run == "server":
            preview(self, parsed_args, result.report)
        facts = [] if self._claim is None else [("Claim", f"{self._claim.id}, {self._claim.state}")]
        self._write_report(result.report, facts)
        self._explain(parsed_args, result.report)
        self.closing += summary_lines(result, explain=parsed_args.explain, names_id=self._names_id)
        return self._rows(parsed_args, list(placement_rows(result.report)))

    def _zones_of(
        self, parsed_args: argparse.Namespace, rows: list[Any], zones: Sequence[str] | None
    ) -> Sequence[str] | None:
        """Return the zone of each row; a column that is named has no zone where there are none."""
        named = {name.casefold() for name in parsed_args.columns}
        return [""] * len(rows) if zones is None and ZONE.casefold() in named else zones

    def _rows(self, parsed_args: argparse.Namespace, rows: list[tuple[Any, ...]]) -> base.Table:
        columns: Sequence[str] = LONG_COLUMNS if parsed_args.long else COLUMNS
        rows = [row[: len(columns)] for row in rows]
        columns, rows = with_zones(columns, rows, self._zones_of(parsed_args, rows, self._zones))
        if self._claim is not None:
            columns, rank = (*columns, "Claim"), columns.index("Rank")
            rows = [(*row, or_absent(self._claim.id if row[rank] == 1 else None)) for row in rows]
        if self._tied is not None:
            columns, rows = with_ties(columns, rows, self._tied)
        return without_redundant(columns, rows, parsed_args, REDUNDANT)

    def _explain(self, parsed_args: argparse.Namespace, report: Report) -> None:
        if parsed_args.explain:
            self._question = request_lines(report)
        self._sections = list(self._explained(parsed_args, report))

    def _explained(self, parsed_args: argparse.Namespace, report: Report) -> Iterator[str]:
        if not (parsed_args.explain or not report.placements):
            return
        given = [name for name, value in vars(parsed_args).items() if value]
        table = self._formatter_plugins["table"].obj
        renderer = ReportRenderer(table, self.app.stdout, parsed_args, given)
        yield from renderer.explanation(report) if parsed_args.explain else renderer.reasons(report)

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
        requests = read_requests(self.scheduler_app, parsed_args)
        scheduler = self.scheduler(parsed_args)
        self._read_hardware(lambda: scheduler)
        decisions = decide_file(scheduler, requests, parsed_args)
        self.exit_code = EXIT_CODES[decisions.report.outcome]
        self._write_report(decisions.report)
        names = request_names(requests)
        self.closing += file_lines(decisions, names)
        for report in decisions.report.decisions:
            self._check_strict(parsed_args, report)
        rows = list(file_rows(decisions, names))
        zones = self._zones_of(parsed_args, rows, file_zones(decisions))
        columns, rows = with_zones(FILE_COLUMNS, rows, zones)
        return without_redundant(columns, rows, parsed_args, REDUNDANT)

    def _write_report(
        self, report: Report | Reports, facts: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Write the report and the page; after an effect, a failure waits for the rows."""
        writers: list[Callable[[], None]] = []
        if self._report_writer is not None:
            writers.append(functools.partial(self._report_writer, report))
        if (page := self._page) is not None:
            from valence_sched.pages.decision import decision_page

            writers.append(lambda: page.write(decision_page(report, page.hardware, tuple(facts))))
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
        for option, noun in ((parsed_args.report, "report"), (parsed_args.html, "page")):
            if option:
                self.closing.append(f"no {noun}: what --key {parsed_args.key} stands for was "
                                    "decided on before")  # fmt: skip
