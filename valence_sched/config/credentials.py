# SPDX-License-Identifier: Apache-2.0
"""Credentials: resolves password references, and keeps the secure file."""

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from valence_sched import files
from valence_sched.errors import CredentialError
from valence_sched.model.registration import PasswordReference

MAX_PASSWORD_BYTES = 1 << 16  # of a file with one password
MAX_SECURE_FILE_BYTES = 1 << 24
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecureFile:
    """A private file of passwords by pod manager; CredentialError if others can access it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, name: str) -> str:
        value = self._read().get(name)
        if not value:
            hint = "type it again with podm set NAME --password-prompt"
            raise CredentialError(f"{self.path} holds no password for it: {hint}")
        return value

    def check(self) -> None:
        """Check that :meth:`put` can change the file."""
        if self.path.exists():
            self._read()

    def put(self, name: str, password: str | None) -> None:
        """Store a password, or with None delete it; the file is written whole or not at all."""
        if password is None and not self.path.exists():
            return
        with _locked(self.path):
            passwords = self._read() if self.path.exists() else {}
            passwords.pop(name, None)
            if password is not None:
                passwords[name] = password
            with files.atomic(self.path, mode=0o600) as stream:
                stream.write(json.dumps(passwords, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, str]:
        data = _read_private(self.path, MAX_SECURE_FILE_BYTES)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            passwords = {name: value for name, value in document.items() if isinstance(value, str)}
            if len(passwords) == len(document):
                return passwords
        hint = "delete it, and type the passwords again"
        raise CredentialError(f"{self.path} is not a password file of podm create: {hint}")


def make_secret(path: Path) -> None:
    """Make a file with a random secret unless it exists; of several processes one makes it."""
    if path.exists():
        return
    with _locked(path):
        if not path.exists():
            with files.atomic(path, mode=0o600) as stream:
                stream.write(secrets.token_hex(32).encode())


def read_password(
    reference: PasswordReference | None,
    name: str,
    environ: Mapping[str, str],
    secure_file: SecureFile | None,
) -> str | None:
    """Return the password of a reference, None without one; no error repeats a part of it."""
    if reference is None:
        return None
    if reference.env is not None:
        if value := environ.get(reference.env):
            return value
        state = "is not set" if value is None else "is empty"
        raise CredentialError(f"environment variable {reference.env} of its password {state}")
    if reference.file is None:
        if secure_file is None:
            raise CredentialError("the secure file with its password does not exist")
        return secure_file.get(name)
    path = Path(os.path.expanduser(reference.file))
    data = _read_private(path, MAX_PASSWORD_BYTES)
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CredentialError(f"{path}: its password is not UTF-8 text") from None
    if not text:
        raise CredentialError(f"{path}: the password file is empty")
    if not text.isprintable():
        raise CredentialError(f"{path}: the password is not one line of printable characters")
    return text


def _read_private(path: Path, max_bytes: int) -> bytes:
    try:
        # checks the opened file itself; O_NONBLOCK: a pipe without a writer does not block
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CredentialError(f"{path}: expected a regular file with a password")
            if status.st_uid not in (os.geteuid(), 0):
                hint = f"chown it, and chmod 600 {path}"
                raise CredentialError(f"{path} belongs to another user: {hint}")
            if status.st_mode & OTHERS:
                raise CredentialError(
                    f"{path}: other users can read or change it: chmod 600 {path}"
                )
            data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CredentialError(f"password file {path}: {reason}") from None
    if len(data) > max_bytes:
        raise CredentialError(f"{path}: over {max_bytes:,} bytes, too large for a password file")
    return data


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CredentialError(f"{path}: {reason}") from None
