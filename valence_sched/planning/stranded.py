# SPDX-License-Identifier: Apache-2.0
"""Stranded amounts: what is free and stays free when no flavor fits any more, and why.

The site is filled with nodes of the flavors, one flavor after another, the dearest first; then
once more for each flavor with that one first. Of each resource kind, the filling that uses most of
it on a podm counts: so much is usable. A block that some node takes is used as a whole.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from valence_sched.core.batch import Attempt, Batch
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext, context_of
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.set_cover import price_of_needs
from valence_sched.model.capacity import NOT_REQUESTED, StrandedAmount
from valence_sched.model.decision import Reason
from valence_sched.model.inventory import free_amount
from valence_sched.model.need import Need
from valence_sched.planning.optimise.node_types import NodeType, variants_of
from valence_sched.planning.optimise.witness import Witness
from valence_sched.view.block_kinds import BlockKinds, device_amount
from valence_sched.view.blocks import BlockTable
from valence_sched.view.view import View
from valence_sched.words.phrases import ReasonPhrases

MOST_ON_ROW = 1_000  # nodes of one flavor in one pool, where the grants of stocks never end
IN_NO_POOL = "in no pool"

_WORDS = {"processor": "cores", "memory": "memory", "drive": "drive", "nic": "NIC"}


class ResourceKind(NamedTuple):
    """Cores, memory or devices by model; or of ``stock`` kind, a resource. With the unit, if any.

    An accelerator has its own kind, such as GPU. A drive without a model has its medium, and
    memory its type in place of one.
    """

    kind: str
    model: str | None
    unit: str = ""


Amounts = Counter[ResourceKind]


def block_amounts(kinds: BlockKinds, number: int) -> Amounts:
    """Return what a block of a kind has; devices whose number or size is unknown count as none."""
    amounts: Amounts = Counter()
    for resource, device in _devices(kinds, number):
        per_device = {"cores": "cores", "memory": "capacity_mib"}.get(resource.kind)
        size = getattr(device, per_device) if per_device else 1
        amounts[resource] += (device.count or 0) * (size or 0)
    return amounts


def stock_kind(table: BlockTable, number: int) -> ResourceKind:
    """Return the resource of a stock."""
    stock = table.stocks[number]
    return ResourceKind("stock", stock.resource, stock.unit)


def free_amounts(kinds: BlockKinds, table: BlockTable, before: BlockTable) -> dict[Any, float]:
    """Return what is free by resource kind: of blocks, those untouched since ``before``."""
    amounts: dict[ResourceKind, float] = {}
    for kind, number in Counter(table.kinds[one] for one in unused_blocks(table, before)).items():
        for resource, amount in block_amounts(kinds, kind).items():
            amounts[resource] = amounts.get(resource, 0.0) + number * amount
    for number, stock in enumerate(table.stocks):
        resource = stock_kind(table, number)
        amounts[resource] = amounts.get(resource, 0.0) + free_amount(stock)
    return amounts


def unused_blocks(table: BlockTable, before: BlockTable) -> Iterator[int]:
    """Yield the free blocks of which no slot was taken since ``before``."""
    for block, slots in enumerate(table.slots):
        if slots and slots == before.slots[block]:
            yield block


def is_used_by(need: Need, resource: ResourceKind, kinds: BlockKinds, number: int | None) -> bool:
    """Return whether a need is for a resource as a kind of block has it; None for a stock."""
    if number is None:
        return need.kind == "stock" and need.resource == resource.model
    return any(
        found == resource and device_amount(need, need.kind, device)
        for found, device in _devices(kinds, number, need.kind)
    )


def _devices(
    kinds: BlockKinds, number: int, only: str | None = None
) -> Iterator[tuple[ResourceKind, Any]]:
    for kind, device in kinds.devices_of(number):
        if only in (None, kind):
            model = getattr(device, "model", None) or getattr(device, "type", None)
            model = model or getattr(device, "media", None)
            unit = "MiB" if kind == "memory" else ""
            yield ResourceKind(_WORDS.get(kind) or device.kind, model, unit), device


def stranded_amounts(contexts: Sequence[EvaluationContext]) -> list[StrandedAmount]:
    """Return what is free on each podm, and how much of it no node of some requests can use.

    ``contexts`` are those of the requests, on one View. The order is that of the podms.
    """
    order = sorted(contexts, key=lambda one: price_of_needs(one.request.needs), reverse=True)
    fillings = [Filling([first, *(one for one in order if one is not first)]) for first in order]
    view = contexts[0].view
    left = np.zeros(len(view), dtype=bool)  # but for podms that every request leaves out by name
    for context in contexts:
        verdicts = zip(context.bound.filters, context.evaluation.verdicts, strict=True)
        target = [passed for filter_, passed in verdicts if filter_.name == "target"]
        left |= np.logical_and.reduce(target) if target else True
    podms = sorted(set(view.podm_of[left].tolist()))
    return [amount for podm in podms for amount in _on_podm(podm, fillings)]


def _on_podm(podm: int, fillings: Sequence[Filling]) -> Iterator[StrandedAmount]:
    view = fillings[0].before
    table = view.block_tables[podm]
    free = free_amounts(view.kinds, table, table)
    left = [
        free_amounts(view.kinds, filling.after.block_tables[podm], table) for filling in fillings
    ]
    for resource in sorted(free, key=lambda one: (one.kind, one.model or "", one.unit)):
        if not free[resource]:
            continue
        amounts = [one.get(resource, 0.0) for one in left]
        best = amounts.index(min(amounts))
        why: Counter[str] = Counter()
        for text, amount in fillings[best].reasons(podm, resource) if amounts[best] else ():
            why[text] += amount  # type: ignore[assignment]
        yield StrandedAmount(
            podm=view.podms[podm].id,
            kind=resource.kind,
            model=resource.model,
            unit=resource.unit,
            free=round(free[resource], 9),
            usable=round(free[resource] - amounts[best], 9),
            why=tuple((text, round(float(amount), 9)) for text, amount in why.most_common()),
        )


@dataclass(eq=False)
class Filling:
    """A site before and after nodes of some requests fill it, those of the first one first."""

    contexts: Sequence[EvaluationContext]
    before: View = field(init=False)
    after: View = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.contexts[0].view
        types = [NodeType.in_context(context) for context in self.contexts]
        budgets = (one.bound.policy.budget for one in self.contexts)
        budget = max(budgets, key=lambda one: one.decision_states)
        variants = variants_of(types, self.before.kinds, budget)
        witness = Witness(self.before, variants, budget)
        for number, variant in enumerate(variants):
            rows = types[variant.node_type].rows
            open_rows = np.flatnonzero(self.before.all_rows if rows is None else rows).tolist()
            for row in open_rows if variant.demands or variant.grants else ():
                witness.fill([(row, number)], MOST_ON_ROW)
        self.after = witness.current_view

    def reasons(self, podm: int, resource: ResourceKind) -> Iterator[tuple[str, float]]:
        """Yield each amount of a resource that is left on a podm, with why it is."""
        before, table = self.before.block_tables[podm], self.after.block_tables[podm]
        first = int(self.before.first_row[podm])
        for block in unused_blocks(table, before):
            amount = block_amounts(self.before.kinds, table.kinds[block]).get(resource)
            if amount:
                rows = tuple(first + position for position in table.pools[block])
                yield self._why(rows, resource, table.kinds[block]), amount
        for number, pools in enumerate(table.stock_pools):
            amount_free = free_amount(table.stocks[number])
            if amount_free and stock_kind(table, number) == resource:
                yield self._why(tuple(first + one for one in pools), resource, None), amount_free

    @functools.cache  # noqa: B019 - it goes with the filling
    def _why(self, rows: tuple[int, ...], resource: ResourceKind, kind: int | None) -> str:
        asking = [
            number for number, context in enumerate(self.contexts)
            if any(
                is_used_by(need, resource, self.before.kinds, kind)
                for alternative in context.request.alternatives for need in alternative.needs
            )
        ]  # fmt: skip
        if not rows or not asking:
            return NOT_REQUESTED if rows else IN_NO_POOL
        found = [
            (len(reasons), number, row, reasons)
            for number in asking for row in rows
            for reasons in [self._verdicts(number).reasons(row)]
        ]  # fmt: skip
        _, number, _, reasons = min(found, key=lambda one: one[:3])
        flavor = self.contexts[number].request.flavor
        text = ReasonPhrases().without_amounts(scarcest_first(reasons))
        return f"{text} ({flavor})" if flavor else text

    @functools.cache  # noqa: B019
    def _verdicts(self, number: int) -> Verdicts:
        one = self.contexts[number]
        context = context_of(self.after, one.request, one.bound, strict=one.strict)
        batch = Batch([], self.after, context.evaluation, one.request)
        return Verdicts(Decision([Attempt(context, batch)]))


def scarcest_first(reasons: Iterable[Reason]) -> list[Reason]:
    """Return reasons that are no amounts, then the amounts, the least part of the need first.

    More of a resource does not help against the former.
    """

    def part(reason: Reason) -> float:
        if not reason.is_amount:
            return -1.0
        return float(str(reason.have)) / float(str(reason.need)) if reason.need else 1.0

    return sorted(reasons, key=part)
