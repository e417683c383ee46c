# SPDX-License-Identifier: Apache-2.0
"""Child zones: their registrations, the results of polling them, and files of zone trees."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from valence_sched.errors import InputError
from valence_sched.model import inventory
from valence_sched.model.base import FieldChanges, Noun
from valence_sched.model.codec import check_schema, convert, load_yaml
from valence_sched.model.decode_error import refuse_other_kind
from valence_sched.model.http import MOST_HOPS, ClientCertificate, client_certificate, file_problem
from valence_sched.model.inventory import Capabilities, Count, CountSum, Name, ZoneName
from valence_sched.model.podm_address import service_url_problem
from valence_sched.model.registration import PasswordReference

#: The smallest and the largest reported value, by ``<service>_<capability>``.
ServiceRanges = dict[str, Annotated[tuple[float, ...], Meta(min_length=2, max_length=2)]]
MOST_WEIGHT = 1000
WeightScale = Annotated[float, Meta(ge=0, le=MOST_WEIGHT)]
WeightOffset = Annotated[float, Meta(ge=-MOST_WEIGHT, le=MOST_WEIGHT)]
#: Names that are already paths of the service below ``/v1/zones``.
RESERVED_NAMES = ("claims", "group_state", "info", "offers", "tree")
DOMAIN = "Default"  # the Keystone domain of users and projects
SCHEMA, VERSION = "valence-sched/zones", "1.0"


class KeystoneLogin(NamedTuple):
    """A user and a project of Keystone, each with its domain."""

    auth_url: str
    username: str
    project: str
    user_domain: str = DOMAIN
    project_domain: str = DOMAIN


class ZoneRegistration(Noun, frozen=True, kw_only=True):
    """A child zone in its parent: ``name`` is the parent's name for it.

    ``url`` is the URL of its service. ``cacert`` is the file of trusted authorities, ``cert`` and
    ``key`` are the files of the client certificate. The login is HTTP basic. With ``auth_url``, it
    is a token from that Keystone, for a ``project``. The parent replaces each score of the zone by
    ``weight_offset + weight_scale × score``. A zone that is not ``enabled`` is neither polled nor
    queried.
    """

    name: ZoneName
    url: Name
    username: str | None = None
    password: PasswordReference | None = None
    auth_url: Name | None = None
    project: Name | None = None
    user_domain: Name | None = None
    project_domain: Name | None = None
    cacert: str | None = None
    weight_scale: WeightScale = 1.0
    weight_offset: WeightOffset = 0.0
    enabled: bool = True
    cert: str | None = None
    key: str | None = None

    @property
    def certificate(self) -> ClientCertificate | None:
        return client_certificate(self.cert, self.key)

    @property
    def keystone(self) -> KeystoneLogin | None:
        if self.auth_url is None:
            return None
        domains = self.user_domain or DOMAIN, self.project_domain or DOMAIN
        return KeystoneLogin(self.auth_url, self.username or "", self.project or "", *domains)

    @property
    def login(self) -> str:
        """Return the kind of login as people read it: ``keystone``, ``basic`` or ``none``."""
        if self.auth_url is not None:
            return "keystone"
        return "none" if self.username is None else "basic"


class ZoneChange(FieldChanges, frozen=True, kw_only=True):
    """New values of some fields of a child zone; other fields stay unchanged."""

    url: Name | UnsetType = UNSET
    username: str | UnsetType | None = UNSET
    password: PasswordReference | UnsetType | None = UNSET
    auth_url: Name | UnsetType | None = UNSET
    project: Name | UnsetType | None = UNSET
    user_domain: Name | UnsetType | None = UNSET
    project_domain: Name | UnsetType | None = UNSET
    cacert: str | UnsetType | None = UNSET
    weight_scale: WeightScale | UnsetType = UNSET
    weight_offset: WeightOffset | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    cert: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET


class ZoneInfo(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """The name, the unique ``id`` and the capabilities of a zone.

    ``capabilities`` are set for the zone and all zones below it; ``services`` has the ranges of its
    own live pod managers.
    """

    id: str = ""
    name: str
    capabilities: Capabilities = {}
    services: ServiceRanges = {}


class ZoneReport(Noun, frozen=True, kw_only=True):
    """The result of polling a child zone.

    ``info`` is its last answer, ``failures`` counts the failed polls since then, ``reason``
    explains why it is not active.
    """

    is_active: bool = False
    info: ZoneInfo | None = None
    failures: int = 0
    reason: str = "it was not polled yet"


class ZoneOverview(Noun, frozen=True, kw_only=True, omit_defaults=False):
    """A child zone in lists: its registration and the result of polling it.

    ``heard_age_s`` and ``polled_age_s`` are the seconds since its last answer and the last poll;
    ``heard_at`` and ``polled_at`` are their times by the clock of the database.
    """

    id: int
    registration: ZoneRegistration
    report: ZoneReport = ZoneReport()
    heard_age_s: float | None = None
    polled_age_s: float | None = None
    heard_at: float | None = None
    polled_at: float | None = None


class ZoneAmounts(Struct, frozen=True, kw_only=True):
    """The sums over the pod managers of the zone itself: ``(free, total)``, None if unknown."""

    podms: Count = 0
    amounts: dict[str, tuple[CountSum | None, CountSum | None]] = {}


class ZoneNode(Struct, frozen=True, kw_only=True):
    """One zone of a tree with its own amounts, and the zones below it.

    ``name`` is its own name, ``known_as`` the name that its parent uses. ``age_s`` is the age of
    its oldest reading, made at ``read_at``. ``silent`` is the reason why it did not answer.
    """

    name: str = ""
    known_as: str = ""
    own: ZoneAmounts = ZoneAmounts()
    age_s: float | None = None
    read_at: str | None = None
    silent: str = ""
    children: tuple["ZoneNode", ...] = ()


class ZoneTreeQuery(Noun, frozen=True, kw_only=True):
    """The query for a tree of zones; ``route`` are comma-separated ids of zones."""

    hops: Annotated[int, Meta(ge=0, le=MOST_HOPS)] = MOST_HOPS
    deadline_s: Annotated[float, Meta(gt=0, le=600)] = 30.0
    route: str = ""


def check_zone(registration: ZoneRegistration) -> None:
    """Raise InputError for an invalid name or URL, or for fields that contradict each other."""
    name = registration.name
    if not name.isprintable() or name != name.strip() or name.startswith("-") or "/" in name:
        raise InputError("name", "", repr(name[:40]), "a name of printable characters without /")
    if re.fullmatch(r"[0-9]+", name):
        expected = "a name that is not a number (IDs are numbers)"
        raise InputError("name", "", repr(name[:40]), expected)
    if name in RESERVED_NAMES:
        expected = f"a name other than {', '.join(RESERVED_NAMES)}"
        raise InputError("name", "", repr(name), expected, "the service has paths of these names")
    if problem := service_url_problem(registration.url):
        raise InputError("url", "", problem)
    for title, least in (("weight_scale", 0), ("weight_offset", -MOST_WEIGHT)):
        number: float = getattr(registration, title)
        if not least <= number <= MOST_WEIGHT:
            expected = f"a number from {least} to {MOST_WEIGHT}"
            raise InputError(name, f"$.{title}", f"{number:g}", expected)
    reference = registration.password
    if reference is not None and not registration.username:
        raise InputError(name, "", "a password without a username", "both")
    if reference is not None:
        reference.check_source(name, "$.password")
    elif registration.username:
        raise InputError(name, "", "a username without a password", "both")
    if problem := file_problem(registration.cert, registration.key):
        raise InputError(name, "", problem)
    if registration.auth_url is None:
        scope = ("project", "user_domain", "project_domain")
        if found := [field for field in scope if getattr(registration, field) is not None]:
            raise InputError(name, f"$.{found[0]}", "no auth_url", "the URL of its Keystone")
        return
    if problem := service_url_problem(registration.auth_url):
        raise InputError(name, "$.auth_url", problem)
    for field in ("username", "project"):
        if not getattr(registration, field):
            raise InputError(name, f"$.{field}", "an auth_url alone", "both, for Keystone")


def info_properties(info: ZoneInfo) -> Mapping[str, str]:
    """Return the properties of a zone as text, in order."""
    ranges = {name: range_text(pair) for name, pair in info.services.items()}
    static = {name: ";".join(values) for name, values in info.capabilities.items()}
    return dict(sorted({**ranges, **static, "name": info.name}.items()))


def range_text(pair: tuple[float, ...]) -> str:
    """Return a range as ``min,max``, whole numbers without a point."""
    return ",".join(f"{value:.0f}" if value == round(value) else f"{value:g}" for value in pair)


class RecordedZone(Noun, frozen=True, kw_only=True):
    """One zone: the inventories of its own pod managers, and the zones below it.

    ``weight_scale`` and ``weight_offset`` are as in a registration; ``capabilities`` apply to its
    pod managers and to all zones below it.
    """

    name: ZoneName
    inventories: tuple[str, ...] = ()
    children: tuple["RecordedZone", ...] = ()
    weight_scale: WeightScale = 1.0
    weight_offset: WeightOffset = 0.0
    capabilities: str = ""

    def walk(self, path: str = "") -> Iterator[tuple[str, "RecordedZone"]]:
        """Yield this zone and all below it, each with its path, empty for this zone."""
        yield path, self
        for child in self.children:
            yield from child.walk(f"{path}/{child.name}" if path else child.name)

    def stated(
        self, above: Mapping[str, tuple[str, ...]] | None = None
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the capabilities of each inventory, stated by its zone and the zones ``above``."""
        own = {**(above or {}), **inventory.parse_capabilities(self.capabilities)}
        found = dict.fromkeys(self.inventories, own) if own else {}
        for child in self.children:
            found |= child.stated(own)
        return found


