# SPDX-License-Identifier: Apache-2.0
"""The cells of nodes and of heat maps."""

import io
import re
import unittest
from unittest import mock

from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.lifecycle import NodeStatus
from valence_sched_cli.output.cells import HeatCell, heat_table, supports_colour
from valence_sched_cli.output.hardware import BarCell, node_hardware_cell

GPU = Devices(accelerators=(Accelerator(kind="GPU", model="A100"),))


class TestHardware(unittest.TestCase):
    def test_amounts_and_blocks_that_are_not_known_are_told(self):
        node = ComposedNode(id="n", podm="p", uri="/n", claim="c",
                            grants=(Grant("m", 64.0, "memory", "GiB"),))  # fmt: skip
        cell = node_hardware_cell(NodeStatus(node=node, state="COMPOSED", devices=GPU,
                                           unknown_blocks=2))  # fmt: skip
        self.assertEqual("1 GPU A100, 64 GiB memory, 2 blocks unknown",
                         " ".join(cell.human_readable().split()))  # fmt: skip
        told = cell.machine_readable()
        self.assertEqual((2, 64.0), (told["unknown_blocks"], told["amounts"][0]["amount"]))
        node = ComposedNode(id="n", podm="p", uri="/n", claim="c")
        bare = node_hardware_cell(NodeStatus(node=node, state="COMPOSED"))
        self.assertEqual(("", {}), (bare.human_readable(), bare.machine_readable()))

    def test_a_bar_is_in_the_colour_of_what_is_free_and_its_words_are_plain(self):
        with mock.patch.dict("os.environ", {"COLORTERM": "truecolor"}):
            cell = BarCell(1, 4)
            text = cell.human_readable()
            self.assertEqual("[########--] 1 of 4 free", text)
            coloured = cell.coloured(text)
        self.assertEqual(text, re.sub("\x1b[^m]*m", "", coloured))
        self.assertRegex(coloured, "^\\[\x1b[^m]*m########\x1b\\[0m--] 1 of 4 free$")
        for free, total in ((4, 4), (None, 4), (0, 0), (0, None)):
            whole = BarCell(free, total)
            self.assertEqual(whole.human_readable(), whole.coloured(whole.human_readable()))


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class TestHeat(unittest.TestCase):
    """Heat on a terminal with many colours."""

    def setUp(self):
        self.environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80"}
        patched = mock.patch.dict("os.environ", self.environ, clear=True)
        patched.start()
        self.addCleanup(patched.stop)

    def background(self, heat):
        (seen,) = re.findall(r"48;2;(\d+);(\d+);", heat_table(("A",), [(HeatCell("x", heat),)]))
        return tuple(map(int, seen))

    def test_a_terminal_gets_colours_and_a_pipe_does_not(self):
        self.assertTrue(supports_colour(Terminal()))
        self.assertFalse(supports_colour(io.StringIO()))
        self.assertFalse(supports_colour(object()))

    def test_an_objection_counts(self):
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")):
            with self.subTest(name=name), mock.patch.dict("os.environ", {name: value}):
                self.assertFalse(supports_colour(Terminal()))
        with mock.patch.dict("os.environ", {"NO_COLOR": ""}):  # unset: no-color.org
            self.assertTrue(supports_colour(Terminal()))

    def test_0_is_red_and_1_is_green_and_beyond_is_no_more(self):
        self.assertEqual((240, 60), self.background(0.0))
        self.assertEqual((60, 210), self.background(1.0))
        self.assertEqual((240, 210), self.background(0.5))
        self.assertEqual(self.background(1.0), self.background(7.0))
        self.assertEqual(self.background(0.0), self.background(-1.0))

    def test_each_terminal_gets_its_own_colours(self):
        with mock.patch.dict("os.environ", {"COLORTERM": ""}):
            self.assertIn("48;5;", heat_table(("A",), [(HeatCell("x", 0.25),)]))
        self.background(0.25)

    def test_a_cell_without_temperature_has_no_background(self):
        self.assertNotIn("48;2", heat_table(("A",), [("x",)]))

    def test_words_in_brackets_and_escape_codes_of_others_are_plain_text(self):
        text = heat_table(("A",), [("[red]x[/red]",), ("y\x1b[2J",)])
        self.assertIn("[red]x[/red]", text)
        self.assertIn("y\\u001b[2J", text)
