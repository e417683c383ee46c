# SPDX-License-Identifier: Apache-2.0
"""The commands of the tutorial, run as its reader does: ``python -m tests.functional.tutorial``.

A transcript has a part for each screen. ``podm serve`` continues in its own terminal until a part
ends it with ``^C``. Free ports replace the ports of the transcript.
"""

import re
import signal
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.functional.programs import BIN, ROOT, environment, shell
from tests.functional.renew_golden import COMMAND
from tests.functional.screens import Aliases

TRANSCRIPT = ROOT / "doc" / "source" / "tutorial" / "first-node.txt"
PART = re.compile(r"^# .+\n", re.MULTILINE)
PORT = re.compile(r"\b810([1-4])\b")
PRINTED = re.compile(r"(?<=127\.0\.0\.1:)\d+")
AGE = re.compile(r"(?<=; last read )\d+s ago")
PORTS = 4


class Terminals:
    """A folder with the example site, the environment of the reader, and running servers."""

    def __init__(self, folder: str, base: int) -> None:
        self._folder = Path(folder)
        self._base = base
        self._aliases = Aliases()
        self._more = {"COLUMNS": "80", "XDG_CACHE_HOME": folder}
        self._served: dict[str, tuple[subprocess.Popen[str], str]] = {}
        (self._folder / "examples").symlink_to(ROOT / "examples")

    def out(self, command: str, ended: bool) -> str:
        """Run one command; return the output on its terminal."""
        words = PORT.sub(lambda found: str(self._base + int(found[1])), command)
        if words.startswith("valence-sched podm serve"):
            return self._ports(self._end(words) if ended else self._serve(words))
        if words.startswith("export "):
            name, _, value = words.removeprefix("export ").partition("=")
            self._more[name] = value.replace("$PWD", str(self._folder))
            return ""
        out = shell(self._aliases.meant(words), self._folder, **self._more).out
        return self._aliases.written(AGE.sub("9s ago", self._ports(out)))

    def close(self) -> None:
        """End running servers."""
        for process, _ in self._served.values():
            process.kill()
            process.communicate()

    def _ports(self, out: str) -> str:
        return PRINTED.sub(lambda found: str(8100 + int(found[0]) - self._base), out)

    def _serve(self, words: str) -> str:
        process = subprocess.Popen(
            [str(BIN / words.split()[0]), *words.split()[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self._folder,
            env=environment(**self._more),
        )  # fmt: skip
        lines = "".join(process.stdout.readline() for _ in range(words.count("--podm ")))
        self._served[words] = process, lines
        return lines

    def _end(self, words: str) -> str:
        process, lines = self._served.pop(words)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        failed = f"exit code {process.returncode}\n" if process.returncode else ""
        return f"{lines}^C{rest}\n{failed}"


def replayed(transcript: str) -> str:
    """Return the transcript with the present output of its commands."""
    told = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tutorial-"))
        terminals = Terminals(folder, _free() - 1)
        stack.callback(terminals.close)
        for head, part in zip(PART.findall(transcript), PART.split(transcript)[1:], strict=True):
            commands = COMMAND.findall(part)
            ended = "\n^C" in part
            screens = (f"{one}\n{terminals.out(one[2:], ended)}" for one in commands)
            told.append(head + "\n".join(screens))
    return "\n".join(told)


def _free() -> int:
    """Return the first of this number of successive free ports, of four digits."""
    for base in range(7204, 9900, PORTS):
        with ExitStack() as stack:
            try:
                for at in range(PORTS):
                    one = stack.enter_context(socket.socket())
                    one.bind(("127.0.0.1", base + at))
            except OSError:
                continue
            return base
    raise OSError("no free ports")


def main() -> None:
    """Write the transcript."""
    TRANSCRIPT.write_text(replayed(TRANSCRIPT.read_text()))


if __name__ == "__main__":
    main()
