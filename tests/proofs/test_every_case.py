# SPDX-License-Identifier: Apache-2.0
"""Every fault, habit, flavor and damaged column, or every sixth without ``VALENCE_SCHED_SOAK``.

The unit tests of the same rooms take about every tenth.
"""

import os
import unittest
from collections.abc import Callable

from tests.unit.lifecycle import test_change, test_compose, test_flavors, test_habits, test_stored
from tests.unit.store import test_undecodable
from tests.unit.store.engines import on_each_engine

STEP = 1 if os.environ.get("VALENCE_SCHED_SOAK") else 6


def only(word: str) -> Callable[[type], type]:
    """Keep only the inherited tests of a case that have a word in their names."""

    def leave(case: type) -> type:
        for name in dir(case):
            if name.startswith("test_") and word not in name:
                setattr(case, name, None)
        return case

    return leave


class TestEveryFault(test_compose.TestEachFault):
    cases = test_compose.COMPOSING[::STEP]


class TestEveryRemoval(test_compose.TestRemoving):
    step = STEP


@only("made_counted")
class TestEveryHabit(test_habits.TestHabits):
    of_redfish, of_rack = test_habits.REDFISH[::STEP], test_habits.RACK[::STEP]


@only("made_whole")
class TestEveryAmount(test_habits.TestAmounts):
    cases = test_habits.CASES[::STEP]


class TestEveryFlavor(test_flavors.TestFlavors):
    flavors = tuple(test_flavors.FLAVORS)


class TestEveryColumn(test_stored.TestDamage):
    step = STEP


@only("may_die")
class TestEveryDeath(test_change.TestUncertainty):
    step = -(-STEP // 3)


class TestEveryHistory(test_stored.FollowerProperty, unittest.TestCase):
    pass


@on_each_engine
@only("_of_its_own")
class TestEveryColumnOfPodms(test_undecodable.TestReading):
    step = STEP


@on_each_engine
@only("left_out_named")
class TestEveryRow(test_undecodable.TestReading):
    step = STEP
