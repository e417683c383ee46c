# SPDX-License-Identifier: Apache-2.0
"""Trees of zones: queries to children, recorded trees, capabilities."""

import math
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from tests.unit.zones.test_selection import QUERY, answer
from valence_sched.errors import SchedulerError, StaleOffer, one_line
from valence_sched.model.decision import PoolRef, SilentZone
from valence_sched.model.request import GroupState
from valence_sched.model.zone import (
    GroupAnswer,
    OtherCandidate,
    OtherNode,
    ZoneAnswer,
    ZoneSupplies,
)
from valence_sched.zones.report import rolled_up, why_ruled_out
from valence_sched.zones.tokens import ChildToken, OwnToken, Tokens
from valence_sched.zones.tree import (
    DEADLINE_SHARE,
    MOST_NAMED,
    ChildZone,
    ZoneTree,
    merged_group_state,
)


class FakeZone:
    """A zone with scripted answers, which records its queries."""

    def __init__(self, *results, gate=None):
        self.results, self.asked, self.handed, self._gate = list(results), [], [], gate

    def offers(self, query, *handed):
        self.asked.append(query)
        self.handed.append(handed)
        if self._gate is not None:
            self._gate.wait(30)
        result = self.results[min(len(self.asked), len(self.results)) - 1]
        if isinstance(result, Exception):
            raise result
        return result

    group_state = offers

    def mix_supplies(self, *_asked):
        return ZoneSupplies()


def tree(own=None, **children) -> ZoneTree:
    named = [
        ChildZone(name, zone, threads=ThreadPoolExecutor(1)) for name, zone in children.items()
    ]
    return ZoneTree("top", Tokens(["secret"], "top"), own, named)


def podms(found: ZoneAnswer) -> list[str]:
    return [one.candidate.podm for one in found.ranking]


ASKED = replace(QUERY, limit=9, deadline_s=20.0)


class TestAsking(unittest.TestCase):
    """Every child gets the same query, once."""

    def test_each_child_is_asked_once_and_the_same(self):
        """S40: one request, one query to each child."""
        children = {name: FakeZone(answer(5, name=name)) for name in "abc"}
        tree(**children).offers(ASKED)
        queries = [child.asked for child in children.values()]
        self.assertEqual([1, 1, 1], [len(one) for one in queries])
        self.assertEqual(queries[0], queries[1])
        self.assertEqual(ASKED.request, queries[0][0].request)

    def test_a_zone_without_pod_managers_answers_as_its_children_merged(self):
        """S75: a router passes the request down and merges the answers."""
        parts = {"a": FakeZone(answer(5, 7, name="a")), "b": FakeZone(answer(6, name="b"))}
        self.assertEqual(["a0", "b0", "a1"], podms(tree(**parts).offers(ASKED)))

    def test_no_more_than_the_best_few_are_returned(self):
        """S74: at most the limit, and with a limit that all children apply."""
        parts = {"a": FakeZone(answer(5, 7, name="a")), "b": FakeZone(answer(6, name="b"))}
        found = tree(**parts).offers(replace(ASKED, limit=2))
        self.assertEqual(["a0", "b0"], podms(found))

    def test_the_way_down_is_named_and_children_speak_of_themselves_only(self):
        """S43: a child gets the ids of the route, no address; its own zones are below its name."""
        lower = replace(answer(5), silent=(SilentZone(zone="x/y", reason="gone"),))
        child = FakeZone(lower)
        found = tree(east=child).offers(ASKED)
        self.assertEqual((SilentZone(zone="east/x/y", reason="gone"),), found.silent)
        self.assertEqual(("east",), tuple(one.zone for one in found.ranking))
        self.assertEqual(("top",), child.asked[0].route)


