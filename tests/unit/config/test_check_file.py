# SPDX-License-Identifier: Apache-2.0
"""The file of expectations: its forms, their names and lines, and errors that name the place."""

import json
import unittest

import jsonschema

from valence_sched.config import schemas
from valence_sched.config.scenario_file import parse_checks
from valence_sched.errors import NewerSchema, SchedulerError
from valence_sched.model.check import check_name
from valence_sched.model.codec import load_yaml
from valence_sched.model.scenario import Clone, Fail

WHOLE = b"""
schema: valence-sched/check
version: "1.0"
expectations:
- fits: {flavor: web, at_least: 4, policy: pack}
- name: mine
  fits: {flavor: web, at_least: 1, at_most: 2, in: east/a}

- {fits: {flavor: web, at_most: 1}, scenario: s.yaml#a tray dies, edits: [{fail: east}]}
- lands: {flavor: web, in: {zone: az1}}
- lands: {flavor: web, count: 3, in: east}
- does_not_fit: {flavor: web, count: 3}
- survives: 2
- fails: {model: A100, zone: az2}
- fails: east
  stuck_at_most: 1
- uses: {workload: w.csv, policy: pack, podms_at_most: 3}
- decision: {file: d.json, flavor: web}
- survives: 1
  edits: [{clone: east, times: 2}]
"""
NAMES = [
    "web fits at least 4 times under pack", "mine",
    "web fits at most 1 time (a tray dies, fail east)", "web lands in zone=az1",
    "3 x web land in east", "3 x web do not fit", "any 2 pod managers may fail",
    "every node lands again if model=A100,zone=az2 fails", "at most 1 node stuck if east fails",
    "w.csv needs at most 3 pod managers under pack", "web is decided as in d.json",
    "any 1 pod manager may fail (clone east x2)",
]  # fmt: skip


def problem(text: str) -> str:
    try:
        parse_checks(text.encode(), "f.yaml")
    except SchedulerError as error:
        return str(error)
    raise AssertionError("parsed")


class TestParse(unittest.TestCase):
    """What a person may write."""

    def test_every_expectation_has_its_line_and_a_name(self):
        checks, warnings = parse_checks(WHOLE, "f.yaml")
        self.assertEqual([], warnings)
        self.assertEqual([5, 6, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19], [c.line for c in checks])
        self.assertEqual(NAMES, [check_name(check) for check in checks])
        self.assertEqual((Fail(fail="east"),), checks[2].edits)
        self.assertEqual((Clone(clone="east", times=2),), checks[-1].edits)
        self.assertEqual("f.yaml: $.expectations[3]", checks[3].place)

    def test_it_is_as_its_schema_says(self):
        schema = json.loads(schemas.json_schema("check"))
        jsonschema.validate(load_yaml(WHOLE, "f.yaml"), schema)
        for text in (b"expectations: []", b"expectations: [{fits: {flavor: a, least: 1}}]"):
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(load_yaml(text, "f.yaml"), schema)

    def test_json_is_yaml(self):
        checks, _ = parse_checks(b'{"expectations":\n [{"survives": 1},\n {"fails": "a"}]}', "f")
        self.assertEqual([2, 3], [check.line for check in checks])

    def test_a_newer_version_is_refused(self):
        with self.assertRaises(NewerSchema):
            parse_checks(b'{version: "2.0", expectations: [{survives: 1}]}', "f.yaml")


class TestProblems(unittest.TestCase):
    """One line with the file and the place."""

    def test_no_expectation_is_no_silent_pass(self):
        line = "f.yaml: $.expectations: found no expectation, expected at least one"
        for text in ("{}", "expectations:", "expectations: []", "schema: valence-sched/check"):
            with self.subTest(text):
                self.assertEqual(line, problem(text))

    def test_what_is_wrong_is_named_with_its_place(self):
        for text, place, words in (
            ("{fit: {flavor: a}}", "", "did you mean 'fits'?"),
            ("{survives: 1, fails: a}", "", "survives and fails"),
            ("{fits: {flavor: a}}", ".fits", "at_least, at_most, or both"),
            ("{fits: {flavor: a, at_least: 2, at_most: 1}}", ".fits", "2 or more"),
            ("{fits: {flavor: a, at_least: -1}}", ".fits.at_least", "-1"),
            ("{fits: {flavor: a, at_least: 1, in: b@c}}", ".fits", "no blocks"),
            ("{fits: {flavor: a, at_least: 9999999}}", ".fits.at_least", "<= 1000000"),
            ("{fits: {flavor: a, at_leats: 1}}", ".fits", "at_leats"),
            ("{lands: {flavor: a}}", ".lands", "in"),
            ("{lands: {flavor: a, in: '@'}}", ".lands.in", "target '@'"),
            ("{survives: 0}", ".survives", "found 0"),
            ("{fails: '@'}", ".fails", "target '@'"),
            ("{survives: 1, edits: [{fial: a}]}", ".edits[0]", "did you mean 'fail'?"),
            ("{decision: {file: a}}", ".decision", "flavor"),
            ("{uses: {workload: a, podms_at_most: x}}", ".uses.podms_at_most", '"x"'),
        ):
            with self.subTest(text):
                line = problem(f"expectations: [{text}]")
                self.assertTrue(line.startswith(f"f.yaml: $.expectations[0]{place}"), line)
                self.assertIn(words, line)
                self.assertNotIn("\n", line)

    def test_a_name_is_one_of_its_own(self):
        line = problem("expectations: [{name: a, survives: 1}, {name: a, survives: 2}]")
        self.assertEqual("f.yaml: $.expectations[1].name: found 'a' again, expected a name of its "
                         "own", line)  # fmt: skip

    def test_what_is_no_map(self):
        self.assertIn("$: found no map", problem("- survives: 1"))
