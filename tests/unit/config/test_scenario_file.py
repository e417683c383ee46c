# SPDX-License-Identifier: Apache-2.0
"""Files of scenarios and of expectations: their forms, and errors that name file and place."""

import json
import unittest

import jsonschema
import msgspec

from tests import schemas
from tests.unit.config.refusal import refusal
from valence_sched.config.scenario_file import parse_checks, parse_scenarios
from valence_sched.errors import InputError, NewerSchema, SchedulerError
from valence_sched.model.check import check_name
from valence_sched.model.codec import load_yaml
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.scenario import AddBlocks, Clone, Fail, SetAttributes, Target

WHOLE = b"""
schema: valence-sched/scenario
version: "1.0"
templates:
- name: H100 tray
  type: [Expansion]
  devices: {accelerators: [{kind: GPU, model: H100, memory_mib: 80GiB}]}
  price: 30000
scenarios:
- name: tray dies
  description: The tray in row A.
  edits:
  - fail: GPU-01@gpu-east
  - fail: {model: A100, zone: az2}
- name: bought
  extends: tray dies
  edits:
  - {add: H100 tray, to: gpu-east/row-a, count: 8}
  - {clone: web-*, times: 2}
  - set: gpu-east
    zone: null
    facts: {price: 2, rack: E07, racks: [a, b], old: null}
    capabilities: {os: linux, fabric: [ib, ethernet]}
  policy: pack
  weights: {pack: 2}
  policies: [{name: mine, weighers: [room]}]
  flavors: [{name: mine, properties: {memory: {capacity_mib: 2GiB}}}]
"""


def problem(text: str) -> str:
    return refusal(parse_scenarios, text.encode(), "f.yaml", kind=SchedulerError)


def with_edit(text: str) -> str:
    return problem(f"{{name: a, edits: [{{{text}}}]}}")


class TestParse(unittest.TestCase):
    """The content of a file."""

    def test_a_whole_file(self):
        content = parse_scenarios(WHOLE, "f.yaml")
        first, second = content.scenarios.values()
        self.assertEqual((Fail("GPU-01@gpu-east"), Fail(Target(model="A100", zone="az2"))),
                         first.edits)  # fmt: skip
        add, clone, attributes = second.edits
        self.assertEqual(AddBlocks("H100 tray", "gpu-east/row-a", 8), add)
        self.assertEqual(Clone("web-*", 2), clone)
        assert isinstance(attributes, SetAttributes)
        self.assertEqual({"price": 2.0, "rack": "E07", "racks": ("a", "b"), "old": None},
                         attributes.facts)  # fmt: skip
        self.assertIsNone(attributes.zone)
        self.assertEqual("f.yaml: $.scenarios[1]", second.place)
        text = second.text
        self.assertEqual(("tray dies", "pack", {"pack": 2.0}),
                         (text.extends, text.policy, text.weights))  # fmt: skip
        self.assertEqual(["mine", "mine"], [second.policies[0].name, text.flavors[0].name])
        card = Accelerator(kind="GPU", model="H100", memory_mib=81920)
        self.assertEqual(Devices(accelerators=(card,)), content.templates[0].devices)

    def test_a_file_of_a_single_scenario(self):
        text = b"schema: valence-sched/scenario\nname: a\nedits:\n- remove: p\n"
        self.assertEqual(["a"], list(parse_scenarios(text, "f.yaml").scenarios))

    def test_the_schema_has_the_same_opinion(self):
        validate = jsonschema.Draft202012Validator(json.loads(schemas.json_schema("scenario")))
        validate.validate(load_yaml(WHOLE, "f"))
        for edit in ({"fial": "p"}, {"fail": "p", "drain": "q"}, {"add": "g"}, {"set": {"pod": 1}}):
            wrong = {"name": "a", "edits": [edit]}
            self.assertFalse(validate.is_valid(wrong), edit)
            with self.assertRaises(InputError):
                parse_scenarios(msgspec.json.encode(wrong), "f")