class TestSilence(unittest.TestCase):
    """A silent part is named, and the others continue."""

    def test_a_child_that_fails_is_left_out_and_named(self):
        """S70: the other zones are used."""
        dead = FakeZone(SchedulerError("does not answer"))
        found = tree(FakeZone(answer(9)), dead=dead, live=FakeZone(answer(5, name="l"))).offers(
            ASKED
        )
        self.assertEqual(["l0", "p0"], podms(found))
        self.assertEqual((SilentZone(zone="dead", reason="does not answer"),), found.silent)

    def test_a_child_that_hangs_is_left_out_once_the_time_is_over(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        parts = {"hung": FakeZone(answer(1), gate=gate), "live": FakeZone(answer(5, name="l"))}
        found = tree(**parts).offers(replace(ASKED, deadline_s=0.2))
        self.assertEqual(["l0"], podms(found))
        reason = "it did not answer in time"
        self.assertEqual((SilentZone(zone="hung", reason=reason),), found.silent)

    def test_a_defect_in_a_child_of_this_process_is_not_hidden(self):
        with self.assertRaises(ZeroDivisionError):
            tree(broken=FakeZone(ZeroDivisionError())).offers(ASKED)

    def test_a_circle_of_zones_ends_where_it_closes(self):
        first = tree()
        second = ZoneTree("second", Tokens(["s"], "second"), None, [ChildZone("up", first)])
        first._children = [ChildZone("down", second)]
        found = first.offers(ASKED)
        self.assertEqual(["down/up"], [one.zone for one in found.silent])
        self.assertIn("cycle", found.silent[0].reason)

    def test_zones_too_deep_are_named_and_not_asked(self):
        child = FakeZone(answer(5))
        found = tree(deep=child).offers(replace(ASKED, hops=0))
        reason = "it is nested too deeply to be queried"
        self.assertEqual((SilentZone(zone="deep", reason=reason),), found.silent)
        self.assertEqual([], child.asked)

    def test_each_level_down_has_one_hop_less_and_some_of_the_time(self):
        child = FakeZone(answer(5))
        for hops, left in ((3, 2), (1, 0)):
            tree(a=child).offers(replace(ASKED, hops=hops, route=("above",)))
            self.assertEqual(
                (left, ("above", "top")), (child.asked[-1].hops, child.asked[-1].route)
            )
        self.assertEqual(ASKED.deadline_s * DEADLINE_SHARE, child.asked[0].deadline_s)

    def test_an_inactive_child_is_silent_for_its_reason_and_not_asked(self):
        zone = ZoneTree("top", Tokens(["secret"], "top"), None,
                        [ChildZone("off", None, inactive="it is disabled"),
                         ChildZone("on", FakeZone(answer(5)))])  # fmt: skip
        found = zone.offers(ASKED)
        self.assertEqual((SilentZone(zone="off", reason="it is disabled"),), found.silent)
        self.assertEqual((["p0"], 2), (podms(found), found.answered))

    def test_a_child_that_its_capabilities_rule_out_is_excluded_and_not_asked(self):
        bsd, linux = FakeZone(answer(5)), FakeZone(answer(5))
        named = [
            ChildZone("bsd", bsd, capabilities={"os": ("bsd",)}, inactive="it is disabled"),
            ChildZone("linux", linux, capabilities={"os": ("linux",)}),
        ]
        zone = ZoneTree("top", Tokens(["secret"], "top"), None, named)
        request = replace(ASKED.request, capabilities={"os": ("linux",)})
        found = zone.offers(replace(ASKED, request=request))
        reason = "capability os: needs linux, has bsd"
        self.assertEqual((SilentZone(zone="bsd", reason=reason),), found.excluded)
        self.assertEqual(((), [0, 1]), (found.silent, [len(bsd.asked), len(linux.asked)]))

    def test_what_a_zone_and_those_above_state_holds_below(self):
        linux, mute = FakeZone(answer(5)), FakeZone(answer(5))
        named = [
            ChildZone("linux", linux, capabilities={"os": ("linux",)}),
            ChildZone("mute", mute),
        ]
        stated = {"region": ("eu",), "arch": ("x86",)}
        zone = ZoneTree("top", Tokens(["s"], "top"), None, named, capabilities=stated)
        asked = {"os": ("linux",), "region": ("eu",), "power": ("green",)}
        request = replace(ASKED.request, capabilities=asked, inherited={"power": ("green",)})
        zone.offers(replace(ASKED, request=request))
        above = {"power": ("green",), "region": ("eu",)}
        for child, expected in ((linux, {**above, "os": ("linux",)}), (mute, above)):
            (query,) = child.asked
            self.assertEqual(expected, query.request.inherited)
            self.assertEqual(request.identity, query.request.identity)

    def test_one_that_is_disabled_is_excluded_and_not_asked(self):
        child = FakeZone(answer(5))
        zone = ZoneTree("top", Tokens(["s"], "top"), None, [ChildZone("off", child, enabled=False)])
        found = zone.offers(ASKED)
        self.assertEqual((SilentZone(zone="off", reason="disabled"),), found.excluded)
        self.assertEqual(((), []), (found.silent, child.asked))

    def test_a_zone_that_was_silent_before_is_not_asked_at_any_level(self):
        children = {name: FakeZone(answer(5)) for name in ("a", "b", "ab")}
        left_out = ("a", "b/x", "b/x/y", "ab/z")
        found = tree(**children).offers(replace(ASKED, left_out=left_out))
        self.assertEqual(((), []), (found.silent, children["a"].asked))
        self.assertEqual(("x", "x/y"), children["b"].asked[0].left_out)
        self.assertEqual(("z",), children["ab"].asked[0].left_out)

    def test_a_child_without_threads_is_asked_in_the_thread_of_the_caller(self):
        class Noting(FakeZone):
            def offers(self, query, *handed):
                threads.append(threading.current_thread())
                return super().offers(query, *handed)

        threads = []
        dead, live = Noting(SchedulerError("it is down")), Noting(answer(5))
        named = [ChildZone("dead", dead), ChildZone("live", live)]
        found = ZoneTree("top", Tokens(["secret"], "top"), None, named).offers(ASKED)
        self.assertEqual([threading.current_thread()] * 2, threads)
        self.assertEqual((SilentZone(zone="dead", reason="it is down"),), found.silent)


class TestAnswer(unittest.TestCase):
    """The parts of an answer besides offers."""

    def test_it_has_what_any_part_has_with_the_names_of_the_way_down(self):
        pools = [PoolRef(podm=name, pool="p") for name in "uv"]
        zone = SilentZone(zone="x", reason="r")
        first = replace(answer(5, worst=10), undecided=(pools[0],), excluded=(zone,), answered=3)
        second = replace(answer(5, worst=70), undecided=(pools[1],), coupled=True, silent=(zone,))
        own = replace(answer(5, worst=20), answered=9)
        found = tree(FakeZone(own), a=FakeZone(first), b=FakeZone(second)).offers(ASKED)
        self.assertEqual((70, True, 5), (found.worst_cost, found.coupled, found.answered))
        self.assertEqual(tuple(pools), found.undecided)
        self.assertEqual((SilentZone(zone="a/x", reason="r"),), found.excluded)
        self.assertEqual((SilentZone(zone="b/x", reason="r"),), found.silent)
        self.assertFalse(tree(FakeZone(own), a=FakeZone(first)).offers(ASKED).coupled)

    def test_a_pod_manager_is_unknown_only_where_no_part_knows_it(self):
        request = replace(ASKED.request, podms=("p", "q"), exclude_podms=("r", "s"))
        parts = [replace(answer(5), unknown_podms=names) for names in (("s", "q", "p"), ("q", "s"))]
        found = tree(a=FakeZone(parts[0]), b=FakeZone(parts[1])).offers(
            replace(ASKED, request=request)
        )
        self.assertEqual(("q", "s"), found.unknown_podms)

    def test_no_more_of_a_child_is_taken_than_was_asked_for(self):
        zones = tuple(SilentZone(zone=f"z{number}", reason="r") for number in range(MOST_NAMED + 1))
        pools = tuple(PoolRef(podm=f"p{number}", pool="p") for number in range(MOST_NAMED + 1))
        greedy = replace(answer(1, 2, 3, worst=-5), undecided=pools, silent=zones, excluded=zones,
                         answered=10**9)  # fmt: skip
        found = tree(a=FakeZone(greedy)).offers(replace(ASKED, limit=2))
        self.assertEqual((1, 2), (len(found.nodes), len(found.ranking)))
        named = (found.undecided, found.silent, found.excluded)
        self.assertEqual([MOST_NAMED] * 3, [len(one) for one in named])
        self.assertEqual((0, 1 + 1_000_000), (found.worst_cost, found.answered))
        none = tree(a=FakeZone(replace(answer(1), answered=-4))).offers(ASKED)
        self.assertEqual(2, none.answered)
        states = GroupAnswer(group_state=GroupState(), silent=zones)
        self.assertEqual(MOST_NAMED, len(tree(a=FakeZone(states)).group_state(ASKED).silent))

    def test_the_way_down_is_cut_where_it_is_too_long(self):
        lower = replace(answer(5), silent=(SilentZone(zone="x" * 9000, reason="a\nb"),))
        (silent,) = tree(east=FakeZone(lower)).offers(ASKED).silent
        self.assertTrue(silent.zone.startswith("east/xxx"))
        self.assertEqual(one_line(f"east/{'x' * 9000}", 1 << 12), silent.zone)
        self.assertEqual(one_line("a\nb"), silent.reason)


class TestTrust(unittest.TestCase):
    """A child can only affect its own part."""

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

    def test_own_pod_managers_are_handed_what_was_taken_of_them_and_by_whom(self):
        keys = Tokens(["secret"], "top")
        mine, theirs = answer(3, 4).nodes
        own, child = FakeZone(answer(5)), FakeZone(answer(5))
        others = (
            OtherNode(token=keys.sign(OwnToken(theirs.candidate)), group="g", owner="o"),
            OtherNode(token=keys.sign(ChildToken("a", "1")), group="h", owner="q"),
        )
        asked = replace(ASKED, taken=(keys.sign(OwnToken(mine.candidate)),), others=others)
        found = tree(own, a=child).offers(asked)
        expected = OtherCandidate(candidate=theirs.candidate, group="g", owner="o")
        self.assertEqual([([mine.candidate], [expected])], own.handed)
        self.assertEqual((OtherNode(token="1", group="h", owner="q"),), child.asked[0].others)
        contents = {type(keys.read(one.token)) for one in found.ranking}
        self.assertEqual({OwnToken, ChildToken}, contents)

    def test_an_offer_of_a_child_that_is_gone_is_refused(self):
        taken = (Tokens(["secret"], "top").sign(ChildToken("gone", "1")),)
        with self.assertRaisesRegex(StaleOffer, "'gone' is no longer a child zone"):
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
            name: FakeZone(GroupAnswer(group_state=state))
            for name, state in zip("ab", states, strict=True)
        }
        # another zone may have a pod manager of the same name
        paths = replace(
            expected,
            members={"zone": {"az1": 3, "az3": 4}, "podm": {"b/q": 5}},
            owned={"a/p": 1, "b/q": 5},
        )
        self.assertEqual(paths, tree(**children).group_state(ASKED).group_state)

    def test_members_that_no_group_has_do_not_count(self):
        """A child with -5 members hid those of other zones."""
        states = [GroupState(members={"zone": {"z": n, "y": 1}}, owned={"p": n})
                  for n in (3, -5, 2**70)]  # fmt: skip
        expected = GroupState(members={"zone": {"z": 3, "y": 3}}, owned={"p": 3})
        self.assertEqual(expected, merged_group_state(states))

    def test_own_pod_managers_are_asked_with_what_was_taken_of_them(self):
        keys = Tokens(["secret"], "top")
        mine, theirs = answer(3, 4).nodes
        own = FakeZone(GroupState(owned={"p": 2}))
        lower = GroupAnswer(
            group_state=GroupState(owned={"p": 1}),
            silent=(SilentZone(zone="x", reason="it is down"),),
        )
        asked = replace(
            ASKED,
            taken=(keys.sign(OwnToken(mine.candidate)),),
            others=(OtherNode(token=keys.sign(OwnToken(theirs.candidate)), group="g"),),
        )
        found = tree(own, dead=FakeZone(SchedulerError("gone")), a=FakeZone(lower)).group_state(
            asked
        )
        self.assertEqual({"p": 2, "a/p": 1}, found.group_state.owned)
        other = OtherCandidate(candidate=theirs.candidate, group="g", owner=None)
        self.assertEqual(([asked], [([mine.candidate], [other])]), (own.asked, own.handed))
        expected = (
            SilentZone(zone="dead", reason="gone"),
            SilentZone(zone="a/x", reason="it is down"),
        )
        self.assertEqual(expected, found.silent)


