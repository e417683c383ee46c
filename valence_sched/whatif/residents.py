# SPDX-License-Identifier: Apache-2.0
"""Residents: the nodes of an inventory, each with the request for a node of the same hardware."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from valence_sched.model.flavor_properties import (
    AcceleratorSpec,
    DriveSpec,
    MemorySpec,
    NicSpec,
    ProcessorSpec,
    Properties,
)
from valence_sched.model.inventory import Devices, Node
from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import MovedNode
from valence_sched.model.request import MAX_DEVICE_GROUPS, Request
from valence_sched.model.request_spec import RequestSpec, compile_request, inline_flavor
from valence_sched.view.view import View

BYTES_PER_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Resident:
    """A node that stands on a podm, by number, and the request for its like.

    The request is None where the inventory does not say what the node is made of. ``price`` is in
    the points of waste: the dearest nodes are the hardest to place.
    """

    podm: int
    node: Node
    devices: Devices
    request: Request | None
    price: int

    def moved(self, view: View) -> MovedNode:
        """Return the node as results name it."""
        name = self.node.name or self.node.uri.rstrip("/").rpartition("/")[2]
        return MovedNode(node=name, uri=self.node.uri, podm=view.podms[self.podm].id,
                         owner=self.node.owner, devices=self.devices)  # fmt: skip


class Residents:
    """The nodes of a View, and notes about those that the inventory says too little of.

    Nodes of equal blocks and one owner share one request, so that they share its evaluation.
    ``policy`` is the one that places them. A node asks for as much as it has: the inventory does
    not say what it was made for. Of a group it asks nothing: its rules are not in the inventory.
    """

    def __init__(self, view: View, policy: str) -> None:
        self.view, self._policy = view, policy
        self.notes: dict[str, None] = {}
        self._request = functools.lru_cache(maxsize=None)(self._compiled)

    def of(self, podm: int) -> list[Resident]:
        """Return the nodes of a podm, by number, in the order of the inventory."""
        table = self.view.block_tables[podm]
        nodes = self.view.podms[podm].nodes
        numbers = {uri: number for number, uri in enumerate(table.uris)} if nodes else {}
        return [
            self._resident(podm, node, tuple(table.kinds[numbers[uri]] for uri in node.blocks
                                             if uri in numbers))
            for node in nodes
        ]  # fmt: skip

    def __iter__(self) -> Iterator[Resident]:
        for podm in range(len(self.view.podms)):
            yield from self.of(podm)

    def _resident(self, podm: int, node: Node, kinds: tuple[int, ...]) -> Resident:
        known = [self.view.kinds.kinds[kind] for kind in kinds]
        devices = joined([kind.devices for kind in known])
        request = self._request(tuple(sorted(kinds)), node.owner)
        missing = len(node.blocks) - len(kinds)
        if missing:
            self._note(
                podm, node, f"{missing} of its {format_count(len(node.blocks), 'block')} unknown"
            )
        elif request is None:
            self._note(podm, node, "nothing is known of its hardware")
        return Resident(podm, node, devices, request, sum(kind.price for kind in known))

    def _note(self, podm: int, node: Node, text: str) -> None:
        self.notes[f"node {node.name or node.uri} of {self.view.podms[podm].id}: {text}"] = None

    def _compiled(self, kinds: tuple[int, ...], owner: str | None) -> Request | None:
        devices = joined([self.view.kinds.kinds[kind].devices for kind in kinds])
        properties = like(devices)
        if properties == Properties():
            return None
        spec = RequestSpec(properties=properties, owner=owner, policy=self._policy)
        return compile_request(spec, inline_flavor(spec))


def joined(parts: list[Devices]) -> Devices:
    """Return the devices of several blocks together."""
    return Devices(
        **{
            name: tuple(device for part in parts for device in getattr(part, name))
            for name in Devices.__struct_fields__
        }
    )


def like(devices: Devices) -> Properties:
    """Return what asks for at least these devices; what is unknown of them is not asked for.

    Cores and memory count in total. Accelerators are asked for by kind and model, drives by media
    and capacity, network interfaces by speed; of more groups than a request may have, the largest.
    """
    cores = sum((cpu.cores or 0) * (cpu.count or 0) for cpu in devices.processors)
    sockets = sum(cpu.count or 0 for cpu in devices.processors)
    mib = sum((one.capacity_mib or 0) * (one.count or 0) for one in devices.memory)
    cards = Counter[tuple[str, str | None]]()
    for card in devices.accelerators:
        cards[card.kind, card.model] += card.count or 1
    drives = Counter[tuple[str | None, int | None]]()
    for drive in devices.drives:
        drives[drive.media, drive.capacity_bytes] += drive.count or 1
    nics = Counter[int | None]()
    for nic in devices.nics:
        nics[nic.speed_mbps] += nic.count or 1
    processor = ProcessorSpec(total_cores=cores or None, sockets=None if cores else sockets)
    return Properties(
        processor=processor if cores or sockets else None,
        memory=MemorySpec(capacity_mib=mib) if mib else None,
        accelerators=tuple(
            AcceleratorSpec(kind=kind, model=model, count=count)
            for (kind, model), count in cards.most_common(MAX_DEVICE_GROUPS)
        ),
        drives=tuple(
            DriveSpec(media=media, capacity_gib=size / BYTES_PER_GIB if size else None, count=count)
            for (media, size), count in drives.most_common(MAX_DEVICE_GROUPS)
        ),
        nics=tuple(
            NicSpec(speed_mbps=speed or None, count=count)
            for speed, count in nics.most_common(MAX_DEVICE_GROUPS)
        ),
    )
