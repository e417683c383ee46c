# SPDX-License-Identifier: Apache-2.0
"""Flavors of OpenStack Nova, in the format of its API or of ``openstack flavor``.

``vcpus`` are cores, ``ram`` is memory in MiB, ``disk`` and ``ephemeral`` are a drive each, of at
least that size in GiB. Extra specs: ``resources:CLASS=N`` overrides the flavor's own amount, also
if N is 0, and either of VCPU and PCPU overrides ``vcpus``; ``trait:X=required|forbidden``;
``capabilities:KEY`` is a condition on a capability of the pod manager, in Nova's operators; ``hw:``
and ``os:`` become the traits and amounts that Nova derives from them. A key that only tunes a
virtual machine adds a remark. Every other key is an error, also if Nova would skip it.

A flavor of bare metal requests 0 VCPU, 0 MEMORY_MB and 1 of a custom class. It becomes the known
flavor that is named after the class, else a flavor of its own ``vcpus``, ``ram`` and ``disk``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from valence_sched.config.foreign import nova_hardware
from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, ForeignFlavor
from valence_sched.config.foreign.nova_hardware import IGNORE_HINT, NOT_LOOKED_AT, HardwareSpecs
from valence_sched.errors import suggest
from valence_sched.model import extra_specs as operators
from valence_sched.model.base import Noun
from valence_sched.model.flavor import (
    CUSTOM,
    DRIVE,
    DriveSpec,
    Flavor,
    Properties,
    compile_amounts,
    resource_class_problem,
)
from valence_sched.model.need import NameRequirements

Amount = Annotated[int, Meta(ge=0, le=10**15)]

#: Fields of a record of the API and the client without an effect here, such as access rules.
RECORD_FIELDS = {"links", "location", "original_name", "access_project_ids", "rxtx_factor"}
RECORD_FIELDS |= {"is_public", "os-flavor-access:is_public", "Is Public", "RXTX Factor"}
RECORD_FIELDS |= {"is_disabled", "OS-FLV-DISABLED:disabled"}
ALIASES = {"OS-FLV-EXT-DATA:ephemeral": "ephemeral", "properties": "extra_specs"}
ALIASES |= {name: name.lower() for name in ("ID", "Name", "RAM", "Disk", "VCPUs", "Swap")}
ALIASES |= {"Ephemeral": "ephemeral", "Properties": "extra_specs"}
KEYS = ({"vcpus", "ram"}, {"VCPUs", "RAM"})  # of the API and of flavor show; of flavor list
VIRTUAL_SCOPES = ("quota", "hw_rng", "hw_video", "vmware", "powervm")
VIRTUAL_KEYS = ("hide_hypervisor_id",)
REFUSED = {
    "aggregate_instance_extra_specs": "aggregates have names here: request trait:X, or --member-of",
    "pci_passthrough": "request resources:PGPU=1 or resources:FPGA=1",
    "accel": "request resources:FPGA=1",
}
SCOPES = ("resources", "trait", "capabilities")
BARE_METAL = "CUSTOM_BAREMETAL"
_GROUPED = re.compile(r"(resources|trait)[0-9_-][a-zA-Z0-9_-]*")


class NovaFlavor(Noun, frozen=True, kw_only=True):
    """A Nova flavor: vcpus, MiB of ram and swap, GiB of disks; an old API leaves fields null."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    id: str | int | None = None
    description: str | None = None
    vcpus: Amount = 0
    ram: Amount = 0
    disk: Amount = 0
    ephemeral: Amount | None = 0
    swap: Amount | str | None = 0
    extra_specs: dict[str, str] = {}


