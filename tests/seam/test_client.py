# SPDX-License-Identifier: Apache-2.0
"""The two calls of a caller: the same in process and over HTTP, and with few imports."""

import inspect
import json
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from tests.seam.test_engine import EXAMPLE
from tests.service.serving import serving
from valence_sched import client
from valence_sched.errors import InputError, NothingFits, UnknownName, UsageError
from valence_sched.service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]
SMALL = {"properties": {"processor": {"total_cores": 8}}}
RACK = {
    "pools": [{"id": "z"}],
    "blocks": [{"uri": "/b1", "type": ["Compute"], "pools": ["z"],
                "devices": {"processors": [{"cores": 16}]}}],
}  # fmt: skip


class ClientCase:
    """A client over its own state; a mixin of a test case."""

    inventories: tuple[str, ...] = ()
    near_maps: tuple[str, ...] = ()

    def new_client(self, **words) -> client.SchedulerClient:
        raise NotImplementedError

    def named(self, name):
        """Return the name of a resource for the client."""
        return name

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.near_maps = (write_map(folder.name),)
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.environ = dict.fromkeys(homes, folder.name)
        self.state = f"sqlite:///{folder.name}/state.sqlite"
        self.client = self.new_client()


class InProcess(ClientCase):
    """The scheduler is in this process."""

    def new_client(self):
        return client.connect(
            inventories=self.inventories,
            state=self.state,
            near_maps=self.near_maps,
            environ=self.environ,
        )


class OverHttp(ClientCase):
    """The scheduler is behind a real socket."""

    def new_client(self):
        settings = ServiceSettings(
            state=self.state, inventories=self.inventories, near_maps=self.near_maps
        )
        url = self.enterContext(serving(settings, self.environ))
        return client.connect(environ={**self.environ, "VALENCE_SCHED_URL": url})


def write_map(folder: str) -> str:
    """Write a map of the places of two volumes; return its path."""
    path = Path(folder, "near-map.yaml")
    places = "v-east: {zone: east-1}, v-west: {zone: west-1}"
    path.write_text(f"volume: {{{places}}}\n")
    return str(path)


#: Prints the nouns that msgspec still builds at their decoding, after a client has connected.
FIRST_PROGRAM = """
import contextlib, json, sys
import msgspec
from valence_sched import client

def built(kind):
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.json.decode(b"null", type=kind)
    sys.setprofile(None)
    return "get_class_annotations" in seen

from valence_sched.model.request_spec import RequestSpec
before = built(RequestSpec)
connected = client.connect(**json.loads(sys.argv[1]))
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.policy import PodmReads
from valence_sched.model.http import Problem
from valence_sched.model.request import Request
nouns = (RequestSpec, DecisionResult, FullPodm, LeanPodm, PodmReads, Problem, Request)
print(json.dumps([before, [kind.__name__ for kind in nouns if built(kind)]]))
"""
#: Many threads connect and send requests at once; a process that crashes has a negative exit code.
THREADS_PROGRAM = """
import json, sys, threading
from stevedore import ExtensionManager
ExtensionManager("tests.none")  # reads all entry points once, not once in each thread
sys.setswitchinterval(1e-5)
from valence_sched import client
together, found = threading.Barrier(8), []

def ask():
    together.wait()
    connected = client.connect(**json.loads(sys.argv[1]))
    chosen = connected.select_destinations(None, {"flavor": "small"}, {})
    found.append(chosen[0]["name"])

threads = [threading.Thread(target=ask) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps(found))
"""


