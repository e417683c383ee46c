# SPDX-License-Identifier: Apache-2.0
"""Tests: of each part, of the programs, and of the service with its processes."""

import signal

# A shell has what runs in its background ignore interrupts, which every program would inherit that
# a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
