# SPDX-License-Identifier: Apache-2.0
"""Serves the application with gunicorn: in a worker, a loop holds connections and threads answer.

A thread gets a request once its last byte has arrived, and the loop sends the answer. So a slow
client occupies a connection and its buffers, but no thread. The worker limits the number of
connections and the bytes in their buffers. Above a limit, it closes connections of the host that
has the most, those first that have waited longest.
"""

import asyncio
import contextlib
import enum
import errno
import functools
import io
import logging
import os
import resource
import ssl
import sys
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from gunicorn import sock, util  # type: ignore[import-untyped]
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.asgi import parser  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from gunicorn.http import wsgi  # type: ignore[import-untyped]
from gunicorn.workers.base import Worker  # type: ignore[import-untyped]
from prometheus_client import multiprocess

from valence_sched.errors import SchedulerError, UsageError
from valence_sched.model.http import MEDIA_TYPE, http_problem
from valence_sched.model.inventory import to_json
from valence_sched.model.redact import redact_text
from valence_sched.server.process import configure_logs, without_own_folder
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.app import count_failure
from valence_sched.service.settings import Limits, ServiceSettings, is_loopback

MOST_CONNECTIONS = 8192  # open connections of a worker, at most half of its file descriptors
MOST_DESCRIPTORS = 65536  # file descriptors that a worker requests from the system
MOST_HELD_BYTES = 128 << 20  # received and unsent bytes of all connections
SHARE_BYTES = MOST_HELD_BYTES // MOST_CONNECTIONS  # bytes that a connection may always hold
READ_BYTES = 16 << 10  # bytes read from a connection at a time: parsing delays the others
MOST_HEAD_BYTES = 32 << 10
FRAMING = 8  # most received bytes per byte of a body
SMALL_PARTS, PART_BYTES = 1000, 64  # after this many chunks their average size must be this
MOST_DISCARDED_BYTES = 1 << 20  # bytes that are read and dropped after the last answer
ACCEPTED_AT_ONCE = 16
PROBE_THREADS = 2  # threads for health checks
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
EXHAUSTED_S = 0.05  # pause before connections are accepted again
LINGER_S = 2.0  # time for a client to read its last answer and close
FLUSH_S = (0.005, 0.25)  # shortest and longest interval between checks that an answer is sent
TICK_S, END_TICK_S = 1.0, 0.05
SWITCH_S = 0.0005  # Python's thread switch interval: the wait of a thread after a system call
CODINGS = {b"chunked", b"identity"}
STATUSES = {
    parser.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
    parser.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    parser.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
}

Phase = enum.Enum("Phase", "ARRIVING ANSWERING SENDING LINGERING")


class WsgiRequest(parser.CallbackRequest):  # type: ignore[misc]
    """A parsed request, as gunicorn answers it over WSGI."""

    _expected_100_continue = False  # the connection itself has sent 100 Continue
    body: io.BytesIO


class ClientConnection(asyncio.BufferedProtocol):
    """One connection. It waits for its client from ``since`` until ``deadline``."""

    def __init__(self, worker: "ServiceWorker") -> None:
        self._worker, cfg = worker, worker.cfg
        self._transports: list[Any] = []  # the transport of the socket, and of TLS over it
        self._early = bytearray()
        self.client: Any = None
        self.host = "-"
        self.phase = Phase.ARRIVING
        self.since = self.deadline = 0.0
        self.held_bytes = self._arrived_bytes = self._discarded_bytes = 0
        self._request: WsgiRequest | None = None
        self._body, self._body_bytes, self._parts = bytearray(), 0, 0
        self._parser = parser.PythonProtocol(
            on_headers_complete=self._take_head,
            on_body=self._take_body,
            limit_request_line=cfg.limit_request_line,
            limit_request_fields=cfg.limit_request_fields,
            limit_request_field_size=cfg.limit_request_field_size,
        )

    @property
    def _transport(self) -> Any:
        return self._transports[-1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(transport)
        self.client = transport.get_extra_info("peername")
        self.host = self.client[0] if isinstance(self.client, tuple) else "-"
        self._wait(Phase.ARRIVING, self._worker.read_s)
        self._worker.admit(self)
        if self._worker.tls is not None:
            self._transport.pause_reading()
            self._worker.keep(self._shake_hands(self._worker.tls))

    async def _shake_hands(self, tls: ssl.SSLContext) -> None:
        try:
            start_tls, patience_s = self._worker.loop.start_tls, self._worker.read_s
            secured = await start_tls(
                self._transport, self, tls, server_side=True, ssl_handshake_timeout=patience_s
            )
        except OSError:  # also for TLS errors and timeouts
            self._worker.forget(self)
        else:
            if secured is not None and self in self._worker.open:
                self._transports.append(secured)
                self._take(bytes(self._early))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._worker.arrivals

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._worker.arrivals[:nbytes])
        if self.phase is Phase.LINGERING:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > MOST_DISCARDED_BYTES:
                self.abort()
        elif self._worker.tls is not None and len(self._transports) == 1:
            self._early += data  # a request may start in the last bytes of a TLS handshake
        elif self.phase is Phase.ARRIVING:
            self._take(data)

    def release(self) -> None:
        """Free references now that the cycle collector would free late."""
        self._body, self._request, self._parser = bytearray(), None, parser.PythonProtocol()

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.forget(self)

    def abort(self) -> None:
        self._worker.forget(self)
        self._transports[0].abort()

    def end_soon(self) -> None:
        """Shorten the deadline of an incomplete request, because the worker ends."""
        if self.phase is Phase.ARRIVING:
            self.deadline = min(self.deadline, self._worker.loop.time() + LINGER_S)

    def _wait(self, phase: Phase, seconds: float) -> None:
        self.phase, self.since = phase, self._worker.loop.time()
        self.deadline = self.since + seconds

    def _hold(self, held_bytes: int) -> None:
        self._worker.held_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes
        self._worker.limit_held()

    def _take(self, data: bytes) -> None:
        if data and not self._arrived_bytes:
            self._wait(Phase.ARRIVING, self._worker.read_s)
        self._arrived_bytes += len(data)
        try:
            self._parser.feed(data)
        except (parser.ParseError, ValueError) as error:
            return self._refuse(STATUSES.get(type(error), HTTPStatus.BAD_REQUEST))
        most = self._worker.most_body_bytes
        if self._request is None and self._arrived_bytes > MOST_HEAD_BYTES:
            return self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._request and (self._parser.is_complete or self._is_too_large(self._request)):
            return self._submit(self._request)
        if self._arrived_bytes > FRAMING * (most + MOST_HEAD_BYTES):
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return self._hold(self._arrived_bytes)

    def _take_head(self) -> bool:
        self._request = request = WsgiRequest.from_parser(
            self._parser, self._worker.tls is not None
        )
        codings = [value for name, value in request.headers_bytes if name == b"transfer-encoding"]
        if {one.strip().lower() for value in codings for one in value.split(b",")} - CODINGS:
            raise parser.UnsupportedTransferCoding
        request.path = util.split_request_uri(request.uri).path or ""
        # WSGI gives the headers "X_Y" and "X-Y" the same name
        request.headers_bytes = [one for one in request.headers_bytes if b"_" not in one[0]]
        if request._expect_100_continue and not self._is_too_large(request):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return False

    def _take_body(self, data: bytes) -> None:
        if self._body_bytes <= self._worker.most_body_bytes:  # a larger body is refused anyway
            self._body += data
        self._body_bytes += len(data)
        self._parts += self._parser.is_chunked
        if self._parts > SMALL_PARTS and self._body_bytes < PART_BYTES * self._parts:
            raise parser.ParseError("the chunks are too small")

    def _is_too_large(self, request: WsgiRequest) -> bool:
        return bool(max(request.content_length, self._body_bytes) > self._worker.most_body_bytes)

    def _submit(self, request: WsgiRequest) -> None:
        self._transport.pause_reading()
        self._wait(Phase.ANSWERING, float("inf"))
        request.body, self._body = io.BytesIO(self._body), bytearray()
        request.must_close |= not self._parser.is_complete or not self._worker.alive
        server = self._transport.get_extra_info("sockname")
        work = functools.partial(self._worker.answer, request, self.client, server)
        is_probe = request.path.startswith("/healthcheck")  # probes have their own threads
        threads = self._worker.probes if is_probe else self._worker.threads
        answer = self._worker.loop.run_in_executor(threads, work)
        answer.add_done_callback(self._send)

    def _send(self, answer: asyncio.Future[tuple[list[bytes], bool]]) -> None:
        if self not in self._worker.open or answer.cancelled():
            return
        parts, closes = answer.result()
        for part in parts:
            self._transport.write(part)
        self._wait(Phase.SENDING, self._worker.read_s)
        self._hold(sum(map(len, parts)))
        self._flush(closes, FLUSH_S[0])

    def _flush(self, closes: bool, pause_s: float) -> None:
        """Continue with the connection if the answer is sent; otherwise check again later."""
        if self not in self._worker.open:
            return
        unsent = sum(one.get_write_buffer_size() for one in self._transports)
        if unsent:
            if unsent < self.held_bytes:
                self._wait(Phase.SENDING, self._worker.read_s)
                self._hold(unsent)
            longer = min(2 * pause_s, FLUSH_S[1])
            self._worker.loop.call_later(pause_s, self._flush, closes, longer)
        elif closes:
            self._linger()
        else:
            self._begin_next()

    def _begin_next(self) -> None:
        followed = self._parser.remaining()
        self._parser.reset()
        self._request, self._arrived_bytes, self._body_bytes, self._parts = None, 0, 0, 0
        self._hold(0)
        self._wait(Phase.ARRIVING, self._worker.cfg.keepalive)
        if not self._worker.alive:
            self.end_soon()
        self._take(followed)
        if self.phase is Phase.ARRIVING:
            self._transport.resume_reading()

    def _refuse(self, status: HTTPStatus) -> None:
        self._worker.threads.submit(self._worker.app.count_failure, self.host)
        body = to_json(http_problem(status, status.phrase, status.phrase, "-"))
        head = f"HTTP/1.1 {status} {status.phrase}\r\nConnection: close\r\n"
        head += f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        self._linger()

    def _linger(self) -> None:
        """End sending, and drop received bytes until the client closes: a reset loses answers."""
        self._hold(0)
        self._wait(Phase.LINGERING, LINGER_S)
        if self._worker.alive and self._transport.can_write_eof():
            try:
                self._transport.write_eof()
            except OSError:  # the client reset the connection
                self.abort()
            else:
                self._transport.resume_reading()
        else:
            self._transport.close()


class ServiceWorker(Worker):  # type: ignore[misc]
    """Serves the application from one loop and a number of ``threads``."""

    loop: asyncio.AbstractEventLoop
    alive: bool

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        limits: Limits = self.app.limits
        self.read_s, self.most_body_bytes = limits.read_s, limits.body_bytes
        self.threads = ThreadPoolExecutor(self.cfg.threads)
        self.probes = ThreadPoolExecutor(PROBE_THREADS)
        self.tls: ssl.SSLContext | None = None
        self.open: dict[ClientConnection, None] = {}
        self.held_bytes, self.arrivals = 0, memoryview(bytearray(READ_BYTES))
        self._of_host: Counter[str] = Counter()
        self._most_connections = MOST_CONNECTIONS
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = asyncio.Event()

    def run(self) -> None:
        self.tls = sock.ssl_context(self.cfg) if self.cfg.is_ssl else None
        self._most_connections = min(MOST_CONNECTIONS, _raise_descriptors() // 2)
        sys.setswitchinterval(SWITCH_S)
        sslproto.SSLProtocol.max_size = READ_BYTES  # each connection has a buffer of that size
        asyncio.run(self._serve())
        for threads in (self.threads, self.probes):
            threads.shutdown(wait=False, cancel_futures=True)

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        if hasattr(self, "loop"):
            self.loop.call_soon_threadsafe(self._ending.set)

    def answer(self, request: WsgiRequest, client: Any, server: Any) -> tuple[list[bytes], bool]:
        """Return the bytes that answer a request, and whether the connection closes after them."""
        parts: list[bytes] = []
        try:
            output = SimpleNamespace(sendall=parts.append)
            response, environ = wsgi.create(request, output, client, server, self.cfg)
            environ["wsgi.multithread"] = True
            for part in self.wsgi(environ, response.start_response):
                response.write(part)
            response.close()
            return parts, response.should_close()
        except Exception:
            self.log.exception("Error handling request")
            words = "HTTP/1.1 500 Internal Server Error", "Connection: close", "Content-Length: 0"
            return ["\r\n".join((*words, "", "")).encode()], True

    def keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task of the loop and keep a reference: without one, the task is collected."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def admit(self, connection: ClientConnection) -> None:
        self.open[connection] = None
        self._of_host[connection.host] += 1
        self._limit_connections()

    def forget(self, connection: ClientConnection) -> None:
        """Forget a closed connection; a second call does nothing."""
        if connection in self.open:
            del self.open[connection]
            connection.release()
            self.held_bytes -= connection.held_bytes
            self._of_host[connection.host] -= 1
            if not self._of_host[connection.host]:
                del self._of_host[connection.host]

    def limit_held(self) -> None:
        """Close connections above their share while all connections hold too many bytes."""
        if self.held_bytes > MOST_HELD_BYTES:
            self._drop_until(lambda: self.held_bytes <= MOST_HELD_BYTES * 7 // 8, SHARE_BYTES)

    def _limit_connections(self) -> None:
        if len(self.open) > self._most_connections:  # sorting is slow, so several are closed
            self._drop_until(lambda: len(self.open) <= self._most_connections * 15 // 16)

    def _drop_until(self, enough: Callable[[], bool], share_bytes: int = -1) -> None:
        waiting = (one for one in self.open if one.phase is not Phase.ANSWERING)
        holding = [one for one in waiting if one.held_bytes > share_bytes]
        for one in sorted(holding, key=lambda one: (-self._of_host[one.host], one.since)):
            if enough():
                return
            one.abort()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(
            lambda _loop, met: self.log.error("%s", met["message"], exc_info=met.get("exception"))
        )
        for listener in self.sockets:
            listener.setblocking(False)
        self._listen()
        while self.alive and self.ppid == os.getppid():
            self._tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)
        self.alive = False
        for listener in self.sockets:
            self.loop.remove_reader(listener)
            listener.close()
        for one in list(self.open):
            one.end_soon()
        until = self.loop.time() + self.cfg.graceful_timeout
        while self.open and self.loop.time() < until:
            self._tick()
            await asyncio.sleep(END_TICK_S)

    def _tick(self) -> None:
        self.notify()
        now = self.loop.time()
        for one in [one for one in self.open if now >= one.deadline]:
            one.abort()

    def _listen(self) -> None:
        if self.alive:
            for listener in self.sockets:
                self.loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: Any) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return None
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self.loop.remove_reader(listener)
                self.loop.call_later(EXHAUSTED_S, self._listen)
                self.log.warning("out of file descriptors: closing waiting connections")
                self._most_connections = len(self.open) * 7 // 8
                return self._limit_connections()
            client.setblocking(False)
            self.keep(self.loop.connect_accepted_socket(lambda: ClientConnection(self), client))
        return None


def _raise_descriptors() -> int:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (MOST_DESCRIPTORS if one == resource.RLIM_INFINITY else one for one in limits)
    wanted = min(hard, MOST_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


LOG = logging.getLogger("valence_sched.server")

HEAD_BYTES = 8190  # most bytes of a header line of a request


class JsonLogger(Logger):  # type: ignore[misc]
    """Sends gunicorn's log to the log of the service."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        configure_logs()


class GunicornServer(BaseApplication):  # type: ignore[misc]
    """Gunicorn with the settings of the service; SIGHUP calls ``read`` to read them again."""

    def __init__(self, settings: ServiceSettings, read: Callable[[], ServiceSettings]) -> None:
        self._settings, self._read = settings, read
        self._process: ServiceProcess | None = None
        super().__init__()

    @property
    def limits(self) -> Limits:
        return self._settings.limits

    def load_config(self) -> None:
        """Set the options of gunicorn; its own configuration files and variables are ignored."""
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        for name, value in {
            "bind": f"{host}:{settings.port}",
            "workers": settings.workers,
            "worker_class": ServiceWorker,
            "threads": settings.threads,
            "timeout": max(60, 2 * settings.stop_s + 10),  # a worker that ends has no heartbeat
            "graceful_timeout": settings.stop_s,
            "keepalive": 5,
            "limit_request_line": HEAD_BYTES,
            "limit_request_field_size": HEAD_BYTES,
            "certfile": settings.certificate,
            "keyfile": settings.private_key,
            "proc_name": "valence-scheduler",
            "logger_class": JsonLogger,
            "control_socket_disable": True,
            "when_ready": lambda arbiter: self._check_listeners(arbiter.LISTENERS),
            "pre_exec": lambda arbiter: without_own_folder(arbiter.cfg.env_orig),
            "worker_exit": lambda _server, _worker: self._finish(),
            "child_exit": lambda _server, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
        }.items():
            if name in self.cfg.settings:  # old versions of gunicorn lack some options
                self.cfg.set(name, value)

    def reload(self) -> None:
        try:
            self._settings = self._read()
        except SchedulerError as error:
            LOG.error("invalid settings are not loaded: %s", redact_text(str(error)))
        super().reload()

    def load(self) -> Any:
        """Return the application of a worker; it is made in the worker."""
        self._process = ServiceProcess(self._settings, time.monotonic)
        self._process.start()
        return self._process.application

    def count_failure(self, host: str) -> None:
        if self._process is not None:
            count_failure(self._process.parts.rates, host)

    def _check_listeners(self, listeners: Sequence[Any]) -> None:
        """Refuse inherited sockets that other machines can reach without authentication."""
        if self._settings.auth != "none":
            return
        addresses = [listener.sock.getsockname() for listener in listeners]
        for host, port, *_ in (one for one in addresses if isinstance(one, tuple)):
            if not is_loopback(host):
                text = f"the socket {host}:{port} is reachable from other machines without"
                hint = "set auth to basic, or make the socket listen on 127.0.0.1"
                raise UsageError(f"{text} authentication: {hint}")

    def _finish(self) -> None:
        if self._process is not None:
            self._process.stop(self._settings.stop_s)
