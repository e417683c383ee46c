# SPDX-License-Identifier: Apache-2.0
"""The reader pool by itself: threads that help, pauses, and readers that are overdue."""

import queue
import threading
import unittest
from collections import deque
from datetime import UTC, datetime

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
from valence_sched.drivers.http.tls import TlsContexts
from valence_sched.model.registration import Registration

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def idle() -> ReaderPool:
    return ReaderPool([], {}, ReadSettings(), lambda: NOW)


def reader(timeout_s: float, name: str = "a") -> PodmReader:
    known = Registration(name=name, url="https://h.invalid")
    settings = ReadSettings(timeout_s=timeout_s)
    return PodmReader(ReadTarget(known), settings, NOW, lambda *_: False, TlsContexts())


class TestHelpers(unittest.TestCase):
    """One more thread for one pod manager."""

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
    """How long a result is waited for."""

    def test_it_is_until_the_next_deadline_or_until_more_may_be_begun(self):
        made = idle()
        self.assertEqual(0.05, made._pause_s())
        made._running = {0: reader(900), 1: reader(500)}
        self.assertTrue(490 < made._pause_s() <= 500)
        made._todo.append((2, None))
        self.assertEqual(pool.STALL_S, made._pause_s())
        made._running[2] = reader(-5)
        self.assertEqual(0.01, made._pause_s())


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


class TestBegun(unittest.TestCase):
    """How many are read at once."""

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
                made._start_more()
                self.assertEqual(begun, len(started))

    def test_one_that_has_ended_is_running_no_longer(self):
        known = Registration(name="a", url="http://127.0.0.1:1")
        made = ReaderPool([ReadTarget(known)], {}, ReadSettings(timeout_s=20), lambda: NOW)
        index, found = made.next()
        self.assertEqual((0, "Offline"), (index, found.podm.status))
        self.assertEqual({}, made._running)
        made.end()
