# SPDX-License-Identifier: Apache-2.0
"""Alternatives: a node is made by the first that can be had."""

import unittest
from collections import Counter

from tests.unit.core.deciders import cpu, cpus, engine_of, gpu
from valence_sched.core.explain.report import decision_report, funnel_steps
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request

A100, ANY, SSD = {"accelerators": [{"model": "A100"}]}, {"accelerators": [{}]}, {"drives": [{}]}
NODE = {"processor": {"total_cores": 8}}


class TestFirstOf(unittest.TestCase):
    """Tried in the order in which they are written."""

    def decide(self, *podms, first_of, **words):
        asked = request(NODE, first_of=first_of, **words)
        return engine_of(*podms).select_destinations(asked)

    def choices(self, decision):
        return [(placement.chosen.podm, placement.choice) for placement in decision.placements]

    def test_the_first_is_taken_wherever_it_can_be_had(self):
        roomy = {"id": "any", "blocks": [*cpus(9), gpu("g", model="L4")]}
        tight = {"id": "a100", "blocks": [*cpus(1), gpu("g", model="A100")]}
        decision = self.decide(roomy, tight, first_of=[A100, ANY])
        self.assertEqual([("a100", 1)], self.choices(decision))
        self.assertEqual([], decision.failed_attempts)

    def test_the_next_is_taken_where_the_first_fits_nowhere(self):
        decision = self.decide({"id": "a", "blocks": [*cpus(1), gpu("g", model="L4")]},
                               first_of=[A100, SSD, ANY])  # fmt: skip
        self.assertEqual([("a", 3)], self.choices(decision))
        self.assertEqual([1, 2], [number for number, _ in decision.failed_attempts])
        _, first = decision.failed_attempts[0]
        self.assertEqual(0, funnel_steps(decision, first)[-1].went_on)

    def test_a_batch_goes_on_with_the_next_when_the_first_is_used_up(self):
        gpus = [gpu("g1", model="A100"), gpu("g2", model="L4"), gpu("g3", model="L4")]
        decision = self.decide({"id": "a", "blocks": [*cpus(4), *gpus]},
                               first_of=[A100, ANY], count=3)  # fmt: skip
        self.assertEqual([("a", 1), ("a", 2), ("a", 2)], self.choices(decision))
        used = [ref.uri for p in decision.placements for ref in p.chosen.blocks]
        self.assertEqual(len(used), len(set(used)), "a block twice")

    def test_the_rules_of_a_group_count_the_nodes_of_every_choice(self):
        podms = [{"id": name, "blocks": [*cpus(4), gpu("g", model="A100")]} for name in "ab"]
        podms.append({"id": "c", "blocks": cpus(4)})
        for rule, counts in (
            ({"anti_affinity": ["podm"]}, [1, 1]),
            ({"at_most": {"podm": 1}}, [1, 1]),
            ({"affinity": ["podm"]}, [4]),
            ({"spread": [{"over": "podm"}]}, [3, 3]),
        ):
            with self.subTest(rule=rule):
                words = {"count": 6, "min_count": 0, "exclude_podms": ["c"]}
                group = {"name": "g", **rule}
                decision = self.decide(*podms, first_of=[A100, {}], group=group, **words)
                found = Counter(podm for podm, _ in self.choices(decision))
                self.assertEqual(counts, sorted(found.values()))

    def test_nothing_fits_only_when_no_choice_does(self):
        decision = self.decide({"id": "a", "blocks": cpus(1)}, first_of=[A100, ANY])
        self.assertEqual("nothing_fits", decision.outcome)
        (verdict,) = Verdicts(decision).podm_verdicts()
        self.assertEqual("devices: GPU A100: needs 1, has 0", verdict.reason.text)

    def test_every_choice_has_what_is_asked_in_common(self):
        small = {"id": "a", "blocks": [cpu("c", 4), gpu("g", model="A100")]}
        self.assertEqual("nothing_fits", self.decide(small, first_of=[A100, ANY]).outcome)

    def test_a_choice_that_asks_for_too_many_groups_is_refused(self):
        with self.assertRaisesRegex(RequestError, "9 groups of accelerators"):
            request({}, first_of=[NODE, {"accelerators": [{}] * 9}])

    def test_counting_what_fits_counts_all_choices(self):
        gpus = [gpu("g1", model="A100"), gpu("g2", model="L4")]
        engine = engine_of({"id": "a", "blocks": [*cpus(4), *gpus]})
        counts = count_fits(engine, request(NODE, first_of=[A100, ANY]), 9)
        self.assertEqual((("a", 2),), counts.podms)


class TestAllOrNothing(unittest.TestCase):
    """Fewer than asked for is never a silent answer (semantics.md, trap 3)."""

    def decide(self, **words):
        asked = request(NODE, **words)
        return engine_of({"id": "a", "blocks": cpus(3)}).select_destinations(asked)

    def test_fewer_than_asked_for_is_none(self):
        decision = self.decide(count=5)
        self.assertEqual(("nothing_fits", ()), (decision.outcome, decision.placements))
        report = decision_report(decision)
        self.assertEqual((5, 0, 3), (report.requested, report.placed, report.fitting))
        (verdict,) = report.podms
        self.assertEqual(("rejected", 3), (verdict.outcome, verdict.fitting))

    def test_at_least_so_many_are_placed(self):
        for least, outcome in ((0, "placed_in_part"), (3, "placed_in_part"), (4, "nothing_fits")):
            self.assertEqual(outcome, self.decide(count=5, min_count=least).outcome)
        self.assertEqual("placed", self.decide(count=3, min_count=1).outcome)

    def test_more_at_least_than_asked_for_is_refused(self):
        with self.assertRaisesRegex(RequestError, "min_count 6 exceeds count 5"):
            self.decide(count=5, min_count=6)


if __name__ == "__main__":
    unittest.main()


class TestOneDecision(unittest.TestCase):
    """Choices of one request share what a decision may spend, and how few nodes will do."""

    def test_a_later_choice_goes_on_with_what_is_left_and_for_the_rest_of_the_nodes(self):
        site = engine_of({"id": "a", "blocks": [*cpus(1), gpu("g")]})
        asked = request({}, count=3, min_count=2, first_of=[
            {"processor": {"total_cores": 8}}, {"accelerators": [{"model": "A100"}]}])  # fmt: skip
        decision = site.select_destinations(asked)
        self.assertEqual("placed_in_part", decision.outcome)
        first, second = (attempt.context for attempt in decision.attempts)
        self.assertIs(first.spending, second.spending)
        self.assertEqual((2, None), (second.request.count, second.request.min_count))
