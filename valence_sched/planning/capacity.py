# SPDX-License-Identifier: Apache-2.0
"""Capacity: counts the nodes of a flavor or a mix that still fit, and explains the limits.

To find stranded amounts, the site is filled with nodes of the flavors, the most expensive flavor
first. The filling is repeated for each flavor, with that flavor first. The usable amount of a kind
on a podm is the largest amount that one of these fillings uses. A node uses all devices of its
blocks.
"""

import bisect
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from valence_sched.core.batch import Attempt, Batch
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext, context_of
from valence_sched.core.explain.report import undecided_text
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.set_cover import price_of_needs
from valence_sched.model import capacity as model
from valence_sched.model.decision import Reason
from valence_sched.model.inventory import free_amount
from valence_sched.model.need import Need
from valence_sched.model.request import MAX_NODES, FlavorShare, Mix, Request
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.planning.optimise.node_types import NodeType, variants_of
from valence_sched.planning.optimise.witness import Witness
from valence_sched.planning.succession import Succession
from valence_sched.view.block_kinds import BlockKinds, device_amount
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import Floats, Ints, Mask, View
from valence_sched.words.phrases import ReasonPhrases

MIX = "mix"  # the name of the capacity for a mix
IN_NO_POOL = "in no pool"
MOST_ON_ROW = 1_000  # the limit of nodes of one flavor in a pool with unlimited stocks
ROUNDING = 1e-6  # rounding error of a sum of grants
_WORDS = {"processor": "cores", "memory": "memory", "drive": "drive", "nic": "NIC"}
Lines = dict[Need, float]  # the amount of a resource that one node takes


class NodeSums(NamedTuple):
    """Upper bounds of the number of nodes, from sums of free amounts.

    ``podms`` is the sum of ``by_podm``; ``site`` is the bound from amounts summed over all podms.
    """

    by_podm: tuple[int, ...]
    podms: int
    site: int


def sums_of(view: View, node_type: NodeType) -> NodeSums:
    free = _FreeAmounts(view, view.all_rows if node_type.rows is None else node_type.rows)
    alternatives = [_lines(one.needs) for one in node_type.alternatives]
    common = _common_lines(node_type)

    def most(lines: Lines) -> Ints:
        counts = np.full(len(view.podms) + 1, float(MAX_NODES))  # of each podm, then of all podms
        for line, amount in lines.items():
            has = free.of(line)
            counts = np.minimum(counts, np.append(has, has.sum()) / amount + ROUNDING)
        return counts.astype(np.int64)

    *by_podm, site = np.minimum(most(common), sum(map(most, alternatives))).tolist()
    return NodeSums(tuple(by_podm), min(sum(by_podm), site), site)


