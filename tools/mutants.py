# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of one room: which changes of a line do the room's own tests not notice?

``python tools/mutants.py weighers`` changes the functions of ``valence_sched/weighers`` one small
step at a time with mutmut, and runs ``tests/unit/weighers`` on each. A module is named likewise:
``core/ranking``. A room within a room, such as ``core/fit``, is another: ``core`` leaves it out.
Results stay in ``.mutants``: a run that was ended goes on, and one after new tests tries only what
survived. ``--sample 50`` tries 50 mutants of each module, the same each time; its table says so.
What runs while a module is imported is tried in a process for each mutant. Migrations are left out:
Alembic loads them under names of its own, and no mutant of them is ever chosen. mutmut changes no
function that has a decorator: it works on a copy of the room in which each is a call below it.
``tests/mutants/equivalent.toml`` lists what no test can tell apart.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".mutants"
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.toml"
#: What pytest loads beside the copy of the packages.
PYTEST_FILES = tuple(ROOT / "tests" / "mutants" / name for name in ("conftest.py", "reached.py"))
#: What a room's tests may read, beside the packages.
LINKS = ("valence_sched_cli", "tests", "examples", "doc")
#: Only test cases are tests: pytest takes any class that is called Test for one, also a noun.
NO_CLASSES = "python_classes="
KILLED = ("killed", "timeout", "segfault")
LEAST_SCORE = 0.95
#: Decorators of functions that mutmut changes.
PLAIN_DECORATORS = (["staticmethod"], ["classmethod"])

# The time limits by the clock are for what waits for ever; tests/mutants/conftest.py has those of
# the processor, so that a busy machine kills nothing.
CONFIG = """\
[mutmut]
source_paths = valence_sched
only_mutate = {source}
do_not_mutate =
    valence_sched/__init__.py
    */migrations/*
{others}process_isolation = forkserver
timeout_constant = 10
timeout_multiplier = 10
use_git_change_detection = false
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args =
    -p
    no:cacheprovider
    -o
    {no_classes}
{ignored}also_copy =
    valence_sched_cli
    examples
    doc
    conftest.py
    reached.py
"""


#: Prints the functions of a room that run while it is imported.
FIND_IMPORT_TIME = """\
import importlib, os, sys
from pathlib import Path
from mutmut.mutation import trampoline

sys.path.insert(0, os.getcwd())
found = set()
trampoline.record_trampoline_hit = lambda name, caller=None: found.add(name)
trampoline.set_mutant_under_test("stats")
for path in sorted(Path("valence_sched").rglob("*.meta")):
    importlib.import_module(".".join(path.with_suffix("").with_suffix("").parts))
print(*sorted(found), sep="\\n")
"""


class Mutant(NamedTuple):
    """A function, the line that is changed in it, and what it is changed to."""

    function: str
    line: str
    change: str


class Room(NamedTuple):
    """A module or a package of ``valence_sched``, and the tests that are its own."""

    name: str

    @property
    def path(self) -> Path:
        return Path("valence_sched") / self.name

    @property
    def tests(self) -> Path:
        tests = Path("tests/unit") / self.name
        return next(path for path in (tests, *tests.parents) if (ROOT / path).is_dir())

    @property
    def inner(self) -> list[str]:
        """The rooms within it, each with tests of its own."""
        folders = [path.name for path in (ROOT / self.tests).iterdir() if path.is_dir()]
        inside = ROOT / "valence_sched" / self.tests.relative_to("tests/unit")
        return sorted(
            name for name in folders if name != "__pycache__" and (inside / name).is_dir()
        )

    @property
    def modules(self) -> list[Path]:
        """Paths of its files, those of the rooms within it left out."""
        if not (ROOT / self.path).is_dir():
            return [self.path.with_suffix(".py")]
        files = (path.relative_to(ROOT) for path in sorted((ROOT / self.path).rglob("*.py")))
        left_out = {*self.inner, "migrations"}
        return [file for file in files if file.relative_to(self.path).parts[0] not in left_out]