class ZoneFile(Noun, frozen=True, kw_only=True):
    """A tree of zones with recorded inventories: ``zone`` is its root."""

    schema: Literal["valence-sched/zones"] = "valence-sched/zones"
    version: str = VERSION
    zone: RecordedZone


def parse_zone_file(data: bytes, file: str, folder: str) -> RecordedZone:
    """Parse a zone file; relative paths of inventories are below ``folder``."""
    content = load_yaml(data, file)
    refuse_other_kind(content, "zones", file)
    document = convert(content, ZoneFile, file)
    check_schema(document.schema, document.version, SCHEMA, VERSION, file)
    zone = _checked(document.zone, file, "$.zone", 0, folder)
    if not any(one.inventories for _, one in zone.walk()):
        raise InputError(file, "$.zone", "no inventory", "an inventory of at least one zone")
    return zone


def _checked(zone: RecordedZone, file: str, path: str, depth: int, folder: str) -> RecordedZone:
    if depth > MOST_HOPS:
        raise InputError(file, path, f"a zone {depth} levels down", f"at most {MOST_HOPS}")
    if "/" in zone.name or not zone.name.isprintable():
        raise InputError(file, f"{path}.name", repr(zone.name[:40]), "printable, without /")
    inventory.capabilities_in(zone.capabilities, file, path)
    names: set[str] = set()
    children = []
    for number, child in enumerate(zone.children):
        place = f"{path}.children[{number}]"
        if child.name in names:
            raise InputError(file, f"{place}.name", f"{child.name!r} again", "a unique name")
        names.add(child.name)
        children.append(_checked(child, file, place, depth + 1, folder))
    if "" in zone.inventories:  # it would name the folder of the file
        raise InputError(file, f"{path}.inventories", "an empty name", "the name of a file")
    inventories = tuple(os.path.join(folder, one) for one in zone.inventories)
    return replace(zone, inventories=inventories, children=tuple(children))
