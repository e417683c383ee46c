# SPDX-License-Identifier: Apache-2.0
"""Registrations of pod managers: URL, login with a reference to the password, properties."""

import fnmatch
import itertools
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from valence_sched.errors import InputError, UnknownName, UsageError, must_be
from valence_sched.model import inventory
from valence_sched.model.base import Fact, FieldChanges, Noun, parse_fact
from valence_sched.model.diagnostic import Diagnostic
from valence_sched.model.inventory import BlockType, Name, Positive, uri_tail
from valence_sched.model.need import Taint, taint_key

T = TypeVar("T")
P = TypeVar("P", bound=inventory.Podm[Any, Any])
Auth = Literal["auto", "session", "basic"]
#: The hosts that are free unless in use here: all, none, or those whose URI, or the last part of
#: it, matches a shell pattern. Other hosts are in use by tenants of other systems.
Hosts = Annotated[str, Meta(pattern=r"^(unmanaged|free|free:[^,]+(,[^,]+)*)$")]
Reason = Annotated[str, Meta(min_length=1, max_length=255)]
RESERVED_BY = "operator: "  # the client of a block that the operator has reserved
BLOCK_MARKS = ("reserved", "taints")  # the fields that mark blocks by name or pattern
ADDED_PROPERTIES = ("aggregates", "capabilities", "traits", "facts")  # to the reported ones
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"  # the name of an environment variable
AUTO = "auto"  # the driver of a pod manager whose dialect is detected
#: Nodes of a request that a pod manager composes at a time, by default and at most.
PARALLEL_COMPOSES, MOST_PARALLEL_COMPOSES = 2, 32
ParallelComposes = Annotated[int, Meta(ge=1, le=MOST_PARALLEL_COMPOSES)]


class PasswordReference(Noun, frozen=True, kw_only=True):
    """The source of a password: exactly one of a variable, a file and the secure file."""

    env: Name | None = None
    file: Name | None = None
    stored: bool = False

    def check_source(self, file: str, path: str) -> None:
        """Raise InputError unless the source is a variable or a file, and not both."""
        if self.stored or (self.env is None) == (self.file is None):
            raise InputError(file, path, "no reference", "exactly one of env and file")

    @property
    def text(self) -> str:
        if self.env is not None:
            return f"variable {self.env}"
        return f"file {self.file}" if self.file is not None else "secure file"


def is_variable(name: str) -> bool:
    """Return whether an environment variable may have this name."""
    return re.fullmatch(VARIABLE, name) is not None


class Registration(Noun, frozen=True, kw_only=True):
    """One pod manager of the registry; ``name`` is its id in every inventory.

    ``identity`` is the identity of the service, None before the first reading. ``driver`` is a
    dialect, or ``auto`` to detect it. The fields from ``zone`` to ``facts`` are added to the
    reported properties. ``max_blocks`` is the largest number of blocks of a type in one node,
    unless the pod manager reports fewer. At most ``parallel_composes`` nodes of a request are
    composed at a time. ``hosts`` states which hosts without attached blocks are free.
    ``reserved`` has the reason why decisions leave out a block, by its URI, the last part of it, or
    a shell pattern; ``taints`` has the taints of blocks by such a name. ``cacert``, ``cert`` and
    ``key`` are the files of trusted authorities and of the client certificate.
    """

    name: Name
    url: Name
    identity: Name | None = None
    driver: Name = AUTO
    username: str | None = None
    password: PasswordReference | None = None
    auth: Auth = "auto"
    cacert: str | None = None
    insecure: bool = False
    enabled: bool = True
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    traits: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    max_blocks: dict[BlockType, Positive] = {}
    parallel_composes: ParallelComposes = PARALLEL_COMPOSES
    hosts: Hosts = "unmanaged"
    reserved: dict[Name, Reason] = {}
    taints: dict[Name, tuple[Taint, ...]] = {}
    cert: str | None = None
    key: str | None = None

    @property
    def free_hosts(self) -> tuple[str, ...]:
        """The patterns of free hosts."""
        word, _, patterns = self.hosts.partition(":")
        return tuple((patterns or "*").split(",")) if word == "free" else ()


class RegistrationChange(FieldChanges, frozen=True, kw_only=True):
    """New values of some fields of a registration; other fields stay unchanged."""

    url: Name | UnsetType = UNSET
    identity: Name | UnsetType | None = UNSET
    driver: Name | UnsetType = UNSET
    username: str | UnsetType | None = UNSET
    password: PasswordReference | UnsetType | None = UNSET
    auth: Auth | UnsetType = UNSET
    cacert: str | UnsetType | None = UNSET
    insecure: bool | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    zone: str | UnsetType | None = UNSET
    aggregates: tuple[str, ...] | UnsetType = UNSET
    capabilities: dict[str, tuple[str, ...]] | UnsetType = UNSET
    traits: tuple[str, ...] | UnsetType = UNSET
    facts: dict[str, Fact] | UnsetType = UNSET
    max_blocks: dict[BlockType, Positive] | UnsetType = UNSET
    parallel_composes: ParallelComposes | UnsetType = UNSET
    hosts: Hosts | UnsetType = UNSET
    reserved: dict[Name, Reason] | UnsetType = UNSET
    taints: dict[Name, tuple[Taint, ...]] | UnsetType = UNSET
    cert: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET

    @classmethod
    def between(cls, old: Registration, new: Registration) -> Self:
        values = {name: getattr(new, name) for name in cls.__struct_fields__}
        return cls(**{name: one for name, one in values.items() if one != getattr(old, name)})


