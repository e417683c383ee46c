# SPDX-License-Identifier: Apache-2.0
"""Operations: work that goes on after its answer."""

import threading
import unittest

from valence_sched.errors import ClaimLost, NameTaken, ServiceBusy, UnknownName
from valence_sched.service.operations import LOST_S, Operations, new_operation


class MemoryRecords:
    """Records in memory, whose age a test sets."""

    def __init__(self):
        self.documents, self.age_s = {}, 0.0

    def put_new(self, id_, document):
        return self.documents.setdefault(id_, document)

    def replace(self, id_, document, patience_s=0.0):
        if id_ in self.documents:
            self.documents[id_] = document

    def get(self, id_):
        return (self.documents[id_], self.age_s) if id_ in self.documents else None

    def save_decision(self, decision_id, document):
        self.documents[decision_id] = document


class TestOperations(unittest.TestCase):
    def setUp(self):
        self.records = MemoryRecords()
        self.operations = Operations(self.records, 2)
        self.leave = threading.Event()
        self.addCleanup(self.leave.set)

    def start(self, work, key=None, content=b"", repeat=False, operations=None):
        one = new_operation("compose", "me", key, content)
        return (operations or self.operations).start(one, work, repeat=repeat)

    def wait(self):
        self.leave.set()
        self.assertTrue(self.operations.wait(10))

    def test_it_runs_and_is_done(self):
        begun = self.start(lambda: [self.leave.wait(10), {"a": 1}][1])
        self.assertEqual("running", self.operations.get(begun.id, "me").state)
        self.assertFalse(self.operations.wait(0))
        self.wait()
        ended = self.operations.get(begun.id, None)
        self.assertEqual(("done", b'{"a":1}'), (ended.state, bytes(ended.result)))

    def test_an_error_of_its_work_is_its_problem(self):
        def fail():
            raise ClaimLost("it is gone", "p", "c")

        begun = self.start(fail)
        self.wait()
        ended = self.operations.get(begun.id, "me")
        self.assertEqual(("failed", "claim_lost", "p"), (
            ended.state, ended.problem.code, ended.problem.members["podm"]))  # fmt: skip

    def test_a_defect_of_its_work_is_logged_and_not_told(self):
        def fail():
            raise KeyError("s3cr3t")

        with self.assertLogs("valence_sched.service.operations", "ERROR"):
            begun = self.start(fail)
            self.wait()
        ended = self.operations.get(begun.id, "me")
        self.assertEqual("failed", ended.state)
        self.assertNotIn("s3cr3t", ended.problem.detail)

    def test_it_is_its_owners(self):
        begun = self.start(lambda: None)
        self.wait()
        with self.assertRaises(UnknownName):
            self.operations.get(begun.id, "you")

    def test_a_key_has_one_operation_in_all_processes(self):
        other = Operations(self.records, 2)
        calls = []
        begun = self.start(lambda: calls.append(self.leave.wait(10)), "k")
        for operations in (self.operations, other):
            again = self.start(lambda: calls.append(2), "k", operations=operations)
            self.assertEqual((begun.id, "running"), (again.id, again.state))
        with self.assertRaises(NameTaken):
            self.start(lambda: None, "k", b"another")
        self.wait()
        self.assertEqual("done", self.start(lambda: calls.append(3), "k").state)
        self.assertEqual([True], calls)

    def test_work_that_knows_its_key_may_begin_again(self):
        calls = []
        for number in range(2):
            self.start(lambda number=number: calls.append(number), "k", repeat=True)
            self.wait()
        self.assertEqual([0, 1], calls)

    def test_one_whose_process_is_gone_is_interrupted_and_begins_again(self):
        """S4: a process that dies takes nothing with it for good."""
        dead = Operations(self.records, 2)
        begun = self.start(lambda: self.leave.wait(10), "k", operations=dead)
        self.records.age_s = LOST_S + 1
        self.assertEqual("interrupted", self.operations.get(begun.id, "me").state)
        calls = []
        self.assertEqual("running", self.start(lambda: calls.append(1), "k").state)
        self.assertTrue(self.operations.wait(10))
        self.assertEqual([1], calls)

    def test_a_process_works_on_so_many_at_a_time(self):
        for _ in range(2):
            self.start(lambda: self.leave.wait(10))
        with self.assertRaisesRegex(ServiceBusy, "2 operations run already"):
            self.start(lambda: None)
        self.assertEqual(2, len(self.records.documents))
        self.wait()
        self.assertEqual("running", self.start(lambda: None).state)

    def test_a_process_that_works_says_so(self):
        beating = Operations(self.records, 1, beat_s=0.01)
        seen = threading.Event()
        replace = self.records.replace

        def note(id_, document, patience_s=0.0):
            replace(id_, document)
            seen.set()

        self.records.replace = note
        self.start(lambda: self.leave.wait(10), operations=beating)
        self.assertTrue(seen.wait(10))
