# SPDX-License-Identifier: Apache-2.0
"""The scarcity of a mix in a tree of zones is the same as in one zone with all pools."""

import unittest
from random import Random
from unittest.mock import ANY

from hypothesis import given, strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from tests.unit.core.sites import quietly
from tests.unit.zones.scarce_sites import CORES, scarce_decider, scarce_podm, scarce_request
from tests.unit.zones.test_selection import FlakyZone
from tests.unit.zones.test_tree_as_flat import tree
from valence_sched.errors import ServiceError
from valence_sched.model.decision import InventorySummary
from valence_sched.model.need import Alternative
from valence_sched.model.request import added_supplies, is_supply
from valence_sched.model.zone import GroupAnswer, OfferQuery, OtherNode, SealedRequest, ZoneSupplies
from valence_sched.zones.mixes import SupplySums, ZoneMixes
from valence_sched.zones.selection import OtherOffer, ZoneSelection
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree

NO_INVENTORY = InventorySummary(digest="", podms=0, pools=0, blocks=0, skipped=())


def selection(zone, flat, asked, sums=None, **words) -> ZoneSelection:
    """Return the selection of a zone, which seals requests as ``flat`` does.

    ``sums`` are the sums of earlier decisions, if any.
    """
    request = flat.seal(asked)
    policy, most_cost = flat.policy(request)
    needs = flat.needs_supplies(request)
    sealed = SealedRequest(request=request, policy=policy, most_cost=most_cost,
                           inventory=NO_INVENTORY, needs_supplies=needs)  # fmt: skip
    mixes = ZoneMixes(flat, SupplySums() if sums is None else sums)

    def complete(ask, anew):
        return mixes.complete(sealed, ask, 0, anew=anew)

    return ZoneSelection(zone, policy, request, most_cost=most_cost,
                         complete=complete if sealed.needs_supplies else None, **words)  # fmt: skip


def placed(selected) -> tuple:
    """Return the selected nodes, without tokens, and their request."""
    return [(one.choice, one.chosen.candidate) for one in selected.nodes], selected.request


