# SPDX-License-Identifier: Apache-2.0
"""Capacities as rows and sections: nodes that fit, exhausted resources, sums of free amounts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from valence_sched.errors import escape
from valence_sched.model.capacity import NOT_REQUESTED, Capacity, StrandedAmount
from valence_sched.model.quantity import format_count
from valence_sched.words import planning as words
from valence_sched.words.phrases import ReasonPhrases
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import BORDER, USUAL_WIDTH, Table, screen_width

MOST_PODMS = 5  # columns, if not all fit the width


class FitCell(int):
    """The number of nodes that fit on a pod manager; its colour is relative to the maximum."""

    def __new__(cls, nodes: int, most: int, width: int) -> FitCell:
        cell = super().__new__(cls, nodes)
        cell._most, cell._width = most, width
        return cell

    _most: int
    _width: int

    def coloured(self) -> str:
        text = f"{self:>{self._width}}"
        return cells.painted(text, self / self._most) if self._most else text


Counts = Mapping[str, Mapping[str, int]]  # by flavor, then by pod manager
Totals = Mapping[str, Mapping[str, Any]]  # by title, then by flavor


def fit_matrix(counts: Counts, width: int | None = None, totals: Totals | None = None) -> Table:
    """Return the titles and rows of the matrix for a screen ``width``, else 80 characters.

    If there are too many pod managers, the pod managers that fit most nodes are shown, the others
    in one column. The last columns are ``totals``, else the sum of each row.
    """
    width = width or screen_width() or USUAL_WIDTH
    if totals is None:
        totals = {"Total": {flavor: sum(one.values()) for flavor, one in counts.items()}}
    podms = list(dict.fromkeys(podm for by_podm in counts.values() for podm in by_podm))

    def others_title(shown: Sequence[str]) -> str:
        return format_count(len(podms) - len(shown), "other")

    shown = podms
    if _width(counts, podms, totals) > width:
        sums = {podm: sum(one.get(podm, 0) for one in counts.values()) for podm in podms}
        best = sorted(podms, key=lambda podm: -sums[podm])[:MOST_PODMS]
        while len(best) > 1 and _width(counts, (*best, others_title(best)), totals) > width:
            best.pop()
        shown = best
    others = [podm for podm in podms if podm not in set(shown)]
    titles = ["Flavor", *shown, *([others_title(shown)] if others else []), *totals]
    widths = {
        podm: max((len(escape(podm)), *(len(str(one.get(podm, 0))) for one in counts.values())))
        for podm in shown
    }
    rows = []
    for flavor, by_podm in counts.items():
        most = max(by_podm.values(), default=0)
        rest = [sum(by_podm.get(podm, 0) for podm in others)] if others else []
        fits = [FitCell(by_podm.get(podm, 0), most, width) for podm, width in widths.items()]
        rows.append((flavor, *fits, *rest, *(one[flavor] for one in totals.values())))
    return titles, rows


def _width(counts: Counts, titles: Sequence[str], totals: Totals) -> int:
    numbers = max((len(str(sum(one.values()))) for one in counts.values()), default=1)
    columns = [max(map(len, ("Flavor", *counts))), *(max(len(title), numbers) for title in titles)]
    columns += [max(map(len, (title, *map(str, one.values())))) for title, one in totals.items()]
    return 1 + sum(column + BORDER for column in columns)


Named = Sequence[tuple[str, Capacity]]

COLUMNS = ("Flavor", "Podm", "Nodes")
PROVEN = ("Proven Most", "Found")
EXPLAINED = ("Runs Out", "Reasons", "Podm Sums", "Site Sums", "Of Each")


def capacity_table(counts: Named, *, people: bool, explain: bool, proven: bool) -> Table:
    """Return titles and rows: a matrix for people, a row for each pod manager for programs."""
    if people:
        matrix = {name: {podm.podm: podm.nodes for podm in one.podms} for name, one in counts}
        known = all(one.is_optimal for _, one in counts)
        most: dict[str, Any] = {}
        for name, one in counts:
            most[name] = one.proven.bound if one.proven and known else words.proven_text(one)
        one_by_one = {name: one.nodes for name, one in counts}
        totals: Totals = {"One By One": one_by_one, "Proven Most": most}
        return fit_matrix(matrix, totals=totals if proven else None)
    rows: list[dict[str, Any]] = []
    for name, one in counts:
        for podm in one.podms:
            reasons = [ReasonPhrases().of_pool(podm.reasons)] if podm.reasons else []
            row = {"Flavor": name, **cells.fields(podm, "Podm", "Nodes", "Runs Out")}
            row |= {"Proven Most": podm.bound, "Podm Sums": podm.sums}
            row |= dict.fromkeys(("Found", "Site Sums", "Of Each"))
            rows.append(row | {"Reasons": cells.Words(reasons)})
        first = one.exhausted[0].resource if one.exhausted else None
        where = [f"{ended.resource}: {', '.join(ended.podms)}" for ended in one.exhausted]
        row = {"Flavor": name, "Podm": "total", "Runs Out": first, "Reasons": cells.Words(where)}
        row |= cells.fields(one, "Nodes", "Podm Sums", "Site Sums")
        row["Proven Most"] = one.proven and one.proven.bound
        row["Found"] = one.proven and max(one.nodes, one.proven.found)
        row["Of Each"] = cells.Pairs(one.by_flavor) if one.by_flavor else None
        rows.append(row)
    return (*COLUMNS, *(PROVEN if proven else ()), *(EXPLAINED if explain else ())), rows


def explanation(counts: Named) -> Iterator[str]:
    """Yield the sections: which resource runs out first, and the sums of free amounts."""
    width = max(len(escape(name)) for name, _ in counts)
    yield ""
    yield "Runs out first"
    for name, one in counts:
        text = f"{escape(name):{width}}  {escape(words.exhaustion_text(one))}"
        yield from cells.hang(text, width + 4, "  ")
    titles = ["site sums", "podm sums", "one by one"]
    if any(words.proven_text(one) for _, one in counts):
        titles.append("proven most")
    yield ""
    yield "Sums of free amounts, compared with nodes that fit"
    yield f"  {'':{width}}  {'  '.join(titles)}"
    for name, one in counts:
        row = (one.site_sums, one.podm_sums, one.nodes, words.proven_text(one) or None)
        texts = (cell if isinstance(cell, str) else f"{cell:,}" for cell in row[: len(titles)])
        padded = (f"{text:>{len(title)}}" for title, text in zip(titles, texts, strict=True))
        yield f"  {escape(name):{width}}  {'  '.join(padded)}"


STRANDED_COLUMNS = ("Podm", "Kind", "Model", "Unit", "Free", "Usable", "Stranded", "Reasons")

Resource = tuple[str, str | None, str]  # kind, model and unit


def stranded_table(found: Sequence[StrandedAmount], *, people: bool) -> Table:
    """Return titles and rows; people see stranded amounts by reason."""
    if people:
        return ("Why", "Podms", "Stranded"), list(_grouped(found))
    rows: list[tuple[Any, ...]] = []
    for one in found:
        why = cells.AmountLines({text: words.number_of(amount) for text, amount in one.why})
        amounts = map(words.number_of, (one.free, one.usable, one.stranded))
        rows.append((one.podm, one.kind, one.model, one.unit or None, *amounts, why))
    return STRANDED_COLUMNS, rows


def _grouped(found: Sequence[StrandedAmount]) -> Iterator[tuple[Any, ...]]:
    free: dict[Resource, float] = defaultdict(float)
    groups: dict[str, dict[Resource, float]] = defaultdict(lambda: defaultdict(float))
    podms: dict[str, dict[str, None]] = defaultdict(dict)
    for one in found:
        resource = (one.kind, one.model, one.unit)
        free[resource] += one.free
        for text, amount in one.why:
            groups[text][resource] += amount
            podms[text][one.podm] = None

    def place(text: str) -> tuple[Any, ...]:
        cards = sum(n for (kind, *_), n in groups[text].items() if kind not in words.PLAIN)
        return text == NOT_REQUESTED, -cards, -len(groups[text]), text

    for text in sorted(groups, key=place):
        stranded = sorted(groups[text].items(), key=lambda one: one[0][0] in words.PLAIN)
        lines = [words.part_of_free(amount, free[it], *it) for it, amount in stranded]
        yield text, words.named(list(podms[text])), cells.WordLines(lines)
