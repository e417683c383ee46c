# SPDX-License-Identifier: Apache-2.0
"""Calls: several zones asked at the same time, each for as long as the deadline allows."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import TypeVar

from valence_sched.errors import SchedulerError, ServiceError

T = TypeVar("T")


class NoAnswerInTime(ServiceError):
    """A zone that did not answer in time: what was asked of it may have been done, or may be."""

    def __init__(self) -> None:
        super().__init__("it did not answer in time")


def call_all(
    calls: Mapping[str, Callable[[], T]], deadline_s: float
) -> dict[str, T | SchedulerError]:
    """Call each at once; return by name what it returned, or the error about it.

    One that takes longer than ``deadline_s`` goes on, on a thread that does not keep the process
    from its end. A defect is raised.
    """
    futures: dict[str, Future[T]] = {name: Future() for name in calls}
    for name, call in calls.items():
        run = functools.partial(contextvars.copy_context().run, _run, futures[name], call)
        threading.Thread(target=run, daemon=True, name=f"zone {name}").start()
    wait(futures.values(), deadline_s)
    outcomes: dict[str, T | SchedulerError] = {}
    for name, future in futures.items():
        if not future.done():
            outcomes[name] = NoAnswerInTime()
            continue
        error = future.exception()
        if error is None:
            outcomes[name] = future.result()
        elif isinstance(error, SchedulerError):
            outcomes[name] = error
        else:
            raise error
    return outcomes


def _run(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
