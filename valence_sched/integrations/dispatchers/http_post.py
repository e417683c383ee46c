# SPDX-License-Identifier: Apache-2.0
"""Sends one request to a dispatch URL; follows no redirect, and limits the size of the answer."""

import base64
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests

from valence_sched.errors import DispatchFailed, UsageError
from valence_sched.model import http
from valence_sched.model.dispatch import Order
from valence_sched.model.podm_address import is_http_url
from valence_sched.remote.connection import FAILURES, is_unsent, new_session

PIECE_BYTES, MAX_BYTES = 1 << 16, 1 << 20
NOT_AGAIN = "the order was not sent again"
MAY_BE_ACCEPTED = "the decision may have been accepted: check the other system first"


def post(
    url: str,
    body: bytes,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    hint: str = MAY_BE_ACCEPTED,
) -> tuple[int, Any]:
    """Return the status and JSON of a successful answer, None for a body that is not JSON.

    UsageError for an unusable URL; DispatchFailed without such an answer, with a ``hint``.
    """
    where, status, content = _ask("POST", url, body, timeout_s, headers, hint)
    if not 200 <= status < 300:
        unsure = f": {hint}" if status >= 500 else ""
        raise DispatchFailed(f"{where}: HTTP {status}, expected 2xx{unsure}")
    try:
        return status, msgspec.json.decode(content) if content else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return status, None


def get(url: str, timeout_s: float, headers: Mapping[str, str] | None = None) -> Any:
    """Return the JSON of the answer, None if the resource is missing; errors as for ``post``."""
    where, status, content = _ask("GET", url, None, timeout_s, headers)
    if status in (404, 405, 501):
        return None
    if status != 200:
        raise DispatchFailed(f"{where}: HTTP {status}, expected 200: {NOT_AGAIN}")
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = f"not JSON, or more than 1 MiB: {NOT_AGAIN}: check the other system"
        raise DispatchFailed(f"{where}: {text}") from None


def _ask(
    method: str,
    url: str,
    body: bytes | None,
    timeout_s: float,
    headers: Mapping[str, str] | None,
    hint: str = MAY_BE_ACCEPTED,
) -> tuple[str, int, bytes]:
    scheme, _, rest = url.partition("://")
    if "@" in rest.partition("/")[0]:
        raise UsageError("--dispatch: remove the password from the URL: other users can see it")
    if not is_http_url(url):
        # the part before :// may be a password
        found = "an invalid host" if scheme in ("http", "https") else "another scheme, or none"
        raise UsageError(f"--dispatch: expected an http or https URL, found {found}")
    parts, until = urlsplit(url), time.monotonic() + timeout_s
    where = f"{parts.scheme}://{parts.netloc}{parts.path}"
    try:
        with new_session(url) as session:
            session.headers.update({"Content-Type": "application/json", **(headers or {})})
            answer = session.request(
                method, url, data=body, timeout=timeout_s, allow_redirects=False, stream=True
            )
            return where, answer.status_code, _read(answer, until)
    except FAILURES as error:
        raise DispatchFailed(f"{where}: {_failure(error, hint)}") from None


def _read(answer: requests.Response, until: float) -> bytes:
    """Return the start of an answer; requests limits only the time without data."""
    content = bytearray()
    while piece := answer.raw.read1(PIECE_BYTES, decode_content=True):
        if time.monotonic() > until:
            raise requests.ReadTimeout
        content += piece
        if len(content) >= MAX_BYTES:
            break
    return bytes(content[:MAX_BYTES])


def _failure(error: Exception, hint: str) -> str:
    """Return the text of an error; ``hint`` applies if the request may have been sent."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    cause = reason.args[0] if isinstance(reason, Exception) and reason.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        what = f"its certificate is not trusted: {http.plain_text(cause)}"
        hint = http.failure_hint(cause, cacert="REQUESTS_CA_BUNDLE", cert="")
        return f"{what}: nothing was sent: {hint}"
    if is_unsent(error):
        return "no connection, nothing was sent: check that it runs and that the URL is right"
    return f"{type(error).__name__}: {hint}"


def order_headers(order: Order, node: int | None = None) -> dict[str, str]:
    """Return the headers for the login, and the headers that identify a repeated order."""
    headers = {}
    if order.id is not None:
        headers["Idempotency-Key"] = order.id if node is None else f"{order.id}-{node}"
    if order.login is not None:
        login = base64.b64encode(":".join(order.login).encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    return headers
