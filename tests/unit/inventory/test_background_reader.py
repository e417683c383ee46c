# SPDX-License-Identifier: Apache-2.0
"""The background reader: the reading process, stored readings, and logs; time is simulated."""

import tempfile
import threading
import unittest

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import podm
from valence_sched.app import App
from valence_sched.drivers.crawl.reading import Reading
from valence_sched.errors import InUse, StoreError
from valence_sched.inventory.background_reader import (
    LEASE,
    LEASE_S,
    BackgroundReader,
    ReaderClock,
    ReadSchedule,
)
from valence_sched.model.inventory import FullPodm, Node
from valence_sched.model.reading import PreviousReading, ReadOptions, ReadPace
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.store import tables

SPREAD_PACE = ReadPace(interval_s=60.0, jitter=0.1, backoff_s=600.0, open_after=3)


class TestPace(unittest.TestCase):
    """The time until the next reading."""

    def test_a_failure_doubles_it_up_to_the_longest(self):
        pauses = [SPREAD_PACE.pause_s(failures, 0.5) for failures in (0, 1, 2, 3, 4, 50)]
        self.assertEqual([60.0, 120.0, 240.0, 480.0, 600.0, 600.0], pauses)

    def test_jitter_is_a_part_of_it_in_both_directions(self):
        self.assertEqual([54.0, 66.0], [SPREAD_PACE.pause_s(0, draw) for draw in (0.0, 1.0)])

    def test_a_failure_never_shortens_it(self):
        pace = ReadPace(interval_s=60.0, backoff_s=10.0, jitter=0.0)
        self.assertEqual([60.0, 60.0], [pace.pause_s(failures, 0.5) for failures in (0, 5)])


class TestSchedule(unittest.TestCase):
    """The readings that are due."""

    def setUp(self):
        self.schedule = ReadSchedule(SPREAD_PACE, lambda: 0.5)
        self.schedule.set_names(["a", "b"], 0.0)

    def due(self, now, most=9):
        return list(self.schedule.start_due(now, most))

    def fail_readings(self, name, times):
        now = 0.0
        for _ in range(times):
            self.schedule.end(name, now, failed=True)
        return now + 600.0

    def test_new_ones_are_due_at_once_and_then_after_the_interval(self):
        self.assertEqual(["a", "b"], self.due(0.0))
        self.assertEqual([], self.due(1000.0), "they still run")
        self.schedule.end("a", 10.0, failed=False)
        self.assertEqual([], self.due(69.9))
        self.assertEqual(["a"], self.due(70.0))

    def test_no_more_run_than_may_and_the_longest_due_comes_first(self):
        self.assertEqual(["a"], self.due(0.0, most=1))
        self.schedule.end("a", 0.0, failed=False)
        self.assertEqual(["b"], self.due(99.0, most=1))
        self.assertEqual([], self.due(99.0, most=0))

    def test_back_off_and_recovery(self):
        self.due(0.0)
        self.schedule.end("a", 0.0, failed=True)
        self.assertEqual([], self.due(119.0))
        self.assertEqual(["a"], self.due(120.0))
        self.schedule.end("a", 120.0, failed=False)
        self.assertEqual(["a"], self.due(180.0))

    def test_of_open_breakers_one_is_probed_at_a_time(self):
        self.schedule.set_names(["a", "b", "c"], 0.0)
        self.due(0.0)
        for name in ("a", "b"):
            self.fail_readings(name, 2)
            self.assertFalse(self.schedule.is_open(name))
            self.fail_readings(name, 1)
            self.assertTrue(self.schedule.is_open(name))
        self.schedule.end("c", 0.0, failed=False)
        self.assertEqual(["c", "a"], self.due(600.0))
        self.assertEqual([], self.due(600.0))
        self.schedule.end("a", 600.0, failed=False)
        self.assertFalse(self.schedule.is_open("a"))
        self.assertEqual(["b"], self.due(600.0))
        self.schedule.end("b", 600.0, failed=True)
        self.assertTrue(self.schedule.is_open("b"))

    def test_one_that_is_taken_out_is_not_read_any_more(self):
        self.due(0.0)
        self.schedule.set_names(["b"], 1.0)
        self.schedule.end("a", 2.0, failed=False)
        self.assertEqual([], self.due(9.0))
        self.assertFalse(self.schedule.is_open("a"))

    def test_hastened_it_is_due_at_once_without_failures_but_not_twice(self):
        self.due(0.0)
        self.fail_readings("a", 3)
        self.schedule.hasten("a", 1.0)
        self.assertFalse(self.schedule.is_open("a"))
        self.assertEqual(["a"], self.due(1.0))
        self.schedule.hasten("b", 1.0)
        self.assertEqual([], self.due(1.0), "b runs")
        self.schedule.hasten("unknown", 1.0)

    def test_the_time_until_the_next(self):
        self.assertEqual(0.0, self.schedule.wait_s(5.0))
        self.due(5.0)
        self.assertIsNone(self.schedule.wait_s(5.0))
        self.schedule.end("a", 5.0, failed=False)
        self.assertEqual(50.0, self.schedule.wait_s(15.0))


