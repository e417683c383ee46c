# SPDX-License-Identifier: Apache-2.0
"""Plug-ins by their entry points: our own, third-party ones, and invalid ones."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from valence_sched.core import plugins
from valence_sched.core.plugins import InstalledPlugins, Plugins, load, plugin_errors, plugin_list
from valence_sched.errors import PluginError, UnknownName, UsageError
from valence_sched.filters.capacity import capacity

MODULE = '''
def keeps(view, request, *, least=1, names=None):
    """Keep ``what`` is there.

    More words.
    """

def silent(view, request):
    pass

number = 7
'''
ENTRIES = """[valence_sched.oddities]
zeta = odd_plugins:keeps
alpha = odd_plugins:silent
number = odd_plugins:number
gone = odd_plugins:gone
later = later_plugins:later
exits = exits_plugins:f
asserts = asserts_plugins:f
twice = valence_sched.filters.capacity:capacity

[valence_sched.others]
twice = odd_plugins:keeps
"""
LATER = "PLUGIN_INTERFACE = 2\ndef later(view, request): pass\n"
SECOND = """[valence_sched.oddities]
twice = odd_plugins:silent
alpha = odd_plugins:keeps
"""


def install(folder: Path, name: str, entries: str) -> None:
    """Write the metadata of an installed distribution."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(entries)


class TestLoad(unittest.TestCase):
    """Entry points of distributions on the path."""

    found: Plugins

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name)
        (path / "odd_plugins.py").write_text(MODULE + "\nPLUGIN_INTERFACE = 1\n")
        (path / "later_plugins.py").write_text(LATER)
        (path / "exits_plugins.py").write_text("import sys; sys.exit(3)")
        (path / "asserts_plugins.py").write_text("assert 1 > 2, 'too old'")
        install(path, "odd_plugins", ENTRIES)
        install(path, "more_plugins", SECOND)
        sys.path.insert(0, folder.name)
        cls.addClassCleanup(sys.path.remove, folder.name)
        cls.addClassCleanup(sys.modules.pop, "odd_plugins", None)
        cls.addClassCleanup(sys.modules.pop, "later_plugins", None)
        cls.found = load("valence_sched.oddities")

    def test_they_come_in_the_order_of_their_names_each_with_its_source(self):
        self.assertEqual(["alpha", "twice", "zeta"], list(self.found.by_name))
        self.assertEqual({"alpha": "odd_plugins:keeps", "zeta": "odd_plugins:keeps",
                          "twice": "valence_sched.filters.capacity:capacity"},
                         self.found.sources)  # fmt: skip

    def test_each_group_has_its_own(self):
        others = load("valence_sched.others")
        self.assertEqual({"twice": "odd_plugins:keeps"}, others.sources)
        self.assertEqual(["twice"], list(others.by_name))

    def test_of_two_with_one_name_ours_wins_and_else_the_first_by_its_source(self):
        self.assertIs(capacity, self.found.by_name["twice"])
        self.assertEqual("keeps", self.found.by_name["alpha"].__name__)
        errors = self.found.load_errors
        self.assertEqual("valence_sched.filters.capacity:capacity already has this name",
                         errors["twice of odd_plugins:silent"])  # fmt: skip
        self.assertEqual(
            "odd_plugins:keeps already has this name", errors["alpha of odd_plugins:silent"]
        )

    def test_what_is_no_function_or_is_not_there_is_named_with_the_reason(self):
        errors = self.found.load_errors
        self.assertEqual("odd_plugins:number is not a function", errors["number"])
        self.assertIn("gone", errors["gone"])
        self.assertEqual(7, len(errors))

    def test_an_import_that_exits_or_asserts_fails_alone(self):
        errors = self.found.load_errors
        self.assertEqual("ImportError: its import ends with SystemExit: 3", errors["exits"])
        self.assertEqual(
            "ImportError: its import ends with AssertionError: too old", errors["asserts"]
        )

    def test_one_of_another_version_of_the_interface_is_refused(self):
        self.assertEqual("later_plugins:later is for interface 2, but valence-sched has 1: install "
                         "a release for interface 1", self.found.load_errors["later"])  # fmt: skip

    def test_a_kind_is_one_of_the_group(self):
        self.assertEqual("odditie", self.found.kind)
        self.assertEqual("filter", load(plugins.FILTERS).kind)
        self.assertEqual("liveness", load(plugins.LIVENESS).kind)

    def test_one_that_cannot_be_loaded_is_refused_by_its_name(self):
        with self.assertRaises(PluginError) as caught:
            self.found.get("number")
        text = "odditie 'number' cannot be loaded: odd_plugins:number is not a function"
        self.assertEqual(text, str(caught.exception))
        with self.assertRaises(PluginError) as caught:
            self.found.get("number", "policies.yaml")
        self.assertEqual(f"policies.yaml: {text}", str(caught.exception))

    def test_a_name_that_none_has_is_refused_with_the_nearest(self):
        with self.assertRaisesRegex(UnknownName, "here.*odditie.*alpa.*alpha"):
            self.found.get("alpa", "here")
        self.assertIs(capacity, self.found.get("twice"))

    def test_those_of_ours_come_first(self):
        self.assertEqual(["twice", "alpha", "zeta"], self.found.ours_first())
        self.assertEqual(["b", "a"], Plugins("x", {"a": int, "b": int},
                                             {"b": "valence_sched.x:b"}).ours_first())  # fmt: skip

    def test_a_mapping_of_a_group_is_loaded_when_it_is_looked_at(self):
        group = InstalledPlugins("valence_sched.oddities")
        self.assertEqual((["alpha", "twice", "zeta"], 3), (list(group), len(group)))
        self.assertIs(capacity, group["twice"])
        with self.assertRaises(KeyError):
            group["gone"]

    def test_a_list_tells_the_first_line_the_options_and_the_source(self):
        found = plugin_list("oddities")
        self.assertEqual(("odditie", 3), (found.kind, len(found.plugins)))
        one = found.plugins[2]
        self.assertEqual(("zeta", "Keep 'what' is there.", {"least": 1, "names": None},
                          "odd_plugins:keeps"),
                         (one.name, one.description, one.options, one.source))  # fmt: skip
        self.assertEqual(dict(self.found.load_errors), found.load_errors)


class TestDescription(unittest.TestCase):
    """The description of a function."""

    def test_the_options_are_its_keyword_only_parameters(self):
        def plugin(view, request, *, least, most=5, weights={"a": 1}):  # noqa: B006
            """First line of a help text.

            Further lines.
            """

        self.assertEqual(["least", "most", "weights"], list(plugins.options(plugin)))
        alone = plugins.Plugins("filter", {"mine": plugin}, {"mine": "here"})
        with mock.patch.object(plugins, "load", lambda _group: alone):
            (listed,) = plugins.plugin_list("filters").plugins
        self.assertEqual({"least": None, "most": 5, "weights": {"a": 1}}, listed.options)
        self.assertEqual("First line of a help text.", plugins.summary(plugin))
        self.assertEqual("", plugins.summary(lambda view, request: None))

    def test_an_error_of_a_plugin_names_it_and_ours_go_through(self):
        with (
            self.assertRaisesRegex(PluginError, r"^driver 'x': .*no such thing") as caught,
            plugin_errors("driver 'x'"),
        ):
            raise ValueError("no such\nthing")
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        with self.assertRaises(UsageError), plugin_errors("driver 'x'"):
            raise UsageError("ours")
