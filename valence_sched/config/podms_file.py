# SPDX-License-Identifier: Apache-2.0
"""A file of pod managers: the document that a person writes, as clouds.yaml is one of clouds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from valence_sched.errors import InputError
from valence_sched.model import podm_url
from valence_sched.model.codec import convert
from valence_sched.model.inventory import Fact, Name, parse_capabilities
from valence_sched.model.registration import Auth, Password, Registered

VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
Variable = Annotated[str, Meta(pattern=VARIABLE)]

REFERENCE = "password: {env: VARIABLE} or password: {file: PATH}"


class PasswordText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a password is: an environment variable or a file; never the password."""

    env: Variable | None = None
    file: Name | None = None


class PodmText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pod manager: where it is, how to log in, and what it counts as."""

    url: Name
    driver: Name = "auto"
    username: str | None = None
    password: PasswordText | None = None
    auth: Auth = "auto"
    cacert: Name | None = None
    insecure: bool = False
    enabled: bool = True
    zone: Name | None = None
    aggregates: tuple[Name, ...] = ()
    capabilities: str | dict[Name, Name | tuple[Name, ...]] = {}
    traits: tuple[Name, ...] = ()
    location: str | tuple[str, ...] | None = None
    facts: dict[Name, Fact] = {}


class PodmFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pod managers by name; the name is the id in every inventory."""

    podms: dict[Name, PodmText]


def podms(document: Any, file: str) -> list[Registered]:
    """Return the pod managers of a file in its order, paths as they are written.

    Raises:
        InputError: naming the place, what was found and what was expected; what may be a
            password is not repeated.
    """
    if not isinstance(document, dict) or not isinstance(document.get("podms"), dict):
        raise InputError(file, "$", "no map 'podms'", "podms: {NAME: {url: …}}")
    for word in document:
        if word != "podms":
            raise InputError(file, "$", f"unknown field {word!r}", "only 'podms'")
    return [_read(name, entry, file) for name, entry in document["podms"].items()]


def check(registered: Registered, file: str = "", place: str = "") -> None:
    """Refuse what no pod manager can be registered as.

    Raises:
        InputError: the name, the URL, or a pair of fields that contradict each other.
    """
    name = registered.name
    if not name.isprintable() or name != name.strip() or name.startswith("-"):
        raise InputError(file or "name", place, repr(name[:40]), "a name of printable characters")
    if wrong := podm_url.fault(registered.url):
        raise InputError(file or "url", f"{place}.url" if place else "", wrong)
    if registered.cacert is not None and registered.insecure:
        raise InputError(file or name, place, "both cacert and insecure", "one of them")
    if registered.password is not None and not registered.username:
        raise InputError(file or name, place, "a password without a username", "both")


def is_variable(name: str) -> bool:
    """Return whether an environment variable may be called that."""
    return re.fullmatch(VARIABLE, name) is not None


def _read(name: Any, entry: Any, file: str) -> Registered:
    place = f"$.podms.{name}"
    if not isinstance(name, str) or not name:
        raise InputError(file, place, f"{name!r}", "a name, in quotes")
    if not isinstance(entry, dict):
        raise InputError(file, place, "no map", "url and more")
    _check_secrets(entry, file, place)
    registered = _registered(name, convert(entry, PodmText, file, place), file)
    check(registered, file, place)
    return registered


def _check_secrets(entry: dict[Any, Any], file: str, place: str) -> None:
    """Refuse what may be a password where a reference belongs, without a word of it."""
    url = entry.get("url")
    if isinstance(url, str) and (wrong := podm_url.fault(url)):
        raise InputError(file, f"{place}.url", wrong)
    password = entry.get("password")
    if password is None:
        return
    place = f"{place}.password"
    if not isinstance(password, dict):
        raise InputError(file, place, "a password", "a reference to one", f"write {REFERENCE}")
    values = [value for value in password.values() if value is not None]
    if not all(isinstance(value, str) for value in values):
        raise InputError(file, place, "something else", "a reference", f"write {REFERENCE}")
    known = {"env", "file"}
    if known.issuperset(password) and len(values) != 1:
        raise InputError(file, place, f"{len(values)} references", "one", f"write {REFERENCE}")
    if not is_variable(password.get("env") or "_"):
        raise InputError(file, f"{place}.env", "no name of an environment variable", REFERENCE)


def _registered(name: str, text: PodmText, file: str) -> Registered:
    place = f"$.podms.{name}"
    if text.location is not None and "location" in text.facts:
        raise InputError(file, f"{place}.location", "the fact location, too", "one of them")
    location: dict[str, Fact] = {} if text.location is None else {"location": text.location}
    password = text.password
    return Registered(
        name=name,
        url=podm_url.tidy(text.url),
        driver=text.driver,
        username=text.username,
        password=Password(env=password.env, file=password.file) if password else None,
        auth=text.auth,
        cacert=text.cacert,
        insecure=text.insecure,
        enabled=text.enabled,
        zone=text.zone,
        aggregates=text.aggregates,
        capabilities=_capabilities(text, file, place),
        traits=text.traits,
        facts={**text.facts, **location},
    )


def _capabilities(text: PodmText, file: str, place: str) -> dict[str, tuple[str, ...]]:
    if isinstance(text.capabilities, str):
        try:
            return parse_capabilities(text.capabilities)
        except ValueError as error:
            raise InputError(file, f"{place}.capabilities", str(error), "key=value") from None
    return {
        key: (values,) if isinstance(values, str) else values
        for key, values in text.capabilities.items()
    }
