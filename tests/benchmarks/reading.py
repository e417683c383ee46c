# SPDX-License-Identifier: Apache-2.0
"""The time and the memory to read 10,000 podms of 100 blocks into a View."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.measure import Measurement, against, median_ms, peak_mib, sized
from valence_sched.app import App
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import Selection

PODMS, BLOCKS, SEED = sized(10_000, 40), sized(100, 10), 1


def reading() -> Iterator[Measurement]:
    """At most 3.5 times the typed decoding of the same lines, and at most 0.5 GiB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "inventory.jsonl")
        _python("-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                "--blocks", str(BLOCKS), "--seed", str(SEED), "--output", str(path))  # fmt: skip
        figures = [_figures(path) for _ in range(sized(3, 1))]
    columns = map(sorted, zip(*figures, strict=True))
    read, decode, memory = (column[len(column) // 2] for column in columns)
    yield against("reading: inventory into a View", read, decode, 3.5)
    yield against("reading: peak memory", memory, 0.5 * 1024, 1.0, "MiB")


def _figures(path: Path) -> tuple[float, float, float]:
    """Return the ms to read, the ms to decode, and the peak MiB of a process that only reads."""
    decode = float(_python("-m", "tests.benchmarks.reading", "decode", str(path)))
    read, memory = _python("-m", "tests.benchmarks.reading", "read", str(path)).split()
    return float(read), decode, float(memory)


def _python(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout


def _decode(path: str) -> None:
    decoder = msgspec.json.Decoder(FullPodm)
    with open(path, "rb") as stream:
        next(stream)
        for line in stream:
            decoder.decode(line)


if __name__ == "__main__":
    what, name = sys.argv[1:]
    if what == "decode":
        sys.stdout.write(f"{median_ms(lambda: _decode(name), 1)}\n")
    else:
        took = median_ms(lambda: App(environ={}).loader.view(Selection(sources=(name,))), 1)
        sys.stdout.write(f"{took} {peak_mib()}\n")
