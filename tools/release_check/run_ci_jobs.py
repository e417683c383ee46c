# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of each job of examples/ci as a CI system does; exits with 1 if one fails."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

TOP, DIST = Path(os.environ["TOP"]), Path(os.environ["DIST"])
EXAMPLES = TOP / "examples"
FILES = ("check.yaml", "site.json", "scenarios.yaml", "workload.csv", "decision.json")
IN_IMAGE = "/opt/valence-sched/bin/"  # the step for the image installs the program there


def commands(job: dict[str, Any]) -> Iterator[str]:
    """Yield the commands of a job; a checkout of the sources becomes a clone."""
    for line in job.get("script", ()):
        yield line.replace(IN_IMAGE, "")
    for step in job.get("steps", ()):
        if "run" in step:
            yield step["run"]
        elif "repository" in step.get("with", {}):
            yield f"git clone --quiet {TOP} {step['with']['path']}"


def run(name: str, job: dict[str, Any]) -> None:
    repository = Path(name)
    (repository / "wheels").mkdir(parents=True)
    (wheel,) = DIST.glob("*.whl")
    shutil.copy(wheel, repository / "wheels")
    for file in FILES:
        shutil.copy(EXAMPLES / file, repository)
    venv.create(f"{name}-python", with_pip=True)
    python = Path(f"{name}-python").absolute()
    environ = os.environ | {
        "PATH": f"{python / 'bin'}:{os.environ['PATH']}",
        "PIP_QUIET": "1",
        "GITHUB_STEP_SUMMARY": str(repository.absolute() / "summary.md"),
    }
    lines = [*commands(job)]
    if not any("pip install" in line for line in lines):
        lines.insert(0, "pip install wheels/*.whl")  # what the image of the job has
    for line in lines:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", line], cwd=repository, env=environ, check=False
        )
        if done.returncode:
            sys.exit(f"{name}: exit code {done.returncode}: {line}")
    if not (repository / "check.xml").stat().st_size:
        sys.exit(f"{name}: check.xml is empty")
    print(f"{name}: passed")


for file in ("github.yaml", "gitlab.yaml"):
    document = yaml.safe_load((EXAMPLES / "ci" / file).read_text())
    for name, job in document.get("jobs", document).items():
        run(f"{file.removesuffix('.yaml')}-{name}", job)
