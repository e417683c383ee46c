# SPDX-License-Identifier: Apache-2.0
"""The pages of a decision and of an inventory: their sections and texts."""

import json
import re
import unittest
from pathlib import Path
from typing import get_args

from msgspec.structs import replace

from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.inventories import (
    CORES,
    PODMS,
    USED,
    block,
    decided,
    engine,
    section,
    table,
    titles,
)
from valence_sched.model.claim import Claim, ComposedNode, State
from valence_sched.model.decision import Reports
from valence_sched.model.hardware import PodmOverview
from valence_sched.model.lifecycle import ClaimRecord, Event, NodeStatus
from valence_sched.model.page import (
    FunnelChart,
    HardwareMap,
    Lines,
    MapBlock,
    MapGroup,
    MapPodm,
    MapPool,
    Page,
)
from valence_sched.model.quantity import format_count
from valence_sched.pages import hardware as pages_hardware, site
from valence_sched.pages.decision import decision_page
from valence_sched.pages.hardware import decision_map, inventory_map, inventory_page, read_hardware
from valence_sched.pages.render import (
    MOST_TAKERS,
    PageLinks,
    PageWriter,
    map_detail,
    map_zones,
    page_html,
    use_text,
)
from valence_sched.testing import request
from valence_sched.testing.generate import podms
from valence_sched.words.phrases import state_text

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
                         "Nothing is placed: [1-8] of 9 nodes would fit, but all must")  # fmt: skip
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

    def test_an_explanation_of_another_version_is_shown(self):
        """A zone with other weighers, or with a number beyond floats: an internal error."""
        report, site = decided(*PODMS, alternates=1)
        known = report.explanation
        first, second, *others = known.candidates
        more = replace(second, parts=second.parts[1:], excess={"quarks": 2.0})
        misses = tuple(
            replace(miss, lacks=tuple(replace(one, need=10**4000) for one in miss.lacks))
            for miss in known.nearest_misses
        )
        self.assertTrue(misses)
        explained = replace(known, candidates=(first, more, *others), nearest_misses=misses)
        page = decision_page(replace(report, explanation=explained), site)
        self.assertIn("2 quarks", page_html(page).decode())

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
            self.assertEqual(1, text.count("<script"))
            self.assertIn("&lt;script&gt;", text)


class TestInventory(unittest.TestCase):
    """An inventory."""

    def test_it_counts_each_block_once_and_each_use(self):
        page = inventory_page(read_hardware(engine(*PODMS)))
        lead = "5 of 9 blocks are usable on 4 pod managers"
        why = "1 more are free on pod managers that take no nodes (1 Offline)"
        self.assertEqual(f"{lead}; {why}", page.lead)
        facts = dict(page.facts)
        self.assertEqual(("5", "9", "1"), (facts["Pools"], facts["Blocks"], facts["Nodes"]))
        self.assertEqual(("1", "1"), (facts["Shared blocks"], facts["Unusable blocks"]))

    def test_it_says_what_is_free_of_each_resource_device_and_pod_manager(self):
        page = inventory_page(read_hardware(engine(*PODMS)))
        self.assertIn(("Cores", "68", "84", "132", "48%"), table(page, "Free resources"))
        self.assertIn(("CPU", "EPYC", "5", "6", "9", "44%", "4"), table(page, "Devices"))
        east, dark, *_ = table(page, "Pod managers")
        self.assertEqual(("east", "Online", "az1", "3 of 5", "48 of 80"), east[:5])
        self.assertEqual(("dark", "Offline", "", "0 of 1 (1 free)", "0 of 16 (16 free)"), dark[:5])
        self.assertEqual([("web", "east", "", "", "c3, c5")], table(page, "Nodes"))

    def test_it_tells_what_is_free_from_what_is_usable(self):
        blocks = [block("/b/1"), block("/b/2", **USED)]
        off = ({"id": "off", "blocks": blocks, "enabled": False},
               {"id": "lost", "blocks": blocks, "status": "Unknown"})  # fmt: skip
        page = inventory_page(read_hardware(engine(*PODMS, *off), old={"east": "2026-01-05"}))
        self.assertIn("3 more are free on pod managers that take no nodes (1 Offline, 1 disabled, "
                      "1 unreachable)", page.lead)  # fmt: skip
        self.assertEqual("1 pod manager", dict(page.facts)["Old readings"])
        marks = {one.name: one.marks for one in section(page, "Hardware").podms if one.marks}
        self.assertEqual({"east": ("read 2026-01-05",), "dark": ("Offline",), "off": ("disabled",),
                          "lost": ("unreachable",)}, marks)  # fmt: skip
        html = page_html(page).decode()
        self.assertIn("free, but the pod manager is Offline, disabled or unreachable", html)
        self.assertIn("0 of 2 usable, 1 more free", html)

    def test_what_is_unknown_is_not_a_zero(self):
        unknown = {"id": "a", "blocks": [{"uri": "/b/1", "devices": {"memory": [{"count": 2}]}}]}
        known = {"id": "b", "blocks": [{"uri": "/b/1", "devices": {"memory": [
            {"count": 1, "capacity_mib": 1024}]}}]}  # fmt: skip
        page = inventory_page(read_hardware(engine(unknown, known)))
        self.assertIn(
            ("Memory", "1 GiB+", "1 GiB+", "1 GiB+", "unknown"), table(page, "Free resources")
        )
        (first, second) = table(page, "Pod managers")
        self.assertIn("unknown of unknown", first)
        self.assertIn("1 GiB of 1 GiB", second)

    def test_an_empty_one_is_a_page_as_well(self):
        scheduler = engine({"id": "bare"})
        for some in ([], scheduler.podms()):
            text = page_html(inventory_page(read_hardware(scheduler, some))).decode()
            self.assertIn(
                f"0 of 0 blocks are usable on {format_count(len(some), 'pod manager')}", text
            )


