# SPDX-License-Identifier: Apache-2.0
"""Runs the script of a program in a child of a process that has imported what it needs.

Started as ``python -m tests.functional.warm SCRIPT MODULE…``, where ``GROUP*`` means what the entry
points of all groups that begin so load. Each line of its standard input is a command:
arguments, environment, folder, and files for its streams; the answer is its exit code. A child has
arguments, environment and streams of its own, as if its script had been executed.
"""

import atexit
import gc
import importlib
import json
import os
import sys
import traceback
from importlib.metadata import distributions
from pathlib import Path

from cliff.help import HelpCommand
from stevedore import ExtensionManager


def main(script: str, *modules: str) -> None:
    sys.argv = [script]  # some look at it when they are imported
    sys.path[0] = str(Path(script).parent)  # as it is for a script
    for name in modules:
        if name.endswith("*"):
            for group in _groups(name[:-1]):
                ExtensionManager(group)  # which also remembers where entry points are
        else:
            importlib.import_module(name)
    HelpCommand(None, None).get_epilog()  # which reads what is installed, and remembers it
    gc.collect()
    gc.freeze()  # a collection in a child would copy all that was imported
    code = compile(Path(script).read_text(), script, "exec")
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if not child:
            _be(code, script, **command)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _groups(prefix: str) -> set[str]:
    found = {one.group for package in distributions() for one in package.entry_points}
    return {group for group in found if group.startswith(prefix)}


def _be(
    code: object,
    script: str,
    words: list[str],
    environ: dict[str, str],
    folder: str,
    streams: list[str],
) -> None:
    """Be the program, to the end of this process."""
    os.chdir(folder)
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # two streams may have one file
    flags = (os.O_RDONLY, writing, writing)
    for number, (path, flag) in enumerate(zip(streams, flags, strict=True)):
        opened = os.open(path, flag, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r") for n in range(3))
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [script, *words]
    status = 0
    try:
        exec(code, {"__name__": "__main__", "__file__": script})
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
        if isinstance(done.code, str):
            sys.stderr.write(f"{done.code}\n")
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
