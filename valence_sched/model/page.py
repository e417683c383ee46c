# SPDX-License-Identifier: Apache-2.0
"""A page for a browser without markup: a title, facts, and sections such as tables and charts."""

from typing import Literal

from msgspec import Struct

from valence_sched.model.decision import FunnelStep
from valence_sched.model.hardware import BlockUse

#: The role of a pod manager or pool in a decision, a move of nodes or a purchase, if any.
Decided = Literal["", "chosen", "alternate", "candidate", "undecided", "rejected"]
Role = Decided | Literal["source", "destination", "buyer"]
BlockRole = Literal["", "chosen", "alternate", "left"]
#: ``idle``: free, on a pod manager that is Offline, disabled or unreachable.
MapUse = BlockUse | Literal["idle"]
Tone = Literal["", "good", "part", "bad"]


class TableCell(Struct, frozen=True, kw_only=True):
    """A cell: its text, a bar for a ``share`` of 0..1, a mark if it is ``best``, and a link."""

    text: str
    share: float | None = None
    best: bool = False
    href: str = ""


Row = tuple[str | TableCell, ...]


class PageTable(Struct, frozen=True, kw_only=True):
    """Rows below titles; the columns of ``numbers`` are aligned to the right.

    A long table is collapsed unless it is ``opened``.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    numbers: frozenset[str] = frozenset()
    text: str = ""
    opened: bool = False


class MapBlock(Struct, frozen=True, gc=False):
    """A block: the last part of its URI, its use, and its role in a decision or a move.

    ``takers`` are the positions, from 1, of its takers in ``HardwareMap.takers``. ``condition`` is
    its state or health if that is not Enabled or OK. ``nodes`` are the names of its nodes, ``href``
    is its page.
    """

    name: str
    use: MapUse = "free"
    role: BlockRole = ""
    takers: tuple[int, ...] = ()
    condition: str | None = None
    nodes: tuple[str, ...] = ()
    href: str = ""


class MapGroup(Struct, frozen=True, kw_only=True):
    """The blocks of a pool that hold the same devices; the label names these devices."""

    label: str
    blocks: tuple[MapBlock, ...]


class MapPool(Struct, frozen=True, kw_only=True):
    """A pool, with its role in a decision and the reason."""

    name: str
    groups: tuple[MapGroup, ...] = ()
    role: Role = ""
    text: str = ""


class MapPodm(Struct, frozen=True, kw_only=True):
    """A pod manager: its pools, labels, and role in a decision.

    A block in two pools is drawn in both, but counts once in ``uses``. ``marks`` name its problems,
    ``nodes`` are the names of its nodes, and ``href`` is its page, if it has one.
    """

    name: str
    pools: tuple[MapPool, ...] = ()
    uses: dict[MapUse, int] = {}
    role: Role = ""
    text: str = ""
    labels: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    zone: str = ""
    nodes: tuple[str, ...] = ()
    href: str = ""


class HardwareMap(Struct, frozen=True, kw_only=True):
    """Pod managers with their pools and blocks, coloured by use and by their role in a decision.

    ``takers`` are the names of nodes or requests that take blocks, if there are several.
    """

    title: str
    podms: tuple[MapPodm, ...]
    text: str = ""
    takers: tuple[str, ...] = ()


class FunnelChart(Struct, frozen=True, kw_only=True):
    """The number of pools left after each filter, and the reasons against the other pools."""

    title: str
    steps: tuple[FunnelStep, ...]
    text: str = ""


class ChartSeries(Struct, frozen=True, kw_only=True):
    """A line of a chart: (seconds since the start, value) in the order of time.

    ``None`` is unknown and leaves a gap.
    """

    name: str
    points: tuple[tuple[float, float | None], ...]


class TimeChart(Struct, frozen=True, kw_only=True):
    """Values over time, in ``unit``; a stepped chart keeps each value until the next."""

    title: str
    unit: str
    series: tuple[ChartSeries, ...]
    stepped: bool = True
    text: str = ""


class ChartGrid(Struct, frozen=True, kw_only=True):
    """Small charts over the same time side by side, with the same lines and a common legend."""

    title: str
    charts: tuple[TimeChart, ...]
    text: str = ""


class Measure(Struct, frozen=True, kw_only=True):
    """A measure: one number for each compared item, such as a scenario; None is unknown.

    ``better`` is the preferred direction, and ``errors`` are the standard errors of means. ``best``
    is the index of the value that is clearly the best.
    """

    name: str
    values: tuple[float | None, ...]
    unit: str = ""
    better: Literal["", "higher", "lower"] = ""
    errors: tuple[float | None, ...] = ()
    best: int | None = None


class BarComparison(Struct, frozen=True, kw_only=True):
    """Bars of each measure for several items, such as scenarios; ``names`` are their names."""

    title: str
    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    text: str = ""


class Lines(Struct, frozen=True, kw_only=True):
    """Sentences, each on its own line."""

    title: str
    lines: tuple[str, ...]


Section = PageTable | HardwareMap | FunnelChart | TimeChart | ChartGrid | BarComparison | Lines


class Page(Struct, frozen=True, kw_only=True):
    """A page: its title, the answer in ``lead``, then facts and sections."""

    title: str
    sections: tuple[Section, ...]
    lead: str = ""
    tone: Tone = ""
    facts: tuple[tuple[str, str], ...] = ()


class PageLink(Struct, frozen=True, kw_only=True):
    """A link to another page of the same site, or to the ``current`` page."""

    text: str
    href: str
    current: bool = False


class SearchField(Struct, frozen=True, kw_only=True):
    """A field of the form of a page: its name in the query, its label and its value.

    With ``choices``, the value is one of them.
    """

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()


class Frame(Struct, frozen=True, kw_only=True):
    """The frame of a page of a service: links to the other pages, and a form.

    ``fields`` without a label are hidden; the ``button`` sends all fields. ``before`` and ``after``
    are the links to other parts of a long list, ``range`` describes the shown part. ``user`` is the
    name of the user.
    """

    links: tuple[PageLink, ...]
    user: str = ""
    fields: tuple[SearchField, ...] = ()
    button: str = "Search"
    range: str = ""
    before: str = ""
    after: str = ""
