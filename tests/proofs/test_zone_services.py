# SPDX-License-Identifier: Apache-2.0
"""Claims and nodes over a tree of zones, each a separate service on real sockets."""

import contextlib
import functools
import json
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
from msgspec.structs import replace

from tests.service.application import ApplicationCase
from tests.service.zone_services import ZoneServices, child_server, scheduler
from tests.unit.integrations.test_dispatchers import controller
from tests.unit.lifecycle.site import request
from tests.unit.store.engines import raw_engine
from tests.unit.zones.in_process import made_nodes, served_tree
from valence_sched.app import App
from valence_sched.errors import (
    AccessDenied,
    ClaimLost,
    InUse,
    RequestError,
    ServiceError,
    UnknownName,
    Unverified,
)
from valence_sched.model.dispatch import DispatchSettings
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.zone import ZoneClaimBody
from valence_sched.model.zone_registry import ZoneChange
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.simulator.server.faults import faults_of
from valence_sched.store import tables
from valence_sched.store.store import Store

APART = {"group": {"name": "web", "anti_affinity": ["podm"]}, "owner": "alice"}


class LiveTreeCase(unittest.TestCase):
    """A test case with a router ``top`` over ``east``, which has ``e1`` below it, and ``west``."""

    latency_ms = 0.0
    settings: dict = {}  # noqa: RUF012 - of all zones

    def setUp(self):
        site = served_tree("east-p", "e1-p", "west-p", latency_ms=self.latency_ms)
        self.folder, self.served = self.enterContext(site)
        self.zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        self.e1 = self.start("e1")
        self.east = self.start("east", {"e1": self.e1})
        self.west = self.start("west")
        self.url = self.start("top", {"east": self.east, "west": self.west})
        self.top = scheduler(self.url)

    def start(self, name, children=None):
        own = [self.served[f"{name}-p"]] if f"{name}-p" in self.served else []
        return self.zones.start(name, (), children, served=own, **self.settings)

    def held(self):
        """Return the names of the zones with held blocks."""
        names = []
        for name in ("top", "east", "e1", "west"):
            with Store(self.zones.state(name)) as store:
                names += [name] if store.claims.list() else []
        return names


