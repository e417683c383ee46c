# SPDX-License-Identifier: Apache-2.0
"""OpenStack Valence flavors and compose bodies, of which the project's own flavors are a superset.

A document is a flavor (``name``, ``properties``), an answer of Valence about a flavor (with
``uuid``, ``created_at``, ``updated_at``, ``links``), or the body that composes a node: with
``properties``, or with ``flavor_id``, which names a known flavor by uuid or name. Older samples
have ``memory`` and ``processor`` as lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from valence_sched.config.foreign.base import (
    DocumentCursor,
    FlavorLookup,
    ForeignFlavor,
    strip_ignored,
)
from valence_sched.errors import UnknownName
from valence_sched.model.base import Noun
from valence_sched.model.flavor import Flavor, MemorySpec, ProcessorSpec

A = TypeVar("A", MemorySpec, ProcessorSpec)

#: Fields of the record in Valence; they do not affect the node.
RECORD_FIELDS = ("created_at", "updated_at", "links")
REFUSED = {"podm_id": "name the pod manager with --podm"}


class FlavorReference(Noun, frozen=True, kw_only=True):
    """The body that composes a node of a known flavor."""

    flavor_id: str
    name: str | None = None
    description: str = ""


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Parse a flavor or a compose body of Valence; errors as for any flavor."""
    if not isinstance(document, dict):
        return ForeignFlavor(cursor.convert(document, Flavor))
    remarks: list[str] = []
    body = strip_ignored(document, cursor, remarks, refused=REFUSED, noted={})
    body = {key: value for key, value in body.items() if key not in RECORD_FIELDS}
    if "flavor_id" in body:
        reference = cursor.convert(body, FlavorReference)
        return ForeignFlavor(_referenced_flavor(reference, cursor.at("flavor_id"), known()))
    if isinstance(body.get("properties"), dict):
        body["properties"] = _without_lists(body["properties"], cursor.at("properties"))
    return ForeignFlavor(cursor.convert(body, Flavor), tuple(remarks))


def _referenced_flavor(
    body: FlavorReference, cursor: DocumentCursor, flavors: Mapping[str, Flavor]
) -> Flavor:
    for known, flavor in flavors.items():
        if body.flavor_id in (known, flavor.uuid):
            name, description = body.name or flavor.name, body.description or flavor.description
            return msgspec.structs.replace(flavor, uuid=None, name=name, description=description)
    names = {*flavors, *(flavor.uuid for flavor in flavors.values() if flavor.uuid)}
    raise UnknownName("flavor", body.flavor_id, names, f"{cursor.file}: {cursor.document_path}")


def _without_lists(properties: dict[str, Any], cursor: DocumentCursor) -> dict[str, Any]:
    """Return properties with each list of older samples replaced by one spec of its total."""
    memory, processor = properties.get("memory"), properties.get("processor")
    converted = dict(properties)
    if isinstance(memory, list):
        converted["memory"] = _sum(memory, MemorySpec, "capacity_mib", cursor.at("memory"))
    if isinstance(processor, list):
        below = cursor.at("processor")
        converted["processor"] = _sum(processor, ProcessorSpec, "total_cores", below)
    return converted


def _sum(items: list[Any], type_: type[A], total: str, cursor: DocumentCursor) -> Any:
    """Return the sum of items that differ only in their total, as a map; None for no items."""
    specs = [cursor.at(number).convert(item, type_) for number, item in enumerate(items)]
    if len(specs) < 2:
        return msgspec.to_builtins(specs[0]) if specs else None
    without_totals = [msgspec.structs.replace(spec, **{total: 1}) for spec in specs]
    for number, other in enumerate(without_totals):
        if other != without_totals[0]:
            expected = f"the same values as in [0], except for {total}"
            hint = "a node has one kind: use the stricter values in every item"
            raise cursor.at(number).error("another kind", expected, hint)
        if getattr(specs[number], total) is None:
            raise cursor.at(number).error(f"no {total}", "one in every item of the list")
    summed = sum(getattr(spec, total) for spec in specs)
    return msgspec.to_builtins(msgspec.structs.replace(specs[0], **{total: summed}))
