# SPDX-License-Identifier: Apache-2.0
"""Capacities as rows and sections: how many nodes fit, what ends first, what sums promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import escape
from valence_sched_cli.output.cells import (
    AmountLines,
    Pairs,
    WordLines,
    Words,
    format_count,
    hang,
    or_absent,
    painted,
)
from valence_sched_cli.output.table import BORDER, USUAL_WIDTH, screen_width

if TYPE_CHECKING:
    from valence_sched.model.capacity import Capacity, PodmCapacity, StrandedAmount

MOST_PODMS = 5  # across, where not all fit the width


class FitCell(int):
    """How many nodes fit on a pod manager; in colour by the most that fit on any of them.

    ``width`` is that of its column, which the colour fills.
    """

    def __new__(cls, nodes: int, most: int, width: int) -> FitCell:
        cell = super().__new__(cls, nodes)
        cell._most, cell._width = most, width
        return cell

    _most: int
    _width: int

    def coloured(self) -> str:
        text = f"{self:>{self._width}}"
        return painted(text, self / self._most) if self._most else text


Counts = Mapping[str, Mapping[str, int]]  # by flavor, then by pod manager
Totals = Mapping[str, Mapping[str, Any]]  # by title, then by flavor


def fit_matrix(
    counts: Counts, width: int | None = None, totals: Totals | None = None
) -> tuple[Sequence[str], list[Any]]:
    """Return the titles and rows of the matrix; ``width`` is that of the screen, else 80.

    The last columns are ``totals``: the sum of each row if none are given. Where not all pod
    managers fit the width, the best few stand there and the others are one column. The best are
    those that take most nodes of all flavors together.
    """
    width = width or screen_width() or USUAL_WIDTH
    if totals is None:
        totals = {"Total": {flavor: sum(one.values()) for flavor, one in counts.items()}}
    podms = list(dict.fromkeys(podm for by_podm in counts.values() for podm in by_podm))
    shown = podms
    if _width(counts, podms, totals) > width:
        sums = {podm: sum(one.get(podm, 0) for one in counts.values()) for podm in podms}
        best = sorted(podms, key=lambda podm: -sums[podm])[:MOST_PODMS]
        while len(best) > 1 and _width(counts, (*best, _others(podms, best)), totals) > width:
            best.pop()
        shown = best
    others = [podm for podm in podms if podm not in set(shown)]
    titles = ["Flavor", *shown, *([_others(podms, shown)] if others else []), *totals]
    widths = {
        podm: max((len(escape(podm)), *(len(str(one.get(podm, 0))) for one in counts.values())))
        for podm in shown
    }
    rows = []
    for flavor, by_podm in counts.items():
        most = max(by_podm.values(), default=0)
        rest = [sum(by_podm.get(podm, 0) for podm in others)] if others else []
        cells = [FitCell(by_podm.get(podm, 0), most, width) for podm, width in widths.items()]
        rows.append((flavor, *cells, *rest, *(one[flavor] for one in totals.values())))
    return titles, rows


def _others(podms: Sequence[str], shown: Sequence[str]) -> str:
    return format_count(len(podms) - len(shown), "other")


def _width(counts: Counts, titles: Sequence[str], totals: Totals) -> int:
    numbers = max((len(str(sum(one.values()))) for one in counts.values()), default=1)
    columns = [max(map(len, ("Flavor", *counts))), *(max(len(title), numbers) for title in titles)]
    columns += [max(map(len, (title, *map(str, one.values())))) for title, one in totals.items()]
    return 1 + sum(column + BORDER for column in columns)


Named = Sequence[tuple[str, "Capacity"]]

COLUMNS = ("Flavor", "Podm", "Nodes")
PROVEN = ("Proven Most", "Found")
EXPLAINED = ("Runs Out", "Reasons", "Podm Sums", "Site Sums", "Of Each")
MOST_NAMED = 3  # pod managers of one resource, before the rest is only counted


def capacity_table(
    counts: Named, *, people: bool, explain: bool, proven: bool
) -> tuple[Sequence[str], list[Any]]:
    """Return titles and rows: a matrix for people, a row for each pod manager for programs."""
    if people:
        matrix = {name: {podm.podm: podm.nodes for podm in one.podms} for name, one in counts}
        known = all(one.is_optimal for _, one in counts)
        totals: Totals = {
            "One By One": {name: one.nodes for name, one in counts},
            "Proven Most": {
                name: one.proven.bound if one.proven and known else _proven_text(one)
                for name, one in counts
            },
        }
        return fit_matrix(matrix, totals=totals if proven else None)
    columns = (*COLUMNS, *(PROVEN if proven else ()), *(EXPLAINED if explain else ()))
    rows = []
    for name, one in counts:
        for row in (*map(_podm_cells, one.podms), _total_cells(one)):
            cells = dict(zip((*COLUMNS[1:], *PROVEN, *EXPLAINED), row, strict=True))
            rows.append((name, *(cells[column] for column in columns[1:])))
    return columns, rows


def _podm_cells(podm: PodmCapacity) -> tuple[Any, ...]:
    from valence_sched.words.phrases import ReasonPhrases

    return (
        podm.podm,
        podm.nodes,
        or_absent(podm.bound),
        or_absent(None),
        or_absent(podm.runs_out),
        Words([ReasonPhrases().of_pool(podm.reasons)] if podm.reasons else []),
        or_absent(podm.sums),
        or_absent(None),
        or_absent(None),
    )


def _total_cells(one: Capacity) -> tuple[Any, ...]:
    return (
        "total",
        one.nodes,
        or_absent(one.proven and one.proven.bound),
        or_absent(one.proven and max(one.nodes, one.proven.found)),
        or_absent(one.exhausted[0].resource if one.exhausted else None),
        Words([f"{ended.resource}: {', '.join(ended.podms)}" for ended in one.exhausted]),
        or_absent(one.podm_sums),
        or_absent(one.site_sums),
        Pairs(one.by_flavor) if one.by_flavor else or_absent(None),
    )


def _proven_text(one: Capacity) -> str:
    if one.proven is None:
        return ""
    return f"{one.proven.bound:,}" if one.is_optimal else f"at most {one.proven.bound:,}"


def outcome_lines(counts: Named, shares: Mapping[str, float] | None) -> Iterator[str]:
    """Yield what the mix comes to, and where the proven most is a bound that none may reach."""
    for name, one in counts:
        if one.proven is not None and not one.is_optimal:
            most = max(one.nodes, one.proven.found)
            yield f"{name}: {most:,} are known to fit, more than {one.proven.bound:,} never do"
    if shares:
        mix = counts[-1][1]
        parts = ", ".join(f"{number:,} {name}" for name, number in mix.by_flavor.items())
        end = f"; then {mix.refused} finds no place" if mix.refused else ""
        yield f"mix: {format_count(mix.nodes, 'node')} ({parts}){end}"


def explanation(counts: Named) -> Iterator[str]:
    """Yield the sections: which resource runs out first, and what sums promise."""
    width = max(len(escape(name)) for name, _ in counts)
    yield ""
    yield "Runs out first"
    for name, one in counts:
        text = f"{escape(name):{width}}  {escape(_exhaustion_text(one))}"
        yield from hang(text, width + 4, "  ")
    titles = ("site sums", "podm sums", "one by one", "proven most")
    rows = [
        (one.site_sums, one.podm_sums, one.nodes, _proven_text(one) or None) for _, one in counts
    ]
    shown = titles if any(row[3] for row in rows) else titles[:3]
    yield ""
    yield "Promised by adding up free amounts, beside what fits"
    yield f"  {'':{width}}  {'  '.join(shown)}"
    for (name, _), row in zip(counts, rows, strict=True):
        cells = [
            f"{cell if isinstance(cell, str) else f'{cell:,}':>{len(title)}}"
            for title, cell in zip(shown, row, strict=False)
        ]
        yield f"  {escape(name):{width}}  {'  '.join(cells)}"


def _exhaustion_text(one: Capacity) -> str:
    if one.exhausted:
        texts = [
            f"{ended.resource.removeprefix('GPU ')} ({_names(ended.podms)})"
            for ended in one.exhausted
        ]
        return "; ".join(texts)
    from valence_sched.words.phrases import ReasonPhrases

    reasons = (podm.reasons[0] for podm in one.podms if podm.reasons)
    texts = [ReasonPhrases().of_reason(reason) for reason in reasons if reason.filter != "target"]
    most = Counter(texts).most_common(1)
    return f"no resource: {most[0][0]}" if most else "no resource: the count stopped at its limit"


def _names(podms: Sequence[str]) -> str:
    named = list(podms[:MOST_NAMED])
    others = len(podms) - len(named)
    return ", ".join([*named, f"{others:,} more"] if others else named)


STRANDED_COLUMNS = ("Podm", "Kind", "Model", "Unit", "Free", "Usable", "Stranded", "Reasons")
TITLES = ("Why", "Podms", "Stranded")
PLAIN = ("cores", "memory", "drive", "NIC", "stock")  # kinds of what is no accelerator

Resource = tuple[str, str | None, str]  # kind, model and unit


def stranded_table(
    found: Sequence[StrandedAmount], *, people: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and rows; people see what is stranded, by reason."""
    if people:
        return TITLES, list(_grouped(found))
    return STRANDED_COLUMNS, [
        (one.podm, one.kind, or_absent(one.model), or_absent(one.unit or None), _number(one.free),
         _number(one.usable), _number(one.stranded),
         AmountLines({text: _number(amount) for text, amount in one.why}))
        for one in found
    ]  # fmt: skip


def stranded_lines(found: Sequence[StrandedAmount]) -> Iterator[str]:
    """Yield that nothing is stranded, where that is so."""
    if not any(one.stranded for one in found):
        yield "nothing is stranded: all that is free can be used"


def _grouped(found: Sequence[StrandedAmount]) -> Iterator[tuple[Any, ...]]:
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
        lines = [
            _amount(amount, free[resource], resource)
            for resource, amount in sorted(groups[text].items(), key=lambda one: one[0][0] in PLAIN)
        ]
        yield text, _names(list(podms[text])), WordLines(lines)


def _amount(amount: float, free: float, resource: Resource) -> str:
    """Return an amount beside what is free of it: ``9 of 18 NVIDIA A100-SXM4-80GB``."""
    from valence_sched.model.quantity import format_mib
    from valence_sched.words.phrases import short_model

    kind, model, unit = resource
    name = model if kind == "stock" else short_model(model) if model else ""
    what = name if name and kind not in PLAIN[:-1] else f"{kind} {name}".strip()
    if unit == "MiB":
        return f"{format_mib(amount)} of {format_mib(free)} {what}"
    return f"{_number(amount):,} of {_number(free):,} {f'{unit} ' if unit else ''}{what}"


def _number(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount
