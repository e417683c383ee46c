# SPDX-License-Identifier: Apache-2.0
"""How bytes come from one pod manager: no surprises, and a way to end all that is under way.

sushy's Connector sends through this adapter, and what is read by the thousand goes past it over
the same connections. What fails below HTTP becomes an :class:`Unreachable` at once, so that
nothing above sends a request a second time.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectTimeout, SSLError, Timeout
from requests.utils import requote_uri
from urllib3 import BaseHTTPResponse, disable_warnings
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.exceptions import SSLError as PoolSSLError

from valence_sched.errors import PodmError

#: What OpenSSL says around its words, and its words for an answer that is not TLS at all.
_OPENSSL = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")
_NO_TLS = ("wrong version number", "http request", "packet length too long")


class Unreachable(PodmError):
    """A pod manager does not answer: it is down, too slow, or not to be trusted.

    ``again`` is whether a read may be tried again; ``sent`` is whether the request may have
    reached the pod manager, so that a write may have had its effect.
    """

    def __init__(self, text: str, *, again: bool = False, sent: bool = True) -> None:
        super().__init__(text)
        self.again, self.sent = again, sent


class Slow(Unreachable):
    """One answer takes too long; others may still come."""


class Deadline:
    """The moment until which a pod manager must have answered everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """The seconds that are left; 0 or less when it has passed."""
        return self._ends - time.monotonic()

    def passed(self) -> Unreachable:
        """Return the error to raise when it has passed."""
        what = f"no complete answer within {self.seconds:g} s"
        return Unreachable(f"{what} (allow it more with --timeout)")


class Trust:
    """The authorities that are trusted; reading them costs more than a request, so read once."""

    def __init__(self) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def of(self, authorities: str) -> ssl.SSLContext:
        """Return how to verify by a file or folder of authorities."""
        with self._lock:
            if authorities not in self._contexts:
                folder = authorities if os.path.isdir(authorities) else None
                file = None if folder else authorities
                context = ssl.create_default_context(cafile=file, capath=folder)
                self._contexts[authorities] = context
            return self._contexts[authorities]


class Adapter(HTTPAdapter):
    """Keeps connections alive, knows them all, and says plainly what fails."""

    def __init__(self, parallel: int, trust: Trust) -> None:
        self._trust = trust
        self._open: WeakSet[Any] = WeakSet()
        super().__init__(pool_connections=1, pool_maxsize=parallel, max_retries=0)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> HTTPConnectionPool:
        """Return the pool of connections to a host, each of which is remembered."""
        pool = super().get_connection_with_tls_context(*args, **kwargs)
        if "ConnectionCls" not in vars(pool):
            make = type(pool).ConnectionCls

            def remembered(**options: Any) -> Any:
                connection = make(**options)
                self._open.add(connection)
                return connection

            pool.ConnectionCls = remembered  # type: ignore[assignment]
        return pool

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Have connections verify by what is trusted already, instead of reading it each time."""
        super().cert_verify(conn, url, verify, cert)
        authorities = conn.ca_certs or conn.ca_cert_dir if url.startswith("https") else None
        if authorities:
            conn.conn_kw["ssl_context"] = self._trust.of(authorities)
            conn.ca_certs = conn.ca_cert_dir = None

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        """Send one request, once.

        Raises:
            Unreachable: no answer came.
        """
        try:
            return super().send(request, *args, **kwargs)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise unreachable(error) from None

    def pool(self, url: str, verify: bool | str) -> HTTPConnectionPool:
        """Return the connections to a host, which verify as those of sushy do.

        ``verify`` is whether to, or a file of authorities.

        Raises:
            Unreachable: the authorities cannot be read.
        """
        request = requests.PreparedRequest()
        request.url = url
        try:
            pool = self.get_connection_with_tls_context(request, verify)
            self.cert_verify(pool, url, verify, None)
        except OSError as error:
            raise unreachable(error) from None
        if not verify:  # who asked for it knows
            disable_warnings(InsecureRequestWarning)
        return pool

    def cut(self) -> None:
        """End every request that is under way, whoever waits for it."""
        for connection in list(self._open):
            sock = getattr(connection, "sock", None)
            if sock is not None:
                _shut(sock)


def sent(
    pool: HTTPConnectionPool,
    method: str,
    path: str,
    headers: Mapping[str, str],
    timeout_s: float,
    body: bytes | None = None,
) -> BaseHTTPResponse:
    """Send one request, once, and return its answer, whose body is still to be read.

    Raises:
        Unreachable: no answer came.
    """
    try:
        return pool.urlopen(
            method,
            requote_uri(path),
            body=body,
            headers=headers,
            timeout=timeout_s,
            retries=False,
            redirect=False,
            preload_content=False,
        )
    except (HTTPError, OSError, ValueError) as error:
        raise unreachable(error) from None


def body_of(answer: Any, most: int) -> bytes:
    """Return the body, of a longer one one byte too many; a connection with more is closed.

    Raises:
        Unreachable: it does not come whole.
    """
    try:
        body: bytes = answer.read(most + 1, decode_content=True)
        if len(body) > most:
            answer.close()
        else:
            answer.release_conn()
        return body
    except (HTTPError, OSError) as error:
        answer.close()
        raise unreachable(error) from None


def unreachable(error: BaseException) -> Unreachable:
    """Return what an error of the transport means, in a few words."""
    causes = _causes(error)
    if any(isinstance(cause, SSLError | PoolSSLError | ssl.SSLError) for cause in causes):
        said = _OPENSSL.sub("", _plain(causes[-1]))
        hint = "name its authority with --cacert; --insecure reads it unchecked"
        if said in _NO_TLS:
            hint = "does it speak HTTP without TLS there?"
        return Unreachable(f"TLS: {said} ({hint})", sent=False)
    refused = any(isinstance(cause, NewConnectionError) for cause in causes)
    if not refused and any(
        isinstance(cause, ConnectTimeout | ConnectTimeoutError) for cause in causes
    ):
        return Slow("no connection in time (is it up, and the address right?)", sent=False)
    if any(isinstance(cause, Timeout | ReadTimeoutError | TimeoutError) for cause in causes):
        return Slow("no answer in time (allow it more with --timeout)")
    hint = "is it up, and the address right?"
    return Unreachable(f"{_plain(causes[-1])} ({hint})", again=True, sent=not refused)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and all that led to it, the first cause last."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        inner = [getattr(cause, "reason", None), *cause.args]
        wrapped = [item for item in inner if isinstance(item, BaseException)]
        cause = wrapped[-1] if wrapped else cause.__cause__ or cause.__context__
    return found


def _plain(error: BaseException) -> str:
    """Return what an error says; without the objects that some libraries print."""
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    verify = getattr(error, "verify_message", None)
    return str(verify or text.rpartition("object at 0x")[2] or text).lower()


def _shut(sock: Any) -> None:
    with contextlib.suppress(OSError):  # it may be closed by now, which is what is wanted
        sock.shutdown(socket.SHUT_RDWR)
