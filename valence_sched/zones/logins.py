# SPDX-License-Identifier: Apache-2.0
"""Logins of this zone to the services of its children, with tokens that are reused."""

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valence_sched.errors import CredentialError, IdentityUnavailable, Unauthenticated
from valence_sched.model.http import MALFORMED, default_authorities
from valence_sched.model.zone_registry import KeystoneLogin, ZoneRegistration
from valence_sched.remote.connection import ServiceConnection, new_session
from valence_sched.remote.scheduler import RemoteScheduler

if TYPE_CHECKING:
    from keystoneauth1.identity import v3

MOST_LOGINS = 1000  # logins that a process keeps
ANSWER_TIMEOUTS = 6  # the timeouts within which a whole answer of a child must arrive
KEYSTONE_TIMEOUT_S = 10.0  # seconds for Keystone, of the time for the call to a child
INSTALL = "a login with Keystone needs keystoneauth1: pip install 'valence-sched[keystone]'"


class KeystoneTokens:
    """The tokens of one user in one project, each used until shortly before it expires."""

    def __init__(
        self, login: KeystoneLogin, password: str, verify: bool | str, timeout_s: float
    ) -> None:
        self._login, self._password = login, password
        self._verify, self._timeout_s = verify, timeout_s

    def token(self) -> str:
        plugin, where = self._plugin, self._login.auth_url
        from keystoneauth1 import exceptions, session

        try:
            own = new_session(where)
            opened = session.Session(session=own, verify=self._verify, timeout=self._timeout_s)
            found: str | None = plugin.get_token(opened)
        except exceptions.Unauthorized:
            text = f"{self._login.username!r} to project {self._login.project!r}"
            raise Unauthenticated(f"Keystone at {where} rejects the login of {text}") from None
        except (exceptions.ClientException, OSError, *MALFORMED) as error:
            plugin.invalidate()  # it may hold a token whose end cannot be read
            text = f"Keystone at {where} issued no token: {type(error).__name__}"
            raise IdentityUnavailable(text) from None
        if not found:
            raise IdentityUnavailable(f"Keystone at {where} issued no token")
        return found

    def renew(self) -> None:
        """Forget the token after a service refused it."""
        self._plugin.invalidate()

    @functools.cached_property
    def _plugin(self) -> "v3.Password":
        try:
            from keystoneauth1.identity import v3
        except ImportError:
            raise CredentialError(INSTALL) from None
        return v3.Password(
            self._login.auth_url,
            username=self._login.username,
            password=self._password,
            user_domain_name=self._login.user_domain,
            project_name=self._login.project,
            project_domain_name=self._login.project_domain,
            include_catalog=False,
        )


class ChildLogins:
    """The logins of one process to child zones; schedulers of a child reuse its token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[tuple[KeystoneLogin, str, bool | str], KeystoneTokens] = {}

    def scheduler(
        self,
        child: ZoneRegistration,
        password: str | None,
        timeout_s: float,
        route: Callable[[], Sequence[str]] = tuple,
    ) -> RemoteScheduler:
        verify = child.cacert or default_authorities(os.environ) or True
        connect = functools.partial(
            ServiceConnection,
            child.url,
            verify=verify,
            certificate=child.certificate,
            timeout_s=timeout_s,
            answer_s=ANSWER_TIMEOUTS * timeout_s,
            route=route,
        )
        if child.keystone is None:
            return RemoteScheduler(connect(user=child.username, password=password), ends=True)
        key = child.keystone, password or "", verify
        with self._lock:
            if key not in self._tokens:
                if len(self._tokens) >= MOST_LOGINS:
                    self._tokens.clear()
                self._tokens[key] = KeystoneTokens(*key, min(timeout_s, KEYSTONE_TIMEOUT_S))
            tokens = self._tokens[key]
        return RemoteScheduler(connect(token=tokens.token, renew=tokens.renew), ends=True)
