# SPDX-License-Identifier: Apache-2.0
"""Maintenance: a store is downgraded to each version and upgraded again, checked, and copied."""

import itertools
import sqlite3
import stat
import threading
from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import StoreCase, on_each_engine, raw_engine
from tests.unit.store.site import DECISION, part, podm
from valence_sched.errors import IdentityConflict, StoreError
from valence_sched.model.claim import Grant
from valence_sched.model.need import Alternative, Need, NodeRequest, TopologyConstraint
from valence_sched.model.registration import Registration
from valence_sched.model.request import Request
from valence_sched.store import schema, tables
from valence_sched.store.database import StoreUrl
from valence_sched.store.maintenance import Maintenance


class MaintenanceCase:
    """A test case with a store with a pod manager, a claim and a decision."""

    def setUp(self):
        super().setUp()
        self.url = self.fresh_url()
        store = self.store()
        store.register(Registration(name="p", url="http://127.0.0.1:1"))
        store.remember_all([podm("p", 4)])
        self.claim = store.claims.create([part("p", 1, "c0")]).id
        store.decisions.save("d", DECISION)
        store.close()

    def maintenance(self):
        return self.enterContext(Maintenance(self.url))

    def columns(self):
        with raw_engine(self.url).connect() as connection:
            inspector = sa.inspect(connection)
            return {
                name: (
                    sorted((one["name"], str(one["type"])) for one in inspector.get_columns(name)),
                    sorted((one["name"], one["column_names"])
                           for one in inspector.get_indexes(name)),
                )
                for name in inspector.get_table_names()
            }  # fmt: skip


