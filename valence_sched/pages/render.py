# SPDX-License-Identifier: Apache-2.0
"""Renders a page as one self-contained HTML file: style within, no script, nothing to load.

The same page gives the same bytes. A name is text wherever it stands: what would be markup is
escaped, and what turns the direction of text or does not print is written out as in JSON.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from valence_sched.model import page as pages
from valence_sched.model.hardware import BlockUse
from valence_sched.pages import charts
from valence_sched.pages.charts import COLOURS, comparison_table
from valence_sched.pages.tables import shown_text

#: How much of a map is drawn; names are what a pointer over a square shows.
MapDetail = Literal["names", "squares", "bars"]
MOST_NAME = 40  # characters of the name of a block
MOST_BYTES = {"names": 700_000, "squares": 2_000_000}  # of a map with this detail

_USES: tuple[BlockUse, ...] = ("free", "shared", "used", "unusable")
_CLASSES = {"free": "f", "shared": "s", "used": "u", "unusable": "x"}
_ROLE_WORDS = {"chosen": "chosen", "alternate": "alternate", "left": "left by a node"}
_ROLE_CLASSES = {"chosen": "c", "alternate": "a", "left": "o"}
_ORDER = {"c": 0, "a": 1, "o": 2, "f": 3, "s": 4, "u": 5, "x": 6}
TAKER_COLOURS = 5  # in the style of the page; then they begin again
MOST_SHARERS = 3  # of a block, whose numbers it has
MOST_TAKERS = 40  # that the legend names
_BYTES = {"names": 24, "squares": 15, "group": 130}  # of the markup of a square or a group
_DIGITS = re.compile(r"([0-9]+)")


def map_detail(section: pages.HardwareMap) -> MapDetail:
    """Return how much of a map is drawn: less of a large one."""
    groups = list(_groups(section))
    names = [min(len(block.name), MOST_NAME) for group in groups for block in group.blocks]
    labels = sum(len(group.label) + _BYTES["group"] for group in groups)
    if labels + len(names) * _BYTES["names"] + sum(names) <= MOST_BYTES["names"]:
        return "names"
    whole = labels + len(names) * _BYTES["squares"] <= MOST_BYTES["squares"]
    return "squares" if whole else "bars"


def _groups(section: pages.HardwareMap) -> Iterator[pages.MapGroup]:
    for podm in section.podms:
        for pool in podm.pools:
            yield from pool.groups


def squares(group: pages.MapGroup, detail: MapDetail, takers: Sequence[str] = ()) -> Markup:
    """Return a square for each block, without names where the detail has none."""
    names = detail == "names"
    return Markup("").join(_square(one, takers, names) for one in sorted(group.blocks, key=_rank))


def _square(block: pages.MapBlock, takers: Sequence[str], names: bool) -> Markup:
    """Return a square; one that is taken has the numbers of its takers, and the first's colour."""
    if not takers or not block.takers:
        if not names:
            return Markup("<i class={}></i>").format(_class(block))
        return Markup('<i class={} title="{}"></i>').format(_class(block), _name(block))
    shown = block.takers[:MOST_SHARERS]
    more = f" +{len(block.takers) - len(shown)}" if len(block.takers) > len(shown) else ""
    who = ", ".join(shown_text(takers[number - 1], MOST_NAME) for number in shown)
    return Markup('<i class="{}" title="{}: {}{}">{}{}</i>').format(
        _taker_class(shown[0]), _name(block), who, more, " ".join(map(str, shown)), more
    )


def block_roles(section: pages.HardwareMap) -> list[tuple[str, str]]:
    """Return class and word of the roles that blocks of a map have, for its legend."""
    blocks = (block for group in _groups(section) for block in group.blocks)
    found = {block.role for block in blocks if not (block.takers and section.takers)}
    return [(_ROLE_CLASSES[role], word) for role, word in _ROLE_WORDS.items() if role in found]


