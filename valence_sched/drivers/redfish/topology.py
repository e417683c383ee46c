# SPDX-License-Identifier: Apache-2.0
"""The topology of a block: chassis, fabric and switch, from the links of its devices.

``chassis`` is what the block links, else what its devices do. ``fabric`` and ``switch`` are read
from the URIs of endpoints and switch ports that devices link. A place with several values
is unknown. Redfish has no word for a PCIe root, so no driver sets ``pcie_root``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.describe import is_present
from valence_sched.drivers.redfish.device_schema import Device
from valence_sched.drivers.redfish.schema import ResourceBlock

_IN_FABRIC = re.compile(r"(?P<fabric>.*/Fabrics/[^/]+)(?P<rest>/.*)?", re.IGNORECASE)
_SWITCH = re.compile(r"/Switches/[^/]+", re.IGNORECASE)


def block_topology(
    service: LinkedDocuments, block: ResourceBlock, devices: list[Device]
) -> dict[str, str] | None:
    """Return the places of a block with their URIs, None where no link tells one."""
    return topology_of(service, block.uri, block.chassis, devices)


def topology_of(
    service: LinkedDocuments,
    where: str,
    chassis: tuple[str, ...],
    devices: Iterable[Device],
    ends: Iterable[str] = (),
) -> dict[str, str] | None:
    """Return the places of devices, as :func:`block_topology`, that links at ``where`` tell.

    ``ends`` are links to endpoints and switch ports beside those of the devices.
    """
    values: dict[str, set[str]] = {"chassis": _uris(service, chassis, where)}
    for uri in _uris(service, ends, where):
        for name, value in _fabric_and_switch(uri).items():
            values.setdefault(name, set()).add(value)
    for device in filter(is_present, devices):
        if "Links" not in device.json:
            continue
        if not chassis:
            values["chassis"] |= _uris(service, device.chassis, device.uri)
        for uri in _uris(service, device.endpoints + device.switch_ports, device.uri):
            for name, value in _fabric_and_switch(uri).items():
                values.setdefault(name, set()).add(value)
    found = {name: uris.pop() for name, uris in values.items() if len(uris) == 1}
    return dict(sorted(found.items())) or None


def _uris(service: LinkedDocuments, links: Iterable[str], where: str) -> set[str]:
    return {uri for uri in (service.uri(link, where) for link in links) if uri}


def _fabric_and_switch(uri: str) -> dict[str, str]:
    inside = _IN_FABRIC.fullmatch(uri)
    if inside is None:
        return {}
    fabric = inside["fabric"]
    switch = _SWITCH.match(inside["rest"] or "")
    return {"fabric": fabric, **({"switch": fabric + switch[0]} if switch else {})}
