# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a zone with children: attempts, other verbs, reasons, rankings."""

import itertools
import unittest
from random import Random

from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine_of
from tests.unit.core.sites import quietly
from tests.unit.zones.test_scarcity_as_flat import NO_INVENTORY
from tests.unit.zones.test_selection import offer
from tests.unit.zones.test_tree_as_flat import CARD, CORES, decider, podm, tree
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import InventoryIncomplete, NoPodm, ServiceError, StaleOffer, UnknownName
from valence_sched.model.decision import DecisionResult, PoolRef, SilentZone
from valence_sched.model.request import GroupState, Request
from valence_sched.model.zone import GroupAnswer, SealedRequest, ZoneAnswer
from valence_sched.planning.batches import BatchPlan
from valence_sched.planning.succession import Succession
from valence_sched.testing import request
from valence_sched.zones.decider import MOST_TRIALS, NO_REASONS, ZoneBatch, ZoneDecider
from valence_sched.zones.selection import PlacedOffer, Selected

LARGE = replace(CORES, amount=16)


class FlatPodms:
    """Seals requests for a tree as one zone with all pod managers does."""

    def __init__(self, flat):
        self._flat = flat

    def seal(self, request):
        sealed = self._flat.seal(request)
        policy, most_cost = self._flat.policy(sealed)
        return SealedRequest(request=sealed, policy=policy, most_cost=most_cost,
                             inventory=NO_INVENTORY)  # fmt: skip

    def select_destinations(self, request, *, detail="placements"):
        raise NoPodm("this zone has none")


def zoned(zone, flat, **words) -> ZoneDecider:
    return ZoneDecider(FlatPodms(flat), zone, **words)


def requests(random: Random, least: int = 2) -> list[Request]:
    """Return up to four requests, all of whose nodes are required."""
    return [
        Request(
            needs=random.choice([(CORES,), (CORES, CARD), (LARGE,), (CARD,)]),
            count=random.choice([1, 1, 2, 3]),
            policy=random.choice(["default", "pack"]),
            exclude_podms=random.choice([(), (), ("podm-1",)]),
            seed=random.randint(0, 9),
        )
        for _ in range(random.randint(least, 4))
    ]


def fits_in_order(flat, order) -> bool:
    """Return whether one zone places all nodes of requests, one request after another."""
    succession = Succession(flat)
    for asked in order:
        decision = succession.decide(asked)
        if decision.fit_count < asked.required_count:
            return False
        for node in decision.fitting_nodes:
            succession.take(asked, node.chosen)
    return True


class TestTree(unittest.TestCase):
    """Batches of a tree compared with batches of one zone with all pod managers."""

    def site(self, seed):
        random = Random(seed)
        podms = [podm(number, random) for number in range(random.randint(2, 5))]
        flat = decider(podms)
        return flat, zoned(tree(podms, random), flat, deadline_s=600.0), requests(random)

    @quietly(24)
    @given(st.integers(0, 2**32))
    def test_where_any_order_fits_all_are_placed(self, seed):
        """With up to four requests, every order is tried until one fits; otherwise nothing is
        placed.
        """
        flat, top, asked = self.site(seed)
        fits = any(fits_in_order(flat, order) for order in itertools.permutations(asked))
        report = top.select_all(asked).report
        self.assertEqual(sum(one.count for one in asked) if fits else 0, report.placed)
        if fits:
            decided = [one.request.needs for one in report.decisions]
            self.assertEqual([one.needs for one in asked], decided)

    @quietly(24)
    @given(st.integers(0, 2**32))
    def test_the_first_order_is_that_of_one_zone(self, seed):
        """If it places all nodes, they are on the same blocks."""
        flat, top, asked = self.site(seed)
        plan = BatchPlan(Succession(flat), asked, Succession(flat).budget(asked))
        first = plan.trial(next(plan._orders()))
        if first.score != (0, 0):
            return
        found = [[one.chosen for one in each.placements]
                 for each in top.select_all(asked).report.decisions]  # fmt: skip
        expected = [[one.chosen for one in each.placements] for each in first.decisions]
        self.assertEqual(expected, found)

    def test_the_order_as_asked_would_not_always_do(self):
        """Shows that the test above can fail."""
        other_order = 0
        for seed in range(150):
            flat, top, asked = self.site(seed)
            if fits_in_order(flat, asked):
                continue
            other_order += bool(top.select_all(asked).report.placed)
            if other_order > 1:
                return
        self.fail(f"{other_order} of 150")

    def test_an_error_names_the_request(self):
        _, top, asked = self.site(1)
        strange = replace(asked[0], podms=("nowhere",))
        with self.assertRaisesRegex(UnknownName, "request 2"):
            top.select_all([asked[0], strange])


