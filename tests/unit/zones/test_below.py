# SPDX-License-Identifier: Apache-2.0
"""The zones below a zone: found by path, and called."""

import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

from msgspec.structs import replace

from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.site import podm
from valence_sched.calls import NoAnswerInTime, call_all, outcomes_of
from valence_sched.errors import (
    AccessDenied,
    ClaimLost,
    ServiceBusy,
    ServiceError,
    StaleOffer,
    UnknownName,
    UsageError,
)
from valence_sched.model.claim import ComposedNode
from valence_sched.model.decision import BlockRef, Candidate
from valence_sched.model.hardware import PodmOverview, PodmSummary
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import Request
from valence_sched.zones import paths
from valence_sched.zones.below import ZonesBelow
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.scheduler import ZoneScheduler
from valence_sched.zones.tokens import ChildToken, OwnToken, PlanSignatures, Tokens
from valence_sched.zones.tree import ChildZone


def overview(name):
    """Return the overview of a pod manager without blocks."""
    nothing = dict.fromkeys(("cores", "memory_mib", "gpus", "accelerators", "drives", "nics"),
                            (0, 0))  # fmt: skip
    amounts = PodmSummary(blocks=(0, 0), stocks={}, **nothing)
    return PodmOverview(podm=LeanPodm(id=name), amounts=amounts, pool_count=0)


class Verbs:
    """The verbs of a zone with pod managers of these names."""

    def __init__(self, *names, error=None):
        self.names, self.error, self.stored = names, error, []

    def podm(self, name):
        if self.error:
            raise self.error
        if name not in self.names:
            raise UnknownName("pod manager", name, self.names)
        return overview(name)

    def update_resource_stats(self, podm, stats):
        self.stored.append((podm, stats))
        return len(self.stored)

    def reported_stats(self, podm):
        return dict(self.stored)[podm]

    def forget_report(self, podm):
        self.stored = [one for one in self.stored if one[0] != podm]


def below(own, **children):
    """Return the zones below a zone that has its own pod managers and some children."""
    return ZonesBelow(own, children, 5.0)


def podms(own, **children):
    """Return the scheduler of a zone that has its own pod managers and some children."""
    return ZoneScheduler(own, ZoneNodes(SimpleNamespace(below=below(own, **children))))


def requests(own, **children):
    """Return a function from a zone to the request with that zone's names."""
    return below(own, **children).requests


class TestNames(unittest.TestCase):
    """A child by its name."""

    zones = below(None, east="zone east is not active")

    def test_one_that_is_no_child_is_told_to_be_added(self):
        for find in (self.zones.child, self.zones.part):
            with self.assertRaisesRegex(ServiceError, "^it is no longer a child zone: add it"):
                find("eats")

    def test_of_one_that_cannot_be_asked_the_reason_is_told(self):
        for find in (self.zones.child, self.zones.part, lambda _: self.zones.find_podm("east/p")):
            with self.assertRaisesRegex(ServiceError, "^zone east is not active$"):
                find("east")


