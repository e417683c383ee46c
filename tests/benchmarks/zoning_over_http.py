# SPDX-License-Identifier: Apache-2.0
"""The cost of zones that are services: a hop, a tree relative to one flat zone, and messages.

Each zone is a process with its own state. All run on this machine, so the CPU time is measured for
each zone, and the elapsed time for all zones together.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.http_load import Request, measure
from tests.benchmarks.measure import Measurement, against, cpu_ms, sized
from tests.benchmarks.over_http import JSON, REQUEST, free_port, rates, running
from tests.benchmarks.zoning import (
    LEVELS,
    PODMS,
    check_same,
    comparable_requests,
    sites,
    write_sites,
)
from valence_sched.app import App
from valence_sched.model.request import Request as NodeRequest
from valence_sched.model.zone import OfferQuery, ZoneAnswer
from valence_sched.model.zone_registry import RecordedZone, ZoneInfo, ZoneRegistration, ZoneReport
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone

CLIENTS, EACH, CPU_EACH, WARM = sized(4, 1), sized(100, 2), sized(300, 3), sized(20, 1)
COMPARED = sized(20, 4)
NODES = sized(100, 3)


@dataclass(frozen=True)
class Service:
    """A running zone: its port and its first process."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Return the URL of the zone."""
        return f"http://127.0.0.1:{self.port}"

    def request(self, path: str, body: Mapping[str, Any]) -> Request:
        """Return a request to the zone."""
        return Request(self.port, "POST", path, json.dumps(body).encode(), JSON)

    def cpu_ms(self) -> float:
        """Return the CPU time of all processes of the zone until now."""
        return sum(map(cpu_ms, self._processes()))

    def memory_mib(self) -> float:
        """Return the memory of all processes of the zone."""
        page = os.sysconf("SC_PAGE_SIZE")
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                 for pid in self._processes())  # fmt: skip
        return sum(pages) * page / (1 << 20)

    def _processes(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]


