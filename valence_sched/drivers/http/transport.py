# SPDX-License-Identifier: Apache-2.0
"""Transport: the protocol of sending HTTP requests to one host, and the choice of transports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.answer import Answer
from valence_sched.drivers.http.tls import TlsContexts


class Transport(Protocol):
    """Sends each request once, to one host, and follows nothing. Threads may share it."""

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        timeout_s: float,
        most: int,
        body: Json | None = None,
    ) -> Answer:
        """Send one request, once; of a body of more than ``most`` bytes one byte more is read.

        Raises:
            Unreachable: no answer came, or not all of it.
            InputError: the request cannot be sent.
        """

    def cut(self) -> None:
        """End every request that is under way, also for threads that wait for it."""

    def close(self) -> None:
        """Close the connections."""


class LazyTransport:
    """A transport that is made for its first request: making one may import a large library."""

    def __init__(self, make: Callable[[], Transport]) -> None:
        self._make = make
        self._made: Transport | None = None
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        timeout_s: float,
        most: int,
        body: Json | None = None,
    ) -> Answer:
        """Send one request; errors as for a transport, and those of making it."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made.ask(method, path, headers, timeout_s, most, body)

    def cut(self) -> None:
        """End every request that is under way."""
        if self._made is not None:
            self._made.cut()

    def close(self) -> None:
        """Close the connections, if there are any."""
        if self._made is not None:
            self._made.close()


class Transports(NamedTuple):
    """The transports of one connection, which may be the same one.

    What is sent once for every pod manager of a site (the login, and reads) goes by the standard
    library. Sushy and requests are imported only for what composes, and for a proxy.
    """

    reads: Transport
    writes: Transport


def choose_transports(
    url: str, verify: bool | str, proxies: Mapping[str, str], parallel: int, tls: TlsContexts
) -> Transports:
    """Return the transports to one host.

    ``verify`` is whether to verify the host, or a file of authorities to do it by.
    """

    def sushy() -> Transport:
        from valence_sched.drivers.http.sushy_transport import SushyTransport

        return SushyTransport(url, verify, proxies, parallel, tls)

    def stdlib() -> Transport:
        from valence_sched.drivers.http.stdlib_transport import StdlibTransport

        return StdlibTransport(url, verify, tls)

    writes = LazyTransport(sushy)
    return Transports(writes if proxies else LazyTransport(stdlib), writes)
