# SPDX-License-Identifier: Apache-2.0
"""Writes generated inventories of any size as JSON Lines: a header, then one pod manager a line.

``python -m valence_sched.testing.generate --podms 1000 --blocks 100 --seed 1 --output site.jsonl``
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO

from valence_sched.testing.random_podms import header, podms

BUFFER_BYTES = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """Write an inventory as the command line asks; return the exit code."""
    arguments = _parser().parse_args(argv)
    lines: Iterable[bytes] = chain(
        [header()],
        podms(arguments.podms, arguments.blocks, arguments.seed, arguments.pools, arguments.stocks),
    )
    lines = _with_progress(lines, arguments.podms, sys.stderr)
    try:
        if arguments.output == "-":
            _print(lines, sys.stdout.buffer)
        else:
            _save(lines, Path(arguments.output))
    except OSError as error:
        sys.stderr.write(f"{arguments.output}: {error.strerror or error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m valence_sched.testing.generate",
        description="Write a believable inventory as JSON Lines, the same bytes for the same seed.",
    )
    least_0, least_1 = _at_least(0), _at_least(1)
    parser.add_argument("--podms", type=least_0, required=True, help="how many pod managers")
    parser.add_argument("--blocks", type=least_0, required=True, help="blocks of each of them")
    parser.add_argument("--seed", type=int, default=0, help="a whole number (default: 0)")
    parser.add_argument(
        "--pools", type=least_1, default=2, help="pools of each that has blocks (default: 2)"
    )
    parser.add_argument("--stocks", type=least_0, default=0, help="stocks of each (default: 0)")
    parser.add_argument("--output", default="-", metavar="FILE", help="default: -, standard output")
    return parser


def _at_least(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is less than {minimum}")
        return value

    return number


def _with_progress(lines: Iterable[bytes], podms: int, stream: TextIO) -> Iterator[bytes]:
    """Yield the lines; on a terminal show the progress once that takes over a second."""
    if not stream.isatty():
        yield from lines
        return
    last_shown = 0.0
    due = time.monotonic() + 1
    for number, line in enumerate(lines):
        if time.monotonic() >= due:
            last_shown = due = time.monotonic()
            due += 0.2
            stream.write(f"\r{number} of {podms} pod managers")
            stream.flush()
        yield line
    if last_shown:
        stream.write("\r\033[K")
        stream.flush()


def _write(lines: Iterable[bytes], file: BinaryIO) -> None:
    for line in lines:
        file.write(line)
        file.write(b"\n")
    file.flush()


def _print(lines: Iterable[bytes], file: BinaryIO) -> None:
    """Write to a pipe or terminal; a reader that stops reading is no error."""
    try:
        _write(lines, file)
    except BrokenPipeError:
        with Path(os.devnull).open(
            "wb"
        ) as nowhere:  # else the interpreter reports the error again when it exits
            os.dup2(nowhere.fileno(), file.fileno())


def _save(lines: Iterable[bytes], path: Path) -> None:
    """Write a temporary file and rename it; devices and pipes are written directly."""
    path = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as file:
            _print(lines, file)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("xb", buffering=BUFFER_BYTES) as file:
            _write(lines, file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    sys.exit(main())
