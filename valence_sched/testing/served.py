# SPDX-License-Identifier: Apache-2.0
"""Serves recorded pod managers on loopback from a thread, for tests."""

import asyncio
import contextlib
import functools
import io
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from valence_sched.core.plugins import DIALECTS, InstalledPlugins
from valence_sched.drivers.recorded import records
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.simulator.server.app import SeenRequest, SimulatorApp, Traffic
from valence_sched.simulator.server.documents import DocumentTree, Json
from valence_sched.simulator.server.faults import faults_of
from valence_sched.simulator.server.load import load_documents
from valence_sched.simulator.server.podm import SimulatedPodm, SimulatorSettings
from valence_sched.simulator.server.serve import bind_sockets, listen, url_of

MOST_REQUESTS = 100_000  # that are remembered per pod manager


@dataclass(frozen=True)
class ServedPodm:
    """One pod manager that listens: its id, its URL, its traffic and its documents."""

    id: str
    url: str
    app: SimulatorApp

    @property
    def traffic(self) -> Traffic:
        return self.app.traffic

    @property
    def requests(self) -> list[SeenRequest]:
        return list(self.app.traffic.last)

    @property
    def open_sessions(self) -> int:
        return len(self.app.podm.sessions)

    @property
    def documents(self) -> DocumentTree:
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

    Each has a free port, unless ``port`` names the first. ``fail`` is as ``--fail`` of
    ``podm serve``. InputError if a source is not an inventory, or a document cannot be read.
    """
    trees_by_id = dict(_recorded(sources)) | dict(documents or {})
    documents_by_id = {id_: DocumentTree(tree) for id_, tree in trees_by_id.items()}
    if not documents_by_id:
        raise InputError(", ".join(sources), "", "no pod manager", "at least one")
    faults = faults_of(fail, list(documents_by_id))
    trees = documents_by_id.items()
    simulated = (SimulatedPodm(id_, tree, settings, faults[id_]) for id_, tree in trees)
    apps = [SimulatorApp(one, latency_ms / 1000, keep=MOST_REQUESTS) for one in simulated]
    sockets = bind_sockets(len(apps), port)
    urls = [url_of(sock.getsockname()[1]) for sock in sockets]
    podms = [ServedPodm(app.podm.id, url, app) for app, url in zip(apps, urls, strict=True)]
    with _answering(apps, sockets):
        yield {podm.id: podm for podm in podms}


def _recorded(sources: tuple[str, ...]) -> Mapping[str, Mapping[str, Json]]:
    """Return the documents of the sources; unchanged files are loaded once."""
    paths = list(map(Path, sources))
    if all(path.is_file() for path in paths):
        return _loaded(sources, tuple(path.read_bytes() for path in paths))
    return _loaded.__wrapped__(sources, ())


@functools.lru_cache(maxsize=16)
def _loaded(
    sources: tuple[str, ...], _contents: tuple[bytes, ...]
) -> Mapping[str, Mapping[str, Json]]:
    diagnostics, dialects = Diagnostics(), InstalledPlugins(DIALECTS)
    all_records = (records(source, io.BytesIO(), diagnostics, dialects) for source in sources)
    trees = load_documents(chain.from_iterable(all_records), diagnostics)
    return {id_: tree.copy() for id_, tree in trees}


@contextlib.contextmanager
def _answering(apps: Sequence[SimulatorApp], sockets: Sequence[socket.socket]) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        try:
            async with listen(apps, sockets):
                ready.set()
                await stop.wait()
        finally:
            ready.set()
            pending = asyncio.all_tasks() - {asyncio.current_task()}
            for task in pending:  # requests that a fault rule delays
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        ready.wait(timeout=30)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=30)
        loop.close()
