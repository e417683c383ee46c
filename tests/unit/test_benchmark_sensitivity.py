# SPDX-License-Identifier: Apache-2.0
"""The sensitivity benchmark covers each constant of the policies and of their code."""

import ast
import importlib
import unittest
from pathlib import Path

import msgspec

from tests.benchmarks import sensitivity, sites
from tests.benchmarks.trace import built_in

#: Modules with constants that affect decisions, and constants that only affect the computation.
MODULES = ("view.fragmentation", "model.request")
WEIGHERS = ("fragmentation", "tight", "room", "pack", "balance")
NO_DECISION = {"ID_BYTES", "LEAST", "MANY_ROWS", "MOST_GROWTHS", "MOST_MEASURED"}
#: Numbers that limit requests.
LIMITS = ("MAX_", "MIN_")


def numbers(module):
    """Return the names of the constants of a module that are numbers."""
    home = importlib.import_module(module)
    assigned = [one for one in ast.parse(Path(home.__file__).read_text()).body
                if isinstance(one, ast.Assign | ast.AnnAssign)]  # fmt: skip
    names = {
        name.id for one in assigned for name in ast.walk(one) if isinstance(name, ast.Name)
        if isinstance(name.ctx, ast.Store) and name.id.isupper()
    }  # fmt: skip
    return {name for name in names if isinstance(getattr(home, name), int | float)}


class TestConstants(unittest.TestCase):
    """The constants that get other values."""

    def test_every_number_of_the_code_that_decides(self):
        modules = [*MODULES, *(f"weighers.{name}" for name in WEIGHERS)]
        found = set().union(*(numbers(f"valence_sched.{module}") for module in modules))
        found = {name for name in found if not name.startswith(LIMITS)}
        varied = {name for _, name in sensitivity.CONSTANTS}
        self.assertEqual(found, varied | NO_DECISION)

    def test_every_weigher_that_takes_part_in_a_policy(self):
        found = {}
        for name in sensitivity.POLICIES:
            policy = built_in()[name]
            found[name] = {policy.weighers[number].name
                           for number in sensitivity.weighers_that_take_part(policy)}  # fmt: skip
        keeps = "fragmentation"
        expected = {"default": {keeps, "room", "tight"}, "pack": {keeps, "pack", "tight"},
                    "balanced": {keeps, "balance", "room", "tight"},
                    keeps: {keeps, "tight"}}  # fmt: skip
        self.assertEqual(expected, found)
        self.assertEqual({one for some in expected.values() for one in some}, set(WEIGHERS))

    def test_every_weight_and_numeric_option_of_a_policy_half_and_double(self):
        found = [one.name for one in sensitivity.policy_variants(built_in()["balanced"])]
        expected = {
            "weight 4 of fragmentation", "weight 16 of fragmentation",
            "step 0.125 of fragmentation", "step 0.5 of fragmentation",
            "protect true of fragmentation", "weight 1 of balance", "weight 4 of balance",
            "weight 0.5 of room", "weight 2 of room", "weight 1 of tight", "weight 4 of tight",
        }  # fmt: skip
        self.assertEqual(sorted(expected), sorted(found))

    def test_one_value_at_a_time(self):
        for name in sensitivity.POLICIES:
            shipped = built_in()[name]
            for one in sensitivity.policy_variants(shipped):
                with self.subTest(policy=name, variant=one.name):
                    pairs = zip(shipped.weighers, one.policy.weighers, strict=True)
                    ((old, new),) = ((old, new) for old, new in pairs if old != new)
                    before, after = map(msgspec.structs.asdict, (old, new))
                    different = [word for word in before if before[word] != after[word]]
                    self.assertEqual(1, len(different))

    def test_a_scale_changes_alone(self):
        every = sensitivity.policy_variants(built_in()["fragmentation"])
        (one,) = (one for one in every if one.name == "of cores 500 of tight")
        (use,) = (use for use in one.policy.weighers if use.name == "tight")
        self.assertEqual(500.0, use.options["of"].pop("cores"))
        others = {"accelerators": 1.0, "memory_mib": 1e7, "drives": 1e9, "nics": 1e9}
        self.assertEqual(others, use.options["of"])


class TestChanged(unittest.TestCase):
    """A constant of the code has its other value temporarily, and decisions use it."""

    CONSTANT = ("valence_sched.view.fragmentation", "LIGHTER_NODES_FACTOR")

    def value(self):
        module, name = self.CONSTANT
        return getattr(importlib.import_module(module), name)

    def test_it_is_as_before_even_after_an_error(self):
        shipped = self.value()
        with self.assertRaises(ZeroDivisionError), sensitivity.changed((*self.CONSTANT, 7.0)):
            self.assertEqual(7.0, self.value())
            raise ZeroDivisionError
        self.assertEqual(shipped, self.value())

    def test_a_site_is_placed_by_the_other_value(self):
        site, policy = sites.sites()[0], built_in()["fragmentation"]
        shipped = sites.lost(site, policy)
        with sensitivity.changed((*self.CONSTANT, 0.01)):
            self.assertNotEqual(shipped, sites.lost(site, policy))
        self.assertEqual(shipped, sites.lost(site, policy))
