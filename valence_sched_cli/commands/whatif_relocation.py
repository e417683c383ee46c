# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler whatif fail, drain, rebalance, need``: moves and purchases."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.late import app, model, words
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import by_name, named_number, parsed_by
from valence_sched_cli.options.whatif import WEIGHT, add_edit_options, edit, edited_site
from valence_sched_cli.output.cells import warning_lines

TARGET_HELP = (
    "PODM, PODM/POOL or BLOCK@PODM, of names or patterns, or conditions such as model=A100,zone=az2"
)
PAGE_HELP = "the destination of each node, nodes that cannot be re-placed, and a map of the site"
NONE_PLACED, PLACED_IN_PART, UNDECIDED = 3, 4, 5
MOST_MOVES = 3
MOST_MOVES_TO_DEFRAGMENT = 20


class _Answer(base.Lister):
    """A list that answers a what-if question about a site."""

    def answered(self, site: app.Site, answer: Callable[[], Any], most: int = 0) -> Any:
        """Return the answer; the page is opened before the search, and written after it."""
        with self.page_writer(self.args) as write:
            result = answer()
            if self.args.html:
                write(self.scheduler_app.whatif_page(result, site, most))
        return result


class _MoveLister(_Answer):
    """A list of moves."""

    option_groups: Sequence[str | Callable[[argparse.ArgumentParser], None]] = (
        inventory.INVENTORY,
        inventory.POLICY_FILE,
        add_edit_options,
        WEIGHT,
        """
        decide --policy <policy>: policy that places the nodes (default: that of the scenario, else
            default)
        output --long: list more columns
        output --all-reasons: list the reason for every node that cannot be re-placed""",
    )

    def _moves(self, site: app.Site, answer: Callable[[], Any], args: base.Args) -> base.Table:
        result = self.answered(site, answer)
        self.closing += warning_lines(result.notes)
        self.closing += output.planning.stuck_lines(result.stuck, args.all_reasons)
        columns = self.chosen(output.planning.MOVE_COLUMNS, output.planning.MOVE_LONG_COLUMNS)
        if isinstance(result, model.relocation.Survival):
            self.closing += words.planning.survival_phrases(result)
            if not result.answer:
                self.exit_code = UNDECIDED if result.answer is None else PLACED_IN_PART
            return columns, map(output.planning.stuck_row, result.stuck)
        self.closing.append(words.planning.relocation_phrase(result))
        if result.stuck:
            self.exit_code = PLACED_IN_PART if result.moves else NONE_PLACED
        return columns, output.planning.move_rows(result)


class FailWhatif(_MoveLister):
    """Show the destinations of nodes if hardware fails.

    The most expensive nodes are placed first, as podm schedule would place them on the remaining
    hardware. --survive N tests every combination of N failed pod managers; the rows are the nodes
    that cannot be re-placed after the worst combination. Exit codes: 0 if all nodes can be
    re-placed; 4 if some can; 3 if no node can.
    """

    examples = (
        "gpu-east --inventory examples/site.json",
        "--survive 1 --inventory examples/site.json --clone gpu-east",
        "--fail-zone east --zone-file examples/zones.yaml",
    )
    arguments = f"""
        [<target>...]: hardware that fails: {TARGET_HELP}
        what --survive <n>: test every combination of N failures of pod managers
        what --fail-zone <zone>...: fail this zone of --zone-file and all zones below it: a path,
            such as east/hall-1, or a pattern (repeat for several)"""
    option_settings = {"fail_zone": None}
    option_groups = (
        *_MoveLister.option_groups,
        inventory.ZONE_FILE,
        inventory.html_option(PAGE_HELP),
    )

    def take_action(self, args: base.Args) -> base.Table:
        inventory.check_zone_file(args)
        if args.fail_zone and args.zone_file is None:
            raise UsageError("--fail-zone: name the file of the zones with --zone-file")
        fails = bool(args.target or args.fail_zone)
        if fails == (args.survive is not None):
            raise UsageError("name either the hardware that fails, or --survive N")
        whatif, site = self.scheduler_app.whatif, edited_site(self, args)
        if not fails:
            answer = functools.partial(whatif.survive, site, args.survive, self._show)
            return self._moves(site, answer, args)
        below = functools.partial(self.scheduler_app.zone_podms, self.selection(args))
        podms = {f"zone {name}": below(args.zone_file, [name]) for name in args.fail_zone}
        return self._moves(site, functools.partial(whatif.fail, site, args.target, podms), args)

    def _show(self, tried: int, sets: int) -> None:
        self.progress.begin("failures", f"{tried:,} of {sets:,} sets of pod managers tried")


class DrainWhatif(_MoveLister):
    """Plan the moves of all nodes off hardware.

    A node gets its new blocks before it leaves the old ones. Exits 0 if every node moves away, 4 if
    some do, 3 if all stay.
    """

    examples = (
        "gpu-west --inventory examples/site.json",
        "model=A100,zone=az2 --inventory examples/site.json --policy pack",
    )
    arguments = f"<target>...: hardware to drain: {TARGET_HELP}"
    option_groups = (*_MoveLister.option_groups, inventory.html_option(PAGE_HELP))

    def take_action(self, args: base.Args) -> base.Table:
        whatif, site = self.scheduler_app.whatif, edited_site(self, args)
        answer = functools.partial(whatif.drain, site, args.target)
        return self._moves(site, answer, args)


