# SPDX-License-Identifier: Apache-2.0
"""A pod manager that leases sleds, served on loopback: its documents, and two verbs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.unit.drivers.served import Server

RECORDED = Path(__file__).parent / "sled_lease" / "rack-9.json"
LEASES = "/redfish/v1/Oem/SledLease/Leases"


def documents() -> dict[str, bytes]:
    """Return the recorded documents by URI."""
    recorded = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, msgspec.Raw])
    return {uri: bytes(document) for uri, document in recorded.items()}


def write(handler) -> bool:
    """Create or end a lease, as the pod manager of the recipe does."""
    server = handler.podm
    leases = msgspec.json.decode(server.documents[LEASES])
    if handler.command == "POST" and handler.path == LEASES:
        uri = f"{LEASES}/{server.made + 8}"
        server.made += 1
        body = msgspec.json.decode(handler.sent)
        server.documents[uri] = msgspec.json.encode({"@odata.id": uri, **body})
        leases["Members"].append({"@odata.id": uri})
        status, headers = 201, {"Location": uri}
    elif handler.command == "DELETE" and handler.path in server.documents:
        del server.documents[handler.path]
        leases["Members"].remove({"@odata.id": handler.path})
        status, headers = 204, {}
    else:
        return False
    server.documents[LEASES] = msgspec.json.encode(leases)
    return handler.reply(status, b"{}" if status == 201 else b"", headers)


@contextlib.contextmanager
def lease_server() -> Iterator[Server]:
    """Serve the recorded pod manager until the context ends."""
    server = Server(documents(), rules=[write])
    try:
        yield server
    finally:
        server.close()
