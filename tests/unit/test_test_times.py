# SPDX-License-Identifier: Apache-2.0
"""CI divides the tests by the times that ``tools/test_times.py`` saves from a run of stestr."""

import importlib.util
import io
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path

import subunit
import testtools

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("test_times", ROOT / "tools" / "test_times.py")
test_times = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(test_times)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def stream(*tests):
    """Return a subunit stream of tests: worker, name, start and end in seconds."""
    out = io.BytesIO()
    result = subunit.StreamResultToBytes(out)
    events = [
        (second, worker, name, status)
        for worker, name, begin, end in tests
        for second, status in ((begin, "inprogress"), (end, "success"))
    ]
    for second, worker, name, status in sorted(events):
        result.status(test_id=name, test_status=status, test_tags={worker},
                      timestamp=BEGIN + timedelta(seconds=second))  # fmt: skip
    out.seek(0)
    return out


class TestTimes(unittest.TestCase):
    def test_what_is_set_up_before_a_test_counts_for_it(self):
        run = stream(
            ("worker-0", "a", 0, 2), ("worker-0", "b", 5, 6), ("worker-1", "c", 1, 9),
        )  # fmt: skip
        self.assertEqual({"a": 2.0, "b": 4.0, "c": 8.0}, test_times.seconds_of(run))

    def test_short_tests_are_not_listed(self):
        lines = [*test_times.lines({"b": 3.04, "c": 0.4, "a": 0.5})]
        self.assertEqual(["0.5 a\n", "3.0 b\n"], lines)

    def test_what_is_listed_is_loaded_as_tests_that_neither_passed_nor_failed(self):
        out = io.BytesIO()
        test_times.write_stream("0.5 a\n3.0 b (x)\n", out)
        out.seek(0)
        self.assertEqual({"a": 0.5, "b (x)": 3.0}, test_times.seconds_of(out))
        out.seek(0)
        summary = testtools.StreamSummary()
        summary.startTestRun()
        subunit.ByteStreamToStreamResult(out).run(summary)
        summary.stopTestRun()
        self.assertEqual(["a", "b (x)"], [test.id() for test, _ in summary.skipped])

    def test_the_times_of_ci_are_such_lines(self):
        for line in test_times.TIMES.read_text().splitlines():
            seconds, _, name = line.partition(" ")
            self.assertGreaterEqual(float(seconds), test_times.SHORTEST_S)
            self.assertRegex(name, r"^tests\.\S+\.test")