EXAMPLES = Path(__file__).parents[3] / "examples"
MEGABYTE = 1_000_000


def uses(podm: MapPodm) -> dict[str, dict[str, str]]:
    """Return the uses of blocks by pool and name."""
    return {pool.name: {one.name: one.use for group in pool.groups for one in group.blocks}
            for pool in podm.pools}  # fmt: skip


def roles(podm: MapPodm) -> dict[str, str]:
    return {one.name: one.role for pool in podm.pools for group in pool.groups
            for one in group.blocks if one.role}  # fmt: skip


def takers(podm: MapPodm) -> dict[str, tuple[int, ...]]:
    return {one.name: one.takers for pool in podm.pools for group in pool.groups
            for one in group.blocks if one.takers}  # fmt: skip


class TestMap(unittest.TestCase):
    """The content of the map."""

    def test_each_block_stands_in_each_of_its_pools_with_its_use(self):
        east, *_ = inventory_map(read_hardware(engine(*PODMS))).podms
        self.assertEqual(
            {"a": {"c1": "free", "c2": "free", "c3": "used"},
             "b": {"c2": "free", "c4": "unusable", "c5": "shared"}}, uses(east))  # fmt: skip
        self.assertEqual({"free": 2, "used": 1, "unusable": 1, "shared": 1}, east.uses)
        self.assertEqual((("East hall",), "az1", ("web",)), (east.labels, east.zone, east.nodes))

    def test_blocks_that_hold_the_same_stand_together(self):
        (podm,) = inventory_map(read_hardware(engine({"id": "a", "blocks": [
            block("/b/1"), block("/b/2", cores=32), block("/b/3"),
            {"uri": "/b/4", "type": ["Storage"]}, {"uri": "/b/5"}]}))).podms  # fmt: skip
        groups = {group.label: [one.name for one in group.blocks] for group in podm.pools[0].groups}
        self.assertEqual({"16 cores EPYC": ["1", "3"], "32 cores EPYC": ["2"],
                          "Storage": ["4"], "devices unknown": ["5"]}, groups)  # fmt: skip

    def test_blocks_of_no_pool_have_a_place(self):
        (podm,) = inventory_map(read_hardware(engine(
            {"id": "a", "pools": [{"id": "p"}], "blocks": [block("/b/1")]}))).podms  # fmt: skip
        self.assertEqual({"p": {}, pages_hardware.NO_POOL: {"1": "free"}}, uses(podm))

    def test_each_node_of_a_decision_takes_blocks_of_its_own(self):
        report, site = decided(*PODMS, count=3, seed=3)  # which draws c5
        section = decision_map(site, [report])
        self.assertEqual(("node 1", "node 2", "node 3"), section.takers)
        drawn = {(podm.name, name): numbers for podm in section.podms
                 for name, numbers in takers(podm).items()}  # fmt: skip
        expected: dict[tuple[str, str], tuple[int, ...]] = {}
        for node in report.placements:
            for one in node.chosen.blocks:
                key = (node.chosen.podm, one.uri.rpartition("/")[2])
                expected[key] = (*expected.get(key, ()), node.node)
        self.assertEqual(expected, drawn)
        self.assertIn((1, 2, 3), drawn.values(), "a block that all share")
        html = page_html(Page(title="t", sections=(section,))).decode()
        self.assertIn('<li><i class="t t2">3</i>node 3</li>', html)
        self.assertIn('aria-label="c5: node 1, node 2, node 3; node web">1 2 3</a>', html)
        self.assertNotIn("></i>chosen</li>", html)

    def test_a_single_node_takes_what_is_chosen_without_a_number(self):
        report, site = decided(*PODMS)
        section = decision_map(site, [report])
        self.assertEqual((), section.takers)
        html = page_html(Page(title="t", sections=(section,))).decode()
        self.assertIn("></i>chosen</li>", html)
        self.assertNotIn("></i>alternate</li>", html)

    def test_each_of_several_requests_takes_blocks(self):
        scheduler = engine(*PODMS)
        wanted = [request(CORES, id=name, count=2) for name in ("one", "two")]
        reports = scheduler.select_all(wanted, detail="report").report.decisions
        section = decision_map(read_hardware(scheduler), reports)
        self.assertEqual(("one: 16 cores", "two: 16 cores"), section.takers)
        found = [numbers for podm in section.podms for numbers in takers(podm).values()]
        self.assertEqual({1, 2}, {number for numbers in found for number in numbers})

    def test_a_block_of_many_takers_counts_the_others(self):
        shared = MapGroup(label="l", blocks=(MapBlock("b", "shared", "chosen", (1, 2, 3, 4, 5)),))
        text = PageWriter().squares("p", shared, "names", tuple("abcde"))
        link = 'id="p/b" href="#p/b" aria-label="b: a, b, c +2">1 2 3 +2</a>'
        self.assertEqual(f'<a class="t t0" {link}', text)

    def test_more_takers_than_the_legend_has_room_for_are_counted(self):
        names = tuple(f"n{number}" for number in range(MOST_TAKERS + 3))
        section = HardwareMap(title="m", podms=(), takers=names)
        html = page_html(Page(title="t", sections=(section,))).decode()
        self.assertIn("<li>and 3 more</li>", html)
        self.assertNotIn(f"n{MOST_TAKERS}<", html)

    def test_only_named_pod_managers_are_read(self):
        scheduler = engine(*PODMS)
        wanted: list[PodmOverview] = [one for one in scheduler.podms() if one.podm.id == "west"]
        site = read_hardware(scheduler, wanted)
        self.assertEqual((["west"], ["west"]), ([*site.blocks], [*site.pools]))

    def test_a_map_of_very_many_pod_managers_says_what_it_leaves_out(self):
        site = read_hardware(engine(*({"id": f"p{n}"} for n in range(5))))
        usual, pages_hardware.MOST_PODMS = pages_hardware.MOST_PODMS, 3
        self.addCleanup(setattr, pages_hardware, "MOST_PODMS", usual)
        section = inventory_map(site)
        self.assertEqual(3, len(section.podms))
        self.assertIn("first 3 of 5", section.text)


