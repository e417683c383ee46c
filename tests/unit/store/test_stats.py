# SPDX-License-Identifier: Apache-2.0
"""Pod managers that report themselves."""

import json
import re
from datetime import datetime

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.errors import InputError, InUse, UnknownName
from valence_sched.store import tables
from valence_sched.store.tables import now
from valence_sched.testing import request

GPU = {"uri": "g", "type": ["Expansion"], "devices": {"accelerators": [{"kind": "GPU"}]}}
ASKED = {"accelerators": [{"kind": "GPU"}]}


@on_each_engine
class TestStats:
    """The next decision uses a report."""

    def chosen(self, scheduler, properties=CORES, **words):
        decision = scheduler.decider().select_destinations(request(properties, **words))
        return [placement.chosen.podm for placement in decision.placements]

    def test_the_very_next_selection_sees_a_report(self):
        """S60: also in a process that has decided before."""
        for name in ("a", "b"):
            self.one.remember(podm(name))
        local = claimer(self.store())
        self.assertEqual(1, len(self.chosen(local)))
        self.one.update_stats("a", {"status": "Offline"})
        self.assertEqual(["b"], self.chosen(local))
        self.one.update_stats("a", {"status": "Online"})
        self.one.update_stats("b", {"enabled": False})
        self.assertEqual(["a"], self.chosen(local))

    def test_a_name_is_an_id_or_host_and_node_and_what_is_returned_is_accepted(self):
        """S61."""
        self.one.update_stats(("rack-1", "psme-2"), {"blocks": [GPU]})
        local = claimer(self.one)
        (name,) = self.chosen(local, ASKED)
        self.one.update_stats(name, {"status": "Offline"})
        self.assertEqual([], self.chosen(local, ASKED))
        self.one.update_stats(("rack-1", "psme-2"), {"status": "Online"})
        self.assertEqual([name], self.chosen(local, ASKED))

    def test_the_scheduler_itself_takes_reports_in(self):
        """S60, S61: with either form of a name, known or unknown."""
        self.one.remember(podm("a"))
        local = claimer(self.one)

        def names():
            decision = local.select_destinations(request(ASKED))
            return [placement.chosen.podm for placement in decision.placements]

        self.one.update_stats(("rack-1", "psme-2"), {"blocks": [GPU], "status": "Offline"})
        self.assertEqual([], names())
        self.one.update_stats("rack-1/psme-2", {"status": "Online"})
        self.assertEqual(["rack-1/psme-2"], names())

    def test_who_reported_and_when_is_known_until_it_is_forgotten(self):
        self.one.remember(podm("read"))
        self.one.update_stats("told", {"x": 1})
        self.one.update_stats("read", {})
        self.one.remember(podm("read", 2))
        reports = self.one.reports()
        stats = {name: one.stats for name, one in reports.items()}
        self.assertEqual({"read": {}, "told": {"x": 1}}, stats)
        self.assertTrue(all(0 <= one.age_s < 60 for one in reports.values()))
        for name in ("read", "told"):
            self.one.forget_report(name)
        self.assertEqual({}, self.one.reports())
        self.assertEqual(["read"], list(self.one.load_podms()))
        with self.assertRaisesRegex(UnknownName, "no pod manager that reported named 'told'"):
            self.one.forget_report("told")

    def test_one_that_was_never_read_is_as_old_as_its_latest_report(self):
        self.one.update_stats("told", {"x": 1})
        ((before,),) = self.execute(sa.select(now()))
        of = tables.podms.c
        earlier = {"read_at": "2026-01-01T00:00:00+00:00"}
        self.execute(sa.update(tables.podms).where(of.name == "told").values(**earlier))
        self.one.update_stats("told", {"x": 1})
        read_at = datetime.fromisoformat(self.one.load_podms()["told"].read_at)
        self.assertIsNotNone(read_at.tzinfo, read_at)
        self.assertAlmostEqual(before, read_at.timestamp(), delta=60)
        self.assertEqual(0, read_at.microsecond)

    def test_one_that_claims_are_of_is_not_forgotten(self):
        self.one.update_stats("p", {"blocks": [GPU]})
        claim = claimer(self.one).claim(request(ASKED)).claim
        with self.assertRaisesRegex(InUse, "pod manager 'p' still has 1 claim"):
            self.one.forget_report("p")
        self.one.claims.release(claim.id)
        self.one.forget_report("p")
        self.assertEqual({}, self.one.load_podms())

    def test_unknown_words_are_kept_and_decided_on(self):
        """S63: they survive the JSON round trip."""
        stats = json.loads(json.dumps({
            "blocks": [GPU], "power_w": 350, "firmware": {"bmc": "2.1", "beta": True},
            "tags": ["a", 1], "facts": {"rack": "r7"}, "nothing": None,
        }))  # fmt: skip
        self.one.update_stats("p", stats)
        facts = {"power_w": 350.0, "firmware.bmc": "2.1", "firmware.beta": "true",
                 "tags": ("a", "1"), "rack": "r7"}  # fmt: skip
        self.assertEqual(facts, self.one.load_podms()["p"].facts)
        local = claimer(self.one)
        for most, expected in ((400, ["p"]), (300, [])):
            where = ["<=", "$facts.power_w", most]
            self.assertEqual(expected, self.chosen(local, ASKED, where=where))

    def test_the_zone_comes_with_the_stats_alone(self):
        """S64."""
        self.one.update_stats("a", {"blocks": [GPU], "availability_zone": "east"})
        self.one.update_stats("b", {"blocks": [GPU], "zone": "west", "capabilities": "net=ib;eth"})
        local = claimer(self.one)
        self.assertEqual(["a"], self.chosen(local, ASKED, zone="east"))
        self.assertEqual(["b"], self.chosen(local, ASKED, zone="west"))
        wanted = {"net": ["ib"]}
        self.assertEqual(["b"], self.chosen(local, ASKED, capabilities=wanted))

    def test_an_amount_is_a_stock_that_can_be_claimed(self):
        self.one.update_stats(
            "p", {"blocks": [GPU], "amounts": {"power": {"total": 10, "unit": "W"}}}
        )
        (stock,) = self.one.load_podms()["p"].stocks
        self.assertEqual(("power", 10.0, "W"), (stock.resource, stock.total, stock.unit))
        self.one.update_stats("p", {"amounts": {"power": 4, "water": 1}})
        stocks = {stock.resource: stock.total for stock in self.one.load_podms()["p"].stocks}
        self.assertEqual({"power": 4.0, "water": 1.0}, stocks)
        self.one.update_stats("p", {"amounts": {"power": None}})
        self.assertEqual(["water"], [stock.resource for stock in self.one.load_podms()["p"].stocks])

    def test_a_report_stands_beside_what_is_read_later(self):
        self.one.remember(podm(read_at="2026-01-01T00:00:00Z", facts={"x": 1.0, "y": 1.0}))
        first = self.one.update_stats("p", {"x": 2})
        later = podm(blocks=1, read_at="2026-01-01T00:00:01Z", facts={"x": 1.0, "y": 3.0})
        self.assertEqual(first + 1, self.one.remember(later))
        self.assertEqual({"x": 2.0, "y": 3.0}, self.one.load_podms()["p"].facts)
        self.assertEqual(first + 1, self.one.update_stats("p", {"x": 2}))  # nothing new

    def test_what_is_wrong_is_named_and_nothing_is_stored(self):
        for stats, line in (
            ({"status": "Fine"}, "stats of 'p': $.status: found 'Fine'"),
            ({"amounts": 5}, "stats: $.amounts: found 5, expected an object"),
            ({"amounts": ""}, "stats: $.amounts: found '', expected an object"),
            ({"facts": 0}, "stats: $.facts: found 0, expected an object"),
            ({"amounts": {"m": {"total": -1}}}, "stats of 'p': $.amounts.m.total: found -1"),
            ({"stocks": [{}]}, "stats of 'p': $.stocks[0]: found no field 'uri'"),
            ({"stocks": 5}, "stats of 'p': $.stocks: found 5"),
            (
                {"stocks": [{"uri": []}], "amounts": {"m": 1}},
                "stats of 'p': $.stocks[0].uri: found",
            ),
            ({"capabilities": "x"}, "stats of 'p': $.capabilities: found 'x', expected key=value"),
        ):
            with self.subTest(stats), self.assertRaisesRegex(InputError, re.escape(line)):
                self.one.update_stats("p", stats)
        self.assertEqual({}, self.one.load_podms())
