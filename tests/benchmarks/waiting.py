# SPDX-License-Identifier: Apache-2.0
"""What a user waits for besides the decision, by program and start to end, in CPU time."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, median_ms, numpy_pass, sized
from tests.benchmarks.starting import once_ms

BLOCKS = sized(100, 10)
#: How long the probe took where the targets were set, in milliseconds.
PROBE_MS = 0.07
PROGRAM = str(Path(sys.executable).with_name("valence-sched"))


def waiting() -> Iterator[Measurement]:
    """Counting nodes of every flavor, N = 1,000, in 1 s."""
    with tempfile.TemporaryDirectory() as folder:
        site = _site(folder, sized(1_000, 6))
        yield _by_program("podm fit", ("podm", "fit", "--inventory", site), 1000.0)


def _site(folder: str, podms: int) -> str:
    """Return the path of a new inventory of so many podms."""
    path = str(Path(folder, f"{podms}.jsonl"))
    subprocess.run([sys.executable, "-m", "valence_sched.testing.generate", "--podms", str(podms),
                    "--blocks", str(BLOCKS), "--seed", "1", "--output", path],
                   capture_output=True, check=True)  # fmt: skip
    return path


def _by_program(name: str, words: tuple[str, ...], wanted_ms: float) -> Measurement:
    """Return the CPU time of the program to passes of numpy in this run, and what is wanted."""
    probe = numpy_pass()
    before = median_ms(probe, 200)
    once_ms([PROGRAM, *words])
    took = statistics.median(once_ms([PROGRAM, *words]) for _ in range(sized(3, 1)))
    passes = statistics.mean((before, median_ms(probe, 200)))
    return against(f"waiting: {name}", took, passes, wanted_ms / PROBE_MS)
