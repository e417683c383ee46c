# SPDX-License-Identifier: Apache-2.0
"""The claimer: its decisions, its holds, and offered candidates."""

import hashlib
from collections.abc import Iterable

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import CORES, claimer, expire, part, podm
from valence_sched.errors import ClaimLost, ClaimState, NameTaken, RequestError
from valence_sched.lifecycle.claim import MOST_ATTEMPTS, MOST_CHANGES
from valence_sched.model.claim import Grant
from valence_sched.model.custom_resource import CustomResource, DeclaredResources
from valence_sched.model.decision import BlockRef
from valence_sched.model.need import NodeRequest
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import asked_content
from valence_sched.store import tables
from valence_sched.store.claims import TTL_S
from valence_sched.testing import request

SALT = b"salt"
BLOCK = {"uri": "c0", "type": ["Compute"], "devices": {"processors": [{"cores": 8}]}}


def in_order(uris: Iterable[str], salt: bytes) -> list[str]:
    """Return URIs in the order that a salt draws."""

    def digest(uri: str) -> bytes:
        return hashlib.blake2b(uri.encode(), key=salt, digest_size=8).digest()

    return sorted(uris, key=digest)


class ClaimerCase(StoreCase):
    """A store with one pod manager, and a request for one of its nodes."""

    def setUp(self):
        super().setUp()
        self.one, self.other = self.store(), self.store()
        self.one.remember(podm(blocks=4))

    def request(self, **words):
        return request(CORES, **words)

    def decided(self, local, **words):
        decision = local.select_destinations(self.request(**words))
        return [placement.chosen.podm for placement in decision.placements]

    def overtaken(self, local, times):
        """Let another claim take the choice of a claimer after its check, this number of times."""
        look, left, claims = local.decider, [None] * times, []

        def look_and_lose():
            decider = look()
            if left:
                left.pop()
                chosen = decider.select_destinations(self.request()).placements[0].chosen
                blocks = [block.uri for block in chosen.blocks]
                generation = self.other.load_podms()[chosen.podm].generation
                claims.append(self.other.claims.create([part(chosen.podm, generation, *blocks)]))
            return decider

        local.decider = look_and_lose
        return claims


