# SPDX-License-Identifier: Apache-2.0
"""Tests: of each part, of the programs, and of the service with its processes."""

import signal

from hypothesis import HealthCheck, settings

# A shell has what runs in its background ignore interrupts, which every program would inherit that
# a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long inputs take to generate, and examples to run, is a matter of the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() != "mutants":
    settings.load_profile("untimed")
