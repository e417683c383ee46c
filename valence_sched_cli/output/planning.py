# SPDX-License-Identifier: Apache-2.0
"""Results of planning as rows: capacities, stranded amounts, moves, replays, and sweeps."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from valence_sched.errors import escape, name_some
from valence_sched.model import replay as model
from valence_sched.model.capacity import Capacity, StrandedAmount
from valence_sched.model.quantity import format_count, resource_title
from valence_sched.model.relocation import MovedNode, RebalanceMove, StuckNode
from valence_sched.words import planning as words
from valence_sched.words.phrases import ReasonPhrases
from valence_sched_cli.output import cells
from valence_sched_cli.output.decision import blocks_cell
from valence_sched_cli.output.hardware import RECORD_WIDTH, devices_cell
from valence_sched_cli.output.table import USUAL_WIDTH, Table, screen_width, table_width

if TYPE_CHECKING:
    from valence_sched.app import Tuning

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
        if table_width([*map(escape, titles)], rows) <= width:
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
    width = min(max(len(escape(name)) for name, _ in counts), WIDTH // 2)
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
        known = ("-" if cell is None else cell for cell in row[: len(titles)])
        texts = (cell if isinstance(cell, str) else f"{cell:,}" for cell in known)
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
        yield from cells.hang(f"{name_some(nodes, most)} of {podm}", 4, "  ", WIDTH)
        yield from lines
    if rest := sum(len(nodes) for nodes in list(groups.values())[most:]):
        yield f"  and {format_count(rest, 'node')} more: --all-reasons"


RUN_COLUMNS = ("Site", "Policy", "Placed", "Refused", "Podms Needed", "Fragmentation")
_MORE_COLUMNS = (
    *("Requested", "Undecided", "Departed", "Nodes Per Podm", "Most On One Podm"),
    *("Peak Utilisation", "Imbalance", "Cost", "Duration Seconds"),
)
RUN_LONG_COLUMNS = (*RUN_COLUMNS, "Utilisation", *_MORE_COLUMNS)
SWEEP_COLUMNS = ("Scenario", "Policy", "Seed", "Placed", "Refused", "Podms Needed", "Fragmentation")
SWEEP_LONG_COLUMNS = (*SWEEP_COLUMNS, "Utilisation", "Requests", *_MORE_COLUMNS)


class ShareCell(cells.Amount[float]):
    """A share as a percentage; on a terminal with colours 0 is green and 1 is red."""

    def __init__(self, share: float) -> None:
        super().__init__(share, words.share_text)

    def coloured(self, text: str) -> str:
        return cells.painted(text, 1.0 - self._value)


#: Shares by name: in percent for people, from 0 to 1 for machines.
Shares = cells.pairs("\n", shown=words.share_text)


def number_cell(number: float | None, *, is_share: bool = False) -> cells.Amount[float] | None:
    """Return the cell of a number or None; people see a rounded number or a percentage."""
    text = functools.partial(words.value_text, is_share=is_share)
    return None if number is None else cells.Amount(number, text)


def _estimate_cell(mean: float, error: float | None, *, is_share: bool) -> cells.Amount[float]:
    """Return the cell of a mean over seeds with its standard error."""
    text = functools.partial(words.value_text, is_share=is_share)

    def people(mean: float) -> str:
        return text(mean) if error is None else f"{text(mean)} ± {text(error)}"

    return cells.Amount(mean, people, lambda mean: {"mean": mean, "standard_error": error})


def run_rows(replay: model.Replay) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, with the cells of RUN_LONG_COLUMNS."""
    return sweep_rows([model.sweep_run_of(run, "", 0) for run in replay.runs])


