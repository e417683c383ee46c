# SPDX-License-Identifier: Apache-2.0
"""When pod managers are read: intervals, jitter, back-off, and the circuit breaker."""

import unittest

from valence_sched.inventory.background_reader import ReadSchedule
from valence_sched.model.reading import ReadPace

PACE = ReadPace(interval_s=60.0, jitter=0.1, backoff_s=600.0, open_after=3)


class TestPace(unittest.TestCase):
    """How long until the next reading."""

    def test_a_failure_doubles_it_up_to_the_longest(self):
        pauses = [PACE.pause_s(failures, 0.5) for failures in (0, 1, 2, 3, 4, 50)]
        self.assertEqual([60.0, 120.0, 240.0, 480.0, 600.0, 600.0], pauses)

    def test_jitter_is_a_part_of_it_in_both_directions(self):
        self.assertEqual([54.0, 66.0], [PACE.pause_s(0, draw) for draw in (0.0, 1.0)])

    def test_a_failure_never_shortens_it(self):
        pace = ReadPace(interval_s=60.0, backoff_s=10.0, jitter=0.0)
        self.assertEqual([60.0, 60.0], [pace.pause_s(failures, 0.5) for failures in (0, 5)])


class TestSchedule(unittest.TestCase):
    """What is due."""

    def setUp(self):
        self.schedule = ReadSchedule(PACE, lambda: 0.5)
        self.schedule.set_names(["a", "b"], 0.0)

    def due(self, now, most=9):
        return list(self.schedule.start_due(now, most))

    def fail_readings(self, name, times):
        now = 0.0
        for _ in range(times):
            self.schedule.end(name, now, failed=True)
        return now + 600.0

    def test_new_ones_are_due_at_once_and_then_after_the_interval(self):
        self.assertEqual(["a", "b"], self.due(0.0))
        self.assertEqual([], self.due(1000.0), "they still run")
        self.schedule.end("a", 10.0, failed=False)
        self.assertEqual([], self.due(69.9))
        self.assertEqual(["a"], self.due(70.0))

    def test_no_more_run_than_may_and_the_longest_due_comes_first(self):
        self.assertEqual(["a"], self.due(0.0, most=1))
        self.schedule.end("a", 0.0, failed=False)
        self.assertEqual(["b"], self.due(99.0, most=1))
        self.assertEqual([], self.due(99.0, most=0))

    def test_back_off_and_recovery(self):
        self.due(0.0)
        self.schedule.end("a", 0.0, failed=True)
        self.assertEqual([], self.due(119.0))
        self.assertEqual(["a"], self.due(120.0))
        self.schedule.end("a", 120.0, failed=False)
        self.assertEqual(["a"], self.due(180.0))

    def test_of_open_breakers_one_is_probed_at_a_time(self):
        self.schedule.set_names(["a", "b", "c"], 0.0)
        self.due(0.0)
        for name in ("a", "b"):
            self.fail_readings(name, 2)
            self.assertFalse(self.schedule.is_open(name))
            self.fail_readings(name, 1)
            self.assertTrue(self.schedule.is_open(name))
        self.schedule.end("c", 0.0, failed=False)
        self.assertEqual(["c", "a"], self.due(600.0))
        self.assertEqual([], self.due(600.0))
        self.schedule.end("a", 600.0, failed=False)
        self.assertFalse(self.schedule.is_open("a"))
        self.assertEqual(["b"], self.due(600.0))
        self.schedule.end("b", 600.0, failed=True)
        self.assertTrue(self.schedule.is_open("b"))

    def test_one_that_is_taken_out_is_not_read_any_more(self):
        self.due(0.0)
        self.schedule.set_names(["b"], 1.0)
        self.schedule.end("a", 2.0, failed=False)
        self.assertEqual([], self.due(9.0))
        self.assertFalse(self.schedule.is_open("a"))

    def test_hastened_it_is_due_at_once_without_failures_but_not_twice(self):
        self.due(0.0)
        self.fail_readings("a", 3)
        self.schedule.hasten("a", 1.0)
        self.assertFalse(self.schedule.is_open("a"))
        self.assertEqual(["a"], self.due(1.0))
        self.schedule.hasten("b", 1.0)
        self.assertEqual([], self.due(1.0), "b runs")
        self.schedule.hasten("unknown", 1.0)

    def test_the_time_until_the_next(self):
        self.assertEqual(0.0, self.schedule.wait_s(5.0))
        self.due(5.0)
        self.assertIsNone(self.schedule.wait_s(5.0))
        self.schedule.end("a", 5.0, failed=False)
        self.assertEqual(50.0, self.schedule.wait_s(15.0))


class TestHints(unittest.TestCase):
    """What an event asks for."""

    def setUp(self):
        self.pace = ReadPace(interval_s=60.0, jitter=0.0, backoff_s=600.0, event_pause_s=5.0)
        self.schedule = ReadSchedule(self.pace, lambda: 0.5)
        self.schedule.set_names(["a"], 0.0)

    def read(self, now, *, failed=False):
        self.assertEqual(["a"], list(self.schedule.start_due(now, 9)))
        self.schedule.end("a", now, failed=failed)

    def test_it_is_read_at_once_where_its_last_reading_is_long_ago(self):
        self.read(0.0)
        self.schedule.hint("a", 30.0)
        self.read(30.0)
        self.assertEqual(60.0, self.schedule.wait_s(30.0), "the interval begins anew")

    def test_many_hints_are_one_reading_in_each_pause(self):
        self.read(0.0)
        starts = []
        for tenth in range(1, 300):
            self.schedule.hint("a", tenth / 10)
            for _ in self.schedule.start_due(tenth / 10, 9):
                starts.append(tenth / 10)
                self.schedule.end("a", tenth / 10, failed=False)
        self.assertEqual([5.0, 10.0, 15.0, 20.0, 25.0], starts)

    def test_one_during_a_reading_asks_for_another(self):
        list(self.schedule.start_due(0.0, 9))
        self.schedule.hint("a", 2.0)
        self.assertEqual([], list(self.schedule.start_due(3.0, 9)), "it runs")
        self.schedule.end("a", 4.0, failed=False)
        self.assertEqual(1.0, self.schedule.wait_s(4.0))
        self.read(5.0)
        self.assertEqual(60.0, self.schedule.wait_s(5.0))

    def test_it_never_delays_a_reading(self):
        self.read(0.0)
        self.schedule.hint("a", 59.0)
        self.read(59.0)
        self.schedule.hint("a", 60.0)
        self.assertEqual(4.0, self.schedule.wait_s(60.0))

    def test_a_pod_manager_that_fails_is_read_ever_more_rarely_for_its_events(self):
        now, gaps = 0.0, []
        for _ in range(6):
            self.read(now, failed=True)
            self.schedule.hint("a", now)
            gaps.append(self.schedule.wait_s(now))
            now += gaps[-1]
        self.assertEqual([10.0, 20.0, 40.0, 60.0, 60.0, 60.0], gaps)

    def test_one_of_an_unknown_name_is_nothing(self):
        self.schedule.hint("b", 0.0)
        self.assertEqual(["a"], list(self.schedule.start_due(0.0, 9)))
