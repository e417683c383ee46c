# SPDX-License-Identifier: Apache-2.0
"""Signals end a command, whatever it does at the moment."""

import signal
import unittest

import numpy as np

from tests.unit.core.deciders import bound
from valence_sched.core.evaluation import evaluate
from valence_sched.testing import request, view
from valence_sched_cli.output.delivery import interrupt_on_signals

ASKED = request({"processor": {"sockets": 1}})


class TestEnding(unittest.TestCase):
    """SIGTERM, which would end the process otherwise."""

    def strike(self) -> None:
        self.assertNotEqual(signal.SIG_DFL, signal.getsignal(signal.SIGTERM))
        signal.raise_signal(signal.SIGTERM)

    def test_it_ends_with_the_code_of_a_shell_and_signals_are_as_they_were(self):
        before = signal.getsignal(signal.SIGTERM)
        with self.assertRaises(SystemExit) as caught, interrupt_on_signals():
            self.strike()
        self.assertEqual(143, caught.exception.code)
        self.assertEqual(before, signal.getsignal(signal.SIGTERM))

    def test_one_that_comes_while_a_plug_in_judges_is_no_failure_of_the_plug_in(self):
        """A plug-in that calls sys.exit only fails; the decision goes on without it."""

        def struck(seen, _request):
            self.strike()
            return np.ones(len(seen), dtype=bool)

        def exits(seen, _request):
            raise SystemExit(1)

        site = view({"id": "a"})
        self.assertEqual({"exits"}, evaluate(site, ASKED, bound(filters=(exits,))).failed_plugins)
        with self.assertRaises(SystemExit), interrupt_on_signals():
            evaluate(site, ASKED, bound(filters=(struck,)))
