# SPDX-License-Identifier: Apache-2.0
"""The section "Not chosen" of a decision: why pools were rejected, in words, grouped if many."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import escape

if TYPE_CHECKING:
    from valence_sched.model.decision import PodmVerdict, Reason, Report

MOST_LINES = 16  # of reasons, before they are grouped: with a decision around it still a screen
WIDTH = 79
MIB = 1 << 20

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


def not_chosen(
    report: Report, given: Iterable[str] = (), *, every_reason: bool = False
) -> Iterator[str]:
    """Yield why pod managers take no node: a line a pod manager or pool, or grouped by reason.

    ``given`` are the options on the command line, which are named where one rejects.
    """
    rejected = [one for one in report.podms if one.outcome in ("rejected", "undecided")]
    if not rejected:
        return
    words = _Words(frozenset(given))
    explained = report.explanation.nearest_misses if report.explanation else ()
    but_for_one = {one.podm for one in explained if one.kind == "word"}
    lines = [line for one in rejected for line in _podm_lines(one, words, but_for_one)]
    yield ""
    yield f"Not chosen: {len(rejected):,} of {report.inventory.podms:,} pod managers"
    if len(lines) > MOST_LINES and not every_reason:
        yield from _groups(rejected, words)
        yield "  --all-reasons names each pod manager"
        return
    width = max(len(escape(one.podm)) for one in rejected)
    for podm, text in lines:
        yield from textwrap.wrap(
            f"{escape(podm):{width}}  {escape(text)}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent=" " * (width + 6),
            break_on_hyphens=False,
        )


def reason_text(reason: Reason) -> str:
    """Return a reason in words."""
    return _Words(frozenset()).of_reason(reason)


def _podm_lines(
    verdict: PodmVerdict, words: _Words, but_for_one: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield a line for a pod manager, or one for each of its pools where reasons differ."""
    texts = {one.pool: words.of_pool(one.reasons) for one in verdict.pool_reasons}
    if not texts:
        texts = {verdict.pool: words.of_pool([verdict.reason] if verdict.reason else [])}
    noun = "node" if verdict.fitting == 1 else "nodes"
    after = f"after {verdict.fitting:,} {noun}: " if verdict.fitting else ""
    if len(set(texts.values())) == 1:
        otherwise = "; would fit otherwise" if verdict.podm in but_for_one else ""
        yield verdict.podm, after + next(iter(texts.values())) + otherwise
        return
    for number, (pool, text) in enumerate(texts.items()):
        yield "" if number else verdict.podm, f"{after}{pool}: {text}"


def _groups(rejected: Sequence[PodmVerdict], words: _Words) -> Iterator[str]:
    """Yield a line for each reason, the most frequent first, with who comes nearest."""
    groups: dict[tuple[str, bool, str], list[PodmVerdict]] = defaultdict(list)
    for one in rejected:
        groups[_group_key(one, words)].append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    width = max(len(text) for (text, *_), _ in ordered[:MOST_LINES])
    for (text, *_), members in ordered[:MOST_LINES]:
        yield escape(f"  {len(members):>5,}  {text:{width}}  {_nearest(members)}".rstrip())
    if len(ordered) > MOST_LINES:
        others = sum(len(members) for _, members in ordered[MOST_LINES:])
        yield f"  {others:>5,}  for other reasons"


def _group_key(verdict: PodmVerdict, words: _Words) -> tuple[str, bool, str]:
    """Return the text of the group of a verdict, whether sums would do, and the label."""
    reason = verdict.reason
    if reason is None:
        return "no reason is known", False, ""
    if reason.podm_have is not None:
        return "fit in sums, not as one node", True, ""
    if _is_amount(reason):
        text = f"no {_thing(reason)}" if not reason.have else f"too few {_thing(reason)}"
        if reason.have and reason.label.startswith("memory"):
            text = f"too little {_thing(reason)}"
        return text, False, reason.label
    return words.of_reason(reason), False, reason.label


