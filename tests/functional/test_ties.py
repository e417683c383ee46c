# SPDX-License-Identifier: Apache-2.0
"""Ties of commands: callers spread over equal pod managers; equal requests have equal answers."""

import contextlib
import json

from tests.functional.packages_on_path import written
from tests.functional.programs import PROGRAMS, SITE, Case, run
from tests.functional.test_live import Live
from tests.unit.integrations.test_dispatchers import controller
from tests.unit.zones.in_process import inventory
from valence_sched.testing.served import served

EQUALS = ("p1", "p2", "p3", "p4")
FLAVOR = ("--resource", "VCPU=8")
TAKERS = 10  # with 4 equals, all get the same one by chance once in 4 ** 9


class TestTies(Case):
    """Four equal pod managers, recorded and live."""

    def setUp(self):
        self.site = self.folder / "equal.json"
        self.site.write_text(json.dumps(inventory(dict.fromkeys(EQUALS, 4))))
        self.state = ("--state", f"sqlite:///{self.folder}/{self.id()}.sqlite")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        for podm in stack.enter_context(served(str(self.site))).values():
            self.podm("create", podm.id, podm.url)

    def podm(self, *words, program=PROGRAMS[0]):
        done = run(program, "podm", *words, *self.state)
        self.assertEqual(0, done.code, done.err)
        return done

    def taken(self, *words, **more):
        """Claim or compose a node and release it; return the row of its placement."""
        (row,) = self.podm("schedule", *FLAVOR, *words, "-f", "json", **more).data
        if "URI" in row:
            self.podm("node", "delete", row["Node"])
        else:
            self.podm("claim", "release", row["Claim"])
        return row

    def told(self, rows):
        return {row["Podm"] for row in rows}, {(row["Seed"], row["Request ID"]) for row in rows}

    def test_equal_callers_take_each_by_an_id_of_its_own(self):
        """S8: ties are broken at random."""
        for option in ("--claim", "--compose"):
            with self.subTest(option):
                programs = PROGRAMS * (TAKERS // len(PROGRAMS))
                podms, ties = self.told([self.taken(option, program=one) for one in programs])
                self.assertGreater(len(podms), 1)
                self.assertEqual((TAKERS, {0}), (len(ties), {seed for seed, _ in ties}))

    def test_what_is_dispatched_has_an_id_of_its_own(self):
        answers = [(200, {})] * TAKERS
        with controller(*answers) as there:
            rows = [row for _ in range(TAKERS)
                    for row in self.podm("schedule", *FLAVOR, "--dispatch",
                                         f"webhook={there.url}", "-f", "json").data]  # fmt: skip
            came = [json.loads(body)["request"]["id"] for _, _, body in there.came]
        podms, ties = self.told(rows)
        self.assertGreater(len(podms), 1)
        self.assertEqual(ties, {(0, id_) for id_ in came})

    def test_with_a_seed_the_same_is_taken_each_time(self):
        """S8: a seed gives the same sequence."""
        for option in ("--claim", "--compose"):
            for seed in ("0", "7"):
                with self.subTest(option, seed=seed):
                    rows = [self.taken(option, "--seed", seed) for _ in range(4)]
                    (podm,), ((told, id_),) = self.told(rows)
                    self.assertEqual(int(seed), told)
                    (row,) = self.podm("schedule", *FLAVOR, "--seed", seed, "-f", "json").data
                    self.assertEqual(podm, row["Podm"])
                    replay = self.report("--request-id", id_, "--seed", seed)
                    self.assertEqual(self.report("--seed", seed), replay)

    def test_a_question_has_the_same_answer_each_time(self):
        for words in ((), ("--seed", "7"), ("--dry-run",), ("--dry-run", "server")):
            found = {self.podm("schedule", *FLAVOR, *words, "-f", "json") for _ in range(3)}
            self.assertEqual(1, len(found))
            self.assertNotIn("request ID", found.pop().err)
        recorded = ("podm", "schedule", *FLAVOR, "--inventory", str(self.site))
        screens = {run(PROGRAMS[0], *recorded) for _ in range(3)}
        self.assertEqual(1, len(screens))

    def report(self, *words):
        file = self.folder / "report.json"
        self.podm("schedule", *FLAVOR, *words, "--report", str(file))
        return file.read_bytes()

    def test_the_decision_is_made_again_by_the_id_and_the_seed_that_are_told(self):
        """Screens, rows, reports and plans of claims and compositions have the id and the seed."""
        for option in ("--claim", "--compose"):
            with self.subTest(option):
                file = self.folder / "taken.json"
                row = self.taken(option, "--report", str(file))
                id_, taken = row["Request ID"], json.loads(file.read_bytes())
                self.assertEqual((id_, 0), (taken["request"]["id"], taken["seed"]))
                replay = json.loads(self.report("--request-id", id_, "--seed", "0"))
                self.assertEqual(
                    [one["chosen"] for one in taken["placements"]],
                    [one["chosen"] for one in replay["placements"]],
                )
                self.assertEqual(taken["request"], replay["request"])
                self.assertEqual(self.report("--request-id", id_), self.report("--request-id", id_))
                explained = self.podm_less("scheduler", "explain", str(file))
                self.assertRegex(explained.out, rf"seed 0\)\n(.*\n)+request {id_}, ")
                plan = self.folder / "plan.json"
                self.podm("schedule", *FLAVOR, "--request-id", id_, "--plan", str(plan))
                planned = json.loads(plan.read_bytes())["decision"]
                self.assertEqual((id_, 0), (planned["request"]["id"], planned["seed"]))
                self.assertEqual(taken["placements"][0]["chosen"],
                                 planned["placements"][0]["chosen"])  # fmt: skip
                again = self.write("again.json", json.dumps(taken["request"]))
                (repeat,) = self.podm("schedule", "--request-file", again, "-f", "json").data
                self.assertEqual((row["Podm"], id_), (repeat["Podm"], repeat["Request"][3:]))
                screen = self.podm("schedule", *FLAVOR, "--request-id", id_)
                self.assertIn(f"(policy default, seed 0, request ID {id_})", screen.err)

    def podm_less(self, *words):
        return run(PROGRAMS[0], *words)

    def test_a_repeat_with_its_key_is_decided_alike(self):
        first = self.taken("--claim", "--key", "k")
        self.assertEqual(first["Request ID"], self.taken("--claim", "--key", "k")["Request ID"])
        other = self.taken("--claim", "--key", "another")
        self.assertNotEqual(first["Request ID"], other["Request ID"])

    def test_people_see_the_id_once(self):
        done = self.podm("schedule", *FLAVOR, "--claim")
        self.assertNotIn("Request ID", done.out)
        self.assertRegex(done.err, r"\(policy default, seed 0, request ID [0-9a-f]{16}\)")

    def test_an_id_is_said_in_the_file_of_requests(self):
        file = self.write("two.yaml", "requests:\n- flavor: small\n")
        words = ("schedule", "--request-file", file, "--request-id", "x")
        done = run(PROGRAMS[0], "podm", *words, "--inventory", str(self.site))
        self.assertEqual(2, done.code)
        self.assertIn("--request-id: with --request-file, set it in the file", done.err)


FAILING = "def stumbles(*arguments):\n    return {}['rack']\n"


class TestStrangers(Live):
    """Errors of third-party code are reported."""

    def failed(self, group: str, *words: str) -> str:
        folder = written(self.folder / group, f"{group}_of_others", FAILING,
                         f"valence_sched.{group}", "stumbles")  # fmt: skip
        return self.podm("list", *words, code=1, PYTHONPATH=folder).err

    def test_a_driver_that_fails_is_named_with_what_it_reads(self):
        self.assertEqual("driver 'stumbles': rack.csv: KeyError: 'rack'\n",
                         self.failed("drivers", "--inventory", "stumbles:rack.csv"))  # fmt: skip

    def test_who_says_who_is_alive_and_fails_is_named(self):
        words = ("--inventory", SITE, "--liveness", "stumbles:2m")
        self.assertEqual("liveness 'stumbles': KeyError: 'rack'\n", self.failed("liveness", *words))

    def test_a_resolver_that_fails_is_named_by_itself_or_by_what_it_is_asked_for(self):
        near = ("schedule", "--inventory", SITE, "--flavor", "small", "--near", "volume=db-1")
        for number, (body, line) in enumerate((
            ("return {}['rack']", "resolver 'odd': cmdb: KeyError: 'rack'\n"),
            ("return 7", "the resolver of volume db-1: "
                         "AttributeError: 'int' object has no attribute 'find'\n"),
        )):  # fmt: skip
            with self.subTest(body):
                folder = written(self.folder / f"odd-{number}", "resolver_of_others",
                                 f"def odd(path):\n    {body}\n",
                                 "valence_sched.resolvers", "odd")  # fmt: skip
                done = self.podm(*near, "--near-map", "odd:cmdb", code=1, PYTHONPATH=folder)
                self.assertEqual(line, done.err)
