# SPDX-License-Identifier: Apache-2.0
"""Topology bound: how many nodes of a variant a pool makes at most, by its constraints alone.

The count model leaves topology constraints out. A constraint ``same`` says that all devices of its
needs have one value of a domain: a node belongs to a value, and each value serves only so many
nodes. Two cards on each of three switches make three nodes of two cards on one switch, and none of
three. Constraints ``apart`` bound nothing here: different nodes may use the same value.
"""

from collections import Counter

from valence_sched.core.fit.fit import Fitter
from valence_sched.model.need import TopologyConstraint
from valence_sched.model.request import MAX_NODES
from valence_sched.view.blocks import BlockTable


def most_by_topology(fitter: Fitter, table: BlockTable, position: int) -> int:
    """Return a bound of the nodes in the pool at a position; the largest request without any."""
    same = (one for one in fitter.bonds if one.relation == "same" and one.place != "zone")
    return min((_most_nodes(fitter, one, table, position) for one in same), default=MAX_NODES)


def _most_nodes(
    fitter: Fitter, constraint: TopologyConstraint, table: BlockTable, position: int
) -> int:
    lines = [
        (number, demand) for number, demand in enumerate(fitter.demands)
        if demand.amount and all(map(constraint.applies_to, demand.needs))
    ]  # fmt: skip
    gifts = [_gifts_by_value(fitter, constraint.place, table, position, line) for line, _ in lines]
    values = set().union(*gifts) | {None}
    most = 0
    for value in values if lines else ():
        by_line = []
        for (_, demand), line in zip(lines, gifts, strict=True):
            # a block without a value may serve as one of any value, if the need allows that
            allowed = any(need.unknown == "allow" for need in demand.needs)
            unreported = line[None] if allowed else 0
            given = unreported + (line[value] if value is not None else 0)
            by_line.append(given // demand.amount)
        most += min(by_line)
    return most if lines else MAX_NODES


def _gifts_by_value(
    fitter: Fitter, place: str, table: BlockTable, position: int, line: int
) -> Counter[str | None]:
    """Return what the free blocks of a pool give to a demand, by their value of a domain."""
    amount = fitter.demands[line].amount
    gifts: Counter[str | None] = Counter()
    for block, (kind, slots) in enumerate(zip(table.kinds, table.slots, strict=True)):
        if slots and position in table.pools[block]:
            (value,) = table.topology_values(block, (place,))
            gifts[value] += slots * min(fitter.gives(kind)[line], amount)
    return gifts
