# SPDX-License-Identifier: Apache-2.0
"""Draws the losses of policies and plain rules, for the page "Choose a policy".

``python tools/policy_charts.py`` reads ``doc/source/reference/policy-figures.jsonl``, the output of
``python -m tests.benchmarks comparing placing living``, and writes the charts below
``doc/source/pictures`` and the tables below ``doc/source/reference``. With ``--measure`` it runs
the benchmarks first and writes their output. Bars begin at 0 and show the loss in percent.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc" / "source"
FIGURES = DOC / "reference" / "policy-figures.jsonl"
BENCHMARKS = ("comparing", "placing", "living")
MEASURE = (sys.executable, "-m", "tests.benchmarks", *BENCHMARKS)
GENERATED = "generated sites"
POLICIES = ("default", "pack", "balanced", "fragmentation")
RULES = {"fgd": "FGD", "firstfit": "first fit", "bestfit": "best fit", "random": "random"}
WIDTH, BAR, HEAD, TOP, LABEL = 760, 18, 30, 64, 190
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'
STYLE = """<style>
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1b1f24; stroke: #3c444d; }
    .ours { fill: #7fb2e5; }
    .plain { fill: #6c7782; }
    .name { fill: #eef1f4; }
    .note { fill: #b9c2cb; }
  }
</style>"""


class Bar(NamedTuple):
    """A bar of a chart: its label, its loss in percent, and whether it shows our policy."""

    label: str
    lost: float
    ours: bool


class Group(NamedTuple):
    """Bars below one heading."""

    heading: str
    bars: Sequence[Bar]


Figures = dict[str, dict[str, float]]  # percent lost, by list or kind of site and by policy


def read(text: str) -> dict[str, Figures]:
    """Return the figures of JSON lines, by benchmark."""
    found: dict[str, Figures] = {name: {} for name in BENCHMARKS}
    for line in text.splitlines():
        one = json.loads(line)
        benchmark, _, name = one["name"].partition(": ")
        if name.endswith(", lost") or benchmark == "comparing":
            where, _, who = name.removesuffix(", lost").rpartition(", ")
            found[benchmark].setdefault(where, {})[RULES.get(who, who)] = one["value"]
    return found


def charts(figures: dict[str, Figures]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG text of each chart."""
    for measure, title in (
        ("allocated", "Cards that are not allocated, in percent"),
        ("served", "Requested cards that are not served, in percent"),
    ):
        placed = by_measure(figures["placing"], measure)
        groups = [Group(heading(one), _bars(lost)) for one, lost in placed.items()]
        note = "The shipped policies and plain rules, on a production trace and derived lists"
        yield f"policy-{measure}.svg", draw(title, note, groups)
    for measure, title in (
        ("requests", "Refused requests, in percent"),
        ("hours", "Hours of the scarcest resource that are not served, in percent"),
    ):
        lived = by_measure(figures["living"], measure)
        groups = [Group(site, _bars(lost)) for site, lost in lived.items()]
        note = "The shipped policies and plain rules, on traces with recorded arrivals and lives"
        yield f"policy-{measure}.svg", draw(title, note, groups)
    compared = figures["comparing"]
    yield (
        "policy-sites.svg",
        draw(
            "Nodes fewer than the optimum, in percent",
            "Generated sites of 20 pod managers with 30 blocks, filled node by node",
            [
                Group("mean of the sites", _bars(compared[GENERATED])),
                Group("worst site", _bars(compared[f"{GENERATED}, worst"])),
            ],
        ),
    )


def by_measure(figures: Figures, measure: str) -> Figures:
    """Return the loss by one measure of a benchmark, by list or site and by policy or rule."""
    end = f", {measure}"
    return {name.removesuffix(end): lost for name, lost in figures.items() if name.endswith(end)}


def table(figures: Figures, first: str) -> str:
    """Return 100 minus the loss, in percent, by list or site and by policy or rule, as CSV."""
    columns = next(iter(figures.values()))
    rows = [[first, *columns]]
    for name, lost in figures.items():
        rows.append([heading(name), *(f"{100 - lost[one]:.1f}" for one in columns)])
    return _csv(rows)


def _csv(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def draw(title: str, note: str, groups: Sequence[Group]) -> str:
    """Return an SVG chart of groups of bars in two columns, all to one scale from 0."""
    rows = [groups[first : first + 2] for first in range(0, len(groups), 2)]
    heights = [HEAD + BAR * max(len(group.bars) for group in row) + 8 for row in rows]
    height = TOP + sum(heights) + 8
    most = max(bar.lost for group in groups for bar in group.bars)
    described = "; ".join(
        f"{group.heading}: " + ", ".join(f"{bar.label} {bar.lost:.1f}" for bar in group.bars)
        for group in groups
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(note)}. {escape(described)}.</desc>',
        STYLE,
        f'<rect class="paper" fill="#fbfbf9" stroke="#c9c9c4" x="0.5" y="0.5" '
        f'width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(16, 28, title, "name", size=14, bold=True),
        _text(16, 47, note, "note"),
    ]
    top = TOP
    for row, row_height in zip(rows, heights, strict=True):
        for column, group in enumerate(row):
            parts += _group(group, 16 + column * WIDTH // 2, top, most)
        top += row_height
    return "\n".join([*parts, "</svg>", ""])


def _group(group: Group, left: int, top: int, most: float) -> Iterator[str]:
    yield _text(left, top + 18, group.heading, "name", bold=True)
    scale = (WIDTH // 2 - LABEL - 72) / most
    for number, bar in enumerate(group.bars):
        y = top + HEAD + number * BAR
        kind, fill = ("ours", "#2f5d8a") if bar.ours else ("plain", "#9aa5b1")
        yield _text(left + LABEL - 8, y + 11, bar.label, "note", anchor="end")
        yield (f'<rect class="{kind}" fill="{fill}" x="{left + LABEL}" y="{y + 1}" '
               f'width="{bar.lost * scale:.1f}" height="{BAR - 6}"/>')  # fmt: skip
        end = left + LABEL + bar.lost * scale + 6
        yield _text(round(end), y + 11, f"{bar.lost:.1f}", "note")


def _text(
    x: int, y: int, text: str, kind: str, *, size: int = 11, bold: bool = False, anchor: str = ""
) -> str:
    fill = {"name": "#1d2329", "note": "#55606b"}[kind]
    more = (' font-weight="bold"' if bold else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return (f'<text class="{kind}" {FONT} font-size="{size}"{more} fill="{fill}" '
            f'x="{x}" y="{y}">{escape(text)}</text>')  # fmt: skip


def heading(name: str) -> str:
    """Return what a list is called in a chart."""
    several, _, models = name.rpartition(", ")
    if several:
        return f"{several}; {heading(models).replace('drawn by', 'by')}"
    for end in (" several cards", " two cards"):
        if name.endswith(end):
            rest = " as for one" if name.startswith("as many") else ""
            requests = " requests for" if rest else " request"
            return f"{name.removesuffix(end)}{requests}{end}{rest}"
    share, by, weight = name.partition(" by ")
    if not by:
        return name
    draw = "with equal probability" if weight == "models" else f"drawn by {weight}"
    return f"{share} name a model, {draw}"


def _bars(lost: dict[str, float]) -> list[Bar]:
    return [Bar(name, value, name in POLICIES) for name, value in lost.items()]


def files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every file that is made from the figures."""
    figures = read(FIGURES.read_text())
    for name, text in charts(figures):
        yield DOC / "pictures" / name, text
    tables = {
        f"policy-{measure}": table(by_measure(figures[benchmark], measure), first)
        for benchmark, measure, first in (
            ("placing", "allocated", "Requests"),
            ("placing", "served", "Requests"),
            ("living", "requests", "Site"),
            ("living", "hours", "Site"),
        )
    }
    for name, text in tables.items():
        yield DOC / "reference" / f"{name}.csv", text


def measure(command: Sequence[str] = MEASURE, to: Path = FIGURES) -> None:
    """Write the output of the benchmarks to the figures.

    Raises:
        CalledProcessError: a benchmark failed; the figures are as before.
        SystemExit: a benchmark was skipped; the figures are as before.
    """
    full = {name: value for name, value in os.environ.items() if name != "VALENCE_SCHED_BENCH"}
    done = subprocess.run(  # noqa: S603 - the benchmarks of this repository
        command, cwd=ROOT, env=full, stdout=subprocess.PIPE, text=True, check=True
    )
    figures = read(done.stdout)
    if not all(figures.values()):
        sys.exit(f"not measured, {to.name} is as before: a benchmark was skipped")
    to.write_text(done.stdout)


def main(arguments: Sequence[str]) -> None:
    """Draw every file, with ``--measure`` from new figures."""
    if list(arguments) not in ([], ["--measure"]):
        sys.exit("usage: python tools/policy_charts.py [--measure]")
    if arguments:
        measure()
    for path, text in files():
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
