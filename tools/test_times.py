# SPDX-License-Identifier: Apache-2.0
"""Times of the longest tests, by which CI divides the tests among its workers.

``stestr last --subunit | python tools/test_times.py save`` prints them after a run of all tests, as
lines of seconds and name, for ``.ci/test-times``. ``python tools/test_times.py load`` converts the
file to a stream for ``stestr load``, for a clone without earlier runs. Names of removed tests have
no effect; tests that are not in the file are divided by number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import subunit
import testtools

TIMES = Path(__file__).parents[1] / ".ci" / "test-times"
SHORTEST_S = 0.5
START = datetime(2000, 1, 1, tzinfo=UTC)


class Times(testtools.StreamResult):
    """The seconds of each test of a run, with its set-up.

    That is the time from the end of the test before it, in the same worker, to its own end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self._begun: dict[str, datetime] = {}
        self._ended: dict[str, datetime] = {}

    def status(
        self, test_id: str | None = None, test_status: str | None = None,
        test_tags: set[str] | None = None, timestamp: datetime | None = None, **_words: Any,
    ) -> None:  # fmt: skip
        """Take one event of the run."""
        if test_id is None or test_status is None or timestamp is None:
            return
        if test_status == "inprogress":
            self._begun[test_id] = timestamp
        elif test_id in self._begun:
            worker = next((tag for tag in test_tags or () if tag.startswith("worker-")), "")
            begun = self._ended.get(worker, self._begun[test_id])
            self.seconds[test_id] = (timestamp - begun).total_seconds()
            self._ended[worker] = timestamp


def seconds_of(stream: BinaryIO) -> Mapping[str, float]:
    """Return the seconds of each test of a subunit stream."""
    times = Times()
    times.startTestRun()
    subunit.ByteStreamToStreamResult(stream).run(times)
    times.stopTestRun()
    return times.seconds


def lines(seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the tests that take longest, by name."""
    for name, each in sorted(seconds.items()):
        if each >= SHORTEST_S:
            yield f"{each:.1f} {name}\n"


def write_stream(text: str, out: BinaryIO) -> None:
    """Write these lines as a subunit stream in which every test is skipped."""
    stream = subunit.StreamResultToBytes(out)
    stream.startTestRun()
    now = START
    for line in text.splitlines():
        seconds, _, name = line.partition(" ")
        stream.status(test_id=name, test_status="inprogress", timestamp=now)
        now += timedelta(seconds=float(seconds))
        stream.status(test_id=name, test_status="skip", timestamp=now)
    stream.stopTestRun()


def main(words: list[str], source: BinaryIO, out: TextIO) -> int:
    """Run ``load`` or ``save``; return the exit code."""
    if words == ["save"]:
        out.writelines(lines(seconds_of(source)))
    elif words == ["load"]:
        write_stream(TIMES.read_text(), out.buffer)  # type: ignore[attr-defined]
    else:
        sys.stderr.write("usage: test_times.py load|save\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout))
