# SPDX-License-Identifier: Apache-2.0
"""Following the state: the loaded changes, and the work for them."""

import contextlib
import sqlite3
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine
from tests.unit.store.site import CORES, expire, part, podm
from valence_sched.errors import InputError, StoreError
from valence_sched.lifecycle.follower import MANY_CHANGES, FixedMembers, Follower
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing import request

INVALID = [cpu("c0", 8), cpu("c0", 8)]
AWAY = ReadFailure(reason="does not answer")


def copy(source: Path, target: Path) -> None:
    """Copy a state as a backup tool does."""
    with (
        contextlib.closing(sqlite3.connect(source)) as one,
        contextlib.closing(sqlite3.connect(target)) as other,
    ):
        one.backup(other)


class Members(FixedMembers):
    """All pod managers except ``hidden`` ones, each with ``zones``; records the calls."""

    def __init__(self) -> None:
        super().__init__(skipped=["q: skipped"])
        self.hidden: set[str] = set()
        self.zones: dict[str, str] = {}
        self.again: set[str] = set()
        self.changed: list[set[str]] = []
        self.refused: list[str] = []
        self.counts: list[int] = []
        self.problem: Exception | None = None

    def update(self, followed, snapshot, changed):
        self.changed.append(set(changed))
        return changed | self.again

    def podm(self, podm_id, followed):
        if followed is None or podm_id in self.hidden:
            return None
        return replace(followed.podm, zone=self.zones.get(podm_id))

    def order(self, ids):
        return sorted(ids, reverse=True)

    def refuse(self, podm_id, error):
        self.refused.append(f"{podm_id}: {error}")

    def check(self, count):
        self.counts.append(count)
        if self.problem is not None:
            raise self.problem


class FollowerCase(unittest.TestCase):
    """A store of two pod managers with three blocks each, and a follower of it."""

    def setUp(self) -> None:
        self.store = Store("sqlite://")
        self.addCleanup(self.store.close)
        self.store.remember_all([podm("a"), podm("b")])
        self.members = Members()
        self.made: list[object] = []
        self.follower = Follower(self.store, self.make, self.members)

    def make(self, view):
        self.made.append(engine(view))
        return self.made[-1]

    def names(self):
        return [one.id for one in self.follower.decider().snapshot().podms]

    def free(self, decider=None, order=False):
        """Return by pod manager the blocks that one more node could use."""
        view = (decider or self.follower.decider()).snapshot()
        found = {one.id: [] for one in view.podms}
        for table, one in zip(view.block_tables, view.podms, strict=True):
            found[one.id] += [
                uri for uri, slots in zip(table.uris, table.slots, strict=True) if slots > 0
            ]
        return found if order else {name: set(uris) for name, uris in found.items()}

    def execute(self, statement):
        self.store._write(lambda connection: connection.execute(statement), "a test")

    def claim(self, name, *blocks):
        generation = self.store.load_podms([name])[name].generation
        return self.store.claims.create([part(name, generation, *blocks)])


