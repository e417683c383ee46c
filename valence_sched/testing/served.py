# SPDX-License-Identifier: Apache-2.0
"""Serves recorded pod managers on loopback from a thread, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from valence_sched.core.plugins import DIALECTS, installed
from valence_sched.drivers.recorded import records
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.simulator.server.app import SeenRequest, SimulatorApp, Traffic
from valence_sched.simulator.server.documents import DocumentTree, Json
from valence_sched.simulator.server.faults import faults_of
from valence_sched.simulator.server.load import load_documents
from valence_sched.simulator.server.podm import SimulatedPodm, SimulatorSettings
from valence_sched.simulator.server.serve import bind_sockets, listen, url_of

#: Requests that are remembered a pod manager.
MOST_REQUESTS = 100_000


@dataclass(frozen=True)
class ServedPodm:
    """One pod manager that listens: its id, where, what came in, and its documents."""

    id: str
    url: str
    app: SimulatorApp

    @property
    def traffic(self) -> Traffic:
        """Return what came in so far: counts, and how many requests at once at most."""
        return self.app.traffic

    @property
    def requests(self) -> list[SeenRequest]:
        """Return the requests that came in, in the order of their answers."""
        return list(self.app.traffic.last)

    @property
    def open_sessions(self) -> int:
        """Return how many sessions are open now."""
        return len(self.app.podm.sessions)

    @property
    def documents(self) -> DocumentTree:
        """Return its documents as they stand; a test may put others."""
        return self.app.podm.documents


@contextlib.contextmanager
def served(
    *sources: str,
    documents: Mapping[str, Mapping[str, Json]] | None = None,
    fail: Sequence[str] = (),
    latency_ms: float = 0.0,
    settings: SimulatorSettings | None = None,
    port: int = 0,
) -> Iterator[dict[str, ServedPodm]]:
    """Serve recorded pod managers, and maps of documents by id; yield them by id.

    Each has a free port of its own, unless ``port`` names the first. ``fail`` is as ``--fail``
    of ``podm serve``.

    Raises:
        InputError: a source is no inventory, or a document of it cannot be read.
    """
    diagnostics, dialects = Diagnostics(), installed(DIALECTS)
    read = (
        record
        for source in sources
        for record in records(source, io.BytesIO(), diagnostics, dialects)
    )
    found = dict(load_documents(read, diagnostics))
    for id_, one in (documents or {}).items():
        found[id_] = DocumentTree(one)
    if not found:
        raise InputError(", ".join(sources), "", "no pod manager", "at least one")
    faults = faults_of(fail, list(found))
    apps = [
        SimulatorApp(
            SimulatedPodm(id_, one, settings, faults[id_]), latency_ms / 1000, keep=MOST_REQUESTS
        )
        for id_, one in found.items()
    ]
    sockets = bind_sockets(len(apps), port)
    urls = [url_of(sock.getsockname()[1]) for sock in sockets]
    everything = {
        app.podm.id: ServedPodm(app.podm.id, url, app) for app, url in zip(apps, urls, strict=True)
    }
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        try:
            async with listen(apps, sockets):
                ready.set()
                await stop.wait()
        finally:
            ready.set()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:  # what a fault rule keeps waiting
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        ready.wait(timeout=30)
        yield everything
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=30)
        loop.close()
