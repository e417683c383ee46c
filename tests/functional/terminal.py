# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal for a program: its output, and the lines that stay visible."""

import contextlib
import fcntl
import os
import re
import struct
import termios
import threading

from tests.functional import programs

#: Sequences that move the cursor or erase; colours are not among them.
CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-ln-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A pseudo-terminal; ``path`` names the end that a program writes to."""

    def __init__(self, columns: int = 80) -> None:
        self._master, self._slave = os.openpty()
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)
        self.path = os.ttyname(self._slave)
        self._chunks: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while chunk := os.read(self._master, 4096):
                self._chunks.append(chunk)

    def close(self) -> str:
        """Return all output."""
        os.close(self._slave)
        self._reader.join()
        os.close(self._master)
        return b"".join(self._chunks).decode()


def watched(*words: str, columns: int = 80, **more: str) -> tuple[int, str, str]:
    """Run ``valence-sched`` with its standard error on a terminal.

    Returns the exit code, the standard output, and all output to the terminal.
    """
    terminal = Terminal(columns)
    try:
        more = {"TERM": "xterm-256color", "COLUMNS": str(columns)} | more
        done = programs.run_to("valence-sched", None, terminal.path, *words, **more)
    finally:
        text = terminal.close()
    return done.code, done.out, text


def frames(text: str) -> list[str]:
    """Return each text of the progress line once, without its spinner, seconds and colours."""
    plain = COLOUR.sub("", text)
    found = re.findall(r"\S \d+[smh]: ([^\r\n\x1b]+)", plain)
    return list(dict.fromkeys(found))


def lasting(text: str) -> list[str]:
    """Return the lines that stay after all erasures."""
    lines = [""]
    for part in re.split(r"(\r?\n|\r|\x1b\[2K|\x1b\[1A)", COLOUR.sub("", text)):
        if part in ("\r\n", "\n"):
            lines.append("")
        elif part == "\x1b[1A":
            lines.pop()
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif part != "\r":
            lines[-1] += CONTROL.sub("", part)
    return [line for line in lines if line]
