# SPDX-License-Identifier: Apache-2.0
"""Preparation of nouns for threads: what must happen in one of them happens before."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

ROOM = "valence_sched."
_BUILDING = threading.Lock()


def prepare_nouns() -> int:
    """Have msgspec build what it knows of every noun that is there; return how many there are.

    It builds that when a noun is first decoded. Two threads that are first at once make it free
    what the other still uses, and the process dies. Again it costs a fraction of a millisecond.
    """
    with _BUILDING:
        nouns = [kind for kind in _subclasses(msgspec.Struct) if kind.__module__.startswith(ROOM)]
        for kind in nouns:
            with contextlib.suppress(TypeError, NameError):  # it is only ever encoded
                msgspec.json.Decoder(kind)
    return len(nouns)


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)
