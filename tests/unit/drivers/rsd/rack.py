# SPDX-License-Identifier: Apache-2.0
"""A rack's pod manager in memory that allocates and assembles, and the composer on it."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.rsd.composer import RsdComposer
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant

ALLOCATE = "/N/Actions/Allocate"
NODE = CompositionRequest(name="vs-1", blocks=("/S/1",))
WHOSE = "the owner is unknown"


def cut(*amounts: float) -> CompositionRequest:
    """A node with volumes of these sizes in GiB, from one pool."""
    grants = tuple(Grant("/St/1/Pools/1", amount) for amount in amounts)
    return CompositionRequest(name="vs-1", blocks=NODE.blocks, grants=grants)


class Rack(StoredPodm):
    """A pod manager of two systems, which allocates the first and assembles any node."""

    def __init__(self, pauses: int = 20, **documents: Any) -> None:
        super().__init__({
            ROOT: {"Nodes": link("/N"), "Systems": link("/S")},
            "/N": {"Members": [], "Actions": {"#ComposedNodeCollection.Allocate":
                                              {"target": ALLOCATE}}},
            "/S": {"Members": links("/S/1", "/S/2")},
            "/S/1": {"@odata.type": "#ComputerSystem.v1", "Processors": link("/S/1/P")},
            "/S/2": {"@odata.type": "#ComputerSystem.v1"},
            "/S/1/P": {"Members": links("/S/1/P/1", "/S/1/P/2")},
            "/S/1/P/1": {"TotalCores": 8}, "/S/1/P/2": {"TotalCores": 8},
            **documents,
        }, pauses)  # fmt: skip
        self.on_post = self.act
        self.composer = RsdComposer(self, self.patience)

    def act(self, uri: str, body: dict[str, Any]) -> Reply:
        if uri == ALLOCATE:
            return Reply(201, {"Location": self.allocate(body["Name"])}, None)
        self.become(uri.rpartition("/")[0], "Assembled")
        return Reply(204, {}, None)

    def allocate(self, name: str = "vs-1", *systems: str, **more: Any) -> str:
        """Add an allocated node of a system; return its URI."""
        linked = {"ComputerSystem": link(*systems or ("/S/1",)), **more}
        uri = self.add("/N", Name=name, ComposedNodeState="Allocated", Links=linked)
        self.documents[uri]["Actions"] = {"#ComposedNode.Assemble": {"target": f"{uri}/Assemble"}}
        return uri

    def become(self, node: str, state: str) -> None:
        self.documents[node] = {**self.documents[node], "ComposedNodeState": state}

    def ask(self, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.compose(request, self.states.append)

    def remove(self, node: str, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.remove(request, node, self.states.append)

    def assembled(self, **more: Any) -> str:
        uri = self.allocate(**more)
        self.become(uri, "Assembled")
        return uri
