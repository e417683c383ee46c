# SPDX-License-Identifier: Apache-2.0
"""Residents: the nodes of an inventory, each with the request for another such node."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from valence_sched.model.flavor import Flavor
from valence_sched.model.flavor_properties import (
    AcceleratorSpec,
    DriveSpec,
    MemorySpec,
    NicSpec,
    ProcessorSpec,
    Properties,
)
from valence_sched.model.inventory import Devices, Node, to_json
from valence_sched.model.node_request import NodeRequest
from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import AsksFor, MovedNode
from valence_sched.model.request import MAX_DEVICE_GROUPS, Request
from valence_sched.model.request_spec import RequestSpec, compile_request, inline_flavor
from valence_sched.view.view import View

BYTES_PER_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Resident:
    """A node that stands on a podm, by number, and the request for its like.

    The request is None where the inventory does not say what the node is made of. ``price`` is in
    the points of waste: the dearest nodes are the hardest to place. ``asks_for`` is where the
    request comes from.
    """

    podm: int
    node: Node
    devices: Devices
    request: Request | None
    price: int
    asks_for: AsksFor = "hardware"

    @property
    def name(self) -> str:
        """Return the name of the node, else the last part of its URI."""
        return self.node.name or self.node.uri.rstrip("/").rpartition("/")[2]

    def moved(self, view: View) -> MovedNode:
        """Return the node as results name it."""
        return MovedNode(node=self.name, uri=self.node.uri, podm=view.podms[self.podm].id,
                         owner=self.node.owner, devices=self.devices,
                         asks_for=self.asks_for)  # fmt: skip


class Residents:
    """The nodes of a View, and notes about those that the inventory says too little of.

    A node asks again for what it was requested as, else for a node of its flavor, one of
    ``flavors``; where the inventory says neither, for as much as it has. Of a group it asks
    nothing: its rules are not in the inventory. Nodes that ask for the same share one request, so
    that they share its evaluation. ``policy`` is the one that places them.
    """

    def __init__(self, view: View, policy: str, flavors: Mapping[str, Flavor]) -> None:
        self.view, self._policy, self._flavors = view, policy, flavors
        self._kept: dict[tuple[bytes, str | None, str | None], Request] = {}
        self.notes: dict[str, None] = {}
        self._request = functools.lru_cache(maxsize=None)(self._compiled)
        self._of_flavor = functools.lru_cache(maxsize=None)(self._compiled_flavor)

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
        request, asks_for = self._asked(node, kinds)
        missing = len(node.blocks) - len(kinds)
        if missing:
            self._note(
                podm, node, f"{missing} of its {format_count(len(node.blocks), 'block')} unknown"
            )
        elif request is None:
            self._note(podm, node, "nothing is known of its hardware")
        if request is not None and asks_for == "hardware" and node.flavor is not None:
            self._note(podm, node, f"no flavor named {node.flavor!r}: name its file")
        price = sum(kind.price for kind in known)
        return Resident(podm, node, devices, request, price, asks_for)

    def _asked(self, node: Node, kinds: tuple[int, ...]) -> tuple[Request | None, AsksFor]:
        """Return what a node asks for again, and where that comes from."""
        if node.request is not None:
            return self._again(node, node.request), "request"
        if node.flavor in self._flavors:
            return self._of_flavor(node.flavor, node.owner), "flavor"
        return self._request(tuple(sorted(kinds)), node.owner), "hardware"

    def _again(self, node: Node, asked: NodeRequest) -> Request:
        key = to_json(asked), node.flavor, node.owner
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = asked.again(node.flavor, node.owner, self._policy)
        return known

    def _note(self, podm: int, node: Node, text: str) -> None:
        self.notes[f"node {node.name or node.uri} of {self.view.podms[podm].id}: {text}"] = None

    def _compiled_flavor(self, name: str, owner: str | None) -> Request:
        spec = RequestSpec(flavor=name, owner=owner, policy=self._policy)
        return compile_request(spec, self._flavors[name])

    def _compiled(self, kinds: tuple[int, ...], owner: str | None) -> Request | None:
        devices = joined([self.view.kinds.kinds[kind].devices for kind in kinds])
        properties = like(devices)
        if properties == Properties():
            return None
        spec = RequestSpec(properties=properties, owner=owner, policy=self._policy)
        return compile_request(spec, inline_flavor(spec))


def hardware_notes(residents: Iterable[Resident]) -> Iterator[str]:
    """Yield one line about the nodes that ask for their hardware, if there are any."""
    known = (one for one in residents if one.request is not None)
    names = list(dict.fromkeys(one.name for one in known if one.asks_for == "hardware"))
    if names:
        verb = "asks" if len(names) == 1 else "ask"
        others = f" and {len(names) - 1:,} more" if names[1:] else ""
        nodes = format_count(len(names), "node")
        yield f"{nodes} of unknown request {verb} for all hardware: {names[0]}{others}"


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
