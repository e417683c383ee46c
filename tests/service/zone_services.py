# SPDX-License-Identifier: Apache-2.0
"""Services that form a tree of zones, for tests: each has its own state."""

from __future__ import annotations

import contextlib
import http.server
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.loopback import LoopbackServer
from tests.service.serving import serving
from valence_sched.model.registration import Registration
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import ZoneInfo, ZoneRegistration, ZoneReport
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone
from valence_sched.testing.served import ServedPodm

LONGEST_PAUSE_S = 0.03  # between two questions for the state of an operation
HEADER = {"schema": "valence-sched/inventory", "version": "1.0"}


class ZoneServices:
    """Starts services that decide on recordings, and registers them as children of each other."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def start(
        self,
        name: str,
        podms: Sequence[Mapping[str, Any]] = (),
        children: Mapping[str, str | Mapping[str, Any]] | None = None,
        zones: Mapping[str, Any] | None = None,
        served: Sequence[ServedPodm] = (),
        **settings: Any,
    ) -> str:
        """Start a zone with its own pod managers and with children; return its URL.

        Its pod managers are recorded, or ``served`` pod managers that are registered and read. A
        child is a URL or the arguments of `add_child`, whose report stands for the first interval:
        one that is added to a running zone can be polled before its report is recorded.
        """
        folder = self.folder / name
        folder.mkdir()
        inventories = tuple(settings.pop("inventories", ()))
        if podms:
            (folder / "site.json").write_text(json.dumps({**HEADER, "podms": list(podms)}))
            inventories = (str(folder / "site.json"),)
        with Store(self.state(name)) as store:
            for podm in served:
                store.register(Registration(name=podm.id, url=podm.url))
        for child, words in (children or {}).items():
            self.add_child(name, child, **({"url": words} if isinstance(words, str) else words))
        routing = ZoneSettings(
            **{"enable_zone_routing": True, "offer_deadline_s": 20.0, **(zones or {})}
        )
        chosen = ServiceSettings(
            state=self.state(name), inventories=inventories, zones=routing, **settings
        )
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        environ = dict.fromkeys(homes, str(folder))
        return self._stack.enter_context(serving(chosen, environ))

    def state(self, name: str) -> str:
        """Return the URL of the state of a zone."""
        return f"sqlite:///{self.folder / name / 'state.sqlite'}"

    def add_child(
        self, name: str, child: str, url: str, report: ZoneReport | None = None, **registration: Any
    ) -> None:
        """Register a child zone, which is active unless its report sets another state."""
        with Store(self.state(name)) as store:
            zone = store.zones.add(ZoneRegistration(name=child, url=url, **registration))
            known = report or ZoneReport(is_active=True, info=ZoneInfo(name=child), reason="")
            store.zones.record([PolledZone(zone, known)])


def scheduler(url: str) -> RemoteScheduler:
    """Return the scheduler of a service.

    Its pauses are short, but not empty: constant polling takes the time of the polled operation.
    """
    connection = ServiceConnection(url)
    return RemoteScheduler(connection, lambda pause_s: time.sleep(min(pause_s, LONGEST_PAUSE_S)))


@contextlib.contextmanager
def child_server(
    respond: Callable[[str, dict[str, Any]], Any], heard: list[str] | None = None
) -> Iterator[str]:
    """Yield the URL of a child that answers with ``respond`` of a path and a query.

    The answer is JSON, bytes, or a callable that writes to the socket. All requests are appended to
    ``heard``.
    """

    class Child(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, query: dict[str, Any]) -> None:
            if heard is not None:
                heard.append(f"{self.requestline} {self.headers} {query}")
            answer = respond(self.path, query)
            if callable(answer):
                with contextlib.suppress(OSError):
                    answer(self.wfile)
                self.close_connection = True
                return
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_words: object) -> None:
            """Log nothing."""

    server = LoopbackServer(Child)
    server.start()
    try:
        yield server.url
    finally:
        server.close()
