# SPDX-License-Identifier: Apache-2.0
"""Journal of a sweep: JSON Lines of the runs that are finished, so that it can be continued."""

from __future__ import annotations

import fcntl
import os
import stat
from types import TracebackType
from typing import BinaryIO, Self

from valence_sched.errors import InputError, SchedulerError
from valence_sched.model.codec import decode
from valence_sched.model.sweep import SweepRun, to_line


class SweepJournal:
    """A file of finished runs, open for more; it is made where it is not there.

    A last line that was cut off is of a run that was not finished: it is removed when the next run
    is added. No two sweeps have the same journal at a time.

    Raises:
        InputError: it cannot be read or written, or another sweep has it.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            self._stream: BinaryIO = open(file, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._unwritable(error) from None
        if not stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):  # it may have no end
            self._stream.close()
            raise InputError(file, "", "no regular file", "a file of JSON Lines to add runs to")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._stream.close()
            raise InputError(file, "", "another sweep that writes to it", "a file of its own",
                             "wait for it to end, or name another file") from None  # fmt: skip
        self._whole = 0  # bytes up to the end of the last whole line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def finished(self, question: str) -> list[SweepRun]:
        """Return the runs in the file, each once.

        Raises:
            InputError: a line is no run, or it is one of another question.
        """
        try:
            self._stream.seek(0)
            *lines, cut = self._stream.read().split(b"\n")
            self._whole = self._stream.tell() - len(cut)
        except OSError as error:
            raise self._unwritable(error) from None
        runs = {}
        for number, line in enumerate(lines, 1):
            place = f"{self._file}: line {number}"
            run = decode(line, SweepRun, place)
            if run.question != question:
                raise InputError(
                    place, "", f"a run of sweep {run.question[:12]}", f"of {question[:12]}",
                    "its inventory, scenarios, policies, flavors or workload were others: name "
                    "another file",
                )  # fmt: skip
            runs[run.key] = run
        return list(runs.values())

    def add(self, run: SweepRun) -> None:
        """Add a finished run; SchedulerError if it cannot be written."""
        line = to_line(run)
        try:
            if os.fstat(self._stream.fileno()).st_size != self._whole:
                self._stream.truncate(self._whole)
            self._whole += len(line)
            if self._stream.write(line) != len(line):
                raise SchedulerError(f"{self._file}: a run was written in part: is the disk full?")
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        reason = (error.strerror or str(error)).lower()
        return InputError(self._file, "", reason, "a file of JSON Lines to add runs to")
