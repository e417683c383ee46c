# SPDX-License-Identifier: Apache-2.0
"""Deciding on the stored state: its settings, and the times of new readings."""

import datetime
import gc
import tempfile
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from tests.unit.lifecycle.site import request
from tests.unit.lifecycle.test_claimer import in_order
from tests.unit.lifecycle.test_stored import AWAY, StoredCase, registration
from tests.unit.store.site import CORES
from valence_sched.errors import InventoryIncomplete
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.stored_deciders import ASK_AGAIN_S, StoredDeciders
from valence_sched.store.store import Store

POWER = {**CORES, "stocks": [{"resource": "power", "amount": 3}]}


class SettingsCase(StoredCase):
    """Two registered pod managers, followed with settings of the caller."""

    def setUp(self):
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return (str(self.folder / name),)

    def follow(self, live=None, **words):
        """Follow the state again, with more settings."""
        self.site.engine.close()
        selection = self.site.selection
        live = replace(selection.live, **(live or {}))
        self.site.selection = replace(selection, live=live, **words)
        self.site.app, self.site.engine = self.site.new_engine()

    def past_now(self):
        """Set the clock ahead of the time of the database, which reports have."""
        self.site.now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=600)

    def lines(self, kind):
        return self.site.app.diagnostics.lines(kind)


class TestFiles(SettingsCase):
    """Resources, flavors and policies in files."""

    def declare(self, text):
        self.follow(resource_files=self.write("resources.yaml", text))

    def powered(self):
        decision = self.site.engine.select_destinations(request(properties=POWER))
        return {one.chosen.podm for one in decision.report.placements}

    def test_a_declared_stock_is_decided_on_and_claimed(self):
        self.assertEqual(set(), self.powered())
        self.declare("- {name: power, podms: {b: 5}}\n")
        self.assertEqual({"b"}, self.powered())
        claim = self.site.engine.claim(request(properties=POWER)).claim
        (part,) = claim.parts
        self.assertEqual(("b", "declared:power"), (part.podm, part.shares[0].grants[0].uri))
        self.assertEqual(set(), self.powered())
        self.site.store.claims.release(claim.id)
        self.assertEqual({"b"}, self.powered())
        self.site.remember("b", blocks=2)
        self.assertEqual({"b"}, self.powered())

    def test_doubts_about_a_declaration_are_told_after_each_decision_and_once(self):
        stock = {"uri": "/p", "resource": "power", "total": 9}
        self.site.remember("a", stocks=[stock])
        self.declare("- {name: power, podms: {zz: 5}}\n")
        told = ["pod manager 'a': reports 'power' itself: its declaration is ignored"]
        for number in range(3):
            self.site.remember("a", stocks=[stock], facts={"number": number})
            self.powered()
            unmatched = "resource 'power': no pod manager named 'zz' "
            found = self.lines("remark")
            self.assertEqual(told, found[:-1])
            self.assertTrue(found[-1].startswith(unmatched), found)

    def test_the_shares_of_flavors_are_what_a_policy_may_weigh(self):
        policies = self.write("p.yaml", "policies:\n- name: default\n  weighers: [fragmentation]\n")
        flavors = self.write("f.yaml", "flavors:\n- {name: big, share: 3, properties: "
                             "{processor: {total_cores: 8}}}\n")  # fmt: skip
        for files in ((), flavors):
            self.follow(policy_files=policies, flavor_files=files)
            decision = self.site.engine.decider().select_destinations(request())
            weights = [share.weight for share in decision.context.request.mix.shares]
            self.assertEqual(bool(files), 3.0 in weights, weights)
            weighers = decision.context.bound.policy.weighers
            self.assertEqual(["fragmentation"], [one.name for one in weighers])


class TestNames(SettingsCase):
    """The pod managers of a decision, their order, and the named pod managers."""

    def ids(self):
        return [one.id for one in self.site.engine.decider().snapshot().podms]

    def test_those_that_only_report_come_after_those_that_are_registered(self):
        self.site.store.update_stats("0", {"zone": "z"})
        self.assertEqual(["a", "b", "0"], self.ids())
        sources = self.site.app.sources
        self.assertEqual({"a", "b", "0"}, {*sources.live_ids})
        self.assertEqual({"0"}, sources.reported_ids)
        self.assertEqual({"a", "b", "0"}, sources.stored_names)
        self.site.store.register(registration("c"))
        self.site.remember("c")
        self.site.store.unregister("a")
        self.assertEqual(["b", "c", "0"], self.ids())
        self.site.store.forget_report("0")
        self.assertEqual(["b", "c"], self.ids())
        self.assertEqual(set(), sources.reported_ids)

    def test_only_those_that_are_named_are_decided_on_also_after_a_change(self):
        self.follow({"only": ("b",)})
        for number in range(2):
            self.assertEqual(["b"], self.ids())
            self.site.remember("a", blocks=number)
            self.site.fail("a")
        self.assertEqual([], self.lines("unread"))

    def test_an_invalid_one_is_named_until_it_is_valid_or_gone(self):
        self.site.store.register(registration("c"))
        for end in (lambda: self.site.remember("c"), lambda: self.site.store.unregister("c")):
            self.site.remember("c", blocks=[{"uri": "x", "pools": ["nowhere"]}])
            self.assertEqual(["a", "b"], self.ids())
            (line,) = self.lines("skipped")
            self.assertTrue(line.startswith("pod manager c: $.blocks[0]"), line)
            decision = self.site.engine.select_destinations(request(), detail="report")
            self.assertEqual((line,), decision.report.inventory.skipped)
            end()
            self.ids()
            self.assertEqual([], self.lines("skipped"))

    def test_decisions_name_those_that_are_not_read_in_the_order_of_the_registry(self):
        for name in ("c", "d"):
            self.site.store.register(registration(name))
            self.site.remember(name)
        for name in ("d", "b"):
            self.site.fail(name)
        self.assertEqual(["a", "b", "c", "d"], self.ids())
        lines = [f"{name}: {AWAY.reason}" for name in ("b", "d")]
        self.assertEqual(
            lines, [line.partition("; last read ")[0] for line in self.lines("unread")]
        )
        decision = self.site.engine.select_destinations(request(), detail="report")
        self.assertEqual(tuple(self.lines("unread")), decision.report.inventory.skipped)
        self.assertEqual({"b", "d"}, {*self.site.app.sources.unread_ids})

    def test_a_reason_that_begins_with_the_name_is_told_as_it_is(self):
        self.site.fail("a", replace(AWAY, reason="a: in two\nlines"))
        self.chosen()
        (line,) = self.lines("unread")
        self.assertRegex(line, r"^a: in two\S* ?\S*lines; last read ")
        self.assertNotIn("\n", line)

    def test_a_strict_selection_refuses_while_one_is_not_read(self):
        self.follow(strict=True)
        self.assertEqual(["a", "b"], self.ids())
        self.site.fail("a")
        with self.assertRaisesRegex(
            InventoryIncomplete, f"inventory: a: {AWAY.reason}; last read "
        ):
            self.ids()
        self.site.remember("a")
        self.assertEqual(["a", "b"], self.ids())


