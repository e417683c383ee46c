# SPDX-License-Identifier: Apache-2.0
"""The processes that make the runs of a sweep."""

import os
import signal
import unittest

from valence_sched.planning.sweep import opened_workers


def held_signals(_task):
    """Return the process that makes a run, and whether it leaves Ctrl-C to another."""
    return os.getpid(), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


class TestInterrupts(unittest.TestCase):
    """Ctrl-C, which a terminal sends to all processes of a command."""

    def test_it_is_for_the_process_that_asked_alone(self):
        with opened_workers(2) as workers:
            found = set(workers(held_signals, range(4)))
        self.assertTrue(found)
        self.assertNotIn(os.getpid(), {process for process, _ in found})
        self.assertEqual({True}, {held for _, held in found})
        self.assertEqual((os.getpid(), False), held_signals(None))


if __name__ == "__main__":
    unittest.main()
