# SPDX-License-Identifier: Apache-2.0
"""Cells that read well in a table and stay what they are in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn


class Words(FormattableColumn[Sequence[str]]):
    """A list: words side by side for people, a list for machines."""

    def human_readable(self) -> str:
        return ", ".join(str(item) for item in self._value)

    def machine_readable(self) -> list[str]:
        return list(self._value)


class Tails(Words):
    """A list of URIs: people see the last part of each."""

    def human_readable(self) -> str:
        return ", ".join(uri.rstrip("/").rpartition("/")[2] for uri in self._value)


class Pairs(FormattableColumn[Mapping[str, Any]]):
    """A map: ``key=value, key=value`` for people, a map for machines."""

    def human_readable(self) -> str:
        return ", ".join(f"{key}={_text(value)}" for key, value in self._value.items())

    def machine_readable(self) -> dict[str, Any]:
        return dict(self._value)


class Maybe(FormattableColumn[Any]):
    """A value that may be absent: people see nothing, machines see null."""

    def human_readable(self) -> str:
        return "" if self._value is None else _text(self._value)

    def machine_readable(self) -> Any:
        return self._value


class Lines(FormattableColumn[Sequence[Mapping[str, Any]]]):
    """A list of maps: one line each for people, the structure for machines."""

    def human_readable(self) -> str:
        return "\n".join(Pairs(item).human_readable() for item in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [dict(item) for item in self._value]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + Pairs(value).human_readable() + "}"
    if isinstance(value, (list, tuple)):
        return ";".join(_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