class TestRolledUp(unittest.TestCase):
    """The smallest and largest reported numbers of the hosts of a service."""

    def test_each_capability_of_a_service_has_its_least_and_its_most(self):
        """S50: <service>_<capability> = min,max over all hosts."""
        reports = [
            ("compute", {"cpu": 0.7, "disk": 123000}),
            ("compute", {"cpu": 0.2}),
            ("network", {"cpu": 0.5}),
        ]
        self.assertEqual(
            {"compute_cpu": (0.2, 0.7), "compute_disk": (123000, 123000),
             "network_cpu": (0.5, 0.5)},
            rolled_up(reports),
        )  # fmt: skip

    def test_what_is_unknown_does_not_count(self):
        reports = [("compute", {"cpu": math.nan, "disk": math.nan}), ("compute", {"cpu": 3})]
        self.assertEqual({"compute_cpu": (3, 3)}, rolled_up(reports))
        one_host = [("compute", {"cpu": math.nan, "disk": 5})]
        self.assertEqual({"compute_disk": (5, 5)}, rolled_up(one_host))


class TestRuledOut(unittest.TestCase):
    """A zone whose capabilities rule out a request is not queried."""

    def test_one_of_the_required_values_suffices(self):
        self.assertIsNone(why_ruled_out({"os": ("linux",)}, {"os": ("windows", "linux")}))

    def test_a_zone_without_any_of_them_is_ruled_out_and_says_why(self):
        self.assertEqual(
            "capability os: needs windows, has bsd;linux",
            why_ruled_out({"os": ("linux", "bsd")}, {"os": ("windows",)}),
        )
        reason = why_ruled_out({"os": ("\x1b[31m" * 1000,)}, {"os": ("windows",)})
        self.assertEqual((600, True), (len(reason), reason.isprintable()))
        self.assertEqual(
            "capability os: needs windows;macos, has linux",
            why_ruled_out({"os": ("linux",)}, {"os": ("windows", "macos")}),
        )

    def test_a_key_that_the_zone_does_not_speak_of_rules_nothing_out(self):
        for capabilities in ({}, {"arch": ("x86",)}, {"os": ()}):
            with self.subTest(capabilities):
                self.assertIsNone(why_ruled_out(capabilities, {"os": ("windows",)}))
