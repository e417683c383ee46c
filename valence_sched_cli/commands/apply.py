# SPDX-License-Identifier: Apache-2.0
"""The command ``podm apply``: claims or composes a saved plan, or refuses an outdated one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.commands.claim import NODE_COLUMNS, claim_lines, describe_result, node_table
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import UriTails, format_count, or_absent
from valence_sched_cli.output.table import without_redundant

if TYPE_CHECKING:
    from valence_sched.model.decision import Placement, Report
    from valence_sched.model.plan import Plan

CLAIM_COLUMNS = ("Node", "Podm", "Pool", "Blocks", "Claim")
REFRESH_COLUMNS = (
    "Node", "Differs", "Old Podm", "Old Pool", "Old Blocks", "New Podm", "New Pool", "New Blocks",
)  # fmt: skip
EXIT_DIFFERENT = 10
MAX_LISTED_CHANGES = 20  # of what moved, a line each


class ApplyPodm(base.Lister):
    """Carry out a plan of podm schedule --plan.

    The nodes are made of the very blocks of the plan, or nothing is done.

    Exit codes: 0 done; 1 error; 4 composed in part; 5 what is there could not be read; 6 something
    moved since, or is in use; 7 what was composed could not be verified, or not all of it be told;
    10 with --refresh and --detailed-exitcode when another decision is made now.
    """

    through_service = True
    effectful = True
    examples = ("node.json --key ticket-7", "node.json --refresh --detailed-exitcode")

    arguments = """
        <plan>: file of the plan, or - for standard input
        then | --claim: only hold what the plan says
        then | --compose: hold it and have it composed (default)
        then | --refresh: decide again on what is there now and show the difference; nothing is
            changed
        then --detailed-exitcode: with --refresh, exit 10 when another decision is made now
        """
    option_settings = {"plan": {"dest": "planned"}, **claim_options.SETTINGS}
    option_groups = (inventory.INVENTORY, inventory.POLICY_FILE,
                     claim_options.CLAIM)  # fmt: skip

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        if parsed_args.refresh:
            return REFRESH_COLUMNS
        return CLAIM_COLUMNS if parsed_args.claim else NODE_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        wait_s = claim_options.wait_s(parsed_args)
        holds = not parsed_args.refresh
        claim_options.refuse_idle(
            parsed_args, holds=holds, composes=holds and not parsed_args.claim
        )
        if parsed_args.detailed_exitcode and holds:
            raise UsageError("--detailed-exitcode: nothing is decided again: add --refresh")
        plan = self.scheduler_app.read_plan(parsed_args.planned)
        if parsed_args.refresh:
            return self._refresh(parsed_args, plan)
        if parsed_args.claim:
            return self._claim(parsed_args, plan)
        return self._compose(parsed_args, plan, wait_s)

    def _claim(self, parsed_args: argparse.Namespace, plan: Plan) -> base.Table:
        scheduler = self.scheduler(parsed_args)
        ttl_s = claim_options.ttl_s(parsed_args)
        claim = scheduler.claim_plan(plan, key=parsed_args.key, ttl_s=ttl_s)
        self.closing += claim_lines(self, parsed_args, claim)
        zone = plan.zone and f"{plan.zone}/"
        rows = [
            (one.node, f"{zone}{one.chosen.podm}", one.chosen.pool, _blocks(one), claim.id)
            for one in plan.decision.placements
        ]
        return CLAIM_COLUMNS, rows

    def _compose(self, parsed_args: argparse.Namespace, plan: Plan, wait_s: float) -> base.Table:
        ttl_s = claim_options.ttl_s(parsed_args)
        result = self.scheduler(parsed_args).compose_plan(
            plan, key=parsed_args.key, ttl_s=ttl_s, wait_s=wait_s
        )
        count, waits = plan.decision.request.count, wait_s > 0
        describe_result(self, result, count, waits=waits)
        return node_table(parsed_args, result)

    def _refresh(self, parsed_args: argparse.Namespace, plan: Plan) -> base.Table:
        refresh = self.scheduler(parsed_args).refresh(plan)
        changes = refresh.changes
        self.closing += [f"moved: {change}" for change in changes[:MAX_LISTED_CHANGES]]
        if len(changes) > MAX_LISTED_CHANGES:
            self.closing.append(f"moved: {format_count(len(changes), 'thing')} in all")
        rows = list(_differences(plan.decision, refresh.report))
        differing = sum(row[1] for row in rows)
        self.closing.append(
            f"{differing} of {format_count(len(rows), 'node')} would be another now"
        )
        if differing and parsed_args.detailed_exitcode:
            self.exit_code = EXIT_DIFFERENT
        return without_redundant(REFRESH_COLUMNS, rows, parsed_args, {"Differs": None})


def _differences(planned: Report, present: Report) -> Iterator[tuple[Any, ...]]:
    from valence_sched.model.plan import same_placement

    before = {placement.node: placement for placement in planned.placements}
    after = {placement.node: placement for placement in present.placements}
    for node in sorted({*before, *after}):
        one, other = before.get(node), after.get(node)
        yield (node, not same_placement(one, other), *_cells(one), *_cells(other))


def _cells(placement: Placement | None) -> tuple[Any, ...]:
    if placement is None:
        return or_absent(None), or_absent(None), UriTails([])
    return placement.chosen.podm, placement.chosen.pool, _blocks(placement)


def _blocks(placement: Placement) -> UriTails:
    return UriTails([block.uri for block in placement.chosen.blocks])
