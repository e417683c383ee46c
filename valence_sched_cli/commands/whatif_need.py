# SPDX-License-Identifier: Apache-2.0
"""The command ``scheduler whatif need``: the smallest purchase that makes nodes fit."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from valence_sched_cli import base
from valence_sched_cli.options import edits, inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.request import nonempty_name
from valence_sched_cli.options.types import add_option, by_name, positive
from valence_sched_cli.output.cells import or_absent

if TYPE_CHECKING:
    from valence_sched.model.capacity import PurchaseResult

COLUMNS = ("Podm", "Pool", "Block", "Number", "Price", "Cost")
NOT_ENOUGH, PLACED_IN_PART = 3, 4


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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = section(parser, "what")
        add_option(what, "--flavor <flavor>: name, file or - (standard input) of the flavor",
                   required=True)  # fmt: skip
        add_option(what, "--count <n>: so many more nodes (default: 1)", type=positive, default=1)
        add_option(
            what,
            "--buy <block@podm[/pool]>...: blocks like this one, or of this template of a scenario "
            "file, may be bought for these pod managers or pools (repeat for several)",
            type=edits.addition,
        )
        add_option(what, "--price <block=amount>...: of one such block (repeat for several)",
                   type=_price)  # fmt: skip
        inventory.add_inventory_options(parser)
        inventory.add_flavor_file_option(parser)
        inventory.add_policy_file_option(parser)
        edits.add_edit_options(parser)
        edits.add_weight_option(parser)
        add_option(
            section(parser, "decide"),
            "--policy <policy>: policy that decides where nodes may be (default: that of the "
            "flavor, else of the scenario)",
            type=nonempty_name,
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        whatif, site = self.scheduler_app.whatif, edits.edited_site(self, parsed_args)
        request = whatif.request(site, parsed_args.flavor, parsed_args.count,
                                 policy=parsed_args.policy,
                                 flavor_files=parsed_args.flavor_file)  # fmt: skip
        prices = by_name("--price", parsed_args.price)
        result = whatif.smallest_purchase(site, request, parsed_args.buy, prices)
        self.closing.append(_outcome(result))
        if result.lines is None:
            self.exit_code = NOT_ENOUGH
        elif result.placed < result.wanted:
            self.exit_code = PLACED_IN_PART
            self.closing.append(
                f"warning: placing one after another reaches {result.placed:,} of "
                f"{result.wanted:,} with these blocks: a better order or policy is needed"
            )
        return COLUMNS, [
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
    from valence_sched.model.quantity import format_count

    bought = format_count(sum(line.number for line in result.lines), "block")
    if result.priced:
        bought += f" for {result.total:,.2f}".removesuffix(".00")
    if result.is_smallest:
        proof = "no purchase is cheaper" if result.priced else "fewer are not enough"
    else:
        least = f"{result.bound:,.2f}".removesuffix(".00")
        proof = f"any purchase comes to at least {least}"
    return f"{nodes} fit after {bought}: {proof}"


def _price(text: str) -> tuple[str, float]:
    """Parse ``BLOCK=AMOUNT``."""
    name, equals, number = text.rpartition("=")
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if not equals or not name or not 0 <= price < 10**12:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not BLOCK=AMOUNT, as in GPU-03=9000")
    return name, price
