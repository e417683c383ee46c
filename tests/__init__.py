# SPDX-License-Identifier: Apache-2.0
"""Tests of each part, of the programs, and of the service with its processes."""

import atexit
import gc
import os
import signal
import sys
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings

# Objects that tests import and keep would be searched at each garbage collection. At the usual
# threshold this takes a fifth of the time of a run.
gc.set_threshold(50_000)

# A shell makes its background processes ignore interrupts. Programs that a test starts and
# interrupts would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests neither read nor write the state and the caches of their user. Only uv, which installs the
# built packages, uses the user's cache.
os.environ.setdefault("UV_CACHE_DIR", os.path.expanduser("~/.cache/uv"))
home = tempfile.TemporaryDirectory(prefix="home-")
atexit.register(home.cleanup)
os.environ["HOME"] = home.name

# The machine decides how long hypothesis takes to generate and to run examples: there is no
# deadline.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() != "mutants":
    settings.load_profile("untimed")

# CI counts the programs that tests start: each costs as much as many tests within a process. A
# plain fork does not start a program.
SPAWNED = os.environ.get("VALENCE_SCHED_TEST_SPAWNED")


def _count(event: str, words: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.forkpty", "os.posix_spawn"):
        with open(str(SPAWNED), "a") as file:
            file.write(f"{os.path.basename(words[0]) if words else event}\n")


if SPAWNED:
    sys.addaudithook(_count)
