# SPDX-License-Identifier: Apache-2.0
"""Zone claims of a store: who has which part, by key, by state, and until when."""

import time

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from valence_sched.errors import ClaimLost, NameTaken
from valence_sched.model.zone import ZoneClaimPart
from valence_sched.store import tables
from valence_sched.store.tables import key_of

ASKED = (ZoneClaimPart(zone="east", nodes=(1, 3)), ZoneClaimPart(zone="", nodes=(2,)))
HOLDING = (ZoneClaimPart(zone="east", claim="e1", nodes=(1, 3)),)


@on_each_engine
class TestZoneClaims:
    """The claims of one zone over those below it."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.rows = self.one.zone_claims

    def begin(self, key=None, content="c", owner="alice", ttl_s=60.0):
        words = {"owner": owner, "group": None, "key": key, "content": content, "ttl_s": ttl_s}
        return self.rows.begin(ASKED, **words)

    def pass_time(self, claim_id):
        """Let the time of a claim be over."""
        row = sa.update(tables.zone_claims).where(tables.zone_claims.c.id == claim_id)
        self.execute(row.values(expires_at=1.0))

    def test_who_is_asked_is_stored_before_they_are(self):
        before = time.time()
        claim, is_new = self.begin("k")
        self.assertTrue(is_new)
        self.assertEqual(("PREPARED", ASKED, "alice"), (claim.state, claim.parts, claim.owner))
        self.assertAlmostEqual(60.0, claim.expires_at - claim.created_at, places=3)
        self.assertLess(abs(claim.created_at - before), 60)
        self.assertEqual(claim, self.rows.get(claim.id))
        self.assertEqual([claim], list(self.rows.list()))

    def test_what_a_claim_is_for_comes_back_with_it(self):
        words = {"owner": "o", "group": "g", "key": "k", "content": "c", "ttl_s": 60.0}
        claim, _ = self.rows.begin(ASKED, **words)
        found = self.rows.get(claim.id)
        self.assertEqual(("o", "g", "k"), (found.owner, found.group, found.key))
        self.assertEqual((key_of("c"), None), (found.content, found.note))
        self.assertIsNone(self.rows.get("absent"))

    def test_claims_are_listed_by_state_and_owner_the_oldest_first(self):
        ids = [self.begin(owner=owner)[0].id for owner in ("alice", "bob", "alice")]
        of = tables.zone_claims.c
        for age, id_ in zip((9.0, 7.0, 8.0), ids, strict=True):
            row = sa.update(tables.zone_claims).where(of.id == id_)
            self.execute(row.values(created_at=of.created_at - age))
        self.rows.change(ids[1], ["PREPARED"], "HELD", ttl_s=600)
        for words, found in (
            ({}, [ids[0], ids[2], ids[1]]),
            ({"owner": "alice"}, [ids[0], ids[2]]),
            ({"states": ("HELD",)}, [ids[1]]),
            ({"states": ("HELD",), "owner": "alice"}, []),
        ):
            with self.subTest(words):
                self.assertEqual(found, [one.id for one in self.rows.list(**words)])

    def test_a_key_gives_the_same_claim_until_that_has_ended(self):
        claim, _ = self.begin("k")
        with self.assertRaises(ClaimLost) as caught:
            self.begin("k")
        line = f"claim {claim.id} of the same key is being prepared"
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(("", claim.id), (caught.exception.podm, caught.exception.claim))
        held = self.rows.change(claim.id, ["PREPARED"], "HELD", parts=HOLDING, ttl_s=600)
        self.assertEqual((held, False), self.begin("k"))
        self.assertEqual(held, self.rows.find_by_key("alice", "k", "c"))
        with self.assertRaisesRegex(NameTaken, "asked for something else: choose another key"):
            self.begin("k", content="other")
        self.assertTrue(self.begin("k", owner="bob")[1])
        self.rows.change(claim.id, ["HELD"], "RELEASED")
        self.assertIsNone(self.rows.find_by_key("alice", "k", "c"))
        self.assertTrue(self.begin("k", content="other")[1])

    def test_a_claim_past_its_time_gives_its_key_up(self):
        held, prepared = (self.begin(key)[0] for key in "ab")
        self.rows.change(held.id, ["PREPARED"], "HELD", ttl_s=600)
        for claim in (held, prepared):
            self.pass_time(claim.id)
        self.assertIsNone(self.rows.find_by_key("alice", "a", "c"))
        self.assertTrue(self.begin("a")[1])
        self.assertTrue(self.begin("b")[1])
        states = [self.rows.get(one.id).state for one in (held, prepared)]
        self.assertEqual(["EXPIRED", "RELEASING"], states)
        self.assertEqual([prepared.id], [one.id for one in self.rows.due()])

    def test_only_a_claim_in_the_state_that_is_expected_moves(self):
        claim, _ = self.begin()
        self.assertIsNone(self.rows.change(claim.id, ["HELD"], "COMPOSING"))
        self.assertEqual("PREPARED", self.rows.get(claim.id).state)
        held = self.rows.change(claim.id, ["PREPARED"], "HELD", parts=HOLDING, ttl_s=5)
        self.assertEqual(("HELD", HOLDING), (held.state, held.parts))
        composed = self.rows.change(claim.id, ["HELD"], "COMPOSED", note="n")
        self.assertEqual((None, "n", HOLDING), (composed.expires_at, composed.note, composed.parts))

    def test_a_claim_whose_time_is_over_can_only_end(self):
        claim, _ = self.begin()
        self.pass_time(claim.id)
        self.assertIsNone(self.rows.change(claim.id, ["PREPARED"], "HELD", ttl_s=600))
        self.assertEqual([claim.id], [one.id for one in self.rows.due()])
        self.assertIsNotNone(self.rows.change(claim.id, ["PREPARED"], "FAILED"))
        self.assertEqual([], list(self.rows.due()))

    def test_held_claims_expire_and_others_do_not(self):
        ids = {state: self.begin()[0].id for state in ("HELD", "COMPOSING", "COMPOSED")}
        for state, id_ in ids.items():
            self.rows.change(id_, ["PREPARED"], state, ttl_s=600)
            self.pass_time(id_)
        self.rows.expire()
        states = [self.rows.get(id_).state for id_ in ids.values()]
        self.assertEqual(["EXPIRED", "COMPOSING", "COMPOSED"], states)
        self.assertEqual([ids["COMPOSING"]], [one.id for one in self.rows.due()])

    def test_claims_that_ended_are_forgotten_after_a_time(self):
        live, ended = self.begin()[0], self.begin()[0]
        self.rows.change(ended.id, ["PREPARED"], "FAILED")
        self.assertEqual(0, self.one.purge(3600).claims)
        self.execute(sa.update(tables.zone_claims).values(created_at=1.0))
        self.assertEqual(1, self.one.purge(3600, dry_run=True).claims)
        self.assertEqual(1, self.one.purge(3600).claims)
        self.assertEqual([live.id], [one.id for one in self.rows.list()])
        self.assertIsNone(self.rows.get(ended.id))
