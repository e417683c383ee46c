# SPDX-License-Identifier: Apache-2.0
"""The pod managers file: its document, parsed and validated into registrations."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from valence_sched.errors import InputError
from valence_sched.model import (
    base,
    codec,
    decode_error,
    podm_address,
    quantity,
    registration as nouns,
    tls,
)
from valence_sched.model.inventory import BlockType, Name, Positive, capabilities_in

Variable = Annotated[str, Meta(pattern=nouns.VARIABLE)]
REFERENCE = "password: {env: VARIABLE} or password: {file: PATH}"


class PasswordSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a password: an environment variable or a file; never the password."""

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
    facts: dict[Name, base.Fact] = {}
    max_blocks: Positive | dict[BlockType, Positive] = {}
    parallel_composes: nouns.ParallelComposes = nouns.PARALLEL_COMPOSES


class PodmFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pod managers by name; the name is the id in every inventory."""

    podms: dict[Name, PodmSpec]


def parse_podms(document: Any, file: str) -> list[nouns.Registration]:
    """Return the pod managers of a file, with paths as written; errors repeat no password."""
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
    if problem := tls.file_problem(registration.cert, registration.key):
        raise InputError(file or name, path, problem)
    if registration.password is not None and not registration.username:
        raise InputError(file or name, path, "a password without a username", "both")


def _check_secrets(entry: dict[Any, Any], file: str, path: str) -> None:
    """Raise an error for a possible password instead of a reference, without repeating it."""
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
        found = quantity.format_count(len(values), "reference")
        raise InputError(file, path, found, "1 reference", f"write {REFERENCE}")
    if not nouns.is_variable(password.get("env") or "_"):
        raise InputError(file, f"{path}.env", "an invalid environment variable name", REFERENCE)


def _registration(name: str, entry: Any, file: str) -> nouns.Registration:
    path = f"$.podms.{name}"
    if not name:
        raise InputError(file, path, repr(name), "a name")
    if not isinstance(entry, dict):
        raise InputError(file, path, "no map", "url and more")
    _check_secrets(entry, file, path)
    spec = codec.convert(entry, PodmSpec, file, path)
    if spec.location is not None and "location" in spec.facts:
        raise InputError(file, f"{path}.location", "the fact location, too", "one of them")
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
