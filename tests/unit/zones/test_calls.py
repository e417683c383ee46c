# SPDX-License-Identifier: Apache-2.0
"""Calls of several zones at the same time, and the paths of what they have."""

import threading
import unittest

from valence_sched.errors import ClaimLost
from valence_sched.model.composition import ComposedNode
from valence_sched.zones import paths
from valence_sched.zones.calls import NoAnswerInTime, call_all


class TestCalls(unittest.TestCase):
    """Each answer by its name, whatever the others do."""

    def test_all_are_called_at_the_same_time(self):
        barrier = threading.Barrier(3, timeout=30)

        def call():
            barrier.wait()
            return threading.current_thread().daemon

        self.assertEqual(dict.fromkeys("abc", True), call_all(dict.fromkeys("abc", call), 30))
        self.assertEqual({}, call_all({}, 30))

    def test_an_error_is_an_answer_and_silence_another(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def refuse():
            raise ClaimLost("gone")

        found = call_all({"a": refuse, "b": go.wait, "c": lambda: 1}, 0.3)
        self.assertIsInstance(found["a"], ClaimLost)
        self.assertIsInstance(found["b"], NoAnswerInTime)
        self.assertEqual(1, found["c"])

    def test_a_defect_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            call_all({"a": lambda: 1 // 0}, 30)


class TestPaths(unittest.TestCase):
    """Names of what is below, and back."""

    def test_a_path_leads_to_the_child_it_begins_with(self):
        zones = {"east": 1}
        for zone, name in (("east", "x"), ("east", "e1/x"), ("", "x"), ("", "west/x"),
                           ("", "/redfish/v1/Systems/1")):  # fmt: skip
            self.assertEqual((zone, name), paths.split(paths.path(zone, name), zones))

    def test_a_node_that_no_claim_has_keeps_that(self):
        node = ComposedNode(id="n", podm="p", uri="/u", claim="-")
        above = paths.node_below("east", node)
        self.assertEqual(("east/n", "east/p", "/u", "-"),
                         (above.id, above.podm, above.uri, above.claim))  # fmt: skip
        self.assertEqual(node, paths.node_below("", node))