class TestPodms(unittest.TestCase):
    """Own pod managers take precedence over pod managers of children, by path or by name."""

    def test_what_is_stored_is_stored_where_the_pod_manager_is(self):
        own, east, west = Verbs("a"), Verbs("b"), Verbs("c")
        zone = podms(own, east=east, west=west)
        for name in ("a", "b", "west/c", "new", ("host", "node")):
            zone.update_resource_stats(name, {"x": 1})
        self.assertEqual(["a", "new", "host/node"], [name for name, _ in own.stored])
        self.assertEqual((["b"], ["c"]), ([n for n, _ in east.stored], [n for n, _ in west.stored]))
        self.assertEqual({"x": 1}, zone.reported_stats("b"))
        zone.forget_report("east/b")
        self.assertEqual([], east.stored)
        self.assertEqual(overview("west/c"), zone.podm("c"))

    def test_a_name_of_several_zones_is_not_guessed(self):
        zone = podms(Verbs(), east=Verbs("b"), west=Verbs("b"))
        with self.assertRaisesRegex(UsageError, "several zones have .*'b': use east/b or west/b$"):
            zone.update_resource_stats("b", {})
        self.assertEqual(overview("west/b"), zone.podm("west/b"))

    def test_a_refusal_of_a_zone_names_the_zone(self):
        """A 403 of a child looked like a 403 of the service that was asked."""
        for error in (AccessDenied("the role reader"), UnknownName("pod manager", "p", ())):
            zone = podms(Verbs("a"), east=Verbs(error=error))
            with self.assertRaisesRegex(type(error), "^zone east: "):
                zone.podm("east/p")

    def test_a_zone_that_does_not_answer_may_have_what_no_other_has(self):
        zone = podms(Verbs("a"), east=Verbs("b"), west=Verbs(error=ServiceError("it is away")))
        self.assertEqual(overview("a"), zone.podm("a"))
        self.assertEqual(overview("east/b"), zone.podm("b"))
        with self.assertRaisesRegex(ServiceError, "zone west may have .*'new'.*it is away"):
            zone.update_resource_stats("new", {})

    def test_a_request_names_its_pod_managers_as_each_zone_does(self):
        zone_requests = requests(Verbs("a", "b"), east=Verbs("b", "c"), west=Verbs("d"))
        named = ("a", "b", "c", "east/c", "west/d")
        found = zone_requests(Request(podms=named, exclude_podms=named))
        for name, expected in (("", ("a", "b")), ("east", ("b", "c", "c")), ("west", ("d",))):
            asked = found(name)
            self.assertEqual(expected, asked.exclude_podms)
            self.assertEqual(expected, asked.podms)
        self.assertEqual(("../west/d",), zone_requests(Request(podms=("west/d",)))("").podms)
        for name in ("z", "west/b"):
            with self.assertRaisesRegex(UnknownName, f"'{name}'"):
                zone_requests(Request(exclude_podms=(name,)))

    def test_a_silent_zone_need_not_have_what_a_request_names_of_another(self):
        zone_requests = requests(
            Verbs("a"), east=Verbs("b"), west=Verbs(error=ServiceError("it is away"))
        )
        found = zone_requests(Request(podms=("a", "b")))
        self.assertEqual(("a",), found("").podms)
        with self.assertRaisesRegex(ServiceError, "zone west may have .*'z'.*it is away"):
            zone_requests(Request(podms=("z",)))

    def test_what_no_zone_has_is_unknown(self):
        with self.assertRaisesRegex(UnknownName, "'z'"):
            podms(Verbs("a"), east=Verbs("b")).podm("z")