class TestClaimed(ClaimerCase):
    """The facts of the request in a claim."""

    def test_it_holds_what_was_decided_for_as_long_as_was_asked(self):
        local = claimer(self.one)
        decided = local.select_destinations(self.request())
        self.assertEqual([], self.one.claims.list())
        outcome = local.claim(self.request())
        self.assertEqual(0, outcome.retries)
        (part_,) = outcome.claim.parts
        blocks = [block.uri for block in decided.placements[0].chosen.blocks]
        self.assertEqual(blocks, [*part_.blocks])
        self.assertEqual(blocks, [it.uri for it in outcome.decision.placements[0].chosen.blocks])
        lasts = outcome.claim.expires_at - outcome.claim.created_at
        self.assertAlmostEqual(TTL_S, lasts)
        short = local.claim(self.request(), ttl_s=9.0).claim
        self.assertAlmostEqual(9.0, short.expires_at - short.created_at)

    def test_it_has_the_owner_the_group_and_the_flavor_of_its_request(self):
        local = claimer(self.one)
        asked = self.request(owner="asking", group={"name": "g"}, flavor="small")
        claim = local.claim(asked).claim
        share = claim.parts[0].shares[0]
        self.assertEqual(("asking", "g", "small"), (claim.owner, claim.group, share.flavor))
        self.assertIsNone(local.claim(self.request()).claim.group)

    def test_only_the_nodes_of_an_owner_are_charged(self):
        for owner, charges in (("o", {"cores": 8.0, "processors": 1.0}), (None, {})):
            (part_,) = claimer(self.one).claim(self.request(owner=owner)).claim.parts
            self.assertEqual(charges, part_.shares[0].charges)

    def test_what_each_node_was_asked_for_is_kept_with_it(self):
        self.one.remember(podm("z", 4, zone="z"))
        outcome = claimer(self.one).claim(self.request(count=2, zone="z", podms=["z"]))
        (held,) = self.other.claims.show(outcome.claim.id).parts
        self.assertEqual(NodeRequest.of(outcome.decision.request), held.request)
        self.assertEqual(("z", 1), (held.request.zone, len(held.request.needs)))

    def test_a_key_stands_for_the_request_or_for_what_the_caller_says(self):
        local = claimer(self.one)
        asked = self.request()
        self.assertEqual(asked_content(asked).decode(), local.content(asked))
        first = local.claim(asked, key="k")
        again = local.claim(asked, key="k")
        self.assertEqual((first.claim, None, 0), again)
        with self.assertRaises(NameTaken):
            local.claim(self.request(seed=5), key="k")
        same = local.claim(self.request(seed=5), key="k", content=local.content(asked))
        self.assertEqual(first.claim, same.claim)
        self.assertIsNone(self.one.claims.find_by_key("x", "k", local.content(asked)))
        of_x = self.request(owner="x")
        owned = local.claim(of_x, key="k").claim
        self.assertEqual(owned, local.claim(of_x, key="k").claim)
        self.assertNotEqual(owned, first.claim)

    def test_a_key_of_nodes_that_are_composed_is_refused(self):
        local = claimer(self.one)
        asked = self.request(count=2)
        singles = self.one.claims.split(local.claim(asked, key="a.b").claim.id)
        line = f"key 'a.b' belongs to composed nodes, for example of claim {singles[0].id}"
        with self.assertRaises(ClaimState) as caught:
            local.claim(asked, key="a.b")
        self.assertEqual(
            f"{line}, which is HELD: choose another key, or run podm node list",
            str(caught.exception),
        )
        for key, owner in (("acb", None), ("a.b", "x"), ("b", None)):
            with self.subTest(key):
                claim = local.claim(replace(asked, owner=owner), key=key).claim
                self.one.claims.release(claim.id)
        self.one.claims.release(singles[0].id)
        single = local.claim(self.request(), key="a.b")
        self.assertEqual("HELD", single.claim.state)

    def test_where_nothing_fits_nothing_is_held_and_the_decision_says_so(self):
        outcome = claimer(self.one).claim(self.request(count=5), key="k")
        self.assertEqual((None, "nothing_fits", 0),
                         (outcome.claim, outcome.decision.outcome, outcome.retries))  # fmt: skip
        self.assertEqual([], self.one.claims.list())

    def test_a_stock_that_is_declared_is_held_up_to_its_amount(self):
        stock = {"uri": "declared:licences", "resource": "licences", "total": 5, "used": 1}
        self.one.remember(podm(blocks=4, stocks=[stock]))
        asked = request({**CORES, "stocks": [{"resource": "licences", "amount": 2}]})
        for words, left in (
            ({}, 4.0),
            ({"declared": DeclaredResources([CustomResource(name="licences", total=3.0)])}, 3.0),
        ):
            (part_,) = claimer(self.one, **words).claim(asked).claim.parts
            self.assertEqual((Grant("declared:licences", left),), part_.declared_stocks)
            self.one.claims.release(self.one.claims.list()[0].id)


