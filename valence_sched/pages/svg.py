# SPDX-License-Identifier: Apache-2.0
"""Turns the tree of a chart into inline SVG: shapes and text alone, with short numbers.

The chart library writes styles, scripts, ids, comments with the date and its settings beside the
shapes. Only what is listed here is kept, so that a chart has the colours of the page, runs
nothing, and has the same bytes tomorrow.
"""

import re
from collections.abc import Iterator
from typing import Any

import markupsafe
from markupsafe import Markup

from valence_sched.pages.text import shown_text

COLOURS = 6  # of lines, in the style of the page; then they begin again
_SHAPES = frozenset(("svg", "g", "path", "rect", "circle", "line", "text"))
_ATTRIBUTES = frozenset(
    ("class", "cx", "cy", "d", "height", "r", "rx", "ry", "style", "transform", "viewBox", "width",
     "x", "x1", "x2", "y", "y1", "y2")
)  # fmt: skip
#: Groups and shapes of the library that nobody sees without its scripts.
_HIDDEN = frozenset(("background", "tooltip-overlay", "legends", "tooltip", "titles"))
_COLOUR = re.compile(r"\bcolor-(\d+)")
_LONG_NUMBER = re.compile(r"-?(?<!\d)\d++\.\d++")
_NUMBERS = frozenset(_ATTRIBUTES - {"class", "style"})


def inline_svg(root: Any, label: str, name: str) -> Markup:
    """Return a tree of SVG as markup; ``label`` says what it shows, ``name`` is its class."""
    view_box = _attribute("viewBox", root.get("viewBox", ""))
    parts = [Markup('<svg role="img" class="{}" aria-label="{}"').format(name, shown_text(label)),
             view_box, Markup(">")]  # fmt: skip
    for child in root:
        parts += _markup(child)
    return Markup("").join([*parts, Markup("</svg>")])


def _markup(element: Any) -> Iterator[Markup]:
    tag = element.tag if isinstance(element.tag, str) else ""  # a comment has none
    tag = tag.rpartition("}")[2]
    classes = frozenset(str(element.get("class", "")).split())
    if tag not in _SHAPES or classes & _HIDDEN:
        return
    inner = [part for child in element for part in _markup(child)]
    text = markupsafe.escape(shown_text(str(element.text or ""))) if tag == "text" else Markup("")
    if tag in ("g", "text") and not inner and not text:
        return
    attributes = [
        _attribute(name, str(value))
        for name, value in sorted(element.attrib.items())
        if name in _ATTRIBUTES and value != ""
    ]
    yield Markup("<{}{}>").format(tag, Markup("").join(attributes))
    yield text
    yield from inner
    yield Markup("</{}>").format(tag)


def _attribute(name: str, value: str) -> Markup:
    if name == "class":
        value = _COLOUR.sub(lambda colour: f"color-{int(colour[1]) % COLOURS}", value)
    if name in _NUMBERS:
        value = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
    return Markup(' {}="{}"').format(name, value)
