# SPDX-License-Identifier: Apache-2.0
"""Third-party filters and weighers: built, installed beside the project, and used."""

import configparser
import json
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

from tests.functional.packages import build, copy_source, installed
from tests.functional.programs import ROOT

RECIPE = ROOT / "tests" / "recipes" / "quiet_site"
COMPUTE = {"processors": [{"cores": 32}], "memory": [{"capacity_mib": 65536}]}
NODE = "name: node\nproperties: {processor: {total_cores: 16}, memory: {capacity_mib: 1024}}\n"

#: The plug-ins after their name in a policy. Each is written to its own file, which it may break.
POLICIES = {
    "room-only": "filters: [capacity, devices], weighers: [room]",
    "by-day": "filters: [{name: quiet_hours, options: {limit: 80}}, capacity, devices], "
    "weighers: [{name: newest, weight: 2}, room]",
    "by-rating": "filters: [{name: quiet_hours, options: {fact: rating, limit: 2}}, capacity], "
    "weighers: [{name: newest, weight: 2, options: {fact: rating, oldest: 0}}, room]",
    "misspelt": "filters: [{name: quiet_hours, options: {limits: 80}}]",
    "mistyped": "weighers: [{name: newest, options: {oldest: long ago}}]",
    "filter-fails": "filters: [capacity, raises, devices], weighers: [room]",
    "weighers-fail": "filters: [capacity, devices], "
    "weighers: [stumbles, {name: short, weight: 3}, {name: nan, weight: 2}, room]",
    "stumbles-only": "filters: [capacity], weighers: [stumbles]",
    "short-only": "filters: [capacity], weighers: [short]",
    "nan-only": "filters: [capacity], weighers: [nan]",
    "filter-is-gone": "filters: [capacity, gone], weighers: [room]",
}

BROKEN = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77.0.3"]
build-backend = "setuptools.build_meta"

[project]
name = "broken-site"
version = "1.0.0"

[project.entry-points."valence_sched.filters"]
raises = "broken_site.opinions:raises"
gone = "broken_site.gone:gone"

[project.entry-points."valence_sched.weighers"]
stumbles = "broken_site.opinions:stumbles"
short = "broken_site.opinions:short"
nan = "broken_site.opinions:nan"

[tool.setuptools]
packages = ["broken_site"]
package-dir = { broken_site = "." }
""",
    "__init__.py": "",
    "gone.py": "import a_module_that_nobody_has\n",
    "opinions.py": '''
import numpy as np


def raises(view, request):
    """Keeps nothing, for it fails."""
    raise KeyError("tea\\npot")


def stumbles(view, request):
    """Prefers nothing, for it fails."""
    return [1.0][len(view)]


def short(view, request):
    """Prefers a row that is not there."""
    return np.ones(len(view) + 1)


def nan(view, request):
    """Prefers what is not a number."""
    return np.full(len(view), np.nan)
''',
}

CHECK = """
import sys
from valence_sched import testing
from valence_sched.core import plugins

