# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler whatif fail, drain, rebalance, need``: moves and purchases."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.commands import page_file
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import by_name, number_of, percentage
from valence_sched_cli.options.whatif import WEIGHT, add_edit_options, addition, edited_site
from valence_sched_cli.output.cells import format_count, or_absent
from valence_sched_cli.output.decision import warning_lines
from valence_sched_cli.output.relocation import (
    COLUMNS,
    LONG_COLUMNS,
    REBALANCE_COLUMNS,
    REBALANCE_LONG_COLUMNS,
    move_rows,
    rebalance_row,
    stuck_lines,
    stuck_rows,
)

if TYPE_CHECKING:
    from valence_sched.app import Site
    from valence_sched.model.capacity import PurchaseResult
    from valence_sched.model.relocation import Relocation, Survival

TARGET_HELP = (
    "PODM, PODM/POOL or BLOCK@PODM, of names or patterns, or conditions such as model=A100,zone=az2"
)
PAGE_HELP = "where each node goes, which cannot, and a map of the site"
NONE_PLACED, PLACED_IN_PART, UNDECIDED = 3, 4, 5
MOST_MOVES = 3
MOST_MOVES_TO_DEFRAGMENT = 20


class _MoveLister(base.Lister):
    """A list of moves."""

    through_service = True

    option_groups: Sequence[str | Callable[[argparse.ArgumentParser], None]] = (
        inventory.INVENTORY,
        inventory.POLICY_FILE,
        add_edit_options,
        WEIGHT,
        """
        decide --policy <policy>: policy that places the nodes (default: that of the scenario, else
            default)
        output --long: list more columns
        output --all-reasons: say of every node without a place why
        """,
    )

    def _moves(
        self,
        site: Site,
        answer: Callable[[], Relocation | Survival],
        parsed_args: argparse.Namespace,
    ) -> base.Table:
        """Return the rows of an answer; its page is opened before and written after it."""
        from valence_sched.model.relocation import Survival
        from valence_sched.words.relocation import relocation_phrase, survival_phrases

        with page_file.page_file(self.scheduler_app, parsed_args) as page:
            result = answer()
            if page is not None:
                page.write(self.scheduler_app.relocation_page(result, site))
        self.closing += warning_lines(result.notes)
        self.closing += stuck_lines(result.stuck, parsed_args.all_reasons)
        long = parsed_args.long or not self.for_people(parsed_args)
        if isinstance(result, Survival):
            self.closing += survival_phrases(result)
            if not result.answer:
                self.exit_code = UNDECIDED if result.answer is None else PLACED_IN_PART
            rows = stuck_rows(result.stuck, long=long)
        else:
            self.closing.append(relocation_phrase(result))
            if result.stuck:
                self.exit_code = PLACED_IN_PART if result.moves else NONE_PLACED
            rows = move_rows(result, long=long)
        return LONG_COLUMNS if long else COLUMNS, list(rows)


