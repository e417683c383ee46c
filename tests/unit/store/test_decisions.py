# SPDX-License-Identifier: Apache-2.0
"""Stored decisions, and decisions that wait for a controller."""

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, decision, part, podm
from valence_sched.errors import ClaimLost, StoreError, UnknownName
from valence_sched.model.decision import DecisionSummary
from valence_sched.model.dispatch import Receipt
from valence_sched.model.inventory import to_json
from valence_sched.store import tables


def decide_in_turn(case, ids):
    """Give decisions different times, at any resolution of time."""
    of = tables.decisions.c
    for number, id_ in enumerate(ids):
        moment = sa.update(tables.decisions).where(of.id == id_)
        case.execute(moment.values(decided_at=of.decided_at + number - len(ids)))


@on_each_engine
class TestDocuments:
    def test_a_decision_is_found_by_its_id_as_it_was_first_saved(self):
        for id_, seed in (("a", 1), ("b", 2), ("a", 3)):
            self.one.decisions.save(id_, to_json(decision(seed)))
        self.assertEqual(decision(1), self.store().decisions.get("a"))
        self.assertEqual(decision(2), self.store().decisions.get("b"))

    def test_of_an_unknown_id_the_nearest_of_the_latest_is_named(self):
        with self.assertRaisesRegex(UnknownName, "^no decision named 'week-1' "):
            self.one.decisions.get("week-1")
        for number in range(21):
            self.one.decisions.save(f"week-{number:02}", DECISION)
        decide_in_turn(self, [f"week-{number:02}" for number in range(21)])
        with self.assertRaisesRegex(UnknownName, "^no decision named 'week-2O' .*week-20"):
            self.one.decisions.get("week-2O")
        with self.assertRaises(UnknownName) as raised:
            self.one.decisions.get("week-00-")
        self.assertNotIn("'week-00'", str(raised.exception), "it is older than the latest 20")


@on_each_engine
class TestNewest:
    def save(self, store, id_, owner=None):
        summary = DecisionSummary(id=id_, decided_at=0.0, owner=owner, request="r", placed=1)
        store.decisions.save(id_, DECISION, summary)

    def test_the_newest_come_first_and_in_parts(self):
        for number in range(5):
            self.save(self.one, f"d{number}")
        decide_in_turn(self, [f"d{number}" for number in range(5)])
        decisions = self.store().decisions
        self.assertEqual(["d4", "d3"], [one.id for one in decisions.newest(2)])
        self.assertEqual(["d1", "d0"], [one.id for one in decisions.newest(9, skip=3)])
        (newest,) = decisions.newest(1)
        self.assertEqual(("r", 1), (newest.request, newest.placed))
        self.assertGreater(newest.decided_at, 1e9)

    def test_those_of_one_moment_are_in_the_order_of_their_ids(self):
        """In another order, a decision could be on two pages, and another on no page."""
        for id_ in ("c", "a", "d", "b"):
            self.save(self.one, id_)
        self.execute(sa.update(tables.decisions).values(decided_at=1000.0))
        pages = [self.one.decisions.newest(2, skip=skip) for skip in (0, 2)]
        self.assertEqual([["a", "b"], ["c", "d"]], [[one.id for one in page] for page in pages])

    def test_an_owner_has_its_own(self):
        for id_, owner in (("a", "mo"), ("b", "eve"), ("c", None)):
            self.save(self.one, id_, owner)
        self.assertEqual(["a"], [one.id for one in self.one.decisions.newest(9, owner="mo")])
        self.assertEqual(3, len(self.one.decisions.newest(9)))

    def test_one_without_a_summary_has_its_id_and_time(self):
        self.one.decisions.save("old", DECISION)
        (old,) = self.one.decisions.newest(9)
        self.assertEqual(("old", None, None), (old.id, old.request, old.outcome))
        self.assertEqual([], list(self.one.decisions.newest(9, owner="mo")))


PLACED = make_test_plan(podm("a"), podm("b")).decision
RECEIPT = Receipt(nodes=(1,), podm="a", status=202, reference="n-1")
HOLD_S = 600.0


def of_request(id_: str):
    return replace(PLACED, request=replace(PLACED.request, id=id_))


