# SPDX-License-Identifier: Apache-2.0
"""Batch orders: orders in which to try the requests of a batch, beginning with *scarcest first*.

A request is scarcer than another if fewer of its nodes fit in the pools, each need taken alone.
"""

import itertools
from collections.abc import Iterator, Sequence

from valence_sched.core.fit.set_cover import price_of_needs
from valence_sched.model.need import Need
from valence_sched.model.request import Request
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.view.view import View

Order = tuple[int, ...]


def most_nodes_together(view: View, types: Sequence[NodeType], most_alone: Sequence[int]) -> int:
    """Return an upper bound of the nodes of several types that fit, by each resource alone."""
    most = [min(alone, one.most or 0) for alone, one in zip(most_alone, types, strict=True)]
    bound, resources = sum(most), dict[Need, list[tuple[float, int]]]()
    for number, node_type in enumerate(types):
        if len(node_type.alternatives) == 1:
            for need in node_type.alternatives[0].needs:
                amounts = resources.setdefault(need.subject, [])
                amounts.append((need.total_amount(), most[number]))
    for subject, amounts in resources.items():
        # the sum over all podms, where a block in several pools counts once
        free = float(view.free(subject, "podm")[view.first_row[:-1]].sum())
        fits = sum(most) - sum(number for _, number in amounts)
        for amount, number in sorted(amounts):
            fit = number if amount <= 0 else min(number, int(free // amount))
            fits += fit
            free -= fit * amount
        bound = min(bound, fits)
    return bound


def worthwhile_orders(requests: Sequence[Request], most_alone: Sequence[int]) -> Iterator[Order]:
    """Yield the orders to try first: scarcest first, as given, tightest first, largest first."""
    numbers = range(len(requests))
    tight = [alone / one.count for alone, one in zip(most_alone, requests, strict=True)]
    size = [-price_of_needs(one.needs) for one in requests]
    orders = (
        sorted(numbers, key=most_alone.__getitem__),
        numbers,
        sorted(numbers, key=tight.__getitem__),
        sorted(numbers, key=size.__getitem__),
    )
    yield from dict.fromkeys(_with_groups_in_order(requests, order) for order in orders)


def all_orders(requests: Sequence[Request]) -> Iterator[Order]:
    orders = itertools.permutations(range(len(requests)))
    yield from dict.fromkeys(_with_groups_in_order(requests, order) for order in orders)


def _with_groups_in_order(requests: Sequence[Request], order: Sequence[int]) -> Order:
    ordered = list(order)
    for name in {one.group.name for one in requests if one.group is not None}:
        groups = [requests[number].group for number in order]
        positions = [at for at, one in enumerate(groups) if one is not None and one.name == name]
        members = sorted(order[position] for position in positions)
        for position, number in zip(positions, members, strict=True):
            ordered[position] = number
    return tuple(ordered)
