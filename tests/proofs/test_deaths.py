# SPDX-License-Identifier: Apache-2.0
"""Processes die under load: no answered request is lost or done twice, and nothing leaks.

``VALENCE_SCHED_SOAK`` sets a larger number of jobs of each client.
"""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from random import Random

import sqlalchemy as sa

from tests.proofs.caller import Caller
from tests.proofs.engines import on_each_private_engine
from tests.proofs.load import Load
from tests.proofs.oracle import Oracle
from tests.proofs.scheduler_process import open_files, scheduler_process, threads
from tests.proofs.served_site import served_site
from tests.unit.store.engines import raw_engine
from valence_sched.inventory.background_reader import LEASE
from valence_sched.store import tables
from valence_sched.store.store import Store

CLIENTS, WORKERS, SEED = 4, 3, 1
JOBS = int(os.environ.get("VALENCE_SCHED_SOAK") or 3)  # per client
DEATHS = (0.25, 0.5, 0.75)  # at this share of the load
LEASE_S = 6  # lease of the reading worker; the others check it three times in this time
PODMS, BLOCKS = 2, 12 + JOBS * CLIENTS // 8
MOST_THREADS, MOST_FILES, MOST_CONNECTIONS = 48, 160, 60  # of a process, and of all together


@on_each_private_engine
class TestDeaths:
    """A load on several workers over served pod managers."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.state = cls.state_url(folder)
        cls.podms = cls.enterClassContext(served_site(folder, cls.state, PODMS, BLOCKS))
        (folder / "service.yaml").write_text(f"reader: {{lease_s: {LEASE_S}}}")
        words = ("--config", f"{folder}/service.yaml", "--state", cls.state)
        cls.service = cls.enterClassContext(scheduler_process(folder, WORKERS, *words))

    def load(self) -> Load:
        mark = self.id().rpartition(".")[2]
        load = Load(self.service.url, CLIENTS, JOBS, SEED, mark=mark)
        self.oracle = Oracle(self, self.state, self.podms, load)
        return load

    def judge(self, load: Load) -> None:
        """Wait for the end of a load, and compare the state with the answers."""
        try:
            load.finish()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.service.defects()}") from error
        self.service.wait_for(lambda: len(self.service.worker_pids()) == WORKERS, "workers")
        with contextlib.closing(Caller(self.service.url)) as caller:
            self.oracle.check(caller)
        for pid in self.service.worker_pids():
            self.assertLessEqual(threads(pid), MOST_THREADS)
            self.assertLessEqual(open_files(pid), MOST_FILES)
        if self.database is not None:
            self.assertLessEqual(self.database.connections(), MOST_CONNECTIONS)
        self.assertNotIn("SIGSEGV", self.service.log())
        self.assertEqual("", self.service.defects())

    def test_any_worker(self):
        """S4: kill -9, repeatedly."""
        random, load = Random(SEED), self.load()
        load.start()
        for share in DEATHS:
            load.wait_for(share)
            self.service.kill_worker(random.choice(self.service.worker_pids()))
        self.judge(load)
        self.assertGreaterEqual(self.service.booted(), WORKERS + len(DEATHS))

    def test_the_worker_that_reads(self):
        """Another worker takes over after the lease has expired."""
        self.service.wait_for(self.reader, "reader")
        reader, load = self.reader(), self.load()
        load.start()
        load.wait_for(DEATHS[0])
        self.service.kill_worker(reader)
        self.end_lease()
        self.judge(load)
        self.service.wait_for(lambda: self.reader() not in (None, reader), "other reader")

    def test_the_database(self):
        if self.database is None:
            self.skipTest("a file has no process")
        load = self.load()
        load.start()
        for share in DEATHS[::2]:
            load.wait_for(share)
            self.database.kill()
            self.database.start()
        self.judge(load)

    def test_all_workers_one_after_another(self):
        """A rolling restart: every request that was begun is answered."""
        before, load = set(self.service.worker_pids()), self.load()
        load.start()
        load.wait_for(DEATHS[0])
        self.service.restart_workers()
        self.service.wait_for(lambda: not before & set(self.service.worker_pids()), "restart")
        self.judge(load)

    def reader(self) -> int | None:
        """Return the worker that holds the lease of the background reader."""
        with Store(self.state) as store:
            holder = store.leases.holder(LEASE) or ""
        numbers = {int(word) for word in re.findall(r"\d+", holder)}
        return next(iter(numbers & set(self.service.worker_pids())), None)

    def end_lease(self) -> None:
        engine = raw_engine(self.state)
        with engine.begin() as connection:
            connection.execute(sa.update(tables.leases).values(expires_at=0.0))
        engine.dispose()
