# SPDX-License-Identifier: Apache-2.0
"""Draws what policies and plain rules lose, for "Which policy for which site".

``python tools/policy_charts.py`` reads ``doc/source/reference/policy-figures.jsonl``, the output of
``python -m tests.benchmarks comparing``, and writes the charts below ``doc/source/pictures`` and
the table below ``doc/source/reference``. Bars begin at 0 and show what is lost, in percent.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOC = Path(__file__).parents[1] / "doc" / "source"
FIGURES = DOC / "reference" / "policy-figures.jsonl"
PREFIX = "comparing: "
GENERATED = "generated sites"
POLICIES = ("fragmentation", "default", "balanced", "pack")
RULES = {"fgd": "FGD", "firstfit": "first fit", "bestfit": "best fit", "random": "random"}
SHIPPED = "default as it ships"
WIDTH, BAR, HEAD, TOP, LABEL = 760, 18, 30, 64, 168
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
    """A bar of a chart: its label, what is lost in percent, and whether a policy of ours does."""

    label: str
    lost: float
    ours: bool


class Group(NamedTuple):
    """Bars below one heading."""

    heading: str
    bars: Sequence[Bar]


Figures = dict[str, dict[str, float]]  # percent lost, by list or kind of site and by policy


def read(text: str) -> Figures:
    """Return the figures of JSON lines."""
    figures: Figures = {}
    for line in text.splitlines():
        name = json.loads(line)
        where, _, who = name["name"].removeprefix(PREFIX).rpartition(", ")
        figures.setdefault(where, {})[who] = name["value"]
    return figures


def lists(figures: Figures) -> list[str]:
    """Return the names of the lists of requests."""
    return [name for name in figures if not name.startswith(GENERATED)]


def charts(figures: Figures) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG text of each chart."""
    names = lists(figures)
    yield (
        "policy-lists.svg",
        draw(
            "Cards that are not allocated, in percent",
            "Requests for as many cards as there are, on a production trace and lists made from it",
            [Group(_heading(name), _all_bars(figures[name])) for name in names],
        ),
    )
    yield (
        "policy-sites.svg",
        draw(
            "Nodes of the optimum that are not placed, in percent",
            "Generated sites of 20 pod managers with 30 blocks, filled one by one",
            [
                Group("mean of the sites", _bars(figures[GENERATED])),
                Group("worst site", _bars(figures[f"{GENERATED}, worst"])),
            ],
        ),
    )
    yield (
        "policy-sensitivity.svg",
        draw(
            "What weight and step of fragmentation do to policy default",
            "Cards that are not allocated, in percent; it ships with weight 8 and step 0.25",
            [Group(_heading(name), _variants(figures[name])) for name in names],
        ),
    )


def table(figures: Figures) -> str:
    """Return as CSV what is allocated of the cards, in percent, by list and policy."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Requests", *POLICIES, *RULES.values()])
    for name in lists(figures):
        lost = [figures[name][one] for one in (*POLICIES, *RULES)]
        writer.writerow([_heading(name), *(f"{100 - one:.1f}" for one in lost)])
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


def _heading(name: str) -> str:
    return {
        "as recorded": "as recorded",
        "several cards": "half ask for several cards",
    }.get(name, f"{name.partition(' by ')[0]} name a model, drawn by{name.partition(' by')[2]}")


def _bars(lost: dict[str, float]) -> list[Bar]:
    return [Bar(name, lost[name], True) for name in POLICIES]


def _all_bars(lost: dict[str, float]) -> list[Bar]:
    return _bars(lost) + [Bar(label, lost[name], False) for name, label in RULES.items()]


def _variants(lost: dict[str, float]) -> list[Bar]:
    others = {name.removeprefix("default "): one for name, one in lost.items() if " with " in name}
    return [
        Bar(SHIPPED, lost["default"], True),
        *(Bar(name, one, False) for name, one in others.items()),
    ]


def files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every file that is made from the figures."""
    figures = read(FIGURES.read_text())
    for name, text in charts(figures):
        yield DOC / "pictures" / name, text
    yield DOC / "reference" / "policy-lists.csv", table(figures)


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text)
