# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: what a room is, what a sample is, and which mutants do not count."""

import importlib.util
import re
import tomllib
import unittest
from pathlib import Path

from tests.mutants.reached import Reached
from tests.unit.structure import ROOT, every_module

LIST = ROOT / "tests" / "mutants" / "equivalent.toml"
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)


def spaceless(text: str) -> str:
    return re.sub(r"\s", "", text)


class TestRoom(unittest.TestCase):
    """Which files are changed, and which tests have to notice."""

    def test_a_room_within_a_room_is_another(self):
        core, fit = mutants.Room("core"), mutants.Room("core/fit")
        self.assertEqual(["explain", "fit"], core.inner)
        self.assertIn(Path("valence_sched/core/ranking.py"), core.modules)
        self.assertNotIn(Path("valence_sched/core/fit/fit.py"), core.modules)
        self.assertIn(Path("valence_sched/core/fit/fit.py"), fit.modules)
        self.assertEqual(Path("tests/unit/core/fit"), fit.tests)

    def test_migrations_are_left_out(self):
        modules = mutants.Room("store").modules
        self.assertIn(Path("valence_sched/store/claims.py"), modules)
        self.assertEqual([], [path for path in modules if "migrations" in path.parts])

    def test_a_module_is_tested_by_its_room(self):
        ranking = mutants.Room("core/ranking")
        self.assertEqual([Path("valence_sched/core/ranking.py")], ranking.modules)
        self.assertEqual(Path("tests/unit/core"), ranking.tests)
        self.assertEqual(["explain", "fit"], ranking.inner)


class TestDecorators(unittest.TestCase):
    """mutmut changes no function that has a decorator."""

    SOURCE = """\
import functools

def twice(function):
    return lambda *args: 2 * function(*args)

@twice
@functools.lru_cache(
    maxsize=None
)
def five() -> int:
    # a comment
    return 5


class Pair:
    left = 1

    @property
    def right(self):
        return self.left + five()

    @staticmethod
    def name(): return "pair"
    @property
    def size(self): return self._size
    @size.setter
    def size(self, value): self._size = value
"""

    def test_they_become_calls_below_it_that_do_the_same(self):
        changed = mutants.without_decorators(self.SOURCE)
        self.assertNotIn("@twice", changed)
        self.assertIn("    right = property(right)\n", changed)
        for source in (self.SOURCE, changed):
            names = {}
            exec(source, names)
            pair = names["Pair"]()
            pair.size = 3
            self.assertEqual((10, 11, "pair", 3),
                             (names["five"](), pair.right, pair.name(), pair.size))  # fmt: skip

    def test_what_mutmut_changes_and_what_has_two_definitions_stays_as_it_is(self):
        changed = mutants.without_decorators(self.SOURCE)
        for decorator in ("@staticmethod", "@size.setter"):
            self.assertIn(decorator, changed)

    def test_each_module_stays_python(self):
        for module in every_module():
            with self.subTest(module.name):
                compile(mutants.without_decorators(module.path.read_text()), module.name, "exec")


class TestSample(unittest.TestCase):
    """A sample is the same each time, and is told as one."""

    NAMES = tuple(f"x__mutmut_{number}" for number in range(200))

    def test_it_is_some_of_all_in_their_order_and_the_same_each_time(self):
        drawn = mutants.drawn([*self.NAMES], 50)
        self.assertEqual(50, len(set(drawn)))
        self.assertEqual(drawn, [name for name in self.NAMES if name in set(drawn)])
        self.assertEqual(drawn, mutants.drawn([*self.NAMES], 50))
        self.assertNotEqual([*self.NAMES[:50]], drawn)

    def test_all_are_drawn_where_there_are_no_more_or_no_number_is_given(self):
        self.assertEqual([*self.NAMES], mutants.drawn([*self.NAMES], 500))
        self.assertEqual([*self.NAMES], mutants.drawn([*self.NAMES], None))

    def test_the_score_counts_only_what_was_tried_and_is_not_equivalent(self):
        sample = mutants.Score("a.py", mutants=200, tried=50, killed=36, by_time=1, equivalent=10)
        self.assertEqual((4, 0.9), (sample.alive, sample.score))
        self.assertTrue(str(sample).endswith("90.0%  a sample of 50"))
        self.assertTrue(str(sample._replace(mutants=50)).endswith("90.0%"))
        self.assertEqual(1.0, mutants.Score("a.py", 10, 0, 0, 0, 0).score)


class TestReached(unittest.TestCase):
    """Which functions a test has reached."""

    def test_a_thread_may_reach_more_while_they_are_read(self):
        reached = Reached(["a", "b"])
        seen = []
        for name in reached:
            seen.append(name)
            reached.add(f"{name} of a thread that has outlived its test")
        self.assertEqual(["a", "b"], sorted(seen))
        self.assertEqual(4, len(reached))
        reached.clear()
        self.assertEqual([], [*reached])


class TestEquivalents(unittest.TestCase):
    """What ``make mutants`` does not count."""

    ENTRIES = tomllib.loads(LIST.read_text()).get("equivalent", [])

    def test_each_is_about_a_line_that_is_there_and_has_a_reason(self):
        modules = {module.name: module.path.read_text() for module in every_module()}
        for entry in self.ENTRIES:
            with self.subTest(entry["function"], line=entry["line"]):
                name = max((name for name in modules if entry["function"].startswith(f"{name}.")),
                           key=len)  # fmt: skip
                source = modules[name]
                function = f"def {entry['function'].rpartition('.')[2]}("
                self.assertTrue(function in source, "no such function")
                there = spaceless(entry["line"]) in spaceless(source)
                self.assertTrue(there, "no such line")
                self.assertTrue(entry["changes"])
                self.assertNotIn(entry["line"], entry["changes"])
                self.assertGreater(len(entry["reason"].split()), 3)

    def test_a_pattern_makes_only_what_it_finds_equivalent(self):
        everywhere = mutants.patterns()
        for line, change, equivalent in (
            ("zip(a, b, strict=True)", "zip(a, b, )", True),
            ("zip(a, b, strict=True)", "zip(a, b, strict=False)", True),
            ("zip(a, b, strict=True)", "zip(a, None, strict=True)", False),
            ("zip(a, b, strict=True)", "zip(a, strict=True)", False),
            ("f(a, b)", "f(a, )", False),
            ('float("inf")', 'float("INF")', True),
            ('float("inf")', 'float("XXinfXX")', False),
            ('"PRAGMA integrity_check(10)"', '"pragma integrity_check(10)"', True),
            ('"PRAGMA integrity_check(10)"', '"XXPRAGMA integrity_check(10)XX"', False),
        ):
            with self.subTest(change):
                mutant = mutants.Mutant("f", line, change)
                self.assertEqual(equivalent, mutants.differs_only_by(everywhere, mutant))

    def test_none_stands_twice(self):
        keys = [(one["function"], one["line"], change)
                for one in self.ENTRIES for change in one["changes"]]  # fmt: skip
        self.assertEqual(sorted(set(keys)), sorted(keys))
