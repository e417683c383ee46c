# SPDX-License-Identifier: Apache-2.0
"""Old readings are found at the time when they become old."""

import datetime
import unittest

from valence_sched.model.reading import ReadingAges

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


class TestReadingAges(unittest.TestCase):
    """Readings of different pod managers, and repeated readings of one."""

    def note(self, ages: ReadingAges, podm: str, at: float) -> None:
        ages.note(podm, after(at).isoformat(), after(at))

    def test_each_is_old_from_its_limit_on(self):
        ages = ReadingAges(60.0)
        for podm, at in (("a", 0), ("b", 30)):
            self.note(ages, podm, at)
        self.assertEqual(
            [set(), {"a"}, {"a", "b"}], [ages.older(after(one)) for one in (60, 61, 91)]
        )

    def test_one_that_is_read_again_is_old_later_and_one_that_is_forgotten_is_not(self):
        ages = ReadingAges(60.0)
        for podm, at in (("a", 0), ("b", 0), ("a", 50)):
            self.note(ages, podm, at)
        ages.forget("b")
        self.assertEqual([set(), {"a"}], [ages.older(after(one)) for one in (100, 111)])
        self.note(ages, "a", 120)
        self.assertEqual([set(), {"a"}], [ages.older(after(one)) for one in (180, 181)])

    def test_a_time_that_is_unknown_is_not_old(self):
        ages = ReadingAges(60.0)
        ages.note("a", None, NOON)
        self.assertEqual(({"a"}, set()), (ages.unknown, ages.older(after(1000))))

    def test_many_readings_of_one_take_the_memory_of_one(self):
        for limit_s in (None, 1e9):
            ages = ReadingAges(limit_s)
            for at in range(1000):
                self.note(ages, "a", at)
            self.assertLessEqual(len(ages._queue), 1)
