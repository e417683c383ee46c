# SPDX-License-Identifier: Apache-2.0
"""The selection of nodes, and the merging of offers."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, cpus, engine_of
from tests.unit.zones.test_tree_as_flat import CORES, decider
from valence_sched.core.ranking import pool_lot
from valence_sched.errors import SchedulerError, UnknownName
from valence_sched.model.decision import Candidate, PoolRef, SilentZone
from valence_sched.model.request import Group, GroupState, Request
from valence_sched.model.zone import GroupAnswer, Offer, OfferQuery, OtherNode, ZoneAnswer
from valence_sched.testing import request
from valence_sched.zones.selection import OtherOffer, ZoneSelection
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import (
    ChildZone,
    OfferOrder,
    Part,
    Weighting,
    ZoneTree,
    merge_nodes,
    merge_ranking,
)

QUERY = OfferQuery(request=Request(id="r"))


def offer(podm: str, cost: int) -> Offer:
    candidate = Candidate(
        podm=podm, pool="p", score=0.0, cost=cost, scores={}, blocks=(), grants=(), waste=0
    )
    return Offer(candidate=candidate, token=podm)


def answer(*costs: int, worst: int = 1000, name: str = "p") -> ZoneAnswer:
    offers = tuple(offer(f"{name}{number}", cost) for number, cost in enumerate(costs))
    return ZoneAnswer(nodes=offers, ranking=offers, worst_cost=worst)


def ranked(*parts: Part) -> list[tuple[str, int]]:
    order = OfferOrder(QUERY, parts)
    return [
        (one.candidate.podm, order.cost(part, one)) for part, one in merge_ranking(parts, order)
    ]


class TestOrder(unittest.TestCase):
    """The sort keys."""

    def test_costs_of_all_zones_are_in_one_order(self):
        """S41: the merged order is the order of the costs."""
        found = ranked(Part(answer(100, 300, name="a"), "a"), Part(answer(200, name="b"), "b"))
        self.assertEqual([("a0", 100), ("b0", 200), ("a1", 300)], found)

    def test_scale_and_offset_weigh_the_scores_of_a_child(self):
        """S41: offset + scale x score: 0.5 + 0.5 x 0.4 = 0.7, a cost of 300."""
        part = Part(answer(600), "a", Weighting(scale=0.5, offset=0.5))
        self.assertEqual([("p0", 300)], ranked(part))
        self.assertEqual([("p0", 800)], ranked(Part(answer(600), "a", Weighting(scale=0.5))))

    def test_a_weighted_score_stays_between_0_and_1(self):
        for weighting, cost in ((Weighting(offset=5.0), 0), (Weighting(offset=-5.0), 1000)):
            with self.subTest(weighting):
                self.assertEqual([("p0", cost)], ranked(Part(answer(600), "a", weighting)))

    def test_zones_with_other_weights_are_brought_to_one_scale(self):
        found = ranked(Part(answer(100), "a"), Part(answer(5, worst=10, name="b"), "b"))
        self.assertEqual([("p0", 100), ("b0", 500)], found)

    def test_a_zone_that_lies_about_its_costs_is_taken_for_its_best_or_its_worst(self):
        found = ranked(Part(answer(-7, 10**9), "liar"), Part(answer(0, name="b"), "b"))
        self.assertEqual({("p0", 0), ("b0", 0), ("p1", 1000)}, set(found))

    def test_no_cost_is_more_than_the_query_allows(self):
        for most, worst in ((None, 1000), (2000, 1000), (500, 500), (0, 0)):
            parts = [Part(answer(100, worst=10)), Part(answer(100), "a")]
            with self.subTest(most=most):
                order = OfferOrder(replace(QUERY, most_cost=most), parts)
                self.assertEqual(worst, order.worst_cost)
        self.assertEqual(0, OfferOrder(QUERY, []).worst_cost)

    def test_an_offer_has_the_cost_and_the_scores_of_the_zone_above(self):
        one = offer("p", 1)
        scores = {"low": -0.5, "room": 0.25, "high": 1.5}
        one = replace(one, zone="x", candidate=replace(one.candidate, scores=scores))
        parts = [Part(ZoneAnswer(worst_cost=3)), Part(ZoneAnswer(worst_cost=300), "a")]
        found = OfferOrder(QUERY, parts).as_above(parts[0], one)
        self.assertEqual((100, 0.666667), (found.candidate.cost, found.candidate.score))
        self.assertEqual({"low": 0.0, "room": 0.25, "high": 1.0}, found.candidate.scores)
        self.assertEqual(("p", "p", "x"), (found.candidate.podm, found.token, found.zone))
        free = [Part(ZoneAnswer(worst_cost=0))]
        self.assertEqual(1.0, OfferOrder(QUERY, free).as_above(free[0], one).candidate.score)
        for worst in (1, 2):
            parts = [Part(ZoneAnswer(worst_cost=worst))]
            found = OfferOrder(QUERY, parts).as_above(parts[0], one)
            self.assertEqual(1.0 - 1 / worst, found.candidate.score)

    def test_equals_are_drawn_by_names_and_not_by_zones(self):
        alone = ranked(Part(answer(5, 5, 5, 5)))
        first, second = answer(5, 5), answer(5, 5)
        second = ZoneAnswer(ranking=(offer("p2", 5), offer("p3", 5)), worst_cost=1000)
        self.assertEqual(alone, ranked(Part(second, "b"), Part(first, "a")))


class TestAsFlat(unittest.TestCase):
    """Equals have the same order as in one flat zone, for any boundaries of zones."""

    def podms(self):
        pools = [{"id": "p"}, {"id": "q"}]
        blocks = [cpu(f"{pool}0", 8, pools=[pool]) for pool in "pq"]
        return [{"id": f"podm-{n}", "pools": pools, "blocks": blocks} for n in range(6)]

    def test_pools_of_one_score_are_drawn_as_in_one_zone_by_cost_and_by_lot(self):
        podms, orders = self.podms(), set()
        flat, first, second = engine_of(*podms), engine_of(*podms[:3]), engine_of(*podms[3:])
        for order, policy in (("cost", "default"), ("lot", "chance")):
            for turn in (0, 1, 2):
                asked = OfferQuery(
                    request=request({"processor": {"total_cores": 8}}, id="r", policy=policy),
                    order=order, limit=12, turn=turn,
                )  # fmt: skip
                parts = [Part(first.offers(asked, ()), "a"), Part(second.offers(asked, ()), "b")]
                found = tuple(
                    (one.candidate.podm, one.candidate.pool)
                    for _, one in merge_ranking(parts, OfferOrder(asked, parts))
                )
                with self.subTest(order, turn=turn):
                    expected = flat.offers(asked, ()).ranking
                    names = tuple((one.candidate.podm, one.candidate.pool) for one in expected)
                    self.assertEqual(names, found)
                orders.add(found)
        self.assertEqual(4, len(orders), "each turn by lot is another order, by cost none is")


class TestNodes(unittest.TestCase):
    """Lists of nodes are merged by their heads."""

    def test_a_node_that_costs_less_than_the_one_before_it_waits_for_it(self):
        parts = [Part(answer(300, 10, name="a"), "a"), Part(answer(200, 250, 400, name="b"), "b")]
        found = merge_nodes(parts, OfferOrder(QUERY, parts), 4)
        names = [one.candidate.podm for _, one in found]
        self.assertEqual(["b0", "b1", "a0", "a1"], names)

    def test_no_more_nodes_than_asked_for(self):
        parts = [Part(answer(*range(9)))]
        self.assertEqual(3, len(merge_nodes(parts, OfferOrder(QUERY, parts), 3)))
        self.assertEqual([], merge_nodes([], OfferOrder(QUERY, []), 3))


ASKED = Request(needs=(CORES,), count=3, min_count=0, policy="chance")


def podm(name: str, **fields) -> dict:
    return {"id": name, "blocks": cpus(1, 16), **fields}


class FlakyZone:
    """A zone that stops answering after this number of queries, which it counts."""

    def __init__(self, zone, answers):
        self._zone, self._answers, self.asked = zone, answers, 0

    def offers(self, query):
        return self._answer(self._zone.offers, query)

    def group_state(self, query):
        return self._answer(self._zone.group_state, query)

    def _answer(self, ask, query):
        self.asked += 1
        if self.asked > self._answers:
            raise SchedulerError("gone")
        return ask(query)


def leaf(name: str, *podms: dict) -> ZoneTree:
    return ZoneTree(name, Tokens([name], name), decider(list(podms)))


def top(**zones) -> ZoneTree:
    return ZoneTree("top", Tokens(["top"], "top"), None,
                    [ChildZone(name, zone) for name, zone in zones.items()])  # fmt: skip


class TestLostZones(unittest.TestCase):
    """After a zone is lost, the decision is repeated without it, if it had a chosen node."""

    def setUp(self):
        self.decider = decider([podm("a1"), podm("a2"), podm("b1"), podm("b2")])

    def selection(self, zone, asked=ASKED, **words) -> ZoneSelection:
        policy = next(one for one in self.decider.policies() if one.name == asked.policy)
        return ZoneSelection(zone, policy, self.decider.seal(asked), **words)

    def chosen(self, selected) -> list[str]:
        return [one.chosen.candidate.podm for one in selected.nodes]

    def test_the_decision_is_the_one_of_the_zones_that_are_left(self):
        """S70: for each moment at which the zone can be lost."""
        alone = self.selection(top(b=leaf("b", podm("b1"), podm("b2")))).nodes()
        self.assertEqual(2, len(alone.nodes))
        for answers in (0, 1, 2):
            with self.subTest(answers):
                flaky = FlakyZone(leaf("a", podm("a1"), podm("a2")), answers)
                zones = top(a=flaky, b=leaf("b", podm("b1"), podm("b2")))
                selected = self.selection(zones).nodes()
                self.assertEqual(["a"], list(selected.silent))
                self.assertEqual(answers + 1, flaky.asked)
                if any(one.chosen.zone == "a" for one in selected.nodes):
                    continue  # it was lost after its last node
                self.assertEqual(self.chosen(alone), self.chosen(selected))

    def test_a_group_is_never_split_by_a_zone_that_is_lost(self):
        """The place of a lost node is unknown: no node is counted or placed together with it."""
        group = Group(name="g", anti_affinity=("facts.rack",))
        asked = replace(ASKED, group=group, policy="default")
        fact = {"rack": "r1"}
        flaky = FlakyZone(leaf("a", podm("a1", facts=fact)), 2)
        zones = top(a=flaky, b=leaf("b", podm("b1", facts=fact), podm("b2", facts={"rack": "r2"})))
        selected = self.selection(zones, asked).nodes()
        self.assertEqual({"b1", "b2"}, set(self.chosen(selected)))
        self.assertEqual("gone", selected.silent["a"].reason)

    def test_time_that_is_over_ends_no_round(self):
        """Each query has the rest of the deadline, and at least a minimum."""
        ticks = iter(range(1000))
        deadlines = []

        class Zone:
            def offers(self, query):
                deadlines.append(query.deadline_s)
                return inner.offers(query)

        inner = top(b=leaf("b", podm("b1"), podm("b2"), podm("b3")))
        selected = self.selection(Zone(), deadline_s=2.0, clock=lambda: next(ticks)).nodes()
        self.assertEqual(3, len(selected.nodes))
        self.assertEqual([1.0, 0.001, 0.001], deadlines)

    def test_a_pod_manager_that_no_zone_has_is_an_error_only_if_all_answer(self):
        asked = replace(ASKED, podms=("b1", "nowhere"), policy="default")
        zones = {"b": leaf("b", podm("b1"))}
        with self.assertRaises(UnknownName):
            self.selection(top(**zones), asked).nodes()
        zones["a"] = FlakyZone(leaf("a", podm("a1")), 0)
        self.assertEqual(["b1"], self.chosen(self.selection(top(**zones), asked).nodes()))


class Scripted:
    """A zone with scripted answers, of which the last is repeated."""

    def __init__(self, *answers, group_state=None):
        self._answers, self.queries, self.states = list(answers), [], []
        self._group_state = GroupAnswer(group_state=group_state or GroupState())

    def offers(self, query):
        self.queries.append(query)
        return self._answers[min(len(self.queries), len(self._answers)) - 1]

    def group_state(self, query):
        self.states.append(query)
        return self._group_state


def placed(*names: str) -> ZoneAnswer:
    """Return an answer with these offers; the name of an offer may begin with its zone."""
    offers = tuple(
        replace(offer(name.rpartition("/")[2], number), token=name, zone=name.rpartition("/")[0])
        for number, name in enumerate(names)
    )
    return ZoneAnswer(nodes=offers, ranking=offers, worst_cost=9)


class TestQueries(unittest.TestCase):
    """The queries to zones, and the stored parts of their answers."""

    ASKED = replace(ASKED, policy="default", count=2)
    GONE = SilentZone(zone="gone", reason="it is down")

    @classmethod
    def setUpClass(cls):
        cls.policies = {one.name: one for one in decider([]).policies()}

    def selection(self, zone, asked=ASKED, **words) -> ZoneSelection:
        return ZoneSelection(zone, self.policies[asked.policy], asked, **words)

    def names(self, selected) -> list[str]:
        return [one.chosen.candidate.podm for one in selected.nodes]

    def test_one_query_for_all_nodes_has_the_limits_and_what_others_took(self):
        zone = Scripted(placed("a", "b"))
        others = [OtherOffer(OtherNode(token="t", group="g"), "x")]
        avoid = [SilentZone(zone="off", reason="it is avoided")]
        selected = self.selection(
            zone, self.ASKED, deadline_s=9.0, most_hops=4, most_cost=77, others=others,
            avoid=avoid, clock=lambda: 100.0,
        ).nodes()  # fmt: skip
        self.assertEqual(["a", "b"], self.names(selected))
        request = replace(self.ASKED, min_count=None)
        expected = OfferQuery(
            request=request, order="cost", most_cost=77, others=(others[0].node,), hops=4,
            deadline_s=9.0, left_out=("off",),
        )  # fmt: skip
        self.assertEqual([expected], zone.queries)
        self.assertEqual({"off": avoid[0]}, selected.silent)
        self.assertEqual([1, 1], [one.choice for one in selected.nodes])

    def test_what_any_answer_tells_is_kept_and_the_fullest_is_counted(self):
        pools = [PoolRef(podm="p", pool=name) for name in "vw"]
        excluded = SilentZone(zone="e", reason="it has none")
        first = replace(placed("a"), undecided=(pools[0],), silent=(self.GONE,), answered=5)
        second = replace(placed("b"), undecided=tuple(pools), excluded=(excluded,), answered=3)
        zone = Scripted(first, second)
        selected = self.selection(zone, replace(self.ASKED, policy="chance")).nodes()
        self.assertEqual((2, 5), (selected.queries, selected.answered))
        self.assertEqual(pools, [*selected.undecided.values()])
        self.assertEqual({"gone": self.GONE}, selected.silent)
        self.assertEqual({"e": excluded}, selected.excluded)
        self.assertEqual([(), ("gone",)], [one.left_out for one in zone.queries])

    def test_by_lot_each_node_is_a_round_that_tells_what_was_taken_before(self):
        zone = Scripted(placed("a", "x"), placed("b", "x"), placed())
        asked = replace(self.ASKED, policy="chance", count=4)
        selected = self.selection(zone, asked).nodes()
        self.assertEqual(["a", "b"], self.names(selected))
        rounds = [(one.turn, one.taken, one.limit, one.order) for one in zone.queries]
        taken = ((), ("a",), ("a", "b"))
        self.assertEqual([(turn, taken[turn], 0, "lot") for turn in range(3)], rounds)
        self.assertEqual({1}, {one.request.count for one in zone.queries})
        self.assertEqual([], zone.states)

    def test_offers_that_a_node_elsewhere_changes_are_taken_one_by_one(self):
        coupled = replace(placed("a", "b"), coupled=True)
        zone = Scripted(coupled, coupled, placed("c"))
        self.assertEqual(["a", "c"], self.names(self.selection(zone, self.ASKED).nodes()))
        self.assertEqual([2, 1, 1], [one.request.count for one in zone.queries])
        one = Scripted(replace(placed("a"), coupled=True))
        asked = replace(self.ASKED, count=1)
        self.assertEqual(["a"], self.names(self.selection(one, asked).nodes()))
        self.assertEqual(1, len(one.queries))

    def test_one_of_the_best_few_is_drawn_by_its_lot(self):
        drawn = set()
        for seed in range(9):
            zone = Scripted(placed("a", "b", "c", "d"))
            asked = replace(self.ASKED, policy="picky", seed=seed)
            found = self.names(self.selection(zone, asked).nodes())
            self.assertEqual([3, 3], [one.limit for one in zone.queries])
            expected = [min("abc", key=lambda one: pool_lot(one, "p", asked, turn))
                        for turn in (1, 2)]  # fmt: skip
            self.assertEqual(expected, found)
            drawn.update(found)
        self.assertEqual({*"abc"}, drawn)

    def test_a_group_that_stays_together_is_begun_at_another_place_where_more_of_it_fits(self):
        place = {"zone": ("z1",)}
        alone = replace(placed("a"), nodes=(replace(placed("a").nodes[0], place=place),))
        asked = replace(self.ASKED, group=Group(name="g", affinity=("zone",)))
        zone = Scripted(alone, placed(), placed("b"), placed("c"))
        self.assertEqual(["b", "c"], self.names(self.selection(zone, asked).nodes()))
        self.assertEqual([(), (), (place,), ()], [one.closed for one in zone.queries])
        zone = Scripted(alone, placed(), placed("b"), placed())
        self.assertEqual(["a"], self.names(self.selection(zone, asked).nodes()), "the first of two")
        zone = Scripted(alone, placed(), group_state=GroupState(members={"zone": {"z1": 1}}))
        self.assertEqual(["a"], self.names(self.selection(zone, asked).nodes()))
        self.assertEqual([()] * 2, [one.closed for one in zone.queries], "it has its place")

    def test_rounds_of_an_owner_are_asked_with_the_group_state_of_all_zones(self):
        group_state = GroupState(owned={"p": 2})
        zone = Scripted(placed("a"), group_state=group_state)
        asked = replace(self.ASKED, policy="chance", owner="mo")
        selected = self.selection(zone, asked).nodes()
        self.assertEqual([group_state] * 2, [one.group_state for one in zone.queries])
        self.assertEqual([(), ("a",)], [one.taken for one in zone.states])
        self.assertEqual(4, selected.queries)

    def test_a_ranking_is_by_cost_for_one_node_and_no_longer_than_asked_for(self):
        zone = Scripted(replace(placed("a", "b", "c"), answered=2))
        asked = replace(self.ASKED, policy="chance")
        found, known = self.selection(zone, asked).ranking(2)
        self.assertEqual(["a", "b"], [one.candidate.podm for one in found])
        (query,) = zone.queries
        self.assertEqual(("cost", 2, 1), (query.order, query.limit, query.request.count))
        self.assertEqual((None, 2, 1), (query.group_state, known.answered, known.queries))
        group_state = GroupState(owned={"p": 2})
        for words in ({"owner": "mo"}, {"group": Group(name="g", anti_affinity=("podm",))}):
            zone = Scripted(placed("a"), group_state=group_state)
            _, known = self.selection(zone, replace(asked, **words)).ranking(2)
            self.assertEqual((group_state, 2), (zone.queries[0].group_state, known.queries))

    def test_alternates_are_of_pod_managers_that_take_no_node(self):
        """Pod managers with the same name in two zones are different."""
        ranking = placed("z/a", "a", "z/b", "b", "c")
        zone = Scripted(placed("z/a", "z/b"), ranking)
        selected = self.selection(zone, replace(self.ASKED, alternates=2)).nodes()
        found = [[one.token for one in node.alternates] for node in selected.nodes]
        self.assertEqual([["a", "b"], ["a", "b"]], found)
        query = zone.queries[-1]
        self.assertEqual((2, 4, True), (len(zone.queries), query.limit, query.per_podm))
        self.assertEqual((1, 0), (query.request.count, query.turn))
        none = Scripted(placed())
        self.assertEqual([], self.selection(none, replace(self.ASKED, alternates=2)).nodes().nodes)
        self.assertEqual(1, len(none.queries))

    def test_a_node_is_lost_with_each_zone_above_it_and_with_no_other(self):
        for silent, left in (("x", ["c", "c"]), ("x/y", ["c", "c"]), ("x/", ["a", "c"]),
                             ("x/yy", ["a", "c"]), ("y", ["a", "c"])):  # fmt: skip
            gone = replace(placed("c"), silent=(SilentZone(zone=silent, reason="r"),))
            zone = Scripted(placed("x/y/a"), gone, placed("c"))
            with self.subTest(silent):
                selected = self.selection(zone, replace(self.ASKED, policy="chance")).nodes()
                self.assertEqual(left, self.names(selected))

    def test_nodes_of_another_request_are_lost_with_their_zone_too(self):
        gone = replace(placed("c"), silent=(SilentZone(zone="x", reason="r"),))
        others = [OtherOffer(OtherNode(token="t"), "x/y")]
        zone = Scripted(gone, placed("d"))
        selected = self.selection(zone, replace(self.ASKED, count=1), others=others).nodes()
        self.assertEqual(["d"], self.names(selected))

    def test_a_pod_manager_that_no_zone_has_is_named(self):
        unknown = replace(placed("a"), unknown_podms=("nowhere", "else"))
        with self.assertRaisesRegex(
            UnknownName, r"^no pod manager named 'nowhere' \(no name is known\)$"
        ):
            self.selection(Scripted(unknown), self.ASKED).nodes()
        silent = replace(unknown, silent=(self.GONE,))
        self.assertEqual(["a"], self.names(self.selection(Scripted(silent), self.ASKED).nodes()))

    def test_one_of_a_zone_that_is_not_asked_is_not_unknown(self):
        off = (SilentZone(zone="x", reason="disabled"),)
        for name, known in (("x/p", True), ("x/y/p", True), ("p", True), ("xy/p", False)):
            answer = replace(placed(), unknown_podms=(name,), excluded=off)
            with self.subTest(name):
                if known:
                    selected = self.selection(Scripted(answer), self.ASKED).nodes()
                    self.assertEqual((["x"], []), ([*selected.excluded], selected.nodes))
                else:
                    with self.assertRaisesRegex(UnknownName, f"named '{name}'"):
                        self.selection(Scripted(answer), self.ASKED).nodes()