class TestScarcity(unittest.TestCase):
    """Scarcity is computed over all zones, for any boundaries of the zones."""

    @quietly(30)
    @given(st.integers(0, 2**32))
    def test_a_tree_places_what_a_flat_zone_places(self, seed):
        """S39: block by block, with the same costs, and the same scarcity in the request."""
        random = Random(seed)
        podms = [scarce_podm(number, random) for number in range(random.randint(1, 7))]
        flat, asked = scarce_decider(podms), scarce_request(random)
        decision = flat.select_destinations(asked)
        selected = selection(tree(podms, random, make=scarce_decider), flat, asked).nodes()
        found = [(node.choice, node.chosen.candidate) for node in selected.nodes]
        self.assertEqual([(one.choice, one.chosen) for one in decision.placements], found)
        expected = decision.context.request.mix.scarcity
        request = selected.request or flat.seal(asked)
        self.assertEqual(expected, request.mix.scarcity)
        self.assertEqual(({}, {}), (selected.silent, selected.uncounted))

    def test_zones_apart_would_decide_otherwise(self):
        """Shows that the test above can fail: with only their own supplies, zones often differ."""
        differ = scarce = 0
        for seed in range(40):
            random = Random(seed)
            podms = [scarce_podm(number, random) for number in range(6)]
            flat, asked = scarce_decider(podms), scarce_request(random)
            decision = flat.select_destinations(asked)
            scarce += bool(decision.context.request.mix.scarcity)
            zones = tree(podms, random, make=scarce_decider)
            policy, _ = flat.policy(flat.seal(asked))
            alone = ZoneSelection(zones, policy, flat.seal(asked)).nodes()
            differ += [one.chosen for one in decision.placements] != [
                one.chosen.candidate for one in alone.nodes
            ]
            if scarce > 20 and differ > 10:
                return
        self.fail(f"{scarce} are scarce, {differ} differ")

    @quietly(24)
    @given(st.integers(0, 2**32))
    def test_sums_of_an_earlier_decision_change_no_later_one(self, seed):
        """S39: for any change of any zone since then."""
        random, sums = Random(seed), SupplySums()
        podms = [scarce_podm(number, random) for number in range(random.randint(1, 6))]
        asked = scarce_request(random)
        for number in range(10, 13):
            flat = scarce_decider(podms)
            decision = flat.select_destinations(asked)
            zones = tree(podms, random, make=scarce_decider)
            selected = selection(zones, flat, asked, sums).nodes()
            found = [(node.choice, node.chosen.candidate) for node in selected.nodes]
            self.assertEqual([(one.choice, one.chosen) for one in decision.placements], found)
            request = selected.request or flat.seal(asked)
            self.assertEqual(decision.context.request.mix.scarcity, request.mix.scarcity)
            whole = flat.rank(replace(asked, other_alternatives=()), 5).candidates
            offers, _ = selection(zones, flat, replace(asked, other_alternatives=()), sums).ranking(
                5
            )
            self.assertEqual(whole, tuple(one.candidate for one in offers))
            podms = random.sample(podms, random.randint(0, len(podms)))
            podms += [scarce_podm(number, random)]

    @quietly(20)
    @given(st.integers(0, 2**32))
    def test_the_best_few_of_a_tree_are_those_of_a_flat_zone(self, seed):
        """S74: a ranking has the same scarcity, too."""
        random = Random(seed)
        podms = [scarce_podm(number, random) for number in range(random.randint(1, 7))]
        flat, asked = scarce_decider(podms), replace(scarce_request(random), other_alternatives=())
        offers, _ = selection(tree(podms, random, make=scarce_decider), flat, asked).ranking(9)
        self.assertEqual(flat.rank(asked, 9).candidates, tuple(one.candidate for one in offers))


class Counting:
    """A zone that counts its queries; an older one reports no supplies."""

    def __init__(self, zone, change=lambda answer: answer):
        self._zone, self._change = zone, change
        self.offered, self.states = [], []

    def offers(self, query):
        self.offered.append(query)
        return self._zone.offers(query)

    def group_state(self, query):
        self.states.append(query)
        return self._change(self._zone.group_state(query))


