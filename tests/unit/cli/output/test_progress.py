# SPDX-License-Identifier: Apache-2.0
"""The progress line: when it appears, when it is erased, and how other output interrupts it."""

import io
import logging
import threading
import unittest
from unittest import mock

from valence_sched.model.diagnostic import Awaited
from valence_sched_cli.output.progress import ProgressLine, terminal_progress

ERASED, SHOWN_AGAIN = "\x1b[2K", "\x1b[?25h"


class Terminal(io.StringIO):
    """A terminal on which a test can wait for a text."""

    encoding = "utf-8"

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def isatty(self):
        return True

    def write(self, text):
        with self.changed:
            self.changed.notify_all()
            return super().write(text)

    def wait_for(self, text):
        with self.changed:
            if not self.changed.wait_for(lambda: text in self.getvalue(), timeout=30):
                raise AssertionError(f"no {text!r} in {self.getvalue()!r}")


class Ascii(Terminal):
    encoding = "ascii"


class Gone(Terminal):
    """A closed terminal."""

    def write(self, text):
        super().write(text)
        raise OSError("gone")


class LateLock:
    """A lock that one thread acquires only after ``go``."""

    def __init__(self, name):
        self.name, self.lock = name, threading.RLock()
        self.is_late, self.go = threading.Event(), threading.Event()

    def __enter__(self):
        if threading.current_thread().name == self.name:
            self.is_late.set()
            self.go.wait(30)
        return self.lock.__enter__()

    def __exit__(self, *words):
        return self.lock.__exit__(*words)


class TestProgressLine(unittest.TestCase):
    """The line with a test clock, and without the delay of a second."""

    def line(self, out, delay_s=0.0):
        self.time = 0.0
        line = ProgressLine(out, delay_s, lambda: self.time)
        self.addCleanup(line.close)
        return line

    def setUp(self):
        self.enterContext(mock.patch.dict("os.environ", {"TERM": "xterm-256color"}))
        self.out = Terminal()

    def test_it_says_since_when_and_goes_without_a_trace(self):
        line = self.line(self.out)
        line.count_podms(2, 5, ["rack-7"])
        self.time = 12.0
        self.out.wait_for("12s: read 2 of 5 pod managers, waiting for rack-7 and 2 more")
        line.close()
        self.assertGreater(self.out.getvalue().rindex(ERASED), self.out.getvalue().rindex("rack-7"))
        self.assertIn(SHOWN_AGAIN, self.out.getvalue())

    def test_what_ends_sooner_is_never_shown(self):
        line = self.line(self.out, delay_s=3600)
        line.begin("rack-7", "reading")
        line.finish("rack-7")
        line.close()
        self.assertEqual("", self.out.getvalue())
        self.assertEqual([], [one for one in threading.enumerate() if one.name == "Timer"])

    def test_what_follows_is_shown_on_the_same_line(self):
        line = self.line(self.out)
        line.begin("node a on rack-7", "allocating")
        self.out.wait_for("allocating")
        line.finish("node a on rack-7")
        line.begin("rack-7", "reading")
        self.out.wait_for("rack-7: reading")
        self.assertNotIn(SHOWN_AGAIN, self.out.getvalue())

    def test_a_log_record_takes_its_place_and_it_comes_again(self):
        handler = logging.StreamHandler(self.out)
        logging.getLogger().addHandler(handler)
        self.addCleanup(logging.getLogger().removeHandler, handler)
        line = self.line(self.out)
        line.begin("rack-7", "reading")
        self.out.wait_for("reading")
        line.begin("rack-7", "deleting")
        logging.getLogger("valence_sched").warning("told")
        before = self.out.getvalue().partition("told\n")[0]
        self.assertTrue(before.endswith(ERASED), before)
        self.out.wait_for("told\n")
        self.out.wait_for("deleting")
        line.close()
        self.assertEqual([], handler.filters)

    def test_a_second_command_of_one_program_begins_anew(self):
        line = self.line(self.out)
        line.begin("rack-7", "reading")
        self.out.wait_for("reading")
        line.close()
        self.time = 50.0
        line.begin("rack-8", "deleting")
        self.out.wait_for("0s: rack-8: deleting")
        self.assertNotIn("rack-7", self.out.getvalue().partition(SHOWN_AGAIN)[2])

    def test_work_that_begins_while_the_line_appears_shows_no_second_line(self):
        line = self.line(self.out)
        line._lock = lock = LateLock("late")
        late = threading.Thread(target=line.begin, args=("rack-8", "reading"), name="late")
        late.start()
        lock.is_late.wait()
        line.begin("rack-7", "reading")
        self.out.wait_for("rack-7: reading")
        lock.go.set()
        late.join()
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        line.close()
        for thread in threading.enumerate():
            if type(thread).__name__ == "_RefreshThread":  # of a line of rich
                thread.join(5)
                self.assertFalse(thread.is_alive())

    def test_a_name_is_no_markup(self):
        line = self.line(self.out)
        line.begin("[red]rack[/red] :bug:", "reading")
        self.out.wait_for("[red]rack[/red] :bug:: reading")

    def test_a_terminal_without_unicode_gets_what_it_can_show(self):
        out = Ascii()
        line = self.line(out)
        line.begin("räck", "reading")
        out.wait_for("r?ck: reading")
        self.assertTrue(out.getvalue().isascii())

    def test_a_terminal_that_is_gone_ends_nothing(self):
        out = Gone()
        line = self.line(out)
        line.begin("rack-7", "reading")
        out.wait_for("reading")
        line.close()

    def test_only_a_terminal_whose_cursor_moves_has_one(self):
        self.assertIsInstance(terminal_progress(self.out), ProgressLine)
        self.assertIsNone(terminal_progress(io.StringIO()))
        for term in ("dumb", "unknown", ""):
            with mock.patch.dict("os.environ", {"TERM": term}):
                self.assertIsNone(terminal_progress(self.out))


