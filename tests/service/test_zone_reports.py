# SPDX-License-Identifier: Apache-2.0
"""The reports of a zone on its pod managers and on those below it, over real sockets."""

import contextlib
import json
import socket
import threading
import unittest
import urllib.parse
import urllib.request
from random import Random

from msgspec.structs import replace

from tests.service.zone_services import ZoneServices, child_server, scheduler
from tests.unit.zones.scarce_sites import CORES, TENTHS, card, scarce_podm
from valence_sched.client import SchedulerClient
from valence_sched.core.explain.verdicts import in_order
from valence_sched.errors import ServiceError, UnknownName, UsageError
from valence_sched.model.decision import with_podm_paths
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.page import HardwareMap
from valence_sched.model.request import Request
from valence_sched.model.zone_registry import ZoneChange, ZoneReport
from valence_sched.pages.decision import decision_page
from valence_sched.pages.hardware import read_hardware
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone

NODE = Request(flavor="node", needs=(CORES,))
CARD = Request(flavor="card", needs=(TENTHS, card("NVIDIA A100")))
MOST = 100
#: The zone of each pod manager, in the tree and by path.
ZONES = {"podm-0": "", "podm-1": "east", "podm-2": "east", "podm-3": "east/e1", "podm-4": "west"}


def path(podm: str) -> str:
    return "/".join(filter(None, (ZONES[podm], podm)))


def by_path(found) -> list:
    """Return the report of one zone with all pod managers, named by path, in any order."""
    return sorted((replace(one, podm=path(one.podm)) for one in found), key=repr)


class ReportCase(unittest.TestCase):
    """A zone with its own pod managers, children and a grandchild, and one flat zone with all."""

    def setUp(self):
        self.zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        random = Random(7)
        self.podms = [scarce_podm(number, random) for number in range(5)]

    def start_tree(self, e1=None, deadline_s=5.0):
        """Start the tree, with a second grandchild if its URL is given."""
        podms = self.podms
        e1 = e1 or self.zones.start("e1", podms[3:4])
        east = self.zones.start("east", podms[1:3], {"e1": e1}, {"offer_deadline_s": 30.0})
        west = self.zones.start("west", podms[4:])
        self.url = self.zones.start("top", podms[:1], {"east": east, "west": west},
                                    {"offer_deadline_s": deadline_s})  # fmt: skip
        self.urls = {"e1": e1, "east": east, "west": west}
        return scheduler(self.url)

    def get(self, path_):
        with urllib.request.urlopen(f"{self.url}{path_}", timeout=30) as answer:
            return answer.read().decode(), answer.headers


