# SPDX-License-Identifier: Apache-2.0
"""Capacity: counts the nodes of a flavor or a mix in several ways, and says what ends each."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from valence_sched.core.batch import Attempt
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.explain.unknown import undecided_text
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.capacity import (
    Capacity,
    PodmCapacity,
    ProvenMost,
    StrandedAmount,
    exhausted,
)
from valence_sched.model.decision import Reason
from valence_sched.model.inventory import free_amount
from valence_sched.model.need import Need
from valence_sched.model.request import MAX_NODES, Request
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.stranded import scarcest_first, stranded_amounts
from valence_sched.planning.succession import Succession
from valence_sched.view.view import Floats, Ints, Mask, View

MIX = "mix"  # the name of the capacity for a mix

ROUNDING = 1e-6  # by which a sum of grants may exceed what is free

Lines = dict[Need, float]  # the amount of a resource that one node takes


class NodeSums(msgspec.Struct, frozen=True):
    """How many nodes the sums are enough for: podm by podm, those together, and the site."""

    by_podm: tuple[int, ...]
    podms: int
    site: int


def sums_of(view: View, node_type: NodeType) -> NodeSums:
    """Return how many nodes of one type sums promise."""
    free = _FreeAmounts(view, view.all_rows if node_type.rows is None else node_type.rows)
    alternatives = [_lines(one.needs) for one in node_type.alternatives]
    common = _common_lines(alternatives)
    by_podm = [_most_nodes(alternatives, common, free, podm) for podm in range(len(view.podms))]
    whole = _most_nodes(alternatives, common, free)
    return NodeSums(tuple(by_podm), min(sum(by_podm), whole), whole)


def sums_of_mix(view: View, node_types: Sequence[NodeType], shares: Sequence[int]) -> NodeSums:
    """Return how many nodes of a mix sums promise; of single podms nothing is said."""
    alone = [sums_of(view, node_type) for node_type in node_types]
    lines = [_common_lines([_lines(one.needs) for one in each.alternatives]) for each in node_types]
    free: dict[Need, float] = {}
    for line in {line: None for each in lines for line in each}:
        rows = [view.all_rows if each.rows is None else each.rows
                for each, own in zip(node_types, lines, strict=True) if line in own]  # fmt: skip
        free[line] = float(_FreeAmounts(view, np.logical_or.reduce(rows)).of(line).sum())
    site = _largest_mix([one.site for one in alone], shares, lines, free)
    podms = _largest_mix([one.podms for one in alone], shares, lines, free)
    return NodeSums((), podms, site)


def _largest_mix(
    most: Sequence[int], shares: Sequence[int], lines: Sequence[Lines], free: Mapping[Need, float]
) -> int:
    """Return the largest mix of which every flavor has its share, rounded down, by these sums."""
    whole = sum(shares)

    def fits(size: int) -> bool:
        counts = [size * share // whole for share in shares]
        taken: Lines = {}
        for count, own in zip(counts, lines, strict=True):
            for line, amount in own.items():
                taken[line] = taken.get(line, 0.0) + count * amount
        return all(map(int.__le__, counts, most)) and all(
            amount <= free[line] * (1.0 + ROUNDING) for line, amount in taken.items()
        )

    low, high = 0, min(MAX_NODES, sum(most) + len(shares))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return min(low, sum(most))


def _lines(needs: Iterable[Need]) -> Lines:
    """Return what one node takes: devices and grants add up, totals hold for the same devices."""
    lines: Lines = {}
    for need in needs:
        line = need.subject if need.unknown == "reject" else msgspec.structs.replace(need, name="")
        amount = need.total_amount()
        if need.measure in ("devices", "amount"):
            lines[line] = lines.get(line, 0.0) + amount
        else:
            lines[line] = max(lines.get(line, 0.0), amount)
    return {line: amount for line, amount in lines.items() if amount}


def _common_lines(alternatives: Sequence[Lines]) -> Lines:
    first, *others = alternatives
    return {
        line: min(amount, *(one[line] for one in others)) if others else amount
        for line, amount in first.items()
        if all(line in one for one in others)
    }


def _most_nodes(
    alternatives: Sequence[Lines], common: Lines, free: _FreeAmounts, podm: int | None = None
) -> int:
    """Return how many nodes a podm, or the site, has enough for, by any of the alternatives."""

    def most(lines: Lines) -> int:
        counts = (
            int(amounts / amount + ROUNDING)
            for line, amount in lines.items()
            for amounts in [float(free.of(line).sum() if podm is None else free.of(line)[podm])]
        )
        return min(counts, default=MAX_NODES)

    return min(most(common), sum(map(most, alternatives)), MAX_NODES)


@dataclass(eq=False)
class _FreeAmounts:
    """What is free on some rows, podm by podm; shape ``(podms,)``."""

    view: View
    rows: Mask
    _amounts: dict[Need, Floats] = field(default_factory=dict)

    def of(self, line: Need) -> Floats:
        if line not in self._amounts:
            stock = line.kind == "stock"
            self._amounts[line] = self._of_stocks(line) if stock else self._of_blocks(line)
        return self._amounts[line]

    def _of_blocks(self, line: Need) -> Floats:
        podms, kinds, slots = self._blocks
        amounts = slots * self.view.kinds.amounts(line)[kinds]
        size = len(self.view.podms)
        return np.bincount(podms, weights=amounts, minlength=size).astype(np.float64)

    @functools.cached_property
    def _blocks(self) -> tuple[Ints, Ints, Floats]:
        none = np.zeros(0, np.int64)
        parts: list[tuple[Ints, Ints, Floats]] = [(none, none, np.zeros(0))]
        for podm, table in enumerate(self.view.block_tables):
            open_rows = self.rows[slice(*self.view.first_row[podm : podm + 2])]
            if open_rows.any():
                slots = np.array(table.slots, dtype=np.float64)
                if not open_rows.all():
                    slots *= [any(open_rows[one] for one in pools) for pools in table.pools]
                free = np.flatnonzero(slots)
                kinds = np.array(table.kinds, dtype=np.int64)[free]
                parts.append((np.full(len(free), podm), kinds, slots[free]))
        podms, kinds, slots = map(np.concatenate, zip(*parts, strict=True))
        return podms, kinds, slots

    def _of_stocks(self, line: Need) -> Floats:
        amounts = np.zeros(len(self.view.podms))
        for podm, table in enumerate(self.view.block_tables):
            first = int(self.view.first_row[podm])
            amounts[podm] = sum(
                free_amount(stock)
                for stock, pools in zip(table.stocks, table.stock_pools, strict=True)
                if stock.resource == line.resource and any(self.rows[first + one] for one in pools)
            )
        return amounts


@dataclass(slots=True)
class MixPlacement:
    """The nodes of a mix in order, as ``(flavor number, row)``; the decision that found no place.

    ``last`` is the number of the flavor that was refused; None where the count stopped at a limit.
    """

    nodes: list[tuple[int, int]] = field(default_factory=list)
    last: int | None = None
    decision: Decision | None = None
    notes: dict[str, None] = field(default_factory=dict)


def mix_order(shares: Sequence[int]) -> Iterator[int]:
    """Yield without end the number of the flavor of the next node.

    Of the first ``n`` nodes each flavor has ``n × share / sum of shares``, rounded down or up: node
    ``j`` of a flavor may come once ``n > (j - 1) × sum / share``, and comes before
    ``j × sum / share``. The earliest of these deadlines first is an order that meets all of them
    (Baruah et al., Proportionate progress, 1996).
    """
    whole, counts, step = sum(shares), [0] * len(shares), 0
    while True:
        released = [
            number for number, (count, share) in enumerate(zip(counts, shares, strict=True))
            if count * whole // share <= step
        ]  # fmt: skip
        number = min(released, key=lambda one: (-(-(counts[one] + 1) * whole // shares[one]), one))
        counts[number] += 1
        step += 1
        yield number


def place_mix(
    decider: Decider, requests: Sequence[Request], shares: Sequence[int], most: int
) -> MixPlacement:
    """Place the nodes of a mix as decisions one after another do, up to the first refusal.

    It stops, too, when a podm has ``most`` of them. Errors as for a decision.
    """
    succession, placement = Succession(decider), MixPlacement()
    podm_of = succession.view.podm_of.tolist()
    counts = [0] * len(succession.view.podms)
    for number in mix_order(shares):
        decision = succession.decide(requests[number])
        placement.notes.update(dict.fromkeys(decision.batch.evaluation.notes))
        if not decision.placed_nodes:
            placement.last, placement.decision = number, decision
            break
        (_, node), *_ = decision.placed_nodes
        succession.take(requests[number], node.chosen)
        placement.nodes.append((number, node.chosen.row))
        podm = podm_of[node.chosen.row]
        counts[podm] += 1
        if counts[podm] >= most:
            break
    return placement


class SiteCapacity:
    """Answers questions about the capacity of what a decider decides on."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def stranded(self, requests: Sequence[Request]) -> Sequence[StrandedAmount]:
        """Return what is free, and how much of it no node of these requests can use, and why."""
        return stranded_amounts([self._decider.context(request) for request in requests])

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> Capacity:
        """Return how many more nodes of a request fit, at most ``most`` on each podm.

        With ``explain`` also what ends that, and what sums promise; with ``proven`` a proven bound.
        Errors as of a count.
        """
        reasons: dict[int, tuple[Reason, ...]] = {}

        def read_reasons(podm: int, attempts: list[Attempt]) -> None:
            if sum(len(attempt.batch.nodes) for attempt in attempts) < most:
                reasons[podm] = _missing_amounts(Verdicts(Decision(attempts)), 0)

        counts = count_fits(self._decider, request, most, read_reasons if explain else None)
        context = self._decider.context(request)
        node_types = [NodeType.in_context(context)]
        sums = sums_of(context.view, node_types[0]) if explain or proven else None
        bounds = _proven_most(context, node_types, None, sums) if proven else None
        by_podm = bounds[1] if bounds else {}
        podms = tuple(
            PodmCapacity(
                podm=name,
                nodes=nodes,
                sums=sums.by_podm[podm] if sums and explain else None,
                bound=by_podm.get(name),
                reasons=reasons.get(podm, ()),
            )
            for podm, (name, nodes) in enumerate(counts.podms)
        )
        return Capacity(
            name=request.flavor or "resources",
            podms=podms,
            podm_sums=sums.podms if sums and explain else None,
            site_sums=sums.site if sums and explain else None,
            proven=bounds[0] if bounds else None,
            exhausted=exhausted(podms),
            warnings=counts.warnings,
            undecided=counts.undecided,
        )

    def mix_capacity(
        self,
        requests: Sequence[Request],
        shares: Sequence[int],
        most: int,
        *,
        explain: bool = False,
        proven: bool = False,
    ) -> Capacity:
        """Return how many nodes of a mix fit together; errors as of one flavor.

        The nodes of a podm are those that placing one after another puts there, as decisions do.
        The count ends with the first node that finds no place, or when a podm has ``most``.
        """
        decider = self._decider
        placement, view = place_mix(decider, requests, shares, most), decider.snapshot()
        nodes = Counter(int(view.podm_of[row]) for _, row in placement.nodes)
        counts = Counter(number for number, _ in placement.nodes)
        contexts = [decider.context(request) for request in requests]
        node_types = [NodeType.in_context(context) for context in contexts]
        sums = sums_of_mix(view, node_types, shares) if explain or proven else None
        bounds = _proven_most(contexts[0], node_types, shares, sums) if proven else None
        verdicts = Verdicts(placement.decision) if explain and placement.decision else None
        podms = tuple(
            PodmCapacity(
                podm=name,
                nodes=nodes[podm],
                reasons=_missing_amounts(verdicts, podm) if verdicts else (),
            )
            for podm, name in enumerate(view.podm_ids)
        )
        names = [request.flavor or request.id for request in requests]
        open_pools = placement.decision.undecided if placement.decision else ()
        policy = contexts[placement.last or 0].bound.policy
        decider.check_decided(open_pools, policy)
        undecided = [undecided_text(open_pools, policy)] if open_pools else []
        return Capacity(
            name=MIX,
            podms=podms,
            podm_sums=sums.podms if sums and explain else None,
            site_sums=sums.site if sums and explain else None,
            proven=bounds[0] if bounds else None,
            exhausted=exhausted(podms),
            by_flavor={name: counts[number] for number, name in enumerate(names)},
            refused=None if placement.last is None else names[placement.last],
            warnings=(*placement.notes, *undecided),
            undecided=tuple(pool.podm for pool in open_pools),
        )


def _missing_amounts(verdicts: Verdicts, podm: int) -> tuple[Reason, ...]:
    return tuple(scarcest_first(verdicts.reasons(verdicts.furthest_row(podm))))


def _proven_most(
    context: EvaluationContext,
    node_types: Sequence[NodeType],
    shares: Sequence[int] | None,
    sums: NodeSums | None,
) -> tuple[ProvenMost, dict[str, int]]:
    """Return the proven most nodes, and the bound of each podm where they are counted alone."""
    from valence_sched.planning.optimise.bound import most_nodes  # the optimiser: only to prove

    budget = context.bound.policy.budget
    optimum = most_nodes(context.view, node_types, shares=shares, budget=budget)
    bound = optimum.bound if sums is None else min(optimum.bound, sums.podms)
    by_podm = {one.podm: one.bound for one in optimum.podms if one.bound is not None}
    return ProvenMost(bound=bound, found=optimum.placed), by_podm