def _nearest(members: Sequence[PodmVerdict]) -> str:
    """Return who comes nearest in a group of amounts; who is an example of another group."""
    amounts = [(one, one.reason) for one in members if one.reason and _is_amount(one.reason)]
    best = max(amounts, key=lambda pair: pair[1].have, default=None)  # type: ignore[arg-type,return-value]
    if best is None or not best[1].have:
        return ""
    verdict, reason = best
    if reason.podm_have is not None:
        total = _short_of(reason, reason.podm_have).partition(" of ")[0]
        return f"e.g. {verdict.podm}: {total} {_thing(reason)} in {verdict.pools} pools"
    return f"best: {verdict.podm} with {_share(reason)}"


class _Words:
    """Says reasons in words; ``given`` are the options on the command line."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given

    def of_pool(self, reasons: Sequence[Reason]) -> str:
        """Return all the reasons against a pool in one line."""
        none = [one for one in reasons if _is_amount(one) and not one.have]
        texts = [self.of_reason(one) for one in reasons if one not in none]
        if none:
            things = [_thing(none[0]), *(_thing(one).removeprefix("free ") for one in none[1:])]
            last = f" or {things[-1]}" if len(things) > 1 else ""
            first = ", ".join(things[:-1] if last else things)
            texts.insert(0, f"no {first}{last}{_elsewhere(none[0]) if len(none) == 1 else ''}")
        return "; ".join(texts) or "no reason is known"

    def of_reason(self, reason: Reason) -> str:
        """Return one reason: ``16 of 32 cores``, ``no GPU A100``, ``status Offline``."""
        from valence_sched.model.base import format_value

        if reason.filter == "target":
            excluded = str(reason.need).startswith("not ")
            return "excluded by --exclude-podm" if excluded else "not one of --podm"
        if _is_amount(reason):
            if not reason.have:
                return f"no {_thing(reason)}{_elsewhere(reason)}"
            return f"{_share(reason)} {_thing(reason)}{_elsewhere(reason)}"
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
        label = "" if reason.label == reason.filter else f"{reason.label} "
        return (
            f"{label}{have}, needs {format_value(reason.need)} ({by or f'filter {reason.filter}'})"
        )


def _is_amount(reason: Reason) -> bool:
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in (reason.need, reason.have)
    )


def _thing(reason: Reason) -> str:
    """Return what is counted: cores and memory are ``free`` ones where there are none."""
    label = re.sub(r"^GPU (?=\S)", "", reason.label)
    return f"free {label}" if not reason.have and reason.label in ("cores", "memory") else label


def _share(reason: Reason) -> str:
    """Return how much of the need there is: ``16 of 32``, ``128 of 256 GiB``."""
    return _short_of(reason, reason.have)


def _short_of(reason: Reason, have: Any) -> str:
    from valence_sched.model.base import format_value
    from valence_sched.model.quantity import format_bytes

    if reason.unit != "MiB":
        unit = f" {reason.unit}" if reason.unit else ""
        return f"{format_value(have)} of {format_value(reason.need)}{unit}"
    has, needs = (format_bytes(float(amount) * MIB) for amount in (have, str(reason.need)))
    number, _, unit = has.partition(" ")
    return f"{number} of {needs}" if needs.endswith(f" {unit}") else f"{has} of {needs}"


def _elsewhere(reason: Reason) -> str:
    """Return what there is instead, or that other pools have enough together."""
    from valence_sched.model.base import format_value
    from valence_sched_cli.output.hardware import short_model

    if reason.podm_have is not None:
        return f" ({format_value(reason.podm_have)} in all its pools)"
    if not reason.instead:
        return ""
    models = sorted(reason.instead.items(), key=lambda item: (-item[1], item[0]))
    return f" (free: {', '.join(f'{count} {short_model(model)}' for model, count in models)})"