class TestMapOfDecision(unittest.TestCase):
    """The marks of a decision on pod managers, pools and blocks."""

    def test_what_is_chosen_stands_first_and_each_has_a_role(self):
        report, site = decided(*PODMS, alternates=1)
        podms = decision_map(site, [report]).podms
        self.assertEqual({"chosen", "alternate"}, {podms[0].role, podms[1].role})
        self.assertEqual("chosen", podms[0].role)
        self.assertEqual({"dark", "small"}, {one.name for one in podms if one.role == "rejected"})
        (placement,) = report.placements
        self.assertEqual(podms[0].name, placement.chosen.podm)
        chosen = {pages_hardware.tail(one.uri): "chosen" for one in placement.chosen.blocks}
        self.assertEqual(chosen, roles(podms[0]))
        self.assertEqual({"alternate"}, set(roles(podms[1]).values()))

    def test_a_pod_manager_that_is_rejected_says_why(self):
        report, site = decided(*PODMS)
        texts = {one.name: one.text for one in decision_map(site, [report]).podms}
        self.assertIn("status Offline", texts["dark"])
        self.assertIn("4 of 16 cores", texts["small"])

    def test_of_several_decisions_the_kindest_verdict_counts(self):
        refused, _ = decided(*PODMS, exclude_podms=["west"])
        report, site = decided(*PODMS, podms=["west"])
        by_name = {one.name: one for one in decision_map(site, [refused, report]).podms}
        self.assertEqual("chosen", by_name["west"].role)
        self.assertEqual("chosen", by_name["east"].role)


