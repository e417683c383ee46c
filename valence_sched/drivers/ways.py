# SPDX-License-Identifier: Apache-2.0
"""The ways to ask a Redfish service for a node, in order of preference, and their bodies.

Specific composition names the blocks and so does a manifest; a constrained composition names
what they hold, and the service chooses them.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urljoin

from valence_sched.drivers.fields import Json
from valence_sched.drivers.hands import Reply
from valence_sched.drivers.offered import Offered, UseCase, path
from valence_sched.drivers.refusals import responses
from valence_sched.drivers.shapes import shapes
from valence_sched.model.composition import Wanted

SPECIFIC, CONSTRAINED = "ComputerSystemComposition", "ComputerSystemConstrainedComposition"
_REQUIRED = "@Redfish.RequiredOnCreate"
_ALLOWED = "@Redfish.AllowableValues"


class Way(NamedTuple):
    """One request that makes the node; with ``exact`` it is made of the very blocks."""

    name: str
    target: str
    body: Json
    exact: bool


def choose(offered: Offered, wanted: Wanted, reservation: str | None = None) -> Way | str:
    """Return the first way that is offered, or why there is none."""
    specific = _case(offered, SPECIFIC, wanted.pool)
    constrained = _case(offered, CONSTRAINED, wanted.pool)
    problem = ""
    if specific or not (offered.compose_target or constrained):
        target = specific.target if specific else offered.systems
        extra, problem = _required(specific.rules if specific else {}, wanted)
        if target and not problem:
            return Way("specific", target, _specific(wanted) | extra, True)
    if offered.compose_target:
        body = manifest(wanted, "Apply", reservation)
        return Way("manifest", offered.compose_target, body, True)
    if constrained:
        asked = shapes(wanted.devices, constrained.rules)
        if isinstance(asked, str):
            return asked
        body = {"Name": wanted.name, **asked}
        if offered.zone_affinity and wanted.pool:
            body["@Redfish.ZoneAffinity"] = wanted.pool.rpartition("/")[2]
        return Way("constrained", constrained.target, body, False)
    return problem or "it offers no way to compose: no systems collection, no Compose action"


def takes_blocks(offered: Offered, wanted: Wanted) -> bool:
    """Return whether the node is made of the very blocks that are wanted."""
    way = choose(offered, wanted)
    return isinstance(way, Way) and way.exact


def manifest(wanted: Wanted, kind: str, reservation: str | None = None) -> Json:
    """Return the body of a Compose action with one stanza."""
    stanza = {"StanzaType": "ComposeSystem", "StanzaId": "node", "Request": _specific(wanted)}
    body: Json = {
        "RequestFormat": "Manifest",
        "RequestType": kind,
        "Manifest": {"Expand": "None", "Stanzas": [stanza]},
    }
    return body | ({"ReservationId": reservation} if reservation else {})


def node_of(reply: Reply, target: str) -> str | None:
    """Return the URI of the system that a reply names, in its header or in a stanza.

    A relative link is relative to ``target``; the host of an absolute one is not asked.
    """
    body = reply.body or {}
    kind = str(body.get("@odata.type", ""))
    stanzas = [response.get("@odata.id") for response in responses(body)]
    own = body.get("@odata.id") if kind.startswith("#ComputerSystem.") else None
    for link in (*stanzas, own, reply.headers.get("Location")):
        if link and isinstance(link, str):
            return path(urljoin(target, link))
    return None


def _case(offered: Offered, name: str, pool: str | None) -> UseCase | None:
    """Return the use case of this name that holds in a pool's zone."""
    for case in offered.use_cases:
        zones = {zone.rpartition("/")[2] for zone in case.zones} | set(case.zones)
        if case.name == name and (not zones or pool in zones):
            return case
    return None


def _specific(wanted: Wanted) -> Json:
    blocks = [{"@odata.id": uri} for uri in wanted.blocks]
    return {"Name": wanted.name, "Links": {"ResourceBlocks": blocks}}


def _required(rules: Json, wanted: Wanted) -> tuple[Json, str]:
    """Return what else a body must have, or the problem that nobody says what to put there.

    An object that is required is made of what is required in it.
    """
    found: Json = {}
    for key, stated in rules.items():
        name = key.removesuffix(_REQUIRED)
        if name == key or not stated or name in ("Name", "Links"):
            continue
        allowed, inner = rules.get(name + _ALLOWED), rules.get(name)
        if isinstance(allowed, list) and allowed:
            found[name] = allowed[0]
        elif name in ("HostName", "Description", "AssetTag"):
            found[name] = wanted.name
        elif isinstance(inner, dict) and (made := _required(inner, wanted))[0]:
            found[name] = made[0]
        else:
            return {}, f"it requires {name!r} to compose, and allows no known value for it"
    return found, ""
