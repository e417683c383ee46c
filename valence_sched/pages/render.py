# SPDX-License-Identifier: Apache-2.0
"""Renders a page with its links as one self-contained HTML file, with style and script inside.

The same page gives the same bytes. Names are always text: markup is escaped, and unprintable and
direction-changing characters are written as in JSON.
"""

import base64
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from valence_sched.model import page as pages
from valence_sched.pages import charts
from valence_sched.pages.tables import shown_text

#: The detail of a map. ``names`` and ``squares`` draw a square for each block, with or without its
#: name and use. ``bars`` show a number for equal blocks of a pool, ``pools`` one for each pool.
MapDetail = Literal["names", "squares", "bars", "pools"]
MOST_NAME = 40  # characters of the name of a block
MOST_BYTES = 500_000  # size of a map, except in the least detail
MOST_NODES = 20  # nodes of a pod manager that a map names

_USES: tuple[pages.MapUse, ...] = ("free", "shared", "idle", "used", "unusable")
_CLASSES = {"free": "f", "shared": "s", "idle": "d", "used": "u", "unusable": "x"}
#: The words of the legend for the use of a block.
_USE_WORDS = {
    "f": "free",
    "s": "in use, and usable by more nodes",
    "u": "in use",
    "e": "in use, in a bad condition",
    "x": "unusable: reserved, disabled or in a bad condition",
    "d": "free, but the pod manager is Offline, disabled or unreachable",
}
_ROLE_WORDS = {"chosen": "chosen", "alternate": "alternate", "left": "left by a node"}
_ROLE_CLASSES = {"chosen": "c", "alternate": "a", "left": "o"}
_ORDER = {name: number for number, name in enumerate("caofsduex")}
TAKER_COLOURS = 5  # colours in the style of the page; further takers repeat them
MOST_SHARERS = 3  # takers of a shared block whose numbers its square shows
MOST_TAKERS = 40  # takers that the legend names
_BYTES = {"names": 45, "squares": 22, "group": 75, "bars": 60, "podm": 300}  # size of the markup
_DIGITS = re.compile(r"([0-9]+)")
MOST_OPEN_ROWS = 30  # a table with more rows is folded
MOST_CARD_ROWS = 100  # a table with more rows scrolls on a narrow screen
MOST_OPEN_PODMS = 12  # a map with more pod managers is folded
ROLES = {"chosen": "chosen", "alternate": "alternate", "candidate": "fits"}
ROLES |= {"undecided": "undecided", "rejected": "does not fit", "source": "nodes leave"}
ROLES |= {"destination": "takes nodes", "buyer": "gets new blocks"}
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


def map_detail(section: pages.HardwareMap) -> MapDetail:
    bars = len(section.podms) * _BYTES["podm"]
    squares = named = 0
    for podm in section.podms:
        start = min(len(podm.name), MOST_NAME)
        for group in (group for pool in podm.pools for group in pool.groups):
            bars += _BYTES["bars"] + len(group.label)
            for block in group.blocks:
                one = start + min(len(block.name), MOST_NAME)
                squares += _BYTES["squares"] + one
                named += _BYTES["names"] + 3 * one + len(block.href)
    if bars + named <= MOST_BYTES:
        return "names"
    if bars + squares <= MOST_BYTES:
        return "squares"
    return "bars" if bars <= MOST_BYTES else "pools"


def _groups(section: pages.HardwareMap) -> Iterator[pages.MapGroup]:
    for podm in section.podms:
        for pool in podm.pools:
            yield from pool.groups


