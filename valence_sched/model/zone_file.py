# SPDX-License-Identifier: Apache-2.0
"""The zone file: a tree of zones with recorded inventories, to decide over without services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.codec import check_schema, convert, load_yaml
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.zone import ZoneName
from valence_sched.model.zone_depth import MOST_HOPS
from valence_sched.model.zone_registry import WeightOffset, WeightScale

SCHEMA, VERSION = "valence-sched/zones", "1.0"


class RecordedZone(Noun, frozen=True, kw_only=True):
    """One zone: the inventories of its own pod managers, and the zones below it.

    ``weight_scale``, ``weight_offset`` and ``capabilities`` are as the zone above has them; the
    capabilities hold for its pod managers and all below it.
    """

    name: ZoneName
    inventories: tuple[str, ...] = ()
    children: tuple[RecordedZone, ...] = ()
    weight_scale: WeightScale = 1.0
    weight_offset: WeightOffset = 0.0
    capabilities: str = ""

    def walk(self, path: str = "") -> Iterator[tuple[str, RecordedZone]]:
        """Yield this zone and all below it, each with the way down to it: empty for this one."""
        yield path, self
        for child in self.children:
            yield from child.walk(f"{path}/{child.name}" if path else child.name)

    def stated(
        self, above: Mapping[str, tuple[str, ...]] | None = None
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return by inventory what its zone and those ``above`` state of its pod managers."""
        own = {**(above or {}), **parse_capabilities(self.capabilities)}
        found = dict.fromkeys(self.inventories, own) if own else {}
        for child in self.children:
            found |= child.stated(own)
        return found


class ZoneFile(Noun, frozen=True, kw_only=True):
    """A tree of zones: ``zone`` is the one that is asked first."""

    schema: Literal["valence-sched/zones"] = "valence-sched/zones"
    version: str = VERSION
    zone: RecordedZone


def parse_zone_file(data: bytes, file: str, folder: str) -> RecordedZone:
    """Parse a zone file; inventories that it names are in ``folder``, unless it says where.

    Raises:
        InputError, NewerSchema: naming the path, what was found and what was expected.
    """
    document = convert(load_yaml(data, file), ZoneFile, file)
    check_schema(document.schema, document.version, SCHEMA, VERSION, file)
    zone = _checked(document.zone, file, "$.zone", 0)
    if not any(one.inventories for _, one in zone.walk()):
        raise InputError(file, "$.zone", "no inventory", "one of a zone at least")
    return _in_folder(zone, folder)


def _checked(zone: RecordedZone, file: str, path: str, depth: int) -> RecordedZone:
    if depth > MOST_HOPS:
        raise InputError(file, path, f"a zone {depth} levels down", f"at most {MOST_HOPS}")
    if "/" in zone.name or not zone.name.isprintable():
        raise InputError(file, f"{path}.name", repr(zone.name[:40]), "printable, without /")
    try:
        parse_capabilities(zone.capabilities)
    except ValueError as error:
        raise InputError(file, f"{path}.capabilities", str(error), "key=value") from None
    names: set[str] = set()
    for number, child in enumerate(zone.children):
        place = f"{path}.children[{number}]"
        if child.name in names:
            raise InputError(file, f"{place}.name", f"{child.name!r} again", "another name")
        names.add(child.name)
        _checked(child, file, place, depth + 1)
    return zone


def _in_folder(zone: RecordedZone, folder: str) -> RecordedZone:
    if not folder:
        return zone
    inventories = tuple(
        one if one.startswith("/") else f"{folder}/{one}" for one in zone.inventories
    )
    children = tuple(_in_folder(child, folder) for child in zone.children)
    return replace(zone, inventories=inventories, children=children)
