# SPDX-License-Identifier: Apache-2.0
"""Users of the service: HTTP basic authentication, or no authentication, and their access."""

import base64
import binascii
import hashlib
import hmac
import logging
import math
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple, Protocol, get_args

import bcrypt

from valence_sched import files
from valence_sched.errors import (
    AccessDenied,
    IdentityUnavailable,
    InputError,
    Unauthenticated,
    plain_reason,
)
from valence_sched.model.verbs import Role

LOG = logging.getLogger(__name__)
#: A reader may list, a member may also schedule and own claims, an admin may do everything.
ROLES: tuple[Role, ...] = get_args(Role)

CACHE_SIZE = 1000  # verified passwords: a bcrypt hash for each request would be slow
MAX_PASSWORD_BYTES = 72  # bcrypt ignores further bytes
BASIC = 'Basic realm="podm-scheduler", charset="UTF-8"'  # makes a browser ask for a login
_NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,254}")


class User(NamedTuple):
    """A user, in a ``project`` if the service has projects.

    With ``all_owners`` the user sees the claims and nodes of all owners, as an admin does. ``role``
    is None if access rules check the ``credentials`` instead.
    """

    name: str
    role: Role | None
    project: str | None = None
    all_owners: bool = False
    credentials: Mapping[str, Any] = {}

    @property
    def tenant(self) -> str:
        return self.project or self.name

    @property
    def owner(self) -> str | None:
        """Return the owner whose claims and nodes the user sees; None for all owners."""
        return None if self.all_owners or self.role == "admin" else self.tenant

    @property
    def consumer(self) -> str | None:
        """Return the owner of the user's new claims; None for an operator without a project."""
        return self.project or self.owner


class Access(Protocol):
    """Access to the service: authenticates the user of a request, and checks permissions."""

    @property
    def challenge(self) -> str | None:
        """Return the header ``WWW-Authenticate`` of the answer to an unauthenticated request."""

    @property
    def page_challenge(self) -> str | None:
        """Return the header ``WWW-Authenticate`` for pages: a browser then asks for a login."""

    def authenticate(self, environ: Mapping[str, Any], *, page: bool = False) -> User:
        """Return the user of a WSGI environment; a ``page`` also accepts the login of a browser.

        Raises Unauthenticated for missing or wrong credentials, AccessDenied if no project is
        chosen, and IdentityUnavailable if the identity service does not answer.
        """

    def check(self, user: User, rule: str, role: Role) -> None:
        """Raise AccessDenied unless a rule, or by default a role, permits a user."""
        if user.role is None or ROLES.index(user.role) < ROLES.index(role):
            text = f"user {user.name!r} has the role {user.role}, but {role} is required"
            raise AccessDenied(f"{rule}: {text}: ask the operator of the service")


class OpenAccess(Access):
    """Allows every request: for a service that listens only on loopback."""

    challenge = page_challenge = None

    def authenticate(self, environ: Mapping[str, Any], *, page: bool = False) -> User:
        return User("anonymous", "admin")


class UserEntry(NamedTuple):
    """A line of the file of users: the user, and the bcrypt hash of the password."""

    user: User
    password_hash: bytes

    @property
    def cost(self) -> int:
        return int(self.password_hash[4:6])


