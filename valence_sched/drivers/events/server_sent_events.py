# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: the parser of a stream, which keeps no more than one bounded event."""

from __future__ import annotations

import re
from collections.abc import Iterator

from valence_sched.drivers.bounds import MIB
from valence_sched.errors import PodmError

#: Bytes of one event; a stream with a larger one is not followed.
MAX_EVENT_BYTES = 1 * MIB

_END = re.compile(rb"\r\n|\n|\r")


class EventParser:
    """Takes a stream in pieces, and yields the data of each event as it ends.

    Fields other than ``data`` are of no use here. A line of a JSON text that some services send
    over several lines without its field name belongs to the data.
    """

    def __init__(self, most: int = MAX_EVENT_BYTES) -> None:
        self._most = most
        self._line: list[bytes] = []  # pieces of a line that has not ended
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the events that a piece ends; PodmError where one is too large."""
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]  # the other half of an end that two pieces share
        self._after_return = piece.endswith(b"\r") if piece else self._after_return
        *lines, rest = _END.split(piece)
        for line in lines:
            self._grow(line)
            whole, self._line = b"".join(self._line), []
            if whole:
                self._take(whole)
            else:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                if data:
                    yield data
        self._grow(rest)

    def _grow(self, part: bytes) -> None:
        """Add to the line; nothing of it is looked at again before it ends."""
        if part:
            self._line.append(part)
            self._size += len(part)
        if self._size > self._most:
            raise PodmError(f"sends an event of more than {self._most} bytes")

    def _take(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if name == b"data" and (colon or line == b"data"):
            value = value.removeprefix(b" ")
        elif self._data and name not in (b"", b"id", b"event", b"retry"):
            value = line
        else:
            self._size -= len(line)
            return
        self._data.append(value)
