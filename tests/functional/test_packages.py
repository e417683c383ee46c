# SPDX-License-Identifier: Apache-2.0
"""The wheel alone, in an environment of its own, does the main job."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", ".tox", ".stestr", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info",
    "build", "dist",
)  # fmt: skip


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a program and return its stdout; a failure shows all it said."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{words} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class TestPackages(unittest.TestCase):
    """Source archive, wheel from it, installation of that wheel; from a copy without git."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PBR_"))
        }
        copy = cls.folder / "copy"
        shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
        built = cls.folder / "built"
        run(sys.executable, "-m", "build", "--outdir", built, cwd=copy, env=cls.clean)
        (cls.wheel,) = built.glob("*.whl")
        (cls.sdist,) = built.glob("*.tar.gz")
        cls.bin = cls.folder / "installed" / "bin"
        venv.create(cls.bin.parent, with_pip=True)
        constraints = copy / "constraints.txt"
        pip = (cls.bin / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()
        run(*pip, cls.wheel, cwd=cls.elsewhere, env=cls.clean)
        shutil.copy(ROOT / "examples" / "site.json", cls.elsewhere)

    def command(self, *words):
        return run(self.bin / "valence-sched", *words, cwd=self.elsewhere, env=self.clean)

    def test_the_wheel_holds_the_schemas_the_policies_the_flavors_and_the_types(self):
        names = set(zipfile.ZipFile(self.wheel).namelist())
        data = ROOT / "valence_sched" / "data"
        wanted = {f"valence_sched/data/{path.name}" for path in data.iterdir() if path.is_file()}
        wanted |= {
            "valence_sched/data/flavors.yaml",
            "valence_sched/data/policies.yaml",
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
        installed = run(self.bin / "python", "-m", "pip", "list", cwd=self.elsewhere)
        self.assertNotIn("python-openstackclient", installed)
