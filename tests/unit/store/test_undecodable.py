# SPDX-License-Identifier: Apache-2.0
"""Rows that cannot be decoded: never written, left out of lists, reported, and removed."""

import contextlib
import itertools
import json
import logging
import math
import stat

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, expire, part, podm
from valence_sched.errors import Undecodable
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.decision import DecisionSummary
from valence_sched.model.inventory import Devices, FullBlock, FullPodm, Nic
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.model.zone import ZoneClaimPart
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.store import tables
from valence_sched.store.maintenance import PAGE_DOCUMENTS, STEP_PAUSE_S, Maintenance, Scrub
from valence_sched.store.tables import Document, InvalidDocument, key_of

COLUMNS = [one for table in tables.METADATA.sorted_tables for one in table.c
           if isinstance(one.type, Document)]  # fmt: skip
GARBAGE = (b'[{"podm":"bad","generation":1,"shares":[{"node":-5,"pool":""}]}]', b"\xff\x00", b"{}x")
ANSWER = b'{"content":"c","status":200,"headers":{},"body":1}'


class DamageCase:
    """A test case with two objects of each kind: of a pod manager ``bad`` and of ``good``."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = make_test_plan(podm("p")).decision

    def setUp(self):
        super().setUp()
        self.claims = {name: self.fill(name) for name in ("bad", "good")}

    def fill(self, name):
        store = self.one
        store.register(Registration(name=name, url=f"http://{name}.invalid"))
        store.remember(podm(name, 4))
        store.update_stats(name, {"load": 1})
        store.record_failures({name: (podm(name), ReadFailure(reason="away"))})
        generation = store.load_podms()[name].generation
        claim = store.claims.create([part(name, generation, "c0")], owner=name, key="k")
        store.claims.start_composing(claim.id)
        node = ComposedNode(
            id=name, podm=name, uri="/n", claim=claim.id, owner=name, blocks=("c0",)
        )
        store.claims.finish_composing(claim.id, [node])
        held = store.claims.create([part(name, generation, "c1")], owner=name)
        summary = DecisionSummary(id=name, decided_at=0.0, owner=name)
        store.decisions.save(name, DECISION, summary, self.report)
        store.dispatches.finish(store.dispatches.take(99.0), [])
        store.records.put_new(f"answer-{name}", ANSWER)
        store.zones.add(ZoneRegistration(name=name, url=f"http://{name}.invalid"))
        store.zone_claims.begin([ZoneClaimPart(zone=name)], owner=name, group=None, key=None,
                                content="", ttl_s=99)  # fmt: skip
        return claim.id, held.id

    def damage(self, column, garbage=GARBAGE[0]):
        """Write garbage directly to the database, in the rows of ``bad``."""
        name = {
            "nodes": "id",
            "decisions": "id",
            "dispatches": "id",
            "claims": "owner",
            "zone_claims": "owner",
        }
        of_bad = f"{name.get(column.table.name, 'name')} = 'bad'"
        text = sa.text(f"update {column.table.name} set {column.name} = :garbage where {of_bad}")
        self.execute(text, {"garbage": garbage})

    @contextlib.contextmanager
    def damaged(self, column):
        """Damage the rows of ``bad`` until the context ends."""
        table = column.table
        key = next(iter(table.primary_key))
        before = self.execute(sa.select(key, column))
        self.damage(column)
        yield
        for value, document in before:
            self.execute(sa.update(table).where(key == value).values({column.name: document}))

    def seen(self, store):
        """Return the results of each verb that lists, by name."""
        return {
            "claims": {one.owner for one in store.claims.list()},
            "newest": {one.owner for one in store.claims.newest(9)[0]},
            "nodes": {one.id for one in store.nodes.list()},
            "newest nodes": {one.id for one in store.nodes.newest(9)[0]},
            "registry": {one.name for one in store.registrations()},
            "podms": {*store.load_podms()},
            "snapshot": {one.id for one in store.snapshot().changes if not one.gone},
            "usages": {*store.usages(("bad", "good"))},
            "reports": {*store.reports()},
            "failures": {*store.failures()},
            "dispatches": {one.id for one in store.dispatches.newest(9)},
            "decisions": {one.id for one in store.decisions.newest(9)},
            "zones": {one.registration.name for one in store.zones.list()},
            "zone claims": {one.owner for one in store.zone_claims.list()},
            "events": {
                one.words
                for (claim,) in self.execute(sa.select(tables.claims.c.id))
                for one in store.events(claim)
                if one.kind == "held"
            },
        }


@on_each_engine
class TestReading(DamageCase):
    """A damaged row of one tenant does not affect others, for any cause of the damage."""

    step = 11  # fewer are skipped in the proofs

    def test_a_row_is_left_out_named_once_and_everything_else_is_there(self):
        before = self.seen(self.one)
        self.assertEqual([], [verb for verb, names in before.items() if names != {"bad", "good"}])
        for column in COLUMNS[:: self.step]:
            with self.subTest(str(column)), self.damaged(column):
                store = self.store()
                with self.assertLogs("valence_sched.store", "WARNING") as logged:
                    counts = store.scrub.step()
                    after = self.seen(store)
                missing = {verb for verb, names in after.items() if "good" not in names}
                self.assertEqual((set(), {column.table.name}), (missing, counts.keys()))
                labels = {line.getMessage().partition(" cannot")[0] for line in logged.records}
                self.assertEqual(len(labels), len(logged.records))

    def test_any_damaged_column_of_a_pod_manager_is_a_defect_of_its_own(self):
        numbers = ("generation", "shard", "moved", "read_moved")
        garbage = [(name, value) for name in numbers for value in (999, -5)]
        if self.url.startswith("sqlite"):  # others refuse values of another type
            names = {column.name for column in tables.podms.c} - {"podm_key", "name"}
            garbage += [(name, value) for name in sorted(names) for value in ("x", b"\xff", 1.5)]
        for number, (name, value) in enumerate(garbage[:: self.step], 2):
            column = tables.podms.c[name]
            key, bad = tables.podms.c.podm_key, key_of("bad")
            with self.subTest(name, value=value):
                follower = self.store()
                position = follower.snapshot().position
                plain = sa.type_coerce(column, sa.types.NULLTYPE)
                before = self.execute(sa.select(plain).where(key == bad))[0][0]
                text = sa.text(f"update podms set {name} = :v where podm_key = :k")
                self.execute(text, {"v": value, "k": bad})
                store = self.store()
                with contextlib.ExitStack() as stack:
                    logged = stack.enter_context(self.assertLogs("valence_sched.store", "WARNING"))
                    store.scrub.step()
                    logging.getLogger("valence_sched.store").warning("one, at least")
                    seen = self.seen(store)
                    store.update_stats("good", {"load": number})
                    changes = follower.snapshot(position).changes
                self.assertEqual([], [verb for verb, names in seen.items() if "good" not in names])
                self.assertIn("good", {one.id for one in changes})
                if isinstance(value, bytes) or name == "shard":
                    self.assertIn("podms bad", logged.output[0])
                self.execute(text, {"v": before, "k": bad})

    def test_a_damaged_shard_hides_no_change(self):
        for value in (999, -5):
            follower = self.store()
            position = follower.snapshot().position
            self.execute(sa.update(tables.podms).values(shard=value))
            self.one.update_stats("bad", {"load": 5 + value})
            changed = follower.snapshot(position).changes
            self.assertIn("bad", {one.id for one in changed})

    def test_another_reading_takes_the_place_of_one_that_cannot_be_decoded(self):
        self.damage(tables.podms.c.document)
        with self.assertLogs("valence_sched.store", "WARNING"):
            self.assertEqual(["good"], [*self.one.load_podms()])
        self.one.remember_all([podm("bad", 4), podm("good", 4)])
        self.assertEqual({"bad", "good"}, {*self.one.load_podms()})
        self.assertEqual({}, self.one.scrub.step())

    def test_what_is_asked_for_by_its_id_is_an_error_that_names_nothing_else(self):
        for garbage in GARBAGE:
            for column in (tables.claims.c.document, tables.nodes.c.document,
                           tables.decisions.c.document):  # fmt: skip
                self.damage(column, garbage)
            self.execute(sa.text("update records set document = :g"), {"g": garbage})
            store, (claim, _) = self.store(), self.claims["bad"]
            for ask, *words in (
                (store.claims.show, claim), (store.nodes.show, "bad"), (store.decisions.get, "bad"),
                (store.records.get, "answer-bad"), (store.claims.find_by_key, "bad", "k", ""),
            ):  # fmt: skip
                with self.assertRaises(Undecodable) as raised:
                    ask(*words)
                self.assertRegex(str(raised.exception), "^[a-z]+ [a-z0-9-]+ cannot be decoded: ")
                self.assertNotIn(str(self.folder), str(raised.exception))

    def test_its_claim_is_released_and_ends_by_its_time(self):
        _, held = self.claims["bad"]
        self.damage(tables.claims.c.document)
        self.one.claims.release(held)
        self.assertEqual([], self.execute(self.holds(held)))
        other = self.one.claims.create([part("good", self.generation("good"), "c2")], owner="bad")
        expire(self, other)
        self.damage(tables.claims.c.document)
        self.one.claims.expire()
        self.assertEqual([], self.execute(self.holds(other.id)))

    def test_less_than_nothing_is_held_by_none(self):
        """An older program stored such amounts: they would increase a stock."""
        _, held = self.claims["bad"]
        row = {"podm_key": key_of("good"), "stock_key": "s", "claim_id": held, "uri": "s"}
        amounts = sa.table("claimed_amounts", *map(sa.column, (*row, "amount")))
        self.execute(sa.insert(amounts).values(**row, amount=-5.0))
        self.assertEqual({}, self.one.usages(["good"])["good"].amounts)
        self.assertEqual({"claimed_amounts": 1}, self.one.scrub.step())

    def holds(self, claim):
        return sa.select(tables.claimed_blocks).where(tables.claimed_blocks.c.claim_id == claim)

    def generation(self, name):
        return self.one.load_podms()[name].generation


@on_each_engine
class TestScrub:
    """Rows are checked page by page, in the order of their keys."""

    def test_every_row_is_looked_at_once_and_the_next_look_goes_on(self):
        store, names = self.store(), [f"p{number}" for number in range(2 * PAGE_DOCUMENTS + 3)]
        store.remember_all([podm(name, 1) for name in names])
        self.execute(sa.text("update podms set document = :g"), {"g": b"xx"})
        maintenance = self.enterContext(Maintenance(self.url))
        labels = [one.row.label for one in maintenance.repairs()]
        self.assertEqual(sorted(names), sorted(labels))
        found = maintenance.check()
        self.assertEqual((PAGE_DOCUMENTS, len(names) - PAGE_DOCUMENTS),
                         (len(found.problems), found.unread))  # fmt: skip
        scrub = Scrub(store._database, itertools.count(0.0, STEP_PAUSE_S).__next__)
        with self.assertLogs("valence_sched.store", "WARNING") as logged:
            counts = [scrub.step(1).get("podms", 0) for _ in range(3 * len(tables.METADATA.tables))]
        self.assertEqual({0, 20, 40, 43}, {*counts})
        self.assertEqual(len(names), len(logged.records))
        store.remember_all([podm(name, 1) for name in names])
        for _ in counts:
            scrub.step(1)
        self.assertEqual({}, store._database.quarantine.counts())


@on_each_engine
class TestWriting(DamageCase):
    """No writer stores rows that cannot be read back."""

    def test_no_column_takes_what_it_could_not_give_back(self):
        before = self.seen(self.one)
        for column in COLUMNS:
            for garbage in GARBAGE:
                update = sa.update(column.table).values({column.name: garbage})
                with self.subTest(str(column)), self.assertRaises(InvalidDocument) as raised:
                    self.one._write(lambda c, update=update: c.execute(update))
                self.assertRegex(str(raised.exception), "^stored document: ")
        self.assertEqual(before, self.seen(self.one))
        for write, *words in ((self.one.records.replace, "answer-bad", b"[]"),
                              (self.one.quotas.change, "bad", {"claims": -1.0}),
                              (self.one.quotas.change, "bad", {"claims": math.nan})):  # fmt: skip
            with self.assertRaises(InvalidDocument):
                write(*words)

    def test_a_claim_that_could_not_be_read_back_leaves_no_row(self):
        generation, rows = self.one.load_podms()["good"].generation, self.counts()
        plain = part("good", generation, "c2")
        grants = [(Grant("s", amount),) for amount in (-0.0001, 2.0**53, float("nan"))]
        for words in (
            {"node": -5}, {"node": 2**70}, {"pool": ""}, {"score": "high"},
            *({"grants": one, "blocks": blocks} for one in grants for blocks in ((), ("c2",))),
        ):  # fmt: skip
            changed = replace(plain, shares=(replace(plain.shares[0], **words),))
            with self.subTest(words), self.assertRaises(InvalidDocument):
                self.one.claims.create([changed], owner="bad")
        self.assertEqual(rows, self.counts())

    def test_of_many_readings_only_one_that_could_not_be_read_back_is_refused(self):
        block = FullBlock(uri="b", devices=Devices(nics=(Nic(speed_mbps=-1),)))
        results = self.one.upsert_all([FullPodm(id="bad", blocks=(block,)), podm("good", 9)])
        self.assertRegex(str(results[0]), r"^bad: .* \$.blocks\[0\].*-1")
        self.assertEqual(9, len(results[1].blocks))

    def counts(self):
        return [self.execute(sa.select(sa.func.count()).select_from(table))
                for table in tables.METADATA.sorted_tables]  # fmt: skip


@on_each_engine
class TestRepair(DamageCase):
    def test_it_takes_out_what_cannot_be_decoded_and_nothing_else(self):
        good = self.seen(self.one)
        for column in COLUMNS:
            self.damage(column, GARBAGE[1])
        self.execute(sa.text("update records set document = '1' where id = 'answer-bad'"))
        maintenance = self.enterContext(Maintenance(self.url))
        repairs, file = maintenance.repairs(), self.folder / "rows"
        found = {(one.row.table.name, one.row.label) for one in repairs}
        self.assertEqual({one.table.name for one in COLUMNS} | {"records"}, {t for t, _ in found})
        self.assertEqual(repairs, maintenance.repairs())  # it changes nothing yet
        deep = maintenance.check(deep=True)
        self.assertEqual((len(repairs), 0), (len(deep.problems), deep.unread))
        maintenance.repair(repairs, file)
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual(len(repairs), len(lines))
        self.assertIn({"base64": "/wA="}, [line["row"][line["column"]] for line in lines])
        while again := maintenance.repairs():  # a row with another column that cannot be decoded
            maintenance.repair(again, self.folder / f"rows{len(again)}")
        self.assertEqual((), maintenance.check(deep=True).problems)
        after = self.seen(self.store())
        for verb, names in good.items():
            self.assertLessEqual(names - {"bad"}, after[verb], verb)

    def test_a_claim_that_may_be_on_hardware_holds_its_blocks_until_it_is_released(self):
        composed, held = self.claims["bad"]
        other = self.one.claims.create([part("bad", self.generation(), "c2")], owner="bad")
        self.one.claims.start_composing(other.id)
        for column in (tables.claims.c.document, tables.nodes.c.document):
            self.damage(column)
        maintenance = self.enterContext(Maintenance(self.url))
        maintenance.repair(maintenance.repairs(), self.folder / "rows")
        states = {one: self.one.claims.show(one).state for one in (composed, held, other.id)}
        self.assertEqual(["COMPOSED", "FAILED", "COMPOSED"], list(states.values()))
        self.assertEqual({"c0": 1, "c2": 1}, self.one.usages(["bad"])["bad"].blocks)
        for one in (composed, other.id):
            self.one.claims.release(one)
        self.assertEqual({}, self.one.usages(["bad"]))

    def test_a_row_that_is_another_by_now_stays(self):
        self.damage(tables.registry.c.document)
        maintenance = self.enterContext(Maintenance(self.url))
        repairs = maintenance.repairs()
        self.one.change(Registration(name="bad", url="http://new.invalid"))
        maintenance.repair(repairs, self.folder / "rows")
        self.assertEqual({"bad", "good"}, {one.name for one in self.one.registrations()})

    def generation(self):
        return self.one.load_podms()["bad"].generation
