# SPDX-License-Identifier: Apache-2.0
"""The wheel alone, in an environment of its own, does the main job."""

import json
import tarfile
import unittest
import zipfile
from pathlib import Path

from tests.functional.packages import installed
from tests.functional.programs import ROOT


class TestPackages(unittest.TestCase):
    """Source archive, wheel from it, installation of that wheel; from a copy without git."""

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
            {top for top in tops if not top.endswith(".dist-info")},
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
            "tests/functional/test_packages.py",
            "tools/build_with_pbr.py",
        }
        self.assertEqual(set(), wanted - names)

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
