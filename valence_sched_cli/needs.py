# SPDX-License-Identifier: Apache-2.0
"""Cells about what nodes are made of: needs, how they are bound, and what is tried instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.columns import GIB, Cell, plain, text

if TYPE_CHECKING:
    from valence_sched.model.need import Ask, Bond, Need


class Needs(Cell[Sequence["Need"]]):
    """What a flavor asks for: a phrase a line for people, the needs for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_phrase, self._value))

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


class Bonds(Cell[Sequence["Bond"]]):
    """How the devices of needs stand together: a phrase a line, the bonds for machines."""

    def human_readable(self) -> str:
        return "\n".join(map(_bond, self._value))

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


class Asks(Cell[Sequence["Ask"]]):
    """Other ways to make a node: a line each with its needs and bonds, those for machines."""

    def human_readable(self) -> str:
        return "\n".join(
            "; ".join([*map(_phrase, ask.needs), *map(_bond, ask.bonds)]) for ask in self._value
        )

    def machine_readable(self) -> list[Any]:
        return plain(self._value)


def _bond(bond: Bond) -> str:
    return f"{bond.relation} {bond.place}: {', '.join(bond.of)}"


def _phrase(need: Need) -> str:
    times = f"{need.count} x" if need.count > 1 else ""
    least = []
    for test in need.tests:
        if test.operator == "at_least":
            name, value = test.attribute, float(test.value)
            if name == "capacity_bytes":
                name, value = "capacity_gib", value / GIB
            least.append(f"{name} >= {text(value)}")
    amount = " ".join(filter(None, [times, text(need.amount), need.unit, need.label]))
    return ", ".join([amount, *least])
