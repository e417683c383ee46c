# SPDX-License-Identifier: Apache-2.0
"""Tests: of each part, of the programs, and of the service with its processes."""

import atexit
import gc
import os
import signal
import sys
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings

# All that thousands of tests import and keep is searched for garbage at each collection: a fifth of
# the time of a run, at the usual threshold.
gc.set_threshold(50_000)

# A shell has what runs in its background ignore interrupts, which every program would inherit that
# a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The state and the caches of the person who runs the tests are neither read nor written. Only uv,
# which installs what was built, takes from its cache what that person has installed before.
os.environ.setdefault("UV_CACHE_DIR", os.path.expanduser("~/.cache/uv"))
home = tempfile.TemporaryDirectory(prefix="home-")
atexit.register(home.cleanup)
os.environ["HOME"] = home.name

# How long inputs take to generate, and examples to run, is a matter of the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() != "mutants":
    settings.load_profile("untimed")

# CI counts the programs that tests start: each costs as much as many tests within a process. A
# fork alone, of which there are many to share what is imported, starts none.
SPAWNED = os.environ.get("VALENCE_SCHED_TEST_SPAWNED")


def _count(event: str, words: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.forkpty", "os.posix_spawn"):
        with open(str(SPAWNED), "a") as file:
            file.write(f"{os.path.basename(words[0]) if words else event}\n")


if SPAWNED:
    sys.addaudithook(_count)
