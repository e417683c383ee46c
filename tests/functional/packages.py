# SPDX-License-Identifier: Apache-2.0
"""The project as packages: built once and installed once, in a separate environment."""

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.functional.programs import ROOT, Done, environment

NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", ".stestr", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info",
    "build", "dist",
)  # fmt: skip


def run(*words: str | Path, cwd: Path) -> Done:
    """Run a program without access to the checkout."""
    clean = {
        name: value
        for name, value in environment().items()
        if not name.startswith(("PYTHON", "PBR_"))
    }
    line = [str(word) for word in words]
    done = subprocess.run(line, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def ran(*words: str | Path, cwd: Path) -> str:
    """Run a program and return its stdout; a failure shows all its output."""
    done = run(*words, cwd=cwd)
    if done.code:
        raise AssertionError(f"{words} exited with {done.code}:\n{done.out}{done.err}")
    return done.out


def copy_source(source: Path, copy: Path) -> Path:
    """Copy the sources of a package, so that the build does not change the checkout."""
    shutil.copytree(source, copy, ignore=NOT_SOURCE)
    return copy


def build(copy: Path, *options: str) -> Path:
    """Build the packages of a copied source and return the folder that holds them."""
    built = copy.with_name(f"{copy.name}-built")
    ran(sys.executable, "-m", "build", "--installer=uv", *options, "--outdir", built, cwd=copy)
    return built


#: The environment of the tests.
UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True)
class Installed:
    """The packages of the project, and the environment with the installed wheel."""

    wheel: Path
    sdist: Path
    bin: Path
    elsewhere: Path

    def program(self, *words: str | Path) -> Done:
        """Run the installed program from another folder."""
        return run(self.bin / "valence-sched", *words, cwd=self.elsewhere)

    def python(self, *words: str | Path) -> str:
        """Run the interpreter of the environment from another folder; it must succeed."""
        return ran(self.bin / "python", *words, cwd=self.elsewhere)

    def pip(self, verb: str, *words: str | Path) -> str:
        """Change the environment as pip does, in a tenth of the time; it must succeed."""
        python = ("--python", self.bin / "python")
        return ran(UV, "pip", verb, *python, *words, cwd=self.elsewhere)


@functools.cache
def installed() -> Installed:
    """Return the packages of the project, and an environment with only its wheel.

    Builds the source archive from a copy without git, the wheel from the archive, and installs the
    wheel. A test must remove its additions to the environment.
    """
    folder = tempfile.TemporaryDirectory(prefix="packages-")
    atexit.register(folder.cleanup)
    top = Path(folder.name)
    built = build(copy_source(ROOT, top / "copy"))
    (wheel,) = built.glob("*.whl")
    (sdist,) = built.glob("*.tar.gz")
    elsewhere = top / "elsewhere"
    elsewhere.mkdir()
    ran(UV, "venv", "--quiet", "--python", sys.executable, top / "installed", cwd=elsewhere)
    found = Installed(wheel, sdist, top / "installed" / "bin", elsewhere)
    found.pip("install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    shutil.copy(ROOT / "examples" / "site.json", elsewhere)
    return found
