# SPDX-License-Identifier: Apache-2.0
"""Sweeps: what other processes get says the same after it was sent, and Ctrl-C is not theirs."""

import os
import pickle
import signal
import unittest

from tests.unit.planning.workloads import FLAVORS, file_workload
from valence_sched.errors import InputError, UnknownName
from valence_sched.model.replay import parse_seeds
from valence_sched.planning.sweep import opened_workers
from valence_sched.planning.workload import PolicyChoice, compile_workload

LINES = "flavor,arrival,duration\ncores,0,5\ndisk,1,\ncard,2,7\ncores,3,5\n"


def sent(value):
    return pickle.loads(pickle.dumps(value))


class TestSent(unittest.TestCase):
    def test_requests_keep_their_identity_which_ties_are_broken_by(self):
        workload = compile_workload(file_workload(LINES), FLAVORS)
        here, there = (list(one.entries({})) for one in (workload, sent(workload)))
        self.assertEqual(here, there)
        for one, other in zip(here, there, strict=True):
            self.assertEqual(one.request.identity, other.request.identity)

    def test_a_compiled_workload_says_what_its_file_says(self):
        for choice in (PolicyChoice(), PolicyChoice("balanced"), PolicyChoice(None, "pack")):
            expected = list(file_workload(LINES).entries(FLAVORS, choice))
            workload = compile_workload(file_workload(LINES), FLAVORS)
            self.assertEqual(expected, list(workload.entries({}, choice)))
        self.assertEqual("w.csv: line 3", workload.place(3))

    def test_the_digest_is_about_everything_but_the_seed(self):
        digests = [compile_workload(file_workload(text), FLAVORS).with_seed(seed).digest()
                   for text, seed in ((LINES, 0), (LINES, 7), (LINES.replace("7", "8"), 0),
                                      (LINES.replace("disk", "card"), 0))]  # fmt: skip
        self.assertEqual(digests[0], digests[1])
        self.assertEqual(3, len(set(digests)))

    def test_errors_keep_their_kind_and_their_text(self):
        for error in (InputError("a.json", "$.x", "1", "2"), UnknownName("flavor", "x", ["y"])):
            with self.subTest(type(error)):
                other = sent(error.at("line 3"))
                self.assertEqual((type(error), str(error)), (type(other), str(other)))
                self.assertEqual(vars(error), vars(other))


class TestSeeds(unittest.TestCase):
    def test_seeds_are_sorted_and_each_once(self):
        for text, seeds in (("7", (7,)), ("1..3", (1, 2, 3)), ("9, 1..2,2", (1, 2, 9))):
            self.assertEqual(seeds, parse_seeds(text))

    def test_what_is_no_seed_is_refused(self):
        for text in ("", "-1", "1...2", "3..1", "1..2000000", "x"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_seeds(text)


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
