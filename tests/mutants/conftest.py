# SPDX-License-Identifier: Apache-2.0
"""Runs the tests on a mutant: the fastest tests first, until the first failure.

``make mutants`` copies this file beside the copy of the packages that mutmut changes.
"""

import contextlib
import json
import os
import signal
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from reached import Reached  # beside this file, the package ``tests`` would be the wrong copy

# The same examples each time, or a mutant could survive by chance; examples are not shrunk.
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("mutants")

STATS = Path("mutmut-stats.json")
DURATIONS_S = json.loads(STATS.read_text())["duration_by_test"] if STATS.exists() else {}
#: Tests with servers, many processes, large stores, or compositions on faulty pod managers would
#: take longer than all others.
SLOW = (
    "_postgresql::",
    "_mysql::",
    "::TestKilled",
    "::TestRaces",
    "::TestManyMore",
    "lifecycle/test_compose.py::TestEachFault",
    "lifecycle/test_compose.py::TestOthers",
    "lifecycle/test_compose.py::TestRemoving",
    "lifecycle/test_flavors.py::",
    "lifecycle/test_habits.py::",
)
#: The limit of CPU time: an endless loop kills a mutant, a slow machine does not.
LEAST_CPU_LIMIT_S = 15.0
TIMES_ITS_DURATION = 8.0
#: A blocked test uses no CPU time: a test ends if it uses less than this share for this time.
IDLE_PART, IDLE_CHECK_S, LEAST_IDLE_LIMIT_S = 0.02, 5.0, 30.0
#: The exit code of a mutant that ran out of time, for mutmut.
TIMED_OUT = 36


def first_failure_ends_the_test(self, msg=None, **params):
    """Replace ``TestCase.subTest``, which would continue with thousands of further cases."""
    return contextlib.nullcontext()


unittest.TestCase.subTest = first_failure_ends_the_test  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        from mutmut.state import state

        state()._stats = Reached(state()._stats)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = [item for item in items if any(words in item.nodeid for words in SLOW)]
    config.hook.pytest_deselected(items=others)
    items[:] = sorted(
        {*items} - {*others}, key=lambda it: (DURATIONS_S.get(it.nodeid, 0.0), it.nodeid)
    )


def _duration_s(item: pytest.Item) -> tuple[float, str]:
    return DURATIONS_S.get(item.nodeid, 0.0), item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", ""):
        duration_s = TIMES_ITS_DURATION * DURATIONS_S.get(item.nodeid, 0.0)
        signal.signal(signal.SIGPROF, lambda *_: os._exit(TIMED_OUT))
        signal.setitimer(signal.ITIMER_PROF, LEAST_CPU_LIMIT_S + duration_s)
        _end_when_idle(LEAST_IDLE_LIMIT_S + duration_s)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _end_when_idle(limit_s: float) -> None:
    """End this process after it has used almost no CPU time for this time."""
    idle_s, used_s = 0.0, time.process_time()

    def check(*_: object) -> None:
        nonlocal idle_s, used_s
        before_s, used_s = used_s, time.process_time()
        is_idle = used_s - before_s < IDLE_PART * IDLE_CHECK_S
        idle_s = idle_s + IDLE_CHECK_S if is_idle else 0.0
        if idle_s >= limit_s:
            os._exit(TIMED_OUT)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, IDLE_CHECK_S, IDLE_CHECK_S)
