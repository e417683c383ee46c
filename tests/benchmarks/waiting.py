# SPDX-License-Identifier: Apache-2.0
"""The CPU time of other answers than decisions, of the whole program."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.deciding import BLOCKS, PODMS, PROBE_MS, view
from tests.benchmarks.measure import Measurement, in_turns, program_in_slices, sized
from valence_sched.app import App
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.request import Request
from valence_sched.testing.generate import podms

PROGRAM = str(Path(sys.executable).with_name("valence-sched"))


def waiting() -> Iterator[Measurement]:
    """Counts of nodes of every flavor on 1,000 pod managers take at most 1 s of CPU.

    An explained decision on 1,000 pod managers takes at most 0.9 s. On 10,000 pod managers, a
    report of the previous decision takes at most 0.5 s, and replacing a pod manager with 8 stocks 2
    ms.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = _site(folder, sized(1_000, 6))
        yield _by_program("podm fit", ("podm", "fit", "--inventory", site), 1000.0)
        words = ("podm", "schedule", "--flavor", "small", "--explain", "--inventory", site)
        yield _by_program("--explain", words, 900.0)
    yield _report()
    yield _replace_with_stocks()


def _report() -> Measurement:
    config = App(environ={}).config
    flavor = config.flavors()["small"]
    request = Request(needs=flavor.needs, flavor=flavor.name)
    site = view(BLOCKS, 0, PODMS)

    def decide() -> Decision:
        # with its own decider and View, so that no answer of the earlier report is cached
        decider = Decider(site.without_memo(), config.policies().values(), mix=config.mix)
        return decider.select_destinations(request)

    decisions = iter([decide() for _ in range(sized(3, 1))])
    return in_turns("waiting: report of a decision", lambda: decision_report(next(decisions)), 3,
                    500.0 / PROBE_MS)  # fmt: skip


def _replace_with_stocks() -> Measurement:
    config = App(environ={}).config
    decider = Decider(view(10, 8, PODMS), config.policies().values(), mix=config.mix)
    changed = [msgspec.json.decode(line, type=LeanPodm) for line in podms(10, 10, 1, stocks=8)]
    left = itertools.cycle(changed)
    return in_turns("waiting: replacing a pod manager with stocks",
                    lambda: decider.replace(next(left)), 10, 2.0 / PROBE_MS, calls=5)  # fmt: skip


def _site(folder: str, podms: int) -> str:
    """Return the path of a new inventory of this number of podms."""
    path = str(Path(folder, f"{podms}.jsonl"))
    subprocess.run([sys.executable, "-m", "valence_sched.testing.generate", "--podms", str(podms),
                    "--blocks", str(BLOCKS), "--seed", "1", "--output", path],
                   capture_output=True, check=True)  # fmt: skip
    return path


def _by_program(name: str, words: tuple[str, ...], wanted_ms: float) -> Measurement:
    """Return the CPU time of the program, relative to alternating numpy passes, and its target."""
    program_in_slices([PROGRAM, *words])
    found = [program_in_slices([PROGRAM, *words]) for _ in range(sized(3, 1))]
    took, probe, passes, _ = sorted(found, key=lambda one: one[2])[len(found) // 2]
    return Measurement(name=f"waiting: {name}", value=took, unit="ms", probe=probe, ratio=passes,
                       target=wanted_ms / PROBE_MS)  # fmt: skip