def sums_of_mix(view: View, node_types: Sequence[NodeType], shares: Sequence[int]) -> NodeSums:
    alone = [sums_of(view, node_type) for node_type in node_types]
    lines = [_common_lines(node_type) for node_type in node_types]
    masks = [view.all_rows if each.rows is None else each.rows for each in node_types]
    free: Lines = {}
    for line in dict.fromkeys(line for each in lines for line in each):
        rows = [mask for mask, own in zip(masks, lines, strict=True) if line in own]
        free[line] = float(_FreeAmounts(view, np.logical_or.reduce(rows)).of(line).sum())
    whole = sum(shares)

    def fits(size: int, most: Sequence[int]) -> bool:
        counts = [size * share // whole for share in shares]
        totals: Counter[Need] = Counter()
        for count, own in zip(counts, lines, strict=True):
            for line, amount in own.items():
                totals[line] += count * amount  # type: ignore[assignment]
        return all(map(int.__le__, counts, most)) and all(
            amount <= free[line] * (1.0 + ROUNDING) for line, amount in totals.items()
        )

    def largest(most: Sequence[int]) -> int:
        sizes = range(1, min(MAX_NODES, sum(most) + len(shares)) + 1)
        # all sizes up to some size fit, and all larger ones do not
        number = bisect.bisect_left(sizes, True, key=lambda size: not fits(size, most))
        return min(number, sum(most))

    site, podms = largest([one.site for one in alone]), largest([one.podms for one in alone])
    return NodeSums((), podms, site)


def _lines(needs: Iterable[Need]) -> Lines:
    """Return the amounts of one node; of several totals of the same devices, only the largest."""
    lines: Lines = {}
    for need in needs:
        line = need.subject if need.unknown == "reject" else msgspec.structs.replace(need, name="")
        amount = need.total_amount()
        if need.measure in ("devices", "amount"):
            lines[line] = lines.get(line, 0.0) + amount
        else:
            lines[line] = max(lines.get(line, 0.0), amount)
    return {line: amount for line, amount in lines.items() if amount}


def _common_lines(node_type: NodeType) -> Lines:
    first, *others = [_lines(one.needs) for one in node_type.alternatives]
    return {
        line: min([amount, *(one[line] for one in others)])
        for line, amount in first.items()
        if all(line in one for one in others)
    }


class _FreeAmounts:
    """The free amounts of some rows, summed by podm: shape ``(podms,)``."""

    def __init__(self, view: View, rows: Mask) -> None:
        self.view, self.rows = view, rows
        self.of = functools.cache(self._sums)

    def _sums(self, line: Need) -> Floats:
        if line.kind == "stock":
            amounts = np.zeros(len(self.view.podms))
            for podm, table in enumerate(self.view.block_tables):
                amounts[podm] = sum(
                    free_amount(stock)
                    for stock, pools in zip(table.stocks, table.stock_pools, strict=True)
                    if stock.resource == line.resource and self._open(podm)[list(pools)].any()
                )
            return amounts
        podms, kinds, slots = self._blocks
        weights = slots * self.view.kinds.amounts(line)[kinds]
        return np.bincount(podms, weights, len(self.view.podms)).astype(np.float64)

    def _open(self, podm: int) -> Mask:
        return self.rows[slice(*self.view.first_row[podm : podm + 2])]

    @functools.cached_property
    def _blocks(self) -> tuple[Ints, Ints, Floats]:
        none = np.zeros(0, np.int64)
        parts: list[tuple[Ints, Ints, Floats]] = [(none, none, np.zeros(0))]
        for podm, table in enumerate(self.view.block_tables):
            open_rows = self._open(podm)
            if open_rows.any():
                slots = np.array(table.slots, dtype=np.float64)
                if not open_rows.all():
                    slots *= [any(open_rows[one] for one in pools) for pools in table.pools]
                free = np.flatnonzero(slots)
                kinds = np.array(table.kinds, dtype=np.int64)[free]
                parts.append((np.full(len(free), podm), kinds, slots[free]))
        podms, kinds, slots = map(np.concatenate, zip(*parts, strict=True))
        return podms, kinds, slots


@dataclass(slots=True)
class MixPlacement:
    """The nodes of a mix as ``(flavor number, row)``, and the refused flavor and its decision."""

    nodes: list[tuple[int, int]] = field(default_factory=list)
    last: int | None = None
    decision: Decision | None = None
    notes: dict[str, None] = field(default_factory=dict)


def mix_order(shares: Sequence[int]) -> Iterator[int]:
    """Yield the number of the flavor of each node in turn, without end.

    Of the first ``n`` nodes each flavor has ``n × share / sum of shares``, rounded down or up. The
    order of the earliest deadlines achieves it (Baruah et al., Proportionate progress, 1996).
    """
    whole, counts, step = sum(shares), [0] * len(shares), 0
    while True:
        pairs = enumerate(zip(counts, shares, strict=True))
        released = [number for number, (count, share) in pairs if count * whole // share <= step]
        number = min(released, key=lambda one: (-(-(counts[one] + 1) * whole // shares[one]), one))
        counts[number] += 1
        step += 1
        yield number


def place_mix(
    decider: Decider, requests: Sequence[Request], shares: Sequence[int], most: int
) -> MixPlacement:
    """Place the nodes of a mix one after another, until a refusal or until a podm has ``most``."""
    succession, placement, counts = Succession(decider), MixPlacement(), Counter[int]()
    podm_of = succession.view.podm_of.tolist()
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
    """The capacity of the pod managers of a decider."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider

    def stranded(self, requests: Sequence[Request]) -> list[model.StrandedAmount]:
        """Return the free amounts, the parts that no requested node can use, and the reasons."""
        contexts = [self._decider.context(request) for request in requests]
        order = sorted(contexts, key=lambda one: price_of_needs(one.request.needs), reverse=True)
        fillings = [Filling([one, *(each for each in order if each is not one)]) for one in order]
        view = contexts[0].view
        rows = np.zeros(len(view), dtype=bool)  # without podms that every request excludes by name
        for context in contexts:
            verdicts = zip(context.bound.filters, context.evaluation.verdicts, strict=True)
            target = [passed for filter_, passed in verdicts if filter_.name == "target"]
            rows |= np.logical_and.reduce(target) if target else True
        podms = sorted(set(view.podm_of[rows].tolist()))
        return [amount for podm in podms for amount in _on_podm(podm, fillings)]

    def capacity(
        self, request: Request, most: int, *, explain: bool = False, proven: bool = False
    ) -> model.Capacity:
        """Return the nodes of a request that still fit, at most ``most`` on each podm."""
        reasons: dict[int, tuple[Reason, ...]] = {}

        def read_reasons(podm: int, attempts: list[Attempt]) -> None:
            if sum(len(attempt.batch.nodes) for attempt in attempts) < most:
                reasons[podm] = _missing_amounts(Verdicts(Decision(attempts)), 0)

        counts = count_fits(self._decider, request, most, read_reasons if explain else None)
        context = self._decider.context(request)
        node_types = [NodeType.in_context(context)]
        sums = sums_of(context.view, node_types[0]) if explain or proven else None
        bounds, by_podm = _proven_most(context, node_types, None, sums) if proven else (None, {})
        podms = tuple(
            model.PodmCapacity(
                podm=name,
                nodes=nodes,
                sums=sums.by_podm[podm] if sums and explain else None,
                bound=by_podm.get(name),
                reasons=reasons.get(podm, ()),
            )
            for podm, (name, nodes) in enumerate(counts.podms)
        )
        return model.Capacity(
            name=request.flavor or "resources",
            podms=podms,
            podm_sums=sums.podms if sums and explain else None,
            site_sums=sums.site if sums and explain else None,
            proven=bounds,
            exhausted=model.exhausted(podms),
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
    ) -> model.Capacity:
        """Return the number of nodes of a mix until a refusal, or until a podm has ``most``."""
        decider = self._decider
        pairs = zip(map(decider.seal, requests), shares, strict=True)
        mix = Mix(tuple(FlavorShare(one.needs, one.traits, share) for one, share in pairs))
        requests = [msgspec.structs.replace(one, mix=mix) for one in requests]  # room for this mix
        placement, view = place_mix(decider, requests, shares, most), decider.snapshot()
        nodes = Counter(int(view.podm_of[row]) for _, row in placement.nodes)
        counts = Counter(number for number, _ in placement.nodes)
        contexts = [decider.context(request) for request in requests]
        node_types = [NodeType.in_context(context) for context in contexts]
        sums = sums_of_mix(view, node_types, shares) if explain or proven else None
        bounds = _proven_most(contexts[0], node_types, shares, sums)[0] if proven else None
        verdicts = Verdicts(placement.decision) if explain and placement.decision else None
        podms = tuple(
            model.PodmCapacity(
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
        return model.Capacity(
            name=MIX,
            podms=podms,
            podm_sums=sums.podms if sums and explain else None,
            site_sums=sums.site if sums and explain else None,
            proven=bounds,
            exhausted=model.exhausted(podms),
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
) -> tuple[model.ProvenMost, dict[str, int]]:
    budget = context.bound.policy.budget
    optimum = most_nodes(context.view, node_types, shares=shares, budget=budget)
    bound = optimum.bound if sums is None else min(optimum.bound, sums.podms)
    return model.ProvenMost(bound=bound, found=optimum.placed), optimum.by_podm


class ResourceKind(NamedTuple):
    """Cores, memory, devices by model, or the resource of a ``stock``; with the unit, if any.

    The ``model`` of memory is its type, of a drive its medium, of a stock its resource.
    """

    kind: str
    model: str | None
    unit: str = ""


Amounts = Counter[ResourceKind]


def _devices(
    kinds: BlockKinds, number: int, only: str | None = None
) -> Iterator[tuple[ResourceKind, Any]]:
    for kind, device in kinds.devices_of(number):
        if only in (None, kind):
            names = (getattr(device, name, None) for name in ("model", "type", "media"))
            unit = "MiB" if kind == "memory" else ""
            word = _WORDS.get(kind) or device.kind
            yield ResourceKind(word, next(filter(None, names), None), unit), device


def _block_amounts(kinds: BlockKinds, number: int) -> Amounts:
    """Return the amounts in a block of a kind, without devices of unknown number or size."""
    amounts = Amounts()
    for resource, device in _devices(kinds, number):
        per_device = {"cores": "cores", "memory": "capacity_mib"}.get(resource.kind)
        size = getattr(device, per_device) if per_device else 1
        amounts[resource] += (device.count or 0) * (size or 0)
    return amounts


def _stocks(table: BlockTable) -> Iterator[tuple[int, ResourceKind, float]]:
    for number, stock in enumerate(table.stocks):
        yield number, ResourceKind("stock", stock.resource, stock.unit), free_amount(stock)


def _free_amounts(kinds: BlockKinds, table: BlockTable, before: BlockTable) -> Amounts:
    """Return the free amounts by resource kind; blocks changed since ``before`` do not count."""
    amounts = Amounts()
    for kind, number in Counter(table.kinds[one] for one in _unused_blocks(table, before)).items():
        for resource, amount in _block_amounts(kinds, kind).items():
            amounts[resource] += number * amount
    for _, resource, free in _stocks(table):
        amounts[resource] += free  # type: ignore[assignment]
    return amounts


def _unused_blocks(table: BlockTable, before: BlockTable) -> Iterator[int]:
    pairs = enumerate(zip(table.slots, before.slots, strict=True))
    return (block for block, (slots, old) in pairs if slots and slots == old)


class Filling:
    """A site before and after nodes of some requests fill it, in the order of the requests."""

    def __init__(self, contexts: Sequence[EvaluationContext]) -> None:
        self.contexts, self.before = contexts, contexts[0].view
        types = [NodeType.in_context(context) for context in contexts]
        budgets = (one.bound.policy.budget for one in contexts)
        budget = max(budgets, key=lambda one: one.decision_states)
        variants = variants_of(types, self.before.kinds, budget)
        witness = Witness(self.before, variants, budget)
        for number, variant in enumerate(variants):
            rows = types[variant.node_type].rows
            open_rows = np.flatnonzero(self.before.all_rows if rows is None else rows).tolist()
            for row in open_rows if variant.demands or variant.grants else ():
                witness.fill([(row, number)], MOST_ON_ROW)
        self.after = witness.current_view
        self._why = functools.cache(self._find_why)
        self._verdicts = functools.cache(self._find_verdicts)

    def reasons(self, podm: int, resource: ResourceKind) -> Iterator[tuple[str, float]]:
        before, table = self.before.block_tables[podm], self.after.block_tables[podm]
        first = int(self.before.first_row[podm])
        for block in _unused_blocks(table, before):
            amount = _block_amounts(self.before.kinds, table.kinds[block])[resource]
            if amount:
                rows = tuple(first + position for position in table.pools[block])
                yield self._why(rows, resource, table.kinds[block]), amount
        for number, kind, free in _stocks(table):
            if free and kind == resource:
                rows = tuple(first + one for one in table.stock_pools[number])
                yield self._why(rows, resource, None), free

    def _find_why(self, rows: tuple[int, ...], resource: ResourceKind, kind: int | None) -> str:
        kinds = self.before.kinds

        def uses(need: Need) -> bool:
            if kind is None:
                return need.kind == "stock" and need.resource == resource.model
            alike = (has for one, has in _devices(kinds, kind, need.kind) if one == resource)
            return any(device_amount(need, need.kind, has) for has in alike)

        users = [
            number
            for number, context in enumerate(self.contexts)
            if any(uses(need) for one in context.request.alternatives for need in one.needs)
        ]
        if not rows or not users:
            return model.NOT_REQUESTED if rows else IN_NO_POOL
        found = ((one, row, self._verdicts(one).reasons(row)) for one in users for row in rows)
        number, _, reasons = min(found, key=lambda one: (len(one[2]), *one[:2]))
        flavor = self.contexts[number].request.flavor
        text = ReasonPhrases().without_amounts(scarcest_first(reasons))
        return f"{text} ({flavor})" if flavor else text

    def _find_verdicts(self, number: int) -> Verdicts:
        one = self.contexts[number]
        context = context_of(self.after, one.request, one.bound, strict=one.strict)
        batch = Batch([], self.after, context.evaluation, one.request)
        return Verdicts(Decision([Attempt(context, batch)]))


def _on_podm(podm: int, fillings: Sequence[Filling]) -> Iterator[model.StrandedAmount]:
    view = fillings[0].before
    table = view.block_tables[podm]
    free = _free_amounts(view.kinds, table, table)
    left = [_free_amounts(view.kinds, one.after.block_tables[podm], table) for one in fillings]
    for resource in sorted(free, key=lambda one: (one.kind, one.model or "", one.unit)):
        if not free[resource]:
            continue
        amounts = [one[resource] for one in left]
        best = amounts.index(min(amounts))
        why: Counter[str] = Counter()
        for text, amount in fillings[best].reasons(podm, resource) if amounts[best] else ():
            why[text] += amount  # type: ignore[assignment]
        yield model.StrandedAmount(
            podm=view.podms[podm].id,
            kind=resource.kind,
            model=resource.model,
            unit=resource.unit,
            free=round(float(free[resource]), 9),
            usable=round(float(free[resource] - amounts[best]), 9),
            why=tuple((text, round(float(amount), 9)) for text, amount in why.most_common()),
        )


def scarcest_first(reasons: Iterable[Reason]) -> list[Reason]:
    def part(reason: Reason) -> float:
        if not reason.is_amount:
            return -1.0
        return float(str(reason.have)) / float(str(reason.need)) if reason.need else 1.0

    return sorted(reasons, key=part)
