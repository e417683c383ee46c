# SPDX-License-Identifier: Apache-2.0
"""Reasons against a pool as phrases that people read: ``16 of 32 cores``, ``no GPU A100``."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.model.base import format_value
from valence_sched.model.decision import Reason, Uncounted
from valence_sched.model.phrases import MIB, short_model
from valence_sched.model.quantity import agree, format_bytes

#: Filters that a person asks for, and by which options.
_OPTIONS = {
    "zone": ("zone",),
    "location": ("location",),
    "aggregates": ("aggregate", "exclude_aggregate", "member_of"),
    "capabilities": ("capability",),
    "traits": ("trait", "exclude_trait", "required", "forbidden"),
    "attributes": ("attribute",),
    "json": ("where",),
    "near": ("near",),
}


class ReasonPhrases:
    """Says reasons in words; ``given`` are the options on the command line."""

    def __init__(self, given: frozenset[str] = frozenset()) -> None:
        self._given = given

    def of_pool(self, reasons: Sequence[Reason]) -> str:
        """Return all the reasons against a pool in one line."""
        none = [one for one in reasons if is_amount(one) and not one.have]
        texts = [self.of_reason(one) for one in reasons if one not in none]
        if none:
            things = [thing(none[0]), *(thing(one).removeprefix("free ") for one in none[1:])]
            last = f" or {things[-1]}" if len(things) > 1 else ""
            first = ", ".join(things[:-1] if last else things)
            few = [replace(one, instead={}, podm_have=None) for one in none]
            some = none if len(none) == 1 else few
            notes = "; ".join(filter(None, map(_notes, some)))
            texts.insert(0, f"no {first}{last}" + (f" ({notes})" if notes else ""))
        return "; ".join(texts) or "no reason is known"

    def without_amounts(self, reasons: Sequence[Reason]) -> str:
        """Return the reasons against a pool in words that are equal where only numbers differ."""
        amounts = [one for one in reasons if is_amount(one)]
        others = [self.of_reason(one) for one in reasons if one not in amounts]
        none = self.of_pool([_bare(one) for one in amounts if not one.have])
        short = [too_small(one) for one in amounts if one.have]
        return "; ".join([*others, *([none] if len(short) < len(amounts) else []), *short])

    def of_reason(self, reason: Reason) -> str:
        """Return one reason: ``16 of 32 cores``, ``no GPU A100``, ``status Offline``."""
        if reason.filter == "target":
            excluded = str(reason.need).startswith("not ")
            return "excluded by --exclude-podm" if excluded else "not one of --podm"
        if is_amount(reason):
            if not reason.have:
                return f"no {thing(reason)}{_elsewhere(reason)}"
            what = agree(float(str(reason.need)), thing(reason))
            return f"{share(reason)} {what}{_elsewhere(reason)}"
        if reason.label == "this filter":
            verb = "says no" if reason.have == "no" else "failed"
            return f"filter {reason.filter} {verb}"
        if reason.need is True or reason.need == "yes":
            return f"not {reason.label} (filter {reason.filter})"
        if reason.filter == "fit":
            return f"{reason.label}: needs {reason.need}, has {reason.have}"
        given = [name for name in _OPTIONS.get(reason.filter, ()) if name in self._given]
        by = " or ".join(f"--{name.replace('_', '-')}" for name in given)
        have = format_value(reason.have)
        found = f"{reason.label} {have}" if reason.label != reason.filter else have
        if reason.filter == "capabilities" and not reason.have:
            found = f"no {reason.label}"
        return f"{found}, needs {format_value(reason.need)} ({by or f'filter {reason.filter}'})"


def is_amount(reason: Reason) -> bool:
    """Return whether both what is needed and what there is are numbers."""
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in (reason.need, reason.have)
    )


def thing(reason: Reason) -> str:
    """Return what is counted: cores and memory are ``free`` ones where there are none."""
    label = re.sub(r"^GPU (?=\S)", "", reason.label)
    return f"free {label}" if not reason.have and reason.label in ("cores", "memory") else label


def too_small(reason: Reason) -> str:
    """Return that there is too little of an amount: ``too few cores``, ``no A100``."""
    if not reason.have:
        return f"no {thing(reason)}"
    return f"too {'little' if reason.label.startswith('memory') else 'few'} {thing(reason)}"


def _bare(reason: Reason) -> Reason:
    return replace(reason, instead={}, podm_have=None, uncounted=UNSET)


def share(reason: Reason) -> str:
    """Return how much of the need there is: ``16 of 32``, ``128 of 256 GiB``."""
    return short_of(reason, reason.have)


def short_of(reason: Reason, have: Any) -> str:
    """Return an amount beside that of the need: ``16 of 32``, ``128 of 256 GiB``."""
    if reason.unit != "MiB":
        unit = f" {reason.unit}" if reason.unit else ""
        return f"{format_value(have)} of {format_value(reason.need)}{unit}"
    has, needs = (format_bytes(float(amount) * MIB) for amount in (have, str(reason.need)))
    number, _, unit = has.partition(" ")
    return f"{number} of {needs}" if needs.endswith(f" {unit}") else f"{has} of {needs}"


def _elsewhere(reason: Reason) -> str:
    return f" ({notes})" if (notes := _notes(reason)) else ""


def _notes(reason: Reason) -> str:
    """Return what does not count, what there is instead, or that all pools have enough."""
    notes = []
    if reason.uncounted:
        notes.append(_uncounted(reason, reason.uncounted))
    if reason.podm_have is not None:
        notes.append(f"{format_value(reason.podm_have)} in all its pools")
    elif reason.instead:
        models = sorted(reason.instead.items(), key=lambda item: (-item[1], item[0]))
        found = ", ".join(f"{count} {short_model(model)}" for model, count in models)
        notes.append(f"free: {found}")
    return "; ".join(notes)


def _uncounted(reason: Reason, found: Uncounted) -> str:
    """Return what does not count, and why: ``1 of 4 A100 is Critical, 2 are Disabled``."""
    all_of = replace(reason, need=found.installed)
    what = re.sub(r"^GPU (?=\S)", "", reason.label)
    texts = []
    for number, (word, amount) in enumerate(sorted(found.conditions.items())):
        verb = "is" if amount == 1 or reason.unit else "are"
        share_ = short_of(all_of, amount)
        texts.append(f"{amount:,} {verb} {word}" if number and not reason.unit
                     else f"{share_} {what} {verb} {word}")  # fmt: skip
    return ", ".join(texts)
