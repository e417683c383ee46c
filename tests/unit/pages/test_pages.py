# SPDX-License-Identifier: Apache-2.0
"""The pages of a decision and of an inventory: which sections they have, and what these say."""

import unittest

from msgspec.structs import replace

from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.inventories import CORES, PODMS, block, decided, engine
from tests.unit.pages.sections import table, titles
from valence_sched.model.decision import Reports
from valence_sched.model.page import FunnelChart, HardwareMap, Lines
from valence_sched.pages.decision import decision_page
from valence_sched.pages.hardware import read_hardware
from valence_sched.pages.inventory import inventory_page
from valence_sched.pages.render import page_html
from valence_sched.testing import request

TOO_MUCH = {"processor": {"total_cores": 10_000}}


class TestDecision(unittest.TestCase):
    """One decision, or several."""

    def test_one_that_is_placed_begins_with_where(self):
        report, site = decided(*PODMS, alternates=1)
        page = decision_page(report, site, (("Claim", "c-1, HELD"),))
        podm = report.placements[0].chosen.podm
        self.assertEqual(("good", f"Placed: 1 of 1 node on {podm}"), (page.tone, page.lead))
        self.assertIn(("Claim", "c-1, HELD"), page.facts)
        sections = ["Nodes", "Candidates", "Filters", "Not chosen", "Nearest misses", "Hardware"]
        self.assertEqual(sections, titles(page)[:6])
        first, second = table(page, "Nodes")
        self.assertEqual(("1", "chosen", podm), first[:3])
        self.assertEqual("alternate 1", second[1])
        self.assertIn(("small", "all", "4 of 16 cores"), table(page, "Not chosen"))

    def test_one_that_is_refused_shows_its_funnel_and_the_reasons(self):
        report, site = decided(*PODMS, properties=TOO_MUCH)
        page = decision_page(report, site)
        self.assertEqual(("bad", "Nothing fits: no node on any of 4 pod managers"),
                         (page.tone, page.lead))  # fmt: skip
        (funnel,) = [one for one in page.sections if isinstance(one, FunnelChart)]
        self.assertEqual((5, 0), (funnel.steps[0].came_in, funnel.steps[-1].went_on))
        self.assertEqual(4, len({row[0] for row in table(page, "Not chosen")}))
        self.assertNotIn("Nodes", titles(page))

    def test_of_a_refusal_the_funnel_stands_before_what_would_fit(self):
        report, site = decided(*PODMS, count=9)
        page = decision_page(report, site)
        self.assertEqual("Filters", titles(page)[0])
        self.assertIn("Candidates", titles(page))
        why = {row[0]: row[2] for row in table(page, "Not chosen")}
        self.assertTrue(why["west"].startswith("after 1 node: "), why)

    def test_all_or_nothing_says_how_many_would_fit(self):
        report, site = decided(*PODMS, count=9)
        self.assertRegex(decision_page(report, site).lead,
                         "Nothing is placed: [1-8] of 9 nodes fit, and .* must have 9")  # fmt: skip
        report, site = decided(*PODMS, count=9, min_count=1)
        page = decision_page(report, site)
        self.assertEqual("part", page.tone)
        self.assertRegex(page.lead, r"Placed in part: [1-8] of 9 nodes on \w+ \(\d\)")

    def test_many_reasons_are_counted_first(self):
        small = ({"id": f"s{n}", "blocks": [block("/b/1", cores=4 + n % 2)]} for n in range(20))
        report, site = decided(*small)
        page = decision_page(report, site)
        rows = table(page, "Not chosen, by reason")
        self.assertEqual([("4 of 16 cores", "10", "s0, s10, s12 and others"),
                          ("5 of 16 cores", "10", "s1, s11, s13 and others")], rows)  # fmt: skip
        self.assertEqual(20, len(table(page, "Not chosen")))

    def test_several_requests_have_a_table_a_map_and_the_reasons_of_what_failed(self):
        scheduler = engine(*PODMS)
        requests = [request(CORES, id="one"), request(TOO_MUCH, id="two", min_count=0)]
        reports = scheduler.select_all(requests, detail="report").report
        self.assertIsInstance(reports, Reports)
        page = decision_page(reports, read_hardware(scheduler))
        self.assertEqual(("part", "Placed in part: 1 of 2 nodes"), (page.tone, page.lead))
        self.assertEqual([("one: 16 cores", "placed", "1 of 1"),
                          ("two: 10000 cores", "nothing fits", "0 of 1")],
                         [row[:3] for row in table(page, "Requests")])  # fmt: skip
        self.assertIn("Filters (two: 10000 cores)", titles(page))
        self.assertEqual(1, sum(isinstance(one, HardwareMap) for one in page.sections))

    def test_warnings_and_what_was_not_read_are_at_the_end(self):
        report, site = decided(*PODMS)
        inventory = replace(report.inventory, skipped=("x.json: $.podms[1]: bad",))
        page = decision_page(replace(report, warnings=("old",), inventory=inventory), site)
        last = page.sections[-1]
        self.assertIsInstance(last, Lines)
        self.assertEqual(("old", "not read: x.json: $.podms[1]: bad"), last.lines[:2])

    def test_the_same_decision_gives_the_same_bytes(self):
        first, second = (page_html(decision_page(*decided(*PODMS, alternates=2))) for _ in "ab")
        self.assertEqual(first, second)

    def test_hostile_names_of_everything_are_harmless(self):
        evil = EVIL + "<script>"
        podm = {"id": evil, "name": evil, "zone": evil, "pools": [{"id": evil}],
                "blocks": [block(f"/b/{n}{evil}", (evil,)) for n in (1, 2)],
                "nodes": [{"uri": f"/n/{evil}", "name": evil, "blocks": [f"/b/1{evil}"]}],
                "stocks": [{"uri": evil, "resource": evil, "unit": evil, "total": 5}]}  # fmt: skip
        report, site = decided(podm, {**podm, "id": f"b{evil}", "status": "Offline"})
        for page in (decision_page(report, site, ((evil, evil),)), inventory_page(site)):
            text = page_html(page).decode()
            self.assertEqual("", raw(text))
            self.assertNotIn("<script", text)
            self.assertIn("&lt;script&gt;", text)


