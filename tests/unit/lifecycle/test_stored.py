# SPDX-License-Identifier: Apache-2.0
"""Deciding on the stored state: the same answers as from a new reading, with little work."""

import datetime
import itertools
import logging
import os
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import cpu
from tests.unit.lifecycle.site import request
from tests.unit.store.site import part, podm
from valence_sched.app import App
from valence_sched.errors import (
    InventoryIncomplete,
    InventoryStale,
    SchedulerError,
    UnknownName,
    UsageError,
)
from valence_sched.lifecycle.stored_deciders import ASK_AGAIN_S
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure, ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.store.tables import key_of

# reports have the time of the database, which is that of this machine
START = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
NAMES = ("a", "b", "c", "d")
COUNTS = tables.SHARDS + 2  # of the change log, with those of registrations and zones
AWAY = ReadFailure(reason="https://x: connection refused")


def registration(name: str, **words) -> Registration:
    return Registration(name=name, url=f"https://{name}", **words)


class Site:
    """A store, a clock, an engine that follows the store, and engines that read all of it."""

    def __init__(self, folder: str, **live) -> None:
        self.now, self.folder = START, folder
        self.state = f"sqlite:///{folder}/state.sqlite"
        self.selection = Selection(live=ReadOptions(state=self.state, stored=True, **live))
        self.store = Store(self.state)
        self.app, self.engine = self.new_engine()

    def new_engine(self):
        environ = {"XDG_CONFIG_HOME": self.folder}
        app = App(environ=environ, now=lambda: self.now)
        return app, app.engine(self.selection)

    def close(self) -> None:
        self.engine.close()
        self.store.close()

    def read_at(self) -> str:
        return self.now.isoformat(timespec="seconds")

    def remember(self, name: str, **words) -> None:
        self.store.remember(podm(name, read_at=self.read_at(), **words))

    def fail(self, name: str, failure: ReadFailure = AWAY) -> None:
        self.store.record_failures({name: (FullPodm(id=name, status=failure.status), failure)})

    def fresh(self):
        """Return an engine that reads the whole store, and does not follow it."""
        app, engine = self.new_engine()
        engine._is_stored = False
        return app, engine


def answers(app: App, engine) -> dict[str, object]:
    """Return the answer of each verb, or its error, and the remarks made meanwhile."""
    asked = request(seed=3)
    verbs = {
        "select": lambda: engine.select_destinations(asked, detail="report"),
        "select_all": lambda: engine.select_all([asked, asked]).report.outcome,
        "rank": lambda: engine.rank(asked, 9),
        "fits": lambda: engine.count_fits(asked, 9),
        "inventory": engine.inventory,
        "podms": engine.podms,
        "podm": lambda: engine.podm("a"),
        "blocks": lambda: list(engine.blocks(BlockFilter())),
        "block": lambda: engine.block("c0", "a"),
        "pools": engine.pools,
        "devices": lambda: engine.device_counts(BlockFilter()),
    }
    found: dict[str, object] = {}
    for name, verb in verbs.items():
        try:
            found[name] = verb()
        except SchedulerError as error:
            found[name] = (type(error).__name__, str(error))
    if not isinstance(found["inventory"], tuple):  # otherwise earlier remarks may be missing
        found["notes"] = sorted(app.diagnostics.lines("unread", "skipped", "warning"))
    return found


