# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of one room: which changes of a line do the room's own tests not notice?

``python tools/mutants.py weighers`` changes the functions of ``valence_sched/weighers`` one small
step at a time with mutmut, and runs ``tests/unit/weighers`` on each. A module is named likewise:
``core/ranking``. Results stay in ``.mutants``: a run that was ended goes on, and one after new
tests tries only what survived. ``tests/mutants/equivalent.toml`` lists what no test can tell apart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".mutants"
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.toml"
#: What a room's tests may read, beside the packages.
LINKS = ("valence_sched", "valence_sched_cli", "tests", "examples", "doc")
KILLED = ("killed", "timeout", "segfault")
LEAST_SCORE = 0.95

CONFIG = """\
[mutmut]
source_paths = valence_sched
only_mutate = {source}
process_isolation = forkserver
use_git_change_detection = false
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args =
    -p
    no:cacheprovider
also_copy =
    valence_sched_cli
    examples
    doc
    conftest.py
"""
#: The same examples each time, or a mutant would survive by luck.
CONFTEST = """\
from hypothesis import HealthCheck, settings

settings.register_profile("mutants", derandomize=True, deadline=None,
                          suppress_health_check=list(HealthCheck))
settings.load_profile("mutants")
"""


class Mutant(NamedTuple):
    """A function, the line that is changed in it, and what it is changed to."""

    function: str
    line: str
    change: str


def main() -> int:
    """Run a room, or with ``--report`` only show its results; 1 when it is below the least."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("room", help="such as store, core/fit or core/ranking")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    arguments = parser.parse_args()
    room = arguments.room.strip("/")
    source = ROOT / "valence_sched" / room
    if not source.is_dir() and not source.with_suffix(".py").is_file():
        parser.error(f"no room or module named {room} in valence_sched")
    folder = prepare(room, "/*" if source.is_dir() else ".py")
    if not arguments.report:
        retry_survivors(folder)
        command = [str(Path(sys.executable).with_name("mutmut")), "run"]
        done = subprocess.run(  # noqa: S603 - a room that is a folder here
            [*command, "--max-children", str(arguments.jobs)], cwd=folder, check=False
        )
        if done.returncode:
            return done.returncode
    return report(room, folder)


def prepare(room: str, ending: str) -> Path:
    """Make the folder in which mutmut works on a room, and return it."""
    folder = RESULTS / room.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    tests = ROOT / "tests" / "unit" / room
    while not tests.is_dir():
        tests = tests.parent
    words = {"source": f"valence_sched/{room}{ending}", "tests": tests.relative_to(ROOT)}
    (folder / "setup.cfg").write_text(CONFIG.format(**words))
    (folder / "conftest.py").write_text(CONFTEST)
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)  # a test may have gone
    return folder


def retry_survivors(folder: Path) -> None:
    """Forget what survived or was not reached: there may be new tests."""
    for path in folder.glob("mutants/**/*.meta"):
        known = json.loads(path.read_text())
        codes = known["exit_code_by_key"]
        known["exit_code_by_key"] = {
            name: code if status(code) in KILLED else None for name, code in codes.items()
        }
        path.write_text(json.dumps(known))


def status(code: int | None) -> str:
    """Return mutmut's word for how the tests ended on a mutant."""
    from mutmut.stats import status_by_exit_code

    return status_by_exit_code[code]


def report(room: str, folder: Path) -> int:
    """Print the survivors and the scores of the room; return the exit code."""
    os.chdir(folder)
    counts: Counter[str] = Counter()
    survivors: list[tuple[str, Mutant]] = []
    for path in sorted(Path("mutants").rglob("*.meta")):
        for name, code in json.loads(path.read_text())["exit_code_by_key"].items():
            counts["killed" if status(code) in KILLED else status(code)] += 1
            if status(code) in ("survived", "no tests"):
                source = path.relative_to("mutants").with_suffix("")
                survivors.append((name, mutant_of(name, source)))
    known = dict(equivalents(room))
    alive = {mutant for _, mutant in survivors}
    stale = [mutant for mutant in known if mutant not in alive]
    for name, mutant in survivors:
        if mutant not in known:
            sys.stdout.write(f"\n{name}\n  {mutant.function}\n- {mutant.line}\n+ {mutant.change}\n")
    for mutant in stale:
        where = f"{mutant.function}: {mutant.line} -> {mutant.change}"
        sys.stdout.write(f"stale, killed or gone: {where}\n")
    equivalent = sum(mutant in known for _, mutant in survivors)
    tested = sum(counts.values()) - equivalent
    score = counts["killed"] / tested if tested else 1.0
    row = (room, tested + equivalent, counts["killed"], equivalent, tested - counts["killed"])
    sys.stdout.write("\nroom                      mutants  killed  equivalent  alive   score\n")
    sys.stdout.write("{:24} {:8} {:7} {:11} {:6} {:6.1f}%\n".format(*row, 100 * score))
    return int(bool(stale) or score < LEAST_SCORE or "not checked" in counts)


def mutant_of(name: str, path: Path) -> Mutant:
    """Return the first line that a mutant changes."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    module, _, mangled = name.rpartition(".")
    function = mangled.partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ")
    lines = get_diff_for_mutant(name, path=path).splitlines()
    was = [line[1:].strip() for line in lines if line[:1] == "-" and line[:3] != "---"]
    now = [line[1:].strip() for line in lines if line[:1] == "+" and line[:3] != "+++"]
    return Mutant(f"{module}.{function.replace('ǁ', '.')}", " ".join(was), " ".join(now))


def equivalents(room: str) -> Iterator[tuple[Mutant, str]]:
    """Yield the mutants of a room that are known to be equivalent, each with the reason."""
    prefix = f"valence_sched.{room.replace('/', '.')}."
    for entry in tomllib.loads(EQUIVALENT.read_text()).get("equivalent", []):
        if entry["function"].startswith(prefix):
            for change in entry["changes"]:
                yield Mutant(entry["function"], entry["line"], change), entry["reason"]


if __name__ == "__main__":
    sys.exit(main())