class Trials:
    """Selects nodes by a table of fits, and records the tried orders."""

    def __init__(self, fitting):
        self.fitting, self.orders = fitting, []

    def __call__(self):
        order = []
        self.orders.append(order)

        def select(number, _others):
            order.append(number)
            count = self.fitting(tuple(order))
            nodes = [PlacedOffer(1, offer(f"p{number}", place)) for place in range(count)]
            return Selected(nodes=nodes)

        return select


class TestOrders(unittest.TestCase):
    """The tried orders, and the end of the search."""

    def batch(self, fitting, most=(9, 9, 9, 9), late=lambda: False, **words):
        request = Request(needs=(CORES,), count=1, **words)
        trials = Trials(fitting)
        return ZoneBatch([request] * len(most), most, trials, late), trials.orders

    def test_the_scarcest_comes_first(self):
        batch, orders = self.batch(lambda _order: 1, most=(3, 1, 2))
        self.assertEqual((0, 0), batch.best().score)
        self.assertEqual([[1, 2, 0]], orders)

    def test_no_order_is_tried_that_cannot_do(self):
        batch, orders = self.batch(lambda _order: 1, most=(3, 0, 2))
        self.assertIsNone(batch.best())
        self.assertEqual([], orders)

    def test_all_orders_of_four_are_tried_and_no_more_than_that_of_five(self):
        for count, expected in ((4, MOST_TRIALS), (5, 1)):
            with self.subTest(count):
                batch, orders = self.batch(lambda _order: 0, most=(9,) * count)
                self.assertIsNone(batch.best())
                self.assertEqual(expected, len(orders))
                self.assertEqual(expected, len(set(map(tuple, orders))))

    def test_the_best_of_all_is_taken_if_not_every_node_must_be_placed(self):
        batch, _ = self.batch(lambda order: int(order[0] == 2), most=(9, 9, 9), min_count=0)
        best = batch.best()
        self.assertEqual((0, 0), best.score)
        batch, _ = self.batch(lambda order: int(order == (1,)), most=(9, 9, 9), min_count=0)
        best = batch.best()
        self.assertEqual(((0, 2), 1), (best.score, len(best.selected[1].nodes)))

    def test_no_other_order_is_begun_once_time_is_over(self):
        batch, orders = self.batch(lambda _order: 0, late=lambda: True)
        self.assertIsNone(batch.best())
        self.assertEqual(1, len(orders))

    def test_in_the_order_asked_the_first_that_fails_is_the_last(self):
        batch, _ = self.batch(lambda order: int(len(order) < 2))
        self.assertEqual([1, 0], [len(one.nodes) for one in batch.in_order()])


OWN = engine_of({"id": "own", "blocks": [cpu("c", 8), cpu("d", 8)]})
EAST = SilentZone(zone="east", reason="it is away")
EIGHT_CORES = {"processor": {"total_cores": 8}}


class Zone:
    """Answers queries with scripted answers, of which the last is repeated.

    An answer may be an error, or a function of the query.
    """

    def __init__(self, *answers) -> None:
        self.answers, self.queries = list(answers), []

    def offers(self, query):
        self.queries.append(query)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(query) if callable(answer) else answer

    def group_state(self, query):
        return GroupAnswer(group_state=GroupState())


class Own(FlatPodms):
    """The zone's own scheduler: it returns the decision ``OWN``, and has some other verbs."""

    def __init__(self) -> None:
        super().__init__(OWN)
        self.asked = []

    def select_destinations(self, asked, *, detail="placements"):
        self.asked.append(detail)
        return DecisionResult(report=decision_report(OWN.select_destinations(asked)))

    def select_all(self, requests, *, detail="placements"):
        self.asked.append((requests, detail))
        return "nothing at all"

    def pools(self, podm=None):
        return [podm]