def main() -> int:
    """Run a room, or with ``--report`` only show its results; 1 when it is below the least."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("room", help="such as store, core/fit or core/ranking")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--sample", type=int, help="mutants of each module (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    arguments = parser.parse_args()
    room = Room(arguments.room.strip("/"))
    if not all((ROOT / module).is_file() for module in room.modules):
        parser.error(f"no room or module named {room.name} in valence_sched")
    folder = prepare(room)
    os.chdir(folder)
    every = {module: mutants_of(module) for module in room.modules}
    chosen = {module: drawn(names, arguments.sample) for module, names in every.items()}
    if not arguments.report:
        run(chosen if arguments.sample else {}, arguments.jobs)
        try_import_time(room, chosen)
    return report(room, every, chosen)


def prepare(room: Room) -> Path:
    """Make the folder in which mutmut works on a room, and return it."""
    folder = RESULTS / room.name.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    copy_sources(folder, room)
    words = {
        "source": f"{room.path}/*" if (ROOT / room.path).is_dir() else f"{room.path}.py",
        "others": "".join(f"    {room.path / name}/*\n" for name in room.inner),
        "tests": room.tests,
        "no_classes": NO_CLASSES,
        "ignored": "".join(f"    --ignore={room.tests / name}\n" for name in room.inner),
    }
    (folder / "setup.cfg").write_text(CONFIG.format(**words))
    for path in PYTEST_FILES:
        shutil.copy(path, folder)
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)  # a test may have gone
    return folder


def copy_sources(folder: Path, room: Room) -> None:
    """Copy ``valence_sched`` to a folder, what is up to date left alone: its results stay valid.

    Which tests reach which functions is found out anew where the room has changed.
    """
    sources = [
        path.relative_to(ROOT)
        for path in (ROOT / "valence_sched").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    package = folder / "valence_sched"
    if package.is_symlink():
        package.unlink()
    for path in {p.relative_to(folder) for p in package.rglob("*.py")} - {*sources}:
        (folder / path).unlink()
        (folder / "mutants" / path).unlink(missing_ok=True)
    for path in sources:
        content = (ROOT / path).read_bytes()
        if path in room.modules:
            content = without_decorators(content.decode()).encode()
        copy = folder / path
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            if path in room.modules:
                (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)


def without_decorators(source: str) -> str:
    """Return a module in which decorators of functions are calls below the functions.

    That does the same::

        @functools.cache        def f(): ...
        def f(): ...            f = functools.cache(f)

    Left as they are: what mutmut changes as it is, overloads, and functions whose name another one
    of the same class or module has, such as the setter of a property.
    """
    lines = source.splitlines(keepends=True)
    module = ast.parse(source)
    bodies = [module.body, *(node.body for node in module.body if isinstance(node, ast.ClassDef))]
    for body in bodies:
        functions = [n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = [function.name for function in functions]
        for function in functions:
            decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
            if not decorators or names.count(function.name) > 1 or decorators in PLAIN_DECORATORS:
                continue
            call = function.name
            for decorator in reversed(decorators):
                call = f"{decorator}({call})"
            first, last = function.decorator_list[0].lineno, function.end_lineno or function.lineno
            lines[first - 1 : function.lineno - 1] = [""] * (function.lineno - first)
            lines[last - 1] += f"{' ' * function.col_offset}{function.name} = {call}\n"
    return "".join(lines)


def mutants_of(module: Path) -> list[str]:
    """Return the names that mutmut gives the mutants of a module."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    dotted = ".".join(module.with_suffix("").parts)
    mutated = mutate_file_contents(str(module), module.read_text())
    return [f"{dotted}.{name}" for name in mutated.mutant_names]


def drawn(names: list[str], size: int | None) -> list[str]:
    """Return ``size`` of the names in their order, the same each time; all when it is None."""
    if size is None or size >= len(names):
        return names
    chosen = set(random.Random(0).sample(names, size))  # noqa: S311 - no secret
    return [name for name in names if name in chosen]


def run(chosen: dict[Path, list[str]], jobs: int) -> None:
    """Have mutmut try the mutants that are not killed yet; where none are named, every one."""
    known = results()
    names = [n for names in chosen.values() for n in names if status(known.get(n)) not in KILLED]
    if chosen and not names:
        return
    if not chosen:
        forget_survivors()
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(jobs)]
    subprocess.run([*command, *names], check=True)  # noqa: S603 - names that mutmut gave


def try_import_time(room: Room, chosen: dict[Path, list[str]]) -> None:
    """Try each mutant of what runs while a module is imported in a process of its own.

    mutmut has imported the modules by the time it chooses a mutant, and finds these all alive.
    Those that are listed as equivalent are left out: all tests of the room would run on each.
    """
    found = subprocess.run(  # noqa: S603 - the modules of this repository
        [sys.executable, "-c", FIND_IMPORT_TIME],
        cwd="mutants", stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for module, names in chosen.items():
        path = Path("mutants") / f"{module}.meta"
        if not path.exists():  # it has no mutants
            continue
        known = json.loads(path.read_text())
        codes = known["exit_code_by_key"]
        for name in names:
            alive = status(codes.get(name)) not in KILLED
            if name.partition("__mutmut_")[0] not in found or not alive:
                continue
            if not is_equivalent(mutant_of(name, module)):
                codes[name] = int(not passes(room, name))
                path.write_text(json.dumps(known))


def passes(room: Room, name: str) -> bool:
    """Return whether the tests of a room pass in a new process that has a mutant from the start."""
    done = subprocess.run(  # noqa: S603 - the tests of this repository
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", NO_CLASSES,
         room.tests],
        cwd="mutants", stdout=subprocess.DEVNULL, check=False,
        env={**os.environ, "MUTANT_UNDER_TEST": name},
    )  # fmt: skip
    return done.returncode == 0


