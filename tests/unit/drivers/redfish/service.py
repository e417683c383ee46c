# SPDX-License-Identifier: Apache-2.0
"""A pod manager in memory that composes what is posted, and the composer on it."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_amounts import CHUNKS, DOMAIN, DOMAIN_JSON
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, CompositionResult

PLAIN = CompositionRequest(name="vs-1", blocks=("/B/1", "/B/2"))
GRANT = Grant(DOMAIN, 1024.0)
NODE = CompositionRequest(name="vs-1", blocks=PLAIN.blocks, grants=(GRANT,))


def block(state: str, *systems: str, **status: Any) -> dict[str, Any]:
    return {"CompositionStatus": {"CompositionState": state, "Reserved": False, **status},
            "Links": {"ComputerSystems": links(*systems)}}  # fmt: skip


def system(*blocks: str, name: str = "vs-1") -> dict[str, Any]:
    return {"Name": name, "SystemType": "Composed", "Links": {"ResourceBlocks": links(*blocks)}}


def lost(*_request: object) -> Reply:
    raise PodmError("timed out")


class Service(StoredPodm):
    """A pod manager of two blocks and one memory domain, which composes what is posted."""

    def __init__(self, pauses: int = 20, **root: Any) -> None:
        super().__init__(
            {
                ROOT: {"Systems": link("/S"), "CompositionService": link("/CS")},
                "/CS": {},
                "/S": {"Members": []},
                "/B/1": block("Unused"),
                "/B/2": block("Unused"),
                DOMAIN: DOMAIN_JSON,
                CHUNKS: {"Members": []},
                **root,
            },
            pauses,
        )
        self.on_post = self.make
        self.composer = RedfishComposer(self, self.patience)

    def make(self, uri: str, body: dict[str, Any]) -> Reply:
        if uri != "/S":
            return self.create(uri, body)
        made = self.compose(body["Name"])
        return Reply(201, {"Location": made}, None)

    def compose(self, name: str = "vs-1", state: str = "Composed") -> str:
        """Compose a system of both blocks; return its URI."""
        made = self.add("/S", **system("/B/1", "/B/2", name=name))
        self.documents |= {uri: block(state, made) for uri in PLAIN.blocks}
        return made

    def decompose(self, uri: str) -> Reply:
        """Take a document away, and free the blocks."""
        self.documents |= {block_: block("Unused") for block_ in PLAIN.blocks}
        return self.drop(uri)

    @property
    def chunks(self) -> list[str]:
        return [uri for uri in self.documents if uri.startswith(f"{CHUNKS}/")]

    def ask(self, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.compose(request, self.states.append)

    def remove(self, node: str, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.remove(request, node, self.states.append)
