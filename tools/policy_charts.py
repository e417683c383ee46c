# SPDX-License-Identifier: Apache-2.0
"""Draws the losses of policies and plain rules, for the page "Choose a policy".

``python tools/policy_charts.py`` reads ``doc/source/reference/policy-figures.jsonl``, the output of
``python -m tests.benchmarks comparing placing sensitivity``, and writes the charts below
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
BENCHMARKS = ("comparing", "placing", "sensitivity")
MEASURE = (sys.executable, "-m", "tests.benchmarks", *BENCHMARKS)
GENERATED = "generated sites"
POLICIES = ("fragmentation", "default", "balanced", "pack")
WITH_ROOM = "fragmentation with room"
RULES = {"fgd": "FGD", "firstfit": "first fit", "bestfit": "best fit", "random": "random"}
SHIPPED = "as shipped"
MEAN, WORST = "mean of lists", "worst list"
ERROR = "standard error"  # of a difference
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
    """Return the figures of JSON lines, by benchmark: those of the worst list are differences."""
    found: dict[str, Figures] = {name: {} for name in BENCHMARKS}
    for line in text.splitlines():
        one = json.loads(line)
        benchmark, _, name = one["name"].partition(": ")
        between = ": " if benchmark == "sensitivity" else ", "
        where, _, who = name.removesuffix(", lost").rpartition(between)
        if where:  # other lines have no loss
            base = one["probe"] if who == WORST else 0.0
            found[benchmark].setdefault(where, {})[who] = one["value"] - base
    return found


def lists(figures: Figures) -> list[str]:
    """Return the names of the lists of requests."""
    return [name for name in figures if not name.startswith(GENERATED)]


def charts(figures: dict[str, Figures]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG text of each chart."""
    compared = figures["comparing"]
    yield (
        "policy-lists.svg",
        draw(
            "Cards that are not allocated, in percent",
            "Requests for as many cards as exist: a production trace and lists derived from it",
            [Group(heading(name), _all_bars(compared[name])) for name in lists(compared)],
        ),
    )
    sites = (*POLICIES, WITH_ROOM)
    yield (
        "policy-sites.svg",
        draw(
            "Nodes fewer than the optimum, in percent",
            "Generated sites of 20 pod managers with 30 blocks, filled node by node",
            [
                Group("mean of the sites", _bars(compared[GENERATED], sites)),
                Group("worst site", _bars(compared[f"{GENERATED}, worst"], sites)),
            ],
        ),
    )
    for name, measure, title in (
        ("models", "allocated", "Cards that are not allocated, in percent"),
        ("served", "served", "Requested cards that are not served, in percent"),
    ):
        placed = by_measure(figures["placing"], measure)
        yield (
            f"policy-{name}.svg",
            draw(
                title,
                "Policy fragmentation and simple rules, on a production trace and derived lists",
                [Group(heading(one), _all_bars(lost, POLICIES[:1]))
                 for one, lost in placed.items()],
            ),
        )  # fmt: skip
    for name, policies in (("", POLICIES[1:]), ("-fragmentation", POLICIES[:1])):
        yield (
            f"policy-sensitivity{name}.svg",
            draw(
                "Loss with half and twice the value of each constant, in percent",
                "Cards on a part of the trace, and nodes below the optimum of generated sites",
                [
                    Group(f"{policy}, {where}", _variants(figures["sensitivity"], policy, where))
                    for policy in policies for where in (MEAN, GENERATED)
                ],
            ),
        )  # fmt: skip


def by_measure(figures: Figures, measure: str) -> Figures:
    """Return the loss by ``allocated`` or ``served`` in placing, by list and policy or rule."""
    end = f", {measure}"
    return {
        name.removesuffix(end): {one: lost for one, lost in found.items() if one != ERROR}
        for name, found in figures.items()
        if name.endswith(end)
    }


def table(figures: Figures, policies: Sequence[str] = POLICIES) -> str:
    """Return 100 minus the loss, in percent, by list and policy or rule, as CSV."""
    rows = [["Requests", *policies, *RULES.values()]]
    for name in lists(figures):
        lost = [figures[name][one] for one in (*policies, *RULES)]
        rows.append([heading(name), *(f"{100 - one:.1f}" for one in lost)])
    return _csv(rows)


def sensitivity_table(figures: Figures) -> str:
    """Return the added loss, in points, of each other value of a constant, as CSV."""
    rows = [["Policy", "Constant", MEAN, WORST, GENERATED]]
    for where, lost in figures.items():
        policy, _, variant = where.partition(": ")
        if variant == SHIPPED:
            shipped = lost
            rows.append([policy, variant, f"{lost[MEAN]:.1f}", "", f"{lost[GENERATED]:.1f}"])
            continue
        more = [lost[MEAN] - shipped[MEAN], lost[WORST], lost[GENERATED] - shipped[GENERATED]]
        rows.append([policy, label(variant), *(f"{round(one, 1) + 0.0:+.1f}" for one in more)])
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


def label(variant: str) -> str:
    """Return the label of another value of a constant in a chart."""
    return variant.removeprefix("of ").replace("_", " ").lower()


def _bars(lost: dict[str, float], policies: Sequence[str] = POLICIES) -> list[Bar]:
    return [Bar(name, lost[name], True) for name in policies]


def _all_bars(lost: dict[str, float], policies: Sequence[str] = POLICIES) -> list[Bar]:
    rules = [Bar(text, lost[name], False) for name, text in RULES.items()]
    return _bars(lost, policies) + rules


def _variants(figures: Figures, policy: str, where: str) -> list[Bar]:
    """Return the loss of a policy as shipped, and with each other value."""
    return [
        Bar(label(variant), lost[where], variant == SHIPPED)
        for one, lost in figures.items()
        for name, _, variant in [one.partition(": ")]
        if name == policy
    ]


def files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every file that is made from the figures."""
    figures = read(FIGURES.read_text())
    for name, text in charts(figures):
        yield DOC / "pictures" / name, text
    tables = {
        "policy-lists": table(figures["comparing"]),
        "policy-models": table(by_measure(figures["placing"], "allocated"), POLICIES[:1]),
        "policy-served": table(by_measure(figures["placing"], "served"), POLICIES[:1]),
        "policy-sensitivity": sensitivity_table(figures["sensitivity"]),
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
    if not all(map(lists, figures.values())):
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
