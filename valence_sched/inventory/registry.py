# SPDX-License-Identifier: Apache-2.0
"""Registry: the pod managers that the state, files and a service catalogue register."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.config import podms_file
from valence_sched.config.podms_file import SecureFile, check_registration, parse_podms
from valence_sched.config.settings import NO_HOME, Configuration, user_folder
from valence_sched.core import plugins
from valence_sched.drivers.dialect import addresses, with_identity
from valence_sched.errors import InputError, UnknownName
from valence_sched.model import podm_address
from valence_sched.model.base import digest_of
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.diagnostic import Diagnostic, EffectLog
from valence_sched.model.hardware import StatsReport
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.podm_address import endpoint_key, is_address
from valence_sched.model.profile import hide_passwords
from valence_sched.model.reading import ReadOptions
from valence_sched.model.registration import AUTO, PasswordReference, Registration
from valence_sched.model.zone import ZoneSettings

if TYPE_CHECKING:
    from valence_sched.store.document import Quarantine
    from valence_sched.store.store import Store

T = TypeVar("T")
STATE = "VALENCE_SCHED_STATE"
PROBE_TIMEOUT_S = 5.0  # time limit for reading the identity of a service at its registration
MOST_PROBES = 16  # concurrent readings of identities

_SQLITE = re.compile(r"sqlite(?:\+\w+)?://(?:/([^?]*))?")
_IN_MEMORY = ("", ":memory:")


class Member(NamedTuple):
    """A registered pod manager, the source of its registration, and whether the state has it."""

    registration: Registration
    source: str
    uses_state: bool


def read_podms(data: bytes, file: str) -> list[Registration]:
    folder = Path(file).absolute().parent if file != "-" else Path.cwd()
    found = []
    for one in parse_podms(load_yaml(data, file), file):
        _check_driver(one, f"{file}: $.podms.{one.name}.driver")
        changes: dict[str, object] = {}
        for field in ("cacert", "cert", "key"):
            if (path := getattr(one, field)) is not None:
                changes[field] = str(folder / os.path.expanduser(path))
        if one.password is not None and one.password.file is not None:
            path = folder / os.path.expanduser(one.password.file)
            changes["password"] = PasswordReference(file=str(path))
        found.append(replace(one, **changes))
    return found


def validate_registration(registration: Registration) -> None:
    """Raise InputError for an invalid URL or name, UnknownName for an unknown driver."""
    check_registration(registration)
    try:
        decode(to_json(registration), Registration, registration.name[:40])  # as the state does
    except UnicodeEncodeError:
        raise InputError(registration.name[:40], "", "text that is not Unicode") from None
    _check_driver(registration, "--driver")


def _check_driver(registration: Registration, where: str) -> None:
    if registration.driver != AUTO:
        dialects = plugins.load(plugins.DIALECTS)
        try:
            dialects.get(registration.driver)
        except UnknownName:
            known = [AUTO, *dialects.by_name]
            raise UnknownName("driver", registration.driver, known, where) from None


def select_members(
    members: list[Member], names: tuple[str, ...], others: Collection[str] = ()
) -> list[Member]:
    """Return the members of these names, or all; UnknownName unless it is one of ``others``."""
    if not names:
        return members
    known = {*others, *(one.registration.name for one in members)}
    for name in names:
        if name not in known:
            raise UnknownName("pod manager", name, known)
    return [one for one in members if one.registration.name in names]


def named_by_service(
    found: Iterable[tuple[Registration, str | None]], names: Mapping[str, str]
) -> Iterator[Registration]:
    """Yield the pod managers of a catalogue with names derived from their services.

    ``names`` has the names in the state by identity. A pod manager that does not answer, or that is
    a second endpoint of a service, keeps the name of its endpoint.
    """
    used_names: set[str] = set()
    for one, identity in found:
        name, prefix = one.name, one.zone or "podm"
        if identity is not None:
            if name != prefix:  # an endpoint that is alone in its region has the region's name
                name = f"{prefix}-{digest_of(identity.encode(), 6)}"
            name = names.get(identity, name)
        yield one if name in used_names else replace(one, name=name, identity=identity)
        used_names.add(name)


def catalogue_members(catalogue: tuple[Registration, ...], known: list[Member]) -> Iterator[Member]:
    """Yield the members of a catalogue: for each, the ``known`` member of the same endpoint.

    Without one, yields the known member of the same name, which is the same service at another URL;
    else a new member. A known member without a zone gets its region as zone.
    """
    for one in catalogue:
        same = [m for m in known if endpoint_key(m.registration.url) == endpoint_key(one.url)]
        same += [m for m in known if m.registration.name == one.name]
        if not same:
            yield Member(one, "the service catalogue", False)
        elif (registration := same[0].registration).zone is None:
            yield same[0]._replace(registration=replace(registration, zone=one.zone))
        else:
            yield same[0]


class Registry:
    """The registered pod managers of the state, of the user's files, and of a cloud, by name.

    ``variable`` is the environment variable that names the state, if any. The state is created when
    the first pod manager is registered or stored. ``shared`` returns the store that a process keeps
    open for all its calls.
    """

    def __init__(
        self,
        config: Configuration,
        state: str | None = None,
        quarantine: Quarantine | None = None,
        shared: Callable[[], Store] | None = None,
    ) -> None:
        if state is not None and hide_passwords(state) != state:
            text = "every user of this machine can see a password on a command line"
            raise errors.UsageError(f"--state: {text}: put the URL into {STATE}")
        self._config, self._quarantine, self._shared = config, quarantine, shared
        self._home = user_folder("state", config.environ)
        url = state or config.environ.get(STATE)
        self.variable = config.origin(STATE) if url and not state else None
        with errors.errors_at(self.variable):
            if url and "://" not in url and (not url.strip() or "\0" in url):
                raise errors.StoreError(f"{url!r} is not a state: name a file, or a URL")
            file = Path(os.path.expanduser(url)).absolute() if url else self._home / "state.sqlite"
            path = str(file).replace("%", "%25").replace("?", "%3F")
            self.url = url if url and "://" in url else f"sqlite:///{path}"
            in_file = _SQLITE.match(self.url)
            if in_file and unquote(in_file[1] or "") in _IN_MEMORY:
                hint = "name a file, or the URL of a database"
                raise errors.UsageError(f"the state {self.url!r} ends with this command: {hint}")
        alone = in_file is not None and in_file.end() == len(self.url)
        self.file = Path(os.path.expanduser(unquote(in_file[1]))) if in_file and alone else None

    @property
    def where(self) -> str:
        return str(self.file) if self.file else hide_passwords(self.url)

    @property
    def empty(self) -> bool:
        """Return whether the state does not exist yet; opening the store would create it."""
        if self.file is None:
            return False
        try:
            self.file.stat()
        except OSError as error:  # opening the store names any other error
            return isinstance(error, FileNotFoundError)
        return False

    @property
    def passwords(self) -> SecureFile:
        if self.file:
            return SecureFile(self.file.with_name(f"{self.file.name}.passwords"))
        name = digest_of(self.where.encode(), 8)
        return SecureFile(self._home / f"{name}.passwords")

    def zone_keys(self, settings: ZoneSettings, *, make: bool = True) -> list[str]:
        """Return the secrets that sign offers and plans of this state's zone, the newest last.

        If the settings name no secret, a file next to the state has it; ``make`` creates the file.
        CredentialError if a secret cannot be read, or if the state is on a database server.
        """
        references, what = settings.secrets, "zones: secrets"
        if not references and self.file is not None:
            path, what = self.file.with_name(f"{self.file.name}.zone-key"), "zone"
            if make:
                podms_file.make_secret(path)
            references = (PasswordReference(file=str(path)),) if path.exists() else ()
        elif not references and make:
            text = "zones: secrets is empty, and every process of a zone must have the same secret"
            raise errors.CredentialError(f"{text}: name an env or a file")
        with errors.errors_at(what):
            read, environ = podms_file.read_password, self._config.environ
            return [read(one, what, environ, None) or "" for one in references]

    def store(self, effects: EffectLog | None = None) -> Store:
        """Open the store, or create it; ``effects`` records changes of claims and nodes."""
        from valence_sched.store.store import Store  # SQLAlchemy: only needed to use a state

        with errors.errors_at(self.variable):
            if self.empty and self.file and self.file.is_relative_to(NO_HOME):
                hint = "set HOME or XDG_STATE_HOME, or name a state with --state"
                raise errors.StoreError(f"no home folder for the state: {hint}")
            remark = self._config.remarks.append
            return Store(self.url, effects=effects, remark=remark, quarantine=self._quarantine)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Store]:
        """Yield the shared store of a database server, else one that is closed afterwards.

        A file is opened each time: an open file that was replaced or deleted takes lost writes.
        """
        if self._shared is not None and self.file is None:
            yield self._shared()
            return
        with self.store() as store:
            yield store

    def read(self, read: Callable[[Store], T], without: T) -> T:
        """Return the result of ``read`` on the store; ``without`` if the state does not exist."""
        if self.empty:
            return without
        with self.opened() as store:
            return read(store)

    def registrations(self) -> list[Registration]:
        return self.read(lambda store: store.registrations(), [])

    def reports(self) -> Mapping[str, StatsReport]:
        return self.read(lambda store: store.reports(), {})

    def get(self, name: str) -> Registration:
        """Return a pod manager of the state by its name; else UnknownName."""
        by_name = {one.name: one for one in self.registrations()}
        if name not in by_name:
            raise UnknownName("registered pod manager", name, by_name, self.where)
        return by_name[name]

    def create(
        self, registration: Registration, password: str | None = None, podm: FullPodm | None = None
    ) -> Registration:
        """Register a pod manager, with its identity if it answers; return the registration.

        Stores its typed password, and its reading ``podm`` if given. Errors as for
        :meth:`check_new`, and IdentityConflict if the service is registered under another name.
        """
        validate_registration(registration)
        found = (podm and podm.identity) or self._find_identity(registration, password)
        registration = replace(registration, identity=found)
        self._check_service(registration)
        with self.opened() as store:
            store.register(registration)
            try:
                self._store_password(registration, password)
                if podm is not None:
                    store.remember(with_identity(podm))
            except errors.SchedulerError:
                store.unregister(registration.name)
                raise
        return registration

    def check_new(self, registration: Registration) -> None:
        """Check a registration before the user types a password for it.

        Raises NameTaken if another pod manager has the name, InputError for an invalid URL, name or
        certificate, and UnknownName for an unknown driver.
        """
        validate_registration(registration)
        _check_certificates(registration)
        if registration.name in [one.name for one in self.registrations()]:
            text = f"a pod manager named {registration.name!r} is already registered"
            hint = "change it with podm set, or choose another name"
            raise errors.NameTaken(f"{text}: {hint}")

    def check(
        self, registration: Registration, password: str | None, timeout_s: float
    ) -> tuple[FullPodm, tuple[Diagnostic, ...]]:
        """Read a pod manager before its registration, and return its reading.

        Its devices are cached for the next reading. PodmError if it cannot be read, CredentialError
        if its password cannot be read.
        """
        from valence_sched.drivers.crawl import pool, reading  # HTTP: only needed to read

        target = reading.ReadTarget(registration, password or self.password(registration))
        cache = user_folder("cache", self._config.environ)
        settings = reading.ReadSettings(timeout_s=timeout_s, cache=cache, raw=False)
        (found,) = pool.read([target], plugins.InstalledPlugins(plugins.DIALECTS), settings)
        if found.failure is not None:
            reason = found.failure.removeprefix(f"{registration.name}: ")
            text = f"{registration.name} is not registered: {reason}"
            raise errors.PodmError(f"{text} (--no-check registers it without reading)")
        return found.podm, found.diagnostics

    def change(self, registration: Registration, password: str | None = None) -> None:
        """Replace the registration of the same name; the next reading sets a missing identity.

        Raises InputError if it is invalid, UnknownName if the name is not registered, and
        IdentityConflict if the service at the new URL is another one, or has another name.
        """
        validate_registration(registration)
        known = self.get(registration.name)
        if _tls_files(registration) != _tls_files(known):
            _check_certificates(registration)
        if endpoint_key(known.url) != endpoint_key(registration.url):
            found = self._find_identity(registration, password)
            if found and known.identity and not is_address(known.identity):
                if found != known.identity:
                    text = podm_address.change_text(known.name, known.identity, found)
                    raise errors.IdentityConflict(text)
            elif found or is_address(known.identity):
                registration = replace(registration, identity=found)
            self._check_service(registration)
        with self.opened() as store:
            self._store_password(registration, password)
            store.change(registration)

    def delete(self, name: str) -> None:
        """Delete a pod manager, registered or only read, with its readings and password.

        Raises UnknownName for an unknown name, InUse if the state has claims or nodes of it, and
        CredentialError, without deleting anything, if its password cannot be deleted.
        """
        if self.empty:
            self.get(name)
        self.passwords.check()
        with self.opened() as store:
            if not store.load_podms([name]):
                self.get(name)
            store.unregister(name)
        self.passwords.put(name, None)

    def named_catalogue(self, catalogue: Sequence[Registration]) -> tuple[Registration, ...]:
        """Return the pod managers of a catalogue with names derived from their services.

        A pod manager that does not answer has the name that the state has for its URL.
        """
        with ThreadPoolExecutor(MOST_PROBES) as threads:
            identities = list(threads.map(lambda one: self._find_identity(one, None), catalogue))
        pairs = zip(catalogue, identities, strict=True)
        if self.empty:
            return tuple(named_by_service(pairs, {}))
        with self.opened() as store:
            names = {identity: name for name, identity in store.identities().items()}
            stored = store.load_podms().values() if None in identities else ()
        known = {endpoint_key(one.url): one.identity for one in stored if one.url}
        found = [(one, identity or known.get(endpoint_key(one.url))) for one, identity in pairs]
        return tuple(named_by_service(found, names))

    def password(self, registration: Registration) -> str | None:
        reference, name = registration.password, registration.name
        return podms_file.read_password(reference, name, self._config.environ, self.passwords)

    def _find_identity(self, registration: Registration, password: str | None) -> str | None:
        from valence_sched.drivers.connect import probe_identity  # HTTP: only needed to register

        try:
            password = password or self.password(registration)
        except errors.CredentialError:
            password = None  # most services show their identity without a login
        try:
            return probe_identity(registration, password, PROBE_TIMEOUT_S)
        except (errors.PodmError, InputError):
            return None

    def _check_service(self, registration: Registration) -> None:
        for other in self.registrations():
            if other.name != registration.name and (one := _common(registration, other)):
                text = podm_address.conflict_text(registration.name, one, other.name)
                raise errors.IdentityConflict(text)

    def members(self, live: ReadOptions) -> list[Member]:
        """Return the pod managers that a command applies to, in the order of their names.

        Named files replace the user's own file, and also the state unless it is named. With a
        catalogue, the files and the state only provide logins. DuplicateId for a repeated name,
        InputError for an invalid file.
        """
        return select_members(self.all_members(live), live.only)

    def uses_state(self, live: ReadOptions) -> bool:
        return live.state is not None or not live.podm_files

    def all_members(self, live: ReadOptions) -> list[Member]:
        uses_state = self.uses_state(live)
        registrations = self.registrations() if uses_state else []
        found = [Member(one, self.where, True) for one in registrations]
        for file in live.podm_files or filter(None, [self._config.own_file("podms.yaml")]):
            data, name = self._config.read(file)
            found += [Member(one, name, uses_state) for one in read_podms(data, name)]
        if live.catalogue is not None:
            found = list(catalogue_members(live.catalogue, found))
        first: dict[str, str] = {}
        for one, source, _ in found:
            if one.name in first:
                text = f"{one.name!r} again, first in {first[one.name]}"
                hint = "give every pod manager a unique name"
                raise errors.DuplicateId(source, "", text, "a unique name", hint)
            first[one.name] = source
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
            reason = errors.plain_reason(error)
            raise InputError(file, "", reason, "certificates or a key in PEM") from None


def _common(registration: Registration, other: Registration) -> str | None:
    known, others = registration.identity, other.identity
    if known and others and not (is_address(known) or is_address(others)):
        return known if known == others else None
    if endpoint_key(registration.url)[2] != endpoint_key(other.url)[2]:  # another port
        return None
    common = addresses(registration.url) & addresses(other.url)
    return f"{podm_address.ADDRESS_KIND}{min(common)}" if common else None
