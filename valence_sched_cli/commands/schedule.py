# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm schedule, apply``: decide, and claim or compose; carry out a saved plan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched import errors
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands import claim as claims, node_change
from valence_sched_cli.late import model, msgspec, pages, words
from valence_sched_cli.options import inventory, request as request_options
from valence_sched_cli.options.parser import given, option_name
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import MACHINE, STRUCTURED, telling_columns

#: Options that --request-file excludes: the file sets them for each request.
_FILE_ONLY_OPTIONS = (
    *("flavor", "count", "min_count", "alternates", "podm", "exclude_podm", "zone", "attribute"),
    *(*request_options.OPTION_DESTS, "nova_flavor", "request_id"),
)
EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4, "undecided": 5}


class SchedulePodm(base.ReasonLister):
    """Choose the pod manager, pool and blocks of a node.

    Only --claim and --compose hold or compose blocks. --plan writes a plan for podm apply.
    --dispatch sends the decision to an external controller. Exit codes: 0 placed; 1 error; 2 usage;
    3 nothing fits; 4 placed in part; 5 undecided within the budget of the policy, or --max-age or
    --strict not met; 6 lost a race; 7 the composed node could not be verified, or the output
    failed.
    """

    examples = (
        "--inventory examples/site.json --flavor gpu-large --explain",
        "--flavor gpu-large --count 4 --compose --owner team-a",
    )
    _report_writer: Callable[[model.decision.Report | model.decision.Reports], None]
    _page_writer: Callable[[model.page.Page], None]
    _hardware: pages.hardware.HardwareListing | None = None  # the hardware for --html
    _claim: model.claim.Claim | None = None
    _document: model.decision.Report | None = None  # printed instead of the rows
    _tied: model.request.Request | None = None  # the request whose seed and ID the rows show
    _names_id = _has_zones = False
    option_settings = {**claims.OPTION_SETTINGS, **request_options.SETTINGS}
    option_groups = (
        inventory.INVENTORY,
        inventory.ZONE_FILE,
        request_options.FLAVOR,
        request_options.OPTIONS,
        request_options.REQUEST_ID,
        """
        what --request-file <file>: YAML or JSON file of requests, or - for standard input, instead
            of --flavor; either all requests are placed or none
        what --count <n>: number of nodes (default: 1)
        what --min-count <m>: accept this many nodes if not all fit (default: all or nothing)
        decide --alternates <k>: also list the k next best pod managers for each node
        output --explain: explain the choice: candidates with scores, reasons against the other pod
            managers, near misses and sensitivity
        output --all-reasons: list every pod manager that was not chosen, without a limit
        output --long: list more columns
        output --report <file>: write the whole decision to this file as JSON; - prints it instead
            of the rows""",
        inventory.html_option("the decision and a map of the site"),
        claims.CLAIM_OR_COMPOSE,
    )

    def column_names(self, args: base.Args) -> Sequence[str]:
        may_have_zones = args.zone_file is not None or self.scheduler_app.service is not None
        zones = (output.decision.ZONE,) if may_have_zones else ()
        if args.request_file is not None:
            return ("Request", *output.decision.COLUMNS, *zones)
        more: Sequence[str] = ("Claim",) if args.claim else ()
        if args.compose or args.dispatch is not None:
            more = claims.NODE_COLUMNS if args.compose else claims.DISPATCH_COLUMNS
        return (*output.decision.LONG_COLUMNS, *zones, *more, *(claims.TIE_COLUMNS if more else ()))

    def take_action(self, args: base.Args) -> base.Table:
        claims.check_options(args)
        acts = args.claim or args.compose or args.dispatch is not None
        explains = STRUCTURED if not (acts or args.columns) else ()
        rows_alone = args.formatter in MACHINE and args.formatter not in explains
        if args.explain and rows_alone and not args.report:
            hint = "write --report FILE and read it with scheduler explain FILE"
            raise errors.UsageError(f"--explain: not with machine-readable rows: {hint}")
        app, file = self.scheduler_app, None if args.report == "-" else args.report
        report = base.file_writer(app.report_writer, file)
        with report as write, self.page_writer(args) as self._page_writer:
            self._report_writer = self._print_report if args.report == "-" else write
            return self._schedule() if args.request_file is None else self._schedule_all()

    def scheduler(
        self, args: base.Args, selection: model.reading.Selection | None = None
    ) -> model.scheduler.Scheduler:
        """Return the scheduler, with --zone-file over the zones in that file."""
        app, selection = self.scheduler_app, selection or self.selection(args)
        if args.zone_file is not None:
            return app.zoned_scheduler(selection, args.zone_file, effects=self.effects)
        acts = args.claim or args.compose or args.plan is not None
        if app.service is not None and selection.strict and not acts:
            selection = msgspec.structs.replace(selection, strict=False)
        return super().scheduler(args, selection)

    def _check_strict(self, report: model.decision.Report) -> None:
        if self.args.strict and self.scheduler_app.service is not None and not report.zones:
            hint = "omit it, or name an inventory or a state for a local decision"
            raise errors.UsageError(f"--strict: the service uses its own setting: {hint}")
        if self.args.strict and report.zones and report.zones.silent:
            raise errors.InventoryIncomplete(next(words.phrases.zone_lines(report.zones)))

    def _schedule(self) -> base.Table:
        args, request = self.args, self._request()
        if args.claim or args.compose:
            self._read_hardware()
            return self._compose(request) if args.compose else self._hold(request)
        scheduler = self.scheduler(args)
        self._read_hardware(scheduler)
        with request_options.flavor_named(request, args):
            if args.plan is None:
                result = scheduler.select_destinations(request, detail=self._detail)
            else:
                result = self._plan(request, scheduler)
        if args.plan is None:
            result = self._shrunk(request, scheduler, result)
        if args.dispatch is None or not result.report.placements:
            return self._show_decision(result)
        report = self.scheduler_app.dispatchable(scheduler, result.report)
        self._write_report(report)
        rows = claims.dispatch(self, report)
        self._log_outcome(msgspec.structs.replace(result, report=report))
        return self._table(claims.DISPATCH_COLUMNS, rows)

    def _hold(self, request: model.request.Request) -> base.Table:
        args, scheduler, ttl_s = self.args, self.scheduler(self.args), claims.ttl_s(self.args)
        claimed = scheduler.claim(request, key=args.key, ttl_s=ttl_s, detail=self._detail)
        self._claim = claim = claimed.claim
        lines = claims.claim_lines(self, claim) if claim else []
        if (result := claimed.decision) is not None:
            self.closing += lines
            self._shrunk(request, scheduler, result)
            return self._show_decision(result)
        assert claim is not None, "there is a new decision or an earlier claim"
        self.closing += [f"--key {args.key} already belongs to this claim", *lines]
        self._log_no_report()
        self.exit_code = 0 if claim.nodes == request.count else 4
        return self._table(self._columns, output.decision.claim_rows(claim))

    def _request(self) -> model.request.Request:
        """Return the request of the options with an ID.

        Equal requests have equal IDs, and so the same decision. A claim without a seed gets a
        random ID, so that concurrent callers do not choose the same pool.
        """
        args = self.args
        request = request_options.make_request(self, args, args.flavor, args.nova_flavor)
        takes = args.claim or args.compose or args.dispatch is not None
        if takes and args.seed is None:
            request = model.request.with_own_id(request, args.key)
        self._names_id = bool(request.id)
        request = model.request.with_content_id(request)
        self._tied = request if takes else None
        return request

    def _read_hardware(self, scheduler: model.scheduler.Scheduler | None = None) -> None:
        """Read the inventory for the page before the command changes it."""
        if self.args.html is not None:
            reader = scheduler or self.scheduler(self.args)
            self._hardware = self.read_hardware(reader, reader.podms())
            if scheduler is None or self.args.plan is not None:
                self.scheduler_app.diagnostics.clear()  # the decision reads and reports again

    def _plan(
        self, request: model.request.Request, scheduler: model.scheduler.Scheduler
    ) -> model.decision.DecisionResult:
        file, planned = self.args.plan, scheduler.plan(request)
        if planned.plan is None:
            self.closing.append("nothing fits: no plan was written")
        else:
            with self.writing("plan", file):
                self.scheduler_app.write_plan(planned.plan, file)
            self.closing += words.phrases.shrink_lines(planned.plan.shrinks)
            self.closing.append(f"plan written: to carry it out, run podm apply {file}")
        return planned.decision

    def _shrunk(
        self,
        request: model.request.Request,
        scheduler: model.scheduler.Scheduler,
        result: model.decision.DecisionResult,
    ) -> model.decision.DecisionResult:
        """Return the decision that takes blocks from shrinkable nodes, else the one without.

        A claim, a dispatched decision and a preview take nothing: a line tells what does.
        """
        report, args = result.report, self.args
        if report.placements or report.policy.shrink == "never":
            return result
        planned = scheduler.plan(request)
        if planned.plan is None:
            return result
        self.closing += words.phrases.shrink_lines(planned.plan.shrinks)
        direct = "omit --key" if args.compose else "use --compose"  # over zones, without a key
        self.closing.append(f"to carry it out, {direct}, or use --plan and podm apply")
        acts = args.claim or args.dispatch is not None or args.dry_run == "server"
        return result if acts else planned.decision

    def _compose(self, request: model.request.Request) -> base.Table:
        args, by = self.args, ""
        times = {"ttl_s": claims.ttl_s(args), "wait_s": claims.wait_s(args)}
        result = self.scheduler(args).compose(request, key=args.key, detail=self._detail, **times)
        if result.decision is None:
            self._log_no_report()
        elif not result.decision.report.placements:
            self._shrunk(request, self.scheduler(args), result.decision)
            return self._show_decision(result.decision)
        else:
            self.closing += words.phrases.shrink_lines(result.shrinks)
            nodes = model.quantity.format_count(request.count, "node")
            facts = [("Composed", f"{len(result.nodes)} of {nodes}")]
            self._write_report(result.decision.report, facts)
            self._explain(result.decision.report)
            by = f" {words.decision.decided_by(request, names_id=self._names_id)}"
        return claims.node_table(self, result, request.count, by, request)

    def _show_decision(self, result: model.decision.DecisionResult) -> base.Table:
        report = result.report
        self._check_strict(report)
        self._has_zones = bool(report.zones)
        asks = self.args.dry_run == "server"
        for answer in self.scheduler(self.args).preview(report) if asks else ():
            if answer.refusal is not None and answer.problem is None:
                self.exit_code = 1
            self.closing.append(words.phrases.preview_line(answer))
        facts = []
        if (claim := self._claim) is not None:
            facts = [("Claim", f"{claim.id}, {words.phrases.state_text(claim.state)}")]
        self._write_report(report, facts)
        self._explain(report)
        self._log_outcome(result)
        return self._table(self._columns, list(output.decision.placement_rows(report)))

    def _log_outcome(self, result: model.decision.DecisionResult) -> None:
        self.exit_code = EXIT_CODES[result.report.outcome] or self.exit_code
        explain, names_id = self.args.explain, self._names_id
        self.closing += words.decision.summary_lines(result, explain=explain, names_id=names_id)

    @property
    def _columns(self) -> Sequence[str]:
        return output.decision.LONG_COLUMNS if self.args.long else output.decision.COLUMNS

    @property
    def _detail(self) -> model.decision.Detail:
        args = self.args
        whole = args.explain or args.report or args.html or args.dispatch is not None
        return "report" if whole else "summary"

    def _table(self, columns: Sequence[str], rows: list[dict[str, Any]]) -> base.Table:
        """Return the table, with columns for seed and request ID or for zones if needed."""
        args = self.args
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

    def _explain(self, report: model.decision.Report) -> None:
        args, structured = self.args, self.args.formatter in STRUCTURED
        if not args.explain and report.placements:
            return
        if args.explain and structured and not (args.columns or args.report):
            self._document = report
            return
        given = [name for name, value in vars(args).items() if value]
        table = self._formatter_plugins["table"].obj
        renderer = output.decision.ReportRenderer(table, self.app.stdout, args, given)
        if args.explain:
            self.before = output.decision.request_lines(report)
            self.after = list(renderer.explanation(report))
        else:
            self.after = list(renderer.reasons(report))

    def produce_output(self, args: base.Args, column_names: Sequence[str], data: Any) -> int:
        if args.report == "-":
            return 0
        if self._document is not None:
            return self.print_object(output.decision.document_fields(self._document))
        return super().produce_output(args, column_names, data)

    def _schedule_all(self) -> base.Table:
        args, requests = self.args, self._read_requests()
        scheduler = self.scheduler(args)
        self._read_hardware(scheduler)
        try:
            decisions = scheduler.select_all(requests, detail=self._detail)
        except (errors.RequestError, errors.UnknownName) as error:
            if args.policy is not None and getattr(error, "kind", "") == "policy":
                known = [policy.name for policy in scheduler.policies()]
                raise errors.UnknownName("policy", args.policy, known) from None
            raise error.at(args.request_file) from None
        self.exit_code = EXIT_CODES[decisions.report.outcome]
        self._write_report(decisions.report)
        names = words.decision.request_names(requests)
        self.closing += output.decision.several_lines(decisions, names)
        for report in decisions.report.decisions:
            self._check_strict(report)
        rows: list[dict[str, Any]] = []
        for name, result in zip(names, decisions.results, strict=False):
            if decisions.report.failure in (None, result.report):  # a failed request fails all
                placed = output.decision.placement_rows(result.report)
                rows += ({**row, "Request": name} for row in placed)
        self._has_zones = all(result.report.zones for result in decisions.results)
        return self._table(("Request", *output.decision.COLUMNS), rows)

    def _read_requests(self) -> list[model.request.Request]:
        """Return the requests of the file with ``--policy`` and ``--seed``; or UsageError."""
        args = self.args
        for name in _FILE_ONLY_OPTIONS:
            if getattr(args, name) not in (None, []):
                raise errors.UsageError(
                    f"{option_name(name)}: with --request-file, set it in the file"
                )
        if args.explain:
            hint = "write --report FILE and read it with scheduler explain FILE"
            raise errors.UsageError(f"--explain: not with --request-file: {hint}")
        files = (args.request_file, args.flavor_file, args.near_map)
        requests = self.scheduler_app.config.read_requests(*files)
        common = given(args, "policy", "seed")
        return [msgspec.structs.replace(request, **common) for request in requests]

    def _write_report(self, report: Any, facts: Sequence[tuple[str, str]] = ()) -> None:
        """Write report and page; if that fails after an effect, print the rows first."""
        writers: list[Callable[[], None]] = [functools.partial(self._report_writer, report)]
        if (hardware := self._hardware) is not None:
            page = pages.decision.decision_page
            writers.append(lambda: self._page_writer(page(report, hardware, tuple(facts))))
        for write in writers:
            try:
                write()
            except errors.SchedulerError as error:
                if not self.effects:
                    raise
                self.untold = self.untold or error

    def _print_report(self, report: model.decision.Report | model.decision.Reports) -> None:
        text = self.scheduler_app.report_text(report)
        self.print(lambda stream: stream.write(text))

    def _log_no_report(self) -> None:
        known = f"--key {self.args.key} belongs to an earlier decision"
        for option, noun in ((self.args.report, "report"), (self.args.html, "page")):
            if option:
                self.closing.append(f"no {noun}: {known}")


