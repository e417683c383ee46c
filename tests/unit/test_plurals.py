# SPDX-License-Identifier: Apache-2.0
"""Counts are correct English, also for the number one."""

import ast
import re
import unittest
from collections.abc import Iterator

from tests.unit.structure import Module, every_module
from valence_sched.model.decision import Sensitivity, Shortfall
from valence_sched.model.need import Need
from valence_sched.model.quantity import agree, format_count
from valence_sched.words.decision import sensitivity_line, shortfall_phrase
from valence_sched.words.phrases import need_phrase

PLURAL = re.compile(r" \w+s\b")


class TestPlurals(unittest.TestCase):
    def test_a_count_has_a_singular_for_one_and_commas(self):
        texts = [format_count(number, "node") for number in (0, 1, 2.0, 1000, 1.5)]
        self.assertEqual(["0 nodes", "1 node", "2 nodes", "1,000 nodes", "1.5 nodes"], texts)
        self.assertEqual("1 other fits", format_count(1, "other fits", "others fit"))
        self.assertEqual("2 others fit", format_count(2, "other fits", "others fit"))

    def test_a_label_of_several_agrees_with_one(self):
        for label, expected in (("cores", "core"), ("cores EPYC", "core EPYC"),
                                ("Compute blocks within the limits of blocks",
                                 "Compute block within the limits of blocks"),
                                ("GPU A100", "GPU A100")):  # fmt: skip
            self.assertEqual((expected, label), (agree(1, label), agree(2, label)))

    def test_reasons_needs_and_changes_of_one_core_say_core(self):
        lacks = {number: Shortfall(filter="capacity", label="cores", need=number, have=0, unit="")
                 for number in (1, 2)}  # fmt: skip
        self.assertEqual(("1 core", "2 cores"), tuple(shortfall_phrase(lacks[n]) for n in (1, 2)))
        needs = [Need(kind="processor", measure="cores", amount=number) for number in (1, 2)]
        self.assertEqual(["1 core", "2 cores"], list(map(need_phrase, needs)))
        change = Sensitivity(of="need", name="cores", unit="", was=8, becomes=1, podm="b",
                             pool="p", instead_of="a", instead_of_pool="p")  # fmt: skip
        self.assertEqual("b instead, with 1 core instead of 8", sensitivity_line(change))

    def test_no_text_counts_in_its_own_way(self):
        """A length before a plural is wrong for one; so is a plural in parentheses."""
        self.assertEqual([], [place for one in every_module() for place in _own_ways(one)])


def _own_ways(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and re.search(r"\w\(s\)", str(node.value)):
            yield f"{module.at(node.lineno)}: {node.value!r}"
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                source = ast.unparse(value.value)
                if source.startswith("len(") and PLURAL.match(str(text.value)):
                    yield f"{module.at(node.lineno)}: {source}{text.value}"