@on_each_engine
class TestVersions(MaintenanceCase):
    def test_it_goes_down_to_each_version_and_up_again_and_keeps_its_claims(self):
        """An upgrade can be undone."""
        newest, maintenance = self.columns(), self.maintenance()
        seen = [newest]
        for revision in reversed(schema.revisions()):
            with self.subTest(revision):
                maintenance.downgrade(revision)
                self.assertEqual([(revision,)], self.execute(sa.select(tables.version)))
                ids = self.execute(sa.text("SELECT id FROM claims"))
                self.assertEqual([(self.claim,)], ids)
                seen.append(self.columns())
        # each changes some columns, except for the one that changes documents
        self.assertEqual(len(seen) - 2, len({repr(one) for one in seen}))
        self.assertEqual("0001", maintenance.upgrade())
        self.assertEqual(newest, self.columns())
        store = self.store()
        self.assertEqual([self.claim], [one.id for one in store.claims.list()])
        self.assertEqual(["d"], [one.id for one in store.decisions.newest(9)])
        self.assertEqual(["p"], [*store.load_podms()])
        store.update_stats("p", {"load": 1})

    def test_what_was_interrupted_is_completed_by_the_next_attempt(self):
        newest, maintenance = self.columns(), self.maintenance()
        for work, place in (
            (lambda: maintenance.downgrade("0006"), "DROP TABLE zones"),
            (maintenance.upgrade, "INDEX decisions_owner"),
        ):
            with self.subTest(place):
                self.interrupt(maintenance._database.writer, place, work)
                work()
        self.assertEqual(newest, self.columns())

    def interrupt(self, engine, place, work):
        """Interrupt a function before the first statement with these words."""

        def stop(_connection, _cursor, statement, *_rest):
            if place in statement:
                raise KeyboardInterrupt

        sa.event.listen(engine, "before_cursor_execute", stop)
        with self.assertRaises(KeyboardInterrupt):
            work()
        sa.event.remove(engine, "before_cursor_execute", stop)

    def test_it_keeps_identities_through_each_older_version(self):
        """With a lost identity, another service could answer under the name, and a zone would
        change its id.
        """
        store = self.store()
        store.register(Registration(name="q", url="http://127.0.0.1:2", identity="uuid:of-q"))
        store.remember_all([podm("p", 4, identity="uuid:of-p"), podm("q", 2), podm("r", 1)])
        known, zone = store.identities(), store.zones.own_id()
        self.assertEqual({"p": "uuid:of-p", "q": "uuid:of-q"}, known)
        store.close()
        before = self.identity_rows()
        for revision in ("0007", "0001"):
            with self.subTest(revision):
                maintenance = self.maintenance()
                maintenance.downgrade(revision)
                maintenance.upgrade()
                store = self.store()
                self.assertEqual((known, zone), (store.identities(), store.zones.own_id()))
                self.assertEqual(before, self.identity_rows())
                with self.assertRaises(IdentityConflict):
                    store.remember(podm("p", 4, identity="uuid:of-another"))
                store.close()

    def test_fields_of_documents_have_the_names_of_the_version(self):
        constraint = TopologyConstraint("same", "bonds", ("nic",))
        need = Need(kind="nic", measure="devices", amount=1, name='"bonds":[{"relation"')
        first = Alternative((need,), (constraint,))
        asked = Request(needs=first.needs, topology=first.topology, other_alternatives=(first,))
        declared = (Grant("declared:power", 5),)
        one = replace(part("p", 1, "c1"), declared_stocks=declared, request=NodeRequest.of(asked))
        store = self.store()
        claim = store.claims.create([one])
        store.close()
        select = sa.select(sa.text("document")).select_from(sa.text("claims"))
        select = select.where(sa.text(f"id = '{claim.id}'"))
        ((new,),) = self.execute(select)
        self.maintenance().downgrade("0012")
        ((old,),) = self.execute(select)
        for word in ("bonds", "fallbacks", "supplies"):
            self.assertIn(f'"{word}":[{{', old.decode())
        self.assertNotIn(b'"topology"', old)
        self.maintenance().upgrade()
        self.assertEqual([(new,)], self.execute(select))
        self.assertEqual((one,), self.store().claims.show(claim.id).parts)

    def identity_rows(self):
        columns = ([one.c.name, one.c.identity, one.c.identity_key]
                   for one in (tables.podms, tables.registry))  # fmt: skip
        return [sorted(map(repr, self.execute(sa.select(*names)))) for names in columns]

    def test_one_that_a_process_works_on_stays(self):
        self.one.leases.acquire("reader", "host-1", 60)
        with self.assertRaisesRegex(StoreError, "in use by host-1: stop all services first"):
            self.maintenance().downgrade("0001")
        self.assertEqual(tables.REVISION, self.maintenance().revision)
        self.one.leases.release("reader", "host-1")
        self.assertEqual(tables.REVISION, self.maintenance().downgrade("0002"))

    def test_a_version_that_is_none_is_refused(self):
        for revision in ("0999", "head", "", "-1"):
            with self.subTest(revision), self.assertRaisesRegex(StoreError, "use one of 0001, "):
                self.maintenance().downgrade(revision)

    def test_a_check_counts_rows_and_names_an_older_version(self):
        maintenance = self.maintenance()
        found = maintenance.check()
        self.assertEqual(((), 1, 1), (found.problems, found.rows["claims"], found.rows["podms"]))
        maintenance.downgrade("0004")
        (problem,) = maintenance.check().problems
        self.assertIn("its schema has version 0004", problem)
        self.execute(sa.update(tables.version).values(version_num="0999"))
        (problem,) = maintenance.check().problems
        self.assertIn("use a newer valence-sched", problem)
        self.execute(sa.update(tables.version).values(version_num="0004"))

    def test_a_check_names_what_it_looked_at(self):
        maintenance = self.maintenance()
        found = maintenance.check()
        self.assertEqual(str(StoreUrl(self.url)), found.address)
        self.assertEqual(found.address, maintenance.address)
        self.assertEqual((tables.REVISION, tables.REVISION), (found.revision, found.latest))
        maintenance.downgrade("0004")
        self.assertEqual(("0004", tables.REVISION), maintenance.check()[1:3])

    def test_only_a_file_is_copied_here(self):
        path = self.folder / "copy.sqlite"
        if self.engine == "sqlite":
            self.maintenance().backup(path)
            self.assertTrue(path.exists())
            return
        with self.assertRaisesRegex(StoreError, "only a file can be backed up here: use .*dump"):
            self.maintenance().backup(path)
        self.assertFalse(path.exists())


