# SPDX-License-Identifier: Apache-2.0
"""Keystone: authenticates users by tokens, with the middleware that OpenStack services use."""

import contextlib
import functools
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException, Unauthorized
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from keystonemiddleware import auth_token  # type: ignore[import-untyped]
from oslo_config import cfg

from valence_sched.errors import AccessDenied, IdentityUnavailable, Unauthenticated
from valence_sched.model import baremetal, http, verbs
from valence_sched.server.access_rules import ALL_OWNERS, AccessRules
from valence_sched.service.call import SERVICE_TYPE
from valence_sched.service.settings import KeystoneSettings
from valence_sched.service.users import BASIC, AnswerCache, User, basic_credentials

GROUP = "keystone_authtoken"  # the group of the options of the middleware
CACHE = "valence_sched.token_cache"  # the key in the WSGI environment that the middleware reads
CACHE_SIZE = 10_000
MAX_TOKEN = 8192  # characters
MAX_PASSWORD = 1024  # bytes
LOGIN_S = 600.0  # lifetime of a token for a browser's name and password
_TOKEN = re.compile(r"[!-~]+")


class KeystoneLogins:
    """Gets tokens from Keystone for browser users, who log in as ``USER@PROJECT``."""

    def __init__(self, settings: KeystoneSettings) -> None:
        self._settings = settings
        self._secret = os.urandom(32)
        self._cache = AnswerCache(CACHE_SIZE)

    def tokens(self, name: str, password: bytes) -> Iterator[str]:
        """Yield a cached token, if any, then a new one; Unauthenticated or IdentityUnavailable."""
        words = name.encode() + b"\0" + password
        key = hmac.digest(self._secret, words, hashlib.sha256).hex()
        known = self._cache.get(key)
        if known is not None:
            yield known.decode()
        token = self._log_in(name, password)
        self._cache.set(key, token.encode(), LOGIN_S)
        yield token

    def _log_in(self, name: str, password: bytes) -> str:
        user, at, project = name.rpartition("@")
        settings = self._settings
        if not (user and at and project):
            hint = "log in with a Keystone user and project"
            raise Unauthenticated(f"the user name must be USER@PROJECT: {hint}")
        try:
            plugin = v3.Password(
                settings.auth_url,
                username=user,
                password=password.decode(),
                user_domain_name=settings.ui_domain_name,
                project_name=project,
                project_domain_name=settings.ui_domain_name,
                include_catalog=False,
            )
            session = Session(verify=_authorities(settings) or True, timeout=settings.timeout_s)
            token: str | None = plugin.get_token(session)
        except (Unauthorized, UnicodeDecodeError):
            raise Unauthenticated("Keystone rejected the user, password or project") from None
        except (ClientException, OSError, *http.MALFORMED) as error:
            raise _unavailable(type(error).__name__) from None
        if not token:
            raise _unavailable("no token")
        return token


