# SPDX-License-Identifier: Apache-2.0
"""``podm serve``: pod managers of an inventory, from their records to listening ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from valence_sched.drivers.recorded import Record
from valence_sched.errors import InputError, SchedulerError, UnknownName
from valence_sched.simulator.blocks import blocks
from valence_sched.simulator.documents import Documents
from valence_sched.simulator.faults import Faults, faults_of
from valence_sched.simulator.podm import Settings, SimulatedPodm
from valence_sched.simulator.sessions import Login
from valence_sched.simulator.sources import documented

#: Called once with the id and the URL of every pod manager, when all of them listen.
Ready = Callable[[list[tuple[str, str]]], None]


@dataclass(frozen=True, slots=True)
class Service:
    """Which pod managers are served (none named means all), where and how.

    Port 0 is any that is free.
    """

    podms: Sequence[str] = ()
    port: int = 0
    latency_ms: float = 0.0
    fail: Sequence[str] = ()
    page_size: int = 0
    session_limit: int = 64
    session_timeout_s: float = 300.0
    login: Login = field(default_factory=Login)


def serve(records: Iterable[Record], problems: list[str], service: Service, ready: Ready) -> None:
    """Serve until the process is told to stop.

    Raises:
        SchedulerError: the web framework is not installed.
        InputError: there is nothing to serve.
        UsageError, UnknownName: a fault rule or port is wrong.
        PodmError: a port is taken.
    """
    try:
        from valence_sched.simulator import app, running
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        text = "podm serve needs aiohttp: pip install 'valence-sched[serve]'"
        raise SchedulerError(text) from None
    found = dict(documented(records, problems))
    if not found:
        raise InputError("the inventory", "$", "no pod manager", "at least one")
    for id_ in service.podms:
        if id_ not in found:
            raise UnknownName("pod manager", id_, found)
    if service.podms:
        found = {id_: found[id_] for id_ in dict.fromkeys(service.podms)}
    faults = faults_of(service.fail, list(found))
    _check_blocks(found, faults)
    settings = Settings(
        login=service.login,
        page_size=service.page_size,
        session_limit=service.session_limit,
        session_timeout_s=service.session_timeout_s,
    )
    apps = [
        app.App(SimulatedPodm(id_, documents, settings, faults[id_]), service.latency_ms / 1000)
        for id_, documents in found.items()
    ]
    sockets = running.bound(len(apps), service.port)
    named = [
        (one.podm.id, running.url_of(sock.getsockname()[1]))
        for one, sock in zip(apps, sockets, strict=True)
    ]
    asyncio.run(running.run(apps, sockets, lambda: ready(named)))


def _check_blocks(found: Mapping[str, Documents], faults: Mapping[str, Faults]) -> None:
    """Refuse a block in a fault rule that none of the pod managers has whom the rule is for."""
    for name in dict.fromkeys(name for one in faults.values() for name in one.paths("steal")):
        meant = [found[id_] for id_, one in faults.items() if name in one.paths("steal")]
        uris = [uri for documents in meant for uri, _ in blocks(documents)]
        ids = [uri.rpartition("/")[2] for uri in uris]
        if name not in uris and name not in ids:
            raise UnknownName("resource block", name, ids, f"--fail steal:{name}")
