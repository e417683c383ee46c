# SPDX-License-Identifier: Apache-2.0
"""Screens of live pod managers in the documentation: ``python -m tests.functional.screens``.

A transcript is replayed on served pod managers of the example, with a new state. Claim ids, times
and ports, which differ in each run, are replaced by fixed values.
"""

import re
import tempfile
from pathlib import Path

from tests.functional.programs import ROOT, SITE, shell
from tests.functional.renew_golden import COMMAND
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.testing.served import served

SCREENS = ROOT / "doc" / "source" / "screens"
#: The faults of the pod managers for each transcript.
FAILS = {
    "change.txt": (), "change-amount.txt": ("connections",), "claim.txt": (),
    "compose.txt": (), "died.txt": ("async",), "plan-apply.txt": (),
    "plan-moved.txt": (), "plan-refresh.txt": (),
}  # fmt: skip
#: The registered pod managers, and those of one transcript.
NAMES = ("gpu-east", "gpu-west")
OWN_NAMES = {"change-amount.txt": ("mem-1",)}
#: Seconds of a composition with the fault ``async``: longer than a command that does not wait.
TASK_S = 2.0
ID = re.compile(r"\b[0-9a-f]{16}\b")
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
CLOCK = re.compile(r"(?<=until )\d\d:\d\d:\d\dZ")
#: Values that differ in each run: the port of a pod manager, a UUID, a MAC address.
HARDWARE = {
    r"127\.0\.0\.1:\d{5}\b": "127.0.0.1:38001",
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "9e0b7a1c-2d4f-5b68-8c3a-5d1e6f7a8b90",
    r"\b02(:[0-9a-f]{2}){5}\b": "02:5d:1e:6f:7a:8b",
}
SINCE = re.compile(r"(?<=\| )\d+s +(?=\|$)", re.MULTILINE)
FAKES = ("3f9c0a1b2d4e5f60", "81b25d0c9e7a4f13", "c4d7e8f90a1b2c3d")


def replayed(name: str) -> str:
    """Return a transcript with the present output of its commands."""
    commands = COMMAND.findall((SCREENS / name).read_text())
    aliases = Aliases()
    told = []
    settings = SimulatorSettings(task_s=TASK_S)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(SITE, fail=FAILS[name], settings=settings) as podms,
    ):
        for one in OWN_NAMES.get(name, NAMES):
            _shell(f"valence-sched podm create {one} {podms[one].url}", folder)
        for command in commands:
            out = _shell(aliases.meant(command[2:]), folder)
            told.append(f"{command}\n{aliases.written(out)}")
    return "\n".join(told)


class Aliases:
    """Fixed ids and times that replace the ids and times of a run."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}

    def meant(self, command: str) -> str:
        """Return a command of a transcript with the ids of this run."""
        for known, alias in self._aliases.items():
            command = command.replace(alias, known)
        return command

    def written(self, out: str) -> str:
        """Return the output of a command with the ids and times of the transcript."""
        for found in ID.findall(out):
            self._aliases.setdefault(found, FAKES[len(self._aliases) % len(FAKES)])
        for known, alias in self._aliases.items():
            out = out.replace(known, alias)
        out = CLOCK.sub("09:24:07Z", TIME.sub("2026-03-02T09:14:07Z", out))
        for pattern, fake in HARDWARE.items():
            out = re.sub(pattern, fake, out)
        return SINCE.sub("2s    ", out)


def _shell(command: str, folder: str) -> str:
    return shell(command, Path(folder), XDG_STATE_HOME=folder, COLUMNS="120").out


def main() -> None:
    """Write all screens."""
    for name in FAILS:
        path = Path(SCREENS / name)
        path.write_text(replayed(name))


if __name__ == "__main__":
    main()
