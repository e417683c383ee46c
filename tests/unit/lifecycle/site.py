# SPDX-License-Identifier: Apache-2.0
"""A small site for compositions: served pod managers, a store with them, and all components."""

import contextlib
import functools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from tests.unit.store.engines import empty_file
from tests.unit.store.site import claimer
from valence_sched.app import App
from valence_sched.core import plugins
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import Registration
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.simulator.server.faults import faults_of
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm, served

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "site.json")
#: The pod managers of the small site.
SMALL = ("general-1", "gpu-east", "mem-1")
PATIENCE_S = 1.0


class Site:
    """Served pod managers by id, and a store."""

    def __init__(
        self,
        podms: dict[str, ServedPodm],
        store: Store,
        checkpoint=None,
        ttl_s=600.0,
        hosts="unmanaged",
        readings: Mapping[str, FullPodm] = MappingProxyType({}),
    ) -> None:
        self.podms, self.store, self.hosts = podms, store, hosts
        self.points: list[str] = []
        self.composer = NodeComposer(
            store, self.connect, ttl_s=ttl_s, checkpoint=checkpoint or self.points.append
        )
        self.reconciler = Reconciler(store, self.connect, self.read)
        policies = App(environ={"XDG_CONFIG_HOME": "/nonexistent"}).config.policies()
        self.claimer = claimer(store, policies.values())
        self.provisioner = Provisioner(store, self.claimer, self.composer, self.read)
        for name in podms:
            store.remember(readings.get(name) or self.read(name))
        self.unusable_count = self.free_blocks() - self.free_to_decide()

    def target(self, name: str) -> ReadTarget:
        return ReadTarget(Registration(name=name, url=self.podms[name].url, hosts=self.hosts))

    @contextlib.contextmanager
    def connect(self, name: str):
        dialects = plugins.InstalledPlugins(plugins.DIALECTS)
        with connect(self.target(name), dialects, 20, PATIENCE_S) as podm:
            yield GuardedComposer(podm.composer, written=podm.session.written)

    def read(self, name: str) -> FullPodm | None:
        dialects = plugins.load(plugins.DIALECTS).by_name
        (reading,) = pool.read(
            [self.target(name)], dialects, ReadSettings(timeout_s=10, parallel=1, raw=False)
        )
        return reading.podm if reading.failure is None else None

    def read_again(self) -> None:
        """Store a reading of each pod manager, which settles the nodes that it shows."""
        for name in self.podms:
            self.store.remember(self.read(name))

    def claim(self, request: Request):
        return self.claimer.claim(request).claim

    def add_faults(self, *rules: str) -> None:
        """Add these faults to every pod manager."""
        for name, faults in faults_of(rules, list(self.podms)).items():
            self.podms[name].app.podm.faults._faults += faults._faults

    def clear_faults(self) -> None:
        """Remove all faults of pod managers."""
        for podm in self.podms.values():
            podm.app.podm.faults._faults.clear()

    def reconcile(self) -> list[str]:
        """Reap until nothing is in progress; claims expire by the database's clock."""
        done = []
        for _ in range(100):
            done += [f"{action.id}: {action.done}" for action in self.reconciler.reconcile()]
            if not self.store.claims.list(("PREPARED", "HELD", "COMPOSING")):
                return done
            time.sleep(0.05)
        raise AssertionError(f"still in progress: {self.store.claims.list()}, {done}")

    def free_blocks(self) -> int:
        """Return the number of blocks that no node uses, by the documents of pod managers."""
        return sum(
            json["CompositionStatus"]["CompositionState"] == "Unused"
            and not json["CompositionStatus"].get("Reserved")
            for podm in self.podms.values()
            if isinstance(podm, ServedPodm)
            for json in map(podm.documents.get, podm.documents)
            if "CompositionStatus" in json
        )

    def leak_count(self) -> int:
        """Return the number of free blocks that decisions cannot use, except permanently unusable
        ones.
        """
        return self.free_blocks() - self.free_to_decide() - self.unusable_count

    def free_to_decide(self) -> int:
        """Return the number of blocks that the next decision may use."""
        view = self.claimer.decider().snapshot()
        return sum(slots > 0 for shelf in view.block_tables for slots in shelf.slots)

    def blocks_used_twice(self) -> list[str]:
        """Return the blocks that are in two of our nodes."""
        every = [(node.podm, uri) for node in self.store.nodes.list() for uri in node.blocks]
        return sorted({uri for _, uri in every if every.count((_, uri)) > 1})

    def node_names(self) -> list[str]:
        """Return the names of our existing nodes."""
        return sorted(
            json["Name"]
            for podm in self.podms.values()
            for json in map(podm.documents.get, podm.documents)
            if str(json.get("Name", "")).startswith("vs-")
        )


def request(**fields) -> Request:
    words = {"properties": {"processor": {"total_cores": 8}}, **fields}
    asked = msgspec.convert(words, RequestSpec)
    return compile_request(asked)


@functools.cache
def _small_site() -> Path:
    """Return a file with some pod managers of the example: others would only be read each time."""
    site = json.loads(Path(EXAMPLE).read_text())
    site["podms"] = [one for one in site["podms"] if one["id"] in SMALL]
    file = Path(tempfile.mkdtemp(dir=Path.home())) / "site.json"  # the tests have their own home
    file.write_text(json.dumps(site))
    return file


@functools.cache
def _small_readings() -> Mapping[str, FullPodm]:
    """Return the first readings of the small site, which are the same each time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(str(_small_site())) as podms,
        Store(empty_file(Path(folder))) as store,
    ):
        here = Site(podms, store)
        return {name: here.read(name) for name in podms}


@contextlib.contextmanager
def site(
    *fail: str,
    source: str | None = None,
    documents: dict | None = None,
    url: str | None = None,
    ttl_s: float = 600.0,
    hosts: str = "unmanaged",
    **words: Any,
) -> Iterator[Site]:
    """Serve pod managers of a file, else of documents, else the small site."""
    sources = [source] if source else [] if documents else [str(_small_site())]
    with (
        tempfile.TemporaryDirectory() as folder,
        served(*sources, documents=documents, fail=fail) as podms,
        Store(url or empty_file(Path(folder)), **words) as store,
    ):
        usual = not (fail or source or documents) and hosts == "unmanaged"
        readings = _small_readings() if usual else {}
        yield Site(podms, store, ttl_s=ttl_s, hosts=hosts, readings=readings)
