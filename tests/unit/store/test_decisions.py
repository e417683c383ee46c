# SPDX-License-Identifier: Apache-2.0
"""Decisions of the store: the newest, by owner, without their documents."""

import time

from tests.unit.store.engines import StoreCase, on_each_engine
from valence_sched.model.decision_summary import DecisionSummary

TICK_S = 0.002  # the clock of SQLite counts milliseconds


@on_each_engine
class TestNewest(StoreCase):
    def save(self, store, id_, owner=None):
        summary = DecisionSummary(id=id_, decided_at=0.0, owner=owner, request="r", placed=1)
        store.save_decision(id_, b"{}", summary)

    def test_the_newest_come_first_and_in_parts(self):
        store = self.store()
        for number in range(5):
            self.save(store, f"d{number}")
            time.sleep(TICK_S)
        decisions = self.store().decisions
        self.assertEqual(["d4", "d3"], [one.id for one in decisions.newest(2)])
        self.assertEqual(["d1", "d0"], [one.id for one in decisions.newest(9, skip=3)])
        (newest,) = decisions.newest(1)
        self.assertEqual(("r", 1), (newest.request, newest.placed))
        self.assertGreater(newest.decided_at, 1e9)

    def test_an_owner_has_its_own(self):
        store = self.store()
        for id_, owner in (("a", "mo"), ("b", "eve"), ("c", None)):
            self.save(store, id_, owner)
        self.assertEqual(["a"], [one.id for one in store.decisions.newest(9, owner="mo")])
        self.assertEqual(3, len(store.decisions.newest(9)))

    def test_one_without_a_summary_has_its_id_and_time(self):
        store = self.store()
        store.save_decision("old", b"{}")
        (old,) = store.decisions.newest(9)
        self.assertEqual(("old", None, None), (old.id, old.request, old.outcome))
        self.assertEqual([], list(store.decisions.newest(9, owner="mo")))
