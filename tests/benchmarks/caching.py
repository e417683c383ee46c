# SPDX-License-Identifier: Apache-2.0
"""The time of a decision on a large inventory file, without and with its cached view."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.starting import once_ms
from valence_sched.inventory.view_cache import SETTLED_NS

PODMS, BLOCKS, SEED = sized(10_000, 500), 100, 1  # a smaller file would not be cached


def caching() -> Iterator[Measurement]:
    """Deciding on a cached view takes at most a quarter of the time of deciding on the file.

    CPU time of the whole program, in turns with a program that does not use the cache. The first
    decision, which also writes the cache, takes at most a third longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, home = Path(folder, "inventory.jsonl"), Path(folder, "cache")
        words = ("--podms", str(PODMS), "--blocks", str(BLOCKS), "--seed", str(SEED))
        generate = (sys.executable, "-m", "valence_sched.testing.generate", *words)
        subprocess.run([*generate, "--output", str(path)], check=True)
        time.sleep(SETTLED_NS / 1e9)  # a file that may still change is not cached
        program = str(Path(sys.executable).with_name("valence-sched"))
        job = [program, "podm", "schedule", "--inventory", str(path), "--flavor", "gpu-large"]
        with _cache_home(home):
            read, first, second = [], [], []
            for _ in range(sized(7, 1)):
                read.append(once_ms([*job, "--no-cache"]))
                for view in home.rglob("*.view"):
                    view.unlink()
                first.append(once_ms(job))
                assert list(home.rglob("*.view")), "nothing was cached"
                second.append(once_ms(job))
    read_ms, first_ms, second_ms = map(statistics.median, (read, first, second))
    yield against("caching: large file, the first time", first_ms, read_ms, 4 / 3)
    yield against("caching: large file, from the second time on", second_ms, read_ms, 0.25)


@contextlib.contextmanager
def _cache_home(home: Path) -> Iterator[None]:
    """Set the folder of the caches of programs."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["XDG_CACHE_HOME"]
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before
