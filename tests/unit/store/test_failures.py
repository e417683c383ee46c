# SPDX-License-Identifier: Apache-2.0
"""Failures to read a pod manager: what the store says of them, and what followers see."""

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import part, podm
from valence_sched.errors import UnknownName
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.store import tables

AWAY = ReadFailure(reason="does not answer")


@on_each_engine
class TestFailures:
    """A pod manager cannot be read."""

    def setUp(self):
        super().setUp()
        self.one, self.other = self.store(), self.store()

    def fail_reading(self, name="p", failure=AWAY):
        return self.one.record_failures({name: (FullPodm(id=name, status="Offline"), failure)})

    def changes(self, position):
        snapshot = self.other.snapshot(position)
        self.position = snapshot.position
        return [(one.id, one.podm is not None, one.failure and one.failure.reason)
                for one in snapshot.changes]  # fmt: skip

    def test_it_keeps_what_was_read_and_the_time_at_which_failures_began(self):
        before = podm(read_at="2026-01-01T00:00:00Z")
        generation = self.one.remember(before)
        self.assertEqual(["p"], self.fail_reading())
        since = self.other.failures()["p"].since
        self.assertGreater(since, 1e9)
        self.assertEqual([], self.fail_reading())
        self.assertEqual(
            ["p"], self.fail_reading(failure=ReadFailure(reason="login refused", status="Unknown"))
        )
        failure = self.other.failures()["p"]
        self.assertEqual(
            ("login refused", "Unknown", since), (failure.reason, failure.status, failure.since)
        )
        stored = self.other.load_podms()["p"]
        self.assertEqual((3, generation, before.read_at),
                         (len(stored.blocks), stored.generation, stored.read_at))  # fmt: skip

    def test_followers_see_it_begin_and_end_without_the_document(self):
        self.one.remember(podm())
        self.changes(None)
        self.fail_reading()
        self.assertEqual([("p", False, AWAY.reason)], self.changes(self.position))
        self.fail_reading()
        self.assertEqual([], self.changes(self.position))
        self.one.remember_all([podm()])
        self.assertEqual([("p", False, None)], self.changes(self.position))
        self.assertEqual({}, self.other.failures())

    def test_a_new_content_ends_it(self):
        self.one.remember(podm())
        self.fail_reading()
        self.changes(None)
        self.one.remember(podm(blocks=4))
        self.assertEqual([("p", True, None)], self.changes(self.position))

    def test_one_that_was_never_read_is_known_without_blocks(self):
        self.fail_reading()
        self.assertEqual([("p", True, AWAY.reason)], self.changes(None))
        self.assertEqual((), self.other.load_podms()["p"].blocks)
        self.one.remember(podm())
        self.assertEqual([("p", True, None)], self.changes(self.position))

    def test_one_that_was_never_read_has_no_time_of_reading_and_no_identity(self):
        known = {"identity": "uuid:1", "read_at": "2026-01-01T00:00:00Z", "status": "Offline"}
        self.one.record_failures({"p": (FullPodm(id="p", **known), AWAY)})
        stored = self.other.load_podms()["p"]
        self.assertEqual((None, None, "Offline"), (stored.read_at, stored.identity, stored.status))
        self.assertEqual({"p": None}, self.other.read_times(["p"]))
        self.assertEqual({}, self.other.identities())

    def test_it_begins_anew_for_one_that_was_registered_again(self):
        registration = Registration(name="p", url="https://p")
        self.one.register(registration)
        generation = self.one.remember(podm())
        self.fail_reading()
        self.execute(sa.update(tables.podms).values(
            failure=b'{"reason":"does not answer","since":7.0}'))  # fmt: skip
        self.assertEqual([], self.fail_reading())
        self.assertEqual(7.0, self.other.failures()["p"].since)
        self.one.unregister("p")
        self.one.register(registration)
        self.changes(None)
        self.assertEqual(["p"], self.fail_reading())
        self.assertGreater(self.other.failures()["p"].since, 1e9)
        self.assertEqual([("p", True, AWAY.reason)], self.changes(self.position))
        stored = self.other.load_podms()["p"]
        self.assertEqual((), stored.blocks)
        self.assertGreater(stored.generation, generation)

    def test_a_report_stays_with_it(self):
        self.one.update_stats("p", {"zone": "z"})
        self.assertEqual(["p"], self.fail_reading())
        self.assertEqual({"p": {"zone": "z"}}, self.other.reported_stats())
        self.assertEqual("z", self.other.load_podms()["p"].zone)

    def test_each_has_its_own(self):
        self.one.remember_all([podm("a"), podm("b"), podm("c")])
        reasons = {name: f"{name} is away" for name in "ab"}
        self.one.record_failures({
            name: (FullPodm(id=name), ReadFailure(reason=why)) for name, why in reasons.items()
        })  # fmt: skip
        found = self.other.failures()
        self.assertEqual(reasons, {name: one.reason for name, one in found.items()})
        self.assertEqual(["a", "b"], [*found])
        again = {name: (FullPodm(id=name), found.get(name, AWAY)) for name in "abcd"}
        self.assertEqual(["c", "d"], self.one.record_failures(again))

    def test_a_report_does_not_end_it(self):
        self.one.remember(podm())
        self.fail_reading()
        self.one.update_stats("p", {"zone": "z"})
        self.assertEqual(["p"], [*self.other.failures()])

    def test_a_claim_stays_with_a_change_of_state(self):
        generation = self.one.remember(podm())
        self.one.claims.create([part("p", generation, "c0")])
        self.changes(None)
        self.fail_reading()
        (change,) = self.other.snapshot(self.position).changes
        self.assertEqual(({"c0": 1}, False), (change.usage.blocks, change.incremental))

    def test_it_goes_with_the_registration(self):
        self.one.register(Registration(name="p", url="https://p"))
        self.fail_reading()
        self.one.unregister("p")
        self.assertEqual({}, self.other.failures())
        self.fail_reading()
        self.assertEqual(["p"], [*self.other.failures()])

    def test_several_at_once(self):
        readings = {f"p{n}": (FullPodm(id=f"p{n}"), AWAY) for n in range(120)}
        self.assertEqual(sorted(readings), sorted(self.one.record_failures(readings)))
        self.assertEqual(sorted(readings), sorted(self.other.failures()))


@on_each_engine
class TestRegistry:
    """A follower sees that registrations changed."""

    def test_each_change_is_seen_once(self):
        one, other = self.store(), self.store()
        position = other.snapshot().position
        at_url = Registration(name="p", url="https://p")
        for change in (
            lambda: one.register(at_url),
            lambda: one.change(Registration(name="p", url="https://p", zone="z")),
            lambda: one.unregister("p"),
        ):
            self.assertFalse(other.snapshot(position).registry_changed)
            change()
            snapshot = other.snapshot(position)
            self.assertTrue(snapshot.registry_changed)
            position = snapshot.position
        with self.assertRaises(UnknownName):
            one.unregister("p")
        self.assertFalse(other.snapshot(position).registry_changed)

    def test_times_of_readings(self):
        one = self.store()
        one.remember_all([podm("a", read_at="2026-01-01T00:00:00Z"), podm("b")])
        times = {"a": "2026-01-01T00:00:00Z", "b": None}
        self.assertEqual(times, one.read_times(["a", "b", "c"]))