class TestThreads(unittest.TestCase):
    """Threads of a caller: none is the first to decode a noun."""

    def run_program(self, program, **words):
        done = subprocess.run([sys.executable, "-c", program, json.dumps(words)],
                              capture_output=True, text=True, check=False, cwd=ROOT)  # fmt: skip
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)

    def service(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        settings = ServiceSettings(
            state=f"sqlite:///{folder}/state.sqlite", inventories=(str(EXAMPLE),)
        )
        return self.enterContext(serving(settings, dict.fromkeys(homes, folder)))

    def test_every_noun_is_prepared_before_the_first_use(self):
        for words in ({"url": self.service()}, {"inventories": [str(EXAMPLE)]}):
            with self.subTest(words):
                self.assertEqual([True, []], self.run_program(FIRST_PROGRAM, **words))

    def test_threads_that_connect_at_once_get_the_same_answer(self):
        for words in ({"url": self.service()}, {"inventories": [str(EXAMPLE)]}):
            with self.subTest(words):
                (name,) = {*self.run_program(THREADS_PROGRAM, **words)}
                self.assertTrue(name)


class SelectingContract:
    """Tests of a client over the recorded example; a mixin of a test case."""

    inventories = (EXAMPLE,)

    def test_a_selection_is_a_list_of_destinations(self):
        """S59: context, request_spec and filter_properties give a list of resources."""
        (one, two) = self.client.select_destinations(None, {**SMALL, "count": 2}, {})
        self.assertEqual({"name", "pool", "blocks", "score", "alternates"}, set(one))
        self.assertIsInstance(one["name"], str)
        self.assertTrue(one["blocks"])
        self.assertFalse(set(one["blocks"]) & set(two["blocks"]) and one["name"] == two["name"])

    def test_filter_properties_say_where(self):
        (best,) = self.client.select_destinations(None, SMALL, {"alternates": 3})
        (other,) = self.client.select_destinations(None, SMALL, {"exclude_podms": [best["name"]]})
        self.assertNotEqual(best["name"], other["name"])
        self.assertEqual(3, len(best["alternates"]))

    def test_a_generic_resource_request_is_both(self):
        """S66: either form is accepted, with the same result."""
        properties = {"zone": "east-1", "alternates": 1}
        both = {"request_spec": SMALL, "filter_properties": properties}
        self.assertEqual(
            self.client.select_destinations(None, SMALL, properties),
            self.client.select_destinations(None, both),
        )
        with self.assertRaisesRegex(InputError, "unknown field 'zone'"):
            self.client.select_destinations(None, {**both, "zone": "east-1"})

    def test_nothing_that_fits_is_an_error_with_reasons(self):
        """S13: a clear failure, with the reasons of pod managers."""
        with self.assertRaisesRegex(NothingFits, r"cores: needs 10,000, has"):
            huge = {"properties": {"processor": {"total_cores": 10_000}}}
            self.client.select_destinations(None, huge, {})

    def test_a_resource_is_placed_near_what_the_request_names(self):
        """S16: the scheduler knows the place of a volume; the caller knows only its name."""
        for kind in ("near", "prefer_near"):
            for volume, zone in (("v-east", "east-1"), ("v-west", "west-1")):
                for spec in ({"flavor": "small"}, SMALL):
                    with self.subTest(kind, volume=volume):
                        words = {kind: {"volume": volume}}
                        (found,) = self.client.select_destinations(None, spec, words)
                        place = self.client.scheduler.podm(found["name"]).podm.zone
                        self.assertEqual(zone, place)

    def test_decisions_are_those_of_a_scheduler_in_this_process(self):
        """S68: a decision does not depend on the place of the scheduler."""
        here = client.connect(inventories=self.inventories, environ=self.environ)
        for words in (
            {"flavor": "small"},
            {"flavor": "gpu-large", "count": 2, "alternates": 2},
            {"flavor": "large", "count": 3, "seed": 7, "policy": "pack"},
            {"flavor": "small", "count": 5, "policy": "balanced", "zone": "east-1"},
        ):
            with self.subTest(words):
                expected = [
                    {**one, "name": self.named(one["name"]),
                     "alternates": [self.named(other) for other in one["alternates"]]}
                    for one in here.select_destinations(None, words)
                ]  # fmt: skip
                self.assertTrue(expected)
                self.assertEqual(expected, self.client.select_destinations(None, words))

    def test_the_facts_that_decisions_read_are_all_that_need_be_sent(self):
        """S65: the service lists the fields that its enabled filters and weighers read."""
        fields = self.client.fields_read("default", "small")
        stats = {**RACK, "zone": "a", "status": "Online", "year": 2024, "health": "OK",
                 "cooling": {"kind": "liquid"},
                 "facts": {"watts": 9, "quarantine": "no"}}  # fmt: skip
        sent = client.needed_stats(stats, fields)
        self.assertEqual({*RACK, "status", "health", "facts"}, set(sent))
        self.assertEqual({"quarantine": "no"}, sent["facts"])
        self.assertEqual(stats, client.needed_stats(stats, self.client.fields_read()))

    def test_wrong_requests_are_named(self):
        for spec, error, words in (
            ({"flavor": "smal"}, UnknownName, "did you mean 'small'"),
            ({"flavor": "small", "colour": 1}, InputError, "unknown field 'colour'"),
            ({}, InputError, "a flavor, or else properties"),
            ({"flavor": "small", "near": {"volume": "v"}}, UnknownName, "volume.*'v'"),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                self.client.select_destinations(None, spec, {})


class ReportingContract:
    """Tests of a client over pod managers that report themselves."""

    def report(self, name, **fields):
        self.client.update_resource_stats(None, name, {**RACK, **fields})

    def test_stats_change_the_very_next_selection(self):
        """S60: a report takes effect immediately."""
        self.report("rack-1")
        self.report("rack-2")
        (one,) = self.client.select_destinations(None, SMALL, {})
        self.client.update_resource_stats(None, one["name"], {"enabled": False})
        (other,) = self.client.select_destinations(None, SMALL, {})
        racks = {self.named("rack-1"), self.named("rack-2")}
        self.assertEqual(racks, {one["name"], other["name"]})

    def test_a_name_is_accepted_as_it_was_returned(self):
        """S61: a text, or a tuple of host and node."""
        for name in ("rack-1", ("host-1", "node-1")):
            with self.subTest(name):
                self.report(name)
                podm = name if isinstance(name, str) else "/".join(name)
                (found,) = self.client.select_destinations(None, SMALL, {"podms": [podm]})
                self.assertEqual(self.named(name), found["name"])
                self.client.update_resource_stats(None, found["name"], {"enabled": False})
                with self.assertRaises(NothingFits):
                    self.client.select_destinations(None, SMALL, {"podms": [podm]})

    def test_stats_are_json_and_words_of_a_site_are_kept(self):
        """S63: an object of fields; unknown keys are facts."""
        self.report("rack-1", load=0.5, cooling={"kind": "liquid"})
        reported = self.client.scheduler.reported_stats("rack-1").stats
        self.assertEqual((0.5, {"kind": "liquid"}), (reported["load"], reported["cooling"]))
        facts = self.client.scheduler.podm("rack-1").podm.facts
        self.assertEqual((0.5, "liquid"), (facts["load"], facts["cooling.kind"]))
        with self.assertRaises(InputError):
            self.client.update_resource_stats(None, "rack-1", {"enabled": "perhaps"})

    def test_a_zone_of_stats_counts(self):
        """S64: the zone is in the stats."""
        self.report("rack-1", availability_zone="east")
        self.report("rack-2", availability_zone="west")
        (found,) = self.client.select_destinations(None, SMALL, {"zone": "west"})
        self.assertEqual(self.named("rack-2"), found["name"])

    def test_the_project_of_the_context_owns_the_request(self):
        self.report("rack-1")
        seen = []
        scheduler = self.client.scheduler
        decide = scheduler.select_destinations
        scheduler.select_destinations = lambda request, **words: (
            seen.append(request.owner),
            decide(request, **words),
        )[1]
        for context in ({"project_id": "p-1"}, type("C", (), {"project_id": "p-2"})(), None):
            self.client.select_destinations(context, SMALL, {})
        self.assertEqual(["p-1", "p-2", None], seen)


class TestSelectingInProcess(SelectingContract, InProcess, unittest.TestCase):
    """In this process."""


class TestSelectingOverHttp(SelectingContract, OverHttp, unittest.TestCase):
    """Over HTTP."""


class TestReportingInProcess(ReportingContract, InProcess, unittest.TestCase):
    """In this process."""


class TestReportingOverHttp(ReportingContract, OverHttp, unittest.TestCase):
    """Over HTTP."""


class TestSeam(unittest.TestCase):
    """The module of the client."""

    def test_the_two_calls_are_those_of_the_founding_document(self):
        """S59, S60: their names and parameters."""
        calls = client.SchedulerClient
        self.assertEqual(
            ["self", "context", "request_spec", "filter_properties"],
            [*inspect.signature(calls.select_destinations).parameters],
        )
        self.assertEqual(
            ["self", "context", "name", "stats"],
            [*inspect.signature(calls.update_resource_stats).parameters],
        )

    def test_a_caller_imports_this_module_only(self):
        """S62: one module is the only interface, and it imports no part of the scheduler."""
        program = textwrap.dedent("""
            import sys
            from valence_sched import client
            try:
                client.connect("http://127.0.0.1:9").select_destinations(None, {"flavor": "small"})
            except Exception as error:
                print(type(error).__name__)
            names = (name.split(".") for name in sys.modules)
            print(*sorted({path[1] for path in names if path[0] == "valence_sched" and path[1:]}))
        """)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True, cwd=ROOT)  # fmt: skip
        self.assertEqual("ServiceError\nclient errors model remote\n", ran.stdout)

    def test_programs_that_are_shown_import_this_module_only(self):
        """S62: the examples for callers import no other module."""
        shown = 0
        for page in (ROOT / "doc" / "source").rglob("*.rst"):
            for block in re.findall(r"code-block:: python\n\n((?:   .*\n|\n)+)", page.read_text()):
                program = textwrap.dedent(block)
                if "client.connect(" not in program:
                    continue
                shown += 1
                imports = re.findall(r"^(?:from|import) (valence_sched.*)$", program, re.MULTILINE)
                self.assertEqual(["valence_sched import client"], imports, page)
        self.assertGreater(shown, 0)

    def test_a_url_is_one(self):
        for url in ("127.0.0.1:8790", "ftp://x/", "http://u:secret@x/"):
            with self.subTest(url), self.assertRaises(UsageError) as caught:
                client.connect(url)
            self.assertNotIn("secret", str(caught.exception))