class TestTimes(SettingsCase):
    """Readings that become old, and reports whose liveness expires."""

    def test_old_readings_are_told_in_one_line_until_they_are_new(self):
        self.follow({"warn_age_s": 60.0})
        self.chosen()
        self.assertEqual([], self.lines("warning"))
        self.wait(50)
        self.site.remember("b")
        self.wait(11)
        for _ in range(2):
            self.chosen()
            self.assertEqual(["a was read 61s ago: read it again (--warn-age)"],
                             self.lines("warning"))  # fmt: skip
        self.wait(60)
        self.chosen()
        self.assertEqual(["2 pod managers were read over 60s ago, a 2m ago: read them again "
                          "(--warn-age)"], self.lines("warning"))  # fmt: skip
        self.site.remember("a")
        self.site.store.unregister("b")
        self.wait(ASK_AGAIN_S)
        self.chosen()
        self.assertEqual([], self.lines("warning"))

    def test_many_decisions_on_old_readings_look_them_up_once_in_a_while(self):
        self.follow({"warn_age_s": 60.0})
        self.chosen()
        self.wait(61)
        ask = self.enterContext(
            mock.patch.object(Store, "read_times", autospec=True, side_effect=Store.read_times)
        )
        for _ in range(5):
            self.chosen()
        self.assertEqual([{"a", "b"}], [set(one.args[1]) for one in ask.mock_calls])
        self.wait(ASK_AGAIN_S)
        self.chosen()
        self.assertEqual(2, len(ask.mock_calls))

    def test_only_those_that_are_decided_on_are_told_to_be_old(self):
        self.follow({"warn_age_s": 60.0, "only": ("b",)})
        self.chosen()
        self.wait(61)
        self.site.remember("b")
        self.chosen()
        self.assertEqual([], self.lines("warning"))

    def test_the_times_of_readings_that_changed_nothing_are_shown(self):
        before = self.site.read_at()
        self.chosen()
        self.wait(10)
        self.site.remember("a")
        shown = {one.podm.id: one.podm.read_at for one in self.site.engine.podms()}
        self.assertEqual({"a": self.site.read_at(), "b": before}, shown)

    def test_the_time_of_one_that_is_another_service_is_not_shown(self):
        self.site.fail("a", replace(AWAY, reason="another service", refused=True))
        shown = {one.podm.id: one.podm.read_at for one in self.site.engine.podms()}
        self.assertEqual({"a": None, "b": self.site.read_at()}, shown)
        for _ in range(2):  # the second reading changes nothing
            self.wait(10)
            self.site.remember("a", blocks=1)
            shown = {one.podm.id: one.podm.read_at for one in self.site.engine.podms()}
            self.assertEqual(self.site.read_at(), shown["a"])

    def test_one_that_only_reports_is_offline_once_its_report_is_old(self):
        self.site.store.update_stats("r", {"blocks": [{"uri": "x", "devices": {
            "processors": [{"cores": 64}]}}]})  # fmt: skip
        self.follow({"liveness": "read:3600"})
        self.past_now()
        wanted = request(properties={"processor": {"total_cores": 64}})

        def status():
            self.site.engine.select_destinations(wanted)
            return self.site.engine.podm("r").podm.status

        self.assertEqual("Online", status())
        self.wait(7200)
        self.assertEqual("Offline", status())
        self.wait(-7200)
        self.assertEqual("Online", status())

    def test_one_whose_liveness_is_told_no_more_has_the_status_of_its_report(self):
        self.site.store.update_stats("r", {"blocks": [{"uri": "x", "devices": {
            "processors": [{"cores": 64}]}}]})  # fmt: skip
        self.follow({"liveness": "read:3600"})
        wanted = request(properties={"processor": {"total_cores": 64}})
        placed = []
        for told in ({}, {"r": "Offline"}, {}, {"r": "Offline"}, {"r": "Online"}):
            with mock.patch.object(self.site.app.loader, "statuses", return_value=told):
                placed.append(self.site.engine.select_destinations(wanted).report.placed)
        self.assertEqual([1, 0, 1, 0, 1], placed)


class TestDeciders(SettingsCase):
    """Deciders that follow a state for decisions and claims."""

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
        """Return deciders, and a list of the changes that each of their updates finds."""
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