class TestHints(unittest.TestCase):
    """The readings that an event causes."""

    def setUp(self):
        self.pace = ReadPace(interval_s=60.0, jitter=0.0, backoff_s=600.0, event_pause_s=5.0)
        self.schedule = ReadSchedule(self.pace, lambda: 0.5)
        self.schedule.set_names(["a"], 0.0)

    def read(self, now, *, failed=False):
        self.assertEqual(["a"], list(self.schedule.start_due(now, 9)))
        self.schedule.end("a", now, failed=failed)

    def test_it_is_read_at_once_where_its_last_reading_is_long_ago(self):
        self.read(0.0)
        self.schedule.hint("a", 30.0)
        self.read(30.0)
        self.assertEqual(60.0, self.schedule.wait_s(30.0), "the interval begins anew")

    def test_many_hints_are_one_reading_in_each_pause(self):
        self.read(0.0)
        starts = []
        for tenth in range(1, 300):
            self.schedule.hint("a", tenth / 10)
            for _ in self.schedule.start_due(tenth / 10, 9):
                starts.append(tenth / 10)
                self.schedule.end("a", tenth / 10, failed=False)
        self.assertEqual([5.0, 10.0, 15.0, 20.0, 25.0], starts)

    def test_one_during_a_reading_asks_for_another(self):
        list(self.schedule.start_due(0.0, 9))
        self.schedule.hint("a", 2.0)
        self.assertEqual([], list(self.schedule.start_due(3.0, 9)), "it runs")
        self.schedule.end("a", 4.0, failed=False)
        self.assertEqual(1.0, self.schedule.wait_s(4.0))
        self.read(5.0)
        self.assertEqual(60.0, self.schedule.wait_s(5.0))

    def test_it_never_delays_a_reading(self):
        self.read(0.0)
        self.schedule.hint("a", 59.0)
        self.read(59.0)
        self.schedule.hint("a", 60.0)
        self.assertEqual(4.0, self.schedule.wait_s(60.0))

    def test_a_pod_manager_that_fails_is_read_ever_more_rarely_for_its_events(self):
        now, gaps = 0.0, []
        for _ in range(6):
            self.read(now, failed=True)
            self.schedule.hint("a", now)
            gaps.append(self.schedule.wait_s(now))
            now += gaps[-1]
        self.assertEqual([10.0, 20.0, 40.0, 60.0, 60.0, 60.0], gaps)

    def test_one_of_an_unknown_name_is_nothing(self):
        self.schedule.hint("b", 0.0)
        self.assertEqual(["a"], list(self.schedule.start_due(0.0, 9)))


PACE = ReadPace(interval_s=60.0, jitter=0.0, backoff_s=240.0, open_after=3)


class ReaderCase(StoreCase):
    """Two registered pod managers, and readers of one state."""

    def setUp(self):
        super().setUp()
        self.now, self.lines, self.reads = 0.0, [], []
        self.failing: dict[str, str] = {}
        self.content: dict[str, FullPodm] = {}
        self.previous: dict[str, PreviousReading] = {}
        self.state = self.store()
        for name in ("a", "b"):
            self.state.register(Registration(name=name, url=f"https://{name}"))

    def reader(self, holder="one", start=lambda work: work(), **words):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        app = App(environ={"XDG_CONFIG_HOME": folder.name})
        clock = ReaderClock(lambda: self.now, lambda: 0.5, self.sleep)
        return BackgroundReader(
            app.registry(self.url), ReadOptions(state=self.url), self.store(), self.read,
            holder=holder, log=lambda line: self.lines.append(f"{holder}: {line}"),
            pace=PACE, clock=clock, start=start, **words,
        )  # fmt: skip

    def sleep(self, seconds):
        self.now += seconds

    def read(self, target):
        name = target.registered.name
        self.reads.append(name)
        self.previous[name] = target.previous
        if name in self.failing:
            return Reading(FullPodm(id=name, status="Offline"), f"{name}: {self.failing[name]}")
        content = self.content.get(name, podm(name))
        return Reading(replace(content, read_at=f"2026-01-01T00:{len(self.reads):02}:00Z"))

    def run_until(self, reader, now):
        while self.now < now:
            self.sleep(max(0.5, reader.step()))
        reads, self.reads = sorted(self.reads), []
        return reads