class TestOverHttp(LiveTreeCase):
    """The verbs of one zone work over all zones."""

    def test_a_claim_is_held_shown_renewed_and_released_in_all_zones(self):
        """S41, S73: the same program at three levels."""
        asked = request(**APART, count=3)
        result = self.top.claim(asked, key="k", ttl_s=90)
        self.assertEqual(["e1", "east", "west"], sorted(self.held()))
        podms = ["east/e1/e1-p", "east/east-p", "west/west-p"]
        self.assertEqual(podms, sorted(result.claim.podms))
        zones = {one.zone for one in result.decision.report.zones.placements}
        self.assertEqual({"east", "east/e1", "west"}, zones)
        again = self.top.claim(asked, key="k", ttl_s=90)
        self.assertEqual((result.claim, None), (again.claim, again.decision))
        self.assertEqual([result.claim], list(self.top.claims()))
        renewed = self.top.renew(result.claim.id, 900)
        self.assertGreater(renewed.expires_at, result.claim.expires_at)
        self.assertEqual(renewed.parts, self.top.claim_record(renewed.id).claim.parts)
        self.assertEqual([], list(self.top.release([renewed.id])))
        self.assertEqual([], self.held())

    def test_zones_disabled_under_a_claim_keep_it_and_are_not_deleted(self):
        """The claim is kept even if all children are disabled."""
        claim = self.top.claim(request(**APART, count=3)).claim
        for zone in ("east", "west"):
            self.top.change_zone(zone, ZoneChange(enabled=False))
        disabled = r"zone (east|west): it is disabled: scheduler zone set \1 --enable"
        with self.assertRaisesRegex(Unverified, f"{disabled}: .*claim {claim.id} stays held"):
            self.top.compose_claim(claim.id)
        self.assertEqual(["HELD"], [one.state for one in self.top.claims()])
        self.assertEqual({"east", "west"}, {one.zone for one in self.top.claims().silent})
        (error,) = self.top.delete_zones(["west"])
        self.assertIsInstance(error, InUse)
        result = self.top.select_destinations(request())
        excluded = [(one.zone, one.reason) for one in result.report.zones.excluded]
        self.assertEqual([("east", "disabled"), ("west", "disabled")], excluded)
        self.top.change_zone("west", ZoneChange(enabled=True))
        (error,) = self.top.release([claim.id])
        self.assertRegex(str(error), "zone east: it is disabled")
        self.top.change_zone("east", ZoneChange(enabled=True))
        self.assertEqual([], list(self.top.release([claim.id])))
        self.assertEqual([], self.held())
        self.assertEqual([], list(self.top.delete_zones(["west"])))

    def test_the_state_of_a_zone_has_no_row_of_a_grandchild(self):
        """S71: except in the audit and in results of operations that were requested here."""
        self.top.select_destinations(request(), detail="report")
        self.top.claim(request(**APART, count=2))
        self.top.compose(request(podms=["east/e1/e1-p"]), wait_s=20)
        self.top.update_resource_stats("east/e1/e1-p", {"load": 1})
        self.assertEqual(3, len(self.top.podms()))
        engine = raw_engine(self.zones.state("top"))
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            for table in tables.METADATA.sorted_tables:
                if table.name not in ("audit", "records"):
                    for row in connection.execute(sa.select(table)):
                        self.assertNotRegex(repr(tuple(row)), 'e1-p|east/e1|"e1"')

    def test_claims_at_once_keep_the_rules_of_a_group_over_all_zones(self):
        def claim(seed):
            asked = request(group={"name": "web", "affinity": ["podm"]}, seed=seed)
            return scheduler(self.url).claim(asked).claim

        with ThreadPoolExecutor(3) as pool:
            claims = [one for one in pool.map(claim, (2, 71, 828)) if one is not None]
        podms = {podm for claim in claims for podm in claim.podms}
        self.assertEqual((2, 1), (len(claims), len(podms)), podms)  # it has room for two

    def test_nodes_are_composed_shown_and_deleted_through_the_tree(self):
        """S42: a grandchild is reached through its parent."""
        result = self.top.compose(request(**APART, count=3), wait_s=20)
        self.assertEqual(((), ()), (result.failures, result.unverified))
        self.assertEqual(3, len(made_nodes(self.served)))
        listed = {one.node.id: one for one in self.top.nodes()}
        self.assertEqual({node.id for node in result.nodes}, set(listed))
        (below,) = [name for name in listed if name.startswith("east/e1/")]
        self.assertEqual("COMPOSED", self.top.node_record(below).state)
        self.assertEqual([], list(self.top.delete_nodes(list(listed))))
        self.assertEqual([], made_nodes(self.served))
        self.assertEqual([], list(self.top.claims()))
        self.assertEqual([], self.held())

    def test_a_claim_is_composed_by_its_id_and_by_its_path(self):
        claim = self.top.claim(request(**APART, count=2)).claim
        self.assertEqual(2, len(self.top.compose_claim(claim.id, wait_s=20).nodes))
        below = scheduler(self.e1).claim(request()).claim
        (node,) = self.top.compose_claim(f"east/e1/{below.id}", wait_s=20).nodes
        self.assertEqual("east/e1/e1-p", node.podm)

    def test_reconciling_ends_the_claims_of_nodes_that_are_gone(self):
        result = self.top.compose(request(), wait_s=20)
        (node,) = result.nodes
        zone, _, rest = node.id.partition("/")
        below = scheduler({"east": self.east, "west": self.west}[zone])
        self.assertEqual([], list(below.delete_nodes([rest])))
        self.assertEqual(1, len(self.top.claims()))
        self.assertEqual((), self.top.reconcile().actions)
        self.assertEqual([], list(self.top.claims()))

    def test_lists_name_the_zones_that_they_lack_at_every_level(self):
        self.top.compose(request(**APART, count=3), wait_s=20)
        for found in (self.top.claims(), self.top.nodes()):
            self.assertEqual((), found.silent)
        with child_server(lambda *_: {}) as gone:
            pass
        with Store(self.zones.state("east")) as store:
            known = store.zones.show("e1")
            store.zones.change(known, replace(known.registration, url=gone))
        for found, count in ((self.top.claims(), 1), (self.top.nodes(), 2)):
            self.assertEqual(count, len(found))
            (silent,) = found.silent
            self.assertEqual("east/e1", silent.zone)
            self.assertRegex(silent.reason, "does not answer")
        with urllib.request.urlopen(f"{self.url}/v1/nodes", timeout=20) as answer:
            (zone,) = json.loads(answer.headers["Silent-Zones"])
        self.assertEqual({"zone": "east/e1", "reason": silent.reason}, zone)

    def test_a_child_whose_header_cannot_be_read_is_silent_itself(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSilent-Zones: %s\r\n\r\n[]"
        for header in (b"nonsense", b'[{"zone": 1}]'):
            answer = head % header
            url = self.enterContext(
                child_server(lambda *_, answer=answer: lambda file: file.write(answer))
            )
            with Store(self.zones.state("top")) as store:
                known = store.zones.show("west")
                store.zones.change(known, replace(known.registration, url=url))
            (silent,) = self.top.nodes().silent
            self.assertEqual("west", silent.zone)
            self.assertRegex(silent.reason, "Silent-Zones: .*: the service may be newer")

    def test_a_node_of_a_silent_zone_is_not_called_unknown(self):
        file = ApplicationCase.users_file(self, "mo:member", "al:member")
        words = {"auth": "basic", "users_file": file}
        url = self.zones.start("guarded", (), {"west": self.west}, **words)
        mo, al = (
            RemoteScheduler(ServiceConnection(url, user=name, password=name))
            for name in ("mo", "al")
        )
        (node,) = mo.compose(request(owner="mo"), wait_s=20).nodes
        (error,) = al.delete_nodes([node.id])
        self.assertIsInstance(error, UnknownName)
        with Store(self.zones.state("guarded")) as store:
            known = store.zones.show("west")
            store.zones.change(known, replace(known.registration, url="http://127.0.0.1:9"))
        for name, kind in ((node.id, ServiceError), ("east/vs-1", UnknownName)):
            (error,) = mo.delete_nodes([name])
            self.assertIsInstance(error, kind, name)
        self.assertEqual(1, len(made_nodes(self.served)))

    def test_what_nobody_has_is_unknown(self):
        for name in ("nothing", "west/nothing", "nowhere/nothing"):
            with self.assertRaises(UnknownName):
                self.top.claim_record(name)
            with self.assertRaises(UnknownName):
                self.top.node_record(name)

    def test_pages_show_the_claims_and_nodes_of_all_zones(self):
        held = self.top.claim(request(**APART, count=3)).claim
        below = scheduler(self.e1).claim(request(podms=["e1-p"])).claim
        (node,) = self.top.compose_claim(f"east/e1/{below.id}", wait_s=20).nodes
        page = self.page("/ui/claims")
        for text in (held.id, f"east/e1/{below.id}", "west/west-p"):
            self.assertIn(text, page)
        self.assertNotIn("Zones without an answer", page)
        page = self.page("/ui/nodes")
        self.assertIn("east/e1/e1-p", page)
        self.assertIn(node.name or node.id, page)
        self.assertNotIn(held.id, self.page("/ui/claims?podm=east/e1/nowhere"))

    def test_pages_say_which_zones_they_lack(self):
        with child_server(lambda *_: {}) as gone:
            pass
        self.zones.add_child("top", "gone", gone)
        for path in ("/ui", "/ui/claims", "/ui/nodes"):
            with self.subTest(path):
                page = self.page(path)
                self.assertIn("Zones without an answer", page)
                self.assertIn("no answer from 1 zone: gone", page)

    def page(self, path):
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return answer.read().decode()

    def test_a_plan_is_applied_at_the_zone_that_has_its_pod_managers(self):
        west, east = scheduler(self.west), scheduler(self.east)
        plan = west.plan(request()).plan
        text = "'west-p', which is unknown here: apply it at the zone that has it$"
        for verb in (east.claim_plan, east.compose_plan):
            with self.assertRaisesRegex(RequestError, text):
                verb(plan)
        self.assertEqual(([], []), (self.held(), made_nodes(self.served)))
        for verb in (self.top.claim_plan, self.top.compose_plan, self.top.refresh):
            with self.assertRaisesRegex(AccessDenied, "changed after it was signed"):
                verb(replace(plan, decided_at=None))
        self.assertEqual([], self.held())
        claim = self.top.claim_plan(plan)  # it passes the plan on
        self.assertEqual((["west/west-p"], "west/"), (list(claim.podms), claim.id[:5]))
        self.assertEqual(["west"], self.held())
        self.assertEqual([], list(self.top.release([claim.id])))

    def test_a_plan_is_made_by_the_zone_that_its_nodes_are_in(self):
        for podm, path in (("e1-p", "east/e1/e1-p"), ("east-p", "east/east-p")):
            with self.subTest(podm):
                planned = self.top.plan(request(podms=(podm,)))
                self.assertEqual([podm], [one.podm.id for one in planned.plan.podms])
                self.assertEqual([], list(self.top.refresh(planned.plan).changes))
                (node,) = self.top.compose_plan(planned.plan).nodes
                self.assertEqual(path, node.podm)
                self.assertIn(node.id, [one.node.id for one in self.top.nodes()])

    def test_no_plan_is_of_several_zones(self):
        with self.assertRaisesRegex(
            RequestError, r"in several zones \(east, west\): request fewer"
        ):
            self.top.plan(request(count=3, group=APART["group"]))
        self.assertIsNone(self.top.plan(request(count=30)).plan)

    def test_offers_of_another_zone_are_not_held(self):
        zone = scheduler(self.west)
        body = ZoneClaimBody(request=request(), tokens=("forged",))
        with self.assertRaisesRegex(Exception, "an offer was made by another zone"):
            zone.hold_offers(body)
        self.assertEqual([], self.held())

    def test_a_zone_whose_routing_is_off_holds_nothing(self):
        url = self.zones.start("closed", (), zones={"enable_zone_routing": False})
        with self.assertRaisesRegex(AccessDenied, "enable_zone_routing: true"):
            scheduler(url).hold_offers(ZoneClaimBody(request=request(), tokens=("x",)))


class TestRaces(LiveTreeCase):
    """Concurrent claims of several zones."""

    def test_two_that_want_everything_never_share_it(self):
        with ThreadPoolExecutor(2) as threads:
            asked = [request(owner=name, count=4) for name in ("alice", "bob")]
            futures = [threads.submit(scheduler(self.url).claim, one) for one in asked]
            claims = []
            for future in futures:
                try:
                    claims.append(future.result().claim)
                except ClaimLost:
                    claims.append(None)
        blocks = [
            (part.podm, uri) for claim in claims if claim for part in claim.parts
            for uri in part.blocks
        ]  # fmt: skip
        self.assertEqual(len(blocks), len(set(blocks)))
        self.assertLessEqual(len(blocks), 6)


class TestDispatch(LiveTreeCase):
    """The zone of the request posts the claim once, although the holds are below."""

    def setUp(self):
        self.there = self.enterContext(controller())
        self.settings = {"dispatch": DispatchSettings(target=f"webhook={self.there.url}")}
        super().setUp()

    def test_a_claim_over_zones_is_posted_by_the_zone_that_was_asked(self):
        """S81."""
        claim = self.top.claim(request(count=2, **APART)).claim
        with Store(self.zones.state("top")) as store:
            (one,) = store.dispatches.newest(9)
        self.assertEqual((claim.id, 2), (one.claim, len(one.report.placements)))
        for name in ("east", "e1", "west"):
            with Store(self.zones.state(name)) as store:
                self.assertEqual([], store.dispatches.newest(9))


class TestRefusedComposes(LiveTreeCase):
    """A refusal of a pod manager counts as its failure, whichever command caused it."""

    def verbs(self):
        """Yield by name a composition on west-p, as each program does it.

        A command, a service and the zone above: each composes a request, a claim and a plan.
        """
        state = ReadOptions(state=self.zones.state("west"), stored=True)
        engine = App(environ={"XDG_STATE_HOME": str(self.folder)}).engine(Selection(live=state))
        self.addCleanup(engine.close)
        others = ["east/east-p", "east/e1/e1-p"]
        for where, verbs, asked in (
            ("command", engine, request()),
            ("service", scheduler(self.west), request()),
            ("zones", self.top, request(exclude_podms=others)),
        ):
            yield f"{where}: request", functools.partial(verbs.compose, asked, wait_s=1)
            yield (
                f"{where}: claim",
                lambda verbs=verbs, asked=asked: verbs.compose_claim(
                    verbs.claim(asked).claim.id, wait_s=1
                ),
            )
            yield (
                f"{where}: plan",
                lambda verbs=verbs, asked=asked: verbs.compose_plan(
                    verbs.plan(asked).plan, wait_s=1
                ),
            )

    def failures(self):
        with Store(self.zones.state("west")) as store:
            return store.load_podms()["west-p"].facts.get("failures", 0)

    def test_each_way_counts_and_a_node_that_is_composed_ends_the_count(self):
        faults = self.served["west-p"].app.podm.faults._faults
        faults += faults_of(["status:400:POST:*Systems"], ["west-p"])["west-p"]._faults
        for number, (name, compose) in enumerate(self.verbs(), 1):
            with self.subTest(name):
                self.assertEqual((), compose().nodes)
                self.assertEqual(number, self.failures())
        faults.clear()
        self.assertEqual(1, len(self.top.compose(request(podms=["west/west-p"])).nodes))
        self.assertEqual(0, self.failures())

    def test_the_next_decision_sees_the_count(self):
        west = scheduler(self.west)
        faults = self.served["west-p"].app.podm.faults._faults
        faults += faults_of(["status:400:POST:*Systems"], ["west-p"])["west-p"]._faults
        west.compose(request(), wait_s=1)
        found = west.podm("west-p").podm
        self.assertEqual(1, found.facts["failures"])