class TestSupplies(unittest.TestCase):
    """The queries for supplies, and the use of the answers."""

    def setUp(self):
        random = Random(4)
        self.left = [scarce_podm(number, random) for number in range(3)]
        self.right = [scarce_podm(number, random) for number in range(3, 6)]
        self.flat = scarce_decider([*self.left, *self.right])
        self.asked = replace(scarce_request(random), count=3, other_alternatives=(), alternates=0)
        self.assertTrue(self.flat.needs_supplies(self.flat.seal(self.asked)))

    def zones(self, right=lambda answer: answer, left=lambda answer: answer):
        """Return a router and its two children, whose answers can be scripted."""
        parts = [ZoneTree(name, Tokens([name], name), scarce_decider(podms))
                 for name, podms in (("left", self.left), ("right", self.right))]  # fmt: skip
        children = [Counting(parts[0], left), Counting(parts[1], right)]
        below = [ChildZone(name, child) for name, child in zip("lr", children, strict=True)]
        return ZoneTree("top", Tokens(["top"], "top"), None, below), children

    def test_each_zone_is_asked_once_and_decides_by_the_sum(self):
        top, children = self.zones()
        selected = selection(top, self.flat, self.asked).nodes()
        for child in children:
            self.assertEqual(1, len(child.states))
            scarcities = {query.request.mix.scarcity for query in child.offered}
            self.assertEqual({selected.request.mix.scarcity}, scarcities)
        self.assertEqual(2, selected.queries)

    def test_the_next_decision_asks_for_offers_alone(self):
        sums, (top, children) = SupplySums(), self.zones()
        first = selection(top, self.flat, self.asked, sums).nodes()
        again = selection(top, self.flat, self.asked, sums).nodes()
        self.assertEqual((2, 1), (first.queries, again.queries))
        self.assertEqual(placed(first), placed(again))
        self.assertEqual([1, 1], [len(child.states) for child in children])
        self.assertEqual([2, 2], [len(child.offered) for child in children])

    def test_supplies_that_changed_are_told_with_the_offers(self):
        """Offers are requested again with the present supplies, without further queries."""
        sums, (top, _) = SupplySums(), self.zones()
        before = selection(top, self.flat, self.asked, sums).nodes().request.mix.scarcity
        self.right = self.right[:1]
        self.flat = scarce_decider([*self.left, *self.right])
        top, children = self.zones()
        for queries in (2, 1):
            selected = selection(top, self.flat, self.asked, sums).nodes()
            self.assertEqual(queries, selected.queries)
            expected = self.flat.select_destinations(self.asked)
            self.assertEqual(
                [one.chosen for one in expected.placements],
                [one.chosen.candidate for one in selected.nodes],
            )
        self.assertNotEqual(before, selected.request.mix.scarcity)
        self.assertEqual([[], []], [child.states for child in children])

    def test_a_zone_that_gives_no_answer_any_more_supplies_nothing(self):
        sums, (top, children) = SupplySums(), self.zones()
        selection(top, self.flat, self.asked, sums).nodes()

        def away(_query):
            raise ServiceError("does not answer")

        children[1].offers = away
        selected = selection(top, self.flat, self.asked, sums).nodes()
        self.assertEqual(["r"], list(selected.silent))
        expected = scarce_decider(self.left).select_destinations(self.asked)
        self.assertEqual(expected.context.request.mix.scarcity, selected.request.mix.scarcity)

    def test_zones_that_tell_no_supplies_with_offers_are_asked_for_them(self):
        sums, (top, children) = SupplySums(), self.zones()
        first = selection(top, self.flat, self.asked, sums).nodes()
        ask = children[1].offers
        children[1].offers = lambda query: replace(ask(query), supplies=UNSET)
        again = selection(top, self.flat, self.asked, sums).nodes()
        self.assertEqual(3, again.queries)
        self.assertEqual(placed(first), placed(again))

    def test_a_decision_that_begins_anew_is_completed_by_the_zones_that_are_left(self):
        """The first alternative has nodes of a zone that is gone for the next alternative."""
        top, children = self.zones()
        asked = replace(self.asked, count=50, other_alternatives=(Alternative((CORES,), ()),))
        ask = children[1].offers

        def away_at_last(query):
            if query.taken:
                raise ServiceError("does not answer")
            return ask(query)

        children[1].offers = away_at_last
        selected = selection(top, self.flat, asked).nodes()
        self.assertEqual(["r"], list(selected.silent))
        expected = scarce_decider(self.left).select_destinations(asked)
        self.assertEqual(expected.context.request.mix.scarcity, selected.request.mix.scarcity)

    def test_zones_of_other_requests_are_lost_before_anything_is_offered(self):
        """Each is lost at the query for supplies: at first, or after another zone was lost."""
        every = replace(self.asked, count=50, other_alternatives=(Alternative((CORES,), ()),))
        offers = [one.chosen for one in selection(self.zones()[0], self.flat, every).nodes().nodes]
        taken = {one.zone: OtherOffer(OtherNode(token=one.token), one.zone) for one in offers}
        self.assertEqual({"l", "r"}, set(taken))
        for lost in ({"r": 0}, {"l": 0}, {"r": 0, "l": 1}, {"r": 0, "l": 0}):
            left = {"l": self.left, "r": self.right}
            top, children = self.zones()
            for zone, child in zip("lr", children, strict=True):
                if zone in lost:
                    left.pop(zone)
                    child.group_state = FlakyZone(Counting(child._zone), lost[zone]).group_state
            with self.subTest(lost):
                selected = selection(
                    top, self.flat, self.asked, others=list(taken.values())
                ).nodes()
                self.assertEqual(sorted(lost), sorted(selected.silent))
                self.assertLessEqual({one.chosen.zone for one in selected.nodes}, set(left))

    def test_supplies_that_some_zone_does_not_tell_are_not_remembered(self):
        sums, (top, _) = SupplySums(), self.zones(lambda answer: replace(answer, supplies=UNSET))
        for _ in range(2):
            self.assertEqual(2, selection(top, self.flat, self.asked, sums).nodes().queries)

    def test_a_sum_is_that_of_one_policy_and_of_the_zones_that_are_asked(self):
        policy, most_cost = self.flat.policy(self.flat.seal(self.asked))
        sealed = SealedRequest(request=self.flat.seal(self.asked), policy=policy,
                               most_cost=most_cost, inventory=NO_INVENTORY)  # fmt: skip
        sums, mix = SupplySums(most=2), sealed.request.mix
        sums.store(sealed, ZoneSupplies(pools=1), mix)
        self.assertEqual(ZoneSupplies(pools=1), sums.find(sealed).supplies)
        self.assertIsNone(sums.find(replace(sealed, policy=replace(policy, weighers=()))))
        request = replace(sealed.request, capabilities={"tier": ("gold",)})
        for number, asked in enumerate((request, replace(request, capabilities={"a": ("b",)}))):
            self.assertIsNone(sums.find(replace(sealed, request=asked)))
            sums.store(replace(sealed, request=asked), ZoneSupplies(pools=number), mix)
        self.assertIsNone(sums.find(sealed))  # the oldest of three

    def test_no_zone_is_asked_if_the_mix_has_one_share(self):
        mix = replace(self.asked.mix, shares=self.asked.mix.shares[:1])
        top, children = self.zones()
        selection(top, self.flat, replace(self.asked, mix=mix)).nodes()
        self.assertEqual([[], []], [child.states for child in children])

    def test_an_older_zone_takes_part_and_is_named(self):
        """The older zone uses the scarcity of the other zones, which excludes its own pools."""

        def older(answer):
            return GroupAnswer(group_state=answer.group_state, silent=answer.silent)

        top, children = self.zones(older)
        selected = selection(top, self.flat, self.asked).nodes()
        self.assertEqual(["r"], list(selected.uncounted))
        self.assertIn("older", selected.uncounted["r"].reason)
        alone = scarce_decider(self.left)
        supplies = alone.mix_supplies(OfferQuery(request=alone.seal(self.asked)))
        expected = alone.complete_mix(self.asked, supplies.by_weigher).mix
        self.assertEqual(expected, selected.request.mix)
        self.assertEqual(expected.scarcity or ANY, children[1].offered[0].request.mix.scarcity)

    def test_what_a_zone_tells_of_no_shares_or_less_than_nothing_does_not_count(self):
        count = len(self.asked.mix.shares)
        for lie in ((1,) * (count + 1), (1,) * (count - 1), (-1,) * count, (2**61,) * count):
            with self.subTest(lie):

                def lying(answer, lie=lie):
                    supplies = replace(answer.supplies, by_weigher={"fragmentation": lie})
                    return replace(answer, supplies=supplies)

                top, _ = self.zones(lying)
                selected = selection(top, self.flat, self.asked).nodes()
                self.assertEqual(["r"], list(selected.uncounted))


class TestSums(unittest.TestCase):
    """Supplies add up to the same sum in any order and grouping."""

    def test_groups_have_the_sum_of_all(self):
        large = 2**53
        self.assertEqual((large + 2, 3), added_supplies([(large, 0), (1, 3), (1, 0)]))
        self.assertTrue(is_supply((large + 2, 3), 2))
