# SPDX-License-Identifier: Apache-2.0
"""The two real programs, run as a user or a script runs them: without cloud and configuration."""

import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.functional import in_process, through
from valence_sched.model.decision import Reason

ROOT = Path(__file__).parents[2]
SITE = str(ROOT / "examples" / "site.json")
FLAVORS = str(ROOT / "examples" / "flavors.yaml")
BIN = Path(sys.executable).parent
PROGRAMS = ("valence-sched", "openstack")
#: Characters that only a shell understands, outside single quotes.
NEEDS_A_SHELL = frozenset("|&;<>$`*?~")
QUOTED = re.compile(r"'[^']*'")
#: A command, redirections of its streams to /dev/null, and the printing of its exit code.
LINE = re.compile(
    r"""(.*?)( >/dev/null)?( 2>/dev/null| 2>&1)?(?:; echo "([^"$]*)\$\?")?""", re.DOTALL
)
NOWHERE = tempfile.gettempdir() + "/there-is-no-configuration-here"


class Done(NamedTuple):
    """The results of a run: exit code, output and errors."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Return the output as JSON."""
        return json.loads(self.out)

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """Return the pod managers of a report on the output, each with outcome and reason."""
        reports = self.data.get("decisions", [self.data])
        return [_verdict(one) for report in reports for one in report["podms"]]


def _verdict(one: dict[str, Any]) -> dict[str, Any]:
    reason = one["reason"] and msgspec.convert(one["reason"], Reason).text
    if reason and one["fitting"]:
        reason = f"after {one['fitting']} nodes: {reason}"
    return {"Podm": one["podm"], "Pool": one["pool"], "Outcome": one["outcome"],
            "Score": one["score"], "Reason": reason}  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    """Return an environment without cloud and configuration, with a fixed width."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OS_", "CLIFF_", "VALENCE_SCHED_"))
    }
    kept |= {
        "COLUMNS": "160",
        "OS_CLIENT_CONFIG_FILE": f"{NOWHERE}/clouds.yaml",
        "VALENCE_SCHED_WARN_AGE": "never",  # recordings of tests and examples are old
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "XDG_CACHE_HOME": NOWHERE,
        "XDG_CONFIG_HOME": NOWHERE,
        "XDG_STATE_HOME": NOWHERE,
    }
    return kept | more


def run(
    program: str, *words: str | Path, stdin: bytes = b"", folder: Path = ROOT, **more: str
) -> Done:
    """Run a program in a folder, in this process.

    A run with variables of Python itself starts a new process.
    """
    if any(name.startswith("PYTHON") for name in more):
        return execute(program, *words, stdin=stdin, **more)
    if through.Switch.on and (found := through.translate(tuple(map(str, words)), more)):
        return _through(program, found, words, stdin, more)
    return _run(program, words, stdin, more, folder)


def _through(
    program: str,
    found: through.Translation,
    words: tuple[str | Path, ...],
    stdin: bytes,
    more: dict[str, str],
) -> Done:
    """Run a program through a service; also without it, if the run changes nothing."""
    url = through.services(os.getpid()).url(found.settings, environment(**more))
    here = _run(program, words, stdin, more) if found.compares else None
    there = _run(program, found.words, stdin, found.environ | {"VALENCE_SCHED_URL": url})
    if here is not None and not through.same(here, there):
        raise AssertionError(through.difference(found.words, here, there))
    return there if here is None else here


def _run(
    program: str, words: tuple[str | Path, ...], stdin: bytes, more: dict[str, str],
    folder: Path = ROOT,
) -> Done:  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="streams-") as place:
        streams = [Path(place, name) for name in ("in", "out", "err")]
        streams[0].write_bytes(stdin)
        code = _ran(program, words, environment(**more), folder, streams)
        return Done(code, streams[1].read_text(), streams[2].read_text())


def run_to(program: str, out: str | None, err: str | None, *words: str | Path, **more: str) -> Done:
    """Run a program as :func:`run`, with its streams in these files, which may be devices."""
    with tempfile.TemporaryDirectory(prefix="streams-") as folder:
        streams = [Path(os.devnull), Path(out or f"{folder}/out"), Path(err or f"{folder}/err")]
        code = _ran(program, words, environment(**more), ROOT, streams)
        texts = [Path(folder, name) for name in ("out", "err")]
        return Done(code, *(text.read_text() if text.exists() else "" for text in texts))


def _ran(
    program: str, words: tuple[str | Path, ...], environ: dict[str, str], folder: Path,
    streams: list[Path],
) -> int:  # fmt: skip
    """Run a program in this process; return its exit code."""
    return in_process.run(BIN / program, list(map(str, words)), environ, folder, streams)


def execute(program: str, *words: str | Path, stdin: bytes = b"", **more: str) -> Done:
    """Start a program in the folder of the project."""
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


def asked(program: str, *words: str, **more: str) -> Done:
    """Run a program, or return the result of an earlier equal run."""
    return _asked(through.Switch.on, program, *words, **more)


@functools.cache
def _asked(_through: bool, program: str, *words: str, **more: str) -> Done:
    return run(program, *words, **more)


def shell(command: str, folder: Path = ROOT, **more: str) -> Done:
    """Run a line as a shell does, with output and errors together as on a terminal."""
    found = LINE.fullmatch(command)
    assert found, "any text is a command"
    line, silent, errors, says = found.groups()
    words = shlex.split(line.replace("\\\n", " "))
    if words[0] in PROGRAMS and not NEEDS_A_SHELL.intersection(QUOTED.sub("", line)):
        with tempfile.TemporaryDirectory(prefix="streams-") as place:
            nowhere, both = Path(os.devnull), Path(place, "both")
            out = nowhere if silent else both
            err = {None: both, " 2>&1": out}.get(errors, nowhere)
            code = _ran(words[0], tuple(words[1:]), environment(**more), folder,
                        [nowhere, out, err])  # fmt: skip
            text = both.read_text() if both.exists() else ""
            return Done(code, text, "") if says is None else Done(0, f"{text}{says}{code}\n", "")
    done = subprocess.run(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment(**more),
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), "")


class Case(unittest.TestCase):
    """A test case with its own folder, which is deleted after the class."""

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
