# SPDX-License-Identifier: Apache-2.0
"""A simulated pod manager as a web application, with network faults."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, web

from valence_sched.simulator.server.documents import HttpReply, Json, error_body, refusal
from valence_sched.simulator.server.faults import Fault
from valence_sched.simulator.server.podm import EncodedReply, SimulatedPodm, encode_reply
from valence_sched.simulator.server.reads import HttpRequest
from valence_sched.simulator.server.services import Destination, bodies_of, events_of

LOOK_S = 0.05  # seconds between checks for changes
QUIET_LOOKS = 20  # checks without a change, after which a stream sends a comment
ENDLESS_BYTES = 1 << 30
#: Bodies that are not documents, by the kind of the rule ``body``.
BODIES = {"text": b"It is done.", "number": b"42", "list": b"[]", "object": b"{}"}
WRITES = ("POST", "PATCH", "PUT", "DELETE")
NESTING_DEPTH = 100_000
_PIECE = b'{"@odata.id":"/redfish/v1/Chassis/of-very-many"},' * 1338  # about 64 KiB
RECEIVER_S = 2.0  # time limit of the answer of an event receiver


async def stream_events(request: web.BaseRequest, podm: SimulatedPodm) -> web.StreamResponse | None:
    """Send an event for each change to a client; return None if a fault rule cuts the stream."""
    if "stream-redirect" in podm.faults:
        where = f"https://elsewhere.example.net{request.path}"
        return web.Response(status=307, headers={"Location": where})
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    response = web.StreamResponse(headers=headers)
    position = podm.documents.changes
    await response.prepare(request)
    await response.write(b": events follow\n\n")
    if "stream-endless" in podm.faults:
        await _send_endless(response, b"data: ")
    most, copies = podm.faults.number("stream-cut"), podm.faults.number("stream-storm") or 1
    sent = quiet = 0
    while most is None or sent < most:
        await asyncio.sleep(LOOK_S)
        changes = podm.documents.changes_since(position)
        position = changes[-1].number if changes else position
        messages = list(events_of(changes, sent + 1, older="stream-older" in podm.faults))
        for message in messages:
            for _ in range(copies):
                await response.write(message)
            sent += 1
        quiet = 0 if messages else quiet + 1
        if quiet >= QUIET_LOOKS:
            quiet = 0
            await response.write(b": keep-alive\n\n")
    return None


class SeenRequest(NamedTuple):
    """A received request, and its status: 0 if it was cut, -1 if it is not answered yet."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class Traffic:
    """The received requests: the numbers of all and of concurrent requests, and the last ones."""

    requests: int = 0
    writes: int = 0
    at_once: int = 0
    most_at_once: int = 0
    last: deque[SeenRequest] = field(default_factory=lambda: deque(maxlen=100_000))


