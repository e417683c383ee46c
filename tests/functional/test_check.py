# SPDX-License-Identifier: Apache-2.0
"""``scheduler check`` in both programs: exit codes, outputs and golden decisions."""

import json
from xml.etree import ElementTree

from tests.functional.programs import PROGRAMS, ROOT, SITE, Case, run

EXAMPLES = ROOT / "examples"
FITS = "{fits: {flavor: gpu-large, at_least: %s}}"


class Checks(Case):
    """Checks of the example site."""

    def check(self, text, *words, program="valence-sched", **more):
        file = self.write("check.yaml", f"expectations:\n- {text}\n")
        return run(program, "scheduler", "check", file, "--inventory", SITE, *words, **more)


class TestCheck(Checks):
    """The results for users, programs and CI systems."""

    def test_all_expectations_of_the_example_are_met(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = run(program, "scheduler", "check", EXAMPLES / "check.yaml", "--inventory",
                           SITE, "-f", "json")  # fmt: skip
                self.assertEqual(0, done.code, done.err)
                self.assertEqual({"pass"}, {row["Result"] for row in done.data})
                lines = (EXAMPLES / "check.yaml").read_text().splitlines()
                for row in done.data:
                    self.assertTrue(lines[row["Line"] - 1].startswith("- "), row)
                self.assertIn("9 expectations met\n", done.err)

    def test_what_is_not_met_is_exit_code_10_an_annotation_and_a_failure(self):
        junit = self.folder / "check.xml"
        for program in PROGRAMS:
            with self.subTest(program):
                done = self.check(FITS % 5, "--github", "--junit", junit, program=program)
                self.assertEqual(10, done.code, done.err)
                text = "gpu-large fits at least 5 times: fits 4 times: gpu-east 3, gpu-north 1"
                self.assertIn(f"::error file={self.folder}/check.yaml,line=2::{text}\n", done.err)
                self.assertIn("1 of 1 expectation not met\n", done.err)
                root = ElementTree.fromstring(junit.read_bytes())
                self.assertEqual(["fits 4 times: gpu-east 3, gpu-north 1"],
                                 [one.get("message") for one in root.iter("failure")])  # fmt: skip

    def test_markdown_is_a_table_in_which_no_name_is_markup(self):
        done = self.check("{name: 'a|b <i>\\n', survives: 7}", "-f", "markdown")
        self.assertEqual(10, done.code, done.err)
        header, rule, row = done.out.splitlines()
        self.assertEqual(["|", "Result", "|", "Expectation", "|", "Found", "|"], header.split())
        self.assertRegex(rule, r"^\|:?-+")
        self.assertIn(r"a\|b &lt;i>", row)

    def test_a_hostile_name_is_escaped_everywhere(self):
        junit = self.folder / "hostile.xml"
        name = '{name: "\\e[31m\\n::warning::x%", ' + FITS[1:] % 5
        done = self.check(name, "--github", "--junit", junit)
        self.assertEqual(10, done.code, done.err)
        self.assertNotIn("\x1b", done.out + done.err + junit.read_text())
        self.assertEqual([], [line for line in (done.out + done.err).splitlines()
                              if line.startswith("::warning")])  # fmt: skip
        (error,) = (line for line in done.err.splitlines() if line.startswith("::error"))
        self.assertIn("%0A::warning::x%25: ", error)

    def test_input_from_a_pipe_and_edits_of_its_own(self):
        text = b"expectations:\n- fits: {flavor: gpu-large, at_least: 8}\n  edits:\n" + (
            b"  - clone: gpu-east\n"
        )
        words = ("scheduler", "check", "-", "--inventory", SITE, "-f", "json")
        done = run("valence-sched", *words, stdin=text)
        self.assertEqual((0, "stdin"), (done.code, done.data[0]["File"]), done.err)


class TestGolden(Checks):
    """A decision that is recorded and later compared."""

    def test_it_is_recorded_and_then_the_same_until_something_moves(self):
        text = "{decision: {file: golden.json, flavor: small, count: 2}}"
        done = self.check(text)
        self.assertEqual(1, done.code)
        self.assertIn("use --record", done.err)
        done = self.check(text, "--record", "-f", "json")
        self.assertEqual((0, "recorded"), (done.code, done.data[0]["Result"]), done.err)
        self.assertEqual(0, self.check(text).code)
        told = run("valence-sched", "scheduler", "explain", self.folder / "golden.json")
        self.assertEqual(0, told.code, told.err)
        moved = text[:-1] + ", edits: [{drain: general-1}]}"
        done = self.check(moved, "-f", "json")
        self.assertEqual(10, done.code, done.err)
        self.assertIn("node 1: general-1/rack-2 is now ", done.data[0]["Found"])
        self.assertIn("inventory: digest ", done.data[0]["Found"])

    def test_a_report_of_podm_schedule_is_one(self):
        golden = self.folder / "schedule.json"
        words = ("--inventory", SITE, "--flavor", "gpu-large", "--count", "2")
        self.assertEqual(0, run("valence-sched", "podm", "schedule", *words, "--report",
                                golden).code)  # fmt: skip
        done = self.check("{decision: {file: schedule.json, flavor: gpu-large, count: 2}}")
        self.assertEqual(0, done.code, done.out)

    def test_what_is_no_decision_is_one_line(self):
        self.write("bad.json", json.dumps({"schema": "other", "version": "1.0"}))
        done = self.check("{decision: {file: bad.json, flavor: small}}")
        self.assertEqual(1, done.code)
        self.assertRegex(done.err, r"^\S+check.yaml: \$.expectations\[0\]: \S+bad.json: .*\n$")


class TestBadInput(Checks):
    """A bad input causes one line with file and place, and never a silent success."""

    def test_each_is_one_line(self):
        for text, words in (
            ("{fits: {flavor: gpu-larg, at_least: 1}}", "$.expectations[0]: no flavor named"),
            ("{fit: 1}", "$.expectations[0]: found no expectation"),
            ("{survives: 0}", "$.expectations[0].survives: found 0"),
            ("{fails: gpu-eas}", "did you mean 'gpu-east'?"),
            ("{survives: 1, scenario: none.yaml}", "none.yaml: found no such file"),
            ("{uses: {workload: none.csv}}", "none.csv: found no such file"),
        ):
            with self.subTest(text):
                done = self.check(text)
                self.assertEqual((1, ""), (done.code, done.out), done.err)
                self.assertIn(words, done.err)
                self.assertEqual(1, done.err.count("\n"), done.err)
                self.assertIn("check.yaml: ", done.err)

    def test_no_expectation_is_an_error(self):
        file = self.write("empty.yaml", "expectations: []\n")
        done = run("valence-sched", "scheduler", "check", file, "--inventory", SITE)
        line = f"{file}: $.expectations: found no expectation, expected at least one\n"
        self.assertEqual((1, "", line), done)

    def test_a_file_that_cannot_be_written_is_told_before(self):
        for option, code in (("", 2), ("-", 2), (str(self.folder / "none" / "x.xml"), 1)):
            with self.subTest(option):
                done = self.check(FITS % 1, "--junit", option)
                self.assertEqual((code, ""), (done.code, done.out), done.err)
