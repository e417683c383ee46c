# SPDX-License-Identifier: Apache-2.0
"""A tree of zones: who is asked what, who is left out, and what cannot be forged."""

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from tests.unit.zones.test_merge import QUERY, answer
from valence_sched.errors import SchedulerError, StaleOffer
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.group import GroupState
from valence_sched.model.zone import GroupAnswer, ZoneAnswer
from valence_sched.zones.tokens import ChildToken, OwnToken, Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree, merged_group_state


class FakeZone:
    """A zone that answers what it is told to, and remembers what it was asked."""

    def __init__(self, *results, gate=None):
        self.results, self.asked, self._gate = list(results), [], gate

    def offers(self, query, earlier=(), others=()):
        self.asked.append(query)
        if self._gate is not None:
            self._gate.wait(30)
        result = self.results[min(len(self.asked), len(self.results)) - 1]
        if isinstance(result, Exception):
            raise result
        return result

    group_state = offers


def tree(own=None, **children) -> ZoneTree:
    named = [
        ChildZone(name, zone, threads=ThreadPoolExecutor(1)) for name, zone in children.items()
    ]
    return ZoneTree("top", Tokens(["secret"], "top"), own, named)


def podms(found: ZoneAnswer) -> list[str]:
    return [one.candidate.podm for one in found.ranking]


ASKED = replace(QUERY, limit=9, deadline_s=20.0)


class TestAsking(unittest.TestCase):
    """Every child is asked the same, once."""

    def test_each_child_is_asked_once_and_the_same(self):
        """S40: one request, one query to each child."""
        children = {name: FakeZone(answer(5, name=name)) for name in "abc"}
        tree(**children).offers(ASKED)
        queries = [child.asked for child in children.values()]
        self.assertEqual([1, 1, 1], [len(one) for one in queries])
        self.assertEqual(queries[0], queries[1])
        self.assertEqual(ASKED.request, queries[0][0].request)

    def test_a_zone_without_pod_managers_answers_as_its_children_merged(self):
        """S75: a router passes the request down and aggregates."""
        parts = {"a": FakeZone(answer(5, 7, name="a")), "b": FakeZone(answer(6, name="b"))}
        self.assertEqual(["a0", "b0", "a1"], podms(tree(**parts).offers(ASKED)))

    def test_no_more_than_the_best_few_are_returned(self):
        """S74: at most the limit, and with a limit that all keep to the same few."""
        parts = {"a": FakeZone(answer(5, 7, name="a")), "b": FakeZone(answer(6, name="b"))}
        found = tree(**parts).offers(replace(ASKED, limit=2))
        self.assertEqual(["a0", "b0"], podms(found))

    def test_the_way_down_is_named_and_children_speak_of_themselves_only(self):
        """S43: a child learns ids of the route, no address; its own zones are below its name."""
        lower = replace(answer(5), silent=(SilentZone(zone="x/y", reason="gone"),))
        child = FakeZone(lower)
        found = tree(east=child).offers(ASKED)
        self.assertEqual((SilentZone(zone="east/x/y", reason="gone"),), found.silent)
        self.assertEqual(("east",), tuple(one.zone for one in found.ranking))
        self.assertEqual(("top",), child.asked[0].route)


class TestSilence(unittest.TestCase):
    """A part that does not answer is named, and the rest goes on."""

    def test_a_child_that_fails_is_left_out_and_named(self):
        """S70: the others keep placing."""
        dead = FakeZone(SchedulerError("nobody answers there"))
        found = tree(FakeZone(answer(9)), dead=dead, live=FakeZone(answer(5, name="l"))).offers(
            ASKED
        )
        self.assertEqual(["l0", "p0"], podms(found))
        self.assertEqual((SilentZone(zone="dead", reason="nobody answers there"),), found.silent)

    def test_a_child_that_hangs_is_left_out_once_the_time_is_over(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        parts = {"hung": FakeZone(answer(1), gate=gate), "live": FakeZone(answer(5, name="l"))}
        found = tree(**parts).offers(replace(ASKED, deadline_s=0.2))
        self.assertEqual(["l0"], podms(found))
        self.assertEqual(["hung"], [one.zone for one in found.silent])

    def test_a_defect_in_a_child_of_this_process_is_not_hidden(self):
        with self.assertRaises(ZeroDivisionError):
            tree(broken=FakeZone(ZeroDivisionError())).offers(ASKED)

    def test_a_circle_of_zones_ends_where_it_closes(self):
        first = tree()
        second = ZoneTree("second", Tokens(["s"], "second"), None, [ChildZone("up", first)])
        first._children = [ChildZone("down", second)]
        found = first.offers(ASKED)
        self.assertEqual(["down/up"], [one.zone for one in found.silent])
        self.assertIn("circle", found.silent[0].reason)

    def test_zones_too_deep_are_named_and_not_asked(self):
        child = FakeZone(answer(5))
        found = tree(deep=child).offers(replace(ASKED, hops=0))
        self.assertEqual(["deep"], [one.zone for one in found.silent])
        self.assertEqual([], child.asked)


class TestTrust(unittest.TestCase):
    """A child speaks for itself alone."""

    def test_the_token_of_an_offer_says_whose_it_is_whatever_the_child_says(self):
        keys = Tokens(["secret"], "top")
        other = keys.sign(ChildToken("b", "b's own"))
        liar = replace(answer(1), ranking=(replace(answer(1).ranking[0], token=other),))
        (offer,) = tree(a=FakeZone(liar)).offers(ASKED).ranking
        self.assertEqual(ChildToken("a", other), keys.read(offer.token))

    def test_what_was_taken_goes_to_the_child_that_offered_it(self):
        keys = Tokens(["secret"], "top")
        own = FakeZone(answer(5))
        children = {name: FakeZone(answer(5)) for name in "ab"}
        taken = (
            keys.sign(ChildToken("b", "1")),
            keys.sign(OwnToken(answer(3).nodes[0].candidate)),
            keys.sign(ChildToken("b", "2")),
        )
        tree(own, **children).offers(replace(ASKED, taken=taken))
        self.assertEqual(((), ("1", "2")), tuple(children[name].asked[0].taken for name in "ab"))

    def test_an_offer_of_a_child_that_is_gone_is_refused(self):
        taken = (Tokens(["secret"], "top").sign(ChildToken("gone", "1")),)
        with self.assertRaisesRegex(StaleOffer, "'gone' is no longer a child"):
            tree(a=FakeZone(answer(5))).offers(replace(ASKED, taken=taken))


class TestGroups(unittest.TestCase):
    """The group state of all zones together."""

    def test_members_are_added_up_and_open_values_joined(self):
        states = [
            GroupState(members={"zone": {"az1": 2}}, owned={"p": 1}, open={"zone": ("az1", "az2")}),
            GroupState(members={"zone": {"az1": 1, "az3": 4}, "podm": {"q": 5}},
                       owned={"q": 5}, open={"zone": ("az2", "az3")}),
        ]  # fmt: skip
        expected = GroupState(
            members={"zone": {"az1": 3, "az3": 4}, "podm": {"q": 5}},
            owned={"p": 1, "q": 5},
            open={"zone": ("az1", "az2", "az3")},
        )
        self.assertEqual(expected, merged_group_state(states))
        children = {
            name: FakeZone(GroupAnswer(company=state))
            for name, state in zip("ab", states, strict=True)
        }
        self.assertEqual(expected, tree(**children).group_state(ASKED).company)
