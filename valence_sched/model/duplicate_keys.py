# SPDX-License-Identifier: Apache-2.0
"""Refuses JSON in which an object has one key twice: a decoder takes the last and loses the rest.

What programs write has no such object: text of that size is checked only where it has lines, as
people write it.
"""

from typing import Any, NamedTuple

from valence_sched.errors import InputError

#: Bytes of text without lines that are checked: more are a program's, and take a second.
MOST_COMPACT_BYTES = 32 << 20
_MARK = b"\xef\xbb\xbf"


class _Duplicate(NamedTuple):
    """A key that an object has twice, and the path of the object."""

    path: str
    key: str


class _FoundTwiceError(Exception):
    """An object has a key twice."""


def refuse_duplicate_keys(
    data: bytes, file: str, document_path: str = "$", *, bytes_before: int = 0
) -> None:
    """Check JSON text; one that is no JSON passes, because its decoder says what is wrong.

    ``bytes_before`` is the size of what stands before the text in its file. Text on one line that
    goes beyond ``MOST_COMPACT_BYTES`` of a file is not checked.

    Raises:
        InputError: an object has a key twice; it names ``file`` and the object.
    """
    if bytes_before + len(data) > MOST_COMPACT_BYTES and not _has_lines(data):
        return
    try:
        text = data.removeprefix(_MARK).decode()
        _read(text, _refuse)
    except _FoundTwiceError:
        path, key = _within(_read(text, _first_duplicate), "") or ("", "")
        found = f"the key {key!r} twice"
        raise InputError(file, document_path + path, found, "each key once") from None
    except (ValueError, RecursionError):
        return


def _has_lines(data: bytes) -> bool:
    """Return whether there is a line break within the text, whose last bytes may be one."""
    return data.find(b"\n", 0, len(data) - len(b"\r\n")) >= 0


def _read(text: str, hook: Any) -> Any:
    import json  # not loaded where nothing is checked

    # numbers stay text: one of many digits would be refused
    return json.loads(text, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _FoundTwiceError


def _first_duplicate(pairs: list[tuple[str, Any]]) -> _Duplicate | None:
    """Return the first key that an object, or one within it, has twice.

    An object within it stands among its values as what this has returned of it.
    """
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            return _Duplicate("", key)
        keys.add(key)
    return next(filter(None, (_within(value, f".{key}") for key, value in pairs)), None)


def _within(value: Any, step: str) -> _Duplicate | None:
    """Return what was found in a value, its path with the step to the value in front."""
    above = [(step, value)]  # lists within lists may be deeper than functions may
    while above:
        path, value = above.pop()
        if isinstance(value, _Duplicate):
            return _Duplicate(path + value.path, value.key)
        if isinstance(value, list):
            above += [(f"{path}[{n}]", value[n]) for n in reversed(range(len(value)))]
    return None
