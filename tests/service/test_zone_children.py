# SPDX-License-Identifier: Apache-2.0
"""Children that hang, lie, are older or newer, or are above their parent: over real sockets."""

import contextlib
import json
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from random import Random

from msgspec.structs import replace

from tests.service.application import ApplicationCase
from tests.service.zone_services import ZoneServices, child_server, scheduler
from tests.unit.core.deciders import cpus
from tests.unit.zones.scarce_sites import card, scarce_podm
from tests.unit.zones.test_tree_as_flat import CORES
from valence_sched.errors import InventoryIncomplete, ServiceError
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.registration import PasswordReference
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import ZoneInfo, ZoneReport
from valence_sched.service.settings import Limits, RateSettings

ASKED = Request(needs=(CORES,), count=2, min_count=0)


def podm(name: str, cores: int = 16, **fields) -> dict:
    return {"id": name, "pools": [], "blocks": cpus(1, cores), **fields}


def chosen(report) -> list[str]:
    return [one.chosen.podm for one in report.placements]


def candidate(name: str, **fields) -> dict:
    return {
        "candidate": {
            "podm": name, "pool": "default", "score": 0.9, "cost": 1, "scores": {},
            "blocks": [], "grants": [], "waste": 0, **fields,
        },
        "token": f"token of {name}",
    }  # fmt: skip


def drip(stream) -> None:
    """Send an answer at a byte each 50 ms."""
    stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(600):
        stream.write(b" ")
        stream.flush()
        time.sleep(0.05)


class ChildrenCase(unittest.TestCase):
    """A test case with a zone with an honest child, ``good``, and a faulty one, ``bad``."""

    def setUp(self):
        self.zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        self.good = self.zones.start("good", [podm("good-1"), podm("good-2")])

    def top(self, bad: str, **words):
        words = {"zones": {"offer_deadline_s": 2.0}, **words}
        return scheduler(self.zones.start("top", (), {"bad": bad, "good": self.good}, **words))

    def respond(self, answer) -> str:
        """Serve a child that offers this; its answers about groups are correct."""

        def respond(path, _query):
            is_group = isinstance(answer, dict) and path.endswith("group_state")
            return {"group_state": {}} if is_group else answer

        return self.enterContext(child_server(respond))

    def check_good(self, report, reason):
        """Check that the honest child has the nodes, and that the other child is named."""
        self.assertEqual({"good-1", "good-2"}, set(chosen(report)))
        self.assertEqual(["bad"], [one.zone for one in report.zones.silent])
        self.assertRegex(report.zones.silent[0].reason, reason)
        self.assertEqual(2, report.zones.answered)


class TestSilentChildren(ChildrenCase):
    """A child without an answer costs its deadline, and is named."""

    def test_a_child_that_nobody_serves_is_named(self):
        """S70: the other zones are used."""
        with child_server(lambda *_: {}) as url:
            pass
        self.check_good(self.top(url).select_destinations(ASKED).report, "does not answer")

    def test_a_child_that_hangs_is_asked_once_in_a_decision_of_many_rounds(self):
        gate, asked = threading.Event(), []
        self.addCleanup(gate.set)

        def respond(path, _query):
            asked.append(path)
            gate.wait(30)
            return {}

        url = self.enterContext(child_server(respond))
        by_lot = replace(ASKED, policy="chance")
        report = self.top(url).select_destinations(by_lot).report
        self.check_good(report, "in time")
        self.assertEqual(["/v1/zones/offers"], asked)
        self.assertGreater(report.zones.rounds, 1)

    def test_a_child_that_sends_a_byte_at_a_time_is_cut_off(self):
        self.check_good(self.top(self.respond(drip)).select_destinations(ASKED).report, "in time")

    def test_a_verb_for_such_a_child_is_cut_off_as_well(self):
        """It occupied the thread of its request until the child had sent everything."""
        top = self.top(self.respond(drip), zones={"offer_deadline_s": 0.1})
        with self.assertRaisesRegex(ServiceError, "^zone bad: .*does not answer in time"):
            top.podm("bad/x")

    def test_where_no_zone_answers_that_is_the_outcome(self):
        with child_server(lambda *_: {}) as url:
            pass
        top = scheduler(self.zones.start("alone", (), {"bad": url}))
        with self.assertRaisesRegex(InventoryIncomplete, "no zone answered: bad: "):
            top.select_destinations(ASKED)

    def test_a_ranking_names_what_is_missing(self):
        ranking = self.top(self.respond(b"no JSON")).rank(replace(ASKED, count=1), 5)
        found = {one.podm for one in ranking.candidates}
        self.assertEqual({"good/good-1", "good/good-2"}, found)
        self.assertIn("zone bad: ", ranking.missing[0])

    def test_a_child_that_is_not_active_is_not_asked(self):
        """S54: its reason is shown."""
        report = ZoneReport(is_active=False, failures=3, reason="it failed three times")
        children = {"off": {"url": self.good, "report": report}}
        top = self.zones.start("top", [podm("own")], children)
        found = scheduler(top).select_destinations(ASKED).report
        self.assertEqual(["own"], chosen(found))
        self.assertEqual("it failed three times", found.zones.silent[0].reason)

    def test_a_child_whose_password_is_missing_is_skipped_and_the_others_are_asked(self):
        """S58: the reason names the variable."""
        password = PasswordReference(env="NOT_SET_ANYWHERE")
        bad = {"url": self.good, "username": "u", "password": password}
        top = self.zones.start("top", (), {"good": self.good, "bad": bad})
        self.check_good(scheduler(top).select_destinations(ASKED).report, "NOT_SET_ANYWHERE")

    def test_a_child_whose_capabilities_rule_the_request_out_is_not_asked(self):
        asked = []
        url = self.enterContext(child_server(lambda path, _query: asked.append(path)))
        info = ZoneInfo(name="bad", capabilities={"tier": ("silver",)})
        bad = {"url": url, "report": ZoneReport(is_active=True, info=info, reason="")}
        top = self.zones.start("top", [podm("own", capabilities={"tier": ["gold"]})], {"bad": bad})
        wanted = replace(ASKED, capabilities={"tier": ("gold",)})
        report = scheduler(top).select_destinations(wanted).report
        self.assertEqual(["own"], chosen(report))
        (excluded,) = report.zones.excluded
        self.assertEqual("bad", excluded.zone)
        self.assertEqual("capability tier: needs gold, has silver", excluded.reason)
        self.assertEqual([], asked)


