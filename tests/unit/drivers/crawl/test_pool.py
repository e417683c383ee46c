# SPDX-License-Identifier: Apache-2.0
"""The reader pool alone: helper threads, pauses, and overdue readers."""

import queue
import threading
import unittest
from collections import deque
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest import mock

from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.pool import (
    BUSY_PODMS,
    FIRST_PODMS,
    GRACE_S,
    MAX_PODMS,
    MIN_WAITING_REQUESTS,
    ReaderPool,
)
from valence_sched.drivers.crawl.reading import PodmReader, ReadSettings, ReadTarget
from valence_sched.drivers.http.connection import LOGOUT_S
from valence_sched.drivers.http.exchange import TlsContexts
from valence_sched.model.registration import Registration

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def idle() -> ReaderPool:
    return ReaderPool([], {}, ReadSettings(), lambda: NOW)


def reader(timeout_s: float, name: str = "a") -> PodmReader:
    known = Registration(name=name, url="https://h.invalid")
    settings = ReadSettings(timeout_s=timeout_s)
    return PodmReader(ReadTarget(known), settings, NOW, lambda *_: False, TlsContexts())


class TestHelpers(unittest.TestCase):
    """One additional thread for one pod manager."""

    def started(self, made: ReaderPool, waiting: int) -> bool:
        names: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()

        def work() -> None:
            thread = threading.current_thread()
            names.put((thread.name, thread.daemon))

        started = made._start_helper(work, waiting)
        if started:
            self.assertEqual(("podm-help", True), names.get(timeout=20))
        return started

    def test_it_is_started_while_few_are_read_or_very_many_requests_wait(self):
        for running, waiting, starts in (
            (0, 1, True),
            (BUSY_PODMS - 1, 1, True),
            (BUSY_PODMS, MIN_WAITING_REQUESTS - 1, False),
            (BUSY_PODMS, MIN_WAITING_REQUESTS, True),
            (BUSY_PODMS + 1, 1, False),
        ):
            with self.subTest(running=running, waiting=waiting):
                made = idle()
                made._running = {number: reader(9) for number in range(running)}
                self.assertEqual(starts, self.started(made, waiting))

    def test_there_are_no_more_than_so_many_and_each_that_ends_makes_room(self):
        made = idle()
        made._helpers = threading.Semaphore(1)
        go, gone = threading.Event(), threading.Event()

        def work() -> None:
            go.wait(20)
            gone.set()

        self.assertTrue(made._start_helper(work, 1))
        self.assertFalse(made._start_helper(work, 99))
        go.set()
        gone.wait(20)
        self.assertTrue(made._helpers.acquire(timeout=20))

    def test_one_that_fails_makes_room_too(self):
        made = idle()
        made._helpers = threading.Semaphore(1)
        before, threading.excepthook = threading.excepthook, lambda _: None
        self.addCleanup(setattr, threading, "excepthook", before)

        def work() -> None:
            raise ValueError

        self.assertTrue(made._start_helper(work, 1))
        self.assertTrue(made._helpers.acquire(timeout=20))


class TestPauses(unittest.TestCase):
    """The length of the wait for a result."""

    def test_it_is_until_the_next_deadline_or_until_more_may_be_begun(self):
        made = idle()
        self.assertEqual(0.05, made._pause_s())
        made._running = {0: reader(900), 1: reader(500)}
        self.assertTrue(490 < made._pause_s() <= 500)
        made._todo.append((2, None))
        self.assertEqual(pool.STALL_S, made._pause_s())
        made._running[2] = reader(-5)
        self.assertEqual(0.01, made._pause_s())


class TestEnd(unittest.TestCase):
    """The remains of a run after it is abandoned."""

    def test_sessions_are_waited_for_so_long_all_together_and_no_more_is_begun(self):
        made, cut, waited, clock = idle(), [], [], SimpleNamespace(now_s=1000.0)
        clock.monotonic = lambda: clock.now_s

        class Thread:
            def __init__(self, needs_s: float) -> None:
                self.needs_s = needs_s

            def join(self, timeout_s: float) -> None:
                waited.append(timeout_s)
                clock.now_s += self.needs_s

        made._todo = deque([None])
        made._running = {0: SimpleNamespace(cut=lambda: cut.append("a"))}
        made._threads = [Thread(needs_s) for needs_s in (LOGOUT_S, 2 * GRACE_S, 0.0)]
        with mock.patch.object(pool, "time", clock):
            made.end()
        self.assertEqual((["a"], []), (cut, [*made._todo]))
        self.assertEqual([LOGOUT_S + GRACE_S, GRACE_S, 0.0], waited)