class PageWriter:
    """The functions that the templates of one page call; no anchor appears twice on the page."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def id(self, *names: str) -> Markup:
        """Return an ``id`` attribute with the anchor of names; empty if the page already has it."""
        one = anchor(*(shown_text(name) for name in names))
        if one in self._ids:
            return Markup("")
        self._ids.add(one)
        return Markup(' id="{}"').format(one)

    def squares(
        self, podm: str, group: pages.MapGroup, detail: MapDetail, takers: Sequence[str] = ()
    ) -> Markup:
        blocks = sorted(group.blocks, key=_rank)
        return Markup("").join(self._square(podm, one, detail, takers) for one in blocks)

    def _square(
        self, podm: str, block: pages.MapBlock, detail: MapDetail, takers: Sequence[str]
    ) -> Markup:
        shared = block.takers[:MOST_SHARERS] if takers else ()
        others = len(block.takers) - len(shared) if shared else 0
        numbers = " ".join(map(str, shared)) + (more := f" +{others}" if others else "")
        kind = _taker_class(shared[0]) if shared else _class(block)
        if detail != "names":
            return Markup('<i class="{}"{}>{}</i>').format(kind, self.id(podm, block.name), numbers)
        if shared:
            words = [", ".join(shown_text(takers[one - 1], MOST_NAME) for one in shared) + more]
        else:
            words = [_ROLE_WORDS.get(block.role) or _USE_WORDS[kind].partition(":")[0]]
        if block.condition:
            words.append(block.condition)
        if block.nodes:
            words.append("node " + ", ".join(shown_text(one, MOST_NAME) for one in block.nodes[:3]))
        return Markup('<a class="{}"{} href="{}" aria-label="{}">{}</a>').format(
            kind,
            self.id(podm, block.name),
            block.href or f"#{anchor(shown_text(podm), shown_text(block.name))}",
            f"{shown_text(block.name, MOST_NAME)}: {'; '.join(words)}",
            numbers,
        )


def map_legend(section: pages.HardwareMap) -> list[tuple[str, str]]:
    found = {_CLASSES[use] for podm in section.podms for use in podm.uses}
    found |= {_class(block) for group in _groups(section) for block in group.blocks}
    uses = [(one, word) for one, word in _USE_WORDS.items() if one in found | {"f", "u"}]
    blocks = (block for group in _groups(section) for block in group.blocks)
    roles = {block.role for block in blocks if not (block.takers and section.takers)}
    return uses + [(_ROLE_CLASSES[it], word) for it, word in _ROLE_WORDS.items() if it in roles]


def takers_legend(section: pages.HardwareMap) -> tuple[list[tuple[str, int, str]], int]:
    numbered = enumerate(section.takers[:MOST_TAKERS], 1)
    named = [(_taker_class(number), number, name) for number, name in numbered]
    return named, len(section.takers) - len(named)


def _taker_class(number: int) -> str:
    return f"t t{(number - 1) % TAKER_COLOURS}"


def use_shares(uses: Mapping[pages.MapUse, int]) -> list[tuple[str, int]]:
    return [(_CLASSES[use], uses[use]) for use in _USES if uses.get(use)]


def group_uses(groups: Iterable[pages.MapGroup]) -> Counter[pages.MapUse]:
    return Counter(block.use for group in groups for block in group.blocks)


def use_text(uses: Mapping[pages.MapUse, int]) -> str:
    """Return uses in words: ``3 of 8 usable, 2 more free``; shared blocks are usable."""
    usable, idle = uses.get("free", 0) + uses.get("shared", 0), uses.get("idle", 0)
    more = f", {idle:,} more free" if idle else ""
    more += f", {uses['unusable']:,} unusable" if uses.get("unusable") else ""
    return f"{usable:,} of {sum(uses.values()):,} usable{more}"


class MapZone(NamedTuple):
    """The pod managers of a zone on a map, and the number of their blocks by use."""

    name: str
    podms: list[pages.MapPodm]
    uses: Counter[pages.MapUse]


def map_zones(section: pages.HardwareMap) -> list[MapZone]:
    podms = section.podms
    names = {podm.zone for podm in podms}
    if len(podms) <= MOST_OPEN_PODMS or len(names) < 2 or any(podm.role for podm in podms):
        return []
    zones = {name: MapZone(name or "no zone", [], Counter()) for name in sorted(names)}
    for podm in podms:
        zones[podm.zone].podms.append(podm)
        zones[podm.zone].uses.update(podm.uses)
    return list(zones.values())


def _rank(block: pages.MapBlock) -> tuple[int, tuple[int, ...], list[tuple[int, str]]]:
    """Return the sort key of a square: role, use and taker, then the name with numbers."""
    parts = _DIGITS.split(block.name)
    order = _ORDER[_class(block)]
    return order, block.takers, [(len(one) if n % 2 else 0, one) for n, one in enumerate(parts)]


def _class(block: pages.MapBlock) -> str:
    unwell = block.use == "used" and block.condition
    return _ROLE_CLASSES.get(block.role) or ("e" if unwell else _CLASSES[block.use])


def idle_filters(section: pages.FunnelChart) -> str:
    """Return a text with the filters that rejected no pool."""
    steps = (step for step in section.steps if step.went_on == step.came_in and not step.undecided)
    return ", ".join(step.filter for step in steps)


def page_html(page: pages.Page) -> bytes:
    return _rendered("page.html", page=page)


def site_html(page: pages.Page, frame: pages.Frame) -> bytes:
    return _rendered("site.html", page=page, frame=frame)


def _rendered(template: str, **words: Any) -> bytes:
    return _environment().get_template(template).render(**words, writer=PageWriter()).encode()


def shown(value: Any) -> Any:
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return shown_text(value) if is_text else value


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
    functions: list[Callable[..., Any]] = [idle_filters, map_legend, map_zones, takers_legend]
    functions += [group_uses, use_shares, use_text, charts.time_charts, charts.small_chart]
    functions += [charts.grid_table, charts.series_table, charts.comparison_table, charts.bar_chart]
    environment.globals.update(
        {one.__name__: one for one in functions},  # templates call functions by their names
        detail=map_detail,
        kind=lambda section: _KINDS[type(section)],
        ROLES=ROLES,
        COLOURS=charts.COLOURS,
        MOST_OPEN_ROWS=MOST_OPEN_ROWS,
        MOST_CARD_ROWS=MOST_CARD_ROWS,
        MOST_OPEN_PODMS=MOST_OPEN_PODMS,
        MOST_NODES=MOST_NODES,
        POLICY=POLICY,
        SCRIPT=Markup(SCRIPT),  # noqa: S704 - a file of this package
    )
    return environment


NAME_IN_QUERY = "-"  # stands in a path for a name that a path cannot hold

SCRIPT = resources.files("valence_sched.pages").joinpath("templates/page.js").read_text()
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
#: The content security policy: a page loads nothing, and runs only its embedded script.
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_DIGEST}'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action "
)


def anchor(*names: str) -> str:
    """Return the unique HTML ID of a pod manager, or of a block or node of it: the quoted names."""
    return "/".join(quote(name, safe="", errors="replace") for name in names)


class PageLinks(NamedTuple):
    """Relative links from a page that is ``depth`` steps below the first page, at any URL."""

    depth: int

    def to(self, path: str = "", **query: object) -> str:
        return "../" * self.depth + "ui" + path + query_text(query)

    def cell(self, kind: str, name: str, text: str = "", **query: object) -> pages.TableCell:
        """Return the cell of a table with a link and its text, by default the name."""
        return pages.TableCell(text=text or name, href=self.named(kind, name, **query))

    def menu(self, current: str) -> tuple[pages.PageLink, ...]:
        """Return the links to all lists; the link named ``current`` is marked."""
        lists = {"Site": "", "Decisions": "/decisions", "Claims": "/claims", "Nodes": "/nodes"}
        lists["Would it fit?"] = "/fit"
        return tuple(
            pages.PageLink(text=text, href=self.to(path), current=text == current)
            for text, path in lists.items()
        )

    def named(self, kind: str, name: str, **query: object) -> str:
        """Return the link to a pod manager, a block, a node, a claim or a decision by its name.

        The name of a node is its id, or its URI on a pod manager ``podm``.
        """
        if "/" in name or name in (NAME_IN_QUERY, ".", "..", ""):
            return self.to(f"/{kind}/{NAME_IN_QUERY}", name=name, **query)
        return self.to(f"/{kind}/{quote(name, safe='')}", **query)


def query_text(words: Mapping[str, object]) -> str:
    text = urlencode({name: word for name, word in words.items() if word}, errors="replace")
    return f"?{text}" if text else ""
