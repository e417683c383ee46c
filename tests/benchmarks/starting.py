# SPDX-License-Identifier: Apache-2.0
"""The start-up cost of our program, of its main task, and of our plug-ins for ``openstack``."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, sized

ROOT = Path(__file__).parents[2]
BARE = """
import sys
from cliff.app import App
from cliff.commandmanager import CommandManager
class Bare(App):
    def __init__(self):
        super().__init__("bare", "1", CommandManager("nobody.has.this"))
Bare().run(sys.argv[1:])
"""
OPENSTACK = """
import sys
import stevedore._cache as cache
found = cache.get_group_all
def without(group, path=None):
    entries = found(group, path)
    if group != "openstack.cli.extension" or {keep}:
        return entries
    return [entry for entry in entries if entry.name != "podm"]
cache.get_group_all = without
from openstackclient.shell import main
sys.exit(main(["--version"]))
"""


def starting() -> Iterator[Measurement]:
    """``--version`` takes at most 1.2 times a bare cliff application, the main task 2 times.

    The main task takes at most 300 ms of CPU. The plug-ins cost ``openstack`` 5 ms. The programs
    run in turns.
    """
    program = str(Path(sys.executable).with_name("valence-sched"))
    job = [program, "podm", "schedule", "--inventory", str(ROOT / "examples/site.json"),
           "--flavor", "gpu-large"]  # fmt: skip
    bare, version, took = in_turns_ms(
        [sys.executable, "-c", BARE, "--version"], [program, "--version"], job
    )
    yield against("starting: valence-sched --version", version, bare, 1.2)
    yield against("starting: podm schedule, CPU", took, 300.0, 1.0)
    yield against("starting: podm schedule to a bare application", took, bare, 2.0)
    with_us = [sys.executable, "-c", OPENSTACK.format(keep=True)]
    without = [sys.executable, "-c", OPENSTACK.format(keep=False)]
    for _ in range(sized(1, 0)):
        once_ms(with_us)
    more = statistics.median(once_ms(with_us) - once_ms(without) for _ in range(sized(15, 1)))
    yield against("starting: openstack --version, more for us", more, 5.0, 1.0)


def in_turns_ms(*commands: list[str], times: int = 15) -> Iterator[float]:
    """Return the median CPU time of each command in milliseconds, after one uncounted run."""
    for command in commands[: sized(len(commands), 0)]:
        once_ms(command)
    turns = [[once_ms(command) for command in commands] for _ in range(sized(times, 1))]
    return map(statistics.median, zip(*turns, strict=True))


def once_ms(command: list[str]) -> float:
    """Return the CPU time of one run of a command in milliseconds, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=False, env=os.environ.copy())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
