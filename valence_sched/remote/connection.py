# SPDX-License-Identifier: Apache-2.0
"""Connection to a service: one request and its answer, whose errors are raised as they were."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import requests
from requests.utils import get_environ_proxies

from valence_sched.errors import ServiceError, UsageError, one_line
from valence_sched.model.problem import problem_error

T = TypeVar("T")

VERSION_HEADER, VERSION = "OpenStack-API-Version", "podm-scheduler 1.0"
TOKEN_HEADER = "X-Auth-Token"  # noqa: S105 - its name
MAX_ANSWER_BYTES = 512 << 20
PIECE_BYTES = 1 << 20
_PLAIN = re.compile(r"(?!\.{1,2}$|-$)[\w.~-]+", re.ASCII)

Query = Mapping[str, Any]


class ServiceConnection:
    """What asks the service at ``url``; ``user`` and ``password`` are for HTTP basic.

    ``token`` returns a token of Keystone; it is called when the service first asks who it is, and
    from then on, so that it may be renewed.
    ``verify`` is False for any certificate, or the file of the authorities that are trusted.
    ``timeout_s`` is how long the service may be silent. Threads may share one.

    Raises:
        UsageError: the URL is none, or holds a password.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        verify: bool | str = True,
        timeout_s: float = 60.0,
        token: Callable[[], str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(one_line(f"{url!r}: expected the http or https URL of a service"))
        if parts.username or parts.password:
            raise UsageError("the URL of the service holds a password: put it into the environment")
        self.url = url.rstrip("/").removesuffix("/v1")
        self._login = (user, password or "") if user is not None else None
        self._verify, self._timeout_s = verify, timeout_s
        self._token, self._sends_token = token, False
        self._local = threading.local()

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: msgspec.Struct | None = None,
        key: str | None = None,
    ) -> bytes:
        """Return the body of an answer; ``path`` is below ``/v1``.

        Raises:
            ServiceError: the service does not answer, or answers something else.
            SchedulerError: as the service says.
        """
        words = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        headers = {VERSION_HEADER: VERSION, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        # maps keep their order: of the attributes of a request the first that fails is the reason
        data = None if body is None else msgspec.json.encode(body)
        where = f"{self.url}/v1/{path}"
        status, content = self._send(method, where, words, data, headers)
        if status == 401 and self._token is not None and not self._sends_token:
            self._sends_token = True
            status, content = self._send(method, where, words, data, headers)
        if not 200 <= status < 300:
            raise problem_error(content, status, where)
        return content

    def _send(
        self,
        method: str,
        where: str,
        words: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer; ServiceError where there is none."""
        if self._token is not None and self._sends_token:
            headers = {**headers, TOKEN_HEADER: self._token()}
        try:
            with self._session().request(
                method, where, params=words, data=data,
                headers=headers, timeout=self._timeout_s, allow_redirects=False, stream=True,
            ) as answer:  # fmt: skip
                return answer.status_code, _bounded(answer, where)
        except (requests.RequestException, OSError, UnicodeError) as error:
            raise ServiceError(one_line(f"{self.url}: {_reason(error)}")) from None

    def decode(self, content: bytes, kind: type[T]) -> T:
        """Return an answer as a noun; ServiceError where it is none."""
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            text = f"{self.url}: an answer that cannot be parsed ({error}): is the service newer?"
            raise ServiceError(one_line(text)) from None

    def _session(self) -> requests.Session:
        """Return the session of this thread, which keeps its connection."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.proxies, session.trust_env = get_environ_proxies(self.url), False
            session.auth, session.verify = self._login, self._verify
            self._local.session = session
        return session


def path_of(collection: str, name: str, part: str = "") -> tuple[str, dict[str, str]]:
    """Return the path and the query of one thing of a collection, or of a part of it.

    A name that a path cannot have, such as one with a slash, stands in the query.
    """
    plain = bool(_PLAIN.fullmatch(name))
    path = f"{collection}/{quote(name, safe='') if plain else '-'}"
    return f"{path}/{part}" if part else path, {} if plain else {"name": name}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bounded(answer: requests.Response, where: str) -> bytes:
    pieces, size = [], 0
    for piece in answer.iter_content(PIECE_BYTES):
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ServiceError(f"{where}: an answer of more than {MAX_ANSWER_BYTES:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted: name its authority"
    if isinstance(error, requests.Timeout):
        return "the service does not answer in time: what was asked may have been done"
    if isinstance(error, requests.ConnectionError):
        return "nobody answers there: check that the service runs and that the URL is right"
    return type(error).__name__