PLANNED_COLUMNS = ("Node", "Podm", "Pool", "Blocks", "Claim")
REFRESH_COLUMNS = (
    *("Node", "Differs", "Old Podm", "Old Pool", "Old Blocks", "New Podm", "New Pool"),
    "New Blocks",
)
MAX_LISTED_CHANGES = 20  # lines about changes since the plan


class ApplyPodm(base.Lister):
    """Carry out a plan of podm schedule --plan.

    Uses exactly the blocks in the plan. If one of them is not available, nothing is done. Plans of
    podm node attach, detach and resize are refused if the node was changed since.

    Exit codes: 0 done; 1 error; 4 composed in part; 5 a pod manager could not be read; 6
    the plan is out of date, or its hardware is in use; 7 a composed node could not be verified, or
    output failed; 10 with --refresh and --detailed-exitcode if the decision differs now.
    """

    examples = ("node.json --key ticket-7", "node.json --refresh --detailed-exitcode")
    arguments = """
        <plan>: file of the plan, or - for standard input
        then | --claim: only hold the blocks of the plan
        then | --compose: hold the blocks and compose the nodes (default)
        then | --refresh: decide again on the present inventory and show the differences; change
            nothing
        then --detailed-exitcode: with --refresh, exit 10 if the decision differs now"""
    option_settings = {
        "plan": {"dest": "planned"},
        **claims.OPTION_SETTINGS,
        **inventory.DRAIN_SETTINGS,
    }
    option_groups = (inventory.INVENTORY, inventory.POLICY_FILE, claims.CLAIM, inventory.DRAIN)

    def column_names(self, args: base.Args) -> Sequence[str]:
        if args.refresh:
            return REFRESH_COLUMNS
        columns = PLANNED_COLUMNS if args.claim else claims.NODE_COLUMNS
        return tuple(dict.fromkeys((*columns, *node_change.COLUMNS)))

    def take_action(self, args: base.Args) -> base.Table:
        wait_s = claims.wait_s(args)
        holds = not args.refresh
        claims.refuse_idle(args, holds=holds, composes=holds and not args.claim)
        if args.detailed_exitcode and holds:
            raise errors.UsageError("--detailed-exitcode: needs --refresh")
        plan = self.scheduler_app.read_plan(args.planned)
        if isinstance(plan, model.node_change.NodeChangePlan):
            if idle := [name for name in ("claim", "refresh", "ttl") if getattr(args, name)]:
                hint = "the plan changes a node: omit it"
                raise errors.UsageError(f"{option_name(idle[0])}: {hint}")
            return node_change.apply_plan(self, plan)
        if inventory.drain_settings(args) is not None and not plan.shrinks:
            hint = "the plan detaches no block: omit it"
            raise errors.UsageError(f"--drain-command, --drain-url: {hint}")
        if args.refresh:
            return self._refresh(args, plan)
        scheduler, ttl_s = self.scheduler(args), claims.ttl_s(args)
        if not args.claim:
            result = scheduler.compose_plan(plan, key=args.key, ttl_s=ttl_s, wait_s=wait_s)
            return claims.node_table(self, result, plan.decision.request.count)
        claim = scheduler.claim_plan(plan, key=args.key, ttl_s=ttl_s)
        self.closing += claims.claim_lines(self, claim)
        zone = plan.zone and f"{plan.zone}/"
        return PLANNED_COLUMNS, [
            (one.node, f"{zone}{one.chosen.podm}", one.chosen.pool, _blocks(one), claim.id)
            for one in plan.decision.placements
        ]

    def _refresh(self, args: base.Args, plan: model.plan.Plan) -> base.Table:
        refresh = self.scheduler(args).refresh(plan)
        changes = refresh.changes
        self.closing += [f"changed: {change}" for change in changes[:MAX_LISTED_CHANGES]]
        if len(changes) > MAX_LISTED_CHANGES:
            differences = model.quantity.format_count(len(changes), "difference")
            self.closing.append(f"changed: {differences} in all")
        rows = []
        before, after = (
            {one.node: one for one in some}
            for some in (plan.decision.placements, refresh.report.placements)
        )
        for node in sorted({*before, *after}):
            old, new = before.get(node), after.get(node)
            row: dict[str, Any] = {"Node": node, "Differs": not model.plan.same_placement(old, new)}
            for word, placement in (("Old", old), ("New", new)):
                row[f"{word} Podm"] = placement and placement.chosen.podm
                row[f"{word} Pool"] = placement and placement.chosen.pool
                row[f"{word} Blocks"] = _blocks(placement)
            rows.append(row)
        differing = sum(row["Differs"] for row in rows)
        nodes = model.quantity.format_count(len(rows), "node")
        self.closing.append(f"{differing} of {nodes} would differ now")
        if differing and args.detailed_exitcode:
            self.exit_code = base.DIFFERENT
        return telling_columns(REFRESH_COLUMNS, rows, args, {"Differs": None}), rows


def _blocks(placement: model.decision.Placement | None) -> cells.Shown[Any]:
    return cells.UriTails([block.uri for block in placement.chosen.blocks] if placement else [])
