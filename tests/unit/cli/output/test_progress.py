# SPDX-License-Identifier: Apache-2.0
"""The line that a person sees while pod managers are read, and a pipe does not."""

import io
import unittest

from valence_sched_cli.output.progress import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class TestProgress(unittest.TestCase):
    """A line that comes and goes."""

    def setUp(self):
        self.out, self.time = Terminal(), 0.0
        self.show = progress(self.out, lambda: self.time)

    def test_of_live_ones_it_says_how_many_of_how_many_and_who_is_awaited(self):
        self.show(2, 5, "rack-7")
        self.assertEqual(
            "\rread 2 of 5 pod managers, waiting for rack-7\x1b[K", self.out.getvalue()
        )

    def test_when_all_are_read_nobody_is_awaited_and_the_line_goes(self):
        self.show(5, 5, "")
        self.show(None)
        self.assertEqual("\rread 5 of 5 pod managers\x1b[K\r\x1b[K", self.out.getvalue())

    def test_of_files_nothing_is_shown_in_the_first_second(self):
        self.show(256)
        self.show(None)
        self.assertEqual("", self.out.getvalue())
        self.time = 1.5
        self.show(512)
        self.assertEqual("\rread 512 pod managers\x1b[K", self.out.getvalue())

    def test_a_name_cannot_command_the_terminal(self):
        self.show(0, 1, "a\x1b[2Jb")
        self.assertNotIn("\x1b[2J", self.out.getvalue())

    def test_a_pipe_sees_nothing(self):
        pipe = io.StringIO()
        progress(pipe)(2, 5, "rack-7")
        self.assertEqual("", pipe.getvalue())
