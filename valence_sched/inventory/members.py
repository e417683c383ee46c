# SPDX-License-Identifier: Apache-2.0
"""Members: the registered pod managers a command applies to, validated, and as read last."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from valence_sched.config.podms_file import check_registration, parse_podms
from valence_sched.core import plugins
from valence_sched.errors import DuplicateId, InputError, UnknownName
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.inventory import Podm, to_json
from valence_sched.model.podm_address import same_endpoint
from valence_sched.model.quantity import age_s, format_age
from valence_sched.model.registration import AUTO, PasswordReference, Registration

P = TypeVar("P", bound=Podm[Any, Any])


class Member(NamedTuple):
    """A registered pod manager, the place of its registration, and whether the state stores it."""

    registration: Registration
    source: str
    uses_state: bool


def read_podms(data: bytes, file: str) -> list[Registration]:
    """Return the pod managers of a file, with paths made absolute from its folder.

    Raises:
        InputError, UnknownName: the file breaks its format; a driver is unknown.
    """
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
        found.append(msgspec.structs.replace(one, **changes))
    return found


def validate_registration(registration: Registration) -> None:
    """Refuse an invalid registration: its URL, its name, an unknown driver."""
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


def check_names(members: list[Member]) -> None:
    """Refuse two members of one name, and name the places of both."""
    first_source: dict[str, str] = {}
    for member in members:
        name = member.registration.name
        if name in first_source:
            found = f"{name!r} again, first in {first_source[name]}"
            hint = "give every pod manager a name of its own"
            raise DuplicateId(member.source, "", found, "a name of its own", hint)
        first_source[name] = member.source


def select_members(
    members: list[Member], names: tuple[str, ...], others: Collection[str] = ()
) -> list[Member]:
    """Return the members of these names, or all; UnknownName for one not in ``others`` either."""
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
    """Yield the pod managers of a catalogue named after the services that answer.

    Each comes with the identity of its service, None where that is unknown; ``names`` are those
    that the state has for identities. Where no service answers, or another endpoint is the same
    service, the name stays that of the endpoint.
    """
    taken: set[str] = set()
    for one, identity in found:
        name, prefix = one.name, one.zone or "podm"
        if identity is not None:
            if name != prefix:  # which is that of the one endpoint that a login names
                digest = hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()
                name = f"{prefix}-{digest}"
            name = names.get(identity, name)
        if name in taken:
            yield one
        else:
            yield msgspec.structs.replace(one, name=name, identity=identity)
        taken.add(name)


def catalogue_members(catalogue: tuple[Registration, ...], known: list[Member]) -> Iterator[Member]:
    """Yield the members of a catalogue: the ``known`` one of the same endpoint, if there is one.

    Else that of the same name, which is the same service at another URL: its own is used, for it
    has a login. A known one without a zone has that of the catalogue, which is its region.
    """
    for one in catalogue:
        same = [m for m in known if same_endpoint(m.registration.url, one.url)]
        same += [m for m in known if m.registration.name == one.name]
        if not same:
            yield Member(one, "the service catalogue", False)
        elif same[0].registration.zone is None:
            registration = msgspec.structs.replace(same[0].registration, zone=one.zone)
            yield same[0]._replace(registration=registration)
        else:
            yield same[0]


def podm_of_registration(one: Registration, kind: type[P]) -> P:
    """Return a podm with the fields of its registration, and nothing of its own."""
    names = ("url", "enabled", "zone", "aggregates", "capabilities", "traits", "facts")
    fields: dict[str, Any] = {name: getattr(one, name) for name in names}
    driver = None if one.driver == AUTO else one.driver
    return kind(id=one.name, driver=driver, status="Unknown", **fields)


def last_known_podm(
    one: Registration, podm: P, known: P | None, limit_s: float | None, now: datetime.datetime
) -> P:
    """Return what was ``known`` of a podm with the status of ``podm``, its failed reading.

    One that was never read, or longer than ``limit_s`` ago, has no blocks.
    """
    if known is None:
        return msgspec.structs.replace(podm, identity=one.identity, read_at=None)
    age = age_s(known.read_at, now)
    if limit_s is not None and (age is None or age > limit_s):
        return msgspec.structs.replace(podm, read_at=known.read_at)
    return msgspec.structs.replace(
        known,
        url=one.url,
        status=podm.status,
        enabled=one.enabled,
        zone=podm.zone or known.zone,
        aggregates=podm.aggregates or known.aggregates,
        capabilities=known.capabilities | podm.capabilities,
        traits=podm.traits or known.traits,
        facts=known.facts | podm.facts,
    )


def with_age(failure: str, read_at: str | None, now: datetime.datetime) -> str:
    """Return why a podm could not be read, with the age of what is known of it."""
    age = age_s(read_at, now)
    return failure if age is None else f"{failure}; last read {format_age(age)} ago"
