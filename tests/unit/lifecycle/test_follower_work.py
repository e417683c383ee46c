# SPDX-License-Identifier: Apache-2.0
"""The work of a follower, where it makes a new decider, and members that the caller has read."""

from msgspec.structs import replace

from tests.unit.lifecycle.test_follower import INVALID, FollowerCase
from tests.unit.store.site import podm
from valence_sched.errors import InputError
from valence_sched.lifecycle.follower import MANY_CHANGES, FixedMembers, Follower


class TestWork(FollowerCase):
    """Which decider it is: the one of before, or a new one."""

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

    def followed(self, among, prepare=lambda podm: podm):
        self.members = FixedMembers(among, prepare, ["q: skipped"])
        self.follower = Follower(self.store, self.make, self.members)
        return self.names()

    def test_they_are_those_that_are_named_or_all_by_name(self):
        self.assertEqual(["a", "b"], self.followed(None))
        self.assertEqual(["b"], self.followed(["b", "x"]))
        self.assertEqual([], self.followed(()))
        self.assertEqual(["q: skipped"], self.members.skipped)
        self.assertEqual((), FixedMembers(None, lambda podm: podm).skipped)

    def test_one_more_is_decided_on_with_its_next_change(self):
        self.assertEqual(["b"], self.followed(["b"]))
        self.members.add("a")
        self.store.remember(podm("a", 2))
        self.assertEqual(["a", "b"], self.names())
        self.followed(None)
        self.members.add("c")
        self.assertEqual(["a", "b"], self.names())

    def test_each_is_prepared(self):
        self.followed(None, lambda podm: replace(podm, zone=f"zone of {podm.id}"))
        self.assertEqual("zone of a", self.follower.base("a").zone)

    def test_an_invalid_one_is_an_error(self):
        self.store.remember(podm("b", INVALID))
        with self.assertRaisesRegex(InputError, "^pod manager b: "):
            self.followed(None)