class FailWhatif(_MoveLister):
    """Tell where nodes land if hardware fails.

    The dearest nodes are placed first, as podm schedule would place them on what is left. With
    --survive every set of so many pod managers fails in turn, and the rows are the nodes that the
    worst set leaves without a place. Exits 0 if every node lands again, 4 if some do, 3 if none.
    """

    examples = (
        "gpu-east --inventory examples/site.json",
        "--survive 1 --inventory examples/site.json --clone gpu-east",
        "--fail-zone east --zone-file examples/zones.yaml",
    )

    arguments = f"""
        [<target>...]: what fails: {TARGET_HELP}
        what --survive <n>: may any so many pod managers fail at once?
        what --fail-zone <zone>...: this zone of --zone-file fails and all below it: the way down to
            it, such as east/hall-1, or a pattern (repeat for several)
        """
    option_settings = {"fail_zone": None}
    option_groups = (
        *_MoveLister.option_groups,
        inventory.ZONE_FILE,
        page_file.html_option(PAGE_HELP),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        inventory.check_zone_file(parsed_args)
        if parsed_args.fail_zone and parsed_args.zone_file is None:
            raise UsageError("--fail-zone is a zone of --zone-file: name that file")
        fails = bool(parsed_args.target or parsed_args.fail_zone)
        if fails == (parsed_args.survive is not None):
            raise UsageError("name what fails, or how many pod managers with --survive N")
        whatif, site = self.scheduler_app.whatif, edited_site(self, parsed_args)
        answer: Callable[[], Relocation | Survival]
        if fails:
            app, selection = self.scheduler_app, self.selection(parsed_args)
            podms = {f"zone {name}": app.zone_podms(selection, parsed_args.zone_file, [name])
                     for name in parsed_args.fail_zone}  # fmt: skip
            answer = functools.partial(whatif.fail, site, parsed_args.target, podms)
        else:
            answer = functools.partial(whatif.survive, site, parsed_args.survive, self._show)
        return self._moves(site, answer, parsed_args)

    def _show(self, tried: int, sets: int) -> None:
        self.progress.begin("failures", f"{tried:,} of {sets:,} sets of pod managers tried")


class DrainWhatif(_MoveLister):
    """Plan the moves that take all nodes off hardware.

    A node takes its new place before it leaves the old one. Exits 0 if every node moves away, 4 if
    some do, 3 if none.
    """

    examples = (
        "gpu-west --inventory examples/site.json",
        "model=A100,zone=az2 --inventory examples/site.json --policy pack",
    )

    arguments = f"<target>...: what is drained: {TARGET_HELP}"
    option_groups = (*_MoveLister.option_groups, page_file.html_option(PAGE_HELP))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        whatif, site = self.scheduler_app.whatif, edited_site(self, parsed_args)
        answer = functools.partial(whatif.drain, site, parsed_args.target)
        return self._moves(site, answer, parsed_args)


class RebalanceWhatif(_MoveLister):
    """Plan the fewest moves that reach a goal.

    A node takes its new place before it leaves the old one. Nothing moves by itself. Room says how
    many more nodes of the flavor fit after a move, and Fragmentation which share of the free
    accelerators the mix of flavors then has no use for. Exits 0 if the goal is reached, or would be
    after the moves, else 3; 5 if the search ended before it was sure.
    """

    examples = (
        "--flavor gpu-large --inventory examples/site.json",
        "--flavor gpu-large --inventory examples/site.json --drain gpu-north --most 2",
        "--fragmentation-below 30% --mix gpu-large=1,small=3 --inventory examples/site.json",
    )

    arguments = f"""
        what --flavor <flavor>: name, file or - (standard input) of the flavor that room is made for
        what --fragmentation-below <percent>: move until fragmentation is below this; --flavor then
            only says what the column Room counts
        what --mix <flavor=share,...>: flavors that fragmentation is measured for, by their shares
            (default: all, by the share that each has)
        what --most <n>: moves to try at most (default: {MOST_MOVES}, or {MOST_MOVES_TO_DEFRAGMENT}
            with --fragmentation-below)
        """
    option_settings = {"fragmentation_below": percentage}
    option_groups = (*_MoveLister.option_groups, inventory.FLAVOR_FILE)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.words.relocation import rebalance_lines

        below, mix = parsed_args.fragmentation_below, parsed_args.mix
        whatif, site = self.scheduler_app.whatif, edited_site(self, parsed_args)
        request = None
        if parsed_args.flavor is not None:
            request = whatif.request(site, parsed_args.flavor, policy=parsed_args.policy,
                                     flavor_files=parsed_args.flavor_file)  # fmt: skip
        if below is None and request is None:
            raise UsageError("name a goal: room with --flavor F, or --fragmentation-below PERCENT")
        most = parsed_args.most or (MOST_MOVES if below is None else MOST_MOVES_TO_DEFRAGMENT)
        result = whatif.rebalance(site, most, request, below, mix)
        self.closing += [*warning_lines(result.notes), *rebalance_lines(result, most)]
        if not result.reached:
            self.exit_code = NONE_PLACED if result.complete else UNDECIDED
        long = parsed_args.long or not self.for_people(parsed_args)
        columns = REBALANCE_LONG_COLUMNS if long else REBALANCE_COLUMNS
        return columns, [rebalance_row(move, long=long) for move in result.moves]


NEED_COLUMNS = ("Podm", "Pool", "Block", "Number", "Price", "Cost")


def _price(text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    price = number_of(number)
    if not equals or not name or not 0 <= price < 10**12:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not BLOCK=AMOUNT, as in GPU-03=9000")
    return name, price


class NeedWhatif(base.Lister):
    """Find the smallest purchase that makes nodes fit.

    --buy says which blocks, and for which pod managers or pools. With prices the cheapest purchase
    is found, else the fewest blocks. The purchase is proven to be the smallest, or the least that
    any comes to is told as well. Exits 3 if nothing that may be bought is enough, 4 if placing one
    node after another reaches fewer than the purchase makes room for.
    """

    through_service = True
    examples = (
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--buy Compute-02@gpu-east",
        "--flavor gpu-large --count 5 --inventory examples/site.json --buy GPU-03@gpu-east "
        "--price GPU-03=9000",
    )

    arguments = """
        what --flavor <flavor>: name, file or - (standard input) of the flavor
        what --count <n>=1: so many more nodes (default: 1)
        what --buy <block@podm[/pool]>...: blocks like this one, or of this template of a scenario
            file, may be bought for these pod managers or pools (repeat for several)
        what --price <block=amount>...: of one such block (repeat for several)
        """
    option_settings = {"flavor": {"required": True}, "buy": addition, "price": _price}
    option_groups = (
        inventory.INVENTORY,
        inventory.FLAVOR_FILE,
        inventory.POLICY_FILE,
        add_edit_options,
        WEIGHT,
        """
        decide --policy <policy>: policy that decides where nodes may be (default: that of the
            flavor, else of the scenario)
        """,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        whatif, site = self.scheduler_app.whatif, edited_site(self, parsed_args)
        request = whatif.request(site, parsed_args.flavor, parsed_args.count,
                                 policy=parsed_args.policy,
                                 flavor_files=parsed_args.flavor_file)  # fmt: skip
        prices = by_name("--price", parsed_args.price)
        result = whatif.smallest_purchase(site, request, parsed_args.buy, prices)
        self.closing.append(_outcome(result))
        if result.lines is None:
            self.exit_code = NONE_PLACED
        elif result.placed < result.wanted:
            self.exit_code = PLACED_IN_PART
            self.closing.append(
                f"warning: placing one after another reaches {result.placed:,} of "
                f"{result.wanted:,} with these blocks: a better order or policy is needed"
            )
        return NEED_COLUMNS, [
            (one.podm, one.pool, one.block, one.number, or_absent(one.price),
             or_absent(one.price and one.price * one.number))
            for one in result.lines or ()
        ]  # fmt: skip


def _outcome(result: PurchaseResult) -> str:
    nodes = f"{result.wanted:,} {result.flavor}"
    if result.lines is None:
        return f"nothing that may be bought is known to make {nodes} fit"
    if not result.lines:
        return f"{nodes} fit as things are: nothing has to be bought"
    bought = format_count(sum(line.number for line in result.lines), "block")
    if result.priced:
        bought += f" for {result.total:,.2f}".removesuffix(".00")
    if result.is_smallest:
        proof = "no purchase is cheaper" if result.priced else "fewer are not enough"
    else:
        least = f"{result.bound:,.2f}".removesuffix(".00")
        proof = f"any purchase comes to at least {least}"
    return f"{nodes} fit after {bought}: {proof}"