class TestCalls(unittest.TestCase):
    """Each answer by its name, independent of the others."""

    def test_all_are_called_at_the_same_time(self):
        barrier = threading.Barrier(3, timeout=30)

        def call():
            barrier.wait()
            return threading.current_thread().daemon

        self.assertEqual(
            dict.fromkeys("abc", True), call_all(lambda _: call(), dict.fromkeys("abc"), 30)
        )
        self.assertEqual({}, call_all(call, {}, 30))

    def test_an_error_is_an_answer_and_silence_another(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def refuse():
            raise ClaimLost("gone")

        answers = {"a": refuse, "b": go.wait, "c": lambda: 1}
        found = call_all(lambda answer: answer(), answers, 0.3)
        self.assertIsInstance(found["a"], ClaimLost)
        self.assertIsInstance(found["b"], NoAnswerInTime)
        self.assertEqual(1, found["c"])

    def test_at_the_limit_of_threads_the_others_make_the_calls(self):
        start, started = threading.Thread.start, []

        def limited(thread):
            if len(started) >= most:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        with mock.patch("threading.Thread.start", limited):
            most = 1
            self.assertEqual({"a": 1, "b": 2}, call_all(lambda it: it, {"a": 1, "b": 2}, 30))
            most, refused = 0, call_all(lambda it: it, {"a": 1, "b": 2}, 30)
        self.assertEqual({ServiceBusy}, set(map(type, refused.values())))

    def test_a_child_whose_link_was_closed_is_an_error_of_the_child(self):
        """A registration was changed during a decision: an internal error was the answer."""
        threads = ThreadPoolExecutor(1)
        child = ChildZone("east", mock.Mock(), threads=threads)
        threads.shutdown()
        found = outcomes_of({"late": child.begin(lambda *_: 1, mock.Mock())}, 30)
        self.assertEqual([ServiceBusy], list(map(type, found.values())))

    def test_a_defect_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            call_all(lambda one: 1 // one, {"a": 0}, 30)


class TestPaths(unittest.TestCase):
    """Paths of names in lower zones, and the way back."""

    def test_a_path_leads_to_the_child_it_begins_with(self):
        zones = {"east": 1}
        for zone, name in (("east", "x"), ("east", "e1/x"), ("", "x"), ("", "west/x"),
                           ("", "/redfish/v1/Systems/1")):  # fmt: skip
            self.assertEqual((zone, name), paths.split(paths.path(zone, name), zones))

    def test_a_node_that_no_claim_has_keeps_that(self):
        node = ComposedNode(id="n", podm="p", uri="/u", claim="-")
        above = paths.below("east", node)
        self.assertEqual(("east/n", "east/p", "/u", "-"),
                         (above.id, above.podm, above.uri, above.claim))  # fmt: skip
        self.assertEqual(node, paths.below("", node))


CANDIDATE = Candidate(
    podm="p", pool="q", score=0.5, cost=7, scores={"room": 0.5},
    blocks=(BlockRef(uri="/b", type=("Compute",)),), grants=(), waste=3,
)  # fmt: skip


class TestTokens(unittest.TestCase):
    """Signing and reading."""

    def test_a_zone_reads_back_what_it_signed(self):
        zone = Tokens(["secret"], "east")
        for content in (OwnToken(CANDIDATE), ChildToken("rack", "any text")):
            with self.subTest(content):
                self.assertEqual(content, zone.read(zone.sign(content)))

    def test_the_token_of_another_zone_or_of_a_forger_is_refused(self):
        zone = Tokens(["secret"], "east")
        others = (Tokens(["secret"], "west"), Tokens(["guessed"], "east"))
        strangers = [other.sign(OwnToken(CANDIDATE)) for other in others]
        own = zone.sign(OwnToken(CANDIDATE))
        for token in (*strangers, "", "x", "a.b.c", own[:-1], own[1:], f"{own}x"):
            with (
                self.subTest(token),
                self.assertRaisesRegex(
                    StaleOffer, "^an offer was made by another zone: request new offers$"
                ),
            ):
                zone.read(token)

    def test_a_key_is_replaced_while_offers_made_with_it_are_still_read(self):
        token = Tokens(["old"], "east").sign(OwnToken(CANDIDATE))
        self.assertEqual(OwnToken(CANDIDATE), Tokens(["old", "new"], "east").read(token))
        with self.assertRaises(StaleOffer):
            Tokens(["new"], "east").read(token)

    def test_an_old_offer_is_refused(self):
        zone = Tokens(["secret"], "east", age_s=60)
        token = zone.sign(OwnToken(CANDIDATE))
        later = time.time() + 62
        with mock.patch("time.time", return_value=later):
            self.assertRaisesRegex(
                StaleOffer, "^an offer has expired: request new offers$", zone.read, token
            )


class TestPlanSignatures(unittest.TestCase):
    """Plans are signed by the newest key, and verified by each."""

    def setUp(self):
        self.plan = make_test_plan(podm("p"))

    def refused(self, keys, plan, words):
        with self.assertRaisesRegex(AccessDenied, f"^the plan {words}.*: make the plan again"):
            PlanSignatures(keys).check(plan)

    def test_every_scheduler_that_has_the_key_takes_it_as_it_is(self):
        signed = PlanSignatures(["old", "new"]).sign(self.plan)
        PlanSignatures(["new"]).check(signed)
        PlanSignatures(["new", "newer"]).check(signed)
        self.assertNotIn("new", signed.signature)
        self.assertEqual(self.plan, replace(signed, signature=""))
        self.refused(["old"], signed, "is signed by key '[0-9a-f]{8}', which this service does not")
        self.refused(["new"], self.plan, "is not signed")
        self.refused(["new"], replace(signed, digest="0"), "was changed after it was signed")

    def test_what_is_no_signature_is_none(self):
        key_id = PlanSignatures(["k"]).sign(self.plan).signature.partition(".")[0]
        for text in (f"{key_id}.", key_id, f"{key_id}.é\0", f"{key_id}.=", f"{key_id}.{'A' * 43}"):
            self.refused(["k"], replace(self.plan, signature=text), "was changed")
        long = replace(self.plan, signature="x" * 10**6)
        self.refused(["k"], long, "is signed by key 'xxxxxxxxxxxxxxxx'")
