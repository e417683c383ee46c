# SPDX-License-Identifier: Apache-2.0
"""Runs commands in one interactive session of a program, without a terminal.

Start it as ``python -m tests.functional.session PROGRAM [OPTION …]``. Each line of standard input
has the words of a command in JSON; each line of output has the exit code, output and errors of one
command.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.functional.programs import ROOT, Done, environment


def run_session(
    program: str, commands: Sequence[Sequence[str]], *options: str, **more: str
) -> list[Done]:
    """Return the result of each command of one session; ``options`` are the program's own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.functional.session", program, *options],
        input="".join(json.dumps(words) + "\n" for words in commands),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(**more),
        timeout=300,
        check=True,
    )
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


class _Streams:
    """Streams of the session, read after each command."""

    def __init__(self) -> None:
        self.out, self.err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))

    def taken(self) -> list[str]:
        """Return the output since the last call."""
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.seek(0)
            stream.truncate()
        return texts


def main(program: str, *options: str) -> None:
    commands, stdout = list(sys.stdin), sys.stdout
    streams = _Streams()
    sys.stdout, sys.stderr = streams.out, streams.err
    if program == "openstack":
        from openstackclient.shell import OpenStackShell as Shell
    else:
        from valence_sched_cli.shell import Shell
    app = Shell()
    app.NAME = program
    app.stdin = _Terminal()

    class Interpreter:
        def __init__(self, *_words: Any) -> None:
            pass

        def cmdloop(self) -> None:
            for line in commands:
                try:
                    code = app.run_subcommand(json.loads(line))
                except Exception as error:  # as in cmd2: the next command is run anyway
                    code = 2 if type(error).__name__ == "Cmd2ArgparseError" else repr(error)
                print(json.dumps([code, *streams.taken()]), file=stdout)

    app.interactive_app_factory = Interpreter
    try:
        app.run(list(options))
    finally:
        stdout.write(streams.taken()[1])


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


if __name__ == "__main__":
    main(*sys.argv[1:])