class TestWhole(ReportCase):
    """If every zone answers, the tree reports the same as one zone with all pod managers."""

    def setUp(self):
        super().setUp()
        self.top, self.flat = self.start_tree(), scheduler(self.zones.start("all", self.podms))

    def test_lists_have_what_all_zones_have_by_path(self):
        expected = {path(one.podm.id): one.amounts for one in self.flat.podms()}
        podms = self.top.podms()
        self.assertEqual(expected, {one.podm.id: one.amounts for one in podms})
        self.assertEqual((), podms.silent)
        for wanted in (BlockFilter(), BlockFilter(free=True), BlockFilter(model="H100")):
            with self.subTest(wanted):
                found = sorted(self.top.blocks(wanted), key=repr)
                self.assertEqual(by_path(self.flat.blocks(wanted)), found)
                self.assertEqual(self.flat.device_counts(wanted), self.top.device_counts(wanted))
        self.assertEqual(by_path(self.flat.pools()), sorted(self.top.pools(), key=repr))
        requests = [NODE, CARD]
        stranded = sorted(self.top.stranded(requests), key=repr)
        self.assertEqual(by_path(self.flat.stranded(requests)), stranded)
        self.assertTrue(stranded)

    def test_what_is_asked_of_one_pod_manager_is_asked_of_its_zone(self):
        for podm in ZONES:
            with self.subTest(podm):
                name = path(podm)
                self.assertEqual(name, self.top.podm(name).podm.id)
                self.assertEqual(name, self.top.podm(podm).podm.id)  # no other zone has the name
                wanted = BlockFilter(podm=podm)
                found = self.top.blocks(replace(wanted, podm=name))
                self.assertEqual(by_path(self.flat.blocks(wanted)), sorted(found, key=repr))
                self.assertEqual(by_path(self.flat.pools(podm)),
                                 sorted(self.top.pools(name), key=repr))  # fmt: skip
                self.assertEqual(self.flat.device_counts(wanted),
                                 self.top.device_counts(replace(wanted, podm=name)))  # fmt: skip
                self.assertEqual(name, self.top.block("c0", name).podm)
                self.assertEqual({}, self.top.block_usage(name).held)

    def test_a_block_of_several_zones_is_not_guessed(self):
        with self.assertRaisesRegex(UsageError, "choose one with --podm"):
            self.top.block("c0")
        with self.assertRaises(UnknownName):
            self.top.block("nowhere")

    def test_nodes_that_fit_add_up(self):
        for asked in (NODE, CARD):
            with self.subTest(asked):
                flat, found = (one.capacity(asked, MOST, explain=True, proven=True)
                               for one in (self.flat, self.top))  # fmt: skip
                expected = {path(one.podm): one.nodes for one in flat.podms}
                self.assertEqual(expected, {one.podm: one.nodes for one in found.podms})
                self.assertEqual((flat.nodes, flat.podm_sums), (found.nodes, found.podm_sums))
                self.assertEqual(flat.proven, found.proven)
                expected = {(one.resource, tuple(sorted(map(path, one.podms))))
                            for one in flat.exhausted}  # fmt: skip
                self.assertEqual(expected, {(one.resource, tuple(sorted(one.podms)))
                                            for one in found.exhausted})  # fmt: skip
                counts = self.top.count_fits(asked, MOST)
                expected = {path(podm): n for podm, n in self.flat.count_fits(asked, MOST).podms}
                self.assertEqual(expected, dict(counts.podms))
                self.assertEqual((), counts.silent)

    def test_pod_managers_are_named_by_their_path_in_every_verb(self):
        """As lists print them, and by plain name."""
        names = [path(podm) for podm in ZONES]
        for number, name in enumerate(names):
            for one, flat in ((name, f"podm-{number}"), (f"podm-{number}", f"podm-{number}")):
                for words, alike in (
                    ({"podms": (one,)}, {"podms": (flat,)}),
                    ({"exclude_podms": (one,)}, {"exclude_podms": (flat,)}),
                ):
                    asked, whole = replace(NODE, **words), replace(NODE, **alike)
                    with self.subTest(one, words=words):
                        self.check_alike(asked, whole)
        for name in ("east/podm-4", "west/nope", "nope"):
            for verb in (self.top.select_destinations, lambda one: self.top.count_fits(one, MOST)):
                with self.assertRaisesRegex(UnknownName, f"'{name}'"):
                    verb(replace(NODE, podms=(name,)))

    def check_alike(self, asked, whole):
        """Check that the tree answers a request as the flat zone does, by path."""
        ranked = {(one.podm, one.pool): one.score for one in self.top.rank(asked, 9).candidates}
        expected = self.flat.rank(whole, 9).candidates
        self.assertEqual({(path(one.podm), one.pool): one.score for one in expected}, ranked)
        (one,) = with_podm_paths(self.top.select_destinations(asked).report).placements
        self.assertEqual(max(ranked.values()), ranked[one.chosen.podm, one.chosen.pool])
        fits = dict(self.flat.count_fits(whole, MOST).podms)
        found = {podm: number for podm, number in self.top.count_fits(asked, MOST).podms if number}
        self.assertEqual({path(podm): number for podm, number in fits.items() if number}, found)
        self.assertEqual(
            self.flat.capacity(whole, MOST).nodes, self.top.capacity(asked, MOST).nodes
        )
        self.assertEqual(by_path(self.flat.stranded((whole,))),
                         sorted(self.top.stranded((asked,)), key=repr))  # fmt: skip

    def test_the_client_names_destinations_by_their_path_and_takes_them_back(self):
        caller = SchedulerClient(self.top)
        spec = {"properties": {"processor": {"total_cores": 1}}, "alternates": 4}
        (found,) = caller.select_destinations(None, spec, {"exclude_podms": ["podm-0"]})
        names = [found["name"], *found["alternates"]]
        self.assertEqual({path(podm) for podm in list(ZONES)[1:]}, set(names))
        for name in names:
            caller.update_resource_stats(None, name, {"load": 0.5})
            self.assertEqual(0.5, self.top.reported_stats(name).stats["load"])
            (again,) = caller.select_destinations(None, spec, {"podms": [name]})
            self.assertEqual(name, again["name"])

    def test_a_decision_is_explained_as_one_zone_explains_it(self):
        """With candidates, reasons, near misses and sensitivity."""
        for asked in (NODE, CARD, replace(NODE, count=3, alternates=1), replace(CARD, count=99),
                      replace(NODE, count=99, min_count=1),
                      replace(NODE, count=99, exclude_podms=("podm-0",))):  # fmt: skip
            found = self.top.select_destinations(asked, detail="report").report
            flat = self.flat.select_destinations(asked, detail="report").report
            with self.subTest(asked.flavor, count=asked.count):
                self.assertEqual(flat.placed, found.placed)
                expected = in_order(replace(one, podm=path(one.podm)) for one in flat.podms)
                self.assertEqual(expected, list(found.podms))
                theirs, ours = flat.explanation, found.explanation
                self.assertEqual(
                    [(path(one.podm), one.outcome, one.score) for one in theirs.candidates],
                    [(one.podm, one.outcome, one.score) for one in ours.candidates],
                )
                self.assertEqual({path(one.podm) for one in theirs.nearest_misses},
                                 {one.podm for one in ours.nearest_misses})  # fmt: skip
                kinds = [[(one.kind, bool(one.freeing)) for one in every.nearest_misses]
                         for every in (theirs, ours)]  # fmt: skip
                self.assertEqual(*kinds)
                first, second = theirs.runner_up, ours.runner_up
                expected = first and replace(first, podm=path(first.podm))
                self.assertEqual(expected, second)
                self.assertEqual(
                    [(one.name, one.becomes, one.podm and path(one.podm),
                      one.instead_of and path(one.instead_of)) for one in theirs.flips],
                    [(one.name, one.becomes, one.podm, one.instead_of) for one in ours.flips],
                )  # fmt: skip
                self.assertEqual(flat.inventory.podms, found.inventory.podms)

    def test_what_a_zone_tells_covers_what_is_below(self):
        """S77: its ranges are the same as for one zone with all pod managers."""
        for zone, child in (("east", "e1"), ("top", "east"), ("top", "west")):
            info = scheduler(self.urls[child]).zone_info()
            with Store(self.zones.state(zone)) as store:
                known = ZoneReport(is_active=True, info=info, reason="")
                store.zones.record([PolledZone(store.zones.show(child), known)])
        ranges = self.top.zone_info().services
        self.assertEqual(self.flat.zone_info().services, ranges)
        self.assertNotEqual(scheduler(self.urls["west"]).zone_info().services, ranges)
        self.top.change_zone("east", ZoneChange(enabled=False))
        self.top.change_zone("west", ZoneChange(enabled=False))
        alone = scheduler(self.zones.start("alone", self.podms[:1])).zone_info().services
        self.assertEqual(alone, self.top.zone_info().services)

    def test_a_mix_is_counted_by_each_zone_and_the_report_says_so(self):
        found = self.top.mix_capacity([NODE, CARD], [2, 1], MOST, proven=True)
        zones = [scheduler(self.zones.start(f"alone-{number}", podms))
                 for number, podms in enumerate((self.podms[:1], self.podms[1:3],
                                                 self.podms[3:4], self.podms[4:]))]  # fmt: skip
        alone = [one.mix_capacity([NODE, CARD], [2, 1], MOST).nodes for one in zones]
        self.assertEqual((sum(alone), sum(alone)), (found.nodes, sum(found.by_flavor.values())))
        self.assertGreater(found.nodes, 0)
        self.assertIsNone(found.proven)
        self.assertIn("may fit more or fewer", found.warnings[-1])

    def test_a_page_of_a_decision_draws_the_pod_managers_of_all_zones(self):
        report = self.top.select_destinations(replace(NODE, count=5)).report
        expected = {path(one.chosen.podm) for one in report.placements}
        self.assertGreater(len(expected), 2)
        page = decision_page(report, read_hardware(self.top))
        (drawn,) = (one for one in page.sections if isinstance(one, HardwareMap))
        chosen = {one.name for one in drawn.podms for pool in one.pools for group in pool.groups
                  for block in group.blocks if block.role == "chosen"}  # fmt: skip
        self.assertEqual(expected, chosen)
        named = with_podm_paths(report)
        self.assertEqual(expected, {one.chosen.podm for one in named.placements})

    def test_pages_show_the_pod_managers_of_all_zones(self):
        page, _ = self.get("/ui")
        for podm in ZONES:
            self.assertIn(f">{path(podm)}<", page)
        name = urllib.parse.quote("east/e1/podm-3", safe="")
        page, _ = self.get(f"/ui/podms/-?name={name}")
        self.assertIn("Podm east/e1/podm-3", page)


