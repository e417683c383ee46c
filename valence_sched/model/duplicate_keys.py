# SPDX-License-Identifier: Apache-2.0
"""Refuses JSON in which an object has one key twice: a decoder takes the last and loses the rest.

What programs write has no such object, so that only text of the size that people write is checked.
"""

from typing import Any

from valence_sched.errors import InputError
from valence_sched.model.codec import MAX_HUMAN_BYTES

_MARK = b"\xef\xbb\xbf"


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object as they stand in the text."""


class _FoundTwiceError(Exception):
    """An object has a key twice."""


def refuse_duplicate_keys(
    data: bytes, file: str, document_path: str = "$", *, bytes_before: int = 0
) -> None:
    """Check JSON text; one that is no JSON passes, because its decoder says what is wrong.

    ``bytes_before`` is the size of what stands before the text in its file. What goes beyond
    ``MAX_HUMAN_BYTES`` of a file is not checked.

    Raises:
        InputError: an object has a key twice; it names ``file`` and the object.
    """
    if bytes_before + len(data) > MAX_HUMAN_BYTES:
        return
    try:
        text = data.removeprefix(_MARK).decode()
        _read(text, _refuse)
    except _FoundTwiceError:
        path, key = _first_duplicate(_read(text, _Pairs), document_path) or (document_path, "")
        raise InputError(file, path, f"the key {key!r} twice", "each key once") from None
    except (ValueError, RecursionError):
        return


def _read(text: str, hook: Any) -> Any:
    import json  # not loaded where nothing is checked

    # numbers stay text: one of many digits would be refused
    return json.loads(text, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _FoundTwiceError


def _first_duplicate(value: Any, path: str) -> tuple[str, str] | None:
    """Return the path of the first object with a duplicate key, and the key."""
    if isinstance(value, _Pairs):
        keys: set[str] = set()
        for key, _ in value:
            if key in keys:
                return path, key
            keys.add(key)
        below = [(f"{path}.{key}", item) for key, item in value]
    elif isinstance(value, list):
        below = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    else:
        return None
    found = (_first_duplicate(item, item_path) for item_path, item in below)
    return next((one for one in found if one), None)