class TestDrawing(unittest.TestCase):
    """The drawing of the map."""

    def test_squares_are_sorted_by_colour_and_then_by_number(self):
        blocks = [MapBlock("b10", "free"), MapBlock("b9", "used"), MapBlock("b2", "free"),
                  MapBlock("a", "unusable", "chosen"), MapBlock("b1", "shared")]  # fmt: skip
        markup = PageWriter().squares("p", MapGroup(label="l", blocks=tuple(blocks)), "squares")
        expected = (("c", "a"), ("f", "b2"), ("f", "b10"), ("s", "b1"), ("u", "b9"))
        drawn = "".join(f'<i class="{kind}" id="p/{name}"></i>' for kind, name in expected)
        self.assertEqual(drawn, markup)

    def test_what_is_wrong_with_a_block_is_drawn_and_said(self):
        failed = MapBlock("b1", "used", condition="Failed", nodes=("web",))
        text = PageWriter().squares("p", MapGroup(label="l", blocks=(failed,)), "names")
        words = "b1: in use, in a bad condition; Failed; node web"
        self.assertEqual(f'<a class="e" id="p/b1" href="#p/b1" aria-label="{words}"></a>', text)

    def test_a_block_in_two_pools_has_one_anchor(self):
        writer, group = PageWriter(), MapGroup(label="l", blocks=(MapBlock("b"),))
        first, second = (writer.squares("p", group, "squares") for _ in "ab")
        self.assertEqual(('<i class="f" id="p/b"></i>', '<i class="f"></i>'), (first, second))

    def test_what_is_shared_counts_as_free(self):
        podm = MapPodm(name="p", uses={"free": 2, "shared": 1, "used": 4, "unusable": 1})
        self.assertEqual("3 of 8 usable, 1 unusable", use_text(podm.uses))
        self.assertEqual("0 of 0 usable", use_text({}))
        self.assertEqual("0 of 3 usable, 2 more free", use_text({"idle": 2, "used": 1}))

    def test_a_large_map_loses_uses_then_squares_and_then_what_blocks_hold(self):
        def detail(blocks: int, podms: int = 1) -> str:
            group = MapGroup(label="l", blocks=(MapBlock("x" * 36),) * blocks)
            podm = MapPodm(name="a", pools=(MapPool(name="p", groups=(group,)),))
            return map_detail(HardwareMap(title="", podms=(podm,) * podms))

        self.assertEqual(
            ["names", "squares", "bars", "pools"],
            [detail(2_000), detail(8_000), detail(90_000), detail(1, 2_000)],
        )

    def test_many_pod_managers_stand_by_their_zones(self):
        podms = [MapPodm(name=f"p{n}", zone=f"z{n % 2}", uses={"free": 2}) for n in range(13)]
        zones = map_zones(HardwareMap(title="m", podms=tuple(podms)))
        found = [(one.name, len(one.podms), one.uses["free"]) for one in zones]
        self.assertEqual([("z0", 7, 14), ("z1", 6, 12)], found)
        self.assertEqual([], map_zones(HardwareMap(title="m", podms=tuple(podms[:12]))))
        chosen = (replace(podms[0], role="chosen"), *podms[1:])
        self.assertEqual([], map_zones(HardwareMap(title="m", podms=chosen)))

    def test_a_map_of_bars_says_why(self):
        group = MapGroup(label="l", blocks=(MapBlock("x"),) * 200_000)
        podm = MapPodm(name="a", uses={"free": 200_000},
                       pools=(MapPool(name="p", groups=(group,)),))  # fmt: skip
        text = page_html(
            Page(title="t", sections=(HardwareMap(title="m", podms=(podm,)),))
        ).decode()
        self.assertIn("too many blocks to draw each as a square", text)
        self.assertLess(len(text), 50_000)


