# SPDX-License-Identifier: Apache-2.0
"""Event delivery of simulated pod managers: sends their events to where they are wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from valence_sched.simulator.server.documents import Json
from valence_sched.simulator.server.event_service import bodies_of
from valence_sched.simulator.server.podm import SimulatedPodm
from valence_sched.simulator.server.subscriptions import Destination

#: How often changes are looked for, and how long a receiver may take.
LOOK_S, RECEIVER_S = 0.05, 2.0


async def deliver_events(podms: Sequence[SimulatedPodm]) -> None:
    """Send events until this is cancelled; a receiver that is away loses some."""
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
    try:
        async with session.post(to.url, data=data, headers=headers, allow_redirects=False):
            pass
    except (ClientError, TimeoutError):
        return
