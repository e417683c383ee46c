# SPDX-License-Identifier: Apache-2.0
"""Calls in parallel on daemon threads: those of zones end at a deadline."""

import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from valence_sched.errors import NO_THREADS, SchedulerError, ServiceBusy, ServiceError
from valence_sched.model.http import DEADLINE

A = TypeVar("A")
T = TypeVar("T")

DEADLINE_SHARE = 0.8  # share of the remaining time for the zones below


class NoAnswerInTime(ServiceError):
    """A zone did not answer in time: it may still carry out the call."""


def start_calls(
    calls: Sequence[Callable[[], T]], name: str, most: int | None = None
) -> list[Future[T]]:
    """Start calls on daemon threads of a name, at most ``most`` at a time; return their results.

    At the limit of threads, fewer threads make the calls; without any, each result is ServiceBusy.
    """
    futures: list[Future[T]] = [Future() for _ in calls]
    waiting = deque(zip(futures, calls, strict=True))

    def work() -> None:
        while True:
            try:
                future, call = waiting.popleft()  # ``popleft`` is atomic
            except IndexError:
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    is_started = False
    for _ in range(len(calls) if most is None else min(most, len(calls))):
        run = contextvars.copy_context().run
        try:
            threading.Thread(target=run, args=(work,), daemon=True, name=name).start()
        except RuntimeError:
            break
        is_started = True
    if not is_started:
        for future in futures:
            future.set_exception(ServiceBusy(NO_THREADS))
    return futures


def call_all(
    call: Callable[[A], T], arguments: Mapping[str, A], deadline_s: float
) -> dict[str, T | SchedulerError]:
    """Make a call with each argument in parallel; return each result or error by name.

    A call beyond ``deadline_s`` continues on a daemon thread. An exception that is not a
    SchedulerError is raised.
    """
    calls = [functools.partial(call, argument) for argument in arguments.values()]
    started = zip(arguments, start_calls(calls, "zones"), strict=True)
    return outcomes_of(dict(started), deadline_s)


def outcomes_of(
    futures: Mapping[str, Future[T]], deadline_s: float
) -> dict[str, T | SchedulerError]:
    """Return the result or error of each started call by name, as ``call_all`` does."""
    wait(futures.values(), deadline_s)
    outcomes: dict[str, T | SchedulerError] = {}
    for name, future in futures.items():
        if future.done():
            error = future.exception()
        else:
            future.cancel()  # it may still wait for a thread
            error = NoAnswerInTime("it did not answer in time")
        if error is None:
            outcomes[name] = future.result()
        elif isinstance(error, SchedulerError):
            outcomes[name] = error
        else:
            raise error
    return outcomes


def call_below(
    call: Callable[[str], T], zones: Iterable[str], deadline_s: float
) -> dict[str, T | SchedulerError]:
    """Call zones below by name as ``call_all`` does, within 80 % of this zone's remaining time.

    A zone with a hanging child can therefore still answer in time.
    """
    left_s = time_left(deadline_s)
    token = DEADLINE.set(left_s * DEADLINE_SHARE)
    try:
        return call_all(call, {zone: zone for zone in zones}, left_s)
    finally:
        DEADLINE.reset(token)


def errors_of(answers: Mapping[str, object]) -> dict[str, SchedulerError]:
    return {zone: one for zone, one in answers.items() if isinstance(one, SchedulerError)}


def time_left(deadline_s: float) -> float:
    """Return the seconds left for this zone: ``deadline_s``, or less if the caller allows less."""
    left_s = DEADLINE.get()
    return deadline_s if left_s is None else min(deadline_s, left_s)
