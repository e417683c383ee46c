# SPDX-License-Identifier: Apache-2.0
"""Draws a map: how much of it, a square for each block, and uses in words."""

import re
from collections import Counter
from typing import Literal

from markupsafe import Markup

from valence_sched.model.hardware import BlockUse
from valence_sched.model.page import HardwareMap, MapBlock, MapGroup, MapPodm
from valence_sched.pages.text import shown_text

#: How much of a map is drawn; names are what a pointer over a square shows.
MapDetail = Literal["names", "squares", "bars"]
MOST_NAME = 40  # characters of the name of a block
MOST_BYTES = {"names": 700_000, "squares": 2_000_000}  # of a map with this detail

_USES: tuple[BlockUse, ...] = ("free", "shared", "used", "unusable")
_CLASSES = {"free": "f", "shared": "s", "used": "u", "unusable": "x"}
_ROLE_CLASSES = {"chosen": "c", "alternate": "a"}
_ORDER = {"c": 0, "a": 1, "f": 2, "s": 3, "u": 4, "x": 5}
_BYTES = {"names": 24, "squares": 15, "group": 130}  # of the markup of a square or a group
_DIGITS = re.compile(r"([0-9]+)")


def map_detail(section: HardwareMap) -> MapDetail:
    """Return how much of a map is drawn: less of a large one."""
    groups = [group for podm in section.podms for pool in podm.pools for group in pool.groups]
    names = [min(len(block.name), MOST_NAME) for group in groups for block in group.blocks]
    labels = sum(len(group.label) + _BYTES["group"] for group in groups)
    if labels + len(names) * _BYTES["names"] + sum(names) <= MOST_BYTES["names"]:
        return "names"
    whole = labels + len(names) * _BYTES["squares"] <= MOST_BYTES["squares"]
    return "squares" if whole else "bars"


def squares(group: MapGroup, detail: MapDetail) -> Markup:
    """Return a square for each block, without names where the detail has none."""
    ordered = sorted(group.blocks, key=_rank)
    if detail == "names":
        return Markup("").join(
            Markup('<i class={} title="{}"></i>').format(_class(block), _name(block))
            for block in ordered
        )
    return Markup("").join(Markup("<i class={}></i>").format(_class(one)) for one in ordered)


def use_shares(uses: dict[BlockUse, int]) -> list[tuple[str, int]]:
    """Return the parts of a bar of uses: the class of each and its number."""
    return [(_CLASSES[use], uses[use]) for use in _USES if uses.get(use)]


def use_text(podm: MapPodm | MapGroup) -> str:
    """Return uses in words: ``3 of 8 free, 1 unusable``; a shared one is free for another."""
    uses = Counter(block.use for block in podm.blocks) if isinstance(podm, MapGroup) else podm.uses
    free = uses.get("free", 0) + uses.get("shared", 0)
    unusable = f", {uses['unusable']:,} unusable" if uses.get("unusable") else ""
    return f"{free:,} of {sum(uses.values()):,} free{unusable}"


def _rank(block: MapBlock) -> tuple[int, list[tuple[int, str]]]:
    """Return the place of a square: by its colour, then by its name with numbers in order."""
    parts = _DIGITS.split(block.name)
    return _ORDER[_class(block)], [(len(one) if n % 2 else 0, one) for n, one in enumerate(parts)]


def _class(block: MapBlock) -> str:
    return _ROLE_CLASSES.get(block.role) or _CLASSES[block.use]


def _name(block: MapBlock) -> str:
    return shown_text(block.name, MOST_NAME)
