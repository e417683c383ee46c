# SPDX-License-Identifier: Apache-2.0
"""The page of a failure or a drain: moved nodes, nodes that cannot move, reasons, and the map."""

import unittest
from typing import Any

from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.inventories import USED, app_and_site, block, section, table, titles
from valence_sched.model.page import HardwareMap, Lines, MapPodm, Page
from valence_sched.model.relocation import Relocation
from valence_sched.model.scenario import AddBlocks
from valence_sched.pages.hardware import HardwareListing
from valence_sched.pages.relocation import MOST_ROWS, relocation_page
from valence_sched.pages.render import page_html
from valence_sched.testing import request


def node(name: str, *blocks: str) -> dict[str, Any]:
    return {"uri": f"/n/{name}", "name": name, "blocks": list(blocks), "owner": "web"}


#: Two nodes on one pod manager, and room for one of them elsewhere.
EAST = {"id": "east", "blocks": [block("/b/1", **USED), block("/b/2", cores=64, **USED)],
        "nodes": [node("n1", "/b/1"), node("n2", "/b/2")]}  # fmt: skip
WEST = {"id": "west", "pools": [{"id": "row"}], "blocks": [block("/b/9", ("row",))]}
DARK = {"id": "dark", "blocks": [block("/b/1", cores=8)]}


def failed(*podms: dict[str, Any], target: str = "east", drained: bool = False) -> Page:
    app, site = app_and_site(*podms)
    answer = app.whatif.drain if drained else app.whatif.fail
    return app.whatif_page(answer(site, [target]), site)


def roles(podm: MapPodm) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {one.name: (one.role, one.takers) for pool in podm.pools for group in pool.groups
            for one in group.blocks if one.role}  # fmt: skip


class TestRelocation(unittest.TestCase):
    """Nodes that must move."""

    def test_it_begins_with_what_has_no_place_and_why(self):
        page = failed(EAST, WEST, DARK)
        self.assertEqual(("part", "1 of 2 nodes of east can be re-placed, 1 cannot"),
                         (page.tone, page.lead))  # fmt: skip
        self.assertEqual("Failure: east", page.title)
        self.assertEqual(
            [
                "Nodes that cannot be re-placed",
                "Moves",
                "Nodes by pod manager",
                "Hardware",
                "Notes",
            ],
            titles(page),
        )
        ((name, podm, owner, hardware, why),) = table(page, "Nodes that cannot be re-placed")
        self.assertEqual(("n2", "east", "web", "64 cores"), (name, podm, owner, hardware))
        self.assertIn("of 64 cores", why)
        self.assertIn("(1 pod manager)", why)

    def test_a_move_says_from_where_to_which_blocks(self):
        page = failed(EAST, WEST, DARK)
        self.assertEqual([("1", "n1", "east", "west", "row", "9", "16 cores", "web")],
                         table(page, "Moves"))  # fmt: skip
        self.assertEqual([("west", "1", "0"), ("east", "0", "2")],
                         table(page, "Nodes by pod manager"))  # fmt: skip

    def test_the_map_shows_what_is_left_and_who_takes_what(self):
        page = failed(DARK, EAST, WEST, {**DARK, "id": "dim"})
        drawn = section(page, "Hardware")
        self.assertIsInstance(drawn, HardwareMap)
        self.assertEqual([("east", "source", "2 nodes leave"),
                          ("west", "destination", "1 node arrives here"), ("dark", "", ""),
                          ("dim", "", "")],
                         [(one.name, one.role, one.text) for one in drawn.podms])  # fmt: skip
        east, west, *_ = drawn.podms
        self.assertEqual({"1": ("left", ()), "2": ("left", ())}, roles(east))
        self.assertEqual({"9": ("chosen", (1,))}, roles(west))
        self.assertEqual(("n1",), drawn.takers)
        html = page_html(page).decode()
        self.assertIn("></i>left by a node</li>", html)
        self.assertIn('<a class="t t0" id="west/9" href="#west/9" aria-label="9: n1">1</a>', html)
        self.assertEqual(2, html.count(" open>"), "the pod managers that nodes leave or land on")

    def test_failed_and_drained_hardware_is_drawn_as_unusable_with_its_nodes(self):
        spare = {**EAST, "blocks": [*EAST["blocks"], block("/b/3")]}
        for drained, unusable in ((False, "Offline"), (True, "disabled")):
            east = section(failed(spare, WEST, drained=drained), "Hardware").podms[0]
            self.assertEqual((unusable,), east.marks)
            self.assertEqual(0, east.uses.get("free", 0))
            self.assertEqual(("n1", "n2"), east.nodes)
        part = section(failed(spare, WEST, target="1@east"), "Hardware").podms[0]
        self.assertEqual(({"unusable": 1, "used": 1, "free": 1}, ()), (part.uses, part.marks))

    def test_an_old_reading_is_marked(self):
        page = failed(EAST, {**WEST, "read_at": "2020-01-01T00:00:00Z"})
        marks = {one.name: one.marks for one in section(page, "Hardware").podms}
        self.assertEqual({"east": ("Offline",), "west": ("read 2020-01-01",)}, marks)

    def test_a_drain_says_that_nodes_move_away(self):
        page = failed(EAST, WEST, drained=True)
        self.assertEqual("Drain: east", page.title)
        self.assertEqual("1 of 2 nodes of east move away, 1 cannot", page.lead)

    def test_the_tone_says_how_it_went(self):
        small = {**EAST, "nodes": EAST["nodes"][:1]}
        self.assertEqual("good", failed(small, WEST).tone)
        self.assertEqual("bad", failed(EAST, DARK).tone)
        page = failed({"id": "east", "blocks": [block("/b/1")]}, WEST)
        self.assertEqual(("good", "No node is on east: nothing has to move"),
                         (page.tone, page.lead))  # fmt: skip
        self.assertEqual(["Hardware"], titles(page))

    def test_it_says_what_decided_on_which_inventory(self):
        app, site = app_and_site(EAST, WEST)
        facts = dict(app.whatif_page(app.whatif.fail(site, ["east"]), site).facts)
        self.assertEqual(("2", "default", "2", "3"),
                         (facts["Nodes"], facts["Policy"], facts["Pod managers"],
                          facts["Blocks"]))  # fmt: skip
        self.assertRegex(facts["Inventory"], "^[0-9a-f]{32}$")

    def test_notes_are_at_the_end_and_nodes_without_blocks_say_so(self):
        unknown = {**EAST, "nodes": [node("n3")]}
        page = failed(unknown, WEST)
        self.assertIn(
            "its hardware is unknown", table(page, "Nodes that cannot be re-placed")[0][-1]
        )
        self.assertIsInstance(page.sections[-1], Lines)

    def test_a_long_table_says_that_it_is_cut(self):
        app, site = app_and_site(EAST, WEST)
        result = app.whatif.fail(site, ["east"])
        many = Relocation(why="failed", target="east", nodes=5000, stuck=result.stuck * 5000)
        page = relocation_page(many, HardwareListing((), {}, {}))
        self.assertEqual(MOST_ROWS, len(table(page, "Nodes that cannot be re-placed")))
        self.assertIn("2,000 of 5,000", section(page, "Nodes that cannot be re-placed").text)

    def test_hostile_names_of_everything_are_harmless(self):
        evil = EVIL + "<script>"
        podms = ({"id": f"a{evil}", "blocks": [block(f"/b/{evil}", **USED)],
                  "nodes": [{**node(evil, f"/b/{evil}"), "owner": evil}]},
                 {"id": f"b{evil}", "blocks": [block(f"/b/9{evil}")]})  # fmt: skip
        app, site = app_and_site(*podms)
        text = page_html(app.whatif_page(app.whatif.fail(site, ["a*"]), site)).decode()
        self.assertEqual("", raw(text))
        self.assertEqual(1, text.count("<script"))
        self.assertIn("can be re-placed", text)


