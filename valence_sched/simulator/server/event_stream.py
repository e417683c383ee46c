# SPDX-License-Identifier: Apache-2.0
"""Event stream of a simulated pod manager: server-sent events, and the ways in which they fail."""

from __future__ import annotations

import asyncio

from aiohttp import web

from valence_sched.simulator.server.event_service import events_of
from valence_sched.simulator.server.podm import SimulatedPodm

#: How often a stream looks for changes, and after how many looks without one it sends a comment.
LOOK_S, QUIET_LOOKS = 0.05, 20
ENDLESS_BYTES = 1 << 30
_PIECE = b"of-a-line-without-an-end" * 2730  # about 64 KiB


async def stream_events(request: web.BaseRequest, podm: SimulatedPodm) -> web.StreamResponse | None:
    """Send an event for each change until the client is gone; None when a fault rule cuts it."""
    if "stream-redirect" in podm.faults:
        where = f"https://elsewhere.example.net{request.path}"
        return web.Response(status=307, headers={"Location": where})
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    position = podm.documents.changes
    await response.prepare(request)
    await response.write(b": events follow\n\n")
    if "stream-endless" in podm.faults:
        await _send_endless(response)
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


async def _send_endless(response: web.StreamResponse) -> None:
    await response.write(b"data: ")
    sent = 0
    while sent < ENDLESS_BYTES:
        await response.write(_PIECE)
        sent += len(_PIECE)