CHANGES = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("unregister"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("fail"), st.sampled_from(NAMES), st.sampled_from(["Offline", "Unknown"])),
    st.tuples(st.just("refuse"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("report"), st.sampled_from(NAMES), st.sampled_from(["x", "y"])),
    st.tuples(st.just("forget"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("claim"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("release"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([20, 70])),
    st.tuples(st.just("spoil"), st.sampled_from(NAMES), st.none()),
)


def change(site: Site, kind: str, name: str, word: object) -> None:
    """Change the store as another process would; a refused change has no effect."""
    store = site.store
    try:
        if kind == "register" and name in {one.name for one in store.registrations()}:
            store.change(registration(name, enabled=bool(word)))
        elif kind == "register":
            store.register(registration(name, enabled=bool(word)))
        elif kind == "unregister":
            store.unregister(name)
        elif kind == "read":
            site.remember(name, blocks=word)
        elif kind == "spoil":
            site.remember(name, blocks=[cpu("c0", 8, pools=["nowhere"])])
        elif kind == "fail":
            site.fail(name, replace(AWAY, status=word))
        elif kind == "refuse":
            site.fail(name, replace(AWAY, reason="another service", refused=True))
        elif kind == "report":
            store.update_stats(name, {"zone": word})
        elif kind == "forget":
            store.forget_report(name)
        elif kind == "claim":
            site.engine.claim(request())
        elif kind == "release":
            for claim in store.claims.list():
                store.claims.release(claim.id)
        else:
            site.now += datetime.timedelta(seconds=word)
    except SchedulerError:
        pass


class FollowerProperty:
    """After any changes, a follower has the present state; a mixin of a test case."""

    maxDiff = None

    @settings(
        max_examples=20 if os.environ.get("VALENCE_SCHED_SOAK") else 6,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(CHANGES, max_size=10),
        st.sampled_from([{}, {"max_age_s": 60.0}, {"warn_age_s": 60.0}, {"only": ("a",)}]),
        st.integers(2, 5),
    )
    def test_a_follower_answers_as_a_fresh_reading_after_any_changes(self, changes, live, every):
        with tempfile.TemporaryDirectory() as folder:
            site = Site(folder, **live)
            try:
                for number, one in enumerate([("register", "a", True), *changes], 1):
                    change(site, *one)
                    if number % every and number <= len(changes):
                        continue
                    site.now += datetime.timedelta(seconds=ASK_AGAIN_S)  # updates ages
                    followed = answers(site.app, site.engine)
                    self.assertEqual(answers(*site.fresh()), followed, changes[:number])
            finally:
                site.close()


class TestReporters(unittest.TestCase):
    """Pod managers that report themselves."""

    maxDiff = None

    def test_a_reporter_that_is_registered_takes_its_place_among_the_registered(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Site(folder)
            try:
                for one in (("register", "a", True), ("report", "b", "y"), ("report", "d", "y")):
                    change(site, *one)
                answers(site.app, site.engine)
                change(site, "register", "d", True)
                found = [answers(*who)["podms"] for who in ((site.app, site.engine), site.fresh())]
                orders = [[one.podm.id for one in podms] for podms in found]
                self.assertEqual([["a", "d", "b"]] * 2, orders)
            finally:
                site.close()


class StoredCase(unittest.TestCase):
    """Two registered pod managers, read and followed."""

    live: ClassVar[dict[str, object]] = {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = self.opened(folder.name, **self.live)
        for name in ("a", "b"):
            self.site.store.register(registration(name))
            self.site.remember(name)

    def opened(self, folder, **live):
        site = Site(folder, **live)
        self.addCleanup(site.close)
        return site

    def chosen(self):
        decision = self.site.engine.select_destinations(request())
        return {placement.chosen.podm for placement in decision.report.placements}

    def wait(self, seconds):
        self.site.now += datetime.timedelta(seconds=seconds)


class TestDamage(StoredCase):
    """A damaged row of a pod manager affects only this pod manager."""

    step = 11  # fewer are skipped in the proofs

    def test_any_column_leaves_the_others_and_a_reading_mends_it(self):
        names = sorted({column.name for column in tables.podms.c} - {"podm_key", "name"})
        values = (("x", True), (b"\xff", True), (b"\xff", False), (999, True))
        for column, (value, follows) in [*itertools.product(names, values)][:: self.step]:
            with self.subTest(column, value=value, follows=follows):
                self.setUp()
                if follows:
                    self.chosen()
                engine = sa.create_engine(self.site.state)
                with engine.begin() as connection:
                    text = f"update podms set {column} = :value where podm_key = :key"
                    connection.execute(sa.text(text), {"value": value, "key": key_of("a")})
                engine.dispose()
                logging.disable(logging.WARNING)
                self.addCleanup(logging.disable, logging.NOTSET)
                self.assertIn("b", {one.podm.id for one in self.site.engine.podms()})
                self.assertTrue(self.chosen())
                self.site.fail("a")
                self.assertEqual({"b"}, self.chosen())
                self.wait(5)
                for name in ("a", "b"):
                    self.site.remember(name, blocks=2)
                fresh = answers(*self.site.fresh())
                self.assertEqual(fresh, answers(self.site.app, self.site.engine))


class TestWork(StoredCase):
    """The work of a decision depends on the changes."""

    def work(self):
        counts = self.site.engine._stored.store.counts
        before = (counts.rows_read, counts.podms_decoded, counts.transactions)
        self.chosen()
        after = (counts.rows_read, counts.podms_decoded, counts.transactions)
        return tuple(b - a for a, b in zip(before, after, strict=True))

    def test_it_does_not_grow_with_what_is_there(self):
        """S30."""
        costs = []
        for count in (5, 60):
            for number in range(count):
                name = f"p{number:03}"
                if name not in {one.name for one in self.site.store.registrations()}:
                    self.site.store.register(registration(name))
                self.site.remember(name)
            self.chosen()
            none = self.work()
            self.site.remember("p003", blocks=count)
            one = self.work()
            self.site.fail("p004", replace(AWAY, reason=str(count)))
            failed = self.work()
            self.site.store.claims.create(self.part("p001"))
            claimed = self.work()
            costs.append((none, one, failed, claimed))
            for claim in self.site.store.claims.list():
                self.site.store.claims.release(claim.id)
        self.assertEqual(costs[0], costs[1])
        none, one, failed, claimed = costs[0]
        self.assertEqual([0, 1, 0, 0], [work[1] for work in costs[0]])
        self.assertEqual([1 + COUNTS] * 3, [work[0] - none[0] for work in (one, failed, claimed)])
        self.assertEqual([1, 2, 2, 2], [work[2] for work in costs[0]])

    def part(self, name):
        return [part(name, self.site.store.load_podms([name])[name].generation, "c0")]

    def test_a_claim_reads_and_decodes_nothing_again(self):
        self.chosen()
        counts = self.site.engine._stored.store.counts
        before = counts.podms_decoded
        self.assertIsNotNone(self.site.engine.claim(request()).claim)
        self.assertEqual(before, counts.podms_decoded)


class TestUnread(StoredCase):
    """A pod manager that was not read is not chosen, and each answer states the reason."""

    def test_it_is_offline_with_its_last_content(self):
        self.assertTrue(self.chosen())
        self.site.fail("a")
        self.assertEqual({"b"}, self.chosen())
        (line,) = self.site.app.diagnostics.lines("unread")
        self.assertRegex(line, f"^a: {AWAY.reason}; last read 20[0-9T:+-]+$")
        overview = self.site.engine.podm("a")
        self.assertEqual(("Offline", (3, 3)), (overview.podm.status, overview.amounts.blocks))
        self.site.remember("a")
        self.site.fail("b")
        self.assertEqual({"a"}, self.chosen())

    def test_no_claim_is_made_of_it_whatever_the_policy_says(self):
        self.site.fail("a", replace(AWAY, status="Online"))
        self.site.fail("b", replace(AWAY, status="Unknown"))
        self.assertEqual({"a"}, self.chosen())
        with self.assertRaises(InventoryIncomplete):
            self.site.engine.claim(request())

    def test_one_that_was_not_read_yet_says_so(self):
        self.site.store.register(registration("c"))
        self.chosen()
        (line,) = self.site.app.diagnostics.lines("unread")
        self.assertEqual("c: https://c: not read yet (podm watch)", line)

    def test_none_that_is_read_is_an_outage(self):
        self.site.fail("a")
        self.site.fail("b")
        with self.assertRaisesRegex(InventoryIncomplete, "0 of 2 pod managers could be read"):
            self.chosen()

    def test_disabling_counts_at_once(self):
        self.chosen()
        self.site.store.change(registration("a", enabled=False))
        self.assertEqual({"b"}, self.chosen())

    def test_one_that_is_taken_out_is_gone(self):
        self.chosen()
        self.site.store.unregister("a")
        self.assertEqual(["b"], [one.podm.id for one in self.site.engine.podms()])
        self.site.store.unregister("b")
        with self.assertRaisesRegex(UsageError, "no inventory: name one"):
            self.chosen()
        with self.assertRaises(UsageError):
            self.site.engine.podm("a")
        self.site.store.register(registration("b"))
        self.site.remember("b")
        with self.assertRaises(UnknownName):
            self.site.engine.podm("a")

    def test_no_state_is_made_to_look(self):
        with tempfile.TemporaryDirectory() as folder:
            app = App(environ={"XDG_CONFIG_HOME": folder})
            state = Path(folder) / "none.sqlite"
            live = ReadOptions(state=f"sqlite:///{state}", stored=True)
            with self.assertRaises(UsageError):
                app.engine(Selection(live=live)).podms()
            self.assertFalse(state.exists())


class TestOldReadings(StoredCase):
    """Without a reader, readings become old."""

    live: ClassVar[dict[str, object]] = {"max_age_s": 60.0}

    def test_a_reading_that_is_too_old_is_refused(self):
        self.chosen()
        self.wait(61)
        self.site.remember("b")
        line = "'a': read 61s ago, the maximum age is 60s"
        for verb in (self.chosen, lambda: self.site.engine.claim(request())):
            with self.assertRaisesRegex(InventoryStale, line):
                verb()
        self.assertEqual([], self.site.store.claims.list())
        self.site.remember("a")
        self.assertTrue(self.chosen())

    def test_a_reading_that_changed_nothing_makes_it_new(self):
        self.chosen()
        self.wait(59)
        for name in ("a", "b"):
            self.site.remember(name)
        self.wait(2)
        self.assertTrue(self.chosen())
        (a, _) = self.site.engine.podms()
        read_at = START + datetime.timedelta(seconds=59)
        self.assertEqual(read_at.isoformat(), a.podm.read_at)

    def test_one_that_fails_loses_its_blocks_once_it_is_too_old(self):
        self.site.fail("a")
        self.chosen()
        self.assertEqual((3, 3), self.site.engine.podm("a").amounts.blocks)
        self.wait(61)
        self.site.remember("b")
        self.assertEqual({"b"}, self.chosen())
        self.assertEqual((0, 0), self.site.engine.podm("a").amounts.blocks)


class TestClaims(StoredCase):
    """Claims and decisions share the followed state."""

    def test_a_claim_counts_in_the_next_decision_of_every_engine(self):
        _, other = self.site.new_engine()
        self.addCleanup(other.close)
        other.podms()
        claim = self.site.engine.claim(request()).claim
        (part,) = claim.parts
        for engine in (self.site.engine, other):
            self.assertEqual((2, 3), engine.podm(part.podm).amounts.blocks)
        other.update_resource_stats("a", {"status": "Offline"})
        self.assertEqual({"b"}, self.chosen())
        list(other.release([claim.id]))
        self.assertEqual((3, 3), self.site.engine.podm(part.podm).amounts.blocks)

    def test_a_plan_is_made_and_claimed_without_a_live_reading(self):
        result = self.site.engine.plan(request())
        claim = self.site.engine.claim_plan(result.plan)
        self.assertEqual("HELD", claim.state)
        self.assertEqual("placed", self.site.engine.refresh(result.plan).report.outcome)
