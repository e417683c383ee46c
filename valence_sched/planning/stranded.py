# SPDX-License-Identifier: Apache-2.0
"""Stranded amounts: what is free and stays free when no flavor fits any more, and why.

The site is filled with nodes of the flavors, one flavor after another, the dearest first; then
once more for each flavor with that one first. Of each resource kind, the filling that uses most of
it on a podm counts: so much is usable. A block that some node takes is used as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from valence_sched.core.alternatives import Attempt
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision
from valence_sched.core.evaluate import context_of
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.fit.demands import price_of_needs
from valence_sched.model.capacity import NOT_REQUESTED, StrandedAmount
from valence_sched.model.decision import Reason
from valence_sched.model.reason_phrases import ReasonPhrases
from valence_sched.model.stock import free_amount
from valence_sched.planning.missing_amounts import scarcest_first
from valence_sched.planning.optimise.node_types import NodeType, variants_of
from valence_sched.planning.optimise.witness import Witness
from valence_sched.planning.resources import (
    ResourceKind,
    block_amounts,
    free_amounts,
    is_used_by,
    stock_kind,
    unused_blocks,
)
from valence_sched.view.view import View

MOST_ON_ROW = 1_000  # nodes of one flavor in one pool, where the grants of stocks never end
IN_NO_POOL = "in no pool"


def stranded_amounts(contexts: Sequence[EvaluationContext]) -> list[StrandedAmount]:
    """Return what is free on each podm, and how much of it no node of some requests can use.

    ``contexts`` are those of the requests, on one View. The order is that of the podms.
    """
    order = sorted(contexts, key=lambda one: price_of_needs(one.request.needs), reverse=True)
    fillings = [Filling([first, *(one for one in order if one is not first)]) for first in order]
    return [amount for podm in _target_podms(order) for amount in _on_podm(podm, fillings)]


def _target_podms(contexts: Sequence[EvaluationContext]) -> list[int]:
    """Return the podms, by number, but those that every request leaves out by name."""
    view = contexts[0].view
    left = np.zeros(len(view), dtype=bool)
    for context in contexts:
        verdicts = zip(context.bound.filters, context.evaluation.verdicts, strict=True)
        target = [passed for filter_, passed in verdicts if filter_.name == "target"]
        left |= np.logical_and.reduce(target) if target else True
    return sorted(set(view.podm_of[left].tolist()))


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


@dataclass(slots=True)
class Filling:
    """A site before and after nodes of some requests fill it, those of the first one first."""

    contexts: Sequence[EvaluationContext]
    before: View = field(init=False)
    after: View = field(init=False)
    _verdicts: dict[int, Verdicts] = field(default_factory=dict)
    _texts: dict[tuple[object, ...], str] = field(default_factory=dict)

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

    def _why(self, rows: tuple[int, ...], resource: ResourceKind, kind: int | None) -> str:
        key = (rows, resource, kind)
        if key not in self._texts:
            self._texts[key] = self._reason_text(rows, resource, kind)
        return self._texts[key]

    def _reason_text(self, rows: tuple[int, ...], resource: ResourceKind, kind: int | None) -> str:
        """Return what is lacking to the flavor that needs a resource and comes nearest."""
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
            for number in asking for row in rows for reasons in [self._lacking(number, row)]
        ]  # fmt: skip
        _, number, _, reasons = min(found, key=lambda one: one[:3])
        flavor = self.contexts[number].request.flavor
        text = ReasonPhrases().without_amounts(scarcest_first(reasons))
        return f"{text} ({flavor})" if flavor else text

    def _lacking(self, number: int, row: int) -> list[Reason]:
        if number not in self._verdicts:
            one = self.contexts[number]
            context = context_of(self.after, one.request, one.bound, strict=one.strict)
            batch = Batch([], self.after, context.evaluation, one.request)
            self._verdicts[number] = Verdicts(Decision([Attempt(context, batch)]))
        return self._verdicts[number].reasons(row)
