# SPDX-License-Identifier: Apache-2.0
"""The file of pod managers, the file of typed passwords, and how registrations find passwords."""

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from valence_sched import files
from valence_sched.errors import CredentialError, InputError, plain_reason
from valence_sched.model import codec, decode_error, http, podm_address, registration as nouns
from valence_sched.model.base import Fact
from valence_sched.model.inventory import BlockType, Name, Positive, capabilities_in
from valence_sched.model.need import Taint
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import PasswordReference

MAX_PASSWORD_BYTES = 1 << 16  # size of a file with one password
MAX_SECURE_FILE_BYTES = 1 << 24
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecureFile:
    """A file of passwords by pod manager; CredentialError if other users can access it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, name: str) -> str:
        value = self._read().get(name)
        if not value:
            hint = "type it again with podm set NAME --password-prompt"
            raise CredentialError(f"{self.path} has no password for {name!r}: {hint}")
        return value

    def check(self) -> None:
        """Raise CredentialError if :meth:`put` cannot change the file."""
        if self.path.exists():
            self._read()

    def put(self, name: str, password: str | None) -> None:
        """Store a password, or delete it (None); the file is replaced as a whole."""
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
    """Make a file with a random secret unless it exists; a lock makes this safe for processes."""
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
    """Return the password of a reference, None without one; errors do not show the password."""
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
        # check the file after opening it; with O_NONBLOCK a pipe without a writer does not block
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
        raise CredentialError(f"password file {path}: {plain_reason(error)}") from None
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
        raise CredentialError(f"{path}: {plain_reason(error)}") from None


Variable = Annotated[str, Meta(pattern=nouns.VARIABLE)]
REFERENCE = "password: {env: VARIABLE} or password: {file: PATH}"


class PasswordSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference to a password: an environment variable or a file; never the password itself."""

    env: Variable | None = None
    file: Name | None = None


class PodmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pod manager: its address, its login, and its properties."""

    url: Name
    driver: Name = nouns.AUTO
    username: str | None = None
    password: PasswordSpec | None = None
    auth: nouns.Auth = "auto"
    cacert: Name | None = None
    cert: Name | None = None
    key: Name | None = None
    insecure: bool = False
    enabled: bool = True
    zone: Name | None = None
    aggregates: tuple[Name, ...] = ()
    capabilities: str | dict[Name, Name | tuple[Name, ...]] = {}
    traits: tuple[Name, ...] = ()
    location: str | tuple[str, ...] | None = None
    facts: dict[Name, Fact] = {}
    max_blocks: Positive | dict[BlockType, Positive] = {}
    parallel_composes: nouns.ParallelComposes = nouns.PARALLEL_COMPOSES
    hosts: nouns.Hosts = "unmanaged"
    reserved: dict[Name, nouns.Reason] = {}
    taints: dict[Name, tuple[Taint, ...]] = {}


class PodmFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pod managers by name; the name is the id in every inventory."""

    podms: dict[Name, PodmSpec]


def parse_podms(document: Any, file: str) -> list[nouns.Registration]:
    """Return the pod managers of a file; paths stay as written, errors do not show passwords."""
    decode_error.refuse_other_kind(document, "podms", file)
    if not isinstance(document, dict) or not isinstance(document.get("podms"), dict):
        raise InputError(file, "$", "no map 'podms'", "podms: {NAME: {url: …}}")
    for word in document:
        if word != "podms":
            raise InputError(file, "$", f"unknown field {word!r}", "only 'podms'")
    return [_registration(name, entry, file) for name, entry in document["podms"].items()]


def check_registration(registration: nouns.Registration, file: str = "", path: str = "") -> None:
    """Raise InputError for an invalid name or URL, or for fields that contradict each other."""
    name = registration.name
    if not name.isprintable() or name != name.strip() or name.startswith("-"):
        raise InputError(file or "name", path, repr(name[:40]), "a name of printable characters")
    if problem := podm_address.url_problem(registration.url):
        raise InputError(file or "url", f"{path}.url" if path else "", problem)
    if registration.cacert is not None and registration.insecure:
        raise InputError(file or name, path, "both cacert and insecure", "one of them")
    if problem := http.file_problem(registration.cert, registration.key):
        raise InputError(file or name, path, problem)
    if registration.password is not None and not registration.username:
        raise InputError(file or name, path, "a password without a username", "both")


def _check_secrets(entry: dict[Any, Any], file: str, path: str) -> None:
    """Raise InputError for a password in place of a reference; the error does not show it."""
    url = entry.get("url")
    if isinstance(url, str) and (problem := podm_address.url_problem(url)):
        raise InputError(file, f"{path}.url", problem)
    password = entry.get("password")
    if password is None:
        return
    path = f"{path}.password"
    if not isinstance(password, dict):
        raise InputError(file, path, "a password", "a reference to one", f"write {REFERENCE}")
    values = [value for value in password.values() if value is not None]
    if not all(isinstance(value, str) for value in values):
        raise InputError(file, path, "a value other than text", "a reference", f"write {REFERENCE}")
    known = {"env", "file"}
    if known.issuperset(password) and len(values) != 1:
        found = format_count(len(values), "reference")
        raise InputError(file, path, found, "1 reference", f"write {REFERENCE}")
    if not nouns.is_variable(password.get("env") or "_"):
        raise InputError(file, f"{path}.env", "an invalid environment variable name", REFERENCE)


def _registration(name: str, entry: Any, file: str) -> nouns.Registration:
    path = f"$.podms.{name}"
    if not name:
        raise InputError(file, path, repr(name), "a name")
    if not isinstance(entry, dict):
        raise InputError(file, path, "no map", "a map with a url")
    _check_secrets(entry, file, path)
    spec = codec.convert(entry, PodmSpec, file, path)
    if spec.location is not None and "location" in spec.facts:
        raise InputError(file, f"{path}.location", "location and facts.location", "one of them")
    fields = asdict(spec)
    location, password, most = fields.pop("location"), spec.password, spec.max_blocks
    if password is not None:
        fields["password"] = nouns.PasswordReference(env=password.env, file=password.file)
    if location is not None:
        fields["facts"] = {**spec.facts, "location": location}
    fields["url"] = podm_address.strip_service_root(spec.url)
    fields["max_blocks"] = nouns.max_blocks_of(most) if isinstance(most, int) else most
    if isinstance(spec.capabilities, str):
        fields["capabilities"] = capabilities_in(spec.capabilities, file, path)
    else:
        named = spec.capabilities.items()
        fields["capabilities"] = {key: (it,) if isinstance(it, str) else it for key, it in named}
    registration = nouns.Registration(name=name, **fields)
    check_registration(registration, file, path)
    return registration
