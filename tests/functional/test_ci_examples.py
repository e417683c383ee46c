# SPDX-License-Identifier: Apache-2.0
"""The CI files in the documentation: each step is executed, or replaced by its effect."""

import configparser
import json
import shlex
import shutil
from typing import Any
from xml.etree import ElementTree

import yaml

from tests.functional.programs import ROOT, Case, Done, shell

EXAMPLES = ROOT / "examples"
FILES = ("check.yaml", "site.json", "scenarios.yaml", "workload.csv", "decision.json")
WHEEL = "valence_sched-1.0.0-py3-none-any.whl"
IN_IMAGE = "/opt/valence-sched/bin/"


def jobs(name: str) -> dict[str, dict[str, Any]]:
    document = yaml.safe_load((EXAMPLES / "ci" / name).read_text())
    found: dict[str, dict[str, Any]] = document.get("jobs", document)
    return found


class CiCase(Case):
    """A test case whose folder is the repository of a job."""

    def setUp(self):
        self.summary = self.folder / "summary.md"
        self.done: dict[str, Done] = {}
        for name in FILES:
            shutil.copy(EXAMPLES / name, self.folder)
        (self.folder / "wheels").mkdir(exist_ok=True)
        (self.folder / "wheels" / WHEEL).touch()

    def shell(self, command: str) -> Done:
        """Run the command of a step once for all jobs that have it."""
        if command not in self.done:
            environ = {"GITHUB_STEP_SUMMARY": str(self.summary)}
            self.done[command] = shell(command, self.folder, **environ)
        return self.done[command]

    def execute(self, command: str) -> None:
        """Run a command; of an installation, which the check of a release runs, find the files."""
        program, verb, *words = shlex.split(command)
        if (program, verb) == ("pip", "install"):
            for word in words:
                if not word.startswith("--"):
                    self.assertTrue([*self.folder.glob(word.removeprefix("./"))], word)
        else:
            done = self.shell(command.replace(IN_IMAGE, ""))
            self.assertEqual(0, done.code, done.out)
            self.assertIn("9 expectations met\n", done.out)


class TestGithub(CiCase):
    """The workflow for GitHub Actions."""

    def check_out(self, **words: str) -> None:
        """``actions/checkout``: the files of the repository, or of the sources."""
        if "path" in words:
            self.assertTrue(words["repository"].endswith("/valence-sched"))
            path = self.folder / words["path"]
            path.unlink(missing_ok=True)
            path.symlink_to(ROOT)

    def set_up_python(self, **words: str) -> None:
        """``actions/setup-python``: a version that the package supports."""
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        supported = config["metadata"]["classifiers"].split("\n")
        self.assertIn(f"Programming Language :: Python :: {words['python-version']}", supported)

    def upload(self, **words: str) -> None:
        """``actions/upload-artifact``: a file that a step has written."""
        ElementTree.fromstring((self.folder / words["path"]).read_bytes())

    def test_each_step_of_each_job_passes(self):
        uses = {
            "actions/checkout@v4": self.check_out,
            "actions/setup-python@v5": self.set_up_python,
            "actions/upload-artifact@v4": self.upload,
        }
        used, installed = set(), []
        for name, job in jobs("github.yaml").items():
            (self.folder / "check.xml").write_text("<testsuites/>")
            for step in job["steps"]:
                with self.subTest(name, step=step):
                    if "uses" in step:
                        used.add(step["uses"])
                        uses[step["uses"]](**step.get("with", {}))
                    else:
                        self.execute(step["run"])
                        installed += [step["run"]] * step["run"].startswith("pip ")
        self.assertEqual({*uses}, used)
        self.assertEqual(2, len(installed))
        self.assertTrue(self.summary.read_text().startswith("| Result"))

    def test_a_job_fails_when_a_rack_is_gone(self):
        site = json.loads((self.folder / "site.json").read_text())
        site["podms"] = [podm for podm in site["podms"] if podm["id"] != "gpu-north"]
        (self.folder / "site.json").write_text(json.dumps(site))
        steps = jobs("github.yaml")["check-with-wheel"]["steps"]
        (command,) = (step["run"] for step in steps if "scheduler check" in step.get("run", ""))
        done = self.shell(command)
        self.assertEqual(10, done.code, done.out)
        self.assertIn("::error file=check.yaml,line=6::room for four GPU nodes: fits 3 times",
                      done.out)  # fmt: skip
        root = ElementTree.fromstring((self.folder / "check.xml").read_bytes())
        self.assertIn("room for four GPU nodes",
                      [case.get("name") for case in root.iter("testcase")])  # fmt: skip


class TestGitlab(CiCase):
    """The pipeline for GitLab."""

    def test_each_line_of_each_job_passes_and_leaves_its_report(self):
        report = self.folder / "check.xml"
        for name, job in jobs("gitlab.yaml").items():
            with self.subTest(name):
                report.unlink(missing_ok=True)
                self.done.clear()
                for line in job["script"]:
                    self.execute(line)
                self.assertEqual(report.name, job["artifacts"]["reports"]["junit"])
                ElementTree.fromstring(report.read_bytes())

    def test_images_have_plain_names_and_the_program(self):
        images = [job["image"] for job in jobs("gitlab.yaml").values()]
        python, built = (one if isinstance(one, str) else one["name"] for one in images)
        container = (EXAMPLES / "service" / "Containerfile").read_text()
        self.assertRegex(python, r"^python:3\.1[1-4]-slim$")
        self.assertIn(f"--tag {built.partition(':')[0]} ", container)
        self.assertIn(f" {IN_IMAGE.removesuffix('/bin/')}\n", container)
        self.assertEqual([""], images[1]["entrypoint"])
