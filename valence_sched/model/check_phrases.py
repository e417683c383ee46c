# SPDX-License-Identifier: Apache-2.0
"""The sentence that names an expectation where its file gives it no name."""

from __future__ import annotations

from valence_sched.model.check import (
    Check,
    Decides,
    DoesNotFit,
    Expectation,
    Fails,
    FitBounds,
    Fits,
    Lands,
    Survives,
    Uses,
    place_target,
)
from valence_sched.model.scenario import edit_text
from valence_sched.model.target import Target


def check_name(check: Check) -> str:
    """Return the name of an expectation, else a sentence with the scenario and the edits."""
    expectation = check.expectation
    if expectation.name is not None:
        return expectation.name
    scenario = [expectation.scenario.rpartition("#")[2]] if expectation.scenario else []
    surroundings = ", ".join([*scenario, *map(edit_text, check.edits)])
    return _sentence(expectation) + (f" ({surroundings})" if surroundings else "")


def _sentence(expectation: Expectation) -> str:
    match expectation:
        case Fits(fits=one):
            return f"{one.flavor} fits {_bounds(one)}{_in(one.place)}{_policy(one.policy)}"
        case Lands(lands=one):
            verb = "lands" if one.count == 1 else "land"
            return f"{_nodes(one.count, one.flavor)}{verb}{_in(one.place)}{_policy(one.policy)}"
        case DoesNotFit(does_not_fit=one):
            verb = "does not fit" if one.count == 1 else "do not fit"
            return f"{_nodes(one.count, one.flavor)}{verb}{_in(one.place)}{_policy(one.policy)}"
        case Survives(survives=number):
            return f"any {count_text(number, 'pod manager')} may fail"
        case Fails(stuck_at_most=0):
            return f"every node lands again if {expectation.target} fails"
        case Fails(stuck_at_most=most):
            return f"at most {count_text(most, 'node')} stuck if {expectation.target} fails"
        case Uses(uses=one):
            return f"{one.workload} {_need(one.podms_at_most)}{_policy(one.policy)}"
        case Decides(decision=golden):
            return f"{golden.flavor} is decided as in {golden.file}"


def _bounds(bounds: FitBounds) -> str:
    least, most = bounds.at_least, bounds.at_most
    if least is None:
        return f"at most {count_text(most or 0, 'time')}"
    if most is None:
        return f"at least {count_text(least, 'time')}"
    return f"{count_text(most, 'time')}" if least == most else f"{least:,} to {most:,} times"


def _need(podms: int | None) -> str:
    return "is placed" if podms is None else f"needs at most {count_text(podms, 'pod manager')}"


def _nodes(count: int, flavor: str) -> str:
    return f"{flavor} " if count == 1 else f"{count:,} x {flavor} "


def _in(place: Target | str | None) -> str:
    return "" if place is None else f" in {place_target(place)}"


def _policy(policy: str | None) -> str:
    return "" if policy is None else f" under {policy}"


def count_text(number: int, noun: str) -> str:
    """Return a number of things: ``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