def answer(*podms: str, **words: object) -> ZoneAnswer:
    nodes = tuple(replace(offer(name, 10), zone="east") for name in podms)
    return ZoneAnswer(nodes=nodes, ranking=nodes, worst_cost=100, **words)


class SchedulerCase(unittest.TestCase):
    """A scheduler over scripted answers and one engine."""

    def setUp(self) -> None:
        self.own = Own()

    def zoned(self, *answers, **words) -> ZoneDecider:
        self.zone = Zone(*answers)
        return ZoneDecider(self.own, self.zone, **words)


class TestSelect(SchedulerCase):
    """One request."""

    def test_offers_that_others_took_are_asked_for_again_twice(self):
        scheduler = self.zoned(StaleOffer("gone"), StaleOffer("gone"), answer("a"))
        report = scheduler.select_destinations(request(EIGHT_CORES)).report
        self.assertEqual(["a"], [one.chosen.podm for one in report.placements])
        self.assertEqual(3, len(self.zone.queries))
        scheduler = self.zoned(StaleOffer("gone"))
        with self.assertRaises(StaleOffer):
            scheduler.select_destinations(request(EIGHT_CORES))
        self.assertEqual(3, len(self.zone.queries))

    def test_the_time_and_the_levels_are_those_of_the_settings(self):
        self.zoned(answer("a"), deadline_s=5.0, most_hops=2).select(request(EIGHT_CORES))
        (query,) = self.zone.queries
        self.assertEqual(2, query.hops)
        self.assertTrue(1.0 < query.deadline_s <= 5.0, query.deadline_s)

    def test_zones_to_avoid_are_not_asked_and_named(self):
        sealed, selected = self.zoned(answer("a")).select(request(EIGHT_CORES), [EAST])
        self.assertEqual(("east",), self.zone.queries[0].left_out)
        self.assertEqual({"east": EAST}, selected.silent)
        self.assertEqual(OWN.policy(sealed.request), (sealed.policy, sealed.most_cost))

    def test_no_candidate_costs_more_than_the_policy_allows(self):
        scheduler = self.zoned(answer("a"))
        sealed, _ = scheduler.select(request(EIGHT_CORES))
        self.assertEqual(sealed.most_cost, self.zone.queries[0].most_cost)

    def test_without_an_answer_of_any_zone_there_is_no_decision(self):
        silent = answer(silent=(EAST,))
        with self.assertRaisesRegex(InventoryIncomplete, "east: it is away"):
            self.zoned(silent).select_destinations(request(EIGHT_CORES))


class TestVerbs(SchedulerCase):
    """Verbs of the own scheduler."""

    def test_every_other_verb_is_that_of_the_own_scheduler(self):
        self.assertEqual(["x"], self.zoned(answer("a")).pools("x"))

    def test_no_requests_are_a_matter_of_the_own_scheduler(self):
        found = self.zoned(answer("a")).select_all([], detail="summary")
        self.assertEqual("nothing at all", found)
        self.assertEqual([([], "summary")], self.own.asked)