class PodmReading(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """A summary of one reading of a pod manager."""

    status: inventory.PodmStatus
    driver: str | None
    blocks: int
    pools: int
    nodes: int


class RegisteredPodm(Noun, frozen=True, kw_only=True):
    """A registered pod manager, its state or file, and the reading made when it was registered."""

    registration: Registration
    source: str
    reading: PodmReading | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def alters_reading(old: Registration, new: Registration) -> bool:
    """Return whether a new registration removes a property, or changes limits or marks."""
    if any(getattr(old, name) != getattr(new, name) for name in ("max_blocks", *BLOCK_MARKS)):
        return True
    if old.zone is not None and new.zone is None:
        return True
    return any(set(getattr(old, it)) - set(getattr(new, it)) for it in ADDED_PROPERTIES)


def reregistered(
    podm: inventory.FullPodm, old: Registration, new: Registration
) -> inventory.FullPodm:
    """Return a reading under an old registration, adapted to a new one.

    A reported maximum that the old registration replaced is unknown until the next reading. Until
    then, a node takes one whole compute unit and any number of other blocks.
    """
    kinds = sorted(old.max_blocks.keys() | new.max_blocks.keys())
    changed = [kind for kind in kinds if old.max_blocks.get(kind) != new.max_blocks.get(kind)]
    pools = []
    for pool in podm.pools:
        limits = dict(pool.limits)
        for kind in changed:
            before, after = old.max_blocks.get(kind), new.max_blocks.get(kind)
            limits[kind] = _limit(kind, limits.get(kind, inventory.Limit()), before, after)
        stated = {kind: limit for kind, limit in limits.items() if limit != inventory.Limit()}
        pools.append(msgspec.structs.replace(pool, limits=stated) if changed else pool)
    podm = with_block_marks(podm, new)
    zone = None if new.zone is None and podm.zone == old.zone else podm.zone
    left = {
        name: _without(getattr(podm, name), getattr(old, name), getattr(new, name))
        for name in ADDED_PROPERTIES
    }
    return msgspec.structs.replace(podm, pools=tuple(pools), zone=zone, **left)


def matches_uri(uri: str, pattern: str) -> bool:
    """Return whether a shell pattern matches a URI, or the last part of it."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in (uri, uri_tail(uri)))


def with_registration(podm: P, known: Registration) -> P:
    """Return a read pod manager with the places, capabilities and facts that the operator set."""
    return msgspec.structs.replace(
        podm,
        enabled=known.enabled,
        zone=known.zone or podm.zone,
        aggregates=tuple(dict.fromkeys(known.aggregates + podm.aggregates)),
        capabilities=podm.capabilities | known.capabilities,
        traits=tuple(dict.fromkeys(known.traits + podm.traits)),
        facts=podm.facts | known.facts,
    )


def with_block_marks(podm: inventory.FullPodm, known: Registration) -> inventory.FullPodm:
    """Return a podm in which the operator's reservations and taints are those of a registration."""
    blocks = []
    for block in podm.blocks:
        before = status = block.status or inventory.FREE_STATUS
        is_marked = (status.client or "").startswith(RESERVED_BY)
        reason = next(_marks(block.uri, known.reserved), None)
        client = f"{RESERVED_BY}{reason}" if reason else None
        if is_marked or client:
            status = msgspec.structs.replace(status, reserved=bool(client), client=client)
        taints = itertools.chain.from_iterable(_marks(block.uri, known.taints))
        if status.taints != (found := tuple(sorted({*taints}))):
            status = msgspec.structs.replace(status, taints=found)
        marked = block if status == before else msgspec.structs.replace(block, status=status)
        blocks.append(marked)
    return msgspec.structs.replace(podm, blocks=tuple(blocks))


def _marks(uri: str, by_pattern: Mapping[str, T]) -> Iterator[T]:
    return (mark for pattern, mark in by_pattern.items() if matches_uri(uri, pattern))


def _limit(
    kind: BlockType, limit: inventory.Limit, before: int | None, after: int | None
) -> inventory.Limit:
    assumed = 1 if kind in inventory.SINGLE_PER_NODE else None
    found = before if before is not None else assumed
    known = found is not None and limit.max == max(found, limit.min)
    tops = [top for top in (None if known else limit.max, after) if top is not None]
    top = min(tops, default=assumed)
    return inventory.Limit(limit.min, None if top is None else max(top, limit.min))


def _without(found: Any, old: Container[str], new: Container[str]) -> Any:
    """Return a map or tuple without the names that only ``old`` has."""
    left = [name for name in found if name in new or name not in old]
    return {name: found[name] for name in left} if isinstance(found, dict) else tuple(left)


def max_blocks_of(number: int) -> dict[BlockType, Positive]:
    """Return a maximum number of blocks for each type of whole compute unit."""
    return dict.fromkeys(inventory.SINGLE_PER_NODE, number)


def parse_max_blocks(text: str) -> dict[BlockType, Positive]:
    """Parse ``NUMBER``, the maximum of each whole compute unit, or ``TYPE=NUMBER``; ValueError."""
    kind, equals, number = text.rpartition("=")
    if not re.fullmatch(r"[0-9]{1,7}", number) or not 1 <= int(number) <= 1_000_000:
        raise must_be("a number from 1 on, or TYPE=NUMBER", text)
    if not equals:
        return max_blocks_of(int(number))
    known = {it.casefold(): it for it in get_args(BlockType)}
    if kind.strip().casefold() not in known:
        raise must_be(f"of a type of blocks ({', '.join(known.values())})", kind)
    return {known[kind.strip().casefold()]: int(number)}


def parse_hosts(text: str) -> str:
    """Parse ``free``, ``unmanaged``, or ``free:`` and patterns of free hosts; ValueError."""
    try:
        return msgspec.convert(text, Hosts)
    except msgspec.ValidationError:
        raise must_be("free, unmanaged, or free:PATTERN,…", text) from None


def without(
    old: Registration, flags: Iterable[str], names: Mapping[str, Sequence[str]]
) -> RegistrationChange:
    """Return the change that resets the fields ``flags``, and removes ``names`` from other fields.

    UnknownName if the field does not have the name.
    """
    plain = Registration(name=old.name, url=old.url)
    changes: dict[str, Any] = {flag: getattr(plain, flag) for flag in flags}
    for field, removed in names.items():
        known = getattr(old, field)
        for name in removed:
            if name not in known:
                kinds = {"capabilities": "capability", "reserved": "reserved block"}
                kind = kinds.get(field) or field.removesuffix("s")
                raise UnknownName(kind, name, known, old.name)
        if removed:
            changes[field] = _without(known, removed, ())
    return RegistrationChange.between(old, msgspec.structs.replace(old, **changes))


def with_marks(
    old: Registration, names: Sequence[str], reason: str | None, taints: Mapping[str, str]
) -> RegistrationChange:
    """Return the change that reserves blocks, by name or pattern, for a reason, and taints them.

    A taint replaces the taint of its key.
    """
    changes: dict[str, Any] = {}
    if reason is not None:
        changes["reserved"] = old.reserved | dict.fromkeys(names, reason)
    if taints:
        known = {name: {taint_key(it): it for it in old.taints.get(name, ())} for name in names}
        merged = {name: (*{**one, **taints}.values(),) for name, one in known.items()}
        changes["taints"] = old.taints | merged
    return RegistrationChange.between(old, msgspec.structs.replace(old, **changes))


def without_taints(
    old: Registration, names: Iterable[str], keys: Sequence[str]
) -> RegistrationChange:
    """Return the change that removes the taints of some keys from blocks, by name or pattern.

    UnknownName if the name has no taints, or none of a key.
    """
    taints = dict(old.taints)
    for name in names:
        if name not in taints:
            raise UnknownName("tainted block", name, taints, old.name)
        known = {taint_key(taint): taint for taint in taints[name]}
        for key in keys:
            if key not in known:
                raise UnknownName(f"taint of {name}", key, known, old.name)
        taints[name] = tuple(taint for key, taint in known.items() if key not in keys)
    return RegistrationChange(taints={name: one for name, one in taints.items() if one})


def merge_capabilities(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return capabilities from keys with ``;``-separated values; a repeated key adds values.

    UsageError for an invalid value.
    """
    capabilities: dict[str, tuple[str, ...]] = {}
    for key, values in pairs:
        try:
            parsed = inventory.parse_capabilities(f"{key}={values}")
        except ValueError as error:
            raise UsageError(f"--capability: {error}") from None
        for name, more in parsed.items():
            capabilities[name] = (*dict.fromkeys((*capabilities.get(name, ()), *more)),)
    return capabilities


def merge_facts(pairs: Iterable[tuple[str, str]], locations: Sequence[str]) -> dict[str, Fact]:
    """Return facts and the fact of the locations; UsageError if one is given twice."""
    facts: list[tuple[str, Fact]] = [(key, parse_fact(text)) for key, text in pairs]
    if locations:
        facts.append(("location", locations[0] if len(locations) == 1 else tuple(locations)))
    for key, times in Counter(key for key, _ in facts).items():
        if times > 1:
            also = " (also by --location)" if key == "location" and locations else ""
            several = "write several values as one ;-separated list"
            raise UsageError(f"--fact: {key!r} is given twice{also}: {several}")
    return dict(facts)