class TestFile(MaintenanceCase, StoreCase):
    """A store in a file."""

    def test_a_copy_in_use_is_whole(self):
        """A backup shows one moment of the state."""
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
                stats = copy.reports()["q"].stats
                self.assertEqual(stats["a"], stats["b"])
                self.assertEqual([self.claim], [one.id for one in copy.claims.list()])
        finally:
            over.set()
            thread.join()

    def test_a_file_that_is_there_stays(self):
        path = self.folder / "copy"
        path.write_text("mine")
        with self.assertRaisesRegex(StoreError, r"file exists \(name another file\)"):
            self.maintenance().backup(path)
        self.assertEqual("mine", path.read_text())

    def test_a_copy_that_cannot_be_written_leaves_nothing_and_is_named(self):
        file, path = self.url.removeprefix("sqlite:///"), self.folder / "copy"
        maintenance = self.maintenance()
        Path(file).write_bytes(b"no database" * 1000)
        with self.assertRaisesRegex(
            StoreError, f"^{file}: backing up to .*: file is not a database"
        ):
            maintenance.backup(path)
        self.assertFalse(path.exists())

    def test_of_a_copy_that_is_gone_by_itself_the_failure_is_told(self):
        file, path = self.url.removeprefix("sqlite:///"), self.folder / "copy"
        maintenance = self.maintenance()
        Path(file).write_bytes(b"no database" * 1000)
        reader = maintenance._database.reader
        sa.event.listen(reader, "checkin", lambda *_: path.unlink(missing_ok=True))
        with self.assertRaisesRegex(StoreError, "backing up to .*: file is not a database"):
            maintenance.backup(path)

    def test_each_look_that_fails_is_named_by_what_was_being_done(self):
        for number, doing in enumerate(("looking", "checking", "counting rows")):
            maintenance, count = self.maintenance(), itertools.count()

            def fail(connection, number=number, count=count):
                if next(count) == number:
                    connection.exec_driver_sql("SELECT * FROM absent")

            sa.event.listen(maintenance._database.reader, "begin", fail)
            with self.subTest(doing), self.assertRaisesRegex(StoreError, f": {doing}: no such tab"):
                maintenance.check()

    def test_a_copy_in_a_folder_that_is_not_there_is_refused(self):
        path = self.folder / "none" / "copy"
        with self.assertRaisesRegex(
            StoreError, rf"^{path}: no such file or directory \(name anoth"
        ):
            self.maintenance().backup(path)

    def test_a_store_without_tables_is_named_so(self):
        path = self.folder / "empty.sqlite"
        path.touch()
        with Maintenance(f"sqlite:///{path}") as empty:
            self.assertIsNone(empty.revision)
            found = empty.check()
            self.assertEqual(("no tables: create them with store upgrade",), found.problems)
            self.assertEqual((None, {}), (found.revision, found.rows))
            self.assertIsNone(empty.upgrade())
            self.assertEqual(tables.REVISION, empty.revision)

    def test_the_tool_that_copies_a_database_is_named(self):
        """No server is contacted."""
        for url, tool in (
            ("postgresql://u@127.0.0.1:1/x", "pg_dump --format=custom"),
            ("mysql://u@127.0.0.1:1/x", "mysqldump --single-transaction"),
            ("mariadb://u@127.0.0.1:1/x", "mariadb-dump --single-transaction"),
            ("sqlite://", "the tool of the database"),
        ):
            with self.subTest(url), Maintenance(url) as maintenance:
                with self.assertRaises(StoreError) as raised:
                    maintenance.backup(self.folder / "copy")
                self.assertEqual(
                    f"{maintenance.address}: only a file can be backed up here: use {tool}",
                    str(raised.exception),
                )
                self.assertFalse((self.folder / "copy").exists())

    def test_damage_is_named(self):
        file = self.url.removeprefix("sqlite:///")
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM claims")
        connection.commit()
        connection.close()
        (problem, *_) = self.maintenance().check().problems
        self.assertRegex(problem, "^[a-z_]+: a row refers to a missing row of claims$")

    def test_a_damaged_index_is_named(self):
        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("PRAGMA writable_schema = ON")
        ((name,), *_) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%claims%'"
        )
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
        connection.close()
        problems = self.maintenance().check().problems
        self.assertTrue(problems)
        for problem in problems:
            self.assertRegex(problem, "^damaged: ")

    def test_a_store_that_is_not_there_is_not_made(self):
        path = self.folder / "none.sqlite"
        with self.assertRaisesRegex(StoreError, "no store found"):
            Maintenance(f"sqlite:///{path}")
        self.assertFalse(path.exists())
