# SPDX-License-Identifier: Apache-2.0
"""Processes that claim from one store concurrently, each with its own engine."""

import multiprocessing
import sys
import traceback
from typing import Any

import msgspec

from tests.unit.store.site import CORES, claimer
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import ClaimLost
from valence_sched.store.store import Store
from valence_sched.testing import request


class Result(msgspec.Struct):
    """The results of the requests of one process."""

    won: list[tuple[str, list[str]]]  # claim and its blocks
    reasons: list[str]  # requests that got nothing
    lost: list[str]  # requests that lost every race
    retries: list[int]
    again: int = 0  # repeated transactions


def race(url: str, processes: int, requests: int, properties: Any = CORES) -> list[Result]:
    """Return the results of ``processes`` that start together with ``requests`` each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier, queue = context.Barrier(processes), context.Queue()
    running = [
        context.Process(target=_run, args=(url, number, requests, properties, barrier, queue))
        for number in range(processes)
    ]
    for process in running:
        process.start()
    found = [queue.get(timeout=900) for _ in running]
    for process in running:
        process.join()
    for result in found:
        if isinstance(result, str):
            raise AssertionError(result)
    return found


def _run(url: str, number: int, requests: int, properties: Any, barrier: Any, queue: Any) -> None:
    try:
        with Store(url) as store:
            queue.put(_claims(store, number, requests, properties, barrier))
    except BaseException:
        barrier.abort()
        queue.put(traceback.format_exc())
        sys.exit(1)


def _claims(store: Store, number: int, requests: int, properties: Any, barrier: Any) -> Result:
    own = claimer(store)
    own.decider()
    result = Result([], [], [], [])
    barrier.wait()
    for turn in range(requests):
        try:
            claimed = own.claim(request(properties, seed=turn, owner=f"process {number}"))
        except ClaimLost as error:
            result.lost.append(str(error))
            continue
        result.retries.append(claimed.retries)
        if claimed.claim is not None:
            blocks = [uri for part in claimed.claim.parts for uri in part.blocks]
            result.won.append((claimed.claim.id, blocks))
        else:
            (verdict,) = Verdicts(claimed.decision).podm_verdicts()
            result.reasons.append(verdict.reason.text)
    result.again = store.counts.retries
    return result