class RebalanceWhatif(_MoveLister):
    """Plan the fewest moves that reach a goal.

    A node gets its new blocks before it leaves the old ones. The command moves nothing itself. Room
    is the number of further nodes of the flavor that fit after a move. Fragmentation is the share
    of the free accelerators that the mix of flavors cannot use. Imbalance is the standard deviation
    of the utilization of pod managers; the most used resource of each counts. Exits 0 if the moves
    reach the goal or no move is needed, 3 if no moves reach it, 5 if the search ended undecided.
    """

    examples = (
        "--flavor gpu-large --inventory examples/site.json",
        "--flavor gpu-large --inventory examples/site.json --drain gpu-north --most 2",
        "--fragmentation-below 30% --mix gpu-large=1,small=3 --inventory examples/site.json",
        "--imbalance-below 20% --inventory examples/site.json",
    )
    arguments = f"""
        what --flavor <flavor>: name, file or - (standard input) of the flavor to make room for
        what --fragmentation-below <percent>: move until fragmentation is below this; --flavor then
            only sets the flavor of the column Room
        what --imbalance-below <percent>: move until the imbalance of the pod managers is below this
        what --mix <flavor=share,...>: flavors and shares for the fragmentation measure (default:
            all, by their present shares)
        what --most <n>: maximum number of moves (default: {MOST_MOVES}, or
            {MOST_MOVES_TO_DEFRAGMENT} with --fragmentation-below or --imbalance-below)"""
    option_settings = dict.fromkeys(
        ("fragmentation_below", "imbalance_below"), parsed_by("quantity:parse_percentage")
    )
    option_groups = (
        *_MoveLister.option_groups,
        inventory.FLAVOR_FILE,
        inventory.html_option("the moves and a map of the site"),
    )

    def take_action(self, args: base.Args) -> base.Table:
        below = args.fragmentation_below
        whatif, site = self.scheduler_app.whatif, edited_site(self, args)
        request = None
        if args.flavor is not None:
            files = {"policy": args.policy, "flavor_files": args.flavor_file}
            request = whatif.request(site, args.flavor, **files)
        even = args.imbalance_below
        for_room = below is None and even is None
        if for_room and request is None:
            goals = "--fragmentation-below PERCENT or --imbalance-below PERCENT"
            raise UsageError(f"no goal: give --flavor F (make room for it), {goals}")
        if below is not None and even is not None:
            raise UsageError("--imbalance-below: not with --fragmentation-below: name one goal")
        most = args.most or (MOST_MOVES if for_room else MOST_MOVES_TO_DEFRAGMENT)
        mix = None if args.mix is None else site.mix(args.mix)
        answer = functools.partial(whatif.rebalance, site, most, request, below, mix, even)
        result = self.answered(site, answer, most)
        self.closing += warning_lines(result.notes)
        self.closing += words.planning.rebalance_lines(result, most)
        if not result.reached:
            self.exit_code = NONE_PLACED if result.complete else UNDECIDED
        out = output.planning
        columns = self.chosen(out.REBALANCE_COLUMNS, out.REBALANCE_LONG_COLUMNS)
        return columns, map(out.rebalance_row, result.moves)


class NeedWhatif(_Answer):
    """Find the smallest purchase that makes nodes fit.

    --buy names the blocks on offer and their pod managers or pools. With prices the cheapest
    purchase is found, else the fewest blocks. The purchase is proven to be the smallest, or a lower
    bound is printed as well. Exits 3 if the offered blocks are not enough, 4 if podm schedule would
    place fewer nodes than fit after the purchase.
    """

    examples = (
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--buy Compute-02@gpu-east",
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--price GPU-03=9000",
    )
    arguments = """
        what --flavor <flavor>: name, file or - (standard input) of the flavor
        what --count <n>=1: number of further nodes (default: 1)
        what --buy <block@podm[/pool]>...: offer copies of this block, or of a template of a
            scenario file, for these pod managers or pools (repeat for several)
        what --price <block=amount>...: price of one copy of a block (repeat for several)"""
    option_settings = {
        "flavor": {"required": True},
        "buy": edit("add"),
        "price": named_number("BLOCK=AMOUNT, as in GPU-03=9000", 0, 1e12),
    }
    option_groups = (
        inventory.DECISION,
        add_edit_options,
        WEIGHT,
        """
        decide --policy <policy>: policy that places the nodes (default: that of the flavor, else of
            the scenario)""",
        inventory.html_option("the purchase and a map of the site"),
    )

    def take_action(self, args: base.Args) -> base.Table:
        whatif, site = self.scheduler_app.whatif, edited_site(self, args)
        files = {"policy": args.policy, "flavor_files": args.flavor_file}
        request = whatif.request(site, args.flavor, args.count, **files)
        prices = by_name("--price", args.price)
        buy = functools.partial(whatif.smallest_purchase, site, request, args.buy, prices)
        result = self.answered(site, buy)
        self.closing.append(words.planning.purchase_line(result))
        if result.lines is None:
            self.exit_code = NONE_PLACED
        elif result.placed < result.wanted:
            self.exit_code = PLACED_IN_PART
            reached = f"{result.placed:,} of {result.wanted:,} nodes with these blocks"
            hint = "a better order or policy is needed"
            self.closing.append(f"warning: placed one after another, they fit {reached}: {hint}")
        rows = []
        for one in result.lines or ():
            cost = one.price and one.price * one.number
            rows.append((one.podm, one.pool, one.block, one.number, one.price, cost))
        return ("Podm", "Pool", "Block", "Number", "Price", "Cost"), rows