WIDE = 200


class TestAwaited(unittest.TestCase):
    def setUp(self):
        self.awaited = Awaited()

    def test_nothing_is_said_of_nothing(self):
        self.assertEqual(("", False), (self.awaited.text(WIDE), bool(self.awaited)))
        self.awaited.count = (1, 2, ["a"])
        self.awaited.count = None
        self.awaited.activities["a"] = "reading"
        self.awaited.activities.pop("a")
        self.assertEqual(("", False), (self.awaited.text(WIDE), bool(self.awaited)))

    def test_recorded_ones_are_only_counted(self):
        self.awaited.count = (1512, None, ())
        self.assertEqual("read 1,512 pod managers", self.awaited.text(WIDE))

    def test_those_that_have_not_answered_are_named(self):
        for names, words in (
            (["a"], "a"),
            (["a", "b"], "a and b"),
            (["a", "b", "c"], "a, b and c"),
        ):
            self.awaited.count = (5 - len(names), 5, names)
            text = f"read {5 - len(names)} of 5 pod managers, waiting for {words}"
            self.assertEqual(text, self.awaited.text(WIDE))
        self.awaited.count = (5, 5, [])
        self.assertEqual("read 5 of 5 pod managers", self.awaited.text(WIDE))

    def test_those_that_do_not_fit_are_a_number(self):
        self.awaited.count = (2, 1005, ["rack-1", "rack-2", "rack-3"])
        start = "read 2 of 1,005 pod managers, waiting for"
        for width, text in (
            (WIDE, f"{start} rack-1, rack-2, rack-3 and 1,000 more"),
            (75, f"{start} rack-1, rack-2 and 1,001 more"),
            (60, "read 2 of 1,005, waiting for rack-1 and 1,002 more"),
            (10, "read 2 of 1,005, waiting for rack-1 and 1,002 more"),
        ):
            with self.subTest(width):
                self.assertEqual(text, self.awaited.text(width))

    def test_what_is_done_goes_before_what_is_counted(self):
        self.awaited.count = (1, None, ())
        self.awaited.activities["node a on rack-1"] = "allocating"
        self.awaited.activities["node a on rack-1"] = "assembling"
        self.assertEqual("node a on rack-1: assembling", self.awaited.text(WIDE))
        self.awaited.activities["node b on rack-2"] = "checking"
        both = "node a on rack-1: assembling and node b on rack-2: checking"
        self.assertEqual(both, self.awaited.text(WIDE))
        self.assertEqual("node a on rack-1: assembling and 1 more", self.awaited.text(50))

    def test_a_long_name_is_cut(self):
        self.awaited.count = (0, 1, ["x" * 100])
        self.assertIn(f"waiting for {'x' * 39}…", self.awaited.text(WIDE))
