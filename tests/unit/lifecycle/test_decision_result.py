# SPDX-License-Identifier: Apache-2.0
"""The detail of a decision, as the caller requests it."""

import hashlib
import unittest

from tests.unit.core.deciders import cpus, engine_of
from valence_sched.core.explain.report import (
    decision_report,
    decision_result,
    funnel_steps,
    inventory_summary,
)
from valence_sched.model.decision import MAX_LISTED_PODMS
from valence_sched.model.inventory import to_json
from valence_sched.planning.batches import decide_all
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 8}}
TOO_MANY = {"processor": {"total_cores": 64}}


def site(number, blocks=1):
    return engine_of(*({"id": f"p{one:03}", "blocks": cpus(blocks)} for one in range(number)))


class TestOne(unittest.TestCase):
    """One decision."""

    def decided(self, decider, what=CORES, detail="placements", **words):
        self.decision = decider.select_destinations(request(what, **words))
        return decision_result(self.decision, detail)

    def test_a_short_report_has_all_that_is_quick_and_agrees_with_the_whole_one(self):
        for what, count in ((CORES, 2), (CORES, 9), (TOO_MANY, 1)):
            with self.subTest(what, count=count):
                short = self.decided(site(3), what, count=count, min_count=1, seed=7).report
                whole = decision_report(self.decision)
                for name in ("outcome", "requested", "placed", "fitting", "seed", "request",
                             "policy", "policy_digest", "placements", "warnings",
                             "undecided"):  # fmt: skip
                    self.assertEqual(getattr(whole, name), getattr(short, name), name)
                digest = hashlib.blake2b(to_json(short.policy), digest_size=16).hexdigest()
                self.assertEqual(digest, short.policy_digest)
                self.assertEqual(((), ()), (short.podms, short.funnel))
                self.assertIsNone(short.explanation)

    def test_what_is_quick_of_the_inventory_is_its_size(self):
        decider = site(3, blocks=2)
        size = self.decided(decider).report.inventory
        told = (size.digest, size.podms, size.pools, size.blocks, size.skipped)
        self.assertEqual(("", 3, 3, 6, ()), told)
        self.assertEqual(size, inventory_summary(self.decision.view))

    def test_the_whole_report_is_the_report_of_the_decision(self):
        found = self.decided(site(3), detail="report").report
        self.assertEqual(decision_report(self.decision), found)
        self.assertTrue(found.podms and found.funnel and found.inventory.digest)

    def test_a_summary_of_a_small_inventory_has_every_verdict(self):
        for number in (3, MAX_LISTED_PODMS):
            found = self.decided(site(number), detail="summary").report
            self.assertEqual(number, len(found.podms))
            self.assertEqual(decision_report(self.decision).podms, found.podms)

    def test_a_summary_of_a_large_one_has_every_verdict_only_where_nothing_fits(self):
        number = MAX_LISTED_PODMS + 1
        self.assertEqual((), self.decided(site(number), detail="summary").report.podms)
        found = self.decided(site(number), TOO_MANY, "summary").report
        self.assertEqual(number, len(found.podms))

    def test_a_summary_of_a_large_one_says_why_the_chosen_ones_took_no_more(self):
        number = 2 * MAX_LISTED_PODMS
        words = {"count": 2 * number, "min_count": 1}
        found = self.decided(site(number), detail="summary", **words).report
        self.assertEqual("placed_in_part", found.outcome)
        self.assertEqual(MAX_LISTED_PODMS, len(found.podms))
        every = {one.podm: one for one in decision_report(self.decision).podms}
        for one in found.podms:
            self.assertEqual(every[one.podm], one)

    def test_choices_that_made_no_node_are_told_by_number_with_their_funnel(self):
        for detail in ("placements", "report"):
            details = self.decided(site(2), {}, detail, first_of=[TOO_MANY, CORES]).details
            (failed,) = details.failed_choices
            self.assertEqual(1, failed.choice)
            attempt = dict(self.decision.failed_attempts)[1]
            self.assertEqual(funnel_steps(self.decision, attempt), failed.funnel)
            self.assertNotEqual(funnel_steps(self.decision), failed.funnel)
        self.assertEqual((), self.decided(site(2)).details.failed_choices)


class TestSeveral(unittest.TestCase):
    """Several decisions in one result."""

    def decided(self, number, *counts, detail="placements", **words):
        asked = [request(CORES, count=count, **words) for count in counts]
        self.decisions = decide_all(site(number), asked)
        return self.decisions.result(detail)

    def test_short_reports_agree_with_the_whole_ones(self):
        for counts in ((2, 1), (2, 3), (5, 1)):
            for min_count in (1, None):
                with self.subTest(counts, min_count=min_count):
                    short = self.decided(3, *counts, min_count=min_count).report
                    whole = self.decisions.report()
                    for name in ("outcome", "requested", "placed", "warnings"):
                        self.assertEqual(getattr(whole, name), getattr(short, name), name)
                    self.assertEqual("", short.inventory.digest)
                    self.assertEqual(len(whole.decisions), len(short.decisions))
                    for one, other in zip(whole.decisions, short.decisions, strict=True):
                        for name in ("outcome", "placed", "fitting", "placements", "request"):
                            self.assertEqual(getattr(one, name), getattr(other, name), name)

    def test_one_that_fails_leaves_nothing_of_those_before_it(self):
        for detail in ("placements", "summary", "report"):
            with self.subTest(detail):
                first, second, third = self.decided(3, 1, 1, 4, detail=detail).report.decisions
                for one in (first, second):
                    told = (one.outcome, one.placed, one.placements, one.podms, one.requested)
                    self.assertEqual(("nothing_fits", 0, (), (), 1), told)
                self.assertEqual(4, third.requested)
                self.assertEqual(detail != "placements", bool(third.podms))

    def test_a_summary_has_the_verdicts_of_each(self):
        results = self.decided(3, 2, 3, detail="summary", min_count=1)
        self.assertEqual([3, 3], [len(one.podms) for one in results.report.decisions])
        self.assertEqual([(), ()], [one.podms for one in self.decided(3, 2, 1).report.decisions])

    def test_the_whole_report_is_the_one_of_the_decisions(self):
        found = self.decided(3, 1, 1, detail="report")
        self.assertEqual(self.decisions.report(), found.report)

    def test_details_are_told_of_what_was_not_decided_on_anew(self):
        first, second = self.decided(3, 1, 4, min_count=1).details
        self.assertIsNone(first)
        self.assertIsNotNone(second)
