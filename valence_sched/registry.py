# SPDX-License-Identifier: Apache-2.0
"""The registry: pod managers that an operator named, in the state and in files of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from valence_sched import credentials
from valence_sched.configuration import Configuration
from valence_sched.core import plugins
from valence_sched.credentials import SecureFile
from valence_sched.errors import (
    DuplicateId,
    InputError,
    NameTaken,
    SchedulerError,
    StoreError,
    UnknownName,
    UsageError,
)
from valence_sched.model import address
from valence_sched.model.documents import decode, load_yaml
from valence_sched.model.inventory import to_json
from valence_sched.model.live import Live
from valence_sched.model.podms import check, podms
from valence_sched.model.registered import Password, Registered

if TYPE_CHECKING:
    from valence_sched.store.store import Store

AUTO = "auto"  # the driver that asks the pod manager what it speaks
STATE = "VALENCE_SCHED_STATE"

_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///([^?]*)")
_PASSWORD = re.compile(r"(//[^/@]*?):[^/]*@")


class Member(NamedTuple):
    """One registered pod manager, and where that stands; ``kept`` when the state remembers it."""

    registered: Registered
    file: str
    kept: bool


class Registry:
    """Pod managers by name: those of the state, those of a person's files, and a cloud's.

    Nothing is written, and no state made, until something is registered or remembered.
    """

    def __init__(self, configuration: Configuration, state: str | None = None) -> None:
        if state is not None and _PASSWORD.search(state):
            raise UsageError(f"--state: every user of this machine sees a password that stands on "
                             f"a command line: put the URL into {STATE}")  # fmt: skip
        self._configuration = configuration
        self._home = _state_home(configuration)
        named = state or configuration.environ.get(STATE)
        self.url = _as_url(named) if named else f"sqlite:///{self._home / 'state.sqlite'}"
        in_file = _SQLITE.fullmatch(self.url)
        self.file = Path(in_file[1]).expanduser() if in_file and in_file[1] else None

    @property
    def where(self) -> str:
        """Return where the state is, without a password."""
        return str(self.file) if self.file else _PASSWORD.sub(r"\1@", self.url)

    @property
    def empty(self) -> bool:
        """Return whether there is no state yet, which asking must not make."""
        return self.file is not None and not self.file.exists()

    @property
    def passwords(self) -> SecureFile:
        """Return the file of the passwords that were typed in, beside the state."""
        if self.file:
            return SecureFile(self.file.with_name(f"{self.file.name}.passwords"))
        bare = _PASSWORD.sub(r"\1@", self.url)
        name = hashlib.blake2b(bare.encode(), digest_size=8).hexdigest()
        return SecureFile(self._home / f"{name}.passwords")

    def store(self) -> Store:
        """Return the state, open; it is made when it is not there.

        Raises:
            StoreError: it cannot be opened.
        """
        from valence_sched.store.store import Store  # SQLAlchemy: only for who has a state

        return Store(self.url)

    def registered(self) -> list[Registered]:
        """Return the pod managers of the state, none when there is no state yet."""
        if self.empty:
            return []
        with self.store() as store:
            return store.registered()

    def get(self, name: str) -> Registered:
        """Return a pod manager of the state.

        Raises:
            UnknownName: there is none of this name.
        """
        found = {one.name: one for one in self.registered()}
        if name not in found:
            raise UnknownName("registered pod manager", name, found, self.where)
        return found[name]

    def create(self, registered: Registered, password: str | None = None) -> None:
        """Register a pod manager, and keep the password that was typed in for it.

        Raises:
            NameTaken: the name is somebody's already.
            InputError: it cannot be one: its URL, its name.
            UnknownName: nobody speaks as its driver says.
        """
        _check(registered)
        with self.store() as store:
            store.register(registered)
            try:
                self._keep(registered, password)
            except SchedulerError:
                store.unregister(registered.name)
                raise

    def check_new(self, registered: Registered) -> None:
        """Refuse what cannot be registered, before anybody types a password for it.

        Raises:
            NameTaken: the name is somebody's already.
            InputError: it cannot be a pod manager: its URL, its name.
            UnknownName: nobody speaks as its driver says.
        """
        _check(registered)
        if registered.name in [one.name for one in self.registered()]:
            raise NameTaken(f"a pod manager named {registered.name!r} is registered already: "
                            "change it with podm set, or choose another name")  # fmt: skip

    def change(self, registered: Registered, password: str | None = None) -> None:
        """Put a pod manager in place of the one that has its name.

        Raises:
            UnknownName: there is none of this name, or nobody speaks as its driver says.
            InputError: it can no longer be one.
        """
        _check(registered)
        with self.store() as store:
            self._keep(registered, password)
            store.change(registered)

    def delete(self, name: str) -> None:
        """Forget a pod manager, what was read of it, and its password.

        Raises:
            UnknownName: there is none of this name.
            InUse: the state holds claims or nodes of it.
            CredentialError: its password cannot be forgotten, so that nothing is.
        """
        self.get(name)
        self.passwords.check()
        with self.store() as store:
            store.unregister(name)
        self.passwords.put(name, None)

    def password(self, registered: Registered) -> str | None:
        """Return the password of a pod manager.

        Raises:
            CredentialError: the reference leads to none, or to one that others can read.
        """
        environ = self._configuration.environ
        return credentials.password(
            registered.password, registered.name, environ, self.passwords
        )  # fmt: skip

    def members(self, live: Live) -> list[Member]:
        """Return the pod managers that a command is about, in the order they are named.

        Files that are named take the place of a person's own one and of the state, unless the
        state is named, too. With a catalogue these are only asked how to log in to what it names.

        Raises:
            DuplicateId: two have one name.
            InputError: a file is not what it must be.
        """
        return only(self.every(live), live.only)

    def uses_state(self, live: Live) -> bool:
        """Return whether a command is about the pod managers of the state."""
        return live.state is not None or not live.podm_files

    def every(self, live: Live) -> list[Member]:
        """Return all members, whichever are chosen; errors as for members."""
        uses_state = self.uses_state(live)
        found = [Member(one, self.where, True) for one in self.registered()] if uses_state else []
        found += [
            Member(one, file, uses_state)
            for file, data in self._files(live)
            for one in read_podms(data, file)
        ]
        if live.catalogue is not None:
            found = list(_of_catalogue(live.catalogue, found))
        _check_names(found)
        return found

    def _files(self, live: Live) -> Iterator[tuple[str, bytes]]:
        own = self._configuration.own("podms.yaml")
        names = live.podm_files or ((str(own),) if own.is_file() else ())
        for name in names:
            yield name, self._configuration.read(name)

    def _keep(self, registered: Registered, password: str | None) -> None:
        stored = registered.password is not None and registered.password.stored
        if password is not None or not stored:
            self.passwords.put(registered.name, password)


def read_podms(data: bytes, file: str) -> list[Registered]:
    """Return the pod managers of a file; paths in it are found from the folder it stands in.

    Raises:
        InputError: it is not what it must be.
        UnknownName: nobody speaks as a driver says.
    """
    folder = Path(file).absolute().parent if file != "-" else Path.cwd()
    found = podms(load_yaml(data, file), file)
    for one in found:
        _check_driver(one, f"{file}: $.podms.{one.name}.driver")
    return [_from(folder, one) for one in found]


def _from(folder: Path, registered: Registered) -> Registered:
    """Return a pod manager whose paths are found from everywhere."""
    changes: dict[str, object] = {}
    if registered.cacert is not None:
        changes["cacert"] = str(folder / Path(registered.cacert).expanduser())
    password = registered.password
    if password is not None and password.file is not None:
        changes["password"] = Password(file=str(folder / Path(password.file).expanduser()))
    return msgspec.structs.replace(registered, **changes)


def _check(registered: Registered) -> None:
    check(registered)
    try:
        decode(to_json(registered), Registered, registered.name[:40])  # as it is read again
    except UnicodeEncodeError:
        raise InputError(registered.name[:40], "", "text that is not Unicode") from None
    _check_driver(registered, "--driver")


def _check_driver(registered: Registered, where: str) -> None:
    if registered.driver != AUTO:
        dialects = plugins.installed(plugins.DIALECTS)
        try:
            dialects.get(registered.driver)
        except UnknownName:
            known = [AUTO, *dialects.found]
            raise UnknownName("driver", registered.driver, known, where) from None


def _check_names(members: list[Member]) -> None:
    first: dict[str, str] = {}
    for one in members:
        name = one.registered.name
        if name in first:
            hint = "give every pod manager a name of its own"
            raise DuplicateId(one.file, "", f"{name!r} again, first in {first[name]}",
                              "a name of its own", hint)  # fmt: skip
        first[name] = one.file


def only(
    members: list[Member], names: tuple[str, ...], others: Collection[str] = ()
) -> list[Member]:
    """Return the members of these names, all without names.

    Raises:
        UnknownName: a name is neither of a member nor of ``others``.
    """
    if not names:
        return members
    known = {*others, *(one.registered.name for one in members)}
    for name in names:
        if name not in known:
            raise UnknownName("pod manager", name, known)
    return [one for one in members if one.registered.name in names]


def _of_catalogue(catalogue: tuple[Registered, ...], known: list[Member]) -> Iterator[Member]:
    for one in catalogue:
        same = [m for m in known if address.same_place(m.registered.url, one.url)]
        yield same[0] if same else Member(one, "the service catalogue", False)


def _as_url(named: str) -> str:
    """Return the URL of a state; a path is one of SQLite."""
    if "://" in named:
        return named
    if not named.strip() or "\0" in named:
        raise StoreError(f"no state is called {named!r}: name a file, or a URL")
    return f"sqlite:///{Path(named).expanduser().absolute()}"


def _state_home(configuration: Configuration) -> Path:
    home = configuration.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(home) / "valence-sched"
