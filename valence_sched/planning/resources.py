# SPDX-License-Identifier: Apache-2.0
"""Resource kinds: what free hardware is added up by: devices of a kind and model, or a stock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from valence_sched.model.need import Need
from valence_sched.model.stock import free_amount
from valence_sched.view.block_kinds import BlockKinds, device_amount
from valence_sched.view.blocks import BlockTable

_WORDS = {"processor": "cores", "memory": "memory", "drive": "drive", "nic": "NIC"}


class ResourceKind(NamedTuple):
    """Cores, memory or devices by model; or of ``stock`` kind, a resource. With the unit, if any.

    An accelerator has its own kind, such as GPU. A drive without a model has its medium, and
    memory its type in place of one.
    """

    kind: str
    model: str | None
    unit: str = ""


Amounts = Counter[ResourceKind]


def block_amounts(kinds: BlockKinds, number: int) -> Amounts:
    """Return what a block of a kind has; devices whose number or size is unknown count as none."""
    amounts: Amounts = Counter()
    for resource, device in _devices(kinds, number):
        per_device = {"cores": "cores", "memory": "capacity_mib"}.get(resource.kind)
        size = getattr(device, per_device) if per_device else 1
        amounts[resource] += (device.count or 0) * (size or 0)
    return amounts


def stock_kind(table: BlockTable, number: int) -> ResourceKind:
    """Return the resource of a stock."""
    stock = table.stocks[number]
    return ResourceKind("stock", stock.resource, stock.unit)


def free_amounts(kinds: BlockKinds, table: BlockTable, before: BlockTable) -> dict[Any, float]:
    """Return what is free by resource kind: of blocks, those untouched since ``before``."""
    amounts: dict[ResourceKind, float] = {}
    for kind, number in Counter(table.kinds[one] for one in unused_blocks(table, before)).items():
        for resource, amount in block_amounts(kinds, kind).items():
            amounts[resource] = amounts.get(resource, 0.0) + number * amount
    for number, stock in enumerate(table.stocks):
        resource = stock_kind(table, number)
        amounts[resource] = amounts.get(resource, 0.0) + free_amount(stock)
    return amounts


def unused_blocks(table: BlockTable, before: BlockTable) -> Iterator[int]:
    """Yield the free blocks of which no slot was taken since ``before``."""
    for block, slots in enumerate(table.slots):
        if slots and slots == before.slots[block]:
            yield block


def is_used_by(need: Need, resource: ResourceKind, kinds: BlockKinds, number: int | None) -> bool:
    """Return whether a need is for a resource as a kind of block has it; None for a stock."""
    if number is None:
        return need.kind == "stock" and need.resource == resource.model
    return any(
        found == resource and device_amount(need, need.kind, device)
        for found, device in _devices(kinds, number, need.kind)
    )


def _devices(
    kinds: BlockKinds, number: int, only: str | None = None
) -> Iterator[tuple[ResourceKind, Any]]:
    """Yield the device lines of a kind of block, each with what it counts as."""
    for kind, device in kinds.devices_of(number):
        if only in (None, kind):
            model = getattr(device, "model", None) or getattr(device, "type", None)
            model = model or getattr(device, "media", None)
            unit = "MiB" if kind == "memory" else ""
            yield ResourceKind(_WORDS.get(kind) or device.kind, model, unit), device
