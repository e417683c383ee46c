# SPDX-License-Identifier: Apache-2.0
"""OpenStack Nova flavors as the API returns them and as ``openstack flavor show`` prints them.

``vcpus`` are cores, ``ram`` is memory in MiB, ``disk`` and ``ephemeral`` are a drive each of at
least so many GiB. Extra specs: ``resources:CLASS=N`` overrides the flavor's own amount, 0
included; ``trait:X=required|forbidden``; ``capabilities:KEY`` is a condition on a capability of
the pod manager, in Nova's operators. What tunes a virtual machine is remarked on, and every other
key is an error, also where Nova would pass over it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup, ForeignFlavor
from valence_sched.errors import suggest
from valence_sched.model import extra_specs as operators
from valence_sched.model import resource_classes
from valence_sched.model.base import Noun
from valence_sched.model.flavor import Flavor
from valence_sched.model.flavor_properties import DriveSpec, Properties
from valence_sched.model.request import NameRequirements

Amount = Annotated[int, Meta(ge=0, le=10**15)]

#: Fields of the API and the client about the record: its access rules and other names.
RECORD_FIELDS = (
    "links", "location", "original_name", "access_project_ids", "rxtx_factor", "is_public",
    "os-flavor-access:is_public", "is_disabled", "OS-FLV-DISABLED:disabled",
)  # fmt: skip
ALIASES = {"OS-FLV-EXT-DATA:ephemeral": "ephemeral", "properties": "extra_specs"}
VIRTUAL_SCOPES = ("hw", "os", "quota", "hw_rng", "hw_video", "vmware", "powervm")
REFUSED = {
    "aggregate_instance_extra_specs": "aggregates have names here: ask for trait:X, or --member-of",
    "pci_passthrough": "ask for resources:PGPU=1 or resources:FPGA=1",
    "accel": "ask for resources:FPGA=1",
}
SCOPES = ("resources", "trait", "capabilities")


class NovaFlavor(Noun, frozen=True, kw_only=True):
    """A Nova flavor: vcpus, MiB of ram, GiB of disk and ephemeral disk, MiB of swap."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    id: str | int | None = None
    description: str | None = None
    vcpus: Amount = 0
    ram: Amount = 0
    disk: Amount = 0
    ephemeral: Amount = 0
    swap: Amount | str = 0
    extra_specs: dict[str, str] = {}


def recognises(document: Any) -> bool:
    """Return whether a document is a Nova flavor, or an answer of the API that holds one."""
    if not isinstance(document, dict):
        return False
    return _is_wrapped(document) or not {"vcpus", "ram"}.isdisjoint(document)


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Parse a Nova flavor; InputError if invalid, or if an extra spec has no counterpart here."""
    if _is_wrapped(document):
        document, cursor = document["flavor"], cursor.at("flavor")
    for alias, name in ALIASES.items():
        if alias in document and name in document:
            raise cursor.at(alias).error(f"the same as {name!r} beside it", "one of them")
    fields = ((key, value) for key, value in document.items() if key not in RECORD_FIELDS)
    body = {ALIASES.get(key, key): value for key, value in fields}
    specs_cursor = cursor.at("properties" if "properties" in document else "extra_specs")
    # an error names the key as it is written
    specs_cursor.convert(body.get("extra_specs", {}), dict[str, str])
    template = cursor.convert(body, NovaFlavor)
    remarks: list[str] = []
    if template.swap not in (0, "", "0"):
        remark = "not looked at: swap space is a matter of the node"
        remarks.append(cursor.at("swap").remark(remark))
    specs = _ExtraSpecs(specs_cursor, remarks)
    for key, text in template.extra_specs.items():
        specs.read(key, text)
    flavor = Flavor(
        name=template.name,
        uuid=None if template.id is None else str(template.id),
        description=template.description or "",
        properties=_properties(template, specs.amounts),
        attributes=specs.attributes,
        traits=NameRequirements(tuple(specs.required), tuple(specs.forbidden)),
    )
    return ForeignFlavor(flavor, tuple(remarks))


def _is_wrapped(document: dict[Any, Any]) -> bool:
    return set(document) == {"flavor"} and isinstance(document["flavor"], dict)


def _properties(template: NovaFlavor, named: dict[str, int]) -> Properties:
    amounts = {"VCPU": template.vcpus, "MEMORY_MB": template.ram} | named
    above_zero = {name: amount for name, amount in amounts.items() if amount}
    properties = resource_classes.compile_amounts(above_zero)
    if resource_classes.DRIVE in named:
        return properties
    drives = [DriveSpec(capacity_gib=size) for size in (template.disk, template.ephemeral) if size]
    return msgspec.structs.replace(properties, drives=tuple(drives))


class _ExtraSpecs:
    def __init__(self, cursor: DocumentCursor, remarks: list[str]) -> None:
        self.cursor, self.remarks = cursor, remarks
        self.amounts: dict[str, int] = {}
        self.required: list[str] = []
        self.forbidden: list[str] = []
        self.attributes: dict[str, str] = {}

    def read(self, key: str, text: str) -> None:
        """Add one extra spec; InputError if it has no counterpart here, or its value is invalid."""
        cursor = self.cursor.at(key)
        scope, colon, name = key.partition(":")
        if not colon or not name:
            hint = f"capabilities:{key} is a capability, trait:NAME a trait"
            raise cursor.error("an extra spec without a scope", "SCOPE:NAME", hint)
        if scope == "resources":
            if problem := resource_classes.resource_class_problem(name):
                raise cursor.error(problem)
            if not text.isdecimal() or len(text) > 15:
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
        elif scope in VIRTUAL_SCOPES:
            self.remarks.append(cursor.remark("not looked at: it tunes a virtual machine"))
        else:
            raise _unknown_scope(scope, cursor)


def _unknown_scope(scope: str, cursor: DocumentCursor) -> Exception:
    plain = scope.rstrip("0123456789")
    if plain in SCOPES and plain != scope:
        hint = f"groups by number are not told apart here: write {plain}:"
    else:
        hint = REFUSED.get(scope) or suggest(scope, (*SCOPES, *VIRTUAL_SCOPES))
    return cursor.error(f"an extra spec of scope {scope!r}", "one that has a meaning here", hint)
