# SPDX-License-Identifier: Apache-2.0
"""Both programs through a service: each command gives the same answer as without a service."""

import contextlib
import tempfile
import unittest

from tests.functional.programs import PROGRAMS, SITE, run
from tests.service.serving import serving
from valence_sched.model.registration import Registration
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

# Commands that read pod managers, and can use an inventory without a service.
READING = (
    ("podm", "list", "--long"),
    ("podm", "list", "-f", "json", "-c", "Podm", "-c", "Free Cores"),
    ("podm", "show", "gpu-east"),
    ("podm", "show", "nope"),
    ("podm", "block", "list", "--free"),
    ("podm", "block", "show", "Compute-02", "--podm", "gpu-east"),
    ("podm", "device", "list"),
    ("podm", "pool", "list"),
    ("podm", "fit"),
    ("podm", "schedule", "--flavor", "small"),
    ("podm", "schedule", "--flavor", "gpu-large", "--count", "3", "--explain"),
    ("podm", "schedule", "--flavor", "small", "--report", "-"),
    ("podm", "schedule", "--flavor", "nope"),
    ("podm", "schedule", "--flavor", "small", "--policy", "nope"),
    ("podm", "schedule", "--resource", "VCPU=10000"),
    ("podm", "schedule", "--resource", "VCPU=8", "--alternates", "2", "--seed", "7"),
)
# Commands that read no pod manager.
NAMING = (
    ("podm", "flavor", "list", "--long"),
    ("podm", "flavor", "show", "small"),
    ("scheduler", "policy", "list", "--long"),
    ("scheduler", "policy", "show", "default"),
    ("scheduler", "filter", "list"),
    ("scheduler", "weigher", "list"),
    ("podm", "claim", "list"),
    ("podm", "node", "list"),
)
URL = "VALENCE_SCHED_URL"


class TestRecorded(unittest.TestCase):
    """A service over a recorded inventory."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        settings = ServiceSettings(state=f"sqlite:///{folder}/s", inventories=(SITE,))
        self.url = self.enterContext(serving(settings, dict.fromkeys(homes, folder)))

    def through(self, *words):
        return run("valence-sched", *words, **{URL: self.url})

    def test_each_command_gives_the_same_answer(self):
        """S68: the answer does not depend on the place of the decision."""
        reading = [(words, (*words, "--inventory", SITE)) for words in READING]
        for words, local in [*reading, *((words, words) for words in NAMING)]:
            with self.subTest(" ".join(words)):
                here, there = run("valence-sched", *local), self.through(*words)
                self.assertEqual(here, there)

    def test_an_option_names_the_service_in_both_programs(self):
        for program in PROGRAMS:
            with self.subTest(program):
                words = ("podm", "list", "-f", "json", "-c", "Podm", "-c", "Free Cores")
                done = run(program, "--os-scheduler-endpoint", self.url, *words)
                self.assertEqual(run(program, *words, "--inventory", SITE), done)

    def test_what_is_named_here_wins_over_the_environment(self):
        done = run(
            "valence-sched", "podm", "list", "--inventory", SITE, **{URL: "http://127.0.0.1:9"}
        )
        self.assertEqual(0, done.code, done)

    def test_what_cannot_be_is_one_line(self):
        for words, endpoint, code, text in (
            (("podm", "list", "--inventory", SITE), self.url, 2, "--inventory is for"),
            (("podm", "watch"), self.url, 2, "this command is for"),
            (("podm", "create", "a", "http://x", "--password-prompt"), self.url, 2,
             "not sent to a service"),
            (("podm", "list", "--max-age", "1h"), self.url, 2, "the service decides by its own"),
            (("podm", "list"), "http://127.0.0.1:9", 1, "does not answer"),
            (("podm", "list"), "nope", 2, "expected the http or https URL"),
            (("podm", "list"), "http://u:secret@127.0.0.1:9", 2, "contains a password"),
        ):  # fmt: skip
            with self.subTest(text):
                done = run("valence-sched", "--os-scheduler-endpoint", endpoint, *words)
                self.assertEqual((code, "", 1), (done.code, done.out, done.err.count("\n")), done)
                self.assertIn(text, done.err)
                self.assertNotIn("secret", done.err)


class TestLive(unittest.TestCase):
    """A service over served pod managers."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        podms = stack.enter_context(served(SITE))
        # a reading that is still running when the service stops may write to the cache
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = stack.enter_context(temporary)
        state = f"sqlite:///{folder}/s"
        with Store(state) as store:
            for name, podm in podms.items():
                store.register(Registration(name=name, url=podm.url))
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        settings = ServiceSettings(state=state)
        self.url = stack.enter_context(serving(settings, dict.fromkeys(homes, folder)))

    def test_a_pod_manager_is_registered_through_it(self):
        """A registration through the service is the same as in a local state."""
        shown = self.ours("podm", "show", "gpu-east").data
        self.assertIn("Registered In", shown)
        (url,) = {shown["URL"]}
        for words, code in (
            (("podm", "delete", "gpu-east"), 0),
            (("podm", "delete", "gpu-east"), 1),
            (("podm", "create", "gpu-east", url, "--zone", "z-1"), 0),
            (("podm", "set", "gpu-east", "--aggregate", "gold"), 0),
            (("podm", "unset", "gpu-east", "--zone"), 0),
        ):
            done = run("valence-sched", *words, **{URL: self.url})
            self.assertEqual(code, done.code, (words, done.err))
        changed = self.ours("podm", "show", "gpu-east").data
        self.assertEqual(
            (shown["Identity"], ["gold"]), (changed["Identity"], changed["Aggregates"])
        )

    def ours(self, *words):
        return run("valence-sched", *words, "-f", "json", **{URL: self.url})

    def test_what_is_planned_is_planned_with_the_inventory_of_the_service(self):
        done = self.ours("scheduler", "whatif", "fail", "gpu-east")
        self.assertEqual((4, 4), (done.code, len(done.data)), done.err)
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/site.json"
            words = ("podm", "inventory", "convert", "-o", file)
            self.assertEqual(0, run("valence-sched", *words, **{URL: self.url}).code)
            here = run("valence-sched", "podm", "fit", "--inventory", file, "-f", "json")
        self.assertEqual(here.data, self.ours("podm", "fit").data)

    def test_a_node_is_claimed_composed_and_deleted_through_it(self):
        claimed = self.ours("podm", "schedule", "--flavor", "small", "--claim")
        self.assertEqual(0, claimed.code, claimed.err)
        (claim,) = self.ours("podm", "claim", "list").data
        composed = self.ours("podm", "claim", "compose", claim["ID"])
        self.assertEqual(0, composed.code, composed.err)
        (node,) = self.ours("podm", "node", "list").data
        self.assertEqual(0, self.ours("podm", "node", "show", node["Node"]).code)
        gone = run("valence-sched", "podm", "node", "delete", node["Node"], **{URL: self.url})
        self.assertEqual(0, gone.code, gone.err)
        self.assertEqual([], self.ours("podm", "node", "list").data)
