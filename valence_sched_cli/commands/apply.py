# SPDX-License-Identifier: Apache-2.0
"""The command ``podm apply``: claims or composes a saved plan, or refuses an outdated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.commands.claim import NODE_COLUMNS, claim_lines, node_table
from valence_sched_cli.late import model
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import Shown, UriTails, format_count
from valence_sched_cli.output.table import telling_columns

CLAIM_COLUMNS = ("Node", "Podm", "Pool", "Blocks", "Claim")
REFRESH_COLUMNS = (
    *("Node", "Differs", "Old Podm", "Old Pool", "Old Blocks", "New Podm", "New Pool"),
    "New Blocks",
)
EXIT_DIFFERENT = 10
MAX_LISTED_CHANGES = 20  # lines about changes since the plan


class ApplyPodm(base.Lister):
    """Carry out a plan of podm schedule --plan.

    Nodes are made of exactly the blocks in the plan, or nothing is done.

    Exit codes: 0 done; 1 error; 4 composed in part; 5 a pod manager could not be read; 6
    the plan is out of date, or its hardware is in use; 7 a composed node could not be verified, or
    output failed; 10 with --refresh and --detailed-exitcode if the decision differs now.
    """

    examples = ("node.json --key ticket-7", "node.json --refresh --detailed-exitcode")
    arguments = """
        <plan>: file of the plan, or - for standard input
        then | --claim: only hold the blocks of the plan
        then | --compose: hold the blocks and compose the nodes (default)
        then | --refresh: decide again on the present inventory and show the difference; changes
            nothing
        then --detailed-exitcode: with --refresh, exit 10 if the decision differs now"""
    option_settings = {"plan": {"dest": "planned"}, **claim_options.SETTINGS}
    option_groups = (inventory.INVENTORY, inventory.POLICY_FILE, claim_options.CLAIM)

    def column_names(self, args: base.Args) -> Sequence[str]:
        if args.refresh:
            return REFRESH_COLUMNS
        return CLAIM_COLUMNS if args.claim else NODE_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        wait_s = claim_options.wait_s(args)
        holds = not args.refresh
        claim_options.refuse_idle(args, holds=holds, composes=holds and not args.claim)
        if args.detailed_exitcode and holds:
            raise UsageError("--detailed-exitcode: needs --refresh")
        plan = self.scheduler_app.read_plan(args.planned)
        if args.refresh:
            return self._refresh(args, plan)
        scheduler, ttl_s = self.scheduler(args), claim_options.ttl_s(args)
        if not args.claim:
            result = scheduler.compose_plan(plan, key=args.key, ttl_s=ttl_s, wait_s=wait_s)
            return node_table(self, result, plan.decision.request.count)
        claim = scheduler.claim_plan(plan, key=args.key, ttl_s=ttl_s)
        self.closing += claim_lines(self, claim)
        zone = plan.zone and f"{plan.zone}/"
        return CLAIM_COLUMNS, [
            (one.node, f"{zone}{one.chosen.podm}", one.chosen.pool, _blocks(one), claim.id)
            for one in plan.decision.placements
        ]

    def _refresh(self, args: base.Args, plan: model.plan.Plan) -> base.Table:
        refresh = self.scheduler(args).refresh(plan)
        changes = refresh.changes
        self.closing += [f"changed: {change}" for change in changes[:MAX_LISTED_CHANGES]]
        if len(changes) > MAX_LISTED_CHANGES:
            self.closing.append(f"changed: {format_count(len(changes), 'difference')} in all")
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
        self.closing.append(f"{differing} of {format_count(len(rows), 'node')} would differ now")
        if differing and args.detailed_exitcode:
            self.exit_code = EXIT_DIFFERENT
        return telling_columns(REFRESH_COLUMNS, rows, args, {"Differs": None}), rows


def _blocks(placement: model.decision.Placement | None) -> Shown[Any]:
    return UriTails([block.uri for block in placement.chosen.blocks] if placement else [])
