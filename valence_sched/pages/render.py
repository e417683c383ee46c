# SPDX-License-Identifier: Apache-2.0
"""Renders a page as one self-contained HTML file: style within, no script, nothing to load.

The same page gives the same bytes. A name is text wherever it stands: what would be markup is
escaped, and what turns the direction of text or does not print is written out as in JSON.
"""

import functools
from collections.abc import Callable
from typing import Any

import jinja2
from markupsafe import Markup

from valence_sched.model.page import (
    BarComparison,
    ChartGrid,
    Frame,
    FunnelChart,
    HardwareMap,
    Lines,
    Page,
    PageTable,
    TimeChart,
)
from valence_sched.pages import charts, comparison, map_markup
from valence_sched.pages.svg import COLOURS
from valence_sched.pages.text import shown_text

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
    PageTable: "table",
    HardwareMap: "map",
    FunnelChart: "funnel",
    TimeChart: "time",
    ChartGrid: "grid",
    BarComparison: "comparison",
    Lines: "lines",
}


def page_html(page: Page) -> bytes:
    """Return a page as HTML in UTF-8."""
    text = _environment().get_template("page.html").render(page=page)
    return text.encode("utf-8", "strict")


def site_html(page: Page, frame: Frame) -> bytes:
    """Return a page of a service as HTML in UTF-8, with what is around it."""
    text = _environment().get_template("site.html").render(page=page, frame=frame)
    return text.encode("utf-8", "strict")


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
        "squares": map_markup.squares,
        "idle_filters": _idle_filters,
        "detail": map_markup.map_detail,
        "block_roles": map_markup.block_roles,
        "takers_legend": map_markup.takers_legend,
        "use_shares": map_markup.use_shares,
        "use_text": map_markup.use_text,
        "time_charts": charts.time_charts,
        "small_chart": charts.small_chart,
        "grid_table": charts.grid_table,
        "series_table": charts.series_table,
        "comparison_table": comparison.comparison_table,
        "bar_chart": charts.bar_chart,
    }
    environment.globals.update(
        functions, ROLES=ROLES, MOST_OPEN_ROWS=MOST_OPEN_ROWS, COLOURS=COLOURS
    )
    return environment


def _idle_filters(section: FunnelChart) -> str:
    """Return the filters of a funnel that kept all that came in, as a list in words."""
    return ", ".join(step.filter for step in section.steps
                     if step.went_on == step.came_in and not step.undecided)  # fmt: skip