def recognises(document: Any) -> bool:
    """Return whether a document is a Nova flavor, or an answer of the API that holds one."""
    if not isinstance(document, dict):
        return False
    return _is_wrapped(document) or not all(keys.isdisjoint(document) for keys in KEYS)


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Parse a Nova flavor; a bare metal flavor may become a ``known`` flavor.

    InputError if it is invalid, has a field twice, or an extra spec has no counterpart here.
    """
    if _is_wrapped(document):
        document, cursor = document["flavor"], cursor.at("flavor")
    for alias, name in ALIASES.items():
        if alias in document and name in document:
            raise cursor.at(alias).error(f"the same field as {name!r}", "only one of them")
    if not KEYS[1].isdisjoint(document) and "Properties" not in document:
        hint = "openstack flavor list --long prints them"
        raise cursor.error("no 'Properties'", "the extra specs of each flavor", hint)
    fields = ((key, value) for key, value in document.items() if key not in RECORD_FIELDS)
    body = {ALIASES.get(key, key): value for key, value in fields}
    written = [key for key in ("properties", "Properties") if key in document]
    specs_cursor = cursor.at(written[0] if written else "extra_specs")
    # an error names the key as it is written
    specs_cursor.convert(body.get("extra_specs", {}), dict[str, str])
    template = cursor.convert(body, NovaFlavor)
    remarks: list[str] = []
    if template.swap not in (0, "", "0", None):
        remark = "not used: the node configures its own swap space"
        remarks.append(cursor.at("swap").remark(remark))
    specs = _ExtraSpecs(specs_cursor, remarks)
    for key, text in template.extra_specs.items():
        specs.read(key, text)
    specs.hardware.check(specs.required, specs.forbidden)
    return ForeignFlavor(_compile(template, specs, known), tuple(remarks))


def _is_wrapped(document: dict[Any, Any]) -> bool:
    return set(document) == {"flavor"} and isinstance(document["flavor"], dict)


def _compile(template: NovaFlavor, specs: _ExtraSpecs, known: FlavorLookup) -> Flavor:
    hardware = specs.hardware
    required = tuple(dict.fromkeys((*specs.required, *hardware.required)))
    forbidden = tuple(dict.fromkeys((*specs.forbidden, *hardware.forbidden)))
    flavor = Flavor(
        name=template.name,
        uuid=None if template.id is None else str(template.id),
        description=template.description or "",
        attributes=specs.attributes,
        traits=NameRequirements(required, forbidden),
    )
    if bare_metal := _bare_metal_class(specs.amounts):
        return _compile_bare_metal(flavor, template, specs, bare_metal, known)
    return replace(flavor, properties=_properties(template, hardware, specs.amounts))


def _properties(
    template: NovaFlavor, hardware: HardwareSpecs, named: Mapping[str, int]
) -> Properties:
    """Return the amounts of a flavor; ``resources:`` overrides its own."""
    amounts = {"MEMORY_MB": template.ram, **hardware.amounts, **named}
    amounts |= hardware.core_amounts(template.vcpus, named)
    above_zero = {name: amount for name, amount in amounts.items() if amount}
    properties = compile_amounts(above_zero)
    if DRIVE in named:
        return properties
    drives = [DriveSpec(capacity_gib=size) for size in (template.disk, template.ephemeral) if size]
    return replace(properties, drives=tuple(drives))


def _bare_metal_class(named: Mapping[str, int]) -> str | None:
    if named.get("VCPU") != 0 or named.get("MEMORY_MB") != 0 or named.get("PCPU"):
        return None
    classes = [name for name, amount in named.items() if amount == 1 and name.startswith(CUSTOM)]
    bare = [name for name in classes if name.startswith(BARE_METAL)] or classes
    return bare[0] if len(bare) == 1 else None


def _compile_bare_metal(
    flavor: Flavor, template: NovaFlavor, specs: _ExtraSpecs, bare_metal: str, known: FlavorLookup
) -> Flavor:
    cursor = specs.cursor.at(f"resources:{bare_metal}")
    amounts = {name: amount for name, amount in specs.amounts.items() if amount}
    del amounts[bare_metal]
    if ours := _flavor_of_class(bare_metal, known()):
        if amounts or specs.hardware.amounts:
            other = next(iter((*amounts, *specs.hardware.amounts)))
            raise cursor.error(f"also {other}", f"only the resources of flavor {ours.name!r}")
        specs.remarks.append(cursor.remark(f"read as flavor {ours.name!r}"))
        traits, attributes = ours.traits.plus(flavor.traits), ours.attributes | flavor.attributes
        ours = replace(ours, name=flavor.name, uuid=flavor.uuid, traits=traits)
        description = flavor.description or ours.description
        return replace(ours, description=description, attributes=attributes)
    our_name = bare_metal.removeprefix(CUSTOM).lower().replace("_", "-")
    if not (template.vcpus or template.ram or template.disk or template.ephemeral):
        hint = "or vcpus, ram and disk of the flavor's own"
        raise cursor.error("no flavor of that name", f"a flavor such as {our_name!r}", hint)
    asked = "the flavor's own vcpus, ram and disk are used"
    specs.remarks.append(cursor.remark(f"no flavor is named {our_name!r}: {asked}"))
    return replace(flavor, properties=_properties(template, specs.hardware, amounts))


def _flavor_of_class(resource_class: str, known: Mapping[str, Flavor]) -> Flavor | None:
    if resource_class in known:
        return known[resource_class]
    word = resource_class.removeprefix(CUSTOM)
    matches = [name for name in sorted(known) if nova_hardware.class_word(name) == word]
    return known[matches[0]] if matches else None


class _ExtraSpecs:
    def __init__(self, cursor: DocumentCursor, remarks: list[str]) -> None:
        self.cursor, self.remarks = cursor, remarks
        self.hardware = HardwareSpecs(cursor, remarks)
        self.amounts: dict[str, int] = {}
        self.required: list[str] = []
        self.forbidden: list[str] = []
        self.attributes: dict[str, str] = {}

    def read(self, key: str, text: str) -> None:
        """Add one extra spec; InputError if it has no counterpart here, or its value is invalid."""
        cursor = self.cursor.at(key)
        scope, colon, name = key.partition(":")
        if key in self.cursor.ignored:
            self.remarks.append(cursor.remark("not used: --ignore-extra-spec names it"))
        elif key in VIRTUAL_KEYS or (scope in VIRTUAL_SCOPES and name):
            self.remarks.append(cursor.remark(NOT_LOOKED_AT))
        elif not colon or not name:
            raise _unscoped(key, cursor)
        elif scope == "resources":
            if problem := resource_class_problem(name):
                raise cursor.error(problem)
            if not re.fullmatch(r"[0-9]{1,15}", text):
                raise cursor.error(repr(text), "a whole number from 0 on")
            self.amounts[name] = int(text)
        elif scope == "trait":
            if text not in ("required", "forbidden"):
                raise cursor.error(repr(text), "'required' or 'forbidden'")
            (self.required if text == "required" else self.forbidden).append(name)
        elif scope == "capabilities":
            attribute = key.replace(":", ".", 1)
            if problem := operators.condition_problem(attribute, text):
                raise cursor.error(problem)
            self.attributes[attribute] = text
        elif scope in nova_hardware.SCOPES:
            self.hardware.read(key, text)
        else:
            raise _unknown_scope(scope, cursor)


def _unscoped(key: str, cursor: DocumentCursor) -> Exception:
    ignore = IGNORE_HINT.format(key=key)
    hint = f"capabilities:{key} is a capability, trait:NAME a trait; {ignore}"
    if key == "group_policy":
        hint = f"resource groups are merged here; {ignore}"
    return cursor.error("an extra spec without a scope", "SCOPE:NAME", hint)


def _unknown_scope(scope: str, cursor: DocumentCursor) -> Exception:
    if grouped := _GROUPED.fullmatch(scope):
        hint = f"numbered groups are merged here: write {grouped[1]}:"
    else:
        known = (*SCOPES, *nova_hardware.SCOPES, *VIRTUAL_SCOPES)
        hint = REFUSED.get(scope) or suggest(scope, known)
    return cursor.error(f"an extra spec of scope {scope!r}", "a known scope", hint)
