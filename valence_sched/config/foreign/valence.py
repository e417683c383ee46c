# SPDX-License-Identifier: Apache-2.0
"""Flavors and compose bodies in the words of OpenStack Valence; our own flavors are a superset.

A document is a flavor (``name``, ``properties``), what Valence answers about one (with ``uuid``,
``created_at``, ``updated_at``, ``links``), or the body that composes a node: with ``properties``,
or with ``flavor_id``, which names a known flavor by uuid or name. Older samples have ``memory``
and ``processor`` as lists.
"""

from __future__ import annotations

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
from valence_sched.model.flavor import Flavor
from valence_sched.model.flavor_properties import MemorySpec, ProcessorSpec

A = TypeVar("A", MemorySpec, ProcessorSpec)

#: What Valence says about its own records; nothing of it is about the node.
RECORD_FIELDS = ("created_at", "updated_at", "links")
REFUSED = {"podm_id": "name the pod manager with --podm"}


class FlavorReference(Noun, frozen=True, kw_only=True):
    """The body that composes a node of a flavor that is known."""

    flavor_id: str
    name: str | None = None
    description: str = ""


def parse_flavor(document: Any, where: DocumentCursor, known: FlavorLookup) -> ForeignFlavor:
    """Read a flavor or a compose body of Valence.

    Raises:
        InputError: it is neither, or restricts the node by a word that has no counterpart.
        UnknownName: its ``flavor_id`` is the uuid or name of no known flavor.
    """
    if not isinstance(document, dict):
        return ForeignFlavor(where.convert(document, Flavor))
    remarks: list[str] = []
    body = strip_ignored(document, where, remarks, refused=REFUSED, noted={})
    body = {key: value for key, value in body.items() if key not in RECORD_FIELDS}
    if "flavor_id" in body:
        return ForeignFlavor(_referenced_flavor(where.convert(body, FlavorReference), where, known))
    if isinstance(body.get("properties"), dict):
        body["properties"] = _without_lists(body["properties"], where.at("properties"))
    return ForeignFlavor(where.convert(body, Flavor), tuple(remarks))


def _referenced_flavor(body: FlavorReference, where: DocumentCursor, known: FlavorLookup) -> Flavor:
    flavors = known()
    for name, flavor in flavors.items():
        if body.flavor_id in (name, flavor.uuid):
            return msgspec.structs.replace(
                flavor,
                uuid=None,
                name=body.name or flavor.name,
                description=body.description or flavor.description,
            )
    place = where.at("flavor_id")
    names = {name for name, flavor in flavors.items()}
    names |= {flavor.uuid for flavor in flavors.values() if flavor.uuid}
    raise UnknownName("flavor", body.flavor_id, names, f"{place.file}: {place.document_path}")


def _without_lists(properties: dict[str, Any], where: DocumentCursor) -> dict[str, Any]:
    """Return properties with each list of older samples as the one ask that it amounts to."""
    kept = dict(properties)
    memory, processor = where.at("memory"), where.at("processor")
    if isinstance(kept.get("memory"), list):
        kept["memory"] = _sum(kept["memory"], MemorySpec, "capacity_mib", memory)
    if isinstance(kept.get("processor"), list):
        kept["processor"] = _sum(kept["processor"], ProcessorSpec, "total_cores", processor)
    return kept


def _sum(items: list[Any], type_: type[A], total: str, where: DocumentCursor) -> Any:
    """Return items that differ in their total only as the map of one, None for no items."""
    asks = [where.at(number).convert(item, type_) for number, item in enumerate(items)]
    if len(asks) < 2:
        return msgspec.to_builtins(asks[0]) if asks else None
    kinds = [msgspec.structs.replace(ask, **{total: 1}) for ask in asks]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            expected = f"the same as in [0] but for {total}"
            hint = "one node has one kind of it: ask for the stricter"
            raise where.at(number).error("another kind", expected, hint)
        if getattr(asks[number], total) is None:
            raise where.at(number).error(f"no {total}", "one in every item of the list")
    summed = sum(getattr(ask, total) for ask in asks)
    return msgspec.to_builtins(msgspec.structs.replace(asks[0], **{total: summed}))
