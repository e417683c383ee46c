# SPDX-License-Identifier: Apache-2.0
"""Capacities, purchases and expectations in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from valence_sched.model.capacity import Capacity, PurchaseResult, StrandedAmount
from valence_sched.model.check import CheckResult
from valence_sched.model.quantity import MIB_PER_UNIT, format_count, format_mib, resource_title
from valence_sched.words.phrases import ReasonPhrases, short_model

MOST_SHORTAGES = 3  # reasons why no purchase is enough
MOST_NAMED = 3  # pod managers named for one resource; the rest is counted
PLAIN = ("cores", "memory", "drive", "NIC", "stock")  # kinds other than accelerators


def proven_text(one: Capacity) -> str:
    """Return the proven maximum; ``at most`` precedes a bound that no placement reaches."""
    if one.proven is None:
        return ""
    return f"{one.proven.bound:,}" if one.is_optimal else f"at most {one.proven.bound:,}"


def capacity_lines(
    counts: Sequence[tuple[str, Capacity]], shares: Mapping[str, float] | None
) -> Iterator[str]:
    """Yield the result of the mix, and each proven bound above the known placements."""
    for name, one in counts:
        if one.proven is not None and not one.is_optimal:
            most = max(one.nodes, one.proven.found)
            yield f"{name}: {most:,} are known to fit, at most {one.proven.bound:,} can fit"
    if shares:
        mix = counts[-1][1]
        parts = ", ".join(f"{number:,} {name}" for name, number in mix.by_flavor.items())
        end = f"; then {mix.refused} does not fit" if mix.refused else ""
        yield f"mix: {format_count(mix.nodes, 'node')} ({parts}){end}"


def exhaustion_text(one: Capacity) -> str:
    """Return the resources that run out first, by pod manager; else why no more nodes fit."""
    if one.exhausted:
        resources = ((it.resource.removeprefix("GPU "), named(it.podms)) for it in one.exhausted)
        return "; ".join(f"{resource} ({podms})" for resource, podms in resources)
    reasons = (podm.reasons[0] for podm in one.podms if podm.reasons)
    texts = [ReasonPhrases().of_reason(reason) for reason in reasons if reason.filter != "target"]
    most = Counter(texts).most_common(1)
    return f"no resource: {most[0][0]}" if most else "no resource: the count stopped at its limit"


def named(podms: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    others = len(podms) - MOST_NAMED
    return ", ".join([*podms[:MOST_NAMED], *([f"{others:,} more"] if others > 0 else [])])


def unusable_lines(unusable: Mapping[str, str]) -> Iterator[str]:
    """Yield the pod managers with free hardware that take no node, by reason."""
    podms: dict[str, list[str]] = {}
    for name, why in unusable.items():
        if why:
            podms.setdefault(why, []).append(name)
    if podms:
        groups = "; ".join(f"{named(names)} ({why})" for why, names in sorted(podms.items()))
        yield f"free, but not usable: {groups}"


def stranded_lines(found: Iterable[StrandedAmount]) -> Iterator[str]:
    """Yield a line if no amount is stranded."""
    if not any(one.stranded for one in found):
        yield "no amount is stranded: all free hardware can be used"


def part_of_free(amount: float, free: float, kind: str, model: str | None, unit: str) -> str:
    """Return an amount as a part of the free amount: ``9 of 18 NVIDIA A100-SXM4-80GB``."""
    name = resource_title(model or "") if kind == "stock" else short_model(model) if model else ""
    what = name if name and kind not in PLAIN[:-1] else f"{kind} {name}".strip()
    if mib := MIB_PER_UNIT.get(unit):
        return f"{format_mib(amount * mib)} of {format_mib(free * mib)} {what}"
    return f"{number_of(amount):,} of {number_of(free):,} {f'{unit} ' if unit else ''}{what}"


def number_of(amount: float) -> int | float:
    """Return an amount, without decimals if it is whole."""
    return int(amount) if amount == int(amount) else amount


def purchase_line(result: PurchaseResult) -> str:
    """Return the purchase for nodes to fit, and the proof that a smaller one is not enough."""
    nodes = f"{result.wanted:,} {result.flavor}"
    if result.lines is None:
        if not result.shortages:
            return f"no purchase of these blocks is known to be enough for {nodes}"
        phrases = ReasonPhrases()
        reasons = (
            f"{phrases.of_reason(one.reason)} ({format_count(one.podms, 'pod manager')})"
            for one in result.shortages[:MOST_SHORTAGES]
            if one.reason
        )
        bought = f"{result.placed:,} fit with {result.tried:,} of each block"
        return f"not enough for {nodes}: {bought}, then {'; '.join(reasons)}"
    if not result.lines:
        return f"{nodes} fit without a purchase"
    bought = format_count(sum(line.number for line in result.lines), "additional block")
    if result.priced:
        bought += f" for {result.total:,.2f}".removesuffix(".00")
    if result.is_smallest:
        proof = "no purchase is cheaper" if result.priced else "fewer are not enough"
    else:
        least = f"{result.bound:,.2f}".removesuffix(".00")
        proof = f"the proven minimum is {least}"
    return f"{nodes} fit with {bought}: {proof}"


def expectations_line(results: Sequence[CheckResult]) -> str:
    """Return the number of expectations that are met, in one sentence."""
    recorded = sum(one.result == "recorded" for one in results)
    failed = sum(one.result == "fail" for one in results)
    total = format_count(len(results), "expectation")
    more = f", {recorded:,} recorded" if recorded else ""
    if failed:
        return f"{failed:,} of {total} not met{more}"
    return f"{total} met{more}" if not recorded else f"{total}: 0 failed{more}"
