# SPDX-License-Identifier: Apache-2.0
"""The registry: pod managers that an operator named, in the state and in files of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from valence_sched.config import credentials
from valence_sched.config.credentials import SecureFile
from valence_sched.config.settings import Configuration, Homes
from valence_sched.errors import (
    NameTaken,
    SchedulerError,
    StoreError,
    UnknownName,
    UsageError,
)
from valence_sched.inventory.members import (
    Member,
    catalogue_members,
    check_names,
    read_podms,
    select_members,
    validate_registration,
)
from valence_sched.model.read_options import ReadOptions
from valence_sched.model.registration import Registration

if TYPE_CHECKING:
    from valence_sched.store.store import Store

STATE = "VALENCE_SCHED_STATE"

_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///([^?]*)")
_PASSWORD = re.compile(r"(//[^/@]*?):[^/]*@")


class Registry:
    """Pod managers by name: those of the state, those of a person's files, and a cloud's.

    Nothing is written, and no state made, until something is registered or remembered.
    """

    def __init__(self, configuration: Configuration, state: str | None = None) -> None:
        if state is not None and _PASSWORD.search(state):
            raise UsageError(f"--state: every user of this machine sees a password that stands on "
                             f"a command line: put the URL into {STATE}")  # fmt: skip
        self._configuration = configuration
        self._home = Homes(configuration.environ).state
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

    def registrations(self) -> list[Registration]:
        """Return the pod managers of the state, none when there is no state yet."""
        if self.empty:
            return []
        with self.store() as store:
            return store.registrations()

    def get(self, name: str) -> Registration:
        """Return a pod manager of the state.

        Raises:
            UnknownName: there is none of this name.
        """
        found = {one.name: one for one in self.registrations()}
        if name not in found:
            raise UnknownName("registered pod manager", name, found, self.where)
        return found[name]

    def create(self, registration: Registration, password: str | None = None) -> None:
        """Register a pod manager, and keep the password that was typed in for it.

        Raises:
            NameTaken: the name is somebody's already.
            InputError: it cannot be one: its URL, its name.
            UnknownName: nobody speaks as its driver says.
        """
        validate_registration(registration)
        with self.store() as store:
            store.register(registration)
            try:
                self._store_password(registration, password)
            except SchedulerError:
                store.unregister(registration.name)
                raise

    def check_new(self, registration: Registration) -> None:
        """Refuse what cannot be registered, before anybody types a password for it.

        Raises:
            NameTaken: the name is somebody's already.
            InputError: it cannot be a pod manager: its URL, its name.
            UnknownName: nobody speaks as its driver says.
        """
        validate_registration(registration)
        if registration.name in [one.name for one in self.registrations()]:
            raise NameTaken(f"a pod manager named {registration.name!r} is registered already: "
                            "change it with podm set, or choose another name")  # fmt: skip

    def change(self, registration: Registration, password: str | None = None) -> None:
        """Put a pod manager in place of the one that has its name.

        Raises:
            UnknownName: there is none of this name, or nobody speaks as its driver says.
            InputError: it can no longer be one.
        """
        validate_registration(registration)
        with self.store() as store:
            self._store_password(registration, password)
            store.change(registration)

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

    def password(self, registration: Registration) -> str | None:
        """Return the password of a pod manager.

        Raises:
            CredentialError: the reference leads to none, or to one that others can read.
        """
        environ = self._configuration.environ
        return credentials.read_password(
            registration.password, registration.name, environ, self.passwords
        )  # fmt: skip

    def members(self, live: ReadOptions) -> list[Member]:
        """Return the pod managers that a command is about, in the order they are named.

        Files that are named take the place of a person's own one and of the state, unless the
        state is named, too. With a catalogue these are only asked how to log in to what it names.

        Raises:
            DuplicateId: two have one name.
            InputError: a file is not what it must be.
        """
        return select_members(self.all_members(live), live.only)

    def uses_state(self, live: ReadOptions) -> bool:
        """Return whether a command is about the pod managers of the state."""
        return live.state is not None or not live.podm_files

    def all_members(self, live: ReadOptions) -> list[Member]:
        """Return all members, whichever are chosen; errors as for members."""
        uses_state = self.uses_state(live)
        found = (
            [Member(one, self.where, True) for one in self.registrations()] if uses_state else []
        )
        found += [
            Member(one, file, uses_state)
            for file, data in self._files(live)
            for one in read_podms(data, file)
        ]
        if live.catalogue is not None:
            found = list(catalogue_members(live.catalogue, found))
        check_names(found)
        return found

    def _files(self, live: ReadOptions) -> Iterator[tuple[str, bytes]]:
        own = self._configuration.user_file("podms.yaml")
        names = live.podm_files or ((str(own),) if own.is_file() else ())
        for name in names:
            yield name, self._configuration.read(name)

    def _store_password(self, registered: Registration, password: str | None) -> None:
        stored = registered.password is not None and registered.password.stored
        if password is not None or not stored:
            self.passwords.put(registered.name, password)


def _as_url(named: str) -> str:
    """Return the URL of a state; a path is one of SQLite."""
    if "://" in named:
        return named
    if not named.strip() or "\0" in named:
        raise StoreError(f"no state is called {named!r}: name a file, or a URL")
    return f"sqlite:///{Path(named).expanduser().absolute()}"
