# SPDX-License-Identifier: Apache-2.0
"""One HTTP response: its status, its headers and its body, read from a socket as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from valence_sched.drivers.http.exchange import MalformedBody

#: Bytes that are received at once.
_RECEIVE_BYTES = 1 << 16
#: Headers of a response, trailers included, and bytes that may come on end without a body.
MAX_HEADERS, MAX_HEAD_BYTES = 100, 1 << 18
_START = b"HTTP/"
#: Statuses of responses without a body, and of those before the one that answers.
_BODILESS, _INTERIM = (204, 304), range(100, 200)


class Headers(Mapping[str, str]):
    """Headers by name, in whatever case; of several with one name, the first."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def add(self, name: bytes, value: bytes) -> None:
        text = value.decode("latin-1").strip(" \t")
        self._values.setdefault(name.decode("latin-1").lower(), text)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Response:
    """The response to one request; its head was read when it is made, its body comes by reading.

    ``receive`` returns at most so many bytes, none at the end of the connection. A response that
    ``is_reusable`` leaves its connection free for another request. Making it, and each read,
    raises an HTTPException of a response that is none, a MalformedBody of one with a head, and what
    ``receive`` raises.

    Interim responses (1xx) are skipped. Old servers fold headers, end lines without a carriage
    return and pad the sizes of chunks, which is accepted.
    """

    def __init__(self, receive: Callable[[int], bytes], method: str) -> None:
        self.status, self.headers = 0, Headers()
        self.is_complete = self.is_reusable = False
        self._receive, self._is_head = receive, method == "HEAD"
        self._has_head = self._ends_by_close = False
        self._pieces: list[bytes] = []
        self._size = self._unfruitful = self._lines = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_chunked_length=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._parse(self._first_bytes())
        while not self._has_head:
            self._advance()
        if self.status < _INTERIM.start:
            raise BadStatusLine(str(self.status))

    def read(self, most: int) -> bytes:
        """Return the body; of a body of more than ``most`` bytes one byte more, and then no more.

        It is read once.
        """
        while not self.is_complete and self._size <= most:
            self._advance()
        self._parser = None  # it refers back: without it the memory is free at once
        pieces, self._pieces = self._pieces, []
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return body if len(body) <= most else body[: most + 1]

    def read_piece(self) -> bytes:
        """Return the next bytes of the body as they come, empty at its end."""
        while not self._pieces and not self.is_complete:
            self._advance()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, from the parser."""
        self._lines += 1
        if not self._has_head:
            self.headers.add(name, value)

    def on_headers_complete(self) -> None:
        """Take the end of a head from the parser."""
        if self._parser is None or self.is_complete:
            return
        self.status = status = self._parser.get_status_code()
        if status in _INTERIM:
            self.headers = Headers()
            return
        self._has_head = True
        if self._is_head:
            self._complete()
        elif status not in _BODILESS:
            coding = self.headers.get("Transfer-Encoding")
            has_length = "Content-Length" in self.headers
            has_end = has_length if coding is None else "chunked" in coding.lower()
            self._ends_by_close = not has_end

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body from the parser."""
        if not self.is_complete:
            self._pieces.append(piece)
            self._size += len(piece)

    def on_message_complete(self) -> None:
        """Take the end of a response from the parser."""
        if self._has_head and not self.is_complete:
            self._complete()

    def on_message_begin(self) -> None:
        """Take the start of a response from the parser; after the end none is due."""
        if self.is_complete:
            self.is_reusable = False

    def _complete(self) -> None:
        self.is_complete = True
        self.is_reusable = self._parser is not None and self._parser.should_keep_alive()

    def _first_bytes(self) -> bytes:
        """Return the first bytes, which tell whether it is HTTP."""
        first = b""
        while len(first) < len(_START) and _START.startswith(first):
            if not (more := self._receive(_RECEIVE_BYTES)):
                break
            first += more
        if not first:
            raise RemoteDisconnected("Remote end closed connection without response")
        if not first.startswith(_START):
            raise BadStatusLine(first[:100].decode("latin-1").partition("\n")[0])
        return first

    def _advance(self) -> None:
        if data := self._receive(_RECEIVE_BYTES):
            self._parse(data)
        elif self._has_head and self._ends_by_close:
            self.is_complete = True
        else:
            raise IncompleteRead(b"".join(self._pieces))

    def _parse(self, data: bytes) -> None:
        parser, before = self._parser, self._size
        assert parser is not None, "the body is read once"
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            raise HTTPException("another protocol, which was not requested") from None
        except HttpParserError as error:
            if not self.is_complete:
                raise self._malformed(str(error)) from None
            self.is_reusable = False  # what follows the response is none of ours
        if self.is_complete:
            return
        self._unfruitful = 0 if self._size > before else self._unfruitful + len(data)
        if self._unfruitful > MAX_HEAD_BYTES:
            raise self._malformed(f"more than {MAX_HEAD_BYTES} bytes without a body")
        if self._lines > MAX_HEADERS:
            raise self._malformed(f"more than {MAX_HEADERS} headers")

    def _malformed(self, text: str) -> HTTPException:
        return MalformedBody(text) if self._has_head else HTTPException(text)
