# SPDX-License-Identifier: Apache-2.0
"""The login of one connection: one session for each run, deleted at the end, or basic auth."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any, Protocol

from valence_sched.drivers.fields import Json, links
from valence_sched.drivers.http.exchange import Answer
from valence_sched.drivers.links import ROOT
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model.registration import Registration

LOG = logging.getLogger(__name__)

SESSIONS = f"{ROOT}/SessionService/Sessions"
_REGISTER = "name another in its file, or register it with `podm set --username --password-prompt`"


class LoginRefused(PodmError):
    """A pod manager answers, and refuses the login."""


class SessionChannel(Protocol):
    """The part of a connection that a login needs."""

    @property
    def url(self) -> str: ...
    def set_auth(self, token: str | None = None, basic: tuple[str, str] | None = None) -> None: ...
    def send(self, method: str, uri: str, *, data: Json | None = None) -> Answer: ...
    def local_path(self, link: str) -> str: ...
    def resolve(self, link: str, at: str = "/") -> tuple[str, str]: ...


class Login:
    """The login of one connection; ``count`` is how often it was made."""

    def __init__(
        self, connection: SessionChannel, registration: Registration, password: str | None
    ) -> None:
        self._connection = connection
        self._user, self._auth, self._password = registration.username, registration.auth, password
        self._open: list[str] = []
        self._sessions: str | None = None
        self._renewing = threading.Lock()
        self.count = 0
        self._renewed = self._with_basic = False  # a session is made with basic authentication only
        self.remarks: list[str] = []

    def __repr__(self) -> str:
        return f"Login({self._user!r})"

    def log_in(self, root: Json | None) -> None:
        """Log in; where the root offers no sessions, each request carries the password."""
        if self._user is None:
            return
        self.count += 1
        if self._auth != "basic":
            self._sessions = self._sessions_uri(root)
        if self._sessions is None:
            self._use_basic()
        else:
            self._open_session(self._sessions)

    def renew(self, count: int) -> bool:
        """Log in once more after login ``count``; return whether it makes sense to send again."""
        with self._renewing:
            if self.count != count:
                return True
            if self._sessions is None or self._renewed:
                return False
            self._renewed = True
            if self._with_basic:  # it wants it with each request, whatever session there is
                self._sessions = None
                self._use_basic()
            else:
                self._connection.set_auth()
                self._open_session(self._sessions)
            self.count += 1  # last, when the new session is in place
            return True

    def allow_renewal(self) -> None:
        self._renewed = False

    def refusal(self) -> LoginRefused:
        if self._user is None:
            hint = "name one in its file, or register it with `podm set --username`"
            return LoginRefused(f"asks for a login ({hint})")
        if self._renewed:
            return LoginRefused(f"the login of {self._user!r} expired twice in one read")
        return LoginRefused(f"refused the login of {self._user!r} ({_REGISTER})")

    def log_out(self) -> None:
        """Delete every session of ours; one that cannot be deleted is logged."""
        while self._open:
            uri = self._open.pop(0)  # the one in use comes last
            try:
                status = self._connection.send("DELETE", uri).status
                if status == 401 and self._with_basic:
                    self._use_basic()
                    status = self._connection.send("DELETE", uri).status
            except (PodmError, InputError) as error:
                reason = str(error).partition(" (")[0]  # its hint is for reading
            else:
                if status < 400 or status in (401, 404, 410):
                    continue
                reason = f"HTTP {status}"
            LOG.warning("%s%s: could not be deleted: %s", self._connection.url, uri, reason)

    def _sessions_uri(self, root: Json | None) -> str | None:
        root = root or {}
        inside = root.get("Links")
        for link in links(inside.get("Sessions") if isinstance(inside, dict) else None):
            if link:
                return self._connection.local_path(link)
        if "SessionService" in root or self._auth == "session" or not root:
            return SESSIONS
        return None

    def _open_session(self, uri: str) -> None:
        answer = self._post(uri)
        if answer.status == 401 and self._auth == "auto" and not self._with_basic:
            answer = self._post_with_basic(uri, answer)
        token = answer.headers.get("X-Auth-Token")
        if answer.status < 300 and (where := self._session_path(answer, uri)):
            self._open.append(where)
        elif answer.status < 300 and token:
            LOG.warning("%s%s: does not say where its session is: it stays open",
                        self._connection.url, uri)  # fmt: skip
        if answer.status < 300 and token:
            self._connection.set_auth(token=token)
        elif answer.status == 401:
            raise self.refusal()
        else:
            found = f"HTTP {answer.status}" if answer.status >= 300 else "no X-Auth-Token"
            if self._auth == "session":
                hint = "are too many open? --auth basic needs none"
                raise LoginRefused(f"{uri}: makes no session: {found} ({hint})")
            what = f"found {found}, expected a session (went on with --auth basic)"
            self.remarks.append(one_line(f"{uri}: {what}"))
            self._sessions = None
            self._use_basic()

    def _post(self, uri: str) -> Answer:
        account = {"UserName": self._user, "Password": self._password}
        return self._connection.send("POST", uri, data=account)

    def _post_with_basic(self, uri: str, refused: Answer) -> Answer:
        """Return the answer to a POST with basic authentication, which some services want for it.

        Most refuse a wrong password in the same way. So where an answer does not name Basic, it
        is tried with a read: a wrong password is sent twice, and not once more.
        """
        challenge = refused.headers.get("WWW-Authenticate", "")
        if challenge and "basic" not in challenge.casefold():
            return refused
        self._with_basic = True
        self._use_basic()
        if not challenge:
            tried = self._connection.send("GET", uri)
            if tried.status == 401:
                return tried
        return self._post(uri)

    def _session_path(self, answer: Answer, uri: str) -> str | None:
        """Return the path alone: behind a proxy, its host may be another than the one we know."""
        link: Any = answer.headers.get("Location")
        if not link and answer.body:
            with contextlib.suppress(InputError):
                link = answer.json(uri).get("@odata.id")
        path = self._connection.resolve(link)[1] if isinstance(link, str) else ""
        return path if path.startswith("/") else None

    def _use_basic(self) -> None:
        self._connection.set_auth(basic=(self._user or "", self._password or ""))