class TestLyingChildren(ChildrenCase):
    """A lying child harms only its own share."""

    def test_answers_that_are_no_answers_leave_the_child_out(self):
        for number, answer in enumerate((b"no JSON", b"[]", {"nodes": 7}, b"[" * 100_000)):
            with self.subTest(answer):
                url = self.respond(answer)
                top = self.zones.start(f"top-{number}", (), {"bad": url, "good": self.good})
                report = scheduler(top).select_destinations(ASKED).report
                self.check_good(report, "cannot be parsed")

    def test_costs_and_scores_out_of_range_are_its_own_best_or_worst(self):
        honest = scheduler(self.zones.start("honest", (), {"good": self.good}))
        expected = honest.select_destinations(ASKED).report.placements
        liar = candidate("x", cost=10**30, score=7.5, scores={"room": -3.0})
        answer = {"nodes": [liar] * 5, "ranking": [liar] * 5, "worst_cost": 10**29}
        report = self.top(self.respond(answer)).select_destinations(replace(ASKED, count=4)).report
        self.assertEqual(
            [one.chosen for one in expected],
            [one.chosen for one in report.placements if one.chosen.podm != "x"][:2],
        )
        for one in report.placements:
            self.assertTrue(0.0 <= one.chosen.score <= 1.0, one)
            self.assertTrue(all(0.0 <= value <= 1.0 for value in one.chosen.scores.values()), one)

    def test_numbers_that_nothing_has_leave_the_child_out(self):
        """A child with -7 nodes, or 2**70, changed the sums of all zones."""
        number, zones = 0, self.top(self.respond(lambda stream: stream.write(bad(number))))

        def bad(number):
            count = {"kind": "GPU", "model": None, "devices": number, "free": 0, "podms": 1}
            answers = {
                "capacity": {"name": "", "podms": [{"podm": "x", "nodes": number}]},
                "fits": {"podms": [["x", number]]},
                "devices": [count],
            }
            content = json.dumps(answers[verb]).encode()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)

        asked = replace(ASKED, count=1)
        for verb, ask in (
            ("fits", lambda: zones.count_fits(asked, 5).silent),
            ("capacity", lambda: zones.capacity(asked, 5).silent),
            ("devices", lambda: zones.device_counts(BlockFilter()).silent),
        ):
            for number, names in ((1, []), (-7, ["bad"]), (2**70, ["bad"])):
                with self.subTest(verb, number=number):
                    self.assertEqual(names, [one.zone for one in ask()])

    def test_an_endless_list_counts_as_what_was_asked_for(self):
        many = [candidate(f"x-{number}", cost=0) for number in range(5000)]
        silent = [{"zone": "z" * 5000, "reason": "r\n" * 1000}] * 5000
        answer = {"nodes": many, "ranking": many, "silent": silent, "worst_cost": 1}
        top = self.top(self.respond(answer), zones={"offer_deadline_s": 60.0})
        report = top.select_destinations(ASKED).report
        self.assertEqual(["bad", "bad"], [one.zone for one in report.zones.placements])
        self.assertLessEqual(len(report.zones.silent), 1000)
        self.assertLess(len(report.zones.silent[0].reason), 1000)

    def test_names_of_others_take_no_alternates_from_them(self):
        liar = candidate("good-1", cost=0)
        url = self.respond({"nodes": [liar], "ranking": [liar], "worst_cost": 1000})
        asked = replace(ASKED, count=1, alternates=2)
        (placement,) = self.top(url).select_destinations(asked).report.placements
        self.assertEqual({"good-1", "good-2"}, {one.podm for one in placement.alternates})

    def test_an_answer_beyond_the_bound_is_left_out(self):
        def flood(stream):
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
            while True:
                stream.write(b" " * (1 << 20))

        top = self.top(self.respond(flood), zones={"offer_deadline_s": 60.0})
        self.check_good(top.select_destinations(ASKED).report, "the answer has more than")

    def test_a_login_that_a_child_refuses_is_not_the_login_of_the_user(self):
        """The answer was 401: a browser asked its user again, a client renewed its token."""
        problem = {"type": "t", "title": "t", "status": 401, "detail": "a wrong password",
                   "code": "unauthenticated"}  # fmt: skip
        content = json.dumps(problem).encode()
        head = f"HTTP/1.1 401 Unauthorized\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        top = self.top(self.respond(lambda stream: stream.write(head + content)))
        refused = "another service refuses the login of this service: zone bad: a wrong password"
        for ask in (top.claim_record, top.podm):
            with self.assertRaisesRegex(ServiceError, refused):
                ask("bad/x")