class TestOvertaken(ClaimerCase):
    """Another claimer is faster."""

    def test_it_decides_again_and_says_how_often(self):
        for times in (1, 2):
            local = claimer(self.one, salt=SALT)
            lost = self.overtaken(local, times)
            outcome = local.claim(self.request())
            self.assertEqual(times, outcome.retries)
            others = {uri for claim in lost for uri in claim.parts[0].blocks}
            self.assertEqual(set(), others & {*outcome.claim.parts[0].blocks})
            for claim in self.one.claims.list():
                self.one.claims.release(claim.id)

    def test_after_some_it_gives_up_and_names_the_last(self):
        local = claimer(self.one, most_attempts=2)
        lost = self.overtaken(local, 9)
        with self.assertRaises(ClaimLost) as caught:
            local.claim(self.request())
        self.assertEqual(2, len(lost))
        block = f"block c[0-9] of pod manager 'p' is held by claim {lost[-1].id}"
        line = f"^lost 2 consecutive races, the last one: {block}$"
        self.assertRegex(str(caught.exception), line)
        self.assertEqual(("p", lost[-1].id), (caught.exception.podm, caught.exception.claim))
        self.assertEqual(32, MOST_ATTEMPTS)

    def test_from_then_on_it_tries_equal_blocks_in_an_order_of_its_own(self):
        for salt in (SALT, b"other"):
            local = claimer(self.one, salt=salt)
            (lost,) = self.overtaken_once(local)
            free = {f"c{n}" for n in range(4)} - {*lost.parts[0].blocks}
            expected = in_order(free, salt)
            taken = [self.first, *(local.claim(self.request()).claim for _ in range(2))]
            self.assertEqual(expected, [next(iter(it.parts[0].blocks)) for it in taken])
            for claim in self.one.claims.list():
                self.one.claims.release(claim.id)
            # the order stays the same after a new reading
            self.one.remember(podm(blocks=4, zone=salt.decode()))
            first = local.claim(self.request()).claim.parts[0].blocks
            every = in_order((f"c{n}" for n in range(4)), salt)
            self.assertEqual([every[0]], [*first])
            self.one.claims.release(self.one.claims.list()[0].id)

    def overtaken_once(self, local):
        lost = self.overtaken(local, 1)
        self.first = local.claim(self.request()).claim
        return lost

    def test_one_that_is_closed_leaves_the_order_of_the_reading(self):
        local = claimer(self.one, salt=SALT)
        (lost,) = self.overtaken_once(local)
        for claim in (lost, self.first):
            self.one.claims.release(claim.id)
        drawn = in_order((f"c{n}" for n in range(4)), SALT)
        self.assertNotEqual("c0", drawn[0])
        for expected in (drawn[0], "c0"):
            chosen = local.select_destinations(self.request()).placements[0].chosen
            self.assertEqual([expected], [block.uri for block in chosen.blocks])
            local.close()

    def test_until_then_the_order_is_that_of_the_reading(self):
        local = claimer(self.one, salt=SALT)
        taken = [local.claim(self.request()).claim for _ in range(4)]
        blocks = [next(iter(claim.parts[0].blocks)) for claim in taken]
        self.assertEqual(["c0", "c1", "c2", "c3"], blocks)

    def test_two_draw_salts_of_their_own(self):
        first, second = claimer(self.one), claimer(self.one)
        self.assertNotEqual(first._salt, second._salt)
        self.assertEqual(8, len(first._salt))


class TestUnclaimable(ClaimerCase):
    """Decisions use these pod managers, but their blocks cannot be claimed now."""

    def setUp(self):
        super().setUp()
        self.one.remember(podm("q", 1))
        self.away = set()
        self.local = claimer(self.one, unclaimable=lambda: self.away)

    def claimed(self):
        claim = self.local.claim(self.request()).claim
        return None if claim is None else claim.podms

    def test_another_is_claimed_in_place_of_one(self):
        self.assertEqual(["p"], self.decided(self.local))
        self.away.add("p")
        self.assertEqual(("q",), self.claimed())
        self.assertEqual(["p"], self.decided(self.local))
        outcome = self.local.claim(self.request())
        self.assertEqual((None, "nothing_fits", 0),
                         (outcome.claim, outcome.decision.outcome, outcome.retries))  # fmt: skip
        self.away.clear()
        self.assertEqual(("p",), self.claimed())

    def test_whatever_the_policy_none_is_that_is_disabled_offline_or_reserved_for_others(self):
        bare = Policy(name="bare", weighers=(WeigherUse("room"), WeigherUse("owner")))
        reserved = {"capabilities": {"reserved_for": ("red",)}}
        for fields, owner, podms in (
            ({"enabled": False}, None, ("q",)),
            ({"status": "Offline"}, None, ("q",)),
            (reserved, "blue", ("q",)),
            (reserved, "red", ("p",)),
            (reserved, None, ("q",)),
        ):
            self.one.remember(podm("p", 3, **fields))
            with self.subTest(fields, owner=owner):
                asked = self.request(policy="bare", owner=owner)
                claim = claimer(self.one, [bare]).claim(asked).claim
                self.assertEqual(podms, claim.podms)
                self.one.claims.release(claim.id)

    def test_one_that_would_not_be_chosen_changes_nothing(self):
        self.away.add("q")
        self.assertEqual(("p",), self.claimed())


