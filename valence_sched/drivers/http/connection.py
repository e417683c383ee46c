# SPDX-License-Identifier: Apache-2.0
"""One connection to one pod manager: logged in, bounded, within a deadline.

What is done once for every pod manager of a site (the login, and reading) takes a shorter way
with the same headers; sushy and requests are imported only for what composes, and for a proxy.

Reads are tried again while the deadline allows it, writes never. A status is returned, not
raised: what it means is for the caller to say. The session is deleted whatever happens.
"""

from __future__ import annotations

import base64
import functools
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES, MAX_TREE_BYTES
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.answer import Answer, is_task_running
from valence_sched.drivers.http.errors import Deadline, TlsContexts, Unreachable
from valence_sched.drivers.http.login import Login
from valence_sched.drivers.http.proxy import base_url, proxies_to
from valence_sched.drivers.http.retry import retry_after_s
from valence_sched.drivers.http.stdlib_transport import StdlibTransport
from valence_sched.drivers.links import host_and_path
from valence_sched.errors import InputError, PodmError
from valence_sched.model.registration import Registration

if TYPE_CHECKING:
    from valence_sched.drivers.http.sushy_transport import SushyTransport

#: How often a read is tried, and how long to wait before the second time; then twice as long.
ATTEMPTS = 4
PAUSE_S = 0.1
MAX_REDIRECTS = 5
#: Answers that ask for another try.
BUSY_STATUSES = (429, 503)
#: How long the deletion of a session may take, also after the deadline.
LOGOUT_S = 3.0
#: What every request carries; ``identity`` as sushy has it, for the sake of ETags.
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "keep-alive",
    "OData-Version": "4.0",
    "User-Agent": "valence-sched",
}
_JSON = {"Content-Type": "application/json"}


