# SPDX-License-Identifier: Apache-2.0
"""``podm serve``: serves recorded pod managers on loopback ports."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.drivers.recorded import Record
from valence_sched.errors import InputError, PodmError, UnknownName, UsageError, needing
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.quantity import format_count
from valence_sched.simulator.redfish.composition import blocks
from valence_sched.simulator.server.faults import faults_of
from valence_sched.simulator.server.load import load_documents
from valence_sched.simulator.server.podm import SimulatedPodm, SimulatorSettings

if TYPE_CHECKING:
    from valence_sched.simulator.server.app import SimulatorApp

HOST = "127.0.0.1"


def serve(
    records: Iterable[Record],
    diagnostics: Diagnostics,
    ready: Callable[[list[tuple[str, str]]], None],
    *,
    podms: Sequence[str] = (),
    port: int = 0,
    latency_ms: float = 0.0,
    fail: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Serve these pod managers (empty: all) until SIGTERM or SIGINT; port 0 means free ports.

    When all listen, ``ready`` gets the ID and the URL of each. ``settings`` are fields of
    :class:`SimulatorSettings`. Raises errors about options, ports, and a missing aiohttp.
    """
    with needing("aiohttp", "podm serve", "serve"):
        from valence_sched.simulator.server import app
    trees = dict(load_documents(records, diagnostics))
    if not trees:
        raise InputError("the inventory", "$", "no pod manager", "at least one")
    for name in podms:
        if name not in trees:
            raise UnknownName("pod manager", name, trees)
    trees = {name: trees[name] for name in dict.fromkeys(podms)} or trees
    faults = faults_of(fail, list(trees))
    for name in dict.fromkeys(name for one in faults.values() for name in one.paths("steal")):
        meant = (trees[id_] for id_, one in faults.items() if name in one.paths("steal"))
        uris = [uri for documents in meant for uri, _ in blocks(documents)]
        ids = [uri.rpartition("/")[2] for uri in uris]
        if name not in uris and name not in ids:
            raise UnknownName("resource block", name, ids, f"--fail steal:{name}")
    behaviour = SimulatorSettings(**settings)
    each = (SimulatedPodm(id_, trees[id_], behaviour, faults[id_]) for id_ in trees)
    apps = [app.SimulatorApp(podm, latency_ms / 1000) for podm in each]
    sockets = bind_sockets(len(apps), port)
    urls = (url_of(sock.getsockname()[1]) for sock in sockets)
    named = [(one.podm.id, url) for one, url in zip(apps, urls, strict=True)]
    asyncio.run(_run(apps, sockets, lambda: ready(named)))


def url_of(port: int) -> str:
    return f"http://{HOST}:{port}/redfish/v1"


def bind_sockets(count: int, port: int = 0) -> list[socket.socket]:
    """Return sockets on successive ports, for 0 on free ports; UsageError or PodmError."""
    if not 0 <= port <= 65535 or (port and port + count - 1 > 65535):
        raise UsageError(f"--port {port}: {format_count(count, 'port')} from there exceed 65535")
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
            reason = (error.strerror or "unknown error").lower()
            text = f"{HOST}:{port + number}: {reason}: use another --port, or 0 for free ports"
            raise PodmError(text) from None
    return found


@contextlib.asynccontextmanager
async def listen(
    apps: Sequence["SimulatorApp"], sockets: Sequence[socket.socket]
) -> AsyncIterator[None]:
    """Serve on these sockets until the context ends; fault rules make ports refuse connections."""
    from aiohttp import web  # an extra, needed only to serve

    from valence_sched.simulator.server.app import deliver_events

    runners = []
    delivery: asyncio.Task[None] | None = None
    try:
        for app, sock in zip(apps, sockets, strict=True):
            if "refuse" in app.podm.faults:
                continue  # a socket that is bound but does not listen refuses connections
            server = web.Server(app.handle, access_log=None)
            runner = web.ServerRunner(server, shutdown_timeout=0.5, access_log=None)
            await runner.setup()
            runners.append(runner)
            await web.SockSite(runner, sock, backlog=512).start()
        delivery = asyncio.create_task(deliver_events([app.podm for app in apps]))
        yield
    finally:
        if delivery is not None:
            delivery.cancel()
            await asyncio.gather(delivery, return_exceptions=True)
        await asyncio.gather(*(runner.cleanup() for runner in runners))
        for sock in sockets:
            sock.close()


async def _run(
    apps: Sequence["SimulatorApp"], sockets: Sequence[socket.socket], ready: Callable[[], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with listen(apps, sockets):
        ready()
        await stop.wait()
