# SPDX-License-Identifier: Apache-2.0
"""The time of failures and moves on 200 pod managers with 2,000 nodes, of the whole program."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.occupied import write_occupied_site

PODMS, BLOCKS, NODES = sized(200, 6), sized(100, 20), sized(2_400, 12)
WHATIF = ("scheduler", "whatif")
#: Relative to the time of reading and listing the inventory.
WANTED = {
    "fail one, survive any": (
        12.0, (*WHATIF, "fail", "podm-00002"), (*WHATIF, "fail", "--survive", "1")
    ),
    "room for a node": (10.0, (*WHATIF, "rebalance", "--flavor", "gpu-large")),
    "fragmentation": (10.0, (*WHATIF, "rebalance", "--fragmentation-below", "50%")),
}  # fmt: skip


def disrupting() -> Iterator[Measurement]:
    """Each answer takes at most this multiple of the CPU time of listing the pod managers."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site.jsonl")
        write_occupied_site(site, PODMS, BLOCKS, NODES)
        probe = _cpu_ms(site, ("podm", "list"))
        for name, (target, *commands) in WANTED.items():
            took = sum(_cpu_ms(site, command) for command in commands)
            yield against(f"disrupting: {name}", took, probe, target)


def _cpu_ms(site: Path, command: tuple[str, ...]) -> float:
    """Return the CPU time of a whole command on an inventory, in milliseconds."""
    program = "import sys; from valence_sched_cli.shell import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program, *command, "--inventory", str(site)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 4, 5):
        raise RuntimeError(done.stderr.decode())
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
