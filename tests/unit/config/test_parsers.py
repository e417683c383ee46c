# SPDX-License-Identifier: Apache-2.0
"""Files of flavors and policies, of users and as shipped, and their locations."""

import os
import pwd
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import msgspec
import platformdirs

import valence_sched
from tests.unit.config.refusal import refusal
from valence_sched.config import parsers
from valence_sched.config.settings import HOME_VARIABLES, Configuration, user_folder
from valence_sched.errors import InputError, RequestError, UnknownName
from valence_sched.model.codec import ShippedJson
from valence_sched.model.policy import FilterUse, WeigherUse


class ParserCase(unittest.TestCase):
    """Checks the lines of errors."""

    def refuses(self, line: str, function, *arguments, kind=InputError):
        self.assertEqual(line, refusal(function, *arguments, kind=kind))


class TestFlavors(ParserCase):
    """YAML or JSON, a list or a single flavor."""

    def test_a_list_and_a_single_flavor_are_read(self):
        one = b"name: a\nproperties: {memory: {capacity_mib: 5}}"
        self.assertEqual(["a"], [flavor.name for flavor in parsers.parse_flavors(one, "f")])
        two = b"flavors: [{name: a, properties: {nics: [{}]}}, {name: b, properties: {nics: [{}]}}]"
        self.assertEqual(["a", "b"], [flavor.name for flavor in parsers.parse_flavors(two, "f")])
        bare = two.removeprefix(b"flavors: ")
        self.assertEqual(parsers.parse_flavors(two, "f"), parsers.parse_flavors(bare, "f"))

    def test_words_that_nobody_looks_at_are_remarked_on(self):
        remarks = []
        data = b'[{"Boot": {}, "TotalSystemCoreCount": 4}, {"name": "x", "vcpus": 1, "swap": 9}]'
        found = parsers.parse_flavors(data, "f", remarks=remarks)
        self.assertEqual(["rsd-allocate", "x"], [flavor.name for flavor in found])
        self.assertEqual(["f: $[0].Boot", "f: $[1].swap"],
                         [line.partition(": not")[0] for line in remarks])  # fmt: skip

    def test_what_would_be_refused_when_asked_for_is_refused_with_its_place(self):
        for data, line in (
            (b"[{name: a, properties: {accelerators: [{model: '--'}]}}]",
             "f: $[0]: model '--' has neither a letter nor a digit: give a model, or omit it"),
            (b"{name: a, properties: {nics: [{name: n}], topology: [{same: pcie_root, of: [m]}]}}",
             "f: $: topology constraint same pcie_root of m: no devices named 'm' (known: n)"),
            (b"{name: a, properties: {nics: [{}]}, traits: {required: [X], forbidden: [X]}}",
             "f: $: trait 'X' is both required and forbidden"),
        ):  # fmt: skip
            with self.subTest(data):
                self.refuses(line, parsers.parse_flavors, data, "f", kind=RequestError)

    def test_topology_constraints_have_another_word_in_flavors_and_requests(self):
        flavors = []
        for word in (b"topology", b"bonds"):
            text = b"nics: [{name: a}, {name: b}], %s: [{of: [a, b], same: switch}]" % word
            (flavor,) = parsers.parse_flavors(b"{name: x, properties: {%s}}" % text, "f")
            ((_, request),) = parsers.parse_requests(b"requests: [{properties: {%s}}]" % text, "f")
            self.assertEqual(flavor.properties, request.properties)
            flavors.append(flavor)
        self.assertEqual(flavors[0], flavors[1])
        self.assertIn("topology", msgspec.to_builtins(flavors[1])["properties"])
        both = b"{name: x, properties: {nics: [{}], topology: [], bonds: []}}"
        line = "f: $.properties: found unknown field 'bonds' (did you mean 'modules'?)"
        self.refuses(line, parsers.parse_flavors, both, "f")

    def test_what_is_wrong_is_named_with_its_place(self):
        nic = b"properties: {nics: [{}]}"
        for data, line in (
            (b"", "f: $: found an empty document, expected object"),
            (b"flavors: []", "f: $.flavors: found nothing, expected a list of flavors"),
            (b"[]", "f: $: found nothing, expected a list of flavors"),
            (b"[{name: a, %s}, {name: b, propertis: 1}]" % nic,
             "f: $[1]: found unknown field 'propertis' (did you mean 'properties'?)"),
            (b"flavors: 5", "f: $.flavors: found nothing, expected a list of flavors"),
            (b"flavors: [{name: a}]",
             "f: $.flavors[0].properties: found no requirement, expected at least one"),
            (b"flavors: [{name: a, properties: {}}]",
             "f: $.flavors[0].properties: found no requirement, expected at least one"),
            (b"flavors: []\nflavour: 1", "f: $: found unknown field 'flavour', "
             "expected only 'flavors'"),
            (b"name: a\ncapabilities: nokey\n" + nic,
             "f: $.capabilities: found 'nokey', expected key=value or key=value;value"),
            (b"flavors: [{name: a, %s}, {name: a, %s}]" % (nic, nic),
             "f: $.flavors[1].name: found 'a' again, expected a unique name"),
            (b"name: a\nproperties: {memory: {capacity_mib: -5}}",
             "f: $.properties.memory.capacity_mib: found -5, expected int >= 1"),
        ):  # fmt: skip
            with self.subTest(line):
                self.refuses(line, parsers.parse_flavors, data, "f")


