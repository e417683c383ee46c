# SPDX-License-Identifier: Apache-2.0
"""What ``--claim`` adds to a decision: on one live pod manager, and on 500 that were just read."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.starting import BARE, in_turns_ms, once_ms
from valence_sched.app import App
from valence_sched.lifecycle.claim import Claimer
from valence_sched.model.inventory import FullPodm
from valence_sched.model.request import Request
from valence_sched.store.store import Store
from valence_sched.testing.random_podms import header, podms
from valence_sched.testing.served import served

PROGRAM = str(Path(sys.executable).with_name("valence-sched"))
PODMS, BLOCKS = sized(500, 10), sized(100, 10)
TURNS = sized(7, 1)
JOB = [PROGRAM, "podm", "schedule", "--flavor", "small"]


def holding() -> Iterator[Measurement]:
    """One pod manager: 200 ms more where a bare application takes 100. 500 of them: 1.2 s.

    The time of the processor, of the whole program for one pod manager. For 500 it is what is
    stored, decided and held once they are read: by a state that knows none of them, and by one
    that knows them all as they are.
    """
    (bare,) = in_turns_ms([sys.executable, "-c", BARE, "--version"])
    for how, more in _more_for_one().items():
        yield against(f"claim: one pod manager, {how}, more than deciding", more, bare, 2.0)
    first, again = _many()
    yield against("claim: 500 pod managers, the first time", first, bare, 12.0)
    yield against("claim: 500 pod managers, again", again, bare, 12.0)


def _more_for_one() -> dict[str, float]:
    """Return how much longer the program takes that claims, each claim released after it.

    Of a registered pod manager the state is read to decide, too. One that a file names is decided
    on without a state: all that a state costs is then the claim's.
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


def _more(job: list[str], state: tuple[str, str], environ: dict[str, str]) -> float:
    with unittest.mock.patch.dict(os.environ, environ):
        subprocess.run([*job, "--claim"], capture_output=True, check=True)
        _release(state)
        more = []
        for _ in range(TURNS):
            deciding, claiming = once_ms(job), once_ms([*job, "--claim"])
            more.append(claiming - deciding)
            _release(state)
    return statistics.median(more)


def _release(state: tuple[str, str]) -> None:
    words = [PROGRAM, "podm", "claim", "list", *state, "-f", "value", "-c", "ID"]
    ids = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert len(ids) == 1, f"{len(ids)} claims where one was made"
    subprocess.run([PROGRAM, "podm", "claim", "release", *ids, *state],
                   capture_output=True, check=True)  # fmt: skip


def _many() -> tuple[float, float]:
    config = App(environ={}).config
    flavor = config.flavors()["small"]
    request = Request(needs=flavor.needs, flavor=flavor.name)
    read = [msgspec.json.decode(text, type=FullPodm) for text in podms(PODMS, BLOCKS, 1)]
    first, again = [], []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/s.db") as store:
            for times in (first, again):
                began = time.process_time()
                known = store.remember_all(read)
                claimer = Claimer(store, config.policies().values(), mix=config.mix,
                                  among=frozenset(known), known=known)  # fmt: skip
                assert claimer.claim(request).claim is not None, "nothing was claimed"
                times.append((time.process_time() - began) * 1000)
    return statistics.median(first), statistics.median(again)