class TestOverdue(unittest.TestCase):
    """Readers whose deadline has passed."""

    def test_they_are_cut_and_after_a_little_grace_their_result_is_that(self):
        made = idle()
        cut: list[str] = []

        class Connected(PodmReader):
            def cut(self) -> None:
                cut.append(self._registration.name)

        def connected(timeout_s: float, name: str) -> PodmReader:
            one = reader(timeout_s, name)
            one.__class__ = Connected
            return one

        made._running = {
            3: connected(60, "early"),
            4: connected(-GRACE_S / 2, "late"),
            5: connected(-2 * GRACE_S, "gone"),
            6: connected(-2 * GRACE_S, "known"),
        }
        made._reported = {6}
        made._cut_overdue()
        self.assertEqual(["late", "known"], cut)
        index, found = made._results.get(timeout=20)
        self.assertEqual((5, "Offline"), (index, found.podm.status))
        self.assertTrue(made._results.empty())

    def test_the_next_result_may_be_that_one_is_overdue(self):
        made = idle()
        made._running = {5: reader(-2 * GRACE_S)}
        index, found = made.next()
        self.assertEqual((5, "Offline"), (index, found.podm.status))
        self.assertEqual({5}, made._reported)


class TestErrors(unittest.TestCase):
    """Failures outside the reading of a pod manager."""

    def test_it_is_raised_where_the_results_are_awaited(self):
        def no_clock() -> datetime:
            raise ZeroDivisionError("no time")

        target = ReadTarget(Registration(name="a", url="https://h.invalid"))
        made = ReaderPool([target], {}, ReadSettings(), no_clock)
        made.start_more()
        with self.assertRaisesRegex(ZeroDivisionError, "no time"):
            made.next()
        made.end()


class TestInterrupted(unittest.TestCase):
    """A signal immediately after the start of the first thread."""

    def test_what_was_begun_is_ended(self):
        target = ReadTarget(Registration(name="a", url="https://h.invalid"))
        with mock.patch.object(ReaderPool, "start_more", side_effect=KeyboardInterrupt), \
                mock.patch.object(ReaderPool, "end") as ended:  # fmt: skip
            with self.assertRaises(KeyboardInterrupt):
                next(pool.read([target], {}, ReadSettings()))
            ended.assert_called_once_with()


class TestBegun(unittest.TestCase):
    """The number of concurrent readings."""

    def test_so_many_to_begin_with_and_no_more_than_there_are_or_may_be(self):
        for todo, running, begun in (
            (300, 0, FIRST_PODMS),
            (3, 0, 3),
            (300, MAX_PODMS - 6, 6),
            (300, MAX_PODMS, 0),
        ):
            with self.subTest(todo=todo, running=running):
                made, started = idle(), []
                made._todo = deque([None] * todo)
                made._running = dict.fromkeys(range(running))
                made._start_thread = lambda seen=started: seen.append(1)
                made.start_more()
                self.assertEqual(begun, len(started))

    def test_more_are_begun_once_no_result_has_come_for_a_while(self):
        made, begun, clock = idle(), [], SimpleNamespace(now_s=1000.0)
        clock.monotonic = lambda: clock.now_s
        pauses = iter((pool.STALL_S, pool.STALL_S / 2, pool.STALL_S))

        class Results:
            """No result after each of the pauses; then the results one after another."""

            def get(self, timeout: float) -> tuple[int, str]:
                pause_s = next(pauses, None)
                if pause_s is None:
                    return next(results)
                clock.now_s += pause_s
                raise queue.Empty

        def begin() -> None:
            begun.append(clock.now_s)
            made._last = clock.now_s

        results = iter([(7, "first"), (7, "late"), (8, "second")])
        made._results, made._last, made.start_more = Results(), clock.now_s, begin
        with mock.patch.object(pool, "time", clock):
            self.assertEqual((7, "first"), made.next())
            self.assertEqual([1000.0 + 1.5 * pool.STALL_S], begun)
            self.assertEqual(clock.now_s, made._last)
            self.assertEqual((8, "second"), made.next(), "of each there is one result")

    def test_each_is_read_in_a_thread_that_keeps_no_program_from_its_end(self):
        threads: list[threading.Thread] = []

        def clock() -> datetime:
            threads.append(threading.current_thread())
            return NOW

        known = Registration(name="a", url="http://127.0.0.1:1")
        made = ReaderPool([ReadTarget(known)], {}, ReadSettings(timeout_s=20), clock)
        made.start_more()
        made.next()
        made.end()
        ((name, daemon),) = [(one.name, one.daemon) for one in threads]
        self.assertEqual(("podm", True), (name, daemon))
        self.assertEqual(threads, made._threads)

    def test_one_that_has_ended_is_running_no_longer(self):
        known = Registration(name="a", url="http://127.0.0.1:1")
        made = ReaderPool([ReadTarget(known)], {}, ReadSettings(timeout_s=20), lambda: NOW)
        made.start_more()
        index, found = made.next()
        self.assertEqual((0, "Offline"), (index, found.podm.status))
        self.assertEqual({}, made._running)
        made.end()
