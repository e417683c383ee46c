# SPDX-License-Identifier: Apache-2.0
"""Registry: registered pod managers of the state, of files and of a catalogue."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec.structs import replace

from valence_sched.config import credentials
from valence_sched.config.credentials import SecureFile
from valence_sched.config.settings import NO_HOME, Configuration, Homes
from valence_sched.core import plugins
from valence_sched.drivers.identity import addresses, with_identity
from valence_sched.errors import (
    CredentialError,
    IdentityConflict,
    InputError,
    NameTaken,
    PodmError,
    SchedulerError,
    StoreError,
    UnknownName,
    UsageError,
    errors_at,
    one_line,
)
from valence_sched.inventory import members
from valence_sched.inventory.members import Member
from valence_sched.model.effect import EffectLog
from valence_sched.model.podm_address import (
    ADDRESS_KIND,
    change_text,
    conflict_text,
    endpoint_key,
    is_address,
    same_endpoint,
)
from valence_sched.model.reading import ReadOptions
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.model.zone import ZoneSettings

if TYPE_CHECKING:
    from valence_sched.model.diagnostic import Diagnostic
    from valence_sched.model.inventory import FullPodm
    from valence_sched.store.document import Quarantine
    from valence_sched.store.store import Store

STATE = "VALENCE_SCHED_STATE"
PROBE_TIMEOUT_S = 5.0  # how long a service has to tell its identity when it is registered
MOST_PROBES = 16  # at a time

_SQLITE = re.compile(r"sqlite(?:\+\w+)?://(?:/([^?]*))?")
_IN_MEMORY = ("", ":memory:")
_PASSWORD = re.compile(r"(//[^/@:]*):[^/]*@")


class Registry:
    """Registered pod managers by name: of the state, of the user's files, and of a cloud.

    ``variable`` is the variable of the environment that names the state, None where none does.

    The registry writes nothing, and creates no state, until a pod manager is registered or
    stored.
    """

    def __init__(
        self, config: Configuration, state: str | None = None, quarantine: Quarantine | None = None
    ) -> None:
        if state is not None and _PASSWORD.search(state):
            text = "every user of this machine sees a password that stands on a command line"
            raise UsageError(f"--state: {text}: put the URL into {STATE}")
        self._config, self._quarantine = config, quarantine
        self._home = Homes(config.environ).state
        url = state or config.environ.get(STATE)
        self.variable = STATE if url and not state else None
        with errors_at(self.variable):
            if url and "://" not in url and (not url.strip() or "\0" in url):
                raise StoreError(f"no state is called {url!r}: name a file, or a URL")
            file = Path(os.path.expanduser(url)).absolute() if url else self._home / "state.sqlite"
            self.url = url if url and "://" in url else _file_url(file)
            in_file = _SQLITE.match(self.url)
            if in_file and unquote(in_file[1] or "") in _IN_MEMORY:
                hint = "name a file, or the URL of a database"
                raise UsageError(f"the state {self.url!r} ends with this command: {hint}")
        alone = in_file is not None and in_file.end() == len(self.url)
        self.file = Path(os.path.expanduser(unquote(in_file[1]))) if in_file and alone else None

    @property
    def where(self) -> str:
        return str(self.file) if self.file else _PASSWORD.sub(r"\1@", self.url)

    @property
    def empty(self) -> bool:
        """Return whether there is no state yet; opening the store would create it."""
        return self.file is not None and not self.file.exists()

    @property
    def passwords(self) -> SecureFile:
        """Return the file of the typed passwords, beside the state."""
        if self.file:
            return SecureFile(self.file.with_name(f"{self.file.name}.passwords"))
        name = hashlib.blake2b(self.where.encode(), digest_size=8).hexdigest()
        return SecureFile(self._home / f"{name}.passwords")

    def zone_keys(self, settings: ZoneSettings, *, make: bool = True) -> list[str]:
        """Return the secrets that sign what the zone of this state offers and plans, newest last.

        Where no settings name one it is made, if that is wanted, and kept in a file beside the
        state that its owner alone can read.

        Raises:
            CredentialError: one cannot be had; a state on a database server has no file beside it.
        """
        references, what = settings.secrets, "zones: secrets"
        if not references and self.file is not None:
            path, what = self.file.with_name(f"{self.file.name}.zone-key"), "zone"
            if make:
                credentials.make_secret(path)
            references = (PasswordReference(file=str(path)),) if path.exists() else ()
        elif not references and make:
            why = "every process of a zone must have the same secret"
            raise CredentialError(f"zones: secrets is empty, and {why}: name an env or a file")
        with errors_at(what):
            read, environ = credentials.read_password, self._config.environ
            return [read(one, what, environ, None) or "" for one in references]

    def store(self, effects: EffectLog | None = None) -> Store:
        """Return the open store, created if missing; StoreError if it cannot be opened.

        What its claims and nodes become is noted in ``effects``.
        """
        from valence_sched.store.store import Store  # SQLAlchemy: only to use a state

        with errors_at(self.variable):
            if self.empty and self.file and self.file.is_relative_to(NO_HOME):
                hint = "set HOME or XDG_STATE_HOME, or name a state with --state"
                raise StoreError(f"no home folder for the state: {hint}")
            remark = self._config.remarks.append
            return Store(self.url, effects=effects, remark=remark, quarantine=self._quarantine)

    def registrations(self) -> list[Registration]:
        """Return the pod managers of the state, none when there is no state yet."""
        if self.empty:
            return []
        with self.store() as store:
            return store.registrations()

    def get(self, name: str) -> Registration:
        """Return a pod manager of the state; UnknownName if none has this name."""
        by_name = {one.name: one for one in self.registrations()}
        if name not in by_name:
            raise UnknownName("registered pod manager", name, by_name, self.where)
        return by_name[name]

    def create(
        self, registration: Registration, password: str | None = None, podm: FullPodm | None = None
    ) -> Registration:
        """Register a pod manager with the identity that it tells, if it answers; return it.

        Its typed password is stored, and so is ``podm``, what was just read of it: who decides on
        the state need not wait for its next reading. Errors as for :meth:`check_new`, and
        IdentityConflict if the service is registered under another name.
        """
        members.validate_registration(registration)
        found = (podm and podm.identity) or self._find_identity(registration, password)
        registration = replace(registration, identity=found)
        self._check_service(registration)
        with self.store() as store:
            store.register(registration)
            try:
                self._store_password(registration, password)
                if podm is not None:
                    store.remember(with_identity(podm))
            except SchedulerError:
                store.unregister(registration.name)
                raise
        return registration

    def check_new(self, registration: Registration) -> None:
        """Refuse an invalid registration before the user types a password for it.

        Raises:
            NameTaken: another pod manager has the name.
            InputError, UnknownName: its URL or name is invalid, or its certificates cannot be read;
                its driver is unknown.
        """
        members.validate_registration(registration)
        _check_certificates(registration)
        if registration.name in [one.name for one in self.registrations()]:
            hint = "change it with podm set, or choose another name"
            raise NameTaken(
                f"a pod manager named {registration.name!r} is registered already: {hint}"
            )

    def check(
        self, registration: Registration, password: str | None, timeout_s: float
    ) -> tuple[FullPodm, tuple[Diagnostic, ...]]:
        """Log in to a pod manager that is not registered yet, and return it as it is read once.

        Its devices are kept for the next reading, which need not read them again.

        Raises:
            PodmError: it could not be read; the message says why.
            CredentialError: its password cannot be had.
        """
        from valence_sched.drivers.crawl import pool  # HTTP: only to read
        from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget

        target = ReadTarget(registration, password or self.password(registration))
        cache = Homes(self._config.environ).cache
        settings = ReadSettings(timeout_s=timeout_s, cache=cache, raw=False)
        (reading,) = pool.read([target], plugins.installed(plugins.DIALECTS), settings)
        if reading.failure is not None:
            reason = reading.failure.removeprefix(f"{registration.name}: ")
            text = f"{registration.name} is not registered: {reason}"
            raise PodmError(one_line(f"{text} (--no-check registers it unread)"))
        return reading.podm, reading.diagnostics

    def change(self, registration: Registration, password: str | None = None) -> None:
        """Replace the registration of the same name; without identity the next one counts.

        Raises:
            InputError, UnknownName: it is invalid; there is none of this name.
            IdentityConflict: another service answers at a new URL, or one of another name.
        """
        members.validate_registration(registration)
        known = self.get(registration.name)
        if _tls_files(registration) != _tls_files(known):
            _check_certificates(registration)
        if not same_endpoint(known.url, registration.url):
            found = self._find_identity(registration, password)
            if found and known.identity and not is_address(known.identity):
                if found != known.identity:
                    raise IdentityConflict(change_text(known.name, known.identity, found))
            elif found or is_address(known.identity):
                registration = replace(registration, identity=found)
            self._check_service(registration)
        with self.store() as store:
            self._store_password(registration, password)
            store.change(registration)

    def delete(self, name: str) -> None:
        """Delete a pod manager, its readings and its password.

        One of a file or a catalogue has readings in the state once it was composed on.

        Raises:
            UnknownName, InUse: none has this name; the state holds claims or nodes of it.
            CredentialError: its password cannot be deleted, so nothing is.
        """
        if self.empty:
            self.get(name)
        self.passwords.check()
        with self.store() as store:
            if not store.load_podms([name]):
                self.get(name)
            store.unregister(name)
        self.passwords.put(name, None)

    def named_catalogue(self, catalogue: Sequence[Registration]) -> tuple[Registration, ...]:
        """Return the pod managers of a catalogue named after the services that answer.

        One that does not answer has the name that the state knows for its URL.
        """
        with ThreadPoolExecutor(MOST_PROBES) as threads:
            identities = list(threads.map(lambda one: self._find_identity(one, None), catalogue))
        if self.empty:
            return tuple(members.named_by_service(zip(catalogue, identities, strict=True), {}))
        with self.store() as store:
            names = {identity: name for name, identity in store.identities().items()}
            stored = store.load_podms().values() if None in identities else ()
        known = {endpoint_key(one.url): one.identity for one in stored if one.url}
        pairs = zip(catalogue, identities, strict=True)
        found = [(one, identity or known.get(endpoint_key(one.url))) for one, identity in pairs]
        return tuple(members.named_by_service(found, names))

    def password(self, registration: Registration) -> str | None:
        """Return the password of a pod manager; CredentialError as for a reference."""
        reference, name = registration.password, registration.name
        return credentials.read_password(reference, name, self._config.environ, self.passwords)

    def _find_identity(self, registration: Registration, password: str | None) -> str | None:
        from valence_sched.drivers.connect import probe_identity  # HTTP: only to register

        try:
            password = password or self.password(registration)
        except CredentialError:
            password = None  # the root of most services needs none
        try:
            return probe_identity(registration, password, PROBE_TIMEOUT_S)
        except (PodmError, InputError):
            return None

    def _check_service(self, registration: Registration) -> None:
        for other in self.registrations():
            if other.name != registration.name and (one := _common(registration, other)):
                text = conflict_text(registration.name, one, other.name)
                raise IdentityConflict(one_line(text))

    def members(self, live: ReadOptions) -> list[Member]:
        """Return the pod managers that a command applies to, in the order they are named.

        Named files replace the user's own file and the state, unless the state is named, too.
        With a catalogue they only say how to log in to the pod managers that it lists.

        Raises:
            DuplicateId, InputError: two have one name; a file breaks its format.
        """
        return members.select_members(self.all_members(live), live.only)

    def uses_state(self, live: ReadOptions) -> bool:
        """Return whether a command applies to the pod managers of the state."""
        return live.state is not None or not live.podm_files

    def all_members(self, live: ReadOptions) -> list[Member]:
        """Return all members, selected or not; errors as for members."""
        uses_state = self.uses_state(live)
        registrations = self.registrations() if uses_state else []
        found = [Member(one, self.where, True) for one in registrations]
        own = self._config.user_file("podms.yaml")
        for file in live.podm_files or ((str(own),) if own.is_file() else ()):
            podms = members.read_podms(self._config.read(file), file)
            found += [Member(one, file, uses_state) for one in podms]
        if live.catalogue is not None:
            found = list(members.catalogue_members(live.catalogue, found))
        members.check_names(found)
        return found

    def _store_password(self, registration: Registration, password: str | None) -> None:
        stored = registration.password is not None and registration.password.stored
        if password is not None or not stored:
            self.passwords.put(registration.name, password)


def _tls_files(registration: Registration) -> tuple[str | None, ...]:
    return registration.cacert, registration.cert, registration.key


def _check_certificates(registration: Registration) -> None:
    for file in filter(None, _tls_files(registration)):
        try:
            with open(file, "rb") as stream:
                stream.read(1)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise InputError(file, "", reason, "certificates or a key in PEM") from None


def _common(registration: Registration, other: Registration) -> str | None:
    """Return the identity that two registrations have in common, None where they have none.

    Two UUIDs tell them apart, whatever their addresses. Else one address is one service.
    """
    known, others = registration.identity, other.identity
    if known and others and not (is_address(known) or is_address(others)):
        return known if known == others else None
    if endpoint_key(registration.url)[2] != endpoint_key(other.url)[2]:  # another port
        return None
    common = addresses(registration.url) & addresses(other.url)
    return f"{ADDRESS_KIND}{min(common)}" if common else None


def _file_url(file: Path) -> str:
    path = str(file).replace("%", "%25").replace("?", "%3F")
    return f"sqlite:///{path}"