class TestPolicies(ParserCase):
    """Policies that are read and bound."""

    def test_names_with_and_without_options(self):
        data = b"""
        name: mine
        filters: [zone, {name: capacity, options: {headroom: 0.5}}]
        weighers: [room, {name: pack, weight: 2}]
        """
        (policy,) = parsers.parse_policies(data, "f")
        uses = (FilterUse("zone"), FilterUse("capacity", {"headroom": 0.5}))
        self.assertEqual(uses, policy.filters)
        self.assertEqual((WeigherUse("room"), WeigherUse("pack", 2.0)), policy.weighers)

    def test_unknown_names_are_refused_when_the_file_is_read(self):
        line = "f: policy 'm': no filter named 'zonee' (did you mean 'zone'?)"
        self.refuses(
            line, parsers.parse_policies, b"{name: m, filters: [zonee]}", "f", kind=UnknownName
        )

    def test_a_negative_weight_is_refused_for_the_opposite_is_another_weigher(self):
        data = b"{name: m, weighers: [{name: room, weight: -1}]}"
        with self.assertRaisesRegex(InputError, r"weighers\[0\].*-1"):
            parsers.parse_policies(data, "f")


class TestTraceColumns(unittest.TestCase):
    """The columns of a recorded trace for the fields of a workload."""

    def test_a_column_may_have_a_factor(self):
        found = parsers.parse_trace_columns(b"columns: {arrival: created, count: n*2}", "f")
        columns = {name: (one.column, one.factor) for name, one in found.items()}
        self.assertEqual({"arrival": ("created", 1.0), "count": ("n", 2.0)}, columns)

    def test_what_is_wrong_is_named_with_its_place(self):
        for text, line in (
            (b"columns: {arrival: created/0}", "f: $.columns.arrival: found 'created/0', expected"),
            (b"columns: {}", "f: $.columns: found {}, expected"),
            (b"column: {a: b}", "f: $: found unknown field 'column' (did you mean 'columns'?)"),
        ):
            with self.assertRaises(InputError) as raised:
                parsers.parse_trace_columns(text, "f")
            self.assertIn(line, str(raised.exception))


DATA = Path(valence_sched.__path__[0]) / "data"
READS_NO_YAML = """
import sys
from valence_sched.app import App
config = App(environ={"HOME": sys.argv[1]}).config
assert "default" in config.policies() and "small" in config.flavors()
sys.exit("yaml" in sys.modules)
"""


class TestShipped(unittest.TestCase):
    """Built-in policies and flavors."""

    def test_what_ships_stands_every_check_of_a_file_of_a_person(self):
        for parse, name in (
            (parsers.parse_policies, "policies"),
            (parsers.parse_flavors, "flavors"),
        ):
            data = (DATA / f"{name}.json").read_bytes()
            written, shipped = parse(data, name), parse(ShippedJson(data), name)
            self.assertEqual(written, shipped)
            self.assertGreater(len(written), 3)

    def test_the_policies_and_flavors_are_read_without_yaml(self):
        with tempfile.TemporaryDirectory() as home:
            words = [sys.executable, "-c", READS_NO_YAML, home]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))


class TestFilesReadAgain(unittest.TestCase):
    """A command asks a configuration for its flavors several times."""

    def test_a_file_is_parsed_once_until_it_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "flavors.yaml")
            config = Configuration({"HOME": folder})
            file.write_text("[{name: a, vcpus: 1, swap: 9}]")
            with mock.patch.object(parsers, "parse_flavors", wraps=parsers.parse_flavors) as parse:
                first = config.flavors([str(file)])
                calls = parse.call_count
                self.assertIs(first["a"], config.flavors([str(file)])["a"])
                self.assertEqual(calls, parse.call_count)
                said = [line for line in config.remarks if "swap" in line]
                self.assertEqual(2, len(said), "each reading is told what has no effect")
                file.write_text("[{name: b, vcpus: 1}]")
                found = config.flavors([str(file)])
                self.assertEqual((True, False), ("b" in found, "a" in found))


USUAL = {"config": ".config", "state": ".local/state", "cache": ".cache"}


class TestUserFolders(unittest.TestCase):
    """The environment takes precedence over the platform."""

    def setUp(self):
        before = {name: os.environ.pop(name, None) for name in HOME_VARIABLES.values()}
        self.addCleanup(os.environ.update, {k: v for k, v in before.items() if v is not None})

    def test_a_variable_of_the_environment_wins(self):
        for kind, variable in HOME_VARIABLES.items():
            with self.subTest(kind):
                folder = user_folder(kind, {variable: "/elsewhere"})
                self.assertEqual(Path("/elsewhere/valence-sched"), folder)

    def test_without_one_the_usual_folders_are_below_the_home_of_the_user(self):
        for environ in ({}, dict.fromkeys(HOME_VARIABLES.values(), "")):
            for kind, folder in USUAL.items():
                with self.subTest(kind, environ=environ):
                    expected = Path("~").expanduser() / folder / "valence-sched"
                    self.assertEqual(expected, user_folder(kind, environ))

    def test_a_test_has_no_folder_of_the_person_who_runs_it(self):
        own = Path(pwd.getpwuid(os.getuid()).pw_dir)
        self.assertEqual([], [kind for kind in USUAL if own in user_folder(kind, {}).parents])

    @unittest.skipUnless(sys.platform == "linux", "other platforms have no folders of our own")
    def test_the_usual_folders_are_those_that_platformdirs_names(self):
        for kind in USUAL:
            with self.subTest(kind):
                named = getattr(platformdirs, f"user_{kind}_path")("valence-sched")
                self.assertEqual(named, user_folder(kind, {}))
