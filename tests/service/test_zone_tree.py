# SPDX-License-Identifier: Apache-2.0
"""One decision over a tree of zones, each a separate service behind real sockets."""

import contextlib
import json
import unittest
from pathlib import Path
from random import Random
from urllib.parse import unquote

from msgspec.structs import replace

from tests.functional.programs import SITE
from tests.service.application import RACK
from tests.service.serving import wait_for
from tests.service.zone_services import ZoneServices, scheduler
from tests.unit.zones.scarce_sites import scarce_decider, scarce_podm, scarce_request
from tests.unit.zones.test_tree_as_flat import decider, podm, request
from valence_sched.errors import RequestError
from valence_sched.model.diagnostic import AuditLine
from valence_sched.model.lifecycle import ClaimRecord, ClaimResult
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.verbs import ClaimBody
from valence_sched.planning.batches import BatchPlan
from valence_sched.planning.succession import Succession
from valence_sched.remote.connection import ServiceConnection
from valence_sched.testing import request as compiled
from valence_sched.testing.served import served


def with_own_mix(asked: Request) -> Request:
    """Return a request with a mix: services have flavors that the flat zone lacks."""
    return replace(asked, mix=asked.mix if asked.mix.shares else Mix((FlavorShare(asked.needs),)))


class TestTreeOverHttp(unittest.TestCase):
    """The choice does not depend on the boundaries of services."""

    REQUESTS = 40
    batches = 0

    def setUp(self):
        self.zones = ZoneServices(self.enterContext(contextlib.ExitStack()))

    def check_as_flat(self, url, podms, random):
        """Check that a zone places each request like one zone with all these pod managers."""
        flat, tree = decider(podms), scheduler(url)
        compared = 0
        for _ in range(self.REQUESTS):
            asked = with_own_mix(request(random))
            if asked.policy == "picky":  # a policy of the test only
                continue
            try:
                decision = flat.select_destinations(asked)
            except RequestError:
                continue
            with self.subTest(asked):
                report = tree.select_destinations(asked).report
                self.assertEqual(
                    [(one.choice, one.chosen) for one in decision.placements],
                    [(one.choice, one.chosen) for one in report.placements],
                )
                self.assertEqual(decision.outcome, report.outcome)
                self.assertEqual(decision.fit_count, report.fitting)
                self.assertEqual(((), ()), (report.zones.silent, report.zones.excluded))
                compared += bool(report.placements)
        self.assertGreater(compared, self.REQUESTS // 4)
        for _ in range(self.REQUESTS // 4):
            self.check_several_as_flat(
                tree, flat, [with_own_mix(request(random)) for _ in range(3)]
            )

    def check_scarcity_as_flat(self, url, podms, random):
        """Check that the scarcity of a mix is the same as in one zone with all pod managers."""
        flat, tree, scarce = scarce_decider(podms), scheduler(url), 0
        for _ in range(self.REQUESTS):
            asked = scarce_request(random)
            if asked.policy == "beside":  # a policy of the test only
                continue
            decision = flat.select_destinations(asked)
            with self.subTest(asked):
                report = tree.select_destinations(asked).report
                self.assertEqual(decision.context.request.mix, report.request.mix)
                self.assertEqual(
                    [(one.choice, one.chosen) for one in decision.placements],
                    [(one.choice, one.chosen) for one in report.placements],
                )
                self.assertEqual((), report.warnings)
                scarce += bool(report.request.mix.scarcity)
        self.assertGreater(scarce, self.REQUESTS // 8)

    def check_several_as_flat(self, tree, flat, requests):
        """Check that several requests get the same as from one zone, in the first order tried."""
        requests = [one for one in requests if one.policy != "picky"]
        succession = Succession(flat)
        if len(requests) < 2:
            return
        try:
            plan = BatchPlan(succession, requests, succession.budget(requests))
            decisions = plan.trial(next(plan._orders())).decisions
        except RequestError:
            return
        expected = [[(node.choice, node.chosen) for node in one.placements] for one in decisions]
        if sum(map(len, expected)) < sum(one.count for one in requests):
            return  # then other orders are tried
        self.batches += 1
        with self.subTest(requests):
            report = tree.select_all(requests).report
            found = [
                [(one.choice, one.chosen) for one in each.placements] for each in report.decisions
            ]
            self.assertEqual(expected, found)
            self.assertEqual(sum(map(len, expected)), report.placed)

    def test_a_tree_of_services_places_what_a_flat_zone_places(self):
        """S39, S70: own pod managers, a child and a grandchild answer as one zone."""
        random = Random(5)
        podms = [podm(number, random) for number in range(9)]
        leaf = self.zones.start("leaf", podms[:3])
        middle = self.zones.start("middle", podms[3:5], {"below": leaf})
        side = self.zones.start("side", podms[5:7])
        top = self.zones.start("top", podms[7:], {"left": middle, "right": side})
        self.check_as_flat(top, podms, random)
        self.assertGreater(self.batches, 0)

    def test_what_is_scarce_is_what_is_scarce_in_all_zones(self):
        """S39: also for later requests of one decision, after the nodes of the earlier ones."""
        random = Random(3)
        podms = [scarce_podm(number, random) for number in range(8)]
        leaf = self.zones.start("leaf", podms[:3])
        middle = self.zones.start("middle", podms[3:5], {"below": leaf})
        side = self.zones.start("side", podms[5:])
        top = self.zones.start("top", (), {"left": middle, "right": side})
        self.check_scarcity_as_flat(top, podms, random)
        for _ in range(self.REQUESTS // 4):
            asked = [replace(scarce_request(random), policy="fragmentation") for _ in range(3)]
            self.check_several_as_flat(scheduler(top), scarce_decider(podms), asked)

    def test_a_zone_without_pod_managers_is_a_router(self):
        """S75: its answer is the merged answer of its children."""
        random = Random(11)
        podms = [podm(number, random) for number in range(6)]
        left, right = self.zones.start("a", podms[:3]), self.zones.start("b", podms[3:])
        self.check_as_flat(self.zones.start("top", (), {"a": left, "b": right}), podms, random)


class TestSelected(unittest.TestCase):
    """S82: the examples of the founding document, from readings and from stated zones."""

    EUROPE, AMERICA = ("eu/gpu-west", "eu/general-1"), ("na/gpu-north", "na/gpu-east")

    @classmethod
    def setUpClass(cls):
        """Serve two zones, each with two pod managers that report only their hardware."""
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        site = json.loads(Path(SITE).read_bytes())
        for one in site["podms"]:
            for told in ("capabilities", "facts", "traits", "aggregates", "zone"):
                one.pop(told, None)
        zones = ZoneServices(stack)
        file = zones.folder / "hardware.json"
        file.write_text(json.dumps(site))
        hardware = stack.enter_context(served(str(file)))
        children = {}
        for name, paths, stated in (
            ("eu", cls.EUROPE, "region=eu, os=windows;linux"),
            ("na", cls.AMERICA, "region=na, os=linux"),
        ):
            own = [hardware[path.removeprefix(f"{name}/")] for path in paths]
            children[name] = zones.start(name, zones={"capabilities": stated}, served=own)
        cls.url = zones.start("top", (), children, zones={"poll_interval_s": 1.0})
        cls.top = scheduler(cls.url)

    def check(self, expected, properties=None, **words):
        """Check that exactly the expected pod managers can be chosen."""
        asked = compiled(properties or {"processor": {"sockets": 1}}, count=1, **words)

        def found():
            report = self.top.select_destinations(replace(asked, count=40, min_count=1)).report
            placed = zip(report.zones.placements, report.placements, strict=True)
            return sorted({f"{at.zone}/{one.chosen.podm}" for at, one in placed})

        wait_for(lambda: found() == sorted(expected))  # the children read and report themselves

    def test_the_location_of_a_claim_in_a_zone_below_has_its_path(self):
        self.check(self.EUROPE, capabilities={"region": ["eu"]})
        asked = compiled({"processor": {"sockets": 1}}, count=1, podms=[self.EUROPE[0]])
        body = ClaimBody(plan=self.top.plan(asked).plan)
        top = ServiceConnection(self.url)
        content, headers = top.ask("POST", "claims", body=body)
        claim = top.decode(content, ClaimResult).claim
        self.addCleanup(list, self.top.release([claim.id]))
        self.assertTrue(claim.id.startswith("eu/"))
        where, _, name = headers["Location"].removeprefix("/v1/").partition("?name=")
        content, _ = top.ask("GET", where, {"name": unquote(name)})
        self.assertEqual(claim.id, top.decode(content, ClaimRecord).claim.id)
        content, _ = top.ask("GET", "audit")
        changed = [line.object for line in top.decode(content, list[AuditLine])]
        self.assertEqual([f"claims/{claim.id}"], changed)

    def test_gpu(self):
        self.check(
            ("eu/gpu-west",), {"accelerators": [{"kind": "GPU", "model": "L40S", "count": 1}]}
        )

    def test_fast_nic(self):
        self.check(("eu/gpu-west",), {"nics": [{"count": 1, "speed_mbps": 200_000}]})

    def test_windows(self):
        self.check(self.EUROPE, capabilities={"os": ["windows"]})

    def test_europe_against_north_america(self):
        self.check(self.EUROPE, capabilities={"region": ["eu"]})
        self.check(self.AMERICA, capabilities={"region": ["na"]})


class TestCircle(unittest.TestCase):
    """Two zones, each the child of the other."""

    def setUp(self):
        zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        self.urls = [zones.start(name, [{"id": f"{name}-podm", **RACK}]) for name in ("a", "b")]
        zones.add_child("a", "b", self.urls[1])
        zones.add_child("b", "a", self.urls[0])

    def test_lists_and_names_end_where_they_began(self):
        for url, own, other in zip(self.urls, "ab", "ba", strict=True):
            top = scheduler(url)
            with self.subTest(url):
                self.assertEqual([], list(top.claims()))
                self.assertEqual([], list(top.nodes()))
                below = f"{other}/{other}-podm"
                self.assertEqual(below, top.podm(f"{other}-podm").podm.id)
                podms = top.podms()
                self.assertEqual([f"{own}-podm", below], [one.podm.id for one in podms])
                self.assertEqual([f"{other}/{own}"], [one.zone for one in podms.silent])
