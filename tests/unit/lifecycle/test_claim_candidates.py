# SPDX-License-Identifier: Apache-2.0
"""Claiming what was offered earlier: those very blocks, or nothing."""

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.errors import ClaimLost, NameTaken, RequestError
from valence_sched.lifecycle.claim import MOST_CHANGES
from valence_sched.model.decision import BlockRef
from valence_sched.store import tables
from valence_sched.testing import request


class TestCandidates(StoreCase):
    """What a pod manager of four blocks offers for three nodes."""

    def setUp(self):
        super().setUp()
        self.one, self.other = self.store(), self.store()
        self.one.remember(podm(blocks=4))
        self.claimer = claimer(self.one)
        self.asked = request(CORES, count=3, owner="alice")
        decision = self.claimer.select_destinations(self.asked)
        self.offered = [one.chosen for one in decision.placements]
        self.last = self.offered[2:]

    def claim(self, *candidates, **words):
        return self.claimer.claim_candidates(self.asked, candidates or self.last, **words)

    def test_the_very_blocks_are_held_node_by_node(self):
        """Not those that a decision would choose now: these come first."""
        claim = self.claim(*self.offered[1:], ttl_s=90)
        (held,) = claim.parts
        expected = [tuple(b.uri for b in one.blocks) for one in self.offered[1:]]
        self.assertEqual(expected, [share.blocks for share in held.shares])
        self.assertEqual([1, 2], [share.node for share in held.shares])
        self.assertEqual(("HELD", "alice"), (claim.state, claim.owner))
        self.assertAlmostEqual(90, claim.expires_at - claim.created_at, places=3)
        self.assertEqual(claim, self.other.claims.show(claim.id))

    def test_a_block_that_another_claim_has_is_lost(self):
        (block,) = self.last[0].blocks
        self.other.claims.create([part("p", 1, block.uri)])
        with self.assertRaisesRegex(ClaimLost, "p: block c2 is not free in pool 'all'"):
            self.claim()
        self.assertEqual(1, len(self.other.claims.list()))

    def test_one_that_comes_in_between_is_lost_as_well(self):
        look = self.claimer.decider

        def look_and_lose():
            decider = look()
            if not self.other.claims.list():
                self.other.claims.create([part("p", 1, self.last[0].blocks[0].uri)])
            return decider

        self.claimer.decider = look_and_lose
        with self.assertRaisesRegex(ClaimLost, "p: block c2 is not free"):
            self.claim()

    def test_a_pod_manager_that_is_read_again_meanwhile_loses_nothing(self):
        look, seen = self.claimer.decider, []

        def look_and_change():
            decider = look()
            seen.append(decider)
            if len(seen) == 1:
                self.other.remember(podm(blocks=4, facts={"rack": "r1"}))
            return decider

        self.claimer.decider = look_and_change
        self.assertEqual("HELD", self.claim().state)
        self.assertEqual(2, len(seen))

    def test_one_that_changes_every_time_is_lost(self):
        look, seen = self.claimer.decider, []

        def look_and_change():
            decider = look()
            seen.append(decider)
            self.other.remember(podm(blocks=4, facts={"number": len(seen)}))
            return decider

        self.claimer.decider = look_and_change
        with self.assertRaisesRegex(ClaimLost, "pod manager 'p'") as caught:
            self.claim()
        self.assertEqual(("p", MOST_CHANGES), (caught.exception.podm, len(seen)))
        self.assertEqual([], self.one.claims.list())

    def test_one_that_cannot_be_read_at_present_is_lost(self):
        self.claimer = claimer(self.one, unclaimable=lambda: ["q", "p"])
        with self.assertRaises(ClaimLost) as caught:
            self.claim()
        line = "pod manager 'p' cannot be read at present"
        self.assertEqual((line, "p"), (str(caught.exception), caught.exception.podm))
        self.assertEqual([], self.one.claims.list())
        self.claimer = claimer(self.one, unclaimable=lambda: ["q"])
        self.assertEqual("HELD", self.claim().state)

    def test_a_pool_that_a_filter_rejects_now_is_lost(self):
        self.other.remember(podm(blocks=4, status="Offline"))
        with self.assertRaisesRegex(ClaimLost, "p: pool 'all': a filter rejects it now"):
            self.claim()

    def test_what_was_never_there_is_lost(self):
        (one,) = self.last
        invented = replace(one, blocks=(BlockRef(uri="c9", type=("Compute",)),))
        for candidate in (replace(one, podm="q"), replace(one, pool="none"), invented):
            with self.assertRaises(ClaimLost):
                self.claim(candidate)
        self.assertEqual([], self.one.claims.list())

    def test_what_another_request_is_made_of_is_lost(self):
        """A token of one request does not pay for another one."""
        for properties in ({"processor": {"total_cores": 9}}, {"nics": [{"count": 1}]}):
            with self.assertRaisesRegex(ClaimLost, "p: .* not what a node of the request"):
                self.claimer.claim_candidates(request(properties), self.last)
        with self.assertRaisesRegex(RequestError, "asks for nothing"):
            self.claimer.claim_candidates(replace(self.asked, needs=()), self.last)
        self.assertEqual([], self.one.claims.list())

    def test_one_block_is_not_held_for_two_nodes(self):
        with self.assertRaisesRegex(ClaimLost, "p: block c2 is not free"):
            self.claim(*self.last, *self.last)
        self.assertEqual([], self.one.claims.list())

    def test_a_key_gives_the_same_claim(self):
        claim = self.claim(key="k")
        self.assertEqual(claim, self.claim(key="k"))
        with self.assertRaises(NameTaken):
            self.claim(*self.offered[:1], key="k")
        with self.assertRaises(NameTaken):
            self.claim(key="k", content="something else")
        named = self.claim(*self.offered[:1], key="x", content="an offer")
        self.assertEqual(named, self.claim(*self.offered[1:2], key="x", content="an offer"))
        rows = self.execute(sa.select(sa.func.count()).select_from(tables.claimed_blocks))
        self.assertEqual([(2,)], rows)