class TestInventory(unittest.TestCase):
    """An inventory."""

    def test_it_counts_each_block_once_and_each_use(self):
        page = inventory_page(read_hardware(engine(*PODMS)))
        self.assertEqual("6 of 9 blocks are free on 4 pod managers", page.lead)
        facts = dict(page.facts)
        self.assertEqual(("5", "9", "1"), (facts["Pools"], facts["Blocks"], facts["Nodes"]))
        self.assertEqual(("1", "1"), (facts["Shared blocks"], facts["Unusable blocks"]))

    def test_it_says_what_is_free_of_each_resource_device_and_pod_manager(self):
        page = inventory_page(read_hardware(engine(*PODMS)))
        self.assertIn(("Cores", "84", "132", "36%"), table(page, "What is free"))
        self.assertIn(("CPU", "EPYC", "6", "9", "33%", "4"), table(page, "Devices"))
        east = table(page, "Pod managers")[0]
        self.assertEqual(("east", "Online", "az1", "3 of 5", "48 of 80"), east[:5])

    def test_what_is_unknown_is_not_a_zero(self):
        unknown = {"id": "a", "blocks": [{"uri": "/b/1", "devices": {"memory": [{"count": 2}]}}]}
        known = {"id": "b", "blocks": [{"uri": "/b/1", "devices": {"memory": [
            {"count": 1, "capacity_mib": 1024}]}}]}  # fmt: skip
        page = inventory_page(read_hardware(engine(unknown, known)))
        self.assertIn(("Memory", "1 GiB+", "1 GiB+", "unknown"), table(page, "What is free"))
        (first, second) = table(page, "Pod managers")
        self.assertIn("unknown of unknown", first)
        self.assertIn("1 GiB of 1 GiB", second)

    def test_an_empty_one_is_a_page_as_well(self):
        scheduler = engine({"id": "bare"})
        for podms in ([], scheduler.podms()):
            text = page_html(inventory_page(read_hardware(scheduler, podms))).decode()
            self.assertIn(f"0 of 0 blocks are free on {len(podms)} pod managers", text)