check, group, name = sys.argv[1:]
getattr(testing, check)(plugins.load(group).get(name))
"""


def podm(name: str, blocks: int, used: int, **facts: int) -> dict[str, Any]:
    """Return a pod manager with some blocks, of which the first are in use."""
    return {
        "id": name,
        "facts": facts,
        "blocks": [
            {
                "uri": f"{name}/{number}",
                "type": ["Compute"],
                "devices": COMPUTE,
                "status": {"state": "Composed" if number < used else "Unused"},
            }
            for number in range(blocks)
        ],
    }


#: The library has the most room; the annex is newer; the hall is the newest, and loud.
SITE = {
    "schema": "valence-sched/inventory",
    "podms": [
        podm("library", 8, 0, noise_db=40, year=2016, rating=2),
        podm("annex", 8, 2, noise_db=50, year=2026, rating=1),
        podm("hall", 8, 4, noise_db=75, year=2034, rating=9),
    ],
}


class Case(unittest.TestCase):
    """The environment of the project, with third-party wheels until the end of each test."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="plugins-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.installed = installed()
        cls.site, cls.node = cls.folder / "site.json", cls.folder / "node.yaml"
        cls.site.write_text(json.dumps(SITE))
        cls.node.write_text(NODE)

    @classmethod
    def add(cls, copy: Path):
        """Build a wheel and install it; its dependencies must be installed."""
        (wheel,) = build(copy, "--wheel").glob("*.whl")
        name = wheel.name.partition("-")[0]
        cls.addClassCleanup(cls.installed.pip, "uninstall", "--quiet", name)
        cls.installed.pip("install", "--quiet", "--no-index", wheel)

    def schedule(self, policy: str, *words: str, file: Path | None = None):
        """Schedule a node by a policy; return the result of the program, and the report."""
        if file is None:
            file = self.folder / "policies.yaml"
            file.write_text(f"policies: [{{name: {policy}, {POLICIES[policy]}}}]\n")
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = self.installed.program(
            "podm", "schedule", "--inventory", self.site, "--flavor", self.node,
            "--policy-file", file, "--policy", policy, "--report", report, "-f", "json", *words,
        )  # fmt: skip
        self.assertNotIn("Traceback", done.err)
        return done, json.loads(report.read_bytes()) if report.exists() else None

    def chosen(self, policy: str, **more: Any) -> str:
        """Return the pod manager that a policy chooses, without an error about plug-ins."""
        done, report = self.schedule(policy, **more)
        self.assertEqual(0, done.code, done.err)
        self.assertEqual([], report["warnings"])
        self.assertRegex(done.err, rf"\Aplaced 1 of 1 \(policy {policy}, seed 0\); .*\n\Z")
        return next(row["Podm"] for row in done.data if row["Rank"] == 1)

    def listed(self, noun: str):
        """Return the rows of the list of filters or weighers by name, and the errors."""
        done = self.installed.program("scheduler", noun, "list", "--long", "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return {row["Name"]: row for row in done.data}, done.err


class TestPlugins(Case):
    """The package of the recipe: one filter and one weigher."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.add(copy_source(RECIPE, cls.folder / "quiet_site"))

    def test_the_filter_is_listed_with_its_help_its_options_and_its_source(self):
        rows, said = self.listed("filter")
        self.assertEqual(
            {
                "Name": "quiet_hours",
                "Description": "Keeps pod managers whose noise is known and at most 'limit'.",
                "Options": {"fact": "noise_db", "limit": 60.0},
                "Source": "quiet_site.quiet_hours:quiet_hours",
            },
            rows["quiet_hours"],
        )
        self.assertIn("capacity", rows)
        self.assertEqual("", said)

    def test_the_weigher_is_listed_with_its_help_its_options_and_its_source(self):
        rows, said = self.listed("weigher")
        self.assertEqual({"fact": "year", "oldest": 2015}, rows["newest"]["Options"])
        self.assertEqual("quiet_site.newest:newest", rows["newest"]["Source"])
        self.assertIn("room", rows)
        self.assertEqual("", said)

    def test_the_source_is_for_those_who_ask_for_it(self):
        done = self.installed.program("scheduler", "filter", "list", "-f", "json")
        self.assertEqual({"Name", "Description", "Options"}, set(done.data[0]))

    def test_they_keep_the_contract(self):
        for words in (
            ("check_filter", "valence_sched.filters", "quiet_hours"),
            ("check_weigher", "valence_sched.weighers", "newest"),
        ):
            with self.subTest(words[0]):
                self.assertEqual("", self.installed.python("-c", CHECK, *words))

    def test_the_policy_of_the_recipe_decides_with_both(self):
        self.assertEqual("library", self.chosen("room-only"))
        self.assertEqual("annex", self.chosen("quiet", file=RECIPE / "policies.yaml"))

    def test_the_options_in_the_policy_change_the_choice(self):
        self.assertEqual("hall", self.chosen("by-day"))
        self.assertEqual("library", self.chosen("by-rating"))

    def test_what_the_filter_rejects_has_its_reason(self):
        _, report = self.schedule("quiet", file=RECIPE / "policies.yaml")
        verdicts = {verdict["podm"]: verdict for verdict in report["podms"]}
        self.assertEqual("rejected", verdicts["hall"]["outcome"])
        self.assertEqual("quiet_hours", verdicts["hall"]["reason"]["filter"])
        self.assertEqual(0, verdicts["hall"]["pools_passed"])
        self.assertIn({"filter": "quiet_hours", "in": 3, "out": 2}, report["funnel"])

    def test_what_the_weigher_said_is_in_the_report(self):
        _, report = self.schedule("by-day", "--alternates", "2")
        (placement,) = report["placements"]
        found = {one["podm"]: one["scores"]["newest"] for one in candidates(placement)}
        self.assertEqual({"hall": 0.95, "annex": 0.55, "library": 0.05}, found)

    def test_an_option_that_it_does_not_have_is_an_error_that_names_the_nearest(self):
        done, report = self.schedule("misspelt")
        self.assertEqual((1, "", None), (done.code, done.out, report))
        self.assertIn("option 'limits' of 'quiet_hours'", done.err)
        self.assertIn("did you mean 'limit'?", done.err)

    def test_an_option_of_another_type_is_an_error(self):
        done, report = self.schedule("mistyped")
        self.assertEqual((1, "", None), (done.code, done.out, report))
        (line,) = done.err.splitlines()
        self.assertIn("option 'oldest' of 'newest'", line)


class TestBrokenPlugins(Case):
    """A broken package is reported, and prevents nothing that does not use it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        broken = cls.folder / "broken_site"
        broken.mkdir()
        for name, text in BROKEN.items():
            (broken / name).write_text(text)
        cls.add(broken)

    def refused(self, line: str, policy: str, *words: str):
        """Check that scheduling prints only this line."""
        done, report = self.schedule(policy, *words)
        self.assertEqual((1, "", None), (done.code, done.out, report))
        self.assertEqual(1, done.err.count("\n"), done.err)
        self.assertTrue(done.err.endswith(f"{line}\n"), done.err)

    def test_one_that_cannot_be_loaded_is_named_and_the_rest_are_listed(self):
        rows, said = self.listed("filter")
        self.assertEqual(
            "filter 'gone' cannot be loaded: ModuleNotFoundError: "
            "No module named 'a_module_that_nobody_has'\n",
            said,
        )
        self.assertLessEqual({"capacity", "devices", "raises"}, set(rows))
        self.assertNotIn("gone", rows)

    def test_one_that_cannot_be_loaded_is_nothing_to_those_who_do_not_use_it(self):
        self.assertEqual("library", self.chosen("room-only"))
        done, _ = self.schedule("room-only", "--strict")
        self.assertEqual(0, done.code)
        self.assertRegex(done.err, r"\Aplaced 1 of 1 \(policy room-only, seed 0\); .*\n\Z")

    def test_a_policy_with_one_that_cannot_be_loaded_is_an_error(self):
        self.refused(
            "policies.yaml: policy 'filter-is-gone': filter 'gone' cannot be loaded: "
            "ModuleNotFoundError: No module named 'a_module_that_nobody_has'",
            "filter-is-gone",
        )

    def test_a_filter_that_fails_rejects_every_pod_manager_and_the_decision_says_so(self):
        warning = "filter 'raises' failed: KeyError: 'tea\\npot'"
        done, report = self.schedule("filter-fails")
        self.assertEqual(3, done.code)
        self.assertIn(f"warning: {warning}\nnothing fits: placed 0 of 1", done.err)
        self.assertIn("filter raises failed\n", done.err)
        self.assertEqual([], done.data)
        self.assertEqual("nothing_fits", report["outcome"])
        self.assertEqual([warning], report["warnings"])
        self.assertEqual({"raises"}, {one["reason"]["filter"] for one in report["podms"]})
        self.assertIn({"filter": "raises", "in": 3, "out": 0}, report["funnel"])

    def test_weighers_that_fail_count_as_0_for_all_and_the_decision_says_so(self):
        warnings = [
            "weigher 'stumbles' failed: IndexError: list index out of range",
            "weigher 'short' returned an array of float64 of shape (4,), not 3 numbers",
            "weigher 'nan' returned scores outside 0..1: clamped, NaN counted as 0",
        ]
        done, report = self.schedule("weighers-fail", "--alternates", "2")
        self.assertEqual(0, done.code)
        said = [f"warning: {text}" for text in warnings]
        self.assertEqual(said, done.err.splitlines()[:-1])
        self.assertEqual(warnings, report["warnings"])
        (placement,) = report["placements"]
        _, alone = self.schedule("room-only", "--alternates", "2")
        (wanted,) = alone["placements"]
        self.assertEqual(3, len(candidates(placement)))
        for found, plain in zip(candidates(placement), candidates(wanted), strict=True):
            self.assertEqual(plain["podm"], found["podm"])
            self.assertEqual({"stumbles": 0, "short": 0, "nan": 0, **plain["scores"]},
                             found["scores"])  # fmt: skip
            self.assertAlmostEqual(plain["score"] / 7, found["score"], places=5)

    def test_strict_makes_a_failing_plugin_fatal(self):
        for policy, line in (
            ("filter-fails", "filter 'raises' failed: KeyError: 'tea\\npot'"),
            ("stumbles-only", "weigher 'stumbles' failed: IndexError: list index out of range"),
            (
                "short-only",
                "weigher 'short' returned an array of float64 of shape (4,), not 3 numbers",
            ),
            ("nan-only", "weigher 'nan' returned scores outside 0..1: clamped, NaN counted as 0"),
        ):
            with self.subTest(policy):
                self.refused(line, policy, "--strict")

    def test_the_contract_names_what_each_of_them_breaks(self):
        for check, group, name, words in (
            ("check_filter", "valence_sched.filters", "raises", "KeyError"),
            ("check_weigher", "valence_sched.weighers", "stumbles", "IndexError"),
            ("check_weigher", "valence_sched.weighers", "short", "AssertionError"),
            ("check_weigher", "valence_sched.weighers", "nan", "AssertionError"),
        ):
            with self.subTest(name), self.assertRaisesRegex(AssertionError, words):
                self.installed.python("-c", CHECK, check, group, name)


def candidates(placement: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chosen candidate of a placement and its alternates."""
    return [placement["chosen"], *placement["alternates"]]


class TestPackages(unittest.TestCase):
    """The source archive, the wheel built from it and its installation, without git."""

    @classmethod
    def setUpClass(cls):
        cls.installed = installed()
        cls.wheel, cls.sdist = cls.installed.wheel, cls.installed.sdist

    def command(self, *words):
        done = self.installed.program(*words)
        self.assertEqual(0, done.code, done.err)
        return done.out

    def test_the_wheel_holds_the_schemas_the_templates_the_flavors_and_the_types(self):
        names = set(zipfile.ZipFile(self.wheel).namelist())
        wanted = {
            f"valence_sched/{folder}/{path.name}"
            for folder in ("data", "pages/templates")
            for path in Path(ROOT, "valence_sched", folder).iterdir()
            if path.is_file()
        }
        wanted |= {
            "valence_sched/data/flavors.json",
            "valence_sched/data/policies.json",
            "valence_sched/pages/templates/page.css",
            "valence_sched/py.typed",
            "valence_sched_cli/py.typed",
        }
        self.assertEqual(set(), wanted - names)
        self.assertTrue([name for name in wanted if name.endswith(".json")], "no schema")

    def test_the_wheel_holds_every_example(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        found = {name.partition(".data/data/share/doc/valence-sched/")[2] for name in names} - {""}
        examples = (path for path in Path(ROOT, "examples").rglob("*") if path.is_file())
        self.assertEqual({str(path.relative_to(ROOT)) for path in examples}, found)

    def test_the_wheel_holds_every_module_and_nothing_beside_the_two_packages(self):
        names = set(zipfile.ZipFile(self.wheel).namelist())
        modules = {
            str(path.relative_to(ROOT))
            for package in ("valence_sched", "valence_sched_cli")
            for path in (ROOT / package).rglob("*.py")
        }
        self.assertEqual(set(), modules - names)
        tops = {name.partition("/")[0] for name in names}
        self.assertEqual(
            {"valence_sched", "valence_sched_cli"},
            {top for top in tops if not top.endswith((".data", ".dist-info"))},
        )

    def test_the_source_archive_holds_what_it_takes_to_test_and_build_again(self):
        with tarfile.open(self.sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        wanted = {
            "LICENSE",
            "Makefile",
            "constraints.txt",
            "doc/source/conf.py",
            "examples/site.json",
            "setup.cfg",
            "setup.py",
            "tests/functional/test_plugins.py",
            "tools/build_with_pbr.py",
        }
        self.assertEqual(set(), wanted - names)

    def test_both_packages_have_the_development_version_of_the_next_release(self):
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg", encoding="utf-8")
        version = f"{config['metadata']['version']}.dev0"
        self.assertEqual(f"valence_sched-{version}-py3-none-any.whl", self.wheel.name)
        self.assertEqual(f"valence_sched-{version}.tar.gz", self.sdist.name)

    def test_the_main_job_works_from_another_folder(self):
        text = self.command(
            "podm", "schedule", "--inventory", "site.json", "--flavor", "gpu-large", "-f", "json"
        )
        self.assertTrue(json.loads(text))

    def test_the_packaged_policies_and_flavors_are_listed(self):
        policies = json.loads(self.command("scheduler", "policy", "list", "-f", "json"))
        self.assertTrue(policies)
        flavors = json.loads(self.command("podm", "flavor", "list", "-f", "json"))
        self.assertIn("gpu-large", json.dumps(flavors))

    def test_openstackclient_is_not_needed(self):
        self.assertNotIn("python-openstackclient", self.installed.pip("list"))
