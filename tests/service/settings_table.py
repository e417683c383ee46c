# SPDX-License-Identifier: Apache-2.0
"""The table of settings for their reference: ``python -m tests.service.settings_table``."""

from collections.abc import Iterator
from typing import Any

import msgspec

from valence_sched.service.settings import DEFAULT_SETTINGS


def rows(noun: Any = DEFAULT_SETTINGS, before: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the name of each setting, its possible values, and its default."""
    for field in msgspec.inspect.type_info(type(noun)).fields:
        value = getattr(noun, field.name)
        if isinstance(value, msgspec.Struct):
            yield from rows(value, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}", _kind(field.type), _default(value)


def _kind(kind: Any) -> str:
    match kind:
        case msgspec.inspect.UnionType():
            kinds = (one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
            return " or ".join(map(_kind, kinds))
        case msgspec.inspect.LiteralType():
            return " or ".join(f"``{value}``" for value in kind.values)
        case msgspec.inspect.VarTupleType():
            return f"list of {_kind(kind.item_type)}s"
        case msgspec.inspect.IntType():
            return f"integer{_range(kind)}"
        case msgspec.inspect.FloatType():
            return f"number{_range(kind)}"
        case msgspec.inspect.BoolType():
            return "``true`` or ``false``"
        case msgspec.inspect.DictType():
            return f"map of {_kind(kind.value_type)}s"
        case msgspec.inspect.StructType():
            return "object"
        case _:
            return "string"


def _range(kind: Any) -> str:
    if kind.ge is not None and kind.le is not None:
        return f", {_digits(kind.ge)} to {_digits(kind.le)}"
    limits = (("at least", kind.ge), ("above", kind.gt), ("at most", kind.le))
    return "".join(f", {word} {_digits(limit)}" for word, limit in limits if limit is not None)


def _digits(limit: float) -> str:
    return f"{int(limit):,}" if limit == int(limit) else f"{limit:,}"


def _default(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "not set"
    return f"``{str(value).lower() if isinstance(value, bool) else value}``"


def table() -> str:
    """Return the rows in the format of a list-table."""
    cells = (
        f"   * - ``{name}``\n     - {kind}\n     - {default}\n" for name, kind, default in rows()
    )
    return "".join(cells)


if __name__ == "__main__":
    print(table(), end="")
