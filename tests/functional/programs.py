# SPDX-License-Identifier: Apache-2.0
"""The two real programs, run as a person or a script runs them: no cloud, no configuration."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SITE = str(ROOT / "examples" / "site.json")
FLAVORS = str(ROOT / "examples" / "flavors.yaml")
BIN = Path(sys.executable).parent
PROGRAMS = ("valence-sched", "openstack")
NOWHERE = tempfile.gettempdir() + "/there-is-no-configuration-here"


class Done(NamedTuple):
    """What a program left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Return its output as JSON."""
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    """Return an environment without a cloud, without configuration, of one width."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OS_", "CLIFF_", "VALENCE_SCHED_"))
    }
    kept |= {
        "COLUMNS": "160",
        "OS_CLIENT_CONFIG_FILE": f"{NOWHERE}/clouds.yaml",
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "XDG_CACHE_HOME": NOWHERE,
        "XDG_CONFIG_HOME": NOWHERE,
        "XDG_STATE_HOME": NOWHERE,
    }
    return kept | more


def run(program: str, *words: str | Path, stdin: bytes = b"", **more: str) -> Done:
    """Run a program from the folder of the project."""
    done = subprocess.run(
        [str(BIN / program), *map(str, words)],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env=environment(**more),
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@functools.cache
def asked(program: str, *words: str) -> Done:
    """Run a program, or return what it left behind when it was run so before."""
    return run(program, *words)


def shell(command: str) -> Done:
    """Run a line as a shell does, output and errors together as on a terminal."""
    done = subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=environment(),
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), "")


class Case(unittest.TestCase):
    """A test with a folder of its own, which goes when the class has run."""

    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="functional-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def write(self, name: str, text: str | bytes) -> str:
        """Write a file into the folder and return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)
