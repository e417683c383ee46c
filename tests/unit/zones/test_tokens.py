# SPDX-License-Identifier: Apache-2.0
"""Tokens: only the zone that signed one reads it, and not for ever."""

import time
import unittest
from unittest import mock

from valence_sched.errors import StaleOffer
from valence_sched.model.decision import BlockRef, Candidate
from valence_sched.zones.tokens import ChildToken, OwnToken, Tokens

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
