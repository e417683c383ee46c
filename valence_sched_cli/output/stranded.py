# SPDX-License-Identifier: Apache-2.0
"""Stranded amounts as rows: all of them for programs, those of one reason together for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import AmountLines, WordLines, or_absent

if TYPE_CHECKING:
    from valence_sched.model.capacity import StrandedAmount

COLUMNS = ("Podm", "Kind", "Model", "Unit", "Free", "Usable", "Stranded", "Reasons")
TITLES = ("Why", "Podms", "Stranded")
PLAIN = ("cores", "memory", "drive", "NIC", "stock")  # kinds of what is no accelerator
MOST_NAMED = 3  # pod managers of one row

Resource = tuple[str, str | None, str]  # kind, model and unit


def table(
    found: Sequence[StrandedAmount], *, people: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and rows; people see what is stranded, by reason."""
    if people:
        return TITLES, list(_grouped(found))
    return COLUMNS, [
        (one.podm, one.kind, or_absent(one.model), or_absent(one.unit or None), _number(one.free),
         _number(one.usable), _number(one.stranded),
         AmountLines({text: _number(amount) for text, amount in one.why}))
        for one in found
    ]  # fmt: skip


def outcome_lines(found: Sequence[StrandedAmount]) -> Iterator[str]:
    """Yield that nothing is stranded, where that is so."""
    if not any(one.stranded for one in found):
        yield "nothing is stranded: all that is free can be used"


def _grouped(found: Sequence[StrandedAmount]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each reason, that of most accelerators first; that none asks for it last."""
    free: dict[Resource, float] = {}
    groups: dict[str, dict[Resource, float]] = {}
    podms: dict[str, dict[str, None]] = {}
    for one in found:
        resource = (one.kind, one.model, one.unit)
        free[resource] = free.get(resource, 0.0) + one.free
        for text, amount in one.why:
            amounts = groups.setdefault(text, {})
            amounts[resource] = amounts.get(resource, 0.0) + amount
            podms.setdefault(text, {})[one.podm] = None

    from valence_sched.model.capacity import NOT_REQUESTED

    def place(text: str) -> tuple[Any, ...]:
        cards = sum(n for (kind, *_), n in groups[text].items() if kind not in PLAIN)
        return text == NOT_REQUESTED, -cards, -len(groups[text]), text

    for text in sorted(groups, key=place):
        names, others = list(podms[text]), len(podms[text]) - MOST_NAMED
        more = [f"{others:,} more"] if others > 0 else []
        lines = [
            _amount(amount, free[resource], resource)
            for resource, amount in sorted(groups[text].items(), key=lambda one: one[0][0] in PLAIN)
        ]
        yield text, ", ".join([*names[:MOST_NAMED], *more]), WordLines(lines)


def _amount(amount: float, free: float, resource: Resource) -> str:
    """Return an amount beside what is free of it: ``9 of 18 NVIDIA A100-SXM4-80GB``."""
    from valence_sched.model.phrases import short_model
    from valence_sched.model.quantity import format_mib

    kind, model, unit = resource
    name = model if kind == "stock" else short_model(model) if model else ""
    what = name if name and kind not in PLAIN[:-1] else f"{kind} {name}".strip()
    if unit == "MiB":
        return f"{format_mib(amount)} of {format_mib(free)} {what}"
    return f"{_number(amount):,} of {_number(free):,} {f'{unit} ' if unit else ''}{what}"


def _number(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount
