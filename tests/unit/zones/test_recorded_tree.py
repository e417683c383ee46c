# SPDX-License-Identifier: Apache-2.0
"""The tree of a zone file: who is below whom, how they weigh, and which is asked what."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine_of
from valence_sched.model.zone import OfferQuery
from valence_sched.model.zone_registry import RecordedZone
from valence_sched.testing import request
from valence_sched.zones.tree import recorded_tree

PODMS = {
    "top.json": {"id": "top-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
    "east.json": {"id": "east-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
    "deep.json": {"id": "deep-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
}
DEEP = RecordedZone(name="deep", inventories=("deep.json",))
EAST = RecordedZone(name="east", inventories=("east.json",), children=(DEEP,))
TOP = RecordedZone(name="top", inventories=("top.json",), children=(EAST,))


class TestRecordedTree(unittest.TestCase):
    """What the whole tree offers for one request."""

    def setUp(self) -> None:
        self.engines = []

    def podms(self, zone: RecordedZone):
        self.engines.append(zone.name)
        return engine_of(*(PODMS[name] for name in zone.inventories))

    def query(self, **words: object) -> OfferQuery:
        asked = request({"processor": {"total_cores": 8}}, **words)
        sealed = engine_of(*PODMS.values()).seal(asked)
        return OfferQuery(request=sealed, limit=9)

    def offers(self, zone: RecordedZone, **words: object):
        return recorded_tree(zone, self.podms).offers(self.query(**words))

    def test_every_zone_offers_what_it_has_by_the_way_down_to_it(self):
        answer = self.offers(TOP)
        self.assertEqual(3, answer.answered)
        found = {(one.zone, one.candidate.podm) for one in answer.ranking}
        self.assertEqual(
            {("", "top-podm"), ("east", "east-podm"), ("east/deep", "deep-podm")}, found
        )

    def test_a_zone_without_inventories_is_a_router_that_asks_for_none(self):
        answer = self.offers(replace(TOP, inventories=()))
        self.assertEqual({"east", "east/deep"}, {one.zone for one in answer.ranking})
        self.assertEqual(["deep", "east"], self.engines)

    def test_the_scores_of_a_zone_weigh_as_the_zone_above_says(self):
        plain = {one.zone: one.candidate.score for one in self.offers(TOP).ranking}
        weighted = replace(EAST, weight_scale=0.5, weight_offset=0.125)
        found = self.offers(replace(TOP, children=(weighted,))).ranking
        for one in found:
            expected = plain[one.zone] if not one.zone else 0.125 + 0.5 * plain[one.zone]
            self.assertAlmostEqual(expected, one.candidate.score, 3)
        self.assertNotEqual(plain, {one.zone: one.candidate.score for one in found})

    def test_a_zone_whose_capabilities_rule_a_request_out_is_not_asked(self):
        other = replace(EAST, capabilities="os=linux;bsd")
        asked = {"capabilities": {"os": ["windows"]}}
        answer = self.offers(replace(TOP, children=(other,)), **asked)
        self.assertEqual(["east"], [one.zone for one in answer.excluded])

    def test_tokens_are_of_the_tree_that_gave_them(self):
        query, one = self.query(), recorded_tree(TOP, self.podms)
        chosen = one.offers(query).nodes[0]
        taken = replace(query, taken=(chosen.token,))
        left = next(o for o in one.offers(taken).ranking if o.zone == chosen.zone)
        self.assertNotEqual(chosen.candidate.blocks, left.candidate.blocks)
        with self.assertRaisesRegex(Exception, "offer"):
            recorded_tree(TOP, self.podms).offers(taken)

    def test_zones_of_one_tree_do_not_take_each_other_for_a_circle(self):
        same = replace(EAST, name="east", children=(replace(DEEP, name="east"),))
        answer = self.offers(replace(TOP, children=(same,)))
        self.assertEqual((3, ()), (answer.answered, answer.silent))
