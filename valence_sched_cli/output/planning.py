# SPDX-License-Identifier: Apache-2.0
"""Results of planning as rows and sections: capacities, stranded amounts, and moves of nodes."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from valence_sched.errors import escape
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import MovedNode, RebalanceMove, StuckNode
from valence_sched.words import planning as words
from valence_sched.words.phrases import ReasonPhrases
from valence_sched_cli.output import cells
from valence_sched_cli.output.decision import blocks_cell
from valence_sched_cli.output.hardware import RECORD_WIDTH, devices_cell
from valence_sched_cli.output.replay import number_cell
from valence_sched_cli.output.table import USUAL_WIDTH, Table, screen_width, table_width

MOST_PODMS = 5  # columns of pod managers if not all fit the screen


class FitCell(int):
    """The number of nodes that fit on a pod manager, coloured relative to the largest number."""

    def __new__(cls, nodes: int, most: int, width: int) -> Self:
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
    """Return the matrix of flavors and pod managers as a table of ``width``, else 80 characters.

    If there are too many pod managers, those that fit most nodes have a column each, and the others
    share one. The last columns are ``totals``, else the sum of each row.
    """
    width = width or screen_width() or USUAL_WIDTH
    if totals is None:
        totals = {"Total": {flavor: sum(one.values()) for flavor, one in counts.items()}}
    podms = list(dict.fromkeys(podm for by_podm in counts.values() for podm in by_podm))
    sums = {podm: sum(one.get(podm, 0) for one in counts.values()) for podm in podms}
    best = sorted(podms, key=lambda podm: -sums[podm])
    for shown in (podms, *(best[:number] for number in range(MOST_PODMS, 0, -1))):
        named = set(shown)
        others = [podm for podm in podms if podm not in named]
        titles, rows = _matrix(counts, shown, others, totals)
        if table_width(titles, rows) <= width:
            break
    return titles, rows


def _matrix(
    counts: Counts, shown: Sequence[str], others: Sequence[str], totals: Totals
) -> tuple[list[str], list[Any]]:
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
    more = [format_count(len(others), "other")] if others else []
    return ["Flavor", *shown, *more, *totals], rows


Named = Sequence[tuple[str, Capacity]]

COLUMNS = ("Flavor", "Podm", "Nodes")
PROVEN = ("Proven Most", "Found")
EXPLAINED = ("Runs Out", "Reasons", "Podm Sums", "Site Sums", "Of Each")


def capacity_table(counts: Named, *, people: bool, explain: bool, proven: bool) -> Table:
    """Return a table: people see a matrix, programs a row for each flavor and pod manager."""
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
    """Yield lines about the resource that runs out first, and about the sums of free amounts."""
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


def stranded_table(found: Sequence[StrandedAmount], *, people: bool) -> Table:
    """Return a table of stranded amounts; people see them grouped by reason."""
    if people:
        groups = words.stranded_groups(found)
        return ("Why", "Podms", "Stranded"), [
            (why, podms, cells.WordLines(lines)) for why, podms, lines in groups
        ]
    rows: list[tuple[Any, ...]] = []
    for one in found:
        why = cells.AmountLines({text: words.number_of(amount) for text, amount in one.why})
        amounts = map(words.number_of, (one.free, one.usable, one.stranded))
        rows.append((one.podm, one.kind, one.model, one.unit or None, *amounts, why))
    return STRANDED_COLUMNS, rows


MOVE_COLUMNS = ("Step", "Node", "From", "To", "Pool", "Blocks")
MOVE_LONG_COLUMNS = (*MOVE_COLUMNS, "Owner", "Asks For", "Hardware", "URI")
REBALANCE_COLUMNS = ("Step", "Node", "From", "To", "Pool", "Room", "Fragmentation", "Imbalance")
REBALANCE_LONG_COLUMNS = (*REBALANCE_COLUMNS, "Blocks", "Owner", "Asks For", "Hardware", "URI")
MOST_GROUPS = 3  # groups of reasons why a node cannot be re-placed
MOST_LISTED = 8  # groups of nodes, and nodes of each; the rest is only counted
WIDTH = 78


def move_row(move: Any) -> dict[str, Any]:
    to = {"To": move.to_podm, "Pool": move.to_pool, "Blocks": blocks_cell(move.to_blocks)}
    return stuck_row(move) | {"Step": move.step} | to


def stuck_row(one: MovedNode) -> dict[str, Any]:
    row = cells.fields(one, "Node", "Owner", "Asks For", "URI")
    row |= {"From": one.podm, "Hardware": devices_cell(one.devices, RECORD_WIDTH)}
    return row | dict.fromkeys(("Step", "To", "Pool", "Blocks"))


def rebalance_row(move: RebalanceMove) -> dict[str, Any]:
    shares = {
        name.title(): number_cell(getattr(move.after, name), is_share=True)
        for name in ("fragmentation", "imbalance")
    }
    return move_row(move) | {"Room": move.after.room, **shares}


def stuck_lines(stuck: Sequence[StuckNode], all_reasons: bool = False) -> Iterator[str]:
    """Yield the nodes that cannot be re-placed, grouped by pod manager and reasons."""
    if not stuck:
        return
    yield f"Nodes that cannot be re-placed: {len(stuck):,}"
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in stuck:
        reasons = [] if one.reasons else [f"      {words.NO_HARDWARE}"]
        for group in one.reasons[:MOST_GROUPS]:
            if group.reason:
                reason = ReasonPhrases(names_free=True).of_reason(group.reason)
                text = f"on {format_count(group.podms, 'pod manager')}: {reason}"
                reasons += cells.hang(text, 8, "      ", WIDTH)
        groups.setdefault((one.podm, tuple(reasons)), []).append(one.node)
    most = len(stuck) if all_reasons else MOST_LISTED
    for (podm, lines), nodes in itertools.islice(groups.items(), most):
        others = f" and {len(nodes) - most:,} more" if len(nodes) > most else ""
        yield from cells.hang(f"{', '.join(nodes[:most])}{others} of {podm}", 4, "  ", WIDTH)
        yield from lines
    if rest := sum(len(nodes) for nodes in list(groups.values())[most:]):
        yield f"  and {format_count(rest, 'node')} more: --all-reasons"
