# SPDX-License-Identifier: Apache-2.0
"""Stored deciders: what each decision and claim on a state takes in, and what it leaves."""

import gc

from tests.unit.lifecycle.site import request
from tests.unit.lifecycle.test_claimer import in_order
from tests.unit.lifecycle.test_stored import registration
from tests.unit.lifecycle.test_stored_settings import SettingsCase
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.stored_deciders import StoredDeciders


class TestDeciders(SettingsCase):
    """What follows a state for its decisions and its claims."""

    def deciders(self):
        app, selection = self.site.app, self.site.selection
        intake = Intake(app.config, app.sources, app.loader, selection)
        return StoredDeciders(intake, self.site.store)

    def test_changes_are_counted_from_the_first_decision_on(self):
        self.follow(resource_files=(str(self.folder / "absent.yaml"),))
        self.assertEqual(0, self.deciders().changes)
        self.follow(resource_files=())
        deciders = self.deciders()
        deciders.decider()
        before = deciders.changes
        self.assertGreater(before, 0)
        self.site.remember("a", blocks=1)
        self.assertEqual(before, deciders.changes)
        deciders.decider()
        self.assertGreater(deciders.changes, before)

    def test_only_what_is_otherwise_is_made_again(self):
        self.follow({"liveness": "read:3600"})
        self.past_now()
        store, (deciders, again) = self.site.store, self.noted()
        for change, expected in (
            (lambda: None, {"a", "b"}),
            (lambda: None, set()),
            (lambda: store.change(registration("a", enabled=False)), {"a"}),
            (lambda: store.register(registration("c")), {"c"}),
            (lambda: store.update_stats("r", {"zone": "z"}), {"r"}),
            (lambda: store.update_stats("s", {"zone": "z"}), {"s"}),
            (lambda: self.site.fail("b"), {"b"}),
            (lambda: self.wait(7200), {"r", "s"}),
            (lambda: store.update_stats("r", {"zone": "y"}), {"r"}),
            (lambda: store.forget_report("s"), {"s"}),
            (lambda: store.unregister("c"), {"c"}),
        ):
            change()
            deciders.decider()
            self.assertEqual(expected, again[-1])

    def test_one_that_fails_is_made_again_once_it_is_too_old(self):
        self.follow({"max_age_s": 60.0})
        deciders, again = self.noted()
        self.site.fail("a")
        for wait_s, expected in ((0, {"a", "b"}), (30, set()), (31, {"a", "b"}), (0, set())):
            self.wait(wait_s)
            if wait_s == 31:
                self.site.remember("b", blocks=1)
            deciders.decider()
            self.assertEqual(expected, again[-1])

    def noted(self):
        """Return deciders, and a list of what each of their updates finds otherwise."""
        deciders, again = self.deciders(), []
        update = deciders._inventory.update

        def noted(*words):
            again.append(update(*words))
            return again[-1]

        deciders._inventory.update = noted
        return deciders, again

    def test_the_collector_is_paused_only_while_all_is_read(self):
        seen = []
        now = self.site.app.sources.now
        self.site.app.sources.now = lambda: seen.append(gc.isenabled()) or now()
        self.addCleanup(setattr, self.site.app.sources, "now", now)
        deciders = self.deciders()
        deciders.decider()
        self.assertEqual({False}, {*seen})
        seen.clear()
        self.site.remember("a", blocks=1)
        deciders.decider()
        self.assertEqual({True}, {*seen})

    def test_a_claimer_decides_with_what_is_followed_and_leaves_its_order(self):
        deciders = self.deciders()
        decider = deciders.decider()
        with deciders.claimer() as claimer:
            self.assertIs(decider, claimer.decider())
            chosen = claimer.select_destinations(request()).placements[0].chosen
            claimer._shuffle_blocks(chosen.podm)
            drawn = self.order(claimer.decider(), chosen.podm)
            expected = in_order(("c0", "c1", "c2"), claimer._salt)
        self.assertEqual(expected, drawn)
        self.assertEqual(["c0", "c1", "c2"], self.order(deciders.decider(), chosen.podm))

    def order(self, decider, podm):
        view = decider.snapshot()
        (table,) = [table for table, one in zip(view.block_tables, view.podms, strict=True)
                    if one.id == podm]  # fmt: skip
        return [*table.uris]
