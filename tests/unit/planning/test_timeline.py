# SPDX-License-Identifier: Apache-2.0
"""Timelines: means over time are exact, however many buckets were merged, and buckets are few."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.planning.occupancy import MOST_BUCKETS, Timeline

CHANGES = st.lists(
    st.tuples(st.sampled_from((0, 1, 7, 0.25, 300, 5000)), st.integers(-3, 5)), max_size=40
)


def run(changes, width=1.0, start=10.0):
    """Return the timeline of changes, each some time after the one before, and when it ends."""
    timeline = Timeline(start, width, [2.0], 1)
    moment = start
    for gap, amount in changes:
        moment += gap
        timeline.advance(moment)
        timeline.change(((0, amount),), 1.0, moment)
        timeline.counts[0] += 1
    timeline.finish(moment)
    return timeline, moment


class TestTimeline(unittest.TestCase):
    @quietly(100)
    @given(CHANGES)
    def test_the_mean_is_the_integral_over_the_time(self, changes):
        timeline, end = run(changes)
        level, integral = 2.0, 0.0
        for gap, amount in changes:
            integral += level * gap
            level += amount
        expected = integral / (end - 10.0) if end > 10.0 else level
        self.assertAlmostEqual(expected, timeline.mean(0, end), 6)
        self.assertEqual(len(changes), sum(bucket.counts[0] for bucket in timeline.buckets))
        self.assertEqual([level], timeline.levels)

    @quietly(100)
    @given(CHANGES)
    def test_there_are_few_buckets_and_they_cover_the_time(self, changes):
        timeline, end = run(changes)
        self.assertLessEqual(len(timeline.buckets), MOST_BUCKETS)
        covered = timeline.width * len(timeline.buckets)
        self.assertGreaterEqual(covered, end - 10.0)
        self.assertLessEqual(covered - timeline.width, end - 10.0)

    def test_each_bucket_has_its_own_mean_and_the_sample_at_its_end(self):
        samples = iter(range(10))
        timeline = Timeline(0.0, 2.0, [0.0], 0, lambda: next(samples))
        timeline.change(((0, 4.0),), 1.0, 0.5)
        timeline.advance(5.0)
        timeline.change(((0, 4.0),), -1.0, 5.0)
        timeline.finish(5.5)
        self.assertEqual([[3.0], [4.0], [4.0 / 1.5]], [one.means for one in timeline.buckets])
        self.assertEqual([0, 1, 2], [one.sample for one in timeline.buckets])

    def test_counts_of_the_last_moment_are_in_the_last_bucket(self):
        timeline, _ = run([(0, 1), (1, 1)])
        self.assertEqual([[2]], [bucket.counts for bucket in timeline.buckets])
