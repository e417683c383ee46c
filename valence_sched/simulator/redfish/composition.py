# SPDX-License-Identifier: Apache-2.0
"""Composes by POST to Systems and decomposes by DELETE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from valence_sched.simulator.redfish import assembly, blocks, constrained
from valence_sched.simulator.redfish.capabilities import (
    CONSTRAINED,
    SPECIFIC,
    SimulatedCapability,
    capabilities,
    check_required,
    limit_violation,
)
from valence_sched.simulator.server.composing_habits import Habits
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    array_of,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, not_found


class CompositionPlan(NamedTuple):
    """A composition that can be done: the blocks, and the properties of the system."""

    blocks: tuple[str, ...]
    body: Json


class Composition:
    """Nodes that come and go.

    ``owners`` is the client that set ``Reserved`` of each block here; a block that was reserved
    before belongs to another client. ``reservations`` is block to reservation.
    """

    def __init__(self, documents: DocumentTree, habits: Habits) -> None:
        self._documents, self._habits = documents, habits
        self.owners: dict[str, str] = {}
        self.reservations: dict[str, str] = {}

    @property
    def systems(self) -> str:
        """Return the URI of the collection of systems."""
        return uri_of(value_at(self._documents.get(blocks.ROOT), "Systems"))

    def targets(self) -> set[str]:
        """Return the collections to which a system is posted."""
        stated = {one.target for one in capabilities(self._documents)}
        return {uri for uri in (self.systems, *stated) if uri and uri in self._documents}

    def plan(self, body: Json, client: str = "", reservation: str = "") -> CompositionPlan:
        """Return what would be composed; RequestRefused if it cannot be. Nothing is changed."""
        named = _named_blocks(body)
        every = capabilities(self._documents)
        shapes = constrained.device_requests(body)
        if not named and not shapes:
            text = "A system is composed of Links.ResourceBlocks, or of devices it is to have."
            raise RequestRefused(
                400, "CreateFailedMissingReqProperties", text, "Links/ResourceBlocks"
            )
        for uri in named:
            self._check(uri, client, reservation)
        if not shapes:
            check_required(every, SPECIFIC, body)
            self._check_zones(named, every)
            return CompositionPlan(self._habits.with_equals(named), body)
        return CompositionPlan(
            self._choose_blocks(named, shapes, body, every, client, reservation), body
        )

    def compose(self, plan: CompositionPlan) -> str:
        """Compose and return the URI of the system."""
        wanted = str(plan.body.get("Name") or "") or None
        uri = self._free_uri(self._habits.id_of(wanted) or "Composed")
        name = self._habits.name_of(wanted) or "Composed System"
        for block in plan.blocks:
            self._attach(block, uri)
        assembly.put_system(self._documents, uri, name, plan.blocks, plan.body)
        self._documents.list_member(self.systems, uri)
        return uri

    def decompose(self, uri: str) -> SimulatedReply:
        """Take a composed system apart: 204, or why not."""
        json = self._documents.get(uri)
        if json is None:
            return not_found(uri)
        if json.get("SystemType") != "Composed":
            text = f"{uri} is no composed system and cannot be deleted."
            raise RequestRefused(405, "ResourceCannotBeDeleted", text)
        for block in uris(value_at(json, "Links", "ResourceBlocks")):
            blocks.detach(self._documents, block, uri)
            self.owners.pop(block, None)
        self._documents.unlist_member(self.systems, uri)
        assembly.remove_system(self._documents, uri)
        return SimulatedReply(204)

    def change(self, uri: str, wanted: Sequence[str], client: str = "") -> None:
        """Make a composed system one of these blocks, or refuse it and change nothing."""
        json = self._documents.get(uri) or {}
        had = uris(value_at(json, "Links", "ResourceBlocks"))
        come = [block for block in wanted if block not in had]
        for block in come:
            self._check(block, client, "")
        self._check_zones(wanted, capabilities(self._documents))
        for block in had:
            if block not in wanted:
                blocks.detach(self._documents, block, uri)
        for block in come:
            self._attach(block, uri)
        assembly.put_system(self._documents, uri, str(json.get("Name")), wanted, json)

    def _attach(self, block: str, uri: str) -> None:
        if not self._habits.stays_unused(block):
            blocks.attach(self._documents, block, uri)

    def _check(self, uri: str, client: str, reservation: str) -> None:
        """Raise RequestRefused for a block that is invalid, busy, or reserved by another client."""
        json = self._documents.get(uri)
        if json is None:
            text = f"There is no resource block {uri}."
            raise RequestRefused(400, "ResourceBlockNotFound", text, uri)
        if not blocks.is_block(json):
            raise RequestRefused(400, "ResourceBlockInvalid", f"{uri} is no resource block.", uri)
        blocks.check_sound(uri, json)
        if not blocks.has_room(json) and "double-book" not in self._habits:
            text = f"The resource block {uri} is in use."
            raise RequestRefused(409, "ResourceBlockInUse", text, uri)
        held = self.reservations.get(uri)
        if held and held != reservation:
            text = f"The resource block {uri} is reserved by {held}."
            raise RequestRefused(409, "SpecifiedResourceAlreadyReserved", text, uri, held)
        reserved = json["CompositionStatus"].get("Reserved") is True
        if reserved and not held and self.owners.get(uri) != client:
            text = f"The resource block {uri} is reserved by another client."
            raise RequestRefused(409, "ResourceBlockInUse", text, uri)

    def _check_zones(self, named: Sequence[str], every: Sequence[SimulatedCapability]) -> None:
        """Raise RequestRefused unless the blocks stand in one zone and keep its limits."""
        zones = blocks.zones(self._documents)
        common = [zone for zone, _, inside in zones if set(named) <= set(inside)]
        if zones and not common:
            text = f"No zone has all of the resource blocks {', '.join(named)}."
            raise RequestRefused(400, "IncompatibleZone", text, ", ".join(named))
        kinds = [array_of(self._documents.get(uri), "ResourceBlockType") for uri in named]
        faults = [limit_violation(every, zone, kinds) for zone in common or [""]]
        if all(faults):
            text = f"The limits do not allow {faults[0]}."
            raise RequestRefused(400, "PropertyValueError", text, "Links/ResourceBlocks")

    def _choose_blocks(
        self,
        named: Sequence[str],
        shapes: Sequence[constrained.DeviceRequest],
        body: Json,
        every: Sequence[SimulatedCapability],
        client: str,
        reservation: str,
    ) -> tuple[str, ...]:
        offers = [one for one in every if one.use_case == CONSTRAINED]
        if not offers:
            text = "Systems are composed of Links.ResourceBlocks only."
            raise RequestRefused(400, "PropertyUnknown", text, shapes[0].kind)
        check_required(every, CONSTRAINED, body)
        affinity = body.get("@Redfish.ZoneAffinity")
        for zone, json, inside in blocks.zones(self._documents):
            offered = any(not one.zones or zone in one.zones for one in offers)
            if not offered or (affinity is not None and str(json.get("Id")) != str(affinity)):
                continue
            if not set(named) <= set(inside):
                continue
            free = [uri for uri in inside if uri in named or self._free(uri, client, reservation)]
            found = constrained.choose_blocks(self._documents, shapes, free, named)
            kinds = [array_of(self._documents.get(uri), "ResourceBlockType") for uri in found]
            if found and not limit_violation(every, zone, kinds):
                return found
        raise RequestRefused(400, "NoResourceMatch", "No zone has free resource blocks like that.")

    def _free(self, uri: str, client: str, reservation: str) -> bool:
        try:
            self._check(uri, client, reservation)
        except RequestRefused:
            return False
        return True

    def _free_uri(self, name: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:64] or "Composed"
        taken: Iterable[str] | Mapping[str, Json] = self._documents
        uri, number = f"{self.systems}/{stem}", 1
        while uri in taken:
            number += 1
            uri = f"{self.systems}/{stem}-{number}"
        return uri


def _named_blocks(body: Json) -> list[str]:
    links = value_at(body, "Links", "ResourceBlocks")
    if links is None:
        return []
    if not isinstance(links, list) or not all(uri_of(link) for link in links):
        text = "Links.ResourceBlocks is not an array of links."
        raise RequestRefused(
            400, "PropertyValueTypeError", text, str(links)[:200], "ResourceBlocks"
        )
    found = uris(links)
    if len(found) < len(links):
        text = "Links.ResourceBlocks names a resource block twice."
        raise RequestRefused(400, "PropertyValueConflict", text, "ResourceBlocks", "ResourceBlocks")
    return found
