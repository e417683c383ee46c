# SPDX-License-Identifier: Apache-2.0
"""Replays 100,000 requests on 1,000 pod managers of 40 blocks, with the whole program.

About 3,000 nodes exist at a time: one arrives per second and lives for 50 minutes.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, peak_mib, program_in_slices, sized

PODMS, BLOCKS, REQUESTS = sized(1_000, 6), sized(40, 10), sized(100_000, 50)
MIX = "small=3,medium=2,gpu-large=1"
#: The milliseconds of a decision at the target rates: 5,000 per second, 1,500 by fragmentation.
WANTED_MS = {"default": 1 / 5.0, "fragmentation": 1 / 1.5}
#: The milliseconds of the probe when these rates were set.
PROBE_MS = 0.07
MOST_MIB = 1024.0


def replaying() -> Iterator[Measurement]:
    """At least 5,000 decisions per second by the default policy, 1,500 by fragmentation, in 1 GiB.

    CPU times of the whole program, relative to alternating numpy passes.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = str(Path(folder, "site.jsonl"))
        _python("-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                "--blocks", str(BLOCKS), "--seed", "1", "--output", site)  # fmt: skip
        for policy, wanted in WANTED_MS.items():
            took, probe, passes, memory = program_in_slices(_replay(site, policy))
            yield Measurement(
                name=f"replaying: a decision, {policy}", value=took / REQUESTS, unit="ms",
                probe=probe, ratio=passes / REQUESTS, target=wanted / PROBE_MS,
            )  # fmt: skip
            name = f"replaying: peak memory, {policy}"
            yield against(name, float(memory), MOST_MIB, 1.0, "MiB")


def _replay(site: str, policy: str) -> tuple[str, ...]:
    """Return the words that run a replay and print its peak MiB."""
    return (
        sys.executable, "-m", "tests.benchmarks.replaying",
        "scheduler", "whatif", "run", "--inventory", site, "--rate", "1/s", "--mix", MIX,
        "--lifetime", "50m", "--horizon", f"{REQUESTS}s", "--seed", "1", "--policy", policy,
    )  # fmt: skip


def _python(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout


def main(words: list[str]) -> int:
    """Run the program with these words, and print its peak MiB instead of its output."""
    from valence_sched_cli import main as program

    with contextlib.redirect_stdout(io.StringIO()):
        code = program.main(words)
    sys.stdout.write(f"{peak_mib()}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