class TestReading(ReaderCase):
    """The times of readings, and their storage."""

    def test_each_is_read_at_its_interval_and_stored(self):
        reader = self.reader()
        self.assertEqual(["a", "b"], self.run_until(reader, 59))
        self.assertEqual(["a", "b"], sorted(self.state.load_podms()))
        self.assertEqual(["a", "b"], self.run_until(reader, 119))
        self.assertEqual(
            ["one: leader: this process (one)", "one: 2 pod managers to read"], self.lines
        )

    def test_many_readings_take_few_transactions(self):
        for number in range(40):
            self.state.register(Registration(name=f"p{number}", url=f"https://p{number}"))
        reader = self.reader(threads=64)
        reader.step()
        transactions = reader._store.counts.transactions
        self.assertEqual(42, len(self.state.load_podms()))
        self.assertLess(transactions, 12)

    def test_a_failure_is_stored_and_told_once_and_so_is_its_end(self):
        reader = self.reader()
        self.run_until(reader, 59)
        self.failing["a"] = "https://a: connection refused"
        self.assertEqual(["a", "b"], self.run_until(reader, 119))
        failure = self.state.failures()["a"]
        self.assertEqual(
            ("https://a: connection refused", "Offline"), (failure.reason, failure.status)
        )
        self.assertEqual(["b"], self.run_until(reader, 179), "a is backed off")
        self.assertEqual(["a", "b"], self.run_until(reader, 239))
        self.assertEqual(3, len(self.state.load_podms()["a"].blocks), "its last content stays")
        del self.failing["a"]
        self.run_until(reader, 500)
        self.assertEqual({}, self.state.failures())
        told = [line for line in self.lines if "one: a:" in line]
        self.assertEqual(
            ["one: a: unreachable: https://a: connection refused", "one: a: reachable again"], told
        )

    def test_a_stale_node_is_one_of_the_state_and_not_of_the_last_reading(self):
        reader, node = self.reader(), Node(uri="/S/1", blocks=("c0",))
        self.content["a"] = podm("a", nodes=(node,))
        self.run_until(reader, 59)
        self.content["a"] = podm("a", nodes=(replace(node, stale=True),))
        self.run_until(reader, 119)
        self.run_until(reader, 179)
        self.assertEqual(["/S/1"], [it.uri for it in self.previous["a"].nodes])
        self.state.upsert_all([podm("a")])  # it is removed
        for now, expected in ((239, ["/S/1"]), (299, [])):  # one reading begins without knowing
            self.run_until(reader, now)
            self.assertEqual(expected, [it.uri for it in self.previous["a"].nodes])

    def test_another_service_under_the_name_is_refused(self):
        reader = self.reader()
        self.content["a"] = podm("a", identity="urn:uuid:00000000-0000-0000-0000-000000000001")
        self.run_until(reader, 59)
        self.content["a"] = podm("a", identity="urn:uuid:00000000-0000-0000-0000-000000000002")
        self.run_until(reader, 119)
        self.assertTrue(self.state.failures()["a"].refused)

    def test_a_password_that_cannot_be_had_is_a_failure(self):
        missing = PasswordReference(env="NOT_SET_ANYWHERE")
        self.state.change(Registration(name="a", url="https://a", username="u", password=missing))
        self.assertEqual(["b"], self.run_until(self.reader(), 1))
        self.assertIn("NOT_SET_ANYWHERE", self.state.failures()["a"].reason)

    def test_a_reading_that_breaks_is_a_failure_and_not_the_end(self):
        reader = self.reader()
        reader._read = lambda _target: 1 / 0
        self.run_until(reader, 1)
        self.assertIn("ZeroDivisionError", self.state.failures()["a"].reason)

    def test_a_registration_that_changed_is_read_at_once(self):
        reader = self.reader()
        self.run_until(reader, 20)
        self.state.change(Registration(name="a", url="https://other"))
        self.state.register(Registration(name="c", url="https://c"))
        self.state.unregister("b")
        self.assertEqual(["a", "c"], self.run_until(reader, 30))
        self.assertEqual(["a", "c"], self.run_until(reader, 90))

    def test_the_change_log_tells_of_a_registration_at_once(self):
        reader = self.reader()
        self.run_until(reader, 1)
        self.state.register(Registration(name="c", url="https://c"))
        self.assertEqual(["c"], self.run_until(reader, 3))
        looks = self.registrations_read(reader)
        self.assertLessEqual(looks, 2, "they are not read again without a change")

    def registrations_read(self, reader):
        """Return the number of reads of the registrations in six seconds without a change."""
        read, calls = reader._registry.members, []
        reader._registry.members = lambda live: calls.append(1) or read(live)
        self.run_until(reader, self.now + 6)
        return len(calls)

    def test_a_slow_one_delays_no_other(self):
        """Its reading never ends; each of the others is read at its interval."""
        release = threading.Event()
        self.addCleanup(release.set)
        started = []

        def start(work):
            if work.args[0].name == "a":
                started.append(work)  # and never runs
            else:
                work()

        reader = self.reader(start=start)
        self.assertEqual(["b", "b", "b"], self.run_until(reader, 125))
        self.assertEqual(1, len(started))

    def test_threads_are_bounded(self):
        for number in range(9):
            self.state.register(Registration(name=f"p{number}", url=f"https://p{number}"))
        started = []
        reader = self.reader(start=started.append, threads=3)
        for _ in range(3):
            reader.step()
        self.assertEqual(3, len(started))


