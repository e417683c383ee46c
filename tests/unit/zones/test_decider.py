# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a zone with children: tries, other verbs, reasons, rankings."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine_of
from tests.unit.zones.test_batch import FlatPodms
from tests.unit.zones.test_selection import offer
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import (
    InventoryIncomplete,
    NoPodm,
    ServiceError,
    StaleOffer,
    UnknownName,
)
from valence_sched.model.decision import DecisionResult, PoolRef, SilentZone
from valence_sched.model.group import GroupState
from valence_sched.model.zone import GroupAnswer, ZoneAnswer
from valence_sched.testing import request
from valence_sched.zones.decider import ZoneDecider

OWN = engine_of({"id": "own", "blocks": [cpu("c", 8), cpu("d", 8)]})
EAST = SilentZone(zone="east", reason="it is away")
CORES = {"processor": {"total_cores": 8}}


class Zone:
    """Answers queries one after another as a test says, the last answer for ever.

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
        return GroupAnswer(company=GroupState())


class Own(FlatPodms):
    """The zone's own scheduler: a decision as ``OWN`` makes it, and some other verbs."""

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
        report = scheduler.select_destinations(request(CORES)).report
        self.assertEqual(["a"], [one.chosen.podm for one in report.placements])
        self.assertEqual(3, len(self.zone.queries))
        scheduler = self.zoned(StaleOffer("gone"))
        with self.assertRaises(StaleOffer):
            scheduler.select_destinations(request(CORES))
        self.assertEqual(3, len(self.zone.queries))

    def test_the_time_and_the_levels_are_those_of_the_settings(self):
        self.zoned(answer("a"), deadline_s=5.0, most_hops=2).selected(request(CORES))
        (query,) = self.zone.queries
        self.assertEqual(2, query.hops)
        self.assertTrue(1.0 < query.deadline_s <= 5.0, query.deadline_s)

    def test_zones_to_avoid_are_not_asked_and_named(self):
        sealed, selected = self.zoned(answer("a")).select(request(CORES), [EAST])
        self.assertEqual(("east",), self.zone.queries[0].left_out)
        self.assertEqual({"east": EAST}, selected.silent)
        self.assertEqual(OWN.policy(sealed.request), (sealed.policy, sealed.most_cost))

    def test_no_candidate_costs_more_than_the_policy_allows(self):
        scheduler = self.zoned(answer("a"))
        sealed, _ = scheduler.select(request(CORES))
        self.assertEqual(sealed.most_cost, self.zone.queries[0].most_cost)

    def test_without_an_answer_of_any_zone_there_is_no_decision(self):
        silent = answer(silent=(EAST,))
        with self.assertRaisesRegex(InventoryIncomplete, "east: it is away"):
            self.zoned(silent).select_destinations(request(CORES))


class TestVerbs(SchedulerCase):
    """What the own scheduler answers."""

    def test_every_other_verb_is_that_of_the_own_scheduler(self):
        self.assertEqual(["x"], self.zoned(answer("a")).pools("x"))

    def test_no_requests_are_a_matter_of_the_own_scheduler(self):
        found = self.zoned(answer("a")).select_all([], detail="summary")
        self.assertEqual("nothing at all", found)
        self.assertEqual([([], "summary")], self.own.asked)


class TestReasons(SchedulerCase):
    """What is said of why not."""

    def test_what_is_placed_needs_no_reasons(self):
        report = self.zoned(answer("a")).select_destinations(request(CORES)).report
        self.assertEqual(((), []), (report.podms, self.own.asked))

    def test_where_too_little_is_placed_the_engine_and_the_children_say_why(self):
        asked = []

        def below(one, detail):
            asked.append((one("east"), detail))
            return {"east": ServiceError("it is away")}

        wanted = request(CORES, count=3)
        report = (
            self.zoned(answer(), reports_below=below)
            .select_destinations(wanted, detail="report")
            .report
        )
        self.assertEqual(["own"], [one.podm for one in report.podms])
        self.assertIn("zone east gives no reasons: it is away", report.warnings)
        self.assertEqual((["report"], [(wanted, "report")]), (self.own.asked, asked))

    def test_an_engine_that_lacks_what_is_asked_for_says_nothing(self):
        for error in (NoPodm("none"), UnknownName("pod manager", "x", ())):
            with self.subTest(error):

                def lacks(*_words, error=error, **_named):
                    raise error

                scheduler = self.zoned(answer())
                self.own.select_destinations = lacks
                report = scheduler.select_destinations(request(CORES)).report
                self.assertEqual(("nothing_fits", ()), (report.outcome, report.podms))

    def test_an_engine_of_all_zones_says_why_only_where_it_decides_the_same(self):
        chosen = OWN.select_destinations(request(CORES, id="r")).placements[0].chosen
        same = replace(answer("own"), nodes=(replace(offer("own", 10), candidate=chosen),))
        wanted = request(CORES, id="r")
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
        ranking = found.rank(request(CORES), 2)
        self.assertEqual(["east/a", "east/b"], [one.podm for one in ranking.candidates])
        self.assertEqual(("zone east: it is away", "c: undecided"), ranking.missing)
        self.assertEqual(2, self.zone.queries[0].limit)
        self.assertEqual(1, len(self.zoned(answer("a", "b")).rank(request(CORES), 1).candidates))


class TestAll(SchedulerCase):
    """Several requests."""

    def test_offers_that_others_took_are_asked_for_again_twice(self):
        scheduler = self.zoned(StaleOffer("gone"), StaleOffer("gone"), answer("a"))
        report = scheduler.select_all([request(CORES)]).report
        self.assertEqual(("placed", 1), (report.outcome, report.placed))
        scheduler = self.zoned(StaleOffer("gone"))
        with self.assertRaises(StaleOffer):
            scheduler.select_all([request(CORES)])
        self.assertEqual(3, len(self.zone.queries))

    def test_the_nodes_of_one_are_told_to_the_next(self):
        report = self.zoned(answer("a")).select_all([request(CORES, owner="me"), request(CORES)])
        self.assertEqual(2, report.report.placed)
        others = [[one.token for one in query.others] for query in self.zone.queries]
        self.assertEqual(["a"], others[-1])

    def test_an_error_of_a_single_request_has_no_number(self):
        unknown = answer(unknown_podms=("nowhere",))
        with self.assertRaisesRegex(UnknownName, "^no pod manager named 'nowhere'"):
            self.zoned(unknown).select_all([request(CORES)])
        with self.assertRaisesRegex(UnknownName, "request 1"):
            self.zoned(unknown).select_all([request(CORES), request(CORES)])

    def test_alternates_that_other_requests_take_are_left_out(self):
        def free(query):
            taken = {one.token for one in query.others}
            found = answer(*(name for name in "abc" if name not in taken))
            return replace(found, nodes=found.nodes[:1])

        wanted = request(CORES, alternates=2)
        report = self.zoned(free).select_all([wanted, wanted]).report
        placed = [
            ([each.podm for each in (node.chosen, *node.alternates)])
            for one in report.decisions
            for node in one.placements
        ]
        self.assertEqual([["a", "c"], ["b", "c"]], sorted(placed))
