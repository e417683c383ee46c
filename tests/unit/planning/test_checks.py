# SPDX-License-Identifier: Apache-2.0
"""Expectations on small sites: each matches the decisions, and states the found value."""

import dataclasses
import json
import tempfile
import unittest
from pathlib import Path

from tests.unit.core.deciders import cpu
from tests.unit.planning.sites import site_of
from valence_sched import files
from valence_sched.config.scenario_file import parse_checks
from valence_sched.config.settings import Configuration
from valence_sched.errors import InputError, NothingMatches, UnknownName
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor
from valence_sched.planning.checks import Checker

USED = {"state": "Composed", "compositions": 1}


def flavor(name, cores):
    words = {"name": name, "properties": {"processor": {"total_cores": cores}}}
    return convert(words, Flavor, "flavor")


def site():
    """Return ``east`` with room for two web in pool a and one in b, ``west`` with a node."""
    east = {"id": "east", "zone": "az1", "pools": [{"id": "a"}, {"id": "b"}],
            "blocks": [cpu("/1", 8, pools=["a"]), cpu("/2", 8, pools=["a"]),
                       cpu("/3", 8, pools=["b"])]}  # fmt: skip
    west = {"id": "west", "zone": "az2", "blocks": [cpu("/1", 8, status=USED)],
            "nodes": [{"uri": "/n/1", "name": "n1", "blocks": ["/1"]}]}  # fmt: skip
    known = {one.name: one for one in (flavor("web", 8), flavor("big", 99))}
    return dataclasses.replace(site_of(east, west), flavors=known)