class TestFollower(FollowerCase):
    """The inventory of a decider."""

    def test_it_has_all_members_in_their_order(self):
        self.assertEqual(["b", "a"], self.names())
        self.store.remember(podm("c"))
        self.assertEqual(["c", "b", "a"], self.names())
        self.assertEqual([2, 3], self.members.counts)

    def test_what_claims_hold_is_in_use_until_they_end(self):
        before = self.claim("a", "c0")
        self.assertEqual({"a": {"c1", "c2"}, "b": {"c0", "c1", "c2"}}, self.free())
        later = self.claim("a", "c1")
        self.assertEqual({"c2"}, self.free()["a"])
        self.claim("b", "c2")
        self.assertEqual({"a": {"c2"}, "b": {"c0", "c1"}}, self.free())
        self.store.claims.release(before.id)
        self.assertEqual({"c0", "c2"}, self.free()["a"])
        expire(self, later)
        self.assertEqual({"c0", "c1", "c2"}, self.free()["a"])

    def test_a_reading_after_claims_leaves_them_what_they_hold(self):
        self.claim("a", "c0")
        self.names()
        self.claim("a", "c1")
        self.names()
        self.store.remember(podm("a", 4))
        self.assertEqual({"c2", "c3"}, self.free()["a"])
        self.claim("a", "c3")
        self.assertEqual({"c2"}, self.free()["a"])

    def test_members_hear_of_all_but_new_claims(self):
        self.names()
        self.claim("a", "c0")
        self.names()
        self.store.remember(podm("b", 2))
        self.claim("a", "c1")
        self.names()
        self.names()
        self.assertEqual([{"a", "b"}, set(), {"b"}, set()], self.members.changed)

    def test_a_new_claim_of_one_that_is_not_decided_on_is_a_change(self):
        self.members.hidden = {"a"}
        self.assertEqual(["b"], self.names())
        self.claim("a", "c0")
        self.assertEqual(["b"], self.names())
        self.assertEqual({"a"}, self.members.changed[-1])
        self.members.hidden, self.members.again = set(), {"a"}
        self.assertEqual({"c1", "c2"}, self.free()["a"])

    def test_one_that_went_is_left_out_and_one_that_came_back_is_whole(self):
        self.store.register(Registration(name="a", url="https://a"))
        self.names()
        self.store.unregister("a")
        self.assertEqual(["b"], self.names())
        self.store.remember(podm("a", 1))
        self.assertEqual({"a": {"c0"}, "b": {"c0", "c1", "c2"}}, self.free())

    def test_a_failure_and_a_report_are_known_with_the_content_of_before(self):
        self.names()
        self.store.record_failures({"a": (FullPodm(id="a"), AWAY)})
        self.assertEqual({"c0", "c1", "c2"}, self.free()["a"])
        followed = self.follower._followed["a"]
        self.assertEqual((AWAY.reason, None), (followed.failure.reason, followed.report))
        self.store.remember(podm("a"))
        self.store.update_stats("a", {"facts": {"x": 1}})
        self.names()
        followed = self.follower._followed["a"]
        self.assertIsNone(followed.failure)
        self.assertIsNotNone(followed.report)

    def test_it_tells_the_generation_and_the_state_before_claims(self):
        self.claim("a", "c0")
        self.names()
        self.assertEqual(["c0", "c1", "c2"], [one.uri for one in self.follower.base("a").blocks])
        self.assertTrue(all(not one.status for one in self.follower.base("a").blocks))
        self.assertEqual(1, self.follower.generation("a"))
        self.store.remember(podm("a", 2))
        self.names()
        self.assertEqual(2, self.follower.generation("a"))

    def test_of_one_that_is_not_decided_on_any_more_there_is_no_base(self):
        self.names()
        self.members.hidden, self.members.again = {"a"}, {"a"}
        for _ in range(2):
            self.assertEqual(["b"], self.names())
            with self.assertRaises(KeyError):
                self.follower.base("a")
        self.assertEqual("b", self.follower.base("b").id)

    def test_without_some_it_decides_on_the_others_as_they_are(self):
        self.claim("b", "c0")
        self.names()
        decider = self.follower.decider_without({"a"})
        self.assertEqual({"b": {"c1", "c2"}}, self.free(decider))
        self.assertIs(decider, self.made[-1])
        self.claim("b", "c1")
        self.names()
        self.assertEqual({"b": {"c1", "c2"}}, self.free(decider), "it does not follow")
        every = self.follower.decider_without(()).snapshot().podms
        self.assertEqual(["b", "a"], [one.id for one in every])

    def test_what_was_just_stored_is_not_read_back(self):
        known = self.store.remember_all([podm("a", 4), podm("b")])
        before = self.store.counts.podms_decoded
        self.follower = Follower(self.store, self.make, self.members, known=known)
        self.assertEqual(4, len(self.free()["a"]))
        self.assertEqual(before, self.store.counts.podms_decoded)
        self.store.remember(podm("a", 5))
        self.assertEqual(5, len(self.free()["a"]))
        self.assertEqual(before + 1, self.store.counts.podms_decoded)

    def test_decisions_name_what_was_skipped(self):
        for decider in (self.follower.decider(), self.follower.decider_without({"a"})):
            decision = decider.select_destinations(request(CORES))
            self.assertEqual(["q: skipped"], [*decision.skipped])


