# SPDX-License-Identifier: Apache-2.0
"""HTTP transport over sockets of the standard library: fast enough for hundreds of pod managers."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import select
import selectors
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from urllib.parse import urlsplit

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from valence_sched.drivers.http import exchange
from valence_sched.model.http import ClientCertificate, plain_text

_RECEIVE_BYTES = 1 << 16
#: The most headers and trailers of a response, and the most consecutive bytes without a body.
MAX_HEADERS, MAX_HEAD_BYTES = 100, 1 << 18
_START = b"HTTP/"
#: Statuses without a body, and statuses of interim responses.
_BODILESS, _INTERIM = (204, 304), range(100, 200)
LOG = logging.getLogger(__name__)
#: A path that can be sent as it is.
_PLAIN = re.compile(r"[A-Za-z0-9!#$&'()*+,/:;=?@\[\]~._-]*")
_PORTS = {"https": 443, "http": 80}
#: Encodings that are supported although not requested, and the zlib mode to detect them.
_PACKED, _GZIP_OR_ZLIB = ("gzip", "x-gzip", "deflate"), 47
BAD_REQUEST = 400


class Headers(Mapping[str, str]):
    """Headers by name, case-insensitive; of several with the same name, the first."""

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
    """The response to one request: its constructor reads the head, ``read`` the body.

    ``receive`` returns the next bytes, empty at the end of the connection. After an ``is_reusable``
    response the connection can serve another request. The constructor and ``read`` raise
    HTTPException for a malformed head, MalformedBody for a malformed body, and the errors of
    ``receive``. The parser calls the methods ``on_…``. Interim responses (1xx) are skipped. Folded
    headers, lines without a carriage return and padded chunk sizes of old servers are accepted.
    """

    def __init__(self, receive: Callable[[int], bytes], method: str) -> None:
        self.status, self.headers = 0, Headers()
        self.is_complete = self.is_reusable = False
        self._receive, self._is_head = receive, method == "HEAD"
        self._has_head = self._ends_by_close = False
        self._pieces: list[bytes] = []
        self._size = self._unfruitful = self._lines = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        names = ("headers", "chunked_length", "optional_cr_before_lf", "spaces_after_chunk_size")
        self._parser.set_dangerous_leniencies(**{f"lenient_{name}": True for name in names})
        first = b""
        while len(first) < len(_START) and _START.startswith(first):
            if not (more := receive(_RECEIVE_BYTES)):
                break
            first += more
        if not first:
            raise RemoteDisconnected("Remote end closed connection without response")
        if not first.startswith(_START):
            raise BadStatusLine(first[:100].decode("latin-1").partition("\n")[0])
        self._parse(first)
        while not self._has_head:
            self._advance()
        if self.status < _INTERIM.start:
            raise BadStatusLine(str(self.status))

    def read(self, most: int) -> bytes:
        """Return the body, once, up to one byte more than ``most``."""
        while not self.is_complete and self._size <= most:
            self._advance()
        self._parser = None  # breaks a reference cycle, which frees the memory immediately
        pieces, self._pieces = self._pieces, []
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces))[: most + 1]

    def read_piece(self) -> bytes:
        """Return the next bytes of the body as they arrive, empty at its end."""
        while not self._pieces and not self.is_complete:
            self._advance()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += 1
        if not self._has_head:
            self.headers.add(name, value)

    def on_headers_complete(self) -> None:
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
        if not self.is_complete:
            self._pieces.append(piece)
            self._size += len(piece)

    def on_message_complete(self) -> None:
        if self._has_head and not self.is_complete:
            self._complete()

    def on_message_begin(self) -> None:
        if self.is_complete:  # a second response without a request
            self.is_reusable = False

    def _complete(self) -> None:
        self.is_complete = True
        self.is_reusable = self._parser is not None and self._parser.should_keep_alive()

    def _advance(self) -> None:
        if data := self._receive(_RECEIVE_BYTES):
            self._parse(data)
        elif self._has_head and self._ends_by_close:
            self.is_complete = True
        else:
            raise IncompleteRead(b"".join(self._pieces))

    def _parse(self, data: bytes) -> None:
        parser, before = self._parser, self._size
        assert parser is not None, "the body can be read only once"
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            raise HTTPException("an upgrade that was not requested") from None
        except HttpParserError as error:
            if not self.is_complete:
                raise self._malformed(str(error)) from None
            self.is_reusable = False  # more bytes follow the response
        if self.is_complete:
            return
        self._unfruitful = 0 if self._size > before else self._unfruitful + len(data)
        if self._unfruitful > MAX_HEAD_BYTES:
            raise self._malformed(f"more than {MAX_HEAD_BYTES} bytes without a body")
        if self._lines > MAX_HEADERS:
            raise self._malformed(f"more than {MAX_HEADERS} headers")

    def _malformed(self, text: str) -> HTTPException:
        return exchange.MalformedBody(text) if self._has_head else HTTPException(text)


class StdlibTransport:
    """The connections to one host, one per concurrent request; thread-safe."""

    def __init__(
        self,
        url: str,
        verify: bool | str,
        trust: exchange.TlsContexts,
        certificate: ClientCertificate | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host, usual = parts.hostname or "", _PORTS.get(parts.scheme, 0)
        self._port = parts.port or usual
        shown = self._host
        with contextlib.suppress(UnicodeError):  # such a host has no address
            shown = f"[{shown}]" if ":" in shown else shown.encode("idna").decode()
        self._host_header = shown if self._port == usual else f"{shown}:{self._port}"
        try:
            is_secure = parts.scheme == "https"
            self._context = trust.for_verify(verify, certificate) if is_secure else None
        except OSError as error:
            raise exchange.unreachable_error(error) from None
        self._is_untried = True  # no answer yet, and not cut
        self._idle: list[socket.socket] = []
        self._open: set[socket.socket] = set()

    def ask(self, request: exchange.PodmRequest) -> exchange.Answer:
        request.check_headers()
        idle = self._idle
        sock = self._take_idle(request.timeout_s) or self._connect(request.timeout_s)
        try:
            sock.sendall(self._encode(request))
            response = Response(sock.recv, request.method)
            body = _decompress(response, response.read(request.most), request.most)
        except (HTTPException, OSError, ValueError, zlib.error) as error:
            self._drop(sock)
            raise self._failure(error, request.timeout_s) from None
        if response.status == BAD_REQUEST and self._lacks_tls(request.timeout_s):
            self._drop(sock)
            raise exchange.plain_http_error(f"HTTP {BAD_REQUEST}")
        self._is_untried = False
        if response.is_reusable and idle is self._idle:
            idle.append(sock)
        else:
            self._drop(sock)
        method, path, status = request.method, request.path, response.status
        LOG.debug('%s "%s %s HTTP/1.1" %d, %d bytes', self._url, method, path, status, len(body))
        return exchange.Answer(status, response.headers, body)

    def open_stream(self, request: exchange.PodmRequest) -> AnswerStream:
        request.check_headers()
        sock = self._connect(request.timeout_s)
        # Probes end an idle connection to a lost peer within minutes.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        try:
            sock.sendall(self._encode(request))
            response = Response(sock.recv, request.method)
        except (HTTPException, OSError, ValueError) as error:
            self._drop(sock)
            raise exchange.unreachable_error(error) from None
        return AnswerStream(response, sock, functools.partial(self._drop, sock))

    def cut(self) -> None:
        idle, self._idle, self._is_untried = self._idle, [], False
        # List all connections first: a thread that wakes up may open another one.
        for sock in list(self._open):
            exchange.shut(sock)
        for sock in idle:
            self._drop(sock)

    def close(self) -> None:
        while self._idle:
            self._drop(self._idle.pop())

    def _encode(self, request: exchange.PodmRequest) -> bytes:
        method, path, headers, _, _, body = request
        data = b"" if body is None else msgspec.json.encode(body)
        if not _PLAIN.fullmatch(path):
            from requests.utils import requote_uri  # requests is slow to import

            path = requote_uri(path)
        lines = [f"{method} {path or '/'} HTTP/1.1", f"Host: {self._host_header}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if data or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(data)}")
        return "\r\n".join((*lines, "", "")).encode("latin-1") + data

    def _failure(self, error: BaseException, timeout_s: float) -> exchange.Unreachable:
        if not isinstance(error, ConnectionError | ssl.SSLEOFError) or not self._is_untried:
            return exchange.unreachable_error(error)
        if self._lacks_tls(timeout_s):
            return exchange.plain_http_error("no answer")
        address, context = (self._host, self._port), self._context
        alert = exchange.late_alert(address, context, timeout_s) if context else None
        return exchange.unreachable_error(error) if alert is None else exchange.tls_error(alert)

    def _lacks_tls(self, timeout_s: float) -> bool:
        """Return whether the port requires TLS: servers may just close, or answer HTTP 400."""
        if self._context is not None or not self._is_untried:
            return False
        context = exchange.TlsContexts().for_verify(False)  # the probe sends no data
        address, most_s = (self._host, self._port), min(timeout_s, exchange.PROBE_S)
        try:
            with socket.create_connection(address, most_s) as sock:
                context.wrap_socket(sock, server_hostname=self._host).close()
        except ssl.SSLError as error:
            return "alert" in plain_text(error)
        except (OSError, ValueError):
            return False
        return True

    def _take_idle(self, timeout_s: float) -> socket.socket | None:
        while self._idle:
            try:
                sock = self._idle.pop()
            except IndexError:  # another thread uses it
                break
            if not _is_readable(sock):
                sock.settimeout(timeout_s)
                return sock
            self._drop(sock)  # no answer is due: readable means that the peer has closed it
        return None

    def _connect(self, timeout_s: float) -> socket.socket:
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection((self._host, self._port), timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_hostname=self._host)
        except (OSError, ValueError) as error:
            if sock is not None:
                sock.close()
            raise exchange.unreachable_error(error, connected=sock is not None) from None
        self._open.add(sock)
        return sock

    def _drop(self, sock: socket.socket) -> None:
        self._open.discard(sock)
        sock.close()


class AnswerStream:
    """An answer whose body is read as it arrives; closing it wakes waiting threads."""

    def __init__(self, response: Response, sock: socket.socket, drop: Callable[[], None]) -> None:
        self._response, self._socket, self._drop = response, sock, drop
        self.status, self.headers = response.status, response.headers

    def read(self, quiet_s: float) -> bytes:
        """Return the arrived bytes, empty at the end; Unreachable after ``quiet_s``."""
        try:
            self._socket.settimeout(quiet_s)
            return self._response.read_piece()
        except (HTTPException, OSError) as error:
            raise exchange.unreachable_error(error) from None

    def close(self) -> None:
        exchange.shut(self._socket)
        self._drop()


def _is_readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):  # cheaper than a selector
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _decompress(response: Response, content: bytes, most: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return content
    if encoding not in _PACKED:
        raise exchange.unsupported_encoding(encoding)
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(content, most + 1)
    except zlib.error:
        if encoding == "deflate":
            with contextlib.suppress(zlib.error):
                if zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, 1):
                    raise exchange.unsupported_encoding("deflate without a zlib header") from None
        raise
