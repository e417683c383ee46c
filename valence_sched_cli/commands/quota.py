# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler quota list, set, show, unset``."""

from __future__ import annotations

from collections.abc import Mapping

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.late import model
from valence_sched_cli.options.parser import by_name, named_number
from valence_sched_cli.output.cells import PairLines

COLUMNS = ("Owner", "Limits", "Used")
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
        return COLUMNS, _cells(self.scheduler(args).quota(args.owner))


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
            nics, accelerators, accelerators:NAME or stock:NAME (repeat for several)"""
    option_settings = {"resource": {"type": _LIMIT, "required": True}}
    known_columns = COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        owner, limits = _owner(args), by_name("--resource", args.resource)
        return COLUMNS, _cells(self.scheduler(args).change_quota(owner, limits))


class UnsetQuota(base.Command):
    """Unset limits of an owner.

    Without --resource all of them are unset. The default limits then apply to the owner.
    """

    arguments = f"""
        {_OWNER}
        --resource <name>...: only the limit on this resource (repeat for several)"""

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


def _cells(quota: model.quota.Quota) -> tuple[object, ...]:
    limits, used = _numbers(quota.limits), _numbers(quota.used)
    return quota.owner, PairLines(limits), PairLines(used)


def _numbers(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return amounts by name; whole numbers are printed without a fraction."""
    numbers = sorted(amounts.items())
    return {name: int(number) if number == int(number) else number for name, number in numbers}
