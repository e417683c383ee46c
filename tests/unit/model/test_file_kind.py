# SPDX-License-Identifier: Apache-2.0
"""The error about a file of the wrong kind names its kind and the option that reads it."""

import gzip
import io
import json
import unittest
from pathlib import Path

from tests.functional.programs import ROOT, SITE
from valence_sched.config.parsers import (
    parse_flavors,
    parse_policies,
    parse_requests,
    parse_resources,
    parse_trace_columns,
)
from valence_sched.config.podms_file import parse_podms
from valence_sched.config.scenario_file import parse_checks, parse_scenarios
from valence_sched.errors import InputError
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.decision import parse_report
from valence_sched.model.decode_error import KINDS
from valence_sched.model.plan import parse_plan
from valence_sched.model.replay import parse_replay
from valence_sched.model.zone_registry import parse_zone_file
from valence_sched.planning.workload_lines import read_lines

PARSERS = {
    "flavors": parse_flavors,
    "policies": parse_policies,
    "resources": parse_resources,
    "columns": parse_trace_columns,
    "request": parse_requests,
    "check": parse_checks,
    "scenario": parse_scenarios,
    "podms": lambda data, file: parse_podms(load_yaml(data, file), file),
    "zones": lambda data, file: parse_zone_file(data, file, ""),
    "plan": parse_plan,
    "decision": parse_report,
    "replay": parse_replay,
}


def written(kind: str) -> bytes:
    """Return the beginning of a file that states its schema."""
    return json.dumps({"schema": f"valence-sched/{kind}", "version": "1.0"}).encode()


class TestKinds(unittest.TestCase):
    """Each parser on each other kind of file."""

    def refused(self, parse, data):
        with self.assertRaises(InputError) as caught:
            parse(data, "f")
        return str(caught.exception)

    def test_a_file_that_says_its_schema_is_named_with_what_reads_it(self):
        for expected, parse in PARSERS.items():
            for kind in ("inventory", "decision", "plan", "replay", "check", "zones"):
                if kind == expected:
                    continue
                with self.subTest(expected=expected, found=kind):
                    found, wanted = KINDS[kind], KINDS[expected].noun
                    self.assertEqual(f"f: found {found.noun}, expected {wanted} (use {found.use})",
                                     self.refused(parse, written(kind)))  # fmt: skip

    def test_a_key_twice_is_refused_in_each_of_its_own_kind(self):
        for kind, parse in PARSERS.items():
            with self.subTest(kind):
                data = written(kind).removesuffix(b"}") + b', "x": {"y": 1, "y": 2}}'
                self.assertIn("found the key 'y' twice", self.refused(parse, data))

    def test_so_is_one_that_only_a_field_tells(self):
        files = {"flavors": "flavors: []", "policies": "policies: []", "check": "expectations: []",
                 "request": "requests: []", "scenario": "scenarios: []"}  # fmt: skip
        for expected in ("flavors", "policies", "resources", "columns", "podms", "zones", "check",
                         "scenario"):  # fmt: skip
            for kind, text in files.items():
                if kind != expected:
                    with self.subTest(expected=expected, found=kind):
                        refused = self.refused(PARSERS[expected], text.encode())
                        self.assertIn(f"found {KINDS[kind].noun}, expected", refused)
                        self.assertIn(f"(use {KINDS[kind].use})", refused)

    def test_so_is_a_document_in_place_of_a_workload(self):
        for name, text, found in (
            (
                "f.json",
                Path(SITE).read_text(),
                "an inventory, expected a workload (use --inventory)",
            ),
            ("f.yaml", "flavors: []", "flavors, expected a workload (use --flavor-file)"),
        ):
            with self.assertRaises(InputError) as caught:
                read_lines(io.BytesIO(text.encode()), name)
            self.assertEqual(f"{name}: found {found}", str(caught.exception))

    def test_a_scenario_may_have_policies_and_flavors(self):
        parse_scenarios(b"name: a\nflavors: []\npolicies: []", "f")

    def test_text_yaml_html_and_archives_are_told_apart_where_json_is_wanted(self):
        site = Path(SITE).read_bytes()
        zones = (ROOT / "examples" / "zones.yaml").read_bytes()
        for data, found in (
            (b"<!DOCTYPE html><html>", "HTML, expected JSON (is this the right file?)"),
            (b"<?xml version='1.0'?>", "XML, expected JSON (is this the right file?)"),
            (gzip.compress(site), "gzip, expected JSON (is this the right file?)"),
            (b"A site\n======\n", "text, expected JSON (is this the right file?)"),
            (b"# ours\nname: tiny\n", "YAML, expected JSON (is this the right file?)"),
            (b"podms:\n  a: {url: b}\n", "pod managers in YAML, expected JSON (use --podm-file)"),
            (
                b"# ours\nflavors:\n- name: a\n",
                "flavors in YAML, expected JSON (use --flavor-file)",
            ),
            (zones, "a tree of zones in YAML, expected JSON (use --zone-file)"),
        ):
            with self.subTest(found):
                refused = self.refused(lambda data, file: decode(data, dict, file), data)
                self.assertEqual(f"f: found {found}", refused)

    def test_html_and_text_are_named_where_yaml_is_wanted(self):
        for data, found in ((b"<!doctype html><p>it is: so</p>", "HTML"), (b"A site", "text"),
                            (b"<html><body>a: b: c</body></html>", "HTML"),
                            (b"\x1f\x8b\x08\x00", "gzip"),
                            (b"PK\x03\x04\x00", "a zip archive")):  # fmt: skip
            self.assertEqual(f"f: found {found}, expected YAML or JSON (is this the right file?)",
                             self.refused(parse_flavors, data))  # fmt: skip
