# SPDX-License-Identifier: Apache-2.0
"""A session on writable documents in memory, with pauses that take no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valence_sched.drivers.composer import Reply
from valence_sched.drivers.http.exchange import Patience
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant

Json = dict[str, Any]


def links(*uris: str) -> list[Json]:
    return [{"@odata.id": uri} for uri in uris]


def link(uri: str) -> Json:
    return {"@odata.id": uri}


DOMAIN, CHUNKS = "/R/MemoryDomains/1", "/R/MemoryDomains/1/MemoryChunks"
DOMAIN_JSON = {"AllowsMemoryChunkCreation": True, "MemorySizeMiB": 4096,
               "MemoryChunkIncrementMiB": 256, "MemoryChunks": link(CHUNKS)}  # fmt: skip


class StoredPodm:
    """Documents by URI; an int in place of a document is the status of the answer.

    ``requests`` has the method and URI of each request, ``bodies`` the posted or patched bodies.
    ``on_post``, ``on_patch`` and ``on_delete`` replace the usual answers. ``pauses`` is the number
    of pauses before the time is over; each pause runs the first of ``meanwhile``.
    """

    def __init__(self, documents: dict[str, Any], pauses: int = 20) -> None:
        self.documents: dict[str, Any] = dict(documents)
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Json] = []
        self.states: list[str] = []
        self.meanwhile: list[Callable[[], object]] = []
        self.on_post: Callable[[str, Json], Reply] = self.create
        self.on_patch: Callable[[str, Json], Reply] = self.change
        self.on_delete: Callable[[str], Reply] = self.drop
        self._pauses, self._now = pauses, 0.0

    def get(self, uri: str) -> Reply:
        self.requests.append(("GET", uri))
        found = self.documents.get(uri, 404)
        return Reply(found, {}, None) if isinstance(found, int) else Reply(200, {}, found)

    def post(self, uri: str, body: Json) -> Reply:
        self.requests.append(("POST", uri))
        self.bodies.append(body)
        return self.on_post(uri, body)

    def patch(self, uri: str, body: Json) -> Reply:
        self.requests.append(("PATCH", uri))
        self.bodies.append(body)
        return self.on_patch(uri, body)

    def delete(self, uri: str) -> Reply:
        self.requests.append(("DELETE", uri))
        return self.on_delete(uri)

    def create(self, uri: str, body: Json) -> Reply:
        """Create a member of a collection, and return its URI in the header."""
        made = self.add(uri, **body)
        return Reply(201, {"Location": made}, None)

    def add(self, collection: str, **properties: Any) -> str:
        """Add a member to a collection; return its URI."""
        uri = f"{collection}/{len(self.documents)}"
        self.documents[uri] = properties
        holder = self.documents[collection]
        self.documents[collection] = {**holder, "Members": [*holder["Members"], link(uri)]}
        return uri

    def change(self, uri: str, body: Json) -> Reply:
        """Replace each property that is sent."""
        self.documents[uri] = {**self.documents[uri], **body}
        return Reply(200, {}, None)

    def drop(self, uri: str) -> Reply:
        """Remove a document."""
        del self.documents[uri]
        return Reply(204, {}, None)

    def refuse(self, *_request: object) -> Reply:
        """Refuse every request."""
        return Reply(400, {}, None, "not here")

    def send_nothing(self, *_request: object) -> Reply:
        """Fail before the request is sent; earlier reads are forgotten."""
        self.requests.clear()
        error = PodmError("no connection")
        error.sent = False
        raise error

    def patience(self) -> Patience:
        return Patience(self._pauses, lambda: self._now, self._sleep)

    def _sleep(self, _seconds: float) -> None:
        self._now += 1.0  # each pause is one
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def sent(self, method: str) -> list[str]:
        """Return the URIs of all requests of one method."""
        return [uri for verb, uri in self.requests if verb == method]


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
    """A pod manager of two blocks and one memory domain, which composes posted systems."""

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
        """Remove a system, and free its blocks."""
        self.documents |= {block_: block("Unused") for block_ in PLAIN.blocks}
        return self.drop(uri)

    @property
    def chunks(self) -> list[str]:
        return [uri for uri in self.documents if uri.startswith(f"{CHUNKS}/")]

    def ask(self, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.compose(request, self.states.append)

    def remove(self, node: str, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.remove(request, node, self.states.append)