def takers_legend(section: pages.HardwareMap) -> tuple[list[tuple[str, int, str]], int]:
    """Return class, number and name of the takers of a map, and how many more there are."""
    numbered = enumerate(section.takers[:MOST_TAKERS], 1)
    named = [(_taker_class(number), number, name) for number, name in numbered]
    return named, len(section.takers) - len(named)


def _taker_class(number: int) -> str:
    return f"t t{(number - 1) % TAKER_COLOURS}"


def use_shares(uses: dict[BlockUse, int]) -> list[tuple[str, int]]:
    """Return the parts of a bar of uses: the class of each and its number."""
    return [(_CLASSES[use], uses[use]) for use in _USES if uses.get(use)]


def use_text(podm: pages.MapPodm | pages.MapGroup) -> str:
    """Return uses in words: ``3 of 8 free, 1 unusable``; a shared one is free for another."""
    uses = (
        Counter(block.use for block in podm.blocks)
        if isinstance(podm, pages.MapGroup)
        else podm.uses
    )
    free = uses.get("free", 0) + uses.get("shared", 0)
    unusable = f", {uses['unusable']:,} unusable" if uses.get("unusable") else ""
    return f"{free:,} of {sum(uses.values()):,} free{unusable}"


def _rank(block: pages.MapBlock) -> tuple[int, tuple[int, ...], list[tuple[int, str]]]:
    """Return the place of a square: by its role, use and taker, then by its name with numbers."""
    parts = _DIGITS.split(block.name)
    order = _ORDER[_class(block)]
    return order, block.takers, [(len(one) if n % 2 else 0, one) for n, one in enumerate(parts)]


def _class(block: pages.MapBlock) -> str:
    return _ROLE_CLASSES.get(block.role) or _CLASSES[block.use]


def _name(block: pages.MapBlock) -> str:
    return shown_text(block.name, MOST_NAME)


MOST_OPEN_ROWS = 30  # of a table, above which a reader opens it
ROLES = {
    "chosen": "chosen",
    "alternate": "alternate",
    "candidate": "fits",
    "undecided": "undecided",
    "rejected": "does not fit",
    "source": "nodes leave",
    "destination": "takes nodes",
}
#: The macro that draws each kind of section, in ``templates/sections.html``.
_KINDS: dict[type, str] = {
    pages.PageTable: "table",
    pages.HardwareMap: "map",
    pages.FunnelChart: "funnel",
    pages.TimeChart: "time",
    pages.ChartGrid: "grid",
    pages.BarComparison: "comparison",
    pages.Lines: "lines",
}


def idle_filters(section: pages.FunnelChart) -> str:
    """Return the filters that kept all that came in."""
    steps = (step for step in section.steps if step.went_on == step.came_in and not step.undecided)
    return ", ".join(step.filter for step in steps)


def page_html(page: pages.Page) -> bytes:
    """Return a page as HTML in UTF-8."""
    return _environment().get_template("page.html").render(page=page).encode()


def site_html(page: pages.Page, frame: pages.Frame) -> bytes:
    """Return a page of a service as HTML in UTF-8, with what is around it."""
    return _environment().get_template("site.html").render(page=page, frame=frame).encode()


def shown(value: Any) -> Any:
    """Return what a template prints: markup as it is, text without what hides or turns it."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return shown_text(value)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("valence_sched.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    functions: dict[str, Callable[..., Any]] = {
        "kind": lambda section: _KINDS[type(section)],
        "squares": squares,
        "idle_filters": idle_filters,
        "detail": map_detail,
        "block_roles": block_roles,
        "takers_legend": takers_legend,
        "use_shares": use_shares,
        "use_text": use_text,
        "time_charts": charts.time_charts,
        "small_chart": charts.small_chart,
        "grid_table": charts.grid_table,
        "series_table": charts.series_table,
        "comparison_table": comparison_table,
        "bar_chart": charts.bar_chart,
    }
    environment.globals.update(
        functions, ROLES=ROLES, MOST_OPEN_ROWS=MOST_OPEN_ROWS, COLOURS=COLOURS
    )
    return environment