class TestVersions(ChildrenCase):
    """Children of another minor version, and services that are not zones."""

    def test_what_a_newer_child_adds_is_ignored(self):
        newer = candidate("x", cost=0, colour="blue")
        answer = {"nodes": [{**newer, "mood": 1}], "worst_cost": 1, "added": {"deep": []}}
        report = self.top(self.respond(answer)).select_destinations(replace(ASKED, count=1)).report
        self.assertEqual(["x"], chosen(report))

    def test_an_older_child_without_these_verbs_is_named(self):
        def gone(stream):
            stream.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        self.check_good(self.top(self.respond(gone)).select_destinations(ASKED).report, "404")

    def test_an_older_child_that_tells_no_supplies_takes_part_and_is_named(self):
        """Scarcity is computed without it, and it gets the completed request."""
        random, asked = Random(3), []

        def older(path, query):
            asked.append((path.rpartition("/")[2], query["request"]["mix"].get("scarcity")))
            if path.endswith("group_state"):
                return {"group_state": {}}
            return {"nodes": [candidate("old", cost=0)], "worst_cost": 1}

        self.good = self.zones.start("known", [scarce_podm(n, random) for n in range(4)])
        mix = Mix((FlavorShare((CORES, card())), FlavorShare((CORES, card("NVIDIA A100")))))
        top = self.top(self.enterContext(child_server(older)))
        request = replace(ASKED, count=1, policy="fragmentation", mix=mix)
        report = top.select_destinations(request).report
        self.assertEqual(["old"], chosen(report))
        self.assertEqual(((), 3), (report.zones.silent, report.zones.answered))
        (line,) = report.warnings
        self.assertRegex(line, "^zone bad is not counted in the scarcity .*: its version is older")
        scarcity = list(report.request.mix.scarcity)
        self.assertEqual([("group_state", None), ("offers", scarcity)], asked)
        self.assertGreater(max(scarcity), 1.0)

    def test_a_child_without_the_header_of_versions_answers_all_the_same(self):
        report = self.top(self.respond({"nodes": [candidate("old", cost=0)], "worst_cost": 1}))
        self.assertEqual(
            ["old"], chosen(report.select_destinations(replace(ASKED, count=1)).report)
        )

    def test_a_service_without_routing_offers_nothing(self):
        """S56: only an operator enables routing."""
        off = self.zones.start("off", [podm("p")], zones={"enable_zone_routing": False})
        self.check_good(
            self.top(off).select_destinations(ASKED).report, "set enable_zone_routing: true"
        )