class TestReasons(SchedulerCase):
    """The reasons why nothing fits."""

    def test_what_is_placed_needs_no_reasons(self):
        report = self.zoned(answer("a")).select_destinations(request(EIGHT_CORES)).report
        self.assertEqual(((), []), (report.podms, self.own.asked))

    def test_where_too_little_is_placed_the_engine_and_the_children_say_why(self):
        asked = []

        def below(one, detail):
            asked.append((one("east"), detail))
            return {"east": ServiceError("it is away")}

        wanted = request(EIGHT_CORES, count=3)
        report = (
            self.zoned(answer(), reports_below=below)
            .select_destinations(wanted, detail="report")
            .report
        )
        self.assertEqual(["own"], [one.podm for one in report.podms])
        self.assertIn("zone east returned no reasons: it is away", report.warnings)
        self.assertEqual((["report"], [(wanted, "report")]), (self.own.asked, asked))

    def test_an_engine_that_lacks_what_is_asked_for_says_nothing(self):
        for error in (NoPodm("none"), UnknownName("pod manager", "x", ())):
            with self.subTest(error):

                def lacks(*_words, error=error, **_named):
                    raise error

                scheduler = self.zoned(answer())
                self.own.select_destinations = lacks
                report = scheduler.select_destinations(request(EIGHT_CORES)).report
                self.assertEqual(("nothing_fits", ()), (report.outcome, report.podms))

    def test_an_engine_of_all_zones_says_why_only_where_it_decides_the_same(self):
        chosen = OWN.select_destinations(request(EIGHT_CORES, id="r")).placements[0].chosen
        same = replace(answer("own"), nodes=(replace(offer("own", 10), candidate=chosen),))
        wanted = request(EIGHT_CORES, id="r")
        report = self.zoned(same, own_has_all=True).select_destinations(wanted).report
        self.assertEqual(chosen, report.placements[0].chosen)
        self.assertEqual(["own"], [one.podm for one in report.podms])
        report = self.zoned(answer("own"), own_has_all=True).select_destinations(wanted).report
        self.assertEqual(((), 1), (report.podms, report.placed))


class TestRank(SchedulerCase):
    """The best candidates of all zones."""

    def test_they_come_best_first_with_what_is_missing(self):
        pool = PoolRef(podm="c", pool="p")
        found = self.zoned(answer("a", "b", silent=(EAST,), undecided=(pool,)))
        ranking = found.rank(request(EIGHT_CORES), 2)
        self.assertEqual(["east/a", "east/b"], [one.podm for one in ranking.candidates])
        self.assertEqual(("zone east: it is away", "c: undecided"), ranking.missing)
        self.assertEqual(2, self.zone.queries[0].limit)
        self.assertEqual(
            1, len(self.zoned(answer("a", "b")).rank(request(EIGHT_CORES), 1).candidates)
        )


class TestAll(SchedulerCase):
    """Several requests."""

    def test_offers_that_others_took_are_asked_for_again_twice(self):
        scheduler = self.zoned(StaleOffer("gone"), StaleOffer("gone"), answer("a"))
        report = scheduler.select_all([request(EIGHT_CORES)]).report
        self.assertEqual(("placed", 1), (report.outcome, report.placed))
        scheduler = self.zoned(StaleOffer("gone"))
        with self.assertRaises(StaleOffer):
            scheduler.select_all([request(EIGHT_CORES)])
        self.assertEqual(3, len(self.zone.queries))

    def test_the_nodes_of_one_are_told_to_the_next(self):
        report = self.zoned(answer("a")).select_all(
            [request(EIGHT_CORES, owner="me"), request(EIGHT_CORES)]
        )
        self.assertEqual(2, report.report.placed)
        others = [[one.token for one in query.others] for query in self.zone.queries]
        self.assertEqual(["a"], others[-1])

    def test_a_request_that_fails_after_others_says_why_it_has_no_reasons(self):
        def free(query):
            return answer() if query.others else answer("a")

        report = self.zoned(free).select_all([request(EIGHT_CORES)] * 2).report
        self.assertEqual(("nothing_fits", (NO_REASONS,)), (report.outcome, report.warnings))

    def test_an_error_of_a_single_request_has_no_number(self):
        unknown = answer(unknown_podms=("nowhere",))
        with self.assertRaisesRegex(UnknownName, "^no pod manager named 'nowhere'"):
            self.zoned(unknown).select_all([request(EIGHT_CORES)])
        with self.assertRaisesRegex(UnknownName, "request 1"):
            self.zoned(unknown).select_all([request(EIGHT_CORES), request(EIGHT_CORES)])

    def test_alternates_that_other_requests_take_are_left_out(self):
        def free(query):
            taken = {one.token for one in query.others}
            found = answer(*(name for name in "abc" if name not in taken))
            return replace(found, nodes=found.nodes[:1])

        wanted = request(EIGHT_CORES, alternates=2)
        report = self.zoned(free).select_all([wanted, wanted]).report
        placed = [
            ([each.podm for each in (node.chosen, *node.alternates)])
            for one in report.decisions
            for node in one.placements
        ]
        self.assertEqual([["a", "c"], ["b", "c"]], sorted(placed))
