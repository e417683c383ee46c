# SPDX-License-Identifier: Apache-2.0
"""Simulated pod managers that listen: one event loop, a port each, loopback only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from valence_sched.errors import PodmError, UsageError
from valence_sched.simulator.app import App

HOST = "127.0.0.1"


def url_of(port: int) -> str:
    """Return where a pod manager answers."""
    return f"http://{HOST}:{port}/redfish/v1"


def bound(count: int, port: int = 0) -> list[socket.socket]:
    """Return sockets on consecutive ports from ``port``, or on any that are free when it is 0.

    Raises:
        UsageError: there are not that many ports.
        PodmError: a port is taken; none is left bound.
    """
    if not 0 <= port <= 65535 or (port and port + count - 1 > 65535):
        raise UsageError(f"--port {port}: {count} ports from there go beyond 65535")
    found: list[socket.socket] = []
    for number in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.append(sock)
        try:
            sock.bind((HOST, port + number if port else 0))
        except OSError as error:
            for one in found:
                one.close()
            said = (error.strerror or "no reason told").lower()
            text = f"{HOST}:{port + number}: {said}: name another --port, or 0 for free ones"
            raise PodmError(text) from None
    return found


@contextlib.asynccontextmanager
async def listening(apps: Sequence[App], sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Answer on these sockets while the context lasts; a fault rule may keep one from it."""
    runners = []
    try:
        for app, sock in zip(apps, sockets, strict=True):
            if "refuse" in app.podm.faults:
                continue  # bound and not listening: the port is kept, and refuses
            runner = web.ServerRunner(
                web.Server(app.handle, access_log=None), shutdown_timeout=0.5, access_log=None
            )
            await runner.setup()
            runners.append(runner)
            await web.SockSite(runner, sock, backlog=512).start()
        yield
    finally:
        await asyncio.gather(*(runner.cleanup() for runner in runners))
        for sock in sockets:
            sock.close()


async def run(
    apps: Sequence[App], sockets: Sequence[socket.socket], ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; ``ready`` is called once all listen."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with listening(apps, sockets):
        ready()
        await stop.wait()