class TestSize(unittest.TestCase):
    """A page of 100 pod managers of 100 blocks, or of 1,000 pod managers, is below 1 MB."""

    def test_a_thousand_pod_managers_with_an_anchor_for_each_of_their_nodes(self):
        site = [{"id": f"rack-{n:04}", "zone": f"zone-{n % 8}", "blocks": [
            block(f"/redfish/v1/ResourceBlocks/Compute-{n}-{b:02}", **(USED if b < 4 else {}))
            for b in range(6)], "nodes": [
            {"uri": f"/redfish/v1/Systems/{n}-{b}", "name": f"service-{n:04}-{b}",
             "blocks": [f"/redfish/v1/ResourceBlocks/Compute-{n}-{b:02}"]} for b in range(4)]}
            for n in range(1000)]  # fmt: skip
        text = page_html(inventory_page(read_hardware(engine(*site)))).decode()
        self.assertLess(len(text), MEGABYTE)
        self.assertEqual(1000, len(re.findall(r' id="rack-\d{4}"', text)))
        self.assertEqual(4000, len(re.findall(r' id="rack-\d{4}/node/service-\d{4}-\d"', text)))

    def test_a_thousand_pod_managers_whose_readings_are_old(self):
        example = json.loads((EXAMPLES / "site.json").read_text())["podms"]
        copies = engine(*({**one, "id": f"{one['id']}-{copy:03}"}
                          for copy in range(125) for one in example))  # fmt: skip
        every = [one.podm.id for one in copies.podms()]
        old = dict.fromkeys(every, "2026-01-05")
        for some, marks, note in (
            (old, 0, " All readings are old: from 2026-01-05."),
            (old | {every[0]: "2026-01-03"}, 1, "from 2026-01-05, unless another day is shown."),
            (dict(list(old.items())[1:]), 999, "drawn in each of them."),
        ):
            with self.subTest(note):
                text = page_html(inventory_page(read_hardware(copies, old=some))).decode()
                self.assertLess(len(text), MEGABYTE)
                self.assertEqual(marks, text.count('<span class="tag old">read 2026-01-0'))
                self.assertIn(f"{note}</p>", text)
                self.assertEqual(len(some), text.count("Z (old)"))

    def test_an_inventory_with_long_names_of_blocks_in_many_pools(self):
        for pools, uri in ((2, ""), (8, ""), (2, "4c4c4544-0042-3510-8051-")):
            with self.subTest(pools=pools, uri=uri):
                texts = (text.decode().replace("ResourceBlocks/", f"ResourceBlocks/{uri}")
                         for text in podms(100, 100, 7, pools))  # fmt: skip
                site = read_hardware(engine(*map(json.loads, texts)))
                size = len(page_html(inventory_page(site)))
                self.assertLess(size, MEGABYTE)
                self.assertGreater(size, 200_000, "all of it is there")


class TestStates(unittest.TestCase):
    """States of claims and nodes on the pages."""

    def test_a_claim_in_use_and_an_unmanaged_node_have_these_words(self):
        links, node = PageLinks(0), ComposedNode(id="n", podm="p", uri="/n", claim="c")
        claim = Claim(id="c", state="SETTLED")
        events = (Event(at=0.0, kind="settled", claim="c"),)
        record = ClaimRecord(claim=claim, nodes=(), events=events)
        status = NodeStatus(node=node, state="FOREIGN")
        one, other = site.claim_page(record, links), site.node_page(status, (), links)
        self.assertEqual(("State", "IN USE"), one.facts[0])
        self.assertTrue(one.lead.startswith("IN USE: "))
        self.assertEqual("in use", table(one, "Events")[0][1])
        self.assertEqual(
            (("State", "UNMANAGED"), "UNMANAGED: unknown"), (other.facts[0], other.lead)
        )
        for page, word in (
            (site.claims_page([claim], links, every=1), "IN USE"),
            (site.nodes_page([status], links, every=1), "UNMANAGED"),
        ):
            self.assertEqual(word, table(page, "Newest first")[0][1])

    def test_other_states_are_shown_as_they_are(self):
        for state in {*get_args(State), "GONE", "UNKNOWN"} - {"SETTLED"}:
            self.assertEqual(state, state_text(state))
