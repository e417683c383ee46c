# SPDX-License-Identifier: Apache-2.0
"""A file of requests on the command line: what makes them, and the decisions as rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import RequestError, UnknownName, UsageError
from valence_sched_cli.options import group, location, placement, proximity
from valence_sched_cli.output import decision as one
from valence_sched_cli.output.decision import nodes_text

if TYPE_CHECKING:
    from valence_sched.core.multi_request import Decisions
    from valence_sched.model.request import Request

COLUMNS = ("Request", *one.COLUMNS)

#: What may be said beside a file; all else is said in it, for each request by itself.
_COMMON_OPTIONS = ("policy", "seed")
_FILE_ONLY_OPTIONS = (
    "flavor", "count", "min_count", "alternates", "podm", "exclude_podm", "zone", "attribute",
    *location.OPTION_DESTS, *group.OPTION_DESTS, *proximity.OPTION_DESTS, *placement.OPTION_DESTS,
    "nova_flavor",
)  # fmt: skip


def add_request_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a file of requests."""
    parser.add_argument(
        "--request-file",
        metavar="<file>",
        help="YAML or JSON file of one or more requests, placed together or not at all, "
        "or - for standard input; instead of --flavor",
    )


def read_requests(main: Any, parsed_args: argparse.Namespace) -> list[Request]:
    """Return the requests of the file; ``--policy`` and ``--seed`` count for all of them.

    Raises:
        UsageError: an option is given that belongs into the file.
    """
    import msgspec

    for name in _FILE_ONLY_OPTIONS:
        if getattr(parsed_args, name) not in (None, []):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: with --request-file, say it in the file")
    if parsed_args.explain:
        hint = "write --report FILE and read it with scheduler explain FILE"
        raise UsageError(f"--explain: not with --request-file: {hint}")
    said = {
        name: value for name in _COMMON_OPTIONS if (value := getattr(parsed_args, name)) is not None
    }
    found = main.config.read_requests(
        parsed_args.request_file, parsed_args.flavor_file, parsed_args.near_map
    )
    return [msgspec.structs.replace(request, **said) for request in found]


def decide(decider: Any, requests: Sequence[Request], parsed_args: argparse.Namespace) -> Decisions:
    """Return the decisions on the requests of the file; its name goes before what is wrong.

    Raises:
        RequestError: a request contradicts itself, or says what its policy does not read.
        UnknownName: a policy, a pod manager or an amount that is not there.
    """
    known = [policy.name for policy in decider.policies()]
    if parsed_args.policy not in (None, *known):
        raise UnknownName("policy", parsed_args.policy, known)
    try:
        found: Decisions = decider.select_all(requests)
    except (RequestError, UnknownName) as error:
        raise error.at(parsed_args.request_file) from None
    return found


def request_names(requests: Sequence[Request]) -> list[str]:
    """Return what each request is called: its number, and its id or its flavor."""
    return [
        f"{number}: {request.id or request.flavor or 'request'}"
        for number, request in enumerate(requests, 1)
    ]


def rows(decisions: Decisions, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of every decision; where one failed, only its own: nothing is placed."""
    for name, decision in zip(names, decisions.decisions, strict=False):
        if decisions.failure in (None, decision):
            for row in one.decision_rows(decision, explain=False):
                yield (name, *row[: len(one.COLUMNS)])


def outcome_lines(decisions: Decisions, names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each thing to know about the outcome, the outcome itself last."""
    for warning in decisions.warnings:
        yield f"warning: {warning}"
    for name, decision in zip(names, decisions.decisions, strict=False):
        if decision.explainable and decisions.failure in (None, decision):
            for line in one.outcome_lines(decision, "min_count: {}"):
                yield f"{name}: {line}"
    asked, tried = len(names), len(decisions.decisions)
    if decisions.failure and asked > 1:
        left = f", {asked - tried} not tried" if asked > tried else ""
        yield f"{names[tried - 1]} fails all {asked} requests{left}"
    of = "1 request" if asked == 1 else f"{asked:,} requests"
    yield f"placed {decisions.placed_count:,} of {nodes_text(decisions.requested_count)} of {of}"
