# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: documents by id, and the newest, by owner, without their documents."""

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import DECISION, decision
from valence_sched.errors import UnknownName
from valence_sched.model.decision import DecisionSummary
from valence_sched.model.inventory import to_json
from valence_sched.store import tables


def decide_in_turn(case, ids):
    """Let decisions be of different moments, at any resolution of time."""
    of = tables.decisions.c
    for number, id_ in enumerate(ids):
        moment = sa.update(tables.decisions).where(of.id == id_)
        case.execute(moment.values(decided_at=of.decided_at + number - len(ids)))


@on_each_engine
class TestDocuments(StoreCase):
    def test_a_decision_is_found_by_its_id_as_it_was_first_saved(self):
        store = self.store()
        for id_, seed in (("a", 1), ("b", 2), ("a", 3)):
            store.decisions.save(id_, to_json(decision(seed)))
        self.assertEqual(decision(1), self.store().decisions.get("a"))
        self.assertEqual(decision(2), self.store().decisions.get("b"))

    def test_of_an_unknown_id_the_nearest_of_the_latest_is_named(self):
        store = self.store()
        with self.assertRaisesRegex(UnknownName, "^no decision named 'week-1' "):
            store.decisions.get("week-1")
        for number in range(21):
            store.decisions.save(f"week-{number:02}", DECISION)
        decide_in_turn(self, [f"week-{number:02}" for number in range(21)])
        with self.assertRaisesRegex(UnknownName, "^no decision named 'week-2O' .*week-20"):
            store.decisions.get("week-2O")
        with self.assertRaises(UnknownName) as raised:
            store.decisions.get("week-00-")
        self.assertNotIn("'week-00'", str(raised.exception), "it is older than the latest 20")


@on_each_engine
class TestNewest(StoreCase):
    def save(self, store, id_, owner=None):
        summary = DecisionSummary(id=id_, decided_at=0.0, owner=owner, request="r", placed=1)
        store.decisions.save(id_, DECISION, summary)

    def test_the_newest_come_first_and_in_parts(self):
        store = self.store()
        for number in range(5):
            self.save(store, f"d{number}")
        decide_in_turn(self, [f"d{number}" for number in range(5)])
        decisions = self.store().decisions
        self.assertEqual(["d4", "d3"], [one.id for one in decisions.newest(2)])
        self.assertEqual(["d1", "d0"], [one.id for one in decisions.newest(9, skip=3)])
        (newest,) = decisions.newest(1)
        self.assertEqual(("r", 1), (newest.request, newest.placed))
        self.assertGreater(newest.decided_at, 1e9)

    def test_those_of_one_moment_are_in_the_order_of_their_ids(self):
        """Else one of them would be on two pages, and another on none."""
        store = self.store()
        for id_ in ("c", "a", "d", "b"):
            self.save(store, id_)
        self.execute(sa.update(tables.decisions).values(decided_at=1000.0))
        pages = [store.decisions.newest(2, skip=skip) for skip in (0, 2)]
        self.assertEqual([["a", "b"], ["c", "d"]], [[one.id for one in page] for page in pages])

    def test_an_owner_has_its_own(self):
        store = self.store()
        for id_, owner in (("a", "mo"), ("b", "eve"), ("c", None)):
            self.save(store, id_, owner)
        self.assertEqual(["a"], [one.id for one in store.decisions.newest(9, owner="mo")])
        self.assertEqual(3, len(store.decisions.newest(9)))

    def test_one_without_a_summary_has_its_id_and_time(self):
        store = self.store()
        store.decisions.save("old", DECISION)
        (old,) = store.decisions.newest(9)
        self.assertEqual(("old", None, None), (old.id, old.request, old.outcome))
        self.assertEqual([], list(store.decisions.newest(9, owner="mo")))