class TestAgain(FollowerCase):
    """When a member is built again, and the order of its blocks."""

    def test_members_are_asked_again_once_about_a_new_order(self):
        self.names()
        self.members.zones = {"a": "east", "b": "west"}
        self.assertEqual({None}, self.zones())
        self.follower.sort_blocks("a", str.encode)
        self.assertEqual({None, "east"}, self.zones())
        self.members.zones["a"] = "north"
        self.assertEqual({None, "east"}, self.zones())
        self.assertEqual("east", self.follower.base("a").zone)

    def zones(self):
        return {one.zone for one in self.follower.decider().snapshot().podms}

    def test_blocks_are_tried_in_the_order_of_their_keys_until_they_are_restored(self):
        self.names()
        self.follower.sort_blocks("a", lambda uri: uri.translate({48: 57}).encode())
        sorted_ = ["c1", "c2", "c0"]
        self.assertEqual({"a": sorted_, "b": ["c0", "c1", "c2"]}, self.free(order=True))
        self.claim("a", "c2")
        self.assertEqual(["c1", "c0"], self.free(order=True)["a"])
        self.store.remember(podm("a", 4))
        self.assertEqual(["c1", "c3", "c0"], self.free(order=True)["a"])
        self.follower.restore_blocks()
        self.assertEqual(["c0", "c1", "c3"], self.free(order=True)["a"])
        self.store.remember(podm("a", 5))
        self.assertEqual(["c0", "c1", "c3", "c4"], self.free(order=True)["a"])

    def test_an_interrupted_call_is_followed_by_a_whole_reading(self):
        self.names()
        self.store.remember(podm("a", 4))
        with mock.patch.object(self.members, "update", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.follower.decider)
        self.members.changed.clear()
        self.assertEqual({"a": 4, "b": 3}, {name: len(uris) for name, uris in self.free().items()})
        self.assertEqual([{"a", "b"}], self.members.changed)

    def test_a_store_that_was_away_is_followed_by_what_changed_meanwhile(self):
        self.names()
        self.store.remember(podm("a", 4))
        with mock.patch.object(self.store, "snapshot", side_effect=StoreError("away")):
            self.assertRaises(StoreError, self.follower.decider)
        self.members.changed.clear()
        self.assertEqual({"a": 4, "b": 3}, {name: len(uris) for name, uris in self.free().items()})
        self.assertEqual([{"a"}], self.members.changed)

    def test_a_state_that_was_restored_from_a_backup_is_followed_by_a_whole_reading(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        state, backup = folder / "state.db", folder / "backup.db"
        self.store = self.enterContext(Store(f"sqlite:///{state}"))
        self.store.remember_all([podm("a"), podm("b")])
        copy(state, backup)
        self.store.remember(podm("a", 5))
        self.store.remember(podm("c"))
        self.claim("b", "c0")
        self.follower = Follower(self.store, self.make, self.members)
        self.assertEqual({"a": 5, "b": 2, "c": 3}, self.counts())
        copy(backup, state)
        self.assertEqual({"a": 3, "b": 3}, self.counts())
        self.assertEqual({"a", "b"}, self.members.changed[-1])
        self.store.remember(podm("b", 1))
        self.assertEqual({"a": 3, "b": 1}, self.counts())
        self.assertEqual({"b"}, self.members.changed[-1])

    def counts(self):
        return {name: len(uris) for name, uris in self.free().items()}

    def test_one_that_must_not_be_decided_on_is_an_error_until_it_may(self):
        self.members.problem = StoreError("too few")
        with self.assertRaisesRegex(StoreError, "too few"):
            self.follower.decider()
        self.members.problem = None
        self.members.changed.clear()
        self.assertEqual(["b", "a"], self.names())
        self.assertEqual([set()], self.members.changed, "what was taken in stays known")


class TestWork(FollowerCase):
    """Whether the decider is the previous one or a new one."""

    def test_a_change_is_spliced_into_the_decider_of_before(self):
        first = self.follower.decider()
        for change in (
            lambda: None,
            lambda: self.claim("a", "c0"),
            lambda: self.store.remember(podm("b", 4)),
        ):
            change()
            self.assertIs(first, self.follower.decider())
        self.assertEqual([first], self.made)
        self.assertEqual({"a": 2, "b": 4}, {name: len(uris) for name, uris in self.free().items()})

    def test_one_that_comes_or_goes_makes_a_new_one(self):
        self.names()
        self.store.remember(podm("c"))
        self.assertEqual(["c", "b", "a"], self.names())
        self.members.hidden, self.members.again = {"b"}, {"b"}
        self.assertEqual(["c", "a"], self.names())
        self.assertEqual(3, len(self.made))
        self.assertEqual(["c", "a"], self.names())
        self.assertEqual(3, len(self.made), "one that stays away is no reason")

    def test_of_many_changes_a_new_one_costs_less(self):
        for most, count in ((MANY_CHANGES, MANY_CHANGES + 1), (80, 320)):
            names = [f"p{number:03}" for number in range(count)]
            self.store.remember_all([podm(name, 1) for name in names])
            self.members.hidden = {"a", "b"}
            self.names()
            made = len(self.made)
            for changed, expected in ((most, made), (most + 1, made + 1)):
                with self.subTest(count=count, changed=changed):
                    self.store.remember_all([podm(n, 1 + expected) for n in names[:changed]])
                    self.names()
                    self.assertEqual(expected, len(self.made))

    def test_an_invalid_one_is_refused_and_taken_in_once_it_is_valid(self):
        self.store.remember(podm("b", INVALID))
        self.assertEqual(["a"], self.names())
        (line,) = self.members.refused
        self.assertRegex(line, "^b: pod manager b: .*c0")
        self.assertEqual([1], self.members.counts)
        self.claim("a", "c0")
        self.assertEqual(["a"], self.names())
        self.assertEqual(1, len(self.members.refused))
        self.store.remember(podm("b", 1))
        self.assertEqual(["b", "a"], self.names())
        self.assertEqual(2, len(self.made))

    def test_one_that_becomes_invalid_is_left_out(self):
        self.names()
        self.store.remember(podm("a", INVALID))
        self.assertEqual(["b"], self.names())
        self.assertRegex(self.members.refused[0], "^a: pod manager a: .*c0")
        self.store.remember(podm("b", INVALID))
        self.assertEqual([], self.names())


class TestFixedMembers(FollowerCase):
    """Members that the caller has read."""

    def followed(self, among, **prepared):
        self.members = FixedMembers(among, skipped=["q: skipped"], **prepared)
        self.follower = Follower(self.store, self.make, self.members)
        return self.names()

    def test_they_are_those_that_are_named_or_all_by_name(self):
        self.assertEqual(["a", "b"], self.followed(None))
        self.assertEqual(["b"], self.followed(["b", "x"]))
        self.assertEqual([], self.followed(()))
        self.assertEqual(["q: skipped"], self.members.skipped)
        self.assertEqual((), FixedMembers().skipped)

    def test_each_is_prepared(self):
        self.followed(None, statuses={"a": "Offline"})
        self.assertEqual(["Offline", "Online"],
                         [self.follower.base(name).status for name in ("a", "b")])  # fmt: skip

    def test_an_invalid_one_is_an_error(self):
        self.store.remember(podm("b", INVALID))
        with self.assertRaisesRegex(InputError, "^pod manager b: "):
            self.followed(None)
