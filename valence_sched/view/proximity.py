# SPDX-License-Identifier: Apache-2.0
"""Proximity terms: compare each row with the place of an external resource."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.request import Proximity
from valence_sched.view.fact_rules import FactRule
from valence_sched.view.terms import Term
from valence_sched.view.view import View


def proximity_terms(view: View, near: Proximity) -> Iterator[Term]:
    """Yield one comparison for each known property of the place of a resource.

    The zone is the same; at least one aggregate is shared; each fact has a value in common with
    that of the pod manager. A value that a pod manager does not report is not shared.
    """
    if near.zone is not None:
        same = view.zone.where(lambda zone: zone == near.zone)
        yield Term(f"zone of {near.thing}", near.zone, view.zone, holds=same)
    if near.aggregates:
        shared = view.aggregates.where(lambda has: not has.isdisjoint(near.aggregates))
        need = " or ".join(near.aggregates)
        yield Term(f"aggregate of {near.thing}", need, view.aggregates, holds=shared)
    for name, fact in near.facts.items():
        labels = view.text(name)
        values = fact if isinstance(fact, tuple) else (fact,)
        rules = [FactRule(fact=name, equals=value) for value in values]
        holds = labels.where(lambda has, rules=rules: any(rule.accepts(has) for rule in rules))  # type: ignore[misc]
        need = " or ".join(map(str, values))
        yield Term(f"facts.{name} of {near.thing}", need, labels, holds=holds)