class TestCapabilities(ReportCase):
    """Zones that state capabilities, which their pod managers do not have."""

    def test_they_hold_for_every_pod_manager_below_in_every_verb(self):
        eu, cold = {"capabilities": "region=eu"}, {"capabilities": "cooling=air"}
        e1 = self.zones.start("e1", self.podms[3:4], zones=cold)
        east = self.zones.start("east", self.podms[1:3], {"e1": e1}, eu)
        west = self.zones.start("west", self.podms[4:], zones={"capabilities": "region=us"})
        top = self.zones.start("top", self.podms[:1], {"east": east, "west": west})
        self.assertEqual({"east/podm-1", "east/podm-2", "east/e1/podm-3"},
                         self.having(top, region="eu"))  # fmt: skip
        self.assertEqual({"podm-4"}, self.having(west, region="us"))
        self.assertEqual({"e1/podm-3"}, self.having(east, cooling="air"))
        self.assertEqual({"e1/podm-3"}, self.having(east, region="eu", cooling="air"))
        self.assertEqual({"podm-1", "podm-2", "e1/podm-3"}, self.having(east, region="eu"))
        self.assertEqual(set(), self.having(e1, region="eu"))
        asked = self.asked(region="asia", cooling="air")
        result = scheduler(east).select_destinations(asked, detail="report")
        texts = {one.podm: one.reason.text for one in result.report.podms}
        self.assertIn("region: needs asia, has eu", texts["e1/podm-3"])

    def asked(self, **capabilities):
        return replace(NODE, capabilities={key: (one,) for key, one in capabilities.items()})

    def having(self, url, **capabilities):
        """Return the pod managers on which a zone places and counts nodes, for each form of a
        request.
        """
        zone, found = scheduler(url), []
        terms = [["=", f"$capabilities.{key}", one] for key, one in capabilities.items()]
        for asked in (
            self.asked(**capabilities),
            replace(NODE, where=["and", ["=", "$enabled", True], *terms]),
            replace(NODE, attributes={f"capabilities.{key}": one
                                      for key, one in capabilities.items()}),
        ):  # fmt: skip
            found.append({one.podm for one in zone.rank(asked, 9).candidates})
            counted = {podm for podm, number in zone.count_fits(asked, MOST).podms if number}
            self.assertEqual(found[0], found[-1])
            self.assertEqual(found[0], counted)
        return found[0]