def sweep_rows(runs: Sequence[model.SweepRun]) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, with the cells of SWEEP_LONG_COLUMNS."""
    for run in runs:
        found: dict[str, Any] = dict(run.measures)
        groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in found.items():
            group, dot, resource = name.partition(".")
            if dot:
                groups[group][resource] = value
        for name in ("nodes_per_podm", "cost"):
            found[name] = number_cell(found[name])
        of, share = {"": found.get("fragmentation"), **groups["fragmentation"]}.popitem()
        text = functools.partial(words.value_text, is_share=True, of=of)
        found["fragmentation"] = None if share is None else cells.Amount(share, text)
        for name in ("utilisation", "peak_utilisation", "imbalance"):
            found[name] = Shares(groups[name])
        yield {
            **{name.replace("_", " ").title(): value for name, value in found.items()},
            "Site": run.scenario,
            **cells.fields(run, "Scenario", "Policy", "Seed", "Requests", "Departed"),
            "Duration Seconds": number_cell(run.duration_s),
        }


def comparison(replay: model.Replay, *, machine: bool, long: bool = False) -> Table:
    """Return a table with a row for each measure, a column for each run; ``long`` adds peaks."""
    by_run = {run.name: model.measures(run) for run in replay.runs}
    rows = []
    for name in dict.fromkeys(name for found in by_run.values() for name in found):
        share = model.is_share(name)
        row = [number_cell(found.get(name), is_share=share) for found in by_run.values()]
        hidden = name.startswith("peak_") and not (machine or long)
        if not hidden and any(cell is not None for cell in row):
            rows.append((name, *row))
    return ("Measure", *by_run), rows


def sweep_comparison(runs: Sequence[model.SweepRun], *, long: bool) -> Table:
    """Return a table with a row for each measure: means over seeds, and the best variation."""
    rows = []
    for one in model.compare_seeds(runs):
        if one.measure.startswith("peak_") and not long:
            continue
        is_share = model.is_share(one.measure)
        row = [
            None if mean is None else _estimate_cell(mean, error, is_share=is_share)
            for mean, error in zip(one.means.values(), one.errors.values(), strict=True)
        ]
        best = "no clear difference" if one.is_unclear else one.best
        rows.append((one.measure, *row, best))
    return ("Measure", *dict.fromkeys(run.variation for run in runs), "Best"), rows


#: The columns for programs; people see one column for each resource.
SERIES_COLUMNS = (
    *("Site", "Policy", "After Seconds", "Utilisation", "Fragmentation", "Nodes", "Podms"),
    *("Requested", "Placed", "Refused", "Undecided"),
)
_SUMS = ("Requested", "Placed", "Refused", "Undecided")
MOST_ROWS = 24  # rows of a run for people, about one screen
MOST_RESOURCES = 3  # columns without --long: the resources that change most
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


def series_table(replay: model.Replay, *, machine: bool, long: bool) -> Table:
    """Return a table of time series: programs get each bucket, people ``MOST_ROWS`` per run."""
    if machine:
        return SERIES_COLUMNS, [row for run in replay.runs for row in _bucket_rows(run)]
    ranges: dict[str, float] = {}  # by resource: the largest change of its share
    for run in replay.runs:
        for name, values in run.series.used.items():
            change = max(values, default=0.0) - min(values, default=0.0)
            ranges[name] = max(change, ranges.get(name, 0.0))
    most = sorted(ranges, key=lambda name: -ranges[name])[: None if long else MOST_RESOURCES]
    names = {
        name: (title := resource_title(name))[:1].upper() + title[1:]
        for name in ranges
        if name in most
    }
    useless = dict.fromkeys(map(_useless_title, replay.runs))
    titles = ["Run", "After", *names.values(), *useless, "Nodes", "Podms", *_SUMS]
    hidden = set() if long else {"Podms", "Requested", "Placed", "Undecided"}
    hidden |= {"Run"} if len(replay.runs) == 1 else set()
    rows = [useless | row for run in replay.runs for row in _merged_rows(run, names)]
    return [title for title in titles if title not in hidden], rows


def _useless_title(run: model.ReplayResult) -> str:
    title = words.fragmentation_text(run.fragmentation.resource if run.fragmentation else None)
    return title[:1].upper() + title[1:]


def _bucket_rows(run: model.ReplayResult) -> Iterator[dict[str, Any]]:
    series = run.series
    for number, nodes in enumerate(series.nodes):
        yield {
            **cells.fields(run, "Site", "Policy"),
            "After Seconds": number * series.bucket_s,
            "Utilisation": Shares({name: used[number] for name, used in series.used.items()}),
            "Fragmentation": series.fragmentation[number] if series.fragmentation else None,
            "Nodes": nodes,
            **{title: getattr(series, title.lower())[number] for title in ("Podms", *_SUMS)},
        }


def _merged_rows(run: model.ReplayResult, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row per interval: means of shares, sums of counts, the last fragmentation."""
    series = run.series
    size = max(1, -(-len(series.nodes) // MOST_ROWS))
    step_s = size * series.bucket_s
    unit, unit_s = next((one for one in _UNITS_S if step_s >= one[1]), _UNITS_S[-1])
    for start in range(0, len(series.nodes), size):
        part = slice(start, start + size)
        row: dict[str, Any] = {
            "Run": run.name,
            "After": f"{start * series.bucket_s / unit_s:,.0f}{unit}",
            "Nodes": round(fmean(series.nodes[part])),
            "Podms": round(fmean(series.podms[part])),
            **{title: sum(getattr(series, title.lower())[part]) for title in _SUMS},
        }
        if series.fragmentation:
            row[_useless_title(run)] = ShareCell(series.fragmentation[part][-1])
        for name, title in names.items():
            used = series.used.get(name)
            row[title] = ShareCell(fmean(used[part])) if used else None
        yield row


def tuning_rows(tuning: Tuning) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each candidate, best first: weights, share served, and gain."""
    for one in sorted(tuning.candidates, key=lambda one: -one.mean):
        gain = _estimate_cell(*tuning.gain_of(one), is_share=True)
        yield (
            cells.Shown(one.weights, words.weights_text),
            number_cell(one.mean, is_share=True),
            gain,
        )