def zoning_over_http() -> Iterator[Measurement]:
    """Yield the cost of a hop, and of a tree for the same decisions as one flat zone."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        words = ["-m", "tests.benchmarks.hello", str(port), "1"]
        stack.enter_context(running(folder, words, port))
        hello = Request(port, "GET", "/", None, {})
        top = write_sites(folder)
        zones = _Zones(stack, folder)
        flat = zones.start(RecordedZone(name="flat", inventories=tuple(sites(top))))
        tree = zones.start_tree(top)
        lowest = tuple(zone for _, zone in top.walk() if not zone.children)
        router = zones.start(RecordedZone(name="router", children=lowest[:1]))
        wide = zones.start(RecordedZone(name="wide", children=lowest))
        child = zones.services[lowest[0].name]
        yield from _hop(hello, child, router, wide, len(lowest))
        yield from _messages({0: child, 1: router, LEVELS: tree})
        _check(flat, tree)
        yield from _decisions(flat, tree, zones.services)
        name = f"zones: memory of a zone of {PODMS} pod managers, times a router"
        yield against(name, flat.memory_mib(), router.memory_mib(), 5.0, "MiB")


def _hop(
    hello: Request, child: Service, router: Service, wide: Service, children: int
) -> Iterator[Measurement]:
    """Yield the added cost of a router over one zone, and the cost of a router over several."""
    path, body = "/v1/select_destinations", {"request": REQUEST}
    bare, alone, through = rates(
        [hello, child.request(path, body), router.request(path, body)], 1, EACH
    )
    yield against("zones: p50 through a router, times the zone", through.p50_ms, alone.p50_ms, 5.0)
    added = through.p50_ms - alone.p50_ms
    yield against("zones: p50 of a hop, times hello", added, bare.p50_ms, 20.0)
    (own,) = _cpu_each(child.request(path, body), [child])
    routed, offered = _cpu_each(router.request(path, body), [router, child])
    yield against("zones: CPU of the router, times a zone that decides", routed, own, 3.0)
    yield against("zones: CPU of a zone that offers, times one that decides", offered, own, 2.0)
    (all_,) = _cpu_each(wide.request(path, body), [wide])
    each = (all_ - routed) / (children - 1)
    yield against("zones: CPU of the router for one child more, times the first", each, routed, 1.0)


def _messages(zones: Mapping[int, Service]) -> Iterator[Measurement]:
    """Yield the size of an answer with one node and with many, by the levels below a zone."""
    needs = App(environ={}).config.flavors()["medium"].needs
    for levels, zone in zones.items():
        for nodes in (1, NODES):
            query = OfferQuery(request=NodeRequest(needs=needs, count=nodes))
            answer, _ = ServiceConnection(zone.url).ask("POST", "zones/offers", body=query)
            found = msgspec.json.decode(answer, type=ZoneAnswer).nodes
            if len(found) != nodes:
                raise RuntimeError(f"{zone.url}: {len(found)} of {nodes} nodes")
            least = len(msgspec.json.encode([one.candidate for one in found]))
            name = f"zones: answer with {nodes} nodes, {levels} levels below, times the candidates"
            yield against(name, len(answer), least, 6.0, "bytes")


def _check(flat: Service, tree: Service) -> None:
    """Raise RuntimeError unless both services make the same decision."""
    one, other = (RemoteScheduler(ServiceConnection(zone.url)) for zone in (flat, tree))
    requests = list(comparable_requests(App(environ={})))
    for asked in requests[:: max(1, len(requests) // COMPARED)]:
        check_same(one.select_destinations(asked), other.select_destinations(asked), asked)


def _decisions(flat: Service, tree: Service, zones: Mapping[str, Service]) -> Iterator[Measurement]:
    """Yield the time per decision of the tree, and the CPU time of each of its zones."""
    path, body = "/v1/select_destinations", {"request": REQUEST}
    ours, whole = flat.request(path, body), tree.request(path, body)
    for clients in sorted({1, CLIENTS}):
        one, all_ = rates([ours, whole], clients, EACH)
        name = f"zones: {clients} clients: "
        yield against(f"{name}p50, times a flat zone", all_.p50_ms, one.p50_ms, 30.0)
        yield against(f"{name}a decision, times a flat zone", all_.each_ms, one.each_ms, 30.0)
    (alone,) = _cpu_each(ours, [flat])
    names = sorted(name for name in zones if name.startswith("top"))
    each = dict(zip(names, _cpu_each(whole, [zones[name] for name in names]), strict=True))
    lowest = [each[name] for name in names if name.count("-") == LEVELS]
    yield against("zones: CPU of the top, times a flat zone", each["top"], alone, 6.0)
    mean = sum(lowest) / len(lowest)
    yield against("zones: CPU of a lowest zone, times a flat zone", mean, alone, 3.0)
    yield against("zones: CPU of the tree, times a flat zone", sum(each.values()), alone, 40.0)


def _cpu_each(request: Request, services: list[Service]) -> list[float]:
    """Return the CPU time of each service for one request.

    Linux counts whole ticks: less than one tick counts as one.
    """
    before = [service.cpu_ms() for service in services]
    measure(request, 1, CPU_EACH, WARM)
    return [max(service.cpu_ms() - at, TICK_MS) / (CPU_EACH + WARM)
            for service, at in zip(services, before, strict=True)]  # fmt: skip


TICK_MS = 1000.0 / os.sysconf("SC_CLK_TCK")  # the unit of CPU time in Linux


class _Zones:
    """The running zones by name, until the context ends."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.services: dict[str, Service] = {}

    def start_tree(self, zone: RecordedZone) -> Service:
        """Start a zone after all zones below it run."""
        for child in zone.children:
            self.start_tree(child)
        return self.start(zone)

    def start(self, zone: RecordedZone) -> Service:
        """Start a zone with its running children."""
        home, port = self._folder / zone.name, free_port()
        home.mkdir()
        state = f"sqlite:///{home}/state.sqlite"
        with Store(state) as store:
            for child in zone.children:
                url = self.services[child.name].url
                added = store.zones.add(ZoneRegistration(name=child.name, url=url))
                report = ZoneReport(is_active=True, info=ZoneInfo(name=child.name), reason="")
                store.zones.record([PolledZone(added, report)])
        settings = {
            "port": port, "state": state, "inventories": list(zone.inventories),
            "limits": {"queue_s": 60.0},
            "zones": {"name": zone.name, "enable_zone_routing": True, "offer_deadline_s": 60.0},
        }  # fmt: skip
        (home / "settings.yaml").write_text(json.dumps(settings))
        words = ["-m", "valence_sched.server.main", "serve", "--config",
                 str(home / "settings.yaml")]  # fmt: skip
        process = self._stack.enter_context(running(home, words, port))
        self.services[zone.name] = Service(port, process.pid)
        return self.services[zone.name]
