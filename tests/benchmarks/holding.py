# SPDX-License-Identifier: Apache-2.0
"""The added time of ``--claim``: on one live pod manager, and on 500 pod managers just read."""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.benchmarks.deciding import PROBE_MS
from tests.benchmarks.measure import Measurement, median_ms, numpy_pass, sized
from tests.benchmarks.starting import once_ms
from valence_sched.app import App
from valence_sched.core.decider import Decider
from valence_sched.lifecycle.claim import Claimer
from valence_sched.lifecycle.follower import FixedMembers, Follower
from valence_sched.model.inventory import FullPodm
from valence_sched.model.request import Request
from valence_sched.store.store import Store
from valence_sched.testing.generate import header, podms
from valence_sched.testing.served import served

PROGRAM = str(Path(sys.executable).with_name("valence-sched"))
PODMS, BLOCKS = sized(500, 10), sized(100, 10)
TURNS = sized(7, 1)
JOB = [PROGRAM, "podm", "schedule", "--flavor", "small"]


def holding() -> Iterator[Measurement]:
    """One pod manager: 200 ms more than a decision. 500 pod managers: 1.2 s.

    For one pod manager: CPU time of the whole program, relative to alternating passes of the probe.
    For 500: the time to store, decide and hold after the reading, in a state that knows no pod
    manager, and in a state that knows all of them unchanged.
    """
    for how, turns in _more_for_one().items():
        yield _in_passes(f"one pod manager, {how}, more than deciding", turns, 200.0)
    first, again = _many()
    yield _in_passes("500 pod managers, the first time", first, 1200.0)
    yield _in_passes("500 pod managers, again", again, 1200.0)


class Turn(NamedTuple):
    """The CPU times of one turn and of the probe beside it, in ms."""

    took_ms: float
    probe_ms: float


def _in_passes(name: str, turns: Sequence[Turn], wanted_ms: float) -> Measurement:
    """Return the median of turns in passes of the probe, and the target in passes."""
    took, probe = map(statistics.median, zip(*turns, strict=True))
    passes = statistics.median(one.took_ms / one.probe_ms for one in turns)
    return Measurement(name=f"claim: {name}", value=took, unit="ms", probe=probe, ratio=passes,
                       target=wanted_ms / PROBE_MS)  # fmt: skip


def _more_for_one() -> dict[str, list[Turn]]:
    """Return the added time of a program that claims; each claim is released afterwards.

    For a registered pod manager, both programs read the state. For a pod manager in a file, only
    the program that claims uses a state, so the difference includes the whole cost of the state.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        file, named = Path(folder, "site.jsonl"), Path(folder, "podms.yaml")
        file.write_bytes(b"\n".join([header(), *podms(1, 100, 1)]))
        with served(str(file)) as by_id:
            (one,) = by_id.values()
            state = ("--state", f"sqlite:///{folder}/state.db")
            subprocess.run([PROGRAM, "podm", "create", "one", str(one.url), *state],
                           capture_output=True, check=True)  # fmt: skip
            found["registered"] = _more([*JOB, *state], state, {})
            named.write_text(f"podms:\n  other:\n    url: {one.url}\n")
            state = ("--state", f"sqlite:///{folder}/other.db")
            environ = {"VALENCE_SCHED_STATE": state[1]}
            found["in a file"] = _more([*JOB, "--podm-file", str(named)], state, environ)
    return found


def _more(job: list[str], state: tuple[str, str], environ: dict[str, str]) -> list[Turn]:
    probe = numpy_pass()
    with unittest.mock.patch.dict(os.environ, environ):
        for _ in range(sized(1, 0)):  # the first claim makes the state
            subprocess.run([*job, "--claim"], capture_output=True, check=True)
            _release(state)
        turns = []
        for _ in range(TURNS):
            deciding, probe_ms = once_ms(job), _probe_ms(probe)
            turns.append(Turn(once_ms([*job, "--claim"]) - deciding, probe_ms))
            _release(state)
    return turns


def _probe_ms(probe: Callable[[], int]) -> float:
    return median_ms(probe, 100, clock=time.process_time)


def _release(state: tuple[str, str]) -> None:
    words = [PROGRAM, "podm", "claim", "list", *state, "-f", "value", "-c", "ID"]
    ids = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert len(ids) == 1, f"{len(ids)} claims where one was made"
    subprocess.run([PROGRAM, "podm", "claim", "release", *ids, *state],
                   capture_output=True, check=True)  # fmt: skip


def _many() -> tuple[list[Turn], list[Turn]]:
    probe = numpy_pass()
    config = App(environ={}).config
    flavor = config.flavors()["small"]
    request = Request(needs=flavor.needs, flavor=flavor.name)
    read = [msgspec.json.decode(text, type=FullPodm) for text in podms(PODMS, BLOCKS, 1)]
    first, again = list[Turn](), list[Turn]()
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/s.db") as store:
            for times in (first, again):
                began = time.process_time()
                known = store.remember_all(read)
                make = functools.partial(Decider, policies=[*config.policies().values()],
                                         mix=config.mix)  # fmt: skip
                follower = Follower(store, make, FixedMembers(known), known=known)
                claimer = Claimer(store, follower)
                assert claimer.claim(request).claim is not None, "nothing was claimed"
                times.append(Turn((time.process_time() - began) * 1000, _probe_ms(probe)))
    return first, again
