# SPDX-License-Identifier: Apache-2.0
"""Tokens: only the zone that signed one reads it, and not for ever."""

import time
import unittest
from unittest import mock

from msgspec.structs import replace

from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.site import podm
from valence_sched.errors import AccessDenied, StaleOffer
from valence_sched.model.decision import BlockRef, Candidate
from valence_sched.zones.tokens import ChildToken, OwnToken, PlanSignatures, Tokens

CANDIDATE = Candidate(
    podm="p", pool="q", score=0.5, cost=7, scores={"room": 0.5},
    blocks=(BlockRef(uri="/b", type=("Compute",)),), grants=(), waste=3,
)  # fmt: skip


class TestTokens(unittest.TestCase):
    """Signing and reading."""

    def test_a_zone_reads_back_what_it_signed(self):
        zone = Tokens(["secret"], "east")
        for content in (OwnToken(CANDIDATE), ChildToken("rack", "any text")):
            with self.subTest(content):
                self.assertEqual(content, zone.read(zone.sign(content)))

    def test_the_token_of_another_zone_or_of_a_forger_is_refused(self):
        zone = Tokens(["secret"], "east")
        others = (Tokens(["secret"], "west"), Tokens(["guessed"], "east"))
        strangers = [other.sign(OwnToken(CANDIDATE)) for other in others]
        own = zone.sign(OwnToken(CANDIDATE))
        for token in (*strangers, "", "x", "a.b.c", own[:-1], own[1:], f"{own}x"):
            with (
                self.subTest(token),
                self.assertRaisesRegex(StaleOffer, "^an offer is not one of this zone: ask again$"),
            ):
                zone.read(token)

    def test_a_key_is_replaced_while_offers_made_with_it_are_still_read(self):
        token = Tokens(["old"], "east").sign(OwnToken(CANDIDATE))
        self.assertEqual(OwnToken(CANDIDATE), Tokens(["old", "new"], "east").read(token))
        with self.assertRaises(StaleOffer):
            Tokens(["new"], "east").read(token)

    def test_an_old_offer_is_refused(self):
        zone = Tokens(["secret"], "east", age_s=60)
        token = zone.sign(OwnToken(CANDIDATE))
        later = time.time() + 62
        with mock.patch("time.time", return_value=later):
            self.assertRaisesRegex(StaleOffer, "^an offer is too old: ask again$", zone.read, token)


class TestPlanSignatures(unittest.TestCase):
    """Plans are signed by the newest key, and verified by each."""

    def setUp(self):
        self.plan = make_test_plan(podm("p"))

    def refused(self, keys, plan, words):
        with self.assertRaisesRegex(AccessDenied, f"^the plan {words}.*: make it again"):
            PlanSignatures(keys).check(plan)

    def test_every_scheduler_that_has_the_key_takes_it_as_it_is(self):
        signed = PlanSignatures(["old", "new"]).sign(self.plan)
        PlanSignatures(["new"]).check(signed)
        PlanSignatures(["new", "newer"]).check(signed)
        self.assertNotIn("new", signed.signature)
        self.assertEqual(self.plan, replace(signed, signature=""))
        self.refused(["old"], signed, "is signed by key '[0-9a-f]{8}', which this service does not")
        self.refused(["new"], self.plan, "is not signed")
        self.refused(["new"], replace(signed, digest="0"), "was changed after it was signed")

    def test_what_is_no_signature_is_none(self):
        key_id = PlanSignatures(["k"]).sign(self.plan).signature.partition(".")[0]
        for text in (f"{key_id}.", key_id, f"{key_id}.é\0", f"{key_id}.=", f"{key_id}.{'A' * 43}"):
            self.refused(["k"], replace(self.plan, signature=text), "was changed")
        long = replace(self.plan, signature="x" * 10**6)
        self.refused(["k"], long, "is signed by key 'xxxxxxxxxxxxxxxx'")
