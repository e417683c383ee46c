# SPDX-License-Identifier: Apache-2.0
"""HTTP transport through sushy's Connector: writes, and requests through a proxy."""

import functools
import ssl
from collections.abc import Callable, Mapping
from http.client import IncompleteRead
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ProxyError
from sushy.connector import Connector  # type: ignore[import-untyped]
from sushy.exceptions import SushyError  # type: ignore[import-untyped]
from urllib3 import exceptions as pool_errors
from urllib3.connectionpool import HTTPConnectionPool

from valence_sched.drivers.http import exchange
from valence_sched.drivers.http.exchange import Answer, MalformedBody, PodmRequest, Unreachable
from valence_sched.errors import InputError
from valence_sched.model.http import ClientCertificate, plain_text

#: Supported encodings of a body; only identity is requested.
SUPPORTED_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")


class PooledAdapter(HTTPAdapter):
    """Keeps connections alive, records all of them, and raises errors as Unreachable."""

    def __init__(self, parallel: int, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context
        self._open: WeakSet[Any] = WeakSet()
        super().__init__(pool_connections=1, pool_maxsize=parallel, max_retries=0)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> HTTPConnectionPool:
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
        super().cert_verify(conn, url, verify, cert)
        if url.startswith("https"):
            conn.conn_kw["ssl_context"] = self._context()
            conn.ca_certs = conn.ca_cert_dir = None

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        try:
            return super().send(request, *args, **kwargs)
        except (requests.RequestException, pool_errors.HTTPError, OSError) as error:
            raise _wrapped_error(error) from None

    def cut(self) -> None:
        for connection in list(self._open):
            if (sock := getattr(connection, "sock", None)) is not None:
                exchange.shut(sock)


def body_of(answer: Any, most: int) -> bytes:
    """Return the body, up to one byte more than ``most``; Unreachable if it is incomplete."""
    encoding = str(answer.headers.get("Content-Encoding") or "").strip().lower()
    if encoding not in SUPPORTED_ENCODINGS:
        answer.close()
        raise exchange.unsupported_encoding(encoding)
    try:
        body: bytes = answer.read(most + 1, decode_content=True)
        if len(body) > most:
            answer.close()
        else:
            answer.release_conn()
        return body
    except (pool_errors.HTTPError, OSError) as error:
        answer.close()
        raise _wrapped_error(error) from None


def _wrapped_error(error: BaseException) -> Unreachable:
    causes = exchange.causes_of(error)
    if any(isinstance(cause, ProxyError | pool_errors.ProxyError) for cause in causes):
        hint = "check HTTPS_PROXY, or add the host to NO_PROXY"
        if isinstance(causes[-1], ssl.SSLError):
            hint = "if the proxy uses HTTP without TLS, write http:// in HTTPS_PROXY"
        return Unreachable(f"proxy: {plain_text(causes[-1])} ({hint})", sent=False)
    if incomplete := [cause for cause in causes if isinstance(cause, IncompleteRead)]:
        # A chunk size that is not a number is malformed.
        is_size = isinstance(causes[-1], ValueError) and not str(causes[-1]).endswith(repr(b""))
        found = MalformedBody("invalid chunk size") if is_size else incomplete[0]
        return exchange.connection_error(found, connected=True)
    unconnected = pool_errors.NewConnectionError | pool_errors.ConnectTimeoutError
    connected = not any(isinstance(cause, unconnected) for cause in causes)
    return exchange.unreachable_error(error, connected=connected)


class SushyTransport:
    """The connector to one host; no other class uses ``_op`` and ``_session`` of sushy."""

    def __init__(
        self,
        url: str,
        verify: bool | str,
        trust: exchange.TlsContexts,
        certificate: ClientCertificate | None,
        proxies: Mapping[str, str],
        parallel: int,
    ) -> None:
        context = functools.partial(trust.for_verify, verify, certificate)
        self._adapter = PooledAdapter(parallel, context)
        self._connector = Connector(
            url, verify=verify, response_callback=_raise_status, server_side_retries=1
        )
        session = self._connector._session
        session.proxies = dict(proxies)
        session.trust_env = False
        session.headers.clear()
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.mount("https://", self._adapter)
        session.mount("http://", self._adapter)

    def ask(self, request: PodmRequest) -> Answer:
        request.check_headers()
        method, path, headers, timeout_s, most, body = request

        def with_headers(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
            prepared.headers.update(headers)  # sushy would log credentials among the arguments
            return prepared

        options: dict[str, Any] = {"allow_reauth": False, "allow_redirects": False}
        options |= {"data": body, "timeout": timeout_s, "auth": with_headers, "stream": True}
        try:
            response = self._connector._op(method, path, **options)
        except _HttpStatus as status:
            response = status.response
        except (SushyError, ValueError, requests.RequestException) as error:
            raise InputError(path, "", str(error), "a request that can be sent") from None
        return Answer(response.raw.status, response.raw.headers, body_of(response.raw, most))

    def cut(self) -> None:
        self._adapter.cut()

    def close(self) -> None:
        self._adapter.close()


class _HttpStatus(Exception):
    """Passes on an answer that sushy would retry, or read without a size limit."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _raise_status(response: requests.Response) -> None:
    if response.status_code >= 400:
        raise _HttpStatus(response)
