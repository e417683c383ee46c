# SPDX-License-Identifier: Apache-2.0
"""Transport: the protocol of sending HTTP requests to one host; its URL, proxies and transports."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from valence_sched.drivers.http.exchange import Answer, PodmRequest
from valence_sched.drivers.http.tls import TlsContexts
from valence_sched.drivers.links import ROOT
from valence_sched.errors import PodmError
from valence_sched.model.registration import Registration
from valence_sched.model.tls import ClientCertificate


class Transport(Protocol):
    """Sends each request once, to one host, and follows nothing. Threads may share it."""

    def ask(self, request: PodmRequest) -> Answer:
        """Send one request, once.

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

    def ask(self, request: PodmRequest) -> Answer:
        """Send one request; errors as for a transport, and those of making it."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made.ask(request)

    def cut(self) -> None:
        if self._made is not None:
            self._made.cut()

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


class Transports(NamedTuple):
    """The transports of one connection, which may be the same one.

    What is sent once for every pod manager of a site (the login, and reads) goes over sockets of
    the standard library. Sushy and requests are imported only for what composes, and for a proxy.
    """

    reads: Transport
    writes: Transport


def choose_transports(
    url: str,
    verify: bool | str,
    proxies: Mapping[str, str],
    parallel: int,
    tls: TlsContexts,
    certificate: ClientCertificate | None = None,
) -> Transports:
    """Return the transports to one host, which ``verify`` is to verify, or by what authorities.

    The host is presented the ``certificate``.
    """

    def sushy() -> Transport:
        from valence_sched.drivers.http.sushy_transport import SushyTransport

        return SushyTransport(url, verify, proxies, parallel, tls, certificate)

    def stdlib() -> Transport:
        from valence_sched.drivers.http.stdlib_transport import StdlibTransport

        return StdlibTransport(url, verify, tls, certificate)

    writes = LazyTransport(sushy)
    return Transports(writes if proxies else LazyTransport(stdlib), writes)


def base_url(registration: Registration) -> str:
    """Return scheme, host and port of a pod manager; raises PodmError when its URL is none."""
    try:
        parts = urlsplit(registration.url)
        port = parts.port
    except ValueError as error:
        raise PodmError(f"{error} (expected https://host or https://host:port)") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise PodmError("found no such URL, expected https://host or https://host:port")
    if parts.path.rstrip("/") not in ("", "/redfish", ROOT):
        found = f"found the path {parts.path[:80]!r} in its URL"
        raise PodmError(f"{found}, expected https://host or https://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def proxies_to(url: str) -> dict[str, str]:
    """Return the proxies on the way to a URL; most sites have none, and need no library to know."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform not in ("darwin", "win32"):
        return {}
    from requests.utils import get_environ_proxies, select_proxy

    proxies: dict[str, str] = get_environ_proxies(url)
    return proxies if select_proxy(url, proxies) else {}
