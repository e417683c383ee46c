# SPDX-License-Identifier: Apache-2.0
"""Caller: a client of the service that shows each answer unchanged, and each cut connection."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MOST_TRIES = 1500
PAUSE_S = 0.02
TIMEOUT_S = 30


class Answer(NamedTuple):
    """The status and the document of an answer."""

    status: int
    body: Any


class Caller:
    """One connection to a service, reopened after each cut; ``seen`` counts the results."""

    def __init__(
        self, url: str, headers: dict[str, str] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        host, port = parts.hostname, parts.port
        self._line = (
            http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        )
        self._headers = {"Accept": "application/json", **(headers or {})}
        self.seen: Counter[int | str] = Counter()

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        """Return the answer to a request; OSError if the connection ends before it."""
        headers = dict(self._headers)
        data = None
        if method == "POST":
            data = json.dumps({} if body is None else body).encode()
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            self._line.request(method, path, data, headers)
            response = self._line.getresponse()
            found = response.read()
        except http.client.HTTPException as error:
            self.close()
            self.seen["cut"] += 1
            raise ConnectionError(str(error)) from error
        except OSError:
            self.close()
            self.seen["cut"] += 1
            raise
        self.seen[response.status] += 1
        if response.will_close:
            self.close()
        return Answer(response.status, json.loads(found) if found else None)

    def answered(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = None,
        again: Collection[str] = (),
    ) -> Answer:
        """Return an answer; repeat the request after a cut, if the service is busy, or for some
        codes.

        A request that changes something has a key, or is idempotent.
        """
        for _ in range(MOST_TRIES):
            try:
                answer = self.call(method, path, body, key)
            except OSError:
                time.sleep(PAUSE_S)
                continue
            code = answer.body.get("code") if isinstance(answer.body, dict) else None
            if answer.status != 503 and code not in again:
                return answer
            time.sleep(PAUSE_S)
        raise AssertionError(f"{method} {path}: no answer in {MOST_TRIES} tries: {self.seen}")

    def close(self) -> None:
        """Close the connection."""
        self._line.close()
