# SPDX-License-Identifier: Apache-2.0
"""Nodes on hosts of a service without a CompositionService: each is read, none is written."""

from valence_sched.drivers.composer import Session, get_document, unread_result
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.redfish.describe import block_of_server, own_status
from valence_sched.drivers.redfish.schema import Server
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionResult


class PlacedNodes:
    """The nodes of one service; a node is its host, which is also its only block."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def conflict(self, host: str) -> str | None:
        """Return the state of a host that prevents its use, None whether it is on or off."""
        server = self._host(host)
        if server is None:
            return "found no such host"
        status = own_status(block_of_server(server, (), is_free=True))
        return None if status.slots else f"found {status.condition}"

    def read(self, host: str | None) -> CompositionResult:
        """Read a node by its host; without one it is ``absent``, since nothing was written."""
        try:
            server = self._host(host) if host else None
        except PodmError as error:
            return unread_result(error, host)
        if server is None:
            reason = f"{host}: found no such host" if host else ""
            return CompositionResult(state="absent", reason=reason)
        return CompositionResult(state="composed", node=host, blocks=(server.uri,))

    def _host(self, uri: str) -> Server | None:
        json = get_document(self._session, uri)
        server = Server(uri, json, NO_NOTES) if json else None
        return server if server and server.leads else None
