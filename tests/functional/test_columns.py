# SPDX-License-Identifier: Apache-2.0
"""An unknown column stops a command before its effect."""

import json

from tests.functional.programs import PROGRAMS, SITE, Case, run
from tests.functional.test_stats import BLOCK
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.store.store import Store
from valence_sched.testing import request

OURS = PROGRAMS[0]
FLAVOR = ("--flavor", "small")
SMALL = ("--inventory", SITE, *FLAVOR)


class TestColumns(Case):
    """A command with an unknown column exits with 2, suggests a name, and changes nothing."""

    def setUp(self):
        self.state = self.folder / f"{self.id().rpartition('.')[2][:40]}.sqlite"

    def asked(self, *words, program=OURS):
        return run(program, *words, "--state", self.state)

    def refused(self, *words, program=OURS):
        done = self.asked(*words, "-c", "nosuch", program=program)
        self.assertEqual((2, ""), (done.code, done.out), done.err)
        (line,) = done.err.splitlines()
        self.assertIn("no column named 'nosuch'", line)

    def keys(self, *words):
        done = run(OURS, *words, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return list(json.loads(done.out))

    def test_nothing_is_registered_held_or_taken_in(self):
        report = self.write("stats.json", "{}")
        for program in PROGRAMS:
            for words in (
                ("podm", "create", "a", "http://127.0.0.1:9", "--no-check"),
                ("podm", "schedule", *FLAVOR, "--claim"),
                ("podm", "schedule", *FLAVOR, "--compose"),
                ("podm", "stats", "set", "a", report),
                ("podm", "claim", "reap"),
            ):
                with self.subTest(words, program=program):
                    self.refused(*words, program=program)
                    self.assertFalse(self.state.exists())

    def test_nothing_is_written(self):
        file = self.folder / "written"
        for words in (
            ("schedule", *SMALL, "--plan", file),
            ("schedule", *SMALL, "--report", file),
            ("capture", "--inventory", SITE, "--output", f"{file}.json"),
            ("inventory", "convert", "--inventory", SITE, "--output", f"{file}.json"),
        ):
            with self.subTest(words):
                self.refused("podm", *words)
                self.assertEqual([], list(self.folder.glob("written*")))

    def test_a_claim_stays_as_it_is_and_a_plan_is_not_done(self):
        plan = self.folder / "plan.json"
        self.assertEqual(0, self.asked("podm", "schedule", *SMALL, "--plan", plan).code)
        for deed in ("--claim", "--compose", "--refresh"):
            self.refused("podm", "apply", plan, deed)
        self.assertFalse(self.state.exists())
        with Store(f"sqlite:///{self.state}") as store:
            store.remember(podm("rack-1", 4))
            claim = claimer(store).claim(request(CORES), ttl_s=600).claim
            self.refused("podm", "claim", "renew", claim.id, "--ttl", "9d")
            self.assertEqual(claim.expires_at, store.claims.show(claim.id).expires_at)

    def test_what_is_said_beforehand_is_what_is_printed(self):
        report = self.write("stats.json", "{}")
        state = ("--state", self.state)
        file = self.folder / "all.json"
        served = ("--inventory", SITE)
        for last, words in (
            ("Registered In", ("create", "a", "http://127.0.0.1:9", "--no-check", *state)),
            ("Generation", ("stats", "set", "a", report, *state)),
            ("Blocks", ("inventory", "convert", *served, "--output", file)),
            ("Failed", ("capture", *served, "--output", file)),
        ):
            with self.subTest(words):
                self.assertEqual(last, self.keys("podm", *words)[-1])

    def test_an_outcome_without_the_columns_of_another_has_no_rows(self):
        report = self.write("blocks.json", json.dumps({"blocks": [{"uri": "b", **BLOCK}]}))
        self.assertEqual(0, self.asked("podm", "stats", "set", "p", report).code)
        none = ("--resource", "CUSTOM_NONE=9", "--compose")
        words = ("podm", "schedule", *none, "-c", "URI", "-f", "json")
        done = self.asked(*words)
        self.assertEqual((3, []), (done.code, done.data), done.err)
        held = ("podm", "schedule", *FLAVOR, "--claim", "--key", "k", "-c", "Node", "-f", "json")
        self.assertEqual(0, self.asked(*held).code)
        again = self.asked(*held)
        self.assertEqual((0, [{"Node": 1}]), (again.code, again.data), again.err)


class TestFormulas(Case):
    """With the option, a spreadsheet does not evaluate names of pod managers as formulas."""

    def test_texts_that_begin_a_formula_have_an_apostrophe(self):
        names = ("=2+5", "+1", "-1", "@sum", "plain")
        site = "".join(json.dumps({"id": name}) + "\n" for name in names)
        words = ("podm", "list", "--inventory", self.write("f.jsonl", site), "-f", "csv")
        for program in PROGRAMS:
            plain, escaped = (
                [line.split(",")[0].strip('"') for line in run(program, *words, *more).out.split()]
                for more in (("-c", "Podm"), ("-c", "Podm", "--escape-formulas"))
            )
            self.assertEqual(["Podm", *names], plain)
            self.assertEqual(["Podm", "'=2+5", "'+1", "'-1", "'@sum", "plain"], escaped)