class TestChecks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = Configuration({"XDG_CONFIG_HOME": folder.name})

    def result(self, text, **words):
        file = str(self.folder / "check.yaml")
        (check,), _ = parse_checks(f"expectations: [{text}]".encode(), file)
        return Checker(site(), self.config, **words).result(check)

    def assert_each(self, rows):
        for text, met, found in rows:
            with self.subTest(text):
                result = self.result(text)
                self.assertEqual((("pass" if met else "fail"), found),
                                 (result.result, result.found))  # fmt: skip

    def test_how_often_something_fits(self):
        found = "fits 3 times: east 3"
        self.assert_each([
            ("{fits: {flavor: web, at_least: 3}}", True, found),
            ("{fits: {flavor: web, at_least: 4}}", False, found),
            ("{fits: {flavor: web, at_most: 3}}", True, found),
            ("{fits: {flavor: web, at_most: 2}}", False, found),
            ("{fits: {flavor: web, at_least: 2, in: east/a}}", True, "fits 2 times: east 2"),
            ("{fits: {flavor: web, at_most: 1, in: {pool: b}}}", True, "fits 1 time: east 1"),
            ("{fits: {flavor: web, at_most: 0, in: {zone: az2}}}", True, "fits 0 times"),
        ])  # fmt: skip

    def test_more_are_counted_where_more_are_expected(self):
        many = (
            "{fits: {flavor: web, at_least: 1003}, edits: [{add: '/1', to: east/a, count: 1000}]}"
        )
        self.assert_each([(many, True, "fits 1,003 times: east 1,003")])

    def test_where_something_lands(self):
        self.assert_each([
            ("{lands: {flavor: web, in: {zone: az1}}}", True, "placed on east/b"),
            ("{lands: {flavor: web, in: west}}", False, "placed on east/b"),
            ("{lands: {flavor: web, count: 3, in: east}}", True, "3 of 3 placed on east/b, east/a"),
            ("{lands: {flavor: web, count: 3, in: east/a}}", False, "1 of 3 placed on east/b"),
            ("{lands: {flavor: web, count: 4, in: east}}", False,
             "3 of 4 fit: east: no free cores"),
        ])  # fmt: skip

    def test_what_does_not_fit(self):
        self.assert_each([
            ("{does_not_fit: {flavor: big}}", True,
             "does not fit: east: 16 of 99 cores"),
            ("{does_not_fit: {flavor: web}}", False, "placed on east/b"),
            ("{does_not_fit: {flavor: web, in: west}}", True,
             "does not fit: west: no free cores"),
            ("{does_not_fit: {flavor: web, count: 2, in: east/b}}", True,
             "1 of 2 fit: east: no free cores"),
        ])  # fmt: skip

    def test_what_may_fail(self):
        stuck = "0 of 1 node of west can be re-placed, 1 cannot: n1"
        full = "edits: [{set: east, enabled: no}]"
        self.assert_each([
            ("{survives: 1}", True,
             "the site survives 1 pod manager failure: "
             "every node can be re-placed (2 of 2 sets tried)"),
            ("{survives: 2}", False, "the site does not survive 2 failures: 1 of 1 combinations "
             "leave nodes unplaced; worst: west, east: 1 of 1 node cannot be re-placed"),
            ("{fails: west}", True, "every node can be re-placed: 1 node of west"),
            (f"{{fails: west, {full}}}", False, stuck),
            (f"{{fails: west, stuck_at_most: 1, {full}}}", True, stuck),
        ])  # fmt: skip

    def test_how_many_pod_managers_a_workload_needs(self):
        (self.folder / "w.csv").write_text("flavor,arrival\nweb,0\nweb,1\nbig,2\n")
        found = "needs 2 pod managers, places 2 of 3 nodes"
        self.assert_each([
            ("{uses: {workload: w.csv, podms_at_most: 2}}", False, found),
            ("{uses: {workload: w.csv, podms_at_most: 2, unplaced_at_most: 1}}", True, found),
            ("{uses: {workload: w.csv, podms_at_most: 1, unplaced_at_most: 1}}", False, found),
            ("{uses: {workload: w.csv, policy: pack, unplaced_at_most: 1}}", True, found),
        ])  # fmt: skip

    def test_a_scenario_is_beside_the_file_and_its_edits_come_first(self):
        (self.folder / "s.yaml").write_text("{name: more, edits: [{clone: east}]}")
        text = "{fits: {flavor: web, at_least: 9}, scenario: s.yaml, edits: [{clone: east-2}]}"
        self.assert_each([(text, True, "fits 9 times: east 3, east-2 3, east-2-2 3")])
        with self.assertRaisesRegex(InputError, r"check.yaml: \$.expectations\[0\]: .*none.yaml"):
            self.result("{survives: 1, scenario: none.yaml}")

    def test_a_decision_is_recorded_and_compared(self):
        text = "{decision: {file: d.json, flavor: web, count: 2}}"
        with self.assertRaisesRegex(InputError, "no such file.*--record"):
            self.result(text)
        written = self.result(text, record=lambda file, report: files.write_json(report, file))
        self.assertEqual("recorded", written.result)
        moved = "edits: [{set: east, enabled: no}, {clone: east}, {set: east-2, enabled: yes}]"
        self.assert_each([
            (text, True, "the same"),
            ("{decision: {file: d.json, flavor: web, count: 3}}", False,
             "nodes: 2 are now 3; request: differs from the recorded one"),
        ])  # fmt: skip
        other = self.result(f"{{decision: {{file: d.json, flavor: web, count: 2}}, {moved}}}")
        self.assertRegex(other.found, "^node 1: east/b is now east-2/b; node 2: .*; inventory: ")
        same = "{file: d.json, flavor: web, count: 2, placements_only: true}"
        self.assert_each([(f"{{decision: {same}, edits: [{{set: west, zone: x}}]}}", True,
                           "the same")])  # fmt: skip

    def test_a_decision_with_another_mix_of_flavors_is_named_as_such(self):
        text = "{decision: {file: d.json, flavor: web}}"
        self.result(text, record=lambda file, report: files.write_json(report, file))
        recorded = json.loads((self.folder / "d.json").read_text())
        recorded["request"]["mix"]["shares"].pop()
        (self.folder / "d.json").write_text(json.dumps(recorded))
        self.assert_each([
            (text, False, "request: its mix of flavors differs"),
            (text.replace("web}", "web, placements_only: true}"), True, "the same"),
        ])  # fmt: skip

    def test_what_is_not_there_is_one_line_with_its_place(self):
        for text, kind, words in (
            ("{fits: {flavor: wbe, at_least: 1}}", UnknownName, "did you mean 'web'?"),
            ("{lands: {flavor: web, in: esta}}", NothingMatches, "no pod manager named 'esta'"),
            ("{fails: {zone: az9}}", NothingMatches, "az9"),
            ("{fits: {flavor: web, at_least: 1, policy: pakc}}", UnknownName, "'pack'"),
            ("{uses: {workload: none.csv}}", InputError, "none.csv"),
            ("{survives: 1, edits: [{fail: esta}]}", NothingMatches, "edits[0]"),
        ):
            with self.subTest(text), self.assertRaises(kind) as caught:
                self.result(text)
            line = str(caught.exception)
            self.assertIn("check.yaml: $.expectations[0]: ", line)
            self.assertIn(words, line)

    def test_a_pool_whose_name_is_a_pattern_is_that_pool_alone(self):
        hall = {"id": "h*", "pools": [{"id": "*"}, {"id": "b"}],
                "blocks": [cpu("/1", 8, pools=["*"]), cpu("/2", 8, pools=["b"])]}  # fmt: skip
        (check,), _ = parse_checks(
            b"expectations: [{fits: {flavor: web, at_least: 1, at_most: 1, in: {pool: b}}}]", "f"
        )
        hostile = dataclasses.replace(site_of(hall), flavors={"web": flavor("web", 8)})
        self.assertEqual("pass", Checker(hostile, self.config).result(check).result)
