# SPDX-License-Identifier: Apache-2.0
"""Maintenance: a store goes down to each version and up again, is checked, and is copied."""

import sqlite3
import stat
import threading

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine, raw_engine
from tests.unit.store.site import part, podm
from valence_sched.errors import StoreError
from valence_sched.model.registration import Registration
from valence_sched.store import schema, tables
from valence_sched.store.maintenance import Maintenance


class MaintenanceCase:
    """Has a store with a pod manager, a claim and a decision."""

    def setUp(self):
        super().setUp()
        self.url = self.fresh_url()
        store = self.store()
        store.register(Registration(name="p", url="http://127.0.0.1:1"))
        store.remember_all([podm("p", 4)])
        self.claim = store.claims.create([part("p", 1, "c0")]).id
        store.save_decision("d", b"{}")
        store.close()

    def maintenance(self):
        return self.enterContext(Maintenance(self.url))

    def columns(self):
        engine = raw_engine(self.url)
        inspector = sa.inspect(engine)
        found = {
            name: (
                sorted((one["name"], str(one["type"])) for one in inspector.get_columns(name)),
                sorted((one["name"], one["column_names"]) for one in inspector.get_indexes(name)),
            )
            for name in inspector.get_table_names()
        }
        engine.dispose()
        return found


@on_each_engine
class TestVersions(MaintenanceCase):
    def test_it_goes_down_to_each_version_and_up_again_and_keeps_its_claims(self):
        """An upgrade can be taken back."""
        newest, maintenance = self.columns(), self.maintenance()
        seen = [newest]
        for revision in reversed(schema.revisions()):
            with self.subTest(revision):
                maintenance.downgrade(revision)
                self.assertEqual([(revision,)], self.execute(sa.select(tables.version)))
                ids = self.execute(sa.text("SELECT id FROM claims"))
                self.assertEqual([(self.claim,)], ids)
                seen.append(self.columns())
        self.assertEqual(len(seen) - 1, len({repr(one) for one in seen}))  # each changes some
        self.assertEqual("0001", maintenance.upgrade())
        self.assertEqual(newest, self.columns())
        store = self.store()
        self.assertEqual([self.claim], [one.id for one in store.claims.list()])
        self.assertEqual(["d"], [one.id for one in store.decisions.newest(9)])
        self.assertEqual(["p"], [*store.load_podms()])
        store.update_stats("p", {"load": 1})

    def test_one_that_a_process_works_on_stays(self):
        store = self.store()
        store.leases.acquire("reader", "host-1", 60)
        with self.assertRaisesRegex(StoreError, "host-1 works on it: stop every service first"):
            self.maintenance().downgrade("0001")
        self.assertEqual(tables.REVISION, self.maintenance().revision)
        store.leases.give_up("reader", "host-1")
        self.assertEqual(tables.REVISION, self.maintenance().downgrade("0002"))

    def test_a_version_that_is_none_is_refused(self):
        for revision in ("0999", "head", "", "-1"):
            with self.subTest(revision), self.assertRaisesRegex(StoreError, "name one of 0001, "):
                self.maintenance().downgrade(revision)

    def test_a_check_counts_rows_and_names_an_older_version(self):
        maintenance = self.maintenance()
        found = maintenance.check()
        self.assertEqual(((), 1, 1), (found.problems, found.rows["claims"], found.rows["podms"]))
        maintenance.downgrade("0004")
        (problem,) = maintenance.check().problems
        self.assertIn("its schema is version 0004", problem)
        self.execute(sa.update(tables.version).values(version_num="0999"))
        (problem,) = maintenance.check().problems
        self.assertIn("use a newer valence-sched", problem)
        self.execute(sa.update(tables.version).values(version_num="0004"))

    def test_only_a_file_is_copied_here(self):
        path = self.folder / "copy.sqlite"
        if self.engine == "sqlite":
            self.maintenance().backup(path)
            self.assertTrue(path.exists())
            return
        with self.assertRaisesRegex(StoreError, "with its own tool, in one transaction: .*dump"):
            self.maintenance().backup(path)
        self.assertFalse(path.exists())


class TestFile(MaintenanceCase, StoreCase):
    """A store in a file."""

    def test_a_copy_in_use_is_whole(self):
        """What a backup has is one moment of the state."""
        store, over = self.store(), threading.Event()
        store.update_stats("q", {"a": 0, "b": 0})

        def change():
            number = 0
            while not over.is_set():
                number += 1
                store.update_stats("q", {"a": number, "b": number})

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for number in range(5):
                path = self.folder / f"copy{number}.sqlite"
                self.maintenance().backup(path)
                self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
                copy = self.store(f"sqlite:///{path}")
                stats = copy.reported_stats()["q"]
                self.assertEqual(stats["a"], stats["b"])
                self.assertEqual([self.claim], [one.id for one in copy.claims.list()])
        finally:
            over.set()
            thread.join()

    def test_a_file_that_is_there_stays(self):
        path = self.folder / "copy"
        path.write_text("mine")
        with self.assertRaisesRegex(StoreError, "file exists: name another file"):
            self.maintenance().backup(path)
        self.assertEqual("mine", path.read_text())

    def test_damage_is_named(self):
        file = self.url.removeprefix("sqlite:///")
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM claims")
        connection.commit()
        connection.close()
        (problem, *_) = self.maintenance().check().problems
        self.assertRegex(problem, "a row names one of claims that is not there")

    def test_a_store_that_is_not_there_is_not_made(self):
        path = self.folder / "none.sqlite"
        with self.assertRaisesRegex(StoreError, "no store is there"):
            Maintenance(f"sqlite:///{path}")
        self.assertFalse(path.exists())