def results() -> dict[str, int | None]:
    """Return how the tests ended on each mutant that was tried; None for one that was not."""
    known: dict[str, int | None] = {}
    for path in Path("mutants").rglob("*.meta"):
        known |= json.loads(path.read_text())["exit_code_by_key"]
    return known


def forget_survivors() -> None:
    """Have what survived or was not reached tried once more: there may be new tests."""
    for path in Path("mutants").rglob("*.meta"):
        known = json.loads(path.read_text())
        known["exit_code_by_key"] = {
            name: code if status(code) in KILLED else None
            for name, code in known["exit_code_by_key"].items()
        }
        path.write_text(json.dumps(known))


def status(code: int | None) -> str:
    """Return mutmut's word for how the tests ended on a mutant."""
    from mutmut.stats import status_by_exit_code

    return status_by_exit_code[code]


class Score(NamedTuple):
    """What became of the mutants of one module, or of all of a room."""

    name: str
    mutants: int
    tried: int
    killed: int
    by_time: int
    equivalent: int

    @property
    def alive(self) -> int:
        return self.tried - self.killed - self.equivalent

    @property
    def score(self) -> float:
        """The killed part of those tried that are not equivalent; 1.0 where there is none."""
        counted = self.tried - self.equivalent
        return self.killed / counted if counted else 1.0

    def __str__(self) -> str:
        part = "" if self.tried == self.mutants else f"  a sample of {self.tried}"
        return (
            f"{self.name:28} {self.mutants:7} {self.killed:7} {self.by_time:8} "
            f"{self.equivalent:10} {self.alive:6} {100 * self.score:6.1f}%{part}"
        )


HEAD = f"{'module':28} mutants  killed  by time  equivalent  alive   score"


def report(room: Room, every: dict[Path, list[str]], chosen: dict[Path, list[str]]) -> int:
    """Print the survivors and the scores of the room; return the exit code."""
    codes, listed = results(), dict(equivalents())
    scores, stale = [], []
    for module, names in chosen.items():
        ends = {name: status(codes.get(name)) for name in names}
        lived = [name for name in names if ends[name] in ("survived", "no tests")]
        alive = {name: mutant_of(name, module) for name in lived}
        known = [name for name, mutant in alive.items() if is_equivalent(mutant)]
        tried = sum(end != "not checked" for end in ends.values())
        killed = sum(end in KILLED for end in ends.values())
        by_time = sum(end == "timeout" for end in ends.values())
        scores.append(Score(str(module), len(every[module]), tried, killed, by_time, len(known)))
        for name, mutant in alive.items():
            if name not in known:
                sys.stdout.write("\n{}\n  {}\n- {}\n+ {}\n".format(name, *mutant))
        if tried == len(every[module]):
            prefix = ".".join((*module.with_suffix("").parts, ""))
            gone = listed.keys() - alive.values()
            stale += sorted(mutant for mutant in gone if mutant.function.startswith(prefix))
    for mutant in stale:
        where = f"{mutant.function}: {mutant.line} -> {mutant.change}"
        sys.stdout.write(f"stale, killed or gone: {where}\n")
    total = Score(room.name, *(sum(column) for column in list(zip(*scores, strict=True))[1:]))
    rows = "\n".join(str(score) for score in (*scores, total) if score.mutants)
    sys.stdout.write(f"\n{HEAD}\n{rows}\n")
    untried = any(codes.get(name) is None for names in chosen.values() for name in names)
    return int(bool(stale) or total.score < LEAST_SCORE or untried)


def mutant_of(name: str, path: Path) -> Mutant:
    """Return the first line that a mutant changes."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    module, _, mangled = name.rpartition(".")
    function = mangled.partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ")
    lines = get_diff_for_mutant(name, path=path).splitlines()
    was = [line[1:].strip() for line in lines if line[:1] == "-" and line[:3] != "---"]
    now = [line[1:].strip() for line in lines if line[:1] == "+" and line[:3] != "+++"]
    return Mutant(f"{module}.{function.replace('ǁ', '.')}", " ".join(was), " ".join(now))


def is_equivalent(mutant: Mutant) -> bool:
    """Return whether a mutant is listed as one that no test can tell from the code."""
    return mutant in dict(equivalents()) or differs_only_by(patterns(), mutant)


def equivalents() -> Iterator[tuple[Mutant, str]]:
    """Yield the mutants that are known to be equivalent, each with the reason."""
    for entry in tomllib.loads(EQUIVALENT.read_text()).get("equivalent", []):
        for change in entry["changes"]:
            yield Mutant(entry["function"], entry["line"], change), entry["reason"]


def patterns() -> list[re.Pattern[str]]:
    """Return what makes no difference on any line, each a pattern of the text in question."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("everywhere", [])
    return [re.compile(entry["pattern"]) for entry in entries]


def differs_only_by(everywhere: list[re.Pattern[str]], mutant: Mutant) -> bool:
    """Return whether a line and its change are the same but for what one pattern finds."""
    return any(one.sub("", mutant.line) == one.sub("", mutant.change) for one in everywhere)


if __name__ == "__main__":
    sys.exit(main())