class TestRouter(ReportCase):
    """A zone without pod managers of its own reports the pod managers of the zones below."""

    def test_it_lists_theirs(self):
        west = self.zones.start("west", self.podms[4:])
        router = scheduler(self.zones.start("router", (), {"west": west}))
        self.assertEqual(["west/podm-4"], [one.podm.id for one in router.podms()])
        self.assertEqual(["west/podm-4"], [one.podm for one in router.capacity(NODE, 9).podms])
        with self.assertRaises(UnknownName):
            router.podm("nowhere")


class TestSilent(ReportCase):
    """A silent zone is named, and the reports of the others are complete."""

    def test_a_hung_grandchild_does_not_silence_its_parent(self):
        """Each level has eight tenths of the time of the level above, as for decisions."""
        gate, told = threading.Event(), []
        self.addCleanup(gate.set)

        def hang(path_, _query):
            told.append(path_)
            return lambda _stream: gate.wait(60)

        top = self.start_tree(self.enterContext(child_server(hang)), deadline_s=2.0)
        missing = {"podm-3"}
        expected = {path(podm) for podm in ZONES.keys() - missing}
        for ask in (lambda: {one.podm.id for one in top.podms()},
                    lambda: {one.podm for one in top.blocks(BlockFilter())},
                    lambda: {one.podm for one in top.capacity(NODE, MOST).podms}):  # fmt: skip
            self.assertEqual(expected, ask())
        for found in (top.podms(), top.capacity(NODE, MOST), top.claims(), top.nodes()):
            (silent,) = found.silent
            self.assertEqual(("east/e1", "it did not answer in time"), (silent.zone, silent.reason))
        self.assertTrue(told)

    def test_a_dead_zone_is_named_in_the_header_and_in_counts(self):
        reserved = self.enterContext(socket.socket())
        reserved.bind(("127.0.0.1", 0))  # it does not listen, and no other server gets its port
        top = self.start_tree(f"http://127.0.0.1:{reserved.getsockname()[1]}")
        for path_ in ("/v1/podms", "/v1/pools", "/v1/blocks", "/v1/devices"):
            with self.subTest(path_):
                _, headers = self.get(path_)
                (zone,) = json.loads(headers["Silent-Zones"])
                self.assertEqual("east/e1", zone["zone"])
        (silent,) = top.stranded([NODE]).silent
        self.assertEqual("east/e1", silent.zone)
        (silent,) = top.count_fits(NODE, MOST).silent
        self.assertIn("does not answer", silent.reason)
        with self.assertRaisesRegex(ServiceError, "zone east/e1: |may have block"):
            top.block("nowhere")
