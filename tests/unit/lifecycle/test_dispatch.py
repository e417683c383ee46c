# SPDX-License-Identifier: Apache-2.0
"""What a dispatched decision says of the recording that it was made on."""

import datetime
import unittest

from msgspec.structs import replace

from tests.unit.integrations.test_dispatchers import placed
from tests.unit.model.test_plan import make_test_plan
from tests.unit.store.site import podm
from valence_sched.lifecycle.dispatch import with_recording
from valence_sched.model.decision import Recording
from valence_sched.model.inventory import to_json

NOW = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
OLD, NEW = "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"
DAY_S = 86_400.0


class TestRecording(unittest.TestCase):
    """Its pod managers, its oldest reading and the age of that."""

    def setUp(self):
        self.report = make_test_plan(podm("a"), podm("b")).decision

    def recording(self, recorded, *chosen):
        placements = tuple(placed(number, name) for number, name in enumerate(chosen, 1))
        return with_recording(replace(self.report, placements=placements), recorded, NOW)

    def test_the_oldest_of_those_that_take_a_node_counts(self):
        for recorded, chosen, podms, read_at, age_s in (
            ({"a": OLD}, ("a",), ("a",), OLD, 2 * DAY_S),
            ({"a": NEW, "b": OLD}, ("b", "a", "b"), ("a", "b"), OLD, 2 * DAY_S),
            ({"a": NEW, "b": OLD}, ("a",), ("a",), NEW, DAY_S),
            ({"a": NEW}, ("a", "live"), ("a",), NEW, DAY_S),
            ({"a": None, "b": OLD}, ("a", "b"), ("a", "b"), None, None),
            ({"a": "yesterday"}, ("a",), ("a",), None, None),
        ):
            with self.subTest(recorded, chosen=chosen):
                expected = Recording(podms=podms, read_at=read_at, age_s=age_s)
                self.assertEqual(expected, self.recording(recorded, *chosen).recording)

    def test_a_decision_on_live_ones_says_nothing_of_it(self):
        report = self.recording({"a": OLD}, "live")
        self.assertNotIn(b"recording", to_json(report))