class TestWhoReads(ReaderCase):
    """One of several processes reads."""

    def test_the_other_takes_over_when_the_first_ends(self):
        one, other = self.reader("one"), self.reader("other")
        one.step()
        other.step()
        self.assertEqual("one", self.state.leases.holder(LEASE))
        self.reads.clear()
        self.assertEqual([], self.run_until(other, 50))
        one.close()
        self.assertEqual(["a", "b"], self.run_until(other, 70))
        self.assertIn("other: leader: this process (other)", self.lines)

    def test_the_other_takes_over_when_the_first_dies(self):
        one, other = self.reader("one"), self.reader("other")
        one.step()
        self.execute(sa.update(tables.leases).values(expires_at=1.0))
        self.reads.clear()
        other.step()
        self.assertEqual(["a", "b"], sorted(self.reads))
        self.now += LEASE_S
        self.reads.clear()
        one.step()
        self.assertEqual([], self.reads)
        self.assertEqual("one: the lease is lost: another process reads", self.lines[-1])

    def test_a_shorter_lease_is_renewed_more_often(self):
        one = self.reader("one", lease_s=6.0)
        one.step()
        self.execute(sa.update(tables.leases).values(expires_at=tables.leases.c.expires_at - 1000))
        self.now += 1.9
        one.step()
        self.assertTrue(one._leads)
        self.now += 0.2
        one.step()
        self.assertIn("one: the lease is lost: another process reads", self.lines)

    def test_what_ends_after_the_lease_is_lost_is_not_stored(self):
        works = []
        one = self.reader("one", start=works.append)
        self.failing["a"] = self.failing["b"] = "https://x: refused"
        one.step()
        self.execute(sa.update(tables.leases).values(expires_at=1.0))
        self.now += LEASE_S
        self.assertTrue(self.state.leases.acquire(LEASE, "other", LEASE_S))
        for work in works:
            work()
        one.step()
        self.assertEqual({}, self.state.failures())

    def test_a_state_that_is_away_is_waited_for(self):
        reader = self.reader()
        upsert, away = reader._store.upsert_all, [StoreError("the state is away")] * 2

        def fail(podms):
            if away and podms:
                raise away.pop()
            return upsert(podms)

        reader._store.upsert_all = fail
        self.run_until(reader, 10)
        self.assertEqual(["a", "b"], sorted(self.state.load_podms()))
        self.assertEqual(1, self.lines.count("one: waiting: the state is away"))


