# SPDX-License-Identifier: Apache-2.0
"""A zone that is asked over HTTP: what is sent, what is understood, and what is an error."""

import contextlib
import unittest

from tests.unit.zones.http_zone import http_zone
from valence_sched.errors import ServiceError, UsageError
from valence_sched.model.claim import Claim
from valence_sched.model.group import GroupState
from valence_sched.model.request import Request
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer
from valence_sched.model.zone_claim import ZoneClaimBody
from valence_sched.zones.children import ChildRow
from valence_sched.zones.logins import ChildLogins, RemoteZone

QUERY = OfferQuery(request=Request(id="r"), limit=3, deadline_s=20.0)


class RemoteCase(unittest.TestCase):
    """A service on loopback, and the zone as its parent reaches it."""

    def setUp(self) -> None:
        context = contextlib.ExitStack()
        self.addCleanup(context.close)
        self.service = context.enter_context(http_zone())
        self.zone = self.child()

    def child(self, password=None, timeout_s=20.0, route=tuple, **words):
        row = ChildRow(name="east", url=self.service.url, **words)
        return RemoteZone(ChildLogins().connection(row, password, timeout_s, route))


class TestQueries(RemoteCase):
    """Offers, group state and claims."""

    def test_offers_are_asked_for_as_they_are_and_returned_as_nouns(self):
        self.service.answers["/v1/zones/offers"] = ZoneAnswer(worst_cost=7, answered=3)
        self.assertEqual(ZoneAnswer(worst_cost=7, answered=3), self.zone.offers(QUERY))
        (asked,) = self.service.asked
        self.assertEqual(("POST", 3, 20.0),
                         (asked.method, asked.body["limit"], asked.body["deadline_s"]))  # fmt: skip

    def test_the_group_state_is_asked_for_below_its_own_path(self):
        answer = GroupAnswer(company=GroupState(owned={"a": 2}))
        self.service.answers["/v1/zones/group_state"] = answer
        self.assertEqual(answer, self.zone.group_state(QUERY))

    def test_what_a_newer_service_adds_is_ignored(self):
        self.service.answers["/v1/zones/offers"] = {"worst_cost": 7, "news": [1]}
        self.assertEqual(ZoneAnswer(worst_cost=7), self.zone.offers(QUERY))

    def test_offers_are_held_under_the_key_that_was_given(self):
        claim = Claim(id="c", state="HELD", created_at=1.0, expires_at=2.0, parts=())
        self.service.answers["/v1/zones/claims"] = claim
        body = ZoneClaimBody(request=Request(id="r"), tokens=("t1", "t2"))
        self.assertEqual(claim, self.zone.hold_offers(body, key="once"))
        self.assertEqual(claim, self.zone.hold_offers(body))
        first, second = self.service.asked
        self.assertEqual(("POST", ["t1", "t2"]), (first.method, first.body["tokens"]))
        self.assertEqual("once", first.headers["Idempotency-Key"])
        self.assertNotIn("Idempotency-Key", second.headers)

    def test_the_verbs_are_those_of_its_scheduler(self):
        self.service.answers["/v1/zones/info"] = {"name": "East"}
        self.assertEqual("East", self.zone.verbs().zone_info().name)


class TestConnection(RemoteCase):
    """How it is reached."""

    def test_it_logs_in_where_it_has_a_user_and_says_the_way_that_it_was_asked(self):
        self.service.answers["/v1/zones/offers"] = ZoneAnswer()
        self.zone.offers(QUERY)
        self.child("secret", route=lambda: ("top", "here"), username="me").offers(QUERY)
        plain, known = self.service.asked
        self.assertNotIn("Authorization", plain.headers)
        self.assertEqual("Basic bWU6c2VjcmV0", known.headers["Authorization"])
        extra = {value for name, value in known.headers.items() if name not in plain.headers}
        self.assertIn("top,here", extra)

    def test_it_may_be_silent_for_no_longer_than_it_is_told(self):
        self.service.answers["/v1/zones/info"] = {"name": "East"}
        hasty = self.child(timeout_s=0.2)
        self.service.awake.clear()
        with self.assertRaisesRegex(ServiceError, "does not answer in time"):
            hasty.verbs().zone_info()

    def test_an_answer_that_is_none_and_an_error_are_raised(self):
        self.service.answers["/v1/zones/offers"] = {"worst_cost": "much"}
        with self.assertRaisesRegex(ServiceError, "cannot be parsed"):
            self.zone.offers(QUERY)
        with self.assertRaises(ServiceError):
            self.zone.group_state(QUERY)  # 404

    def test_a_url_that_is_none_is_refused_at_once(self):
        with self.assertRaises(UsageError):
            ChildLogins().connection(ChildRow(name="east", url="ftp://east"), None, 1.0)