class Connection:
    """One connection; ``url`` is where it leads, without credentials and path.

    ``requests`` counts what was sent. Threads may share it.
    """

    def __init__(
        self,
        registration: Registration,
        password: str | None,
        deadline: Deadline,
        parallel: int = 1,
        tls: TlsContexts | None = None,
    ) -> None:
        self.name, self.deadline, self.requests = registration.name, deadline, 0
        self._received = 0
        self.url = base_url(registration)
        self.host = host_and_path(self.url)[0]
        self._parallel, self._tls = parallel, tls or TlsContexts()
        self._ended = self._closing = False
        self._ending = threading.Lock()
        if registration.cacert and not Path(registration.cacert).exists():
            raise PodmError(
                f"found no file {registration.cacert!r}, expected the --cacert it names"
            )
        self._verify: bool | str = registration.cacert or not registration.insecure
        self._proxies = proxies_to(self.url)
        self._headers = HEADERS
        self._login = Login(self, registration, password)

    def __repr__(self) -> str:
        return f"Connection({self.name!r}, {self.url!r})"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def remarks(self) -> list[str]:
        """What is worth saying about how the login went."""
        return self._login.remarks

    def set_auth(self, token: str | None = None, basic: tuple[str, str] | None = None) -> None:
        """Have every request from now on carry a token, or a user and a password, or neither."""
        if token is not None:
            self._headers = HEADERS | {"X-Auth-Token": token}
        elif basic is not None:
            word = base64.b64encode(_bytes(":".join(basic))).decode()
            self._headers = HEADERS | {"Authorization": f"Basic {word}"}
        else:
            self._headers = HEADERS
        if "_long_way" in vars(self):
            self._long_way.set_headers(self._headers)

    def log_in(self, root: Json | None) -> None:
        """Log in as the service root offers it; without a user name, not at all.

        Raises:
            Refused: the login was refused.
            Unreachable: no answer came.
        """
        self._login.log_in(root)

    def get(self, uri: str, most: int = MAX_DOCUMENT_BYTES, share: float = 1.0) -> Answer:
        """Read, and try again while the answer is that it may come later.

        A body of more than ``most`` bytes is cut off after them. No server may be silent for
        longer than a ``share`` of the time until the deadline.

        Raises:
            InputError: this document cannot be read, others may.
            Unreachable: no answer came, and it makes no sense to wait for one.
            Slow: this answer did not come within the share.
            Refused: the login is refused.
        """
        logins = self._login.count
        answer = self._read(uri, most, share)
        if answer.status == 401 and self._login.renew(logins):
            answer = self._read(uri, most, share)
        if answer.status == 401:
            raise self._login.refusal()
        return answer

    def get_anonymous(self, uri: str) -> Answer:
        """Read as :meth:`get`, also where it needs a login that was not made yet."""
        return self._read(uri, MAX_DOCUMENT_BYTES, 1.0)

    def post(self, uri: str, data: Json, headers: Mapping[str, str] | None = None) -> Answer:
        """Write, once.

        Raises:
            Unreachable: no answer came; ``sent`` says whether it may have had its effect.
        """
        return self._send("POST", uri, MAX_DOCUMENT_BYTES, data=data, headers=headers)

    def patch(self, uri: str, data: Json, headers: Mapping[str, str] | None = None) -> Answer:
        """Change, once; raises as :meth:`post`."""
        return self._send("PATCH", uri, MAX_DOCUMENT_BYTES, data=data, headers=headers)

    def delete(self, uri: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Delete, once; raises as :meth:`post`."""
        return self._send("DELETE", uri, MAX_DOCUMENT_BYTES, headers=headers)

    def send_session_request(self, method: str, uri: str, data: Json | None = None) -> Answer:
        """Make or delete a session, once; raises as :meth:`post`."""
        return self._send(method, uri, MAX_DOCUMENT_BYTES, data=data, short=True)

    def wait_for_task(self, answer: Answer, poll_s: float = 1.0) -> Answer:
        """Wait for what a 202 promised; any other answer is returned as it is.

        Raises:
            PodmError: the answer does not say where its task is.
            Unreachable: the task does not end before the deadline.
        """
        where = answer.headers.get("Location") if answer.status == 202 else None
        if answer.status == 202 and not where:
            found = answer.json("202").get("@odata.id") if answer.body else None
            if not isinstance(found, str):
                raise PodmError("answered 202 without saying where its task is")
            where = found
        while where and is_task_running(answer):
            self.wait(retry_after_s(answer.headers, poll_s))
            answer = self.get(self.local_path(where))
        return answer

    def wait(self, seconds: float) -> None:
        """Wait, never past the deadline.

        Raises:
            Unreachable: the deadline comes first.
        """
        if seconds >= self.deadline.left_s:
            raise self.deadline.error()
        time.sleep(seconds)

    def local_path(self, link: str) -> str:
        """Return the path of a link, which must not leave the host.

        Raises:
            InputError: it does.
        """
        host, path = self.resolve(link)
        if host != self.host:
            found = f"a link to {host or 'nowhere'}"
            raise InputError(path, "", found, f"links to {self.host} only")
        return path

    def resolve(self, link: str, at: str = "/") -> tuple[str, str]:
        """Return host and path that a link in the document ``at`` a path leads to.

        The host is empty where it leads nowhere.
        """
        try:
            return host_and_path(urljoin(self.url + at, link))
        except ValueError:
            return "", link

    def cut(self) -> None:
        """End all that is under way; only the session can still be deleted."""
        with self._ending:
            if self._closing:
                return
            self._ended = True
            for way in ("_lines", "_long_way"):
                if way in vars(self):
                    vars(self)[way].cut()

    def close(self) -> None:
        """Delete the session and close; never raises, and takes a few seconds at most."""
        with self._ending:
            self._ended = self._closing = True
        self.deadline = Deadline(LOGOUT_S)
        try:
            self._login.log_out()
        finally:
            for way in ("_lines", "_long_way"):
                if way in vars(self):
                    vars(self)[way].close()

    def _read(self, uri: str, most: int, share: float) -> Answer:
        for attempt in range(1, ATTEMPTS + 1):
            pause_s = PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1)  # noqa: S311
            try:
                answer = self._follow(uri, most, share)
                if answer.status not in BUSY_STATUSES or attempt == ATTEMPTS:
                    return answer
                pause_s = retry_after_s(answer.headers, pause_s)
                if pause_s >= self.deadline.left_s:
                    return answer
            except Unreachable as error:
                if not error.retryable or attempt == ATTEMPTS or self._ended:
                    raise
            self.wait(pause_s)
        raise AssertionError("unreachable")

    def _follow(self, uri: str, most: int, share: float) -> Answer:
        """Read, also where a redirect leads on this host."""
        at = uri
        for _ in range(MAX_REDIRECTS):
            answer = self._send("GET", at, most, share, short=True)
            where = answer.headers.get("Location")
            if answer.status not in (301, 302, 303, 307, 308) or not where:
                return answer
            host, at = self.resolve(where, at)
            if host != self.host:
                found = f"a redirect to {host or 'nowhere'}"
                raise InputError(uri, "", found, f"an answer from {self.host}")
        raise InputError(uri, "", f"{MAX_REDIRECTS} redirects", "an answer")

    def _send(
        self,
        method: str,
        uri: str,
        most: int,
        share: float = 1.0,
        *,
        data: Json | None = None,
        headers: Mapping[str, str] | None = None,
        short: bool = False,
    ) -> Answer:
        """Send; with ``short`` on the short way, where no proxy is on it."""
        left_s = self.deadline.left_s
        if left_s <= 0 or (self._ended and method != "DELETE"):
            raise self.deadline.error()
        self.requests += 1
        try:
            if short and not self._proxies:
                body = None if data is None else msgspec.json.encode(data)
                more = self._headers if body is None else self._headers | _JSON
                answer = self._lines.ask(method, uri, more, left_s * share, most, body)
            else:
                answer = self._long_way.ask(method, uri, left_s * share, most, data, headers)
            if self._ended and method != "DELETE":  # what was cut off can look whole
                raise self.deadline.error()
            self._received += len(answer.body)
            if self._received > MAX_TREE_BYTES:
                raise PodmError(f"sends more than {MAX_TREE_BYTES} bytes")
            return answer
        except Unreachable:
            if self._ended or self.deadline.left_s <= 0:
                raise self.deadline.error() from None
            raise

    @functools.cached_property
    def _lines(self) -> StdlibTransport:
        """The short way."""
        return StdlibTransport(self.url, self._verify, self._tls)

    @functools.cached_property
    def _long_way(self) -> SushyTransport:
        """The way through sushy, which takes long to import."""
        from valence_sched.drivers.http.sushy_transport import SushyTransport

        way = SushyTransport(self.url, self._verify, self._proxies, self._parallel, self._tls)
        way.set_headers(self._headers)
        return way


def _bytes(text: str) -> bytes:
    """Return a user or password as basic authentication sends it: as long as it can, in Latin-1."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