class TestCircles(ChildrenCase):
    """Zones that are below themselves, and zones that are nested too deeply."""

    def test_two_services_that_are_each_others_child_answer(self):
        first = self.zones.start("first", [podm("one")])
        second = self.zones.start("second", [podm("two")], {"up": first})
        self.zones.add_child("first", "down", second)
        report = scheduler(first).select_destinations(ASKED).report
        self.assertEqual({"one", "two"}, set(chosen(report)))
        (circle,) = report.zones.silent
        self.assertEqual("down/up", circle.zone)
        self.assertIn("the zones form a cycle", circle.reason)

    def test_zones_beyond_the_limit_of_levels_are_named(self):
        middle = self.zones.start("middle", [podm("m")], {"deep": self.good})
        top = self.zones.start("top", (), {"middle": middle}, zones={"most_hops": 1})
        report = scheduler(top).select_destinations(ASKED).report
        self.assertEqual(["m"], chosen(report))
        self.assertEqual(["middle/deep"], [one.zone for one in report.zones.silent])

    def test_a_child_knows_nothing_of_its_parent(self):
        """S43: it gets the ids of the zones above, no name and no address, and stores none."""
        queries, heard = [], []

        def respond(_path, query):
            queries.append(query)
            return {}

        url = self.enterContext(child_server(respond, heard))
        top_url = self.zones.start("summit", (), {"bad": url, "good": self.good})
        found = scheduler(top_url).select_destinations(ASKED)
        self.assertEqual(["good-1", "good-2"], sorted(chosen(found.report)))
        (query,) = queries
        self.assertEqual(1, len(query["route"]))
        address = top_url.rpartition("/")[2]
        for text in (*heard, self.kept("good")):
            self.assertNotIn(address, text)
            self.assertNotIn("summit", text)
        self.assertEqual((), tuple(scheduler(self.good).zones()))

    def kept(self, name: str) -> str:
        """Return all content of the state of a zone."""
        file = self.zones.state(name).removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return "\n".join(connection.iterdump())

    def test_a_query_is_within_the_limits_of_the_child(self):
        small = self.zones.start("small", [podm("s")], limits=Limits(nodes=1))
        self.check_good(self.top(small).select_destinations(ASKED).report, "exceed the limit of 1")


class TestAccess(ApplicationCase):
    """Users that may request offers of a zone."""

    def test_offers_are_for_admins(self):
        users = self.users_file("root:admin", "mo:member")
        words = {"auth": "basic", "users_file": users}
        self.client = self.new_client(**words)
        for path in ("/v1/zones/offers", "/v1/zones/group_state"):
            self.check_problem(self.call("POST", path, {}, user="mo"), 403, "access_denied")
            result = self.call("POST", path, {"request": {"needs": []}}, user="root")
            self.check_problem(result, 403, "access_denied", "enable_zone_routing")

    def test_an_offer_is_no_change_where_changes_have_a_rate(self):
        words = {"zones": ZoneSettings(enable_zone_routing=True)}
        self.client = self.new_client(rate_limits=RateSettings(changes="1/hour"), **words)
        for _ in range(3):
            result = self.call("POST", "/v1/zones/offers", {"request": {"needs": []}})
            self.assertNotEqual(429, result.status_code, result.text)


class TestWithoutZones(unittest.TestCase):
    """A service without routing loads no code of zones."""

    def test_no_module_of_zones_is_loaded(self):
        """S69: a single zone needs no change."""
        script = textwrap.dedent("""
            import sys, tempfile, time
            from falcon import testing
            from valence_sched.model.zone import ZoneSettings
            from valence_sched.server.wiring import ServiceProcess
            from valence_sched.service.settings import ServiceSettings
            folder = tempfile.mkdtemp()
            homes = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), folder)
            settings = ServiceSettings(
                state=f"sqlite:///{folder}/s.sqlite", inventories=("examples/site.json",),
                zones=ZoneSettings(enable_zone_routing=sys.argv[1] == "on"),
            )
            process = ServiceProcess(settings, time.monotonic, homes)
            client = testing.TestClient(process.application)
            body = {"request": {"properties": {"processor": {"total_cores": 8}}}}
            answer = client.simulate_post("/v1/select_destinations", json=body)
            assert answer.json["report"]["outcome"] == "placed", answer.text
            assert "zones" not in answer.json["report"]
            process.stop(5)
            print(sorted(one for one in sys.modules if one.startswith("valence_sched.zones.")))
        """)
        for word, loaded in (("off", False), ("on", True)):
            with self.subTest(word):
                run = subprocess.run(
                    [sys.executable, "-c", script, word],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                self.assertEqual("", run.stderr)
                self.assertEqual(loaded, "valence_sched.zones.tree" in run.stdout)
                if not loaded:
                    self.assertEqual("[]\n", run.stdout)