class TestOnce(ReaderCase):
    """All pod managers are read once."""

    def test_all_are_read_and_the_lease_is_free_again(self):
        self.failing["a"] = "https://a: refused"
        reader = self.reader()
        reader.run_once()
        self.assertEqual(["a", "b"], sorted(self.reads))
        self.assertEqual({"b"}, reader.read_names)
        self.assertIsNone(self.state.leases.holder(LEASE))

    def test_while_another_reads_it_is_refused(self):
        self.reader("other").step()
        with self.assertRaisesRegex(
            InUse, r"another process \(other\) already reads the pod managers"
        ):
            self.reader().run_once()


class FoundEvents:
    """Events of a test, and the pod managers whose events are followed."""

    def __init__(self):
        self.hints, self.followed = {}, []

    def follow(self, members):
        self.followed.append(sorted(members))

    def take(self):
        hints, self.hints = self.hints, {}
        return hints

    def close(self):
        self.followed.append(None)


class TestEvents(ReaderCase):
    """The effects of events."""

    def setUp(self):
        super().setUp()
        self.events = FoundEvents()

    def test_one_that_sends_events_is_read_sooner_and_no_other(self):
        reader = self.reader(events=self.events)
        self.run_until(reader, 20)
        self.events.hints["a"] = "an event: ResourceChanged /redfish/v1/Systems/1"
        self.assertEqual(["a"], self.run_until(reader, 30))
        self.assertEqual(["b"], self.run_until(reader, 70))
        self.assertEqual(["a"], self.run_until(reader, 90))

    def test_a_hint_of_another_thread_is_as_an_event_and_an_unknown_name_is_none(self):
        reader = self.reader()
        self.run_until(reader, 20)
        reader.hint(["b", *(f"nobody {number}" for number in range(1000))], "a forged hint")
        self.assertEqual({"b": "a forged hint"}, reader._hints.take())
        reader.hint(["b", "nobody"], "a hint of another process")
        self.assertEqual(["b"], self.run_until(reader, 30))

    def test_what_a_reading_changed_is_passed_on_once(self):
        changed = []
        reader = self.reader(changed=changed.append)
        self.run_until(reader, 20)
        self.assertEqual(["a", "b"], sorted(name for names in changed for name in names))
        changed.clear()
        self.content["a"] = replace(podm("a"), blocks=podm("a").blocks[:1])
        self.run_until(reader, 200)
        self.assertEqual([["a"]], changed)

    def test_a_storm_is_one_reading_in_each_pause(self):
        reader = self.reader(events=self.events)
        self.run_until(reader, 20)
        began = self.now
        while self.now < began + 30:
            self.events.hints["a"] = "an event: ResourceChanged /redfish/v1/Systems/1"
            self.sleep(min(0.1, max(0.01, reader.step())))
        self.assertEqual(["a"] * 6, self.reads)

    def test_a_change_is_told_with_the_reason_of_the_reading(self):
        reader = self.reader(events=self.events)
        self.run_until(reader, 20)
        self.content["a"] = replace(podm("a"), blocks=podm("a").blocks[:1])
        self.events.hints["a"] = "an event: ResourceRemoved /redfish/v1/Systems/1"
        self.run_until(reader, 30)
        del self.content["a"]
        self.run_until(reader, 100)
        self.assertEqual(
            [
                "one: a: changed, read on an event: ResourceRemoved /redfish/v1/Systems/1",
                "one: a: changed, read at its interval",
            ],
            [line for line in self.lines if "changed" in line],
        )

    def test_an_event_alone_changes_nothing(self):
        reader = self.reader(events=self.events)
        self.run_until(reader, 20)
        before = self.state.log_totals()
        self.events.hints.update(a="ResourceRemoved /redfish/v1/Systems/1", nobody="Alert")
        self.assertEqual(["a"], self.run_until(reader, 30))
        self.assertEqual(before, self.state.log_totals())

    def test_events_are_followed_only_while_this_process_reads(self):
        first, other = self.reader("one", events=self.events), FoundEvents()
        second = self.reader("two", events=other)
        self.run_until(first, 20)
        self.run_until(second, 21)
        self.assertEqual(({("a", "b")}, []), ({*map(tuple, self.events.followed)}, other.followed))
        self.execute(sa.update(tables.leases).values(holder="two"))
        self.run_until(first, 40)
        self.assertEqual([], self.events.followed[-1])
        first.close()
        self.assertIsNone(self.events.followed[-1])


if __name__ == "__main__":
    unittest.main()