class TestKnown(ClaimerCase):
    """The inventory of decisions."""

    def test_only_those_among_it(self):
        self.one.remember(podm("q", 4))
        local = claimer(self.one, among=frozenset("q"))
        self.assertEqual(["q"] * 4, self.decided(local, count=4))
        self.assertEqual([], self.decided(local, count=5))
        self.assertEqual(8, len(self.decided(claimer(self.one), count=8)))

    def test_a_status_that_was_not_read_counts_instead_of_the_stored_one(self):
        self.one.remember(podm("q", 4))
        local = claimer(self.one, statuses={"p": "Offline"})
        self.assertEqual(["q"], self.decided(local))
        self.assertEqual([], self.decided(local, podms=("p",)))

    def test_one_that_was_just_stored_is_not_read_back(self):
        known = self.one.remember_all([podm(blocks=4)])
        before = self.one.counts.podms_decoded
        local = claimer(self.one, known=known)
        self.assertEqual(["p"], self.decided(local))
        self.assertEqual(0, self.one.counts.podms_decoded - before)
        self.one.remember(podm(blocks=4, zone="z"))
        self.assertEqual(["p"], self.decided(local))
        self.assertEqual(1, self.one.counts.podms_decoded - before)

    def test_what_did_not_change_is_read_once(self):
        local = claimer(self.one)
        self.decided(local)
        before = self.one.counts.podms_decoded
        self.decided(local)
        self.assertEqual(before, self.one.counts.podms_decoded)

    def test_what_others_hold_and_give_back_is_seen(self):
        local = claimer(self.one)
        claims = [self.other.claims.create([part("p", 1, f"c{n}")]) for n in range(3)]
        self.assertEqual(1, len(self.decided(local)))
        last = self.other.claims.create([part("p", 1, "c3")])
        self.assertEqual([], self.decided(local))
        self.other.claims.release(last.id)
        self.assertEqual(1, len(self.decided(local)))
        expire(self, claims[0])
        self.assertEqual(2, len(self.decided(local, count=2)))

    def test_one_that_went_takes_nothing_and_one_that_came_does(self):
        local = claimer(self.one)
        self.assertEqual(["p"], self.decided(local))
        self.one.update_stats("q", {"blocks": [BLOCK]})
        self.assertEqual(5, len(self.decided(local, count=5)))
        self.one.forget_report("q")
        self.assertEqual([], self.decided(local, count=5))
        self.assertEqual(4, len(self.decided(local, count=4)))

    def test_a_report_counts_in_the_next_decision(self):
        local = claimer(self.one)
        self.assertEqual(1, self.one.update_stats(("host", "node"), {"blocks": [BLOCK]}))
        self.assertEqual(5, len(self.decided(local, count=5)))
        self.assertEqual(2, self.one.update_stats("p", {"status": "Offline"}))
        self.assertEqual(1, len(self.decided(local)))

    def test_after_an_interruption_all_is_read_again(self):
        local = claimer(self.one)
        self.assertEqual(["p"], self.decided(local))
        self.other.remember(podm(status="Offline"))
        follower = local._follower
        update = follower._updated_decider

        def interrupted(_podms, *, is_ordered):
            raise KeyboardInterrupt

        follower._updated_decider = interrupted
        with self.assertRaises(KeyboardInterrupt):
            local.decider()
        follower._updated_decider = update
        self.assertEqual([], self.decided(local))


class TestCandidates(StoreCase):
    """The offers of a pod manager of four blocks for three nodes."""

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
        """A new decision would choose other blocks: the first free ones."""
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
        """A token of one request is invalid for another request."""
        for properties in ({"processor": {"total_cores": 9}}, {"nics": [{"count": 1}]}):
            with self.assertRaisesRegex(ClaimLost, "p: .* do not match a node of the request"):
                self.claimer.claim_candidates(request(properties), self.last)
        with self.assertRaisesRegex(RequestError, "has no needs"):
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

    def test_a_key_of_nodes_that_are_composed_is_refused(self):
        """The keys of a second claim's nodes would be those of the first."""
        first, _ = self.one.claims.split(self.claim(*self.offered[:2], key="k").id)
        self.one.remember(podm("q"))
        others = self.claimer.select_destinations(replace(self.asked, podms=("q",))).placements
        with self.assertRaisesRegex(ClaimState, f"composed nodes, .* of claim {first.id}"):
            self.claim(*(one.chosen for one in others), key="k")
