# SPDX-License-Identifier: Apache-2.0
"""Request files of ``podm schedule``: their option, their requests, their decisions as rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import RequestError, UnknownName, UsageError
from valence_sched_cli.options import group, location, placement
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output import decision
from valence_sched_cli.output.not_chosen import not_chosen

if TYPE_CHECKING:
    from valence_sched.app import App
    from valence_sched.model.decision import DecisionResults, Detail
    from valence_sched.model.request import Request
    from valence_sched.model.scheduler import Scheduler

COLUMNS = ("Request", *decision.COLUMNS)

#: Options that are allowed beside a file; the file has all others, for each request by itself.
_COMMON_OPTIONS = ("policy", "seed")
_FILE_ONLY_OPTIONS = (
    "flavor", "count", "min_count", "alternates", "podm", "exclude_podm", "zone", "attribute",
    *location.OPTION_DESTS, *group.OPTION_DESTS, *placement.OPTION_DESTS,
    "nova_flavor", "request_id",
)  # fmt: skip


def add_request_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a file of requests."""
    add_option(
        section(parser, "what"),
        "--request-file <file>: YAML or JSON file of one or more requests, placed together or not "
        "at all, or - for standard input; instead of --flavor",
    )


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


def decide(
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


def zones(decisions: DecisionResults) -> list[str] | None:
    """Return the zone of each row, None where no zones were asked."""
    found: list[str] = []
    for result in decisions.results:
        cells = decision.zone_cells(result.report)
        if cells is None:
            return None
        found += cells
    return found


def rows(decisions: DecisionResults, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node; where one request failed, nothing is placed."""
    for name, result in zip(names, decisions.results, strict=False):
        if decisions.failure in (None, result.report):
            for row in decision.placement_rows(result.report):
                yield (name, *row[: len(decision.COLUMNS)])


def outcome_lines(decisions: DecisionResults, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines about the outcome, the outcome itself last."""
    from valence_sched.model.quantity import format_count

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
