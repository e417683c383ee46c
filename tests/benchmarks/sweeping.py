# SPDX-License-Identifier: Apache-2.0
"""Sweeps ten replays of 10,000 requests on 100 pod managers, with one process and with two."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, sized

PODMS, BLOCKS, REQUESTS, SEEDS = sized(100, 4), sized(40, 10), sized(10_000, 20), sized(10, 2)
MIX = "small=3,medium=2,gpu-large=1"
WANTED = 1.7  # times as fast with two processes, for the whole program


def sweeping() -> Iterator[Measurement]:
    """Two processes are at least 1.7 times as fast as one, whose time is the probe."""
    with tempfile.TemporaryDirectory() as folder:
        site = str(Path(folder, "site.jsonl"))
        _python("-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                "--blocks", str(BLOCKS), "--seed", "1", "--output", site)  # fmt: skip
        one, two = (_sweep_ms(site, jobs) for jobs in (1, 2))
        yield against("sweeping: two processes to one", two, one, 1 / WANTED)


def _sweep_ms(site: str, jobs: int) -> float:
    """Return the time of a whole sweep in milliseconds."""
    program = "import sys; from valence_sched_cli.shell import main; sys.exit(main(sys.argv[1:]))"
    started = time.perf_counter()
    _python("-c", program, "scheduler", "whatif", "sweep", "--inventory", site, "--rate", "1/s",
            "--mix", MIX, "--lifetime", "5m", "--horizon", f"{REQUESTS}s",
            "--seeds", f"1..{SEEDS}", "--jobs", str(jobs))  # fmt: skip
    return (time.perf_counter() - started) * 1000


def _python(*words: str) -> None:
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
