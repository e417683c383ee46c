# SPDX-License-Identifier: Apache-2.0
"""A parsed flavor, and the error text of a refused document."""

from collections.abc import Callable
from typing import Any, NamedTuple

from valence_sched.config.foreign.base import DocumentCursor
from valence_sched.config.parsers import parse_flavor
from valence_sched.errors import InputError, SchedulerError
from valence_sched.model.flavor import Flavor


class Parsed(NamedTuple):
    """A flavor, and the remarks on keys that have no effect."""

    flavor: Flavor
    remarks: tuple[str, ...]


def parsed(document: Any, *, known: Any = dict, ignored: tuple[str, ...] = ()) -> Parsed:
    cursor = DocumentCursor("f", ignored=ignored)
    return Parsed(parse_flavor(document, cursor, known), tuple(cursor.remarks))


def refusal(function: Callable[..., Any], *arguments: Any, kind: type[SchedulerError] = InputError,
            **more: Any) -> str:  # fmt: skip
    """Return the text of the error of this kind that a call raises."""
    try:
        function(*arguments, **more)
    except kind as error:
        return str(error)
    raise AssertionError("not refused")
