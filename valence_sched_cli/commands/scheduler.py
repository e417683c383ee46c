# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler explain, check``, ``scheduler audit`` and ``scheduler quota``."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.late import model, words
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import by_name, given, named_number
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import STRUCTURED


class ExplainScheduler(base.Lister):
    """Explain a decision and its sensitivity.

    Reads a report of podm schedule --report; the decisions on a request file are shown in order.
    json and yaml print the whole report. Other formats, and --column, have a row per pod manager.
    """

    reads_files_only, option_groups = True, ()
    arguments = "<report>: report of a decision: a file, or - for stdin"

    def take_action(self, args: base.Args) -> base.Table:
        document: Any
        document, warnings = self.scheduler_app.read_report(args.report)
        self._document = document
        self.closing += cells.warning_lines((*warnings, *document.warnings))
        reports = words.decision.reports_by_name(document)
        if any(report.explanation is None for report in reports.values()):
            who = "requests that were placed, or failed because of another request"
            self.closing.append(f"the report holds no reasons for {who}")
        single = isinstance(document, model.decision.Report)
        for one in [document] if single else reports.values():
            self.closing += cells.warning_lines(words.phrases.zone_lines(one.zones))
        if not single:
            explained = ((name, output.decision.verdict_rows(one)) for name, one in reports.items())
            rows = ((name, *row) for name, some in explained for row in some)
            return ("Request", *output.decision.VERDICT_COLUMNS), rows
        if document.explanation is None and not document.zones:
            hint = "an older version wrote it; schedule again to get them"
            self.closing.append(f"the report holds neither near misses nor sensitivity: {hint}")
        return output.decision.VERDICT_COLUMNS, output.decision.verdict_rows(document)

    def produce_output(self, args: base.Args, column_names: Sequence[str], data: Any) -> int:
        """Print text for people, the whole report for json and yaml, rows for other formats."""
        is_table = args.formatter == "table"
        named = args.columns or args.sort_columns
        if named or not (is_table or args.formatter in STRUCTURED):
            return super().produce_output(args, column_names, data)
        if is_table:
            renderer = output.decision.ReportRenderer(self.formatter, self.app.stdout, args)
            self.print_lines(renderer.document(self._document))
            return 0
        return self.print_object(output.decision.document_fields(self._document))


CHECK_COLUMNS = ("Result", "Expectation", "Found")
LONG_COLUMNS = (*CHECK_COLUMNS, "File", "Line")


class CheckScheduler(base.Lister):
    """Check an inventory against expectations.

    An expectation states which nodes fit, where they are placed, or which failures the site
    survives. The rows are expectations. Exits 0 if all are met, else 10.
    """

    examples = (
        "examples/check.yaml --inventory examples/site.json",
        "examples/check.yaml --inventory examples/site.json --junit results.xml --github",
    )
    arguments = """
        <file>: YAML file of expectations, or - for standard input
        output --junit <file>: also write the results as JUnit XML
        output --github: also print a GitHub workflow annotation on standard error for each unmet
            expectation
        then --record: record each golden decision again instead of comparing it
        output --long: also list the file and the line of each expectation"""
    option_groups = (inventory.DECISION,)
    known_columns = LONG_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        app, file = self.scheduler_app, args.file
        checks = app.whatif.read_checks(file)
        show = functools.partial(self.progress.begin, "check")
        with base.file_writer(app.text_writer, args.junit) as write:
            checker = app.whatif.checker(
                app.site(self.selection(args)),
                app.config,
                strict=args.strict,
                record=self._record if args.record else None,
                progress=lambda run: lambda requests: show(f"{run}: {requests:,} requests"),
                survival_progress=lambda tried, sets: show(
                    f"{tried:,} of {sets:,} sets of pod managers tried"
                ),
            )
            results = []
            for number, check in enumerate(checks, 1):
                show(f"{number:,} of {model.quantity.format_count(len(checks), 'expectation')}")
                results.append(checker.result(check))
            self.progress.finish("check")
            write(words.planning.junit_document(file, results))
        if args.github:
            self.closing += words.planning.github_annotations(results)
        self.closing.append(words.planning.expectations_line(results))
        if any(one.result == "fail" for one in results):
            self.exit_code = base.DIFFERENT
        return self.chosen(CHECK_COLUMNS, LONG_COLUMNS), [
            (one.result, one.name, one.found, one.file, one.line) for one in results
        ]

    def _record(self, file: str, report: model.decision.Report) -> None:
        change = self.writing("decision", file)
        with change, self.scheduler_app.report_writer(file) as write:
            write(report)