class TestRebalance(unittest.TestCase):
    """Moves that reach a goal."""

    def test_it_says_what_moves_and_what_that_makes_room_for(self):
        full = {"id": "east", "blocks": [block("/b/1", **USED), block("/b/2")],
                "nodes": [node("n1", "/b/1")]}  # fmt: skip
        app, site = app_and_site(full, WEST)
        wanted = request({"processor": {"total_cores": 32}}, flavor="big")
        result = app.whatif.rebalance(site, 3, wanted, None, None)
        page = app.whatif_page(result, site, 3)
        self.assertEqual(("good", "Rebalance: room for big"), (page.tone, page.title))
        ((step, name, source, target, *_),) = table(page, "Moves")
        self.assertEqual(("1", "n1", "east", "west"), (step, name, source, target))
        self.assertEqual("0 before, 1 after", dict(page.facts)["Room"])
        east, west = section(page, "Hardware").podms
        self.assertEqual(("source", "destination"), (east.role, west.role))


class TestPurchase(unittest.TestCase):
    """The smallest purchase."""

    def page(self, count: int) -> Page:
        app, site = app_and_site(EAST, WEST)
        wanted = request({"processor": {"total_cores": 16}}, flavor="small", count=count)
        buy = [AddBlocks(add="9", to="west")]
        result = app.whatif.smallest_purchase(site, wanted, buy, {"9": 100.0})
        return app.whatif_page(result, site)

    def test_it_says_what_to_buy_and_for_whom(self):
        page = self.page(3)
        self.assertEqual("good", page.tone)
        self.assertEqual([("west", "row", "9", "2", "100", "200")], table(page, "Blocks to buy"))
        first = section(page, "Hardware").podms[0]
        self.assertEqual(("west", "buyer", "2 9 for row"), (first.name, first.role, first.text))

    def test_nothing_to_buy_is_said(self):
        page = self.page(1)
        self.assertNotIn("Blocks to buy", titles(page))
        self.assertIn("fit without a purchase", page.lead)


class TestSurvival(unittest.TestCase):
    """Whether the site survives failures of pod managers."""

    def page(self, *podms: dict[str, Any]) -> Page:
        app, site = app_and_site(*podms)
        return app.whatif_page(app.whatif.survive(site, 1, lambda tried, sets: None), site)

    def test_the_worst_set_is_named_and_stands_first_on_the_map(self):
        page = self.page(WEST, EAST)
        lead = "The site does not survive 1 failure: 1 of 2 combinations leave nodes unplaced"
        self.assertEqual(("bad", lead), (page.tone, page.lead))
        facts = dict(page.facts)
        self.assertEqual(("east", "1 of 2 nodes"),
                         (facts["Worst set"], facts["Nodes that cannot be re-placed"]))  # fmt: skip
        self.assertEqual("n2", table(page, "Nodes that cannot be re-placed")[0][0])
        first = section(page, "Hardware").podms[0]
        self.assertEqual(("east", "source", ("Offline",)), (first.name, first.role, first.marks))

    def test_a_site_that_survives_says_so(self):
        page = self.page({**EAST, "nodes": EAST["nodes"][:1]}, WEST)
        lead = (
            "The site survives 1 pod manager failure: "
            "every node can be re-placed (2 of 2 sets tried)"
        )
        self.assertEqual(("good", lead), (page.tone, page.lead))
