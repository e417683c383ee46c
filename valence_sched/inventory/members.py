# SPDX-License-Identifier: Apache-2.0
"""Who a command is about: pod managers of the state, of files and of a catalogue, each checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from valence_sched.config.podms_file import check, podms
from valence_sched.core import plugins
from valence_sched.errors import DuplicateId, InputError, UnknownName
from valence_sched.model import podm_url
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Password, Registered

AUTO = "auto"  # the driver that asks the pod manager what it speaks


class Member(NamedTuple):
    """One registered pod manager, and where that stands; ``kept`` when the state remembers it."""

    registered: Registered
    file: str
    kept: bool


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


def check_registered(registered: Registered) -> None:
    """Refuse what cannot be registered: its URL, its name, a driver that nobody speaks."""
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


def check_names(members: list[Member]) -> None:
    """Refuse two of one name, with the places of both."""
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


def of_catalogue(catalogue: tuple[Registered, ...], known: list[Member]) -> Iterator[Member]:
    """Yield those of a catalogue, each as it is ``known`` where that is the same place."""
    for one in catalogue:
        same = [m for m in known if podm_url.same_place(m.registered.url, one.url)]
        yield same[0] if same else Member(one, "the service catalogue", False)