class AnswerCache:
    """The most recently used answers by key, until they expire."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._answers: OrderedDict[str | bytes, tuple[bytes, float]] = OrderedDict()

    def get(self, key: str | bytes) -> bytes | None:
        with self._lock:
            answer, until = self._answers.get(key, (None, 0.0))
            if answer is not None:
                self._answers.move_to_end(key)
            return answer if monotonic() < until else None

    def set(self, key: str | bytes, answer: bytes, time: float = 0.0) -> None:
        """Store an answer for ``time`` seconds."""
        if time <= 0:
            return
        with self._lock:
            self._answers[key] = answer, monotonic() + time
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


class BasicAccess(Access):
    """Authenticates users by HTTP basic and a file with lines ``name:hash:role``.

    The file is read again when it changes. The hash is a bcrypt hash, as ``htpasswd -B`` writes it;
    the default role is ``member``.
    """

    challenge = page_challenge = BASIC

    def __init__(self, users_file: str) -> None:
        self._path = users_file
        self._lock = threading.Lock()
        self._secret = os.urandom(16)
        self._verified = AnswerCache(CACHE_SIZE)
        self._entries: Mapping[str, UserEntry] = {}
        self._read_mark: tuple[int, int] | None = None
        self._current_entries()

    def authenticate(self, environ: Mapping[str, Any], *, page: bool = False) -> User:
        """Return the user of the header ``Authorization``; Unauthenticated if it is invalid.

        IdentityUnavailable if the changed file cannot be read; only the log has the reason.
        """
        authorization = environ.get("HTTP_AUTHORIZATION")
        name, password = basic_credentials(authorization, MAX_PASSWORD_BYTES)
        try:
            entries = self._current_entries()
        except InputError as error:
            LOG.error("no user can log in: %s", error)
            text = "the service cannot read its users: try again later; see the log of the service"
            raise IdentityUnavailable(text) from None
        entry = entries.get(name)
        if entry is None or not self._matches(password, entry.password_hash):
            _spend(password, entry, max(one.cost for one in entries.values()))
            raise Unauthenticated("unknown user or wrong password: check both")
        return entry.user

    def _matches(self, password: bytes, known: bytes) -> bool:
        mark = hmac.digest(self._secret, known + b"\0" + password, hashlib.sha256)
        if self._verified.get(mark) is None:
            if not bcrypt.checkpw(password, known):
                return False
            self._verified.set(mark, b"", math.inf)
        return True

    def _current_entries(self) -> Mapping[str, UserEntry]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise InputError(self._path, "", plain_reason(error)) from None
        mark = (status.st_mtime_ns, status.st_size)
        with self._lock:
            if mark != self._read_mark:
                if status.st_mode & 0o007:
                    found = "a file that every user can read"
                    raise InputError(self._path, "", found, "mode 0640", f"chmod o= {self._path}")
                self._entries = parse_users(files.read(self._path), self._path)
                self._read_mark = mark
            return self._entries


def _spend(password: bytes, entry: UserEntry | None, most: int) -> None:
    """Hash until each login takes as long as the most expensive hash: times reveal no user."""
    for cost in range(entry.cost, most) if entry else (most,):
        bcrypt.hashpw(password, b"$2b$%02d$" % cost + b"." * 22)


def parse_users(data: bytes, file: str) -> dict[str, UserEntry]:
    """Return the entries of a file of users by name; InputError names the invalid line."""
    entries: dict[str, UserEntry] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, form = f"line {number}", "name:hash:role"
        name, hashed, role, *_ = (*line.strip().split(":", 2), "", "")
        if not _NAME.fullmatch(name):
            raise InputError(file, place, "no user name", form)
        if not re.fullmatch(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}", hashed):
            hint = "create one with htpasswd -nB NAME"
            raise InputError(file, place, "an invalid bcrypt hash", form, hint)
        known = next((one for one in ROLES if one == (role or "member")), None)
        if known is None:
            raise InputError(file, place, repr(role), " or ".join(ROLES))
        if name in entries:
            raise InputError(file, place, f"user {name!r} twice", "each user once")
        entries[name] = UserEntry(User(name, known), hashed.encode())
    if not entries:
        raise InputError(file, "", "no user", "at least one line name:hash:role")
    return entries


def basic_credentials(authorization: str | None, most: int) -> tuple[str, bytes]:
    """Return name and password of HTTP basic; Unauthenticated if invalid or over ``most`` bytes."""
    if not authorization:
        raise Unauthenticated("this service requires a user name and a password: use HTTP basic")
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        if not colon or b"\0" in password or len(password) > most:
            raise ValueError
        return name.decode(), password
    except (ValueError, binascii.Error):
        raise Unauthenticated("the header Authorization is not HTTP basic") from None