AUDIT_COLUMNS = ("Time", "User", "Verb", "Object", "Outcome")
AUDIT_LONG = ("Owner", "Request ID")


class ListAudit(base.Lister):
    """List accepted and refused changes, newest first.

    A service lists the changes by its users, and only to an admin. Commands that change a local
    state are recorded with the user of the machine.
    """

    nouns, next_step = "changes", "commands that change this state are recorded here"
    filters = ("user", "owner", "only_verb", "object", "outcome")
    arguments = """
        --user <user>: only changes by this user
        --owner <owner>: only changes by users of this project
        --only-verb,--verb <verb>: only this verb, as claims:create, or "podm claim release" for a
            command
        --object <object>: only changes of this object, as claims/ID, nodes/ID or podms/NAME
        --outcome <outcome>: only this outcome: accepted, done, or an error code
        --long: list more columns
        --limit <n>=100: print at most this many rows"""

    def take_action(self, args: base.Args) -> base.Table:
        named = given(args, "user", "owner", "object", "outcome", "limit")
        query = model.diagnostic.AuditQuery(verb=args.only_verb, **named)
        lines = self.scheduler(args).audit(query)
        now, long = self.scheduler_app.now().timestamp(), args.long
        rows = []
        for line in lines:
            at = cells.time_cell(line.at, max(0.0, now - line.at), both=long)
            rows.append({"Time": at, **cells.fields(line, *AUDIT_COLUMNS[1:], *AUDIT_LONG)})
        return (*AUDIT_COLUMNS, *(AUDIT_LONG if long else ())), rows


QUOTA_COLUMNS = ("Owner", "Limits", "Used")
_OWNER = """[<owner>]: owner (project, or user of a password file)
        --default: default limits, for owners without a limit of their own"""
_LIMIT = named_number("NAME=LIMIT, as in nodes=20, with a number from 0 to 1e15", 0, 1e15)


class ListQuota(base.PagedLister):
    """List the limits that are set, by owner.

    A limit without an owner applies to each owner that has no limit of its own on the resource.
    """

    marker_columns = ("Owner", "Resource")
    nouns, next_step = "limits", "scheduler quota set sets one"

    def take_action(self, args: base.Args) -> base.Table:
        rows = [
            (quota.owner, name, limit)
            for quota in self.scheduler(args).quotas()
            for name, limit in _numbers(quota.limits).items()
        ]
        return ("Owner", "Resource", "Limit"), rows


class ShowQuota(base.ShowOne):
    """Show the limits and the usage of an owner."""

    arguments = "<owner>: owner (project, or user of a password file)"

    def take_action(self, args: base.Args) -> base.Table:
        return QUOTA_COLUMNS, _quota_cells(self.scheduler(args).quota(args.owner))


class SetQuota(base.ShowOne):
    """Limit the claims and nodes of an owner.

    A limit applies to concurrent use. Limits on other resources stay; a lower limit removes nothing
    that is in use.
    """

    examples = (
        "team-a --resource nodes=20 --resource accelerators:a100=8",
        "--default --resource claims=50",
    )
    arguments = f"""
        {_OWNER}
        --resource <name=limit>...: limit on claims, nodes, cores, processors, memory_mib, drives,
            nics, accelerators, accelerators:NAME or stock:NAME"""
    option_settings = {"resource": {"type": _LIMIT, "required": True}}
    known_columns = QUOTA_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        owner, limits = _owner(args), by_name("--resource", args.resource)
        return QUOTA_COLUMNS, _quota_cells(self.scheduler(args).change_quota(owner, limits))


class UnsetQuota(base.Command):
    """Unset limits of an owner.

    Without --resource, all of them are unset. The default limits then apply to the owner.
    """

    arguments = f"""
        {_OWNER}
        --resource <name>...: only the limit on this resource"""

    def take_action(self, args: base.Args) -> None:
        owner, scheduler = _owner(args), self.scheduler(args)
        if args.resource:
            scheduler.change_quota(owner, dict.fromkeys(args.resource))
        else:
            scheduler.set_quota(owner, {})


def _owner(args: base.Args) -> str | None:
    owner: str | None = args.owner
    if (owner is None) != args.default:
        raise UsageError("name either an owner or --default")
    return owner


def _quota_cells(quota: model.quota.Quota) -> tuple[object, ...]:
    limits, used = _numbers(quota.limits), _numbers(quota.used)
    return quota.owner, cells.PairLines(limits), cells.PairLines(used)


def _numbers(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: words.planning.number_of(amount) for name, amount in sorted(amounts.items())}
