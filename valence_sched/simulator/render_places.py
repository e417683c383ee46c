# SPDX-License-Identifier: Apache-2.0
"""Where things stand: chassis with their memory, fabrics with their switches, as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT
from valence_sched.model.inventory import FullBlock, Stock
from valence_sched.simulator import render_blocks, render_stocks
from valence_sched.simulator.sheet import Sheet, link

CHASSIS, FABRICS = f"{ROOT}/Chassis", f"{ROOT}/Fabrics"


def chassis(
    sheet: Sheet, told: Mapping[str, str], domains: Sequence[tuple[str, Stock]]
) -> str | None:
    """Write the chassis that are told, by where they are kept, and the memory they hold.

    Memory of which no chassis is told stands in one of its own. None where there is nothing.
    """
    if not told and not domains:
        return None
    uri = sheet.own(CHASSIS)
    below: dict[str, list[str]] = {place: [] for place in told.values()}
    for place, stock in domains:
        holder = told.get(render_stocks.chassis_of(place) or "", f"{uri}/Memory")
        below.setdefault(holder, []).append(render_stocks.domain(sheet, place, stock))
    members = []
    known = set(told.values())
    for holder, memory in below.items():
        kept = holder if holder in known else sheet.own(holder)
        body: Json = {"ChassisType": "Other", "Status": {"State": "Enabled", "Health": "OK"}}
        if memory:
            place = sheet.own(f"{kept}/MemoryDomains")
            body["MemoryDomains"] = link(sheet.collection(place, "MemoryDomain", memory))
        members.append(sheet.put(kept, "Chassis", None, body))
    return sheet.collection(uri, "Chassis", members)


def fabrics(sheet: Sheet, blocks: Iterable[FullBlock]) -> str | None:
    """Write the fabrics, switches, ports and endpoints at which devices say they sit."""
    found = [render_blocks.fabric_of(block.places or {}) for block in blocks]
    ends: dict[str, dict[str, None]] = {}
    for fabric, switch in dict.fromkeys(item for item in found if item):
        ends.setdefault(fabric, {})
        if switch:
            ends[fabric][switch] = None
        else:
            _stub(sheet, render_blocks.end_of(fabric, None), "Endpoint", {})
    for fabric, switches in ends.items():
        body: Json = {"FabricType": "Ethernet"}
        for switch in switches:
            ports = [_stub(sheet, render_blocks.end_of(fabric, switch), "Port", {})]
            ports = [sheet.collection(sheet.own(f"{switch}/Ports"), "Port", ports)]
            _stub(sheet, switch, "Switch", {"Ports": link(ports[0])})
        if switches:
            place = sheet.collection(sheet.own(f"{fabric}/Switches"), "Switch", switches)
            body["Switches"] = link(place)
        _stub(sheet, fabric, "Fabric", body)
    return sheet.collection(sheet.own(FABRICS), "Fabric", ends) if ends else None


def _stub(sheet: Sheet, uri: str, type_: str, body: Json) -> str:
    """Write a document at a URI that links name, unless something else stands there."""
    if uri not in sheet.documents:
        sheet.put(sheet.given(uri), type_, None, body)
    return uri
