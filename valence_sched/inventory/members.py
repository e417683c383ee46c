# SPDX-License-Identifier: Apache-2.0
"""Who a command is about: pod managers of the state, of files and of a catalogue, each checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from valence_sched.config.podms_file import check_registration, parse_podms
from valence_sched.core import plugins
from valence_sched.errors import DuplicateId, InputError, UnknownName
from valence_sched.model import podm_url
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import AUTO, PasswordReference, Registration


class Member(NamedTuple):
    """One registered pod manager, and where that stands; ``kept`` when the state remembers it."""

    registration: Registration
    source: str
    uses_state: bool


def read_podms(data: bytes, file: str) -> list[Registration]:
    """Return the pod managers of a file; paths in it are found from the folder it stands in.

    Raises:
        InputError: it is not what it must be.
        UnknownName: nobody speaks as a driver says.
    """
    folder = Path(file).absolute().parent if file != "-" else Path.cwd()
    found = parse_podms(load_yaml(data, file), file)
    for one in found:
        _check_driver(one, f"{file}: $.podms.{one.name}.driver")
    return [_with_absolute_paths(folder, one) for one in found]


def _with_absolute_paths(folder: Path, registered: Registration) -> Registration:
    """Return a pod manager whose paths are found from everywhere."""
    changes: dict[str, object] = {}
    if registered.cacert is not None:
        changes["cacert"] = str(folder / Path(registered.cacert).expanduser())
    password = registered.password
    if password is not None and password.file is not None:
        changes["password"] = PasswordReference(file=str(folder / Path(password.file).expanduser()))
    return msgspec.structs.replace(registered, **changes)


def validate_registration(registration: Registration) -> None:
    """Refuse what cannot be registered: its URL, its name, a driver that nobody speaks."""
    check_registration(registration)
    try:
        decode(to_json(registration), Registration, registration.name[:40])  # as it is read again
    except UnicodeEncodeError:
        raise InputError(registration.name[:40], "", "text that is not Unicode") from None
    _check_driver(registration, "--driver")


def _check_driver(registered: Registration, where: str) -> None:
    if registered.driver != AUTO:
        dialects = plugins.load(plugins.DIALECTS)
        try:
            dialects.get(registered.driver)
        except UnknownName:
            known = [AUTO, *dialects.by_name]
            raise UnknownName("driver", registered.driver, known, where) from None


def check_names(members: list[Member]) -> None:
    """Refuse two of one name, with the places of both."""
    first: dict[str, str] = {}
    for one in members:
        name = one.registration.name
        if name in first:
            hint = "give every pod manager a name of its own"
            raise DuplicateId(one.source, "", f"{name!r} again, first in {first[name]}",
                              "a name of its own", hint)  # fmt: skip
        first[name] = one.source


def select_members(
    members: list[Member], names: tuple[str, ...], others: Collection[str] = ()
) -> list[Member]:
    """Return the members of these names, all without names.

    Raises:
        UnknownName: a name is neither of a member nor of ``others``.
    """
    if not names:
        return members
    known = {*others, *(one.registration.name for one in members)}
    for name in names:
        if name not in known:
            raise UnknownName("pod manager", name, known)
    return [one for one in members if one.registration.name in names]


def catalogue_members(catalogue: tuple[Registration, ...], known: list[Member]) -> Iterator[Member]:
    """Yield those of a catalogue, each as it is ``known`` where that is the same place.

    A known one without a zone has that of the catalogue, which is its region.
    """
    for one in catalogue:
        same = [m for m in known if podm_url.same_endpoint(m.registration.url, one.url)]
        if not same:
            yield Member(one, "the service catalogue", False)
        elif same[0].registration.zone is None:
            registration = msgspec.structs.replace(same[0].registration, zone=one.zone)
            yield same[0]._replace(registration=registration)
        else:
            yield same[0]
