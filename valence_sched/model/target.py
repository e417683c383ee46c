# SPDX-License-Identifier: Apache-2.0
"""Targets: what an edit is applied to, as a map of conditions or in a few words."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.codec import convert
from valence_sched.model.inventory import BlockType, Name, PodmStatus

TARGET_FORMS = "PODM, PODM/POOL, BLOCK@PODM, BLOCK@PODM/POOL or KEY=VALUE,…"
_CONDITION = re.compile(r"(\w+)=(.*)", re.DOTALL)
_BLOCK_FIELDS = ("block", "type", "kind", "model", "free")


class Target(Noun, frozen=True, kw_only=True):
    """The pod managers, pools or blocks that an edit is applied to: all that meet each condition.

    With ``block``, ``type``, ``kind``, ``model`` or ``free`` these are blocks, else with ``pool``
    pools, else pod managers. ``podm`` is an id or a name, ``block`` a URI, the last part of one or
    a name. These, ``pool``, ``zone``, ``aggregate`` and ``trait`` may be patterns with ``*``, ``?``
    and ``[…]``. ``model`` are words that stand side by side in the model of one of the block's
    devices, ``kind`` is that of an accelerator. A ``free`` block can be used by at least one more
    node. A ``trait`` is one of the pod manager, with pools or blocks also of the pool.
    """

    podm: Name | None = None
    pool: Name | None = None
    block: Name | None = None
    type: BlockType | None = None
    kind: Name | None = None
    model: Name | None = None
    free: bool | None = None
    zone: Name | None = None
    aggregate: Name | None = None
    trait: Name | None = None
    status: PodmStatus | None = None
    enabled: bool | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise ValueError("Expected at least one condition, such as podm: '*'")

    @property
    def selects_blocks(self) -> bool:
        """Return whether the target is blocks."""
        return any(getattr(self, name) is not None for name in _BLOCK_FIELDS)

    @property
    def selects_pools(self) -> bool:
        """Return whether the target is pools."""
        return self.pool is not None and not self.selects_blocks

    def __str__(self) -> str:
        fields = {key: value for key, value in msgspec.structs.asdict(self).items()
                  if value is not None}  # fmt: skip
        if "podm" in fields and fields.keys() <= {"podm", "pool", "block"}:
            block = f"{self.block}@" if self.block else ""
            text = f"{block}{self.podm}" + (f"/{self.pool}" if self.pool else "")
            if not _CONDITION.match(text) and _named_place(text) == self:
                return text
        words = {True: "yes", False: "no"}
        return ",".join(f"{key}={words.get(value, value)}" for key, value in fields.items())


def parse_target(text: str) -> Target:
    """Parse ``PODM``, ``PODM/POOL``, ``BLOCK@PODM``, ``BLOCK@PODM/POOL`` or ``KEY=VALUE,…``.

    The keys are the fields of a target; for a name with ``/``, ``@`` or ``=`` write its key.

    Raises:
        InputError: the text is neither; a key or its value is invalid.
    """
    where = f"target {text!r}"
    if _CONDITION.match(text):
        return convert(_conditions(text, where), Target, where)
    target = _named_place(text)
    if target is None:
        raise InputError(where, "", "none of its forms", TARGET_FORMS)
    return target


def _named_place(text: str) -> Target | None:
    """Return the target of ``BLOCK@PODM/POOL``, of which only the pod manager is required."""
    block, at, place = text.rpartition("@")
    podm, slash, pool = place.partition("/")
    if not podm or (at and not block) or (slash and not pool):
        return None
    return Target(podm=podm, pool=pool or None, block=block or None)


def _conditions(text: str, where: str) -> dict[str, Any]:
    words = {"yes": True, "no": False}
    conditions: dict[str, Any] = {}
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise InputError(where, "", repr(part), "KEY=VALUE")
        if match[1] in conditions:
            raise InputError(where, "", f"{match[1]!r} twice", "it once")
        conditions[match[1]] = words.get(match[2], match[2])
    return conditions
