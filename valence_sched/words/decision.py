# SPDX-License-Identifier: Apache-2.0
"""A decision in words: why not elsewhere, how near that was, and what would change the choice."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.base import format_value, is_number
from valence_sched.model.decision import (
    Contender,
    Explanation,
    NearMiss,
    PodmVerdict,
    Report,
    RunnerUp,
    ScorePart,
    Sensitivity,
    Shortfall,
)
from valence_sched.model.quantity import agree, format_bytes, format_count
from valence_sched.words.phrases import MIB, ReasonPhrases

NEAREST_MISS = "Nearest miss"


def not_chosen(report: Report) -> list[PodmVerdict]:
    """Return the verdicts on the pod managers that take no node."""
    return [one for one in report.podms if one.outcome in ("rejected", "undecided")]


def pool_texts(verdict: PodmVerdict, words: ReasonPhrases) -> tuple[str, dict[str, str]]:
    """Return after how many nodes a pod manager takes no more, and why, by pool.

    Where no pool has reasons of its own, that of the pod manager stands for its best pool.
    """
    after = f"after {format_count(verdict.fitting, 'node')}: " if verdict.fitting else ""
    texts = {one.pool: words.of_pool(one.reasons) for one in verdict.pool_reasons}
    return after, texts or {verdict.pool: words.of_pool([verdict.reason] if verdict.reason else [])}


def score_parts(explanation: Explanation) -> Iterator[tuple[Contender, list[ScorePart]]]:
    """Yield the candidates with their parts, those of the first one's greatest weight first."""
    first = explanation.candidates[0].parts
    weighers = [one.weigher for one in sorted(first, key=lambda one: (-one.weight, one.weigher))]
    for one in explanation.candidates:
        parts = {part.weigher: part for part in one.parts}
        yield one, [parts[name] for name in weighers]


def runner_up_line(one: RunnerUp) -> str:
    """Return the next best pool and what it lacks in score."""
    if not one.margin and not any(it.difference for it in one.differences):
        return f"{one.podm} ({one.pool}), equally good: lots decided"
    by = ", ".join(f"{it.weigher} {it.difference:+.6f}" for it in one.differences)
    return f"{one.podm} ({one.pool}), {one.margin:.6f} behind" + (f": {by}" if by else "")


def shortfall_phrase(one: Shortfall) -> str:
    """Return what a pool lacks: ``8 cores``, ``1 GPU A100``."""
    unit = f" {one.unit}" if one.unit else ""
    if is_number(one.need) and is_number(one.have):
        missing = float(one.need) - float(one.have)  # type: ignore[arg-type]
        if one.unit == "MiB":
            return f"{format_bytes(missing * MIB)} {one.label}"
        return f"{format_value(missing)}{unit} {agree(missing, one.label)}"
    return f"{one.label} {format_value(one.need)}{unit} (has {format_value(one.have)})"


def near_miss_line(miss: NearMiss) -> str:
    """Return what a pod manager lacks for a node, and what would free it."""
    if miss.kind == "word":
        values = [(one.label, *map(format_value, (one.need, one.have))) for one in miss.lacks]
        but = " and ".join(f"{label}: needs {need}, has {have}" for label, need, have in values)
        return f"{miss.podm} fits but for {but} (filter {miss.lacks[0].filter})"
    if miss.freeing:
        where = f" (in {miss.freeing.pool})" if miss.freeing.pool != miss.pool else ""
        remedy = f"removing node {miss.freeing.node}{where} frees it"
    elif not miss.nodes:
        remedy = "it has no node to remove"
    elif miss.tried < miss.nodes:
        remedy = f"removing one of {miss.tried} of its {miss.nodes} nodes is not enough"
    else:
        remedy = "removing any one of its nodes is not enough"
    return f"{miss.podm} lacks {' and '.join(map(shortfall_phrase, miss.lacks))}; {remedy}"


def sensitivity_line(one: Sensitivity) -> str:
    """Return what would be chosen at another weight or amount."""
    if one.podm is None:
        effect = "nothing fits"
    elif one.instead_of is None:
        effect = f"{one.podm} fits"
    elif one.podm == one.instead_of:
        effect = f"pool {one.pool} of {one.podm} instead of {one.instead_of_pool}"
    else:
        effect = f"{one.podm} instead"
    return f"{effect}, {_change(one)}" + (" (tie, broken by the seed)" * one.by_lot)


def _change(one: Sensitivity) -> str:
    if one.of == "weight":
        return f"if the weight of {one.name} is {one.becomes:g} instead of {one.was:g}"
    was, becomes = (
        format_bytes(value * MIB)
        if one.unit == "MiB"
        else f"{format_value(value)} {one.unit}".rstrip()
        for value in (one.was, one.becomes)
    )
    if not one.becomes:
        return f"without the {was} {agree(one.was, one.name)}"
    return f"with {becomes} {agree(one.becomes, one.name)} instead of {was}"
