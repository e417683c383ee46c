# SPDX-License-Identifier: Apache-2.0
"""Requests through sushy's Connector: all that is written, and whatever goes through a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy

import requests
from sushy.connector import Connector  # type: ignore[import-untyped]
from sushy.exceptions import SushyError  # type: ignore[import-untyped]

from valence_sched.drivers.adapter import Adapter, body_of
from valence_sched.drivers.answers import Answer
from valence_sched.drivers.fields import Json
from valence_sched.drivers.transport import Trust
from valence_sched.errors import InputError


class LongWay:
    """The connector to one host, which sends each request once and follows nothing.

    ``verify`` is whether to verify who answers, or a file of authorities to do it by.
    """

    def __init__(
        self, url: str, verify: bool | str, proxies: Mapping[str, str], parallel: int, trust: Trust
    ) -> None:
        self._adapter = Adapter(parallel, trust)
        self._connector = Connector(
            url, verify=verify, response_callback=_refuse, server_side_retries=1
        )
        session = self._connector._session
        session.proxies = dict(proxies)
        session.trust_env = False
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.mount("https://", self._adapter)
        session.mount("http://", self._adapter)

    def sign(self, headers: Mapping[str, str]) -> None:
        """Have every request carry these headers."""
        session = self._connector._session
        session.headers.clear()
        session.headers.update(headers)

    def ask(
        self,
        method: str,
        uri: str,
        timeout_s: float,
        most: int,
        data: Json | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        """Send one request, once; of a body of more than ``most`` bytes one byte more is read.

        Raises:
            Unreachable: no answer came, or not all of it.
            InputError: it cannot be sent.
        """
        try:
            response = self._connector._op(
                method,
                uri,
                data=data,
                headers=headers,
                timeout=timeout_s,
                allow_reauth=False,
                stream=True,
                allow_redirects=False,
            )
        except _Status as found:
            response = found.response
        except (SushyError, ValueError, requests.RequestException) as error:
            raise InputError(uri, "", str(error), "a request that can be sent") from None
        return Answer(response.raw.status, response.raw.headers, body_of(response.raw, most))

    def cut(self) -> None:
        """End every request that is under way, whoever waits for it."""
        self._adapter.cut()

    def close(self) -> None:
        """Hang up."""
        self._adapter.close()


class _Status(Exception):
    """An answer that sushy would try again, or read without bound."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _refuse(response: requests.Response) -> None:
    if response.status_code >= 400:
        raise _Status(response)