class KeystoneAccess:
    """Authenticates by Keystone tokens with project or system scope; rules check permissions."""

    def __init__(self, settings: KeystoneSettings, password: str, rules: AccessRules) -> None:
        self._rules = rules
        self._cache = AnswerCache(CACHE_SIZE)
        self._logins = KeystoneLogins(settings)
        public = settings.public_url or settings.auth_url
        self.challenge: str | None = f'Keystone uri="{public}"'
        self.page_challenge: str | None = BASIC
        self._options = functools.partial(_options, settings, password, public)
        self._middleware = auth_token.AuthProtocol(_confirm, self._options())

    def authenticate(self, environ: Mapping[str, Any], *, page: bool = False) -> User:
        """Return the user of the header ``X-Auth-Token``; a page also accepts HTTP basic."""
        if page and not environ.get("HTTP_X_AUTH_TOKEN"):
            return self._browser_user(environ)
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        if not token:
            raise Unauthenticated("this service requires a Keystone token: send X-Auth-Token")
        if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
            raise Unauthenticated("the header X-Auth-Token is not a token: get one from Keystone")
        # drop a service token: it would make an expired user token valid
        headers = {name: value for name, value in environ.items() if name != "HTTP_X_SERVICE_TOKEN"}
        confirmed: dict[str, Any] = {**headers, CACHE: self._cache}
        statuses: list[str] = []

        def start_response(status: str, *_words: object) -> Callable[[bytes], object]:
            statuses.append(status)
            return lambda _data: None

        try:
            answer = self._middleware(confirmed, start_response)
        except (ClientException, OSError, *http.MALFORMED) as error:
            # its own token may have no readable end, or no catalogue
            self._middleware = auth_token.AuthProtocol(_confirm, self._options())
            raise _unavailable(type(error).__name__) from None
        if (close := getattr(answer, "close", None)) is not None:
            close()
        status = statuses[0].partition(" ")[0]
        if status == "401":
            why = "invalid, expired or revoked, or its access rules forbid the request"
            raise Unauthenticated(f"Keystone rejected the token as {why}: get another one")
        if status != "204":
            raise _unavailable(f"status {status}")
        return self._user(confirmed)

    def _browser_user(self, environ: Mapping[str, Any]) -> User:
        """Return the user of a browser login; an expired token is replaced once."""
        name, password = basic_credentials(environ.get("HTTP_AUTHORIZATION"), MAX_PASSWORD)
        for token in self._logins.tokens(name, password):
            with contextlib.suppress(Unauthenticated):
                return self.authenticate({**environ, "HTTP_X_AUTH_TOKEN": token})
        raise Unauthenticated("Keystone rejected its own token: try again")

    def check(self, user: User, rule: str, role: verbs.Role) -> None:
        self._rules.check(user, rule)

    def _user(self, environ: Mapping[str, Any]) -> User:
        project = environ.get("HTTP_X_PROJECT_ID") or None
        system = environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE") or None
        name = environ["HTTP_X_USER_ID"]
        if project is None and system is None:
            missing = "has neither project nor system scope: get a token of a project"
            raise AccessDenied(f"the token of user {name!r} {missing}")
        roles = [role for role in environ.get("HTTP_X_ROLES", "").split(",") if role]
        credentials = {
            "user_id": name,
            "user_domain_id": environ.get("HTTP_X_USER_DOMAIN_ID") or None,
            "project_id": project,
            "project_domain_id": environ.get("HTTP_X_PROJECT_DOMAIN_ID") or None,
            "domain_id": None,
            "system_scope": system,
            "roles": roles,
        }
        sees_all = self._rules.allow(ALL_OWNERS, credentials)
        return User(name, None, project, sees_all, credentials)


def _confirm(_environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("204 No Content", [])
    return []


def cloud_login(settings: KeystoneSettings, password: str) -> baremetal.CloudLogin:
    """Return the login of the service itself; its catalogue names other services."""
    kind, login = _login(settings, password)
    loader: loading.BaseLoader[Any] = loading.get_plugin_loader(kind)
    auth = loader.load_from_options(auth_url=settings.auth_url, **login)
    verify = _authorities(settings) or True
    session = Session(auth=auth, verify=verify, timeout=settings.timeout_s)
    return baremetal.CloudLogin(session, settings.interface, settings.region_name)


def _authorities(settings: KeystoneSettings) -> str | None:
    return settings.cafile or http.default_authorities(os.environ)


def _login(settings: KeystoneSettings, password: str) -> tuple[str, dict[str, str | None]]:
    if settings.application_credential_id is not None:
        return "v3applicationcredential", {
            "application_credential_id": settings.application_credential_id,
            "application_credential_secret": password,
        }
    return "password", {
        "username": settings.username,
        "password": password,
        "user_domain_name": settings.user_domain_name,
        "project_name": settings.project_name,
        "project_domain_name": settings.project_domain_name,
    }


def _options(settings: KeystoneSettings, password: str, public: str) -> dict[str, Any]:
    config = cfg.ConfigOpts()
    config([], project="valence-scheduler", default_config_files=[], default_config_dirs=[])
    kind, login = _login(settings, password)
    loader: loading.BaseLoader[Any] = loading.get_plugin_loader(kind)
    config.register_opts(loading.get_auth_plugin_conf_options(loader), group=GROUP)
    for name, value in {**login, "auth_url": settings.auth_url}.items():
        config.set_override(name, value, group=GROUP)
    return {
        "oslo_config_config": config,
        "auth_type": kind,
        "www_authenticate_uri": public,
        "interface": settings.interface,
        "region_name": settings.region_name,
        "cafile": _authorities(settings),
        "http_connect_timeout": max(1, round(settings.timeout_s)),
        "http_request_max_retries": 1,
        "token_cache_time": round(settings.token_cache_s),
        "cache": CACHE,
        "service_type": SERVICE_TYPE,
        "service_token_roles_required": True,
        "delay_auth_decision": False,
        "include_service_catalog": True,  # access rules of a token may name this service
    }


def _unavailable(why: str) -> IdentityUnavailable:
    hint = "try again later; see the log of the service"
    return IdentityUnavailable(f"Keystone cannot verify the token ({why}): {hint}")
