# SPDX-License-Identifier: Apache-2.0
"""The document writer: Redfish documents at unique URIs, with the properties each must have."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import path_of

#: The schema of each type of document and the version that has the properties written here.
_TYPES = {
    "Chassis": "v1_20_0",
    "CompositionService": "v1_2_0",
    "ComputerSystem": "v1_19_0",
    "Drive": "v1_15_0",
    "Endpoint": "v1_7_0",
    "EthernetInterface": "v1_8_0",
    "Fabric": "v1_3_0",
    "Memory": "v1_15_0",
    "MemoryChunks": "v1_5_0",
    "MemoryDomain": "v1_4_0",
    "Port": "v1_8_0",
    "Processor": "v1_16_0",
    "ResourceBlock": "v1_4_0",
    "ServiceRoot": "v1_14_0",
    "Storage": "v1_15_0",
    "StoragePool": "v1_9_0",
    "Switch": "v1_9_0",
    "Zone": "v1_6_1",
}
_COLLECTIONS = {"Chassis": "ChassisCollection", "MemoryChunks": "MemoryChunksCollection"}
OEM = "ValenceSched"


class DocumentWriter:
    """Documents by URI. A URI is reserved before its document is written."""

    def __init__(self) -> None:
        self.documents: dict[str, Json] = {}
        self._uris: set[str] = set()
        self._folded: set[str] = set()

    def inventory_uri(self, uri: str) -> str:
        """Keep a URI that the inventory gives; return it as a reader of links spells it.

        One that is reserved already is extended, so that no two resources share a document.
        """
        return self._unique(path_of(uri), self._uris)

    def new_uri(self, uri: str) -> str:
        """Keep a URI of our choice, extended until it is no other's, in whatever case."""
        return self._unique(uri, self._folded)

    def put(self, uri: str, type_: str, name: str | None, body: Json) -> str:
        """Write the document of a reserved URI; its name is its Id where none is given."""
        last = uri.rpartition("/")[2]
        version = _TYPES.get(type_)
        kind = f"#{type_}.{version}.{type_}" if version else f"#{type_}.{type_}"
        head = {"@odata.id": uri, "@odata.type": kind, "Id": last, "Name": name or last}
        self.documents[uri] = head | {key: value for key, value in body.items() if is_set(value)}
        return uri

    def collection(self, uri: str, type_: str, members: Iterable[str], **body: object) -> str:
        """Write a collection of these members at a reserved URI."""
        kind = _COLLECTIONS.get(type_, f"{type_}Collection")
        found = links(members)
        tail = {"Members@odata.count": len(found), "Members": found, **body}
        head = {"@odata.id": uri, "@odata.type": f"#{kind}.{kind}", "Name": f"{type_} Collection"}
        self.documents[uri] = head | tail
        return uri

    def _unique(self, uri: str, reserved: set[str]) -> str:
        number, found = 1, uri
        while (_fold(found) if reserved is self._folded else found) in reserved:
            number += 1
            found = f"{uri}-{number}"
        self._uris.add(found)
        self._folded.add(_fold(found))
        return found


def link(uri: str) -> Json:
    """Return a link to a document."""
    return {"@odata.id": uri}


def links(uris: Iterable[str]) -> list[Json]:
    """Return links to documents."""
    return [link(uri) for uri in uris]


def is_set(value: object) -> bool:
    """Return whether a value says anything: it is not None and not empty."""
    return value is not None and value != {} and value != [] and value != ()


def oem(**facts: object) -> Json | None:
    """Return an ``Oem`` object with what Redfish has no word for, None without any."""
    known = {key: value for key, value in facts.items() if is_set(value)}
    found: Json = msgspec.json.decode(msgspec.json.encode(known))
    kind = {"@odata.type": f"#{OEM}.v1_0_0.{OEM}"}
    return {OEM: kind | found} if found else None


def segment(text: str) -> str:
    """Return a text as one part of a URI; only what would end the part is encoded."""
    codes = {"/": "%2F", "?": "%3F", "#": "%23"}
    return "".join(codes.get(letter, letter) for letter in text)


def _fold(uri: str) -> str:
    return unquote(uri).casefold()
