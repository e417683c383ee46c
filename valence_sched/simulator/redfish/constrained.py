# SPDX-License-Identifier: Apache-2.0
"""Constrained composition: a greedy choice of blocks that hold the requested devices.

It is greedy: shapes in their order, and for each the first blocks of the zone that have such
devices. A search could find blocks where this does not; pod managers do not search either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from valence_sched.simulator.redfish.assembly import COLLECTIONS, devices_of
from valence_sched.simulator.server.documents import DocumentTree, Json, array_of
from valence_sched.simulator.server.errors import RequestRefused

#: Properties of a shape in which more is as good, if the client accepts more.
AMOUNTS = (
    "TotalCores",
    "TotalThreads",
    "MaxSpeedMHz",
    "CapacityMiB",
    "CapacityBytes",
    "OperatingSpeedMhz",
    "SpeedMbps",
)


class DeviceRequest(NamedTuple):
    """Devices that a system is to have: kind, how many, properties, whether more will do."""

    kind: str
    wanted: int
    properties: Json
    more: bool


def device_requests(body: Json) -> list[DeviceRequest]:
    """Return the devices that a body requests; RequestRefused if a count is no number."""
    found: list[DeviceRequest] = []
    for kind in COLLECTIONS:
        requested = body.get(kind)
        rows = requested.get("Members") if isinstance(requested, dict) else requested
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                found += _device_requests(kind, row)
    return found


def _device_requests(kind: str, row: Json) -> Iterator[DeviceRequest]:
    count = row.get("@Redfish.RequestedCount", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
        text = f"@Redfish.RequestedCount of {kind} is {count!r}, expected 1 or more."
        raise RequestRefused(
            400, "PropertyValueTypeError", text, str(count), "@Redfish.RequestedCount"
        )
    more = row.get("@Redfish.AllowOverprovisioning") is True
    inner = row.get("Drives") if kind == "Storage" else row.get("Devices")
    if isinstance(inner, list) and inner:
        for drive in inner:
            if isinstance(drive, dict):
                yield from (
                    shape._replace(kind="Drives", wanted=shape.wanted * count, more=more)
                    for shape in _device_requests("Drives", drive)
                )
        return
    plain = {key: value for key, value in row.items() if "@" not in key}
    yield DeviceRequest(kind, count, plain, more)


def choose_blocks(
    documents: DocumentTree,
    requests: Sequence[DeviceRequest],
    free: Sequence[str],
    named: Sequence[str],
) -> tuple[str, ...]:
    """Return blocks that together have the devices, empty when the greedy way finds none."""
    devices = {uri: _flat_devices(documents, uri) for uri in free}
    found = list(named)
    for shape in requests:
        for uri in free:
            if _count(shape, devices, found) >= shape.wanted:
                break
            some = 0 if uri in found else _count(shape, devices, [uri])
            too_many = not shape.more and _count(shape, devices, found) + some > shape.wanted
            if some and not too_many:
                found.append(uri)
        have = _count(shape, devices, found)
        if have < shape.wanted or (have > shape.wanted and not shape.more):
            return ()
    return tuple(found)


def _flat_devices(documents: DocumentTree, uri: str) -> list[tuple[str, Json]]:
    """Return the devices of a block, drives behind a storage as drives."""
    found = devices_of(documents, documents.get(uri) or {})
    flat = [(kind, json) for kind, devices in found.items() for json in devices.values()]
    for json in found["Storage"].values():
        flat += [("Drives", drive) for _, drive in documents.linked(json.get("Drives"))]
    for json in found["SimpleStorage"].values():
        flat += [("Drives", one) for one in array_of(json, "Devices") if isinstance(one, dict)]
    return flat


def _count(
    shape: DeviceRequest, devices: dict[str, list[tuple[str, Json]]], found: Sequence[str]
) -> int:
    return sum(_fits(shape, kind, one) for uri in found for kind, one in devices[uri])


def _fits(shape: DeviceRequest, kind: str, device: Json) -> bool:
    return kind == shape.kind and all(
        _value_fits(key, value, device.get(key), shape.more)
        for key, value in shape.properties.items()
        if not isinstance(value, (dict, list))
    )


def _value_fits(key: str, wanted: Any, found: Any, more: bool) -> bool:
    if key == "ProcessorType" and found is None:
        found = "CPU"
    if key in AMOUNTS and more:
        return isinstance(found, (int, float)) and found >= wanted
    return bool(found == wanted)