class TestErrors(unittest.TestCase):
    """An error is one line: the file, the place, found and expected."""

    def test_edits(self):
        verbs = "fail, drain, remove, clone, add, set"
        for text, message in (
            ("fial: p",
             f"$.edits[0]: found no edit, expected one of {verbs} (did you mean 'fail'?)"),
            ("", f"$.edits[0]: found no edit, expected one of {verbs}"),
            ("fail: p, drain: q", f"$.edits[0]: found fail and drain, expected one of {verbs}"),
            ("fail: p, why: x", "$.edits[0]: found unknown field 'why' (known: fail)"),
            ("fail: p/", "$.edits[0].fail: target 'p/': found another form, expected PODM, "
                         "PODM/POOL, BLOCK@PODM, BLOCK@PODM/POOL or KEY=VALUE,…"),
            ("fail: {zoen: a}",
             "$.edits[0].fail: found unknown field 'zoen' (did you mean 'zone'?)"),
            ("fail: {}", "$.edits[0].fail: found {}, expected at least one condition, such as "
                         "podm: '*'"),
            ("fail: 3", "$.edits[0].fail: found 3, expected str | object"),
            ("add: g1", "$.edits[0]: found no field 'to', which is required"),
            ("add: g1, to: g1@p", "$.edits[0]: found {\"add\":\"g1\",\"to\":\"g1@p\"}, expected "
                                  "pod managers or pools to add blocks to, not blocks"),
            ("clone: p, times: 0", "$.edits[0].times: found 0, expected int >= 1"),
            ("clone: p/a", "$.edits[0]: found {\"clone\":\"p/a\"}, expected pod managers to clone, "
                           "not pools or blocks"),
            ("set: p/a, zone: z", "$.edits[0]: found {\"set\":\"p/a\",\"zone\":\"z\"}, expected "
                                  "for pools one or more of traits"),
            ("set: p, statuss: Offline", "$.edits[0]: found unknown field 'statuss' (did you mean "
                                         "'status'?)"),
            ("set: p, status: Ofline", "$.edits[0].status: found 'Ofline', expected one of the "
                                       "values of the schema (did you mean 'Offline'?)"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(f"f.yaml: {message}", with_edit(text))

    def test_scenarios(self):
        for text, message in (
            ("[]", "$: found no map, expected a scenario, or a list of them under 'scenarios'"),
            ("{edits: []}", "$: found no field 'name', which is required"),
            ("{scenarios: []}", "$.scenarios: found [], expected array of length >= 1"),
            ("{scenarios: [{name: a}, {name: a}]}",
             "$.scenarios[1].name: found 'a' again, expected a unique name"),
            ("{name: a#b}", "$.name: found \"a#b\", expected str matching regex '^[^#]*$'"),
            ("{name: a, templates: [{name: t}, {name: t}]}",
             "$.templates[1].name: found 't' again, expected a unique name"),
            ("{name: a, edits: [{x: 1}], templates: [{name: t}, {name: t}]}",
             "$.edits[0]: found no edit, expected one of fail, drain, remove, clone, add, set "
             "(known: add, clone, drain, fail, remove, set)"),
            ("{name: a, weights: {room: -1}}",
             "$.weights['room']: found -1, expected float >= 0.0"),
            ("{name: a, policies: [{name: p, weighers: [rom]}]}",
             "policy 'p': no weigher named 'rom' (did you mean 'room'?)"),
            ("{name: a, flavors: [{name: f}]}",
             "$.flavors[0].properties: found no requirement, expected at least one"),
            ("{name: a, schema: valence-sched/policy}",
             "$.schema: found 'valence-sched/policy', expected 'valence-sched/scenario'"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(f"f.yaml: {message}", problem(text))
        with self.assertRaises(NewerSchema):
            parse_scenarios(b"{name: a, version: '2.0'}", "f.yaml")


WHOLE_CHECKS = b"""
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
    "web fits at most 1 time (a tray dies, fail east)", "web is placed in zone=az1",
    "3 x web are placed in east", "3 x web do not fit", "the site survives 2 pod manager failures",
    "every node can be re-placed if model=A100,zone=az2 fails",
    "at most 1 node stuck if east fails", "w.csv needs at most 3 pod managers under pack",
    "web is decided as in d.json",
    "the site survives 1 pod manager failure (clone east x2)",
]  # fmt: skip


def check_problem(text: str) -> str:
    return refusal(parse_checks, text.encode(), "f.yaml", kind=SchedulerError)


class TestParseChecks(unittest.TestCase):
    """Files of a user."""

    def test_every_expectation_has_its_line_and_a_name(self):
        checks, warnings = parse_checks(WHOLE_CHECKS, "f.yaml")
        self.assertEqual([], warnings)
        self.assertEqual([5, 6, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19], [c.line for c in checks])
        self.assertEqual(NAMES, [check_name(check) for check in checks])
        self.assertEqual((Fail(fail="east"),), checks[2].edits)
        self.assertEqual((Clone(clone="east", times=2),), checks[-1].edits)
        self.assertEqual("f.yaml: $.expectations[3]", checks[3].place)

    def test_it_is_as_its_schema_says(self):
        schema = json.loads(schemas.json_schema("check"))
        jsonschema.validate(load_yaml(WHOLE_CHECKS, "f.yaml"), schema)
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
    """A problem is one line with the file and the place."""

    def test_no_expectation_is_no_silent_pass(self):
        line = "f.yaml: $.expectations: found no expectation, expected at least one"
        for text in ("{}", "expectations:", "expectations: []", "schema: valence-sched/check"):
            with self.subTest(text):
                self.assertEqual(line, check_problem(text))

    def test_what_is_wrong_is_named_with_its_place(self):
        for text, place, words in (
            ("{fit: {flavor: a}}", "", "did you mean 'fits'?"),
            ("{survives: 1, fails: a}", "", "survives and fails"),
            ("{fits: {flavor: a}}", ".fits", "at_least, at_most, or both"),
            ("{fits: {flavor: a, at_least: 2, at_most: 1}}", ".fits", "at_most to be 2 (at_least)"),
            ("{fits: {flavor: a, at_least: -1}}", ".fits.at_least", "-1"),
            ("{fits: {flavor: a, at_least: 1, in: b@c}}", ".fits", "not blocks"),
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
                line = check_problem(f"expectations: [{text}]")
                self.assertTrue(line.startswith(f"f.yaml: $.expectations[0]{place}"), line)
                self.assertIn(words, line)
                self.assertNotIn("\n", line)

    def test_a_name_is_one_of_its_own(self):
        line = check_problem("expectations: [{name: a, survives: 1}, {name: a, survives: 2}]")
        self.assertEqual(
            "f.yaml: $.expectations[1].name: found 'a' again, expected a unique name", line
        )

    def test_what_is_no_map(self):
        self.assertIn("$: found no map", check_problem("- survives: 1"))
