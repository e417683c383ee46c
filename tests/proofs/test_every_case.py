# SPDX-License-Identifier: Apache-2.0
"""Every fault, habit, flavor and damaged column, of which the unit tests take every third or so."""

from tests.unit.lifecycle import (
    test_compose,
    test_flavors,
    test_habits,
    test_reconcile,
    test_stored,
)
from tests.unit.store import test_undecodable
from tests.unit.store.engines import on_each_engine


class TestEveryFault(test_compose.TestEachFault):
    cases = test_compose.COMPOSING


class TestEveryHabit(test_habits.TestHabits):
    of_redfish, of_rack = test_habits.REDFISH, test_habits.RACK


class TestEveryAmount(test_habits.TestAmounts):
    cases = test_habits.CASES


class TestEveryFlavor(test_flavors.TestFlavors):
    flavors = tuple(test_flavors.FLAVORS)


class TestEveryColumn(test_stored.TestDamage):
    step = 1


class TestMorePoints(test_reconcile.TestKilled):
    points = ("held", "reserved", "answered", "confirmed", "removed")


@on_each_engine
class TestEveryRow(test_undecodable.TestReading):
    step = 1
