# SPDX-License-Identifier: Apache-2.0
"""Tests: of each part, of the programs, and of the service with its processes."""

import atexit
import os
import signal
import tempfile

from hypothesis import HealthCheck, settings

# A shell has what runs in its background ignore interrupts, which every program would inherit that
# a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The state and the caches of the person who runs the tests are neither read nor written. Only pip,
# which installs what was built, is configured as that person wants it.
os.environ.setdefault("PIP_CONFIG_FILE", os.path.expanduser("~/.config/pip/pip.conf"))
home = tempfile.TemporaryDirectory(prefix="home-")
atexit.register(home.cleanup)
os.environ["HOME"] = home.name

# How long inputs take to generate, and examples to run, is a matter of the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() != "mutants":
    settings.load_profile("untimed")
