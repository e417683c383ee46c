# SPDX-License-Identifier: Apache-2.0
"""Event stream: follows the events of one pod manager over a connection that is opened to it.

Nothing listens here. An event is a hint that a reading may differ now, never content.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from valence_sched.drivers.bounds import MIB
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.events.hint import hint_of
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, links, text
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.drivers.http.service_root import enter_service
from valence_sched.drivers.http.stdlib_transport import AnswerStream
from valence_sched.drivers.http.tls import TlsContexts
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


STREAM_TYPE = "text/event-stream"
#: Seconds without a byte after which a stream is opened again: its other end may be gone.
QUIET_S = 900.0
#: Bytes that a stream may send in so many seconds; one that sends more is not followed.
MOST_BYTES, MOST_BYTES_S = 16 * MIB, 60.0


class NoEvents(PodmError):
    """A pod manager that offers no stream of events."""


class EventService(Resource):
    """EventService, for its stream."""

    enabled = Field("ServiceEnabled", flag, "whether it sends events")
    stream_uri = Field("ServerSentEventUri", text, "where its stream is")


class EventStream:
    """The stream of one pod manager; :meth:`cut` ends it, also for a thread that follows it.

    ``quiet_s`` is how long it may send nothing, not even a comment.
    """

    def __init__(
        self,
        target: ReadTarget,
        timeout_s: float,
        tls: TlsContexts | None = None,
        *,
        quiet_s: float = QUIET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s, self._quiet_s, self._clock = timeout_s, quiet_s, clock
        self._connection = Connection(
            target.registered, target.password, Deadline(timeout_s), tls=tls
        )

    def follow(self, opened: Callable[[], object], hint: Callable[[str], object]) -> None:
        """Call ``opened`` once the stream is open, then ``hint`` for each event about a resource.

        Returns when the pod manager ends the stream. The session is deleted in the end.

        Raises:
            NoEvents: it offers no stream.
            PodmError, InputError: it does not answer, refuses the login, or sends what is no
                stream of events, or more than is bounded.
        """
        try:
            stream = self._open()
            try:
                opened()
                self._read(stream, hint)
            finally:
                stream.close()
        finally:
            self._connection.close()

    def cut(self) -> None:
        """End the stream."""
        self._connection.cut()

    def _open(self) -> AnswerStream:
        connection = self._connection
        stream = connection.open_stream(self._stream_uri(enter_service(connection)))
        kind = stream.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if stream.status == 200 and kind == STREAM_TYPE:
            return stream
        stream.close()
        if 300 <= stream.status < 400:
            raise PodmError("redirects its event stream, which is not followed")
        found = f"HTTP {stream.status}" if stream.status != 200 else (kind or "no content type")
        raise PodmError(f"its event stream: found {found}, expected {STREAM_TYPE}")

    def _stream_uri(self, root: Json | None) -> str:
        connection = self._connection
        entries = current_form(root, root=True) if root is not None else {}
        for link in links(entries.get("EventService")):
            uri = connection.local_path(link) if link else ""
            answer = connection.get(uri) if uri else None
            if answer is None or answer.status != 200:
                continue
            service = EventService(uri, answer.json(uri), NO_NOTES)
            if service.stream_uri and service.enabled is not False:
                return connection.local_path(service.stream_uri)
        raise NoEvents("offers no event stream")

    def _read(self, stream: AnswerStream, hint: Callable[[str], object]) -> None:
        parser = EventParser()
        since, received = self._clock(), 0
        while piece := stream.read(self._quiet_s):
            if self._clock() - since >= MOST_BYTES_S:
                since, received = self._clock(), 0
            received += len(piece)
            if received > MOST_BYTES:
                raise PodmError(f"sends more than {MOST_BYTES} bytes of events in a minute")
            for data in parser.feed(piece):
                if (text_of := hint_of(data)) is not None:
                    hint(text_of)
