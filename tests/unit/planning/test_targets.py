# SPDX-License-Identifier: Apache-2.0
"""Targets: what each condition selects, and the nearest name where nothing is selected."""

import unittest

from tests.unit.planning.sites import racks
from valence_sched.errors import NothingMatches
from valence_sched.model.scenario import parse_target
from valence_sched.planning.targets import find_targets


class TestFindTargets(unittest.TestCase):
    """One site of two pod managers, both with a ``g1``."""

    def found(self, text):
        site = racks()
        lines = []
        for match in find_targets(site.podms, parse_target(text), site.kinds):
            podm = site.podms[match.podm]
            names = [podm.blocks[number].uri.rpartition("/")[2] for number in match.blocks]
            lines.append((podm.id, *sorted(match.pools), *names))
        return lines

    def test_what_is_selected(self):
        for text, lines in (
            ("east", [("east",)]),
            ("East hall", [("east",)]),
            ("*", [("east",), ("west",)]),
            ("*st/*", [("east", "a", "b"), ("west", "all")]),
            ("zone=az*", [("east",), ("west",)]),
            ("aggregate=gold", [("east",)]),
            ("trait=IB", [("east",)]),
            ("pool=*,trait=NVLINK", [("east", "a")]),
            ("status=Unknown", [("west",)]),
            ("enabled=no", [("west",)]),
            ("g1@*", [("east", "g1"), ("west", "g1")]),
            ("/r/g1@west", [("west", "g1")]),
            ("sled 2@east", [("east", "c2")]),
            ("g[12]@east/b", [("east", "g1", "g2")]),
            ("*@west/all", [("west", "c1", "g1")]),
            ("type=Compute", [("east", "c1", "c2"), ("west", "c1")]),
            ("model=a100", [("east", "g1"), ("west", "g1")]),
            ("model=A100,zone=az2", [("west", "g1")]),
            ("kind=GPU,podm=east", [("east", "g1", "g2")]),
            ("free=yes", [("east", "c2", "g2"), ("west", "c1")]),
            ("free=no,type=Expansion", [("east", "g1"), ("west", "g1")]),
            ("block=*,trait=NVLINK", [("east", "c1", "g1")]),
        ):
            with self.subTest(text):
                self.assertEqual(lines, self.found(text))

    def test_a_target_that_selects_nothing_names_the_nearest(self):
        for text, message in (
            ("eats", "no pod manager named 'eats' (did you mean 'east'?)"),
            ("x*", "no pod manager named 'x*' (known: East hall, east, west)"),
            ("east/c", "no pool named 'c' (known: a, b)"),
            ("g11@east", "no block named 'g11' (did you mean 'g1'?)"),
            ("zone=az9", "no pod manager in zone 'az9' (did you mean 'az2'?)"),
            ("aggregate=glod", "no pod manager in aggregate 'glod' (did you mean 'gold'?)"),
            ("trait=NVLINK", "no pod manager with trait 'NVLINK' (known: IB)"),
            ("pool=*,trait=NVLNK", "no pool with trait 'NVLNK' (did you mean 'NVLINK'?)"),
            ("block=*,trait=NVLNK", "no pool with trait 'NVLNK' (did you mean 'NVLINK'?)"),
            ("status=Offline", "no pod manager with status 'Offline' (did you mean 'Online'?)"),
            ("enabled=no,zone=az1", "no pod manager that is disabled"),
            ("model=H100,zone=az2",
             "no block with a device of model 'H100' (known: NVIDIA A100)"),
            ("model=A10",
             "no block with a device of model 'A10' (known: NVIDIA A100, NVIDIA H100)"),
            ("kind=FPGA", "no block with a device of kind 'FPGA' (known: GPU)"),
            ("type=Network", "no block of type 'Network' (known: Compute, Expansion)"),
            ("model=A100,free=yes", "no block that is free"),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(NothingMatches) as caught:
                self.found(text)
            self.assertEqual(message, str(caught.exception))
