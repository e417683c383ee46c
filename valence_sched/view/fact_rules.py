# SPDX-License-Identifier: Apache-2.0
"""Fact rules: a condition of a policy on one property of a pod manager, with its cost or weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.view.view import Floats, Mask, View

_NAMES = ("trait", "zone", "aggregate")
_SUBJECTS = ("capability", "fact", *_NAMES)


class FactRule(Noun, frozen=True, kw_only=True):
    """A condition on exactly one capability, fact, trait, zone or aggregate.

    A trait, zone or aggregate matches by its name. A capability or fact matches where one of its
    values is ``equals``, or is a number of ``at_least`` so much; with neither, wherever it is
    told at all. A text that is a number compares as that number.
    """

    capability: str | None = None
    fact: str | None = None
    trait: str | None = None
    zone: str | None = None
    aggregate: str | None = None
    equals: float | str | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        # Worded as msgspec words its own, so that the refusal names the place and what was found.
        named = [name for name in _SUBJECTS if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(_SUBJECTS)}")
        if self.equals is not None and self.at_least is not None:
            raise ValueError("Expected equals or at_least, not both")
        compares = self.equals is not None or self.at_least is not None
        if compares and named[0] in _NAMES:
            raise ValueError(f"Expected {named[0]} alone, without equals or at_least")

    def accepts(self, reported: object) -> bool:
        """Return whether what was told of the capability or fact matches; None is unknown."""
        if reported is None:
            return False
        values = reported if isinstance(reported, (tuple, list)) else (reported,)
        if self.at_least is not None:
            return any(_number(value) >= self.at_least for value in values)
        if self.equals is not None:
            return any(_same(value, self.equals) for value in values)
        return True


class CostRule(FactRule, frozen=True, kw_only=True):
    """What a pod manager costs that matches; points, whole, from 0."""

    cost: Annotated[int, Meta(ge=0, le=1_000_000)]


class PreferenceRule(FactRule, frozen=True, kw_only=True):
    """How much a match is wished for; below 0 it is unwelcome."""

    weight: Annotated[float, Meta(ge=-1000, le=1000)]


def matches(view: View, rule: FactRule) -> Mask:
    """Return per row whether its pod manager (of a trait: its pool) matches the rule."""
    if rule.zone is not None:
        return view.zone.where(lambda name: name == rule.zone)
    if rule.trait is not None:
        return view.traits.where({rule.trait}.issubset)
    if rule.aggregate is not None:
        return view.aggregates.where({rule.aggregate}.issubset)
    if rule.fact is not None:
        return view.text(rule.fact).where(rule.accepts)
    return view.capabilities.where(lambda has: rule.accepts(has.get(rule.capability)))


def sum_matches(view: View, name: str, weighted_rules: Sequence[tuple[FactRule, float]]) -> Floats:
    """Return per row the sum of what the rules that match are worth, read-only.

    What pod managers tell does not change while nodes are placed: of each ``name``, the sum of the
    rules last asked for is kept.
    """

    def add() -> Floats:
        total = np.zeros(len(view))
        for rule, value in weighted_rules:
            total += value * matches(view, rule)
        total.flags.writeable = False
        return total

    return view.memoise_latest(f"worth of {name}", weighted_rules, add)  # type: ignore[no-any-return]


def _same(told: object, wanted: float | str) -> bool:
    return told == wanted or _number(told) == _number(wanted)


def _number(value: object) -> float:
    """Return a number, or a text that is one; NaN, which equals nothing, for all else."""
    if not isinstance(value, (int, float, str)):
        return float("nan")
    try:
        return float(value)
    except ValueError:
        return float("nan")