class SimulatorApp:
    """One pod manager behind HTTP; every answer is delayed by ``latency_s``."""

    def __init__(self, podm: SimulatedPodm, latency_s: float = 0.0, *, keep: int = 0) -> None:
        self.podm, self._latency_s = podm, latency_s
        self.traffic = Traffic(last=deque(maxlen=keep))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        traffic = self.traffic
        traffic.requests += 1
        traffic.at_once += 1
        traffic.most_at_once = max(traffic.most_at_once, traffic.at_once)
        status = -1
        try:
            response = await self._respond(request)
            status = 0 if response is None else response.status
            return _cut(request) if response is None else response
        except ConnectionError:  # the client has closed it
            status = 0
            return _cut(request)
        finally:
            traffic.at_once -= 1
            traffic.last.append(SeenRequest(request.method, request.path_qs, status))

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse | None:
        body = await request.read() if request.can_read_body else b""
        headers = {name.lower(): value for name, value in request.headers.items()}
        http_request = HttpRequest(request.method, request.path, dict(request.query), headers, body)
        is_login = request.path.startswith(self.podm.sessions.collection)
        self.traffic.writes += request.method in WRITES and not is_login
        counts = {"cut-after": self.traffic.requests, "die-after": self.traffic.writes}
        bounds = ((count, self.podm.faults.number(name)) for name, count in counts.items())
        if any(most is not None and count > most for count, most in bounds):
            return None
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if fault := self._take_fault("delay", request):
            await asyncio.sleep(fault.number / 1000)
        if self._take_fault("hang", request):
            await asyncio.Event().wait()
        body_fault = self._take_fault("body", request)
        if (faulty := await self._fault_response(request)) is not None:
            if body_fault and isinstance(faulty, web.Response):
                faulty.body = BODIES[body_fault.kind]
            return faulty
        if self.podm.streams(http_request):
            return await stream_events(request, self.podm)
        reply = self.podm.reply(http_request)
        if not reply.status or self._take_fault("drop-reply", request):
            return None
        if fault := self._take_fault("done-status", request):
            text = "A fault rule sets this status, and the request is carried out."
            return _response(encode_reply(refusal(fault.number, "GeneralError", text)))
        content = BODIES[body_fault.kind] if body_fault else reply.body
        if self._take_fault("malformed", request):
            content = content[: max(1, len(content) // 2)]
        if self._take_fault("cut-body", request):
            response = await _open_json(request, len(content))
            await response.write(content[: len(content) // 2])
            return None
        return _response(reply, content)

    async def _fault_response(self, request: web.BaseRequest) -> web.StreamResponse | None:
        if fault := self._take_fault("status", request):
            text = "A fault rule sets this status."
            return _response(encode_reply(refusal(fault.number, "GeneralError", text)))
        if fault := self._take_fault("busy", request):
            busy = refusal(503, "ServiceTemporarilyUnavailable", "Try again later.")
            later = {"Retry-After": str(fault.number)}
            return _response(encode_reply(HttpReply(503, busy.body, later)))
        if self._take_fault("html", request):
            page = "<!DOCTYPE html><html><body><h1>It works!</h1></body></html>"
            return web.Response(text=page, content_type="text/html")
        if self._take_fault("lie", request):
            body = error_body("InternalError", "The request failed, in spite of its status.")
            return web.json_response(body)
        if self._take_fault("deep", request):
            nested = b'{"Members":' + b"[" * NESTING_DEPTH + b"]" * NESTING_DEPTH + b"}"
            return web.Response(body=nested, content_type="application/json")
        if self._take_fault("huge", request):
            response = await _open_json(request)
            await _send_endless(response, b'{"Members":[')
            return response
        return None

    def _take_fault(self, name: str, request: web.BaseRequest) -> Fault | None:
        return self.podm.faults.take(name, request.method, request.path, request.path_qs)


def _cut(request: web.BaseRequest) -> web.Response:
    """Cut the connection; the returned response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _response(reply: EncodedReply, content: bytes | None = None) -> web.Response:
    body = reply.body if content is None else content
    return web.Response(status=reply.status, body=body, headers=reply.headers)


async def _open_json(request: web.BaseRequest, length: int | None = None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = length
    await response.prepare(request)
    return response


async def _send_endless(response: web.StreamResponse, begin: bytes) -> None:
    await response.write(begin)
    for _ in range(0, ENDLESS_BYTES, len(_PIECE)):
        await response.write(_PIECE)


async def deliver_events(podms: Sequence[SimulatedPodm]) -> None:
    """Send events until cancelled; a receiver that does not answer loses some events."""
    positions = [podm.documents.changes for podm in podms]
    sent = 0
    async with ClientSession(timeout=ClientTimeout(total=RECEIVER_S)) as session:
        while True:
            await asyncio.sleep(LOOK_S)
            posts = []
            for index, podm in enumerate(podms):
                position, positions[index] = positions[index], podm.documents.changes
                if position == positions[index]:
                    continue
                wanted = list(podm.subscriptions.destinations())
                changes = podm.documents.changes_since(position) if wanted else []
                for body in bodies_of(changes, sent + 1, older="stream-older" in podm.faults):
                    sent += 1
                    posts += [_post(session, one, body) for one in wanted]
            await asyncio.gather(*posts)


async def _post(session: ClientSession, to: Destination, body: Json) -> None:
    data = msgspec.json.encode({**body, "Context": to.context})
    headers = {"Content-Type": "application/json"}
    with contextlib.suppress(ClientError, TimeoutError):
        async with session.post(to.url, data=data, headers=headers, allow_redirects=False):
            pass