@on_each_engine
class TestDispatches:
    """Two processes of a service over one store; placements are on pod manager b."""

    def setUp(self):
        super().setUp()
        self.other = self.store()

    def keep(self, id_, request="r"):
        self.one.decisions.save(id_, to_json(PLACED), None, of_request(request))

    def taken(self, store=None):
        one = (store or self.one).dispatches.take(HOLD_S)
        return one and one.id

    def make_due(self):
        of = tables.dispatches.c
        self.execute(sa.update(tables.dispatches).where(of.due_at.is_not(None)).values(due_at=1.0))

    def test_a_kept_decision_is_queued_once_and_only_where_it_is_dispatched(self):
        self.one.decisions.save("alone", to_json(PLACED))
        self.one.decisions.save("none", to_json(decision()), None, decision())
        for _ in range(2):
            self.keep("d")
        (found,) = self.one.dispatches.newest(9)
        self.assertEqual(("d", None, of_request("r"), 0), (*self.words(found), found.attempts))
        self.assertEqual((1, 0), self.one.dispatches.waiting()[:2])

    def words(self, one):
        return one.id, one.claim, one.report

    def test_a_claim_queues_its_decision_whole_or_not_at_all(self):
        for name in ("p", "q"):
            self.one.remember(podm(name, 3))
        parts = [part("p", 1, "c0"), part("q", 1, "c0")]
        for some in (parts[:1], [part("p", 1, "c1"), part("q", 1, "c1")]):
            claim = self.one.claims.create(some, dispatched=PLACED)
            newest = self.one.dispatches.newest(1)[0]
            self.assertEqual((claim.id, claim.id, PLACED), self.words(newest))
        for lost in (parts[:1], [part("p", 1, "c2"), part("q", 1, "c1")]):
            with self.assertRaises(ClaimLost):
                self.one.claims.create(lost, dispatched=PLACED)
        self.one.claims.create([part("q", 1, "c2")])
        self.assertEqual(2, self.one.dispatches.waiting().total)

    def test_one_process_takes_it_and_the_next_where_that_dies(self):
        self.keep("d")
        self.assertEqual(("d", None), (self.taken(), self.taken(self.other)))
        self.make_due()
        self.assertEqual("d", self.taken(self.other))
        self.assertEqual(2, self.one.dispatches.newest(1)[0].attempts)

    def test_of_one_request_the_next_waits_until_the_first_was_taken(self):
        for id_, request in (("d1", "r"), ("d2", "r"), ("e", "other")):
            self.keep(id_, request)
        first = self.one.dispatches.take(HOLD_S)
        self.assertEqual(["d1", "e", None], [first.id, self.taken(self.other), self.taken()])
        self.one.dispatches.delay(first, "HTTP 503", 0.0)
        self.assertEqual("d1", self.taken())
        self.one.dispatches.finish(first, [RECEIPT])
        self.assertEqual("d2", self.taken())

    def test_what_the_controller_answered_is_read_back(self):
        self.one.remember(podm("p"))
        claim = self.one.claims.create([part("p", 1, "c0")], dispatched=PLACED)
        self.one.dispatches.delay(self.one.dispatches.take(HOLD_S), "HTTP 503", 0.0)
        self.assertIn("waiting, posted 1 time: HTTP 503", str(self.one.dispatches.newest(1)[0]))
        self.assertEqual((1, 1), self.one.dispatches.waiting()[:2])
        one = self.one.dispatches.take(HOLD_S)
        first = replace(RECEIPT, reference="n\0" + "1" * 2000)
        for answer in (first, replace(RECEIPT, reference="late")):
            self.one.dispatches.finish(one, [answer])
        (found,) = self.other.dispatches.newest(1)
        self.assertEqual((first,), found.receipts)
        text = "HTTP 202 n\\u0000111"
        self.assertIn(f"claim {claim.id} on b: accepted: {text}", str(found))
        (held, dispatched) = self.one.events(claim.id)
        self.assertEqual(("held", "dispatched"), (held.kind, dispatched.kind))
        self.assertTrue(dispatched.words.startswith(text))
        self.assertEqual((0, 0, 0.0), self.one.dispatches.waiting())
        self.one.dispatches.delay(one, "late", 0.0)
        self.assertIsNone(self.taken())

    def test_one_whose_claim_ended_is_not_posted(self):
        """Its hardware may be held by another claim."""
        claims = self.one.claims
        for name in ("p", "q"):
            self.one.remember(podm(name))
        released = claims.create([part("p", 1, "c0")], dispatched=of_request("r")).id
        held = claims.create([part("q", 1, "c0")], dispatched=of_request("s")).id
        claims.release(released)
        self.assertEqual([held, None], [self.taken(), self.taken(self.other)])
        self.assertEqual(1, self.one.dispatches.waiting().total)
        kinds = [one.kind for one in self.one.events(released)]
        self.assertEqual(["held", "released", "not dispatched"], kinds)
        self.make_due()
        self.execute(sa.update(tables.claims).values(sweep_at=1.0))  # expired, not yet ended
        self.assertIsNone(self.taken())
        self.assertEqual(0, self.one.dispatches.waiting().total)

    def test_a_purge_deletes_those_that_were_taken(self):
        for id_ in ("d", "waits"):
            self.keep(id_, id_)
        self.one.dispatches.finish(self.one.dispatches.take(HOLD_S), [])
        self.one.purge(3600.0)
        self.assertEqual(2, len(self.one.dispatches.newest(9)))
        self.execute(sa.update(tables.dispatches).values(queued_at=1.0))
        self.execute(sa.update(tables.dispatches).where(tables.dispatches.c.id == "d")
                     .values(sent_at=1.0))  # fmt: skip
        self.one.purge(3600.0)
        self.assertEqual(["waits"], [one.id for one in self.one.dispatches.newest(9)])

    def test_one_that_waits_can_be_dropped_by_its_id(self):
        self.keep("d")
        self.one.dispatches.drop("d")
        self.assertIsNone(self.taken())
        with self.assertRaisesRegex(UnknownName, "no waiting dispatch named 'd'"):
            self.one.dispatches.drop("d")

    def test_one_that_cannot_be_decoded_holds_up_its_own_request_alone(self):
        for id_, request in (("bad", "r"), ("next", "r"), ("e", "other")):
            self.keep(id_, request)
        of = tables.dispatches.c
        broken = sa.update(tables.dispatches).where(of.id == "bad")
        self.execute(broken.values({of.document: sa.literal(b"{", sa.LargeBinary)}))
        with self.assertLogs("valence_sched.store", "WARNING"):
            self.assertEqual(["e", None], [self.taken(), self.taken()])

    def test_where_the_decision_cannot_be_queued_nothing_is_held(self):
        self.one.remember(podm("p"))
        self.execute(sa.text("alter table dispatches rename to elsewhere"))
        try:
            with self.assertRaises(StoreError):
                self.one.claims.create([part("p", 1, "c0")], dispatched=PLACED)
            self.assertEqual([], self.one.claims.list())
        finally:
            self.execute(sa.text("alter table elsewhere rename to dispatches"))
