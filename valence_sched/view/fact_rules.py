# SPDX-License-Identifier: Apache-2.0
"""Fact rules: a condition of a policy on one property of a pod manager, with its cost or weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from valence_sched.model.base import Noun, as_number
from valence_sched.view.view import Floats, Mask, View, read_only

_NAMES = ("trait", "zone", "aggregate")
_SUBJECTS = ("capability", "fact", *_NAMES)


class FactRule(Noun, frozen=True, kw_only=True):
    """A condition on exactly one capability, fact, trait, zone or aggregate.

    A trait, zone or aggregate matches by its name. A capability or fact matches if one of its
    values is equal to ``equals``, or is a number of at least ``at_least``; with neither, if it is
    reported at all. A text that is a number compares as that number.
    """

    capability: str | None = None
    fact: str | None = None
    trait: str | None = None
    zone: str | None = None
    aggregate: str | None = None
    equals: float | str | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        # In the words of msgspec's own errors, so that the message names the path and the value.
        subjects = [name for name in _SUBJECTS if getattr(self, name) is not None]
        if len(subjects) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(_SUBJECTS)}")
        if self.equals is not None and self.at_least is not None:
            raise ValueError("Expected equals or at_least, not both")
        compares = self.equals is not None or self.at_least is not None
        if compares and subjects[0] in _NAMES:
            raise ValueError(f"Expected {subjects[0]} alone, without equals or at_least")

    def accepts(self, reported: object) -> bool:
        """Return whether a reported capability or fact matches; None is unknown."""
        if reported is None:
            return False
        values = reported if isinstance(reported, (tuple, list)) else (reported,)
        if self.at_least is not None:
            return any(_number(value) >= self.at_least for value in values)
        if self.equals is not None:
            equal, number = self.equals, _number(self.equals)
            return any(value == equal or _number(value) == number for value in values)
        return True


class CostRule(FactRule, frozen=True, kw_only=True):
    """The cost of a pod manager that matches, in whole points from 0."""

    cost: Annotated[int, Meta(ge=0, le=1_000_000)]


class PreferenceRule(FactRule, frozen=True, kw_only=True):
    """The weight of a match; below 0 the rule speaks against the pod manager."""

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
    """Return per row the sum of the values of the rules that match, read-only.

    Placing nodes does not change it: the View remembers the latest sum of each ``name``.
    """

    def compute() -> Floats:
        total = np.zeros(len(view))
        for rule, value in weighted_rules:
            total += value * matches(view, rule)
        return read_only(total)

    return view.memoise_latest(f"sum of {name}", weighted_rules, compute)  # type: ignore[no-any-return]


def _number(value: object) -> float:
    return as_number(value) if isinstance(value, (int, float, str)) else math.nan
