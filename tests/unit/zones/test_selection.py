# SPDX-License-Identifier: Apache-2.0
"""Selections in rounds: zones that fall silent midway, and time that is over."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpus
from tests.unit.zones.test_tree_as_flat import CORES, decider
from valence_sched.errors import SchedulerError, UnknownName
from valence_sched.model.group import Group
from valence_sched.model.request import Request
from valence_sched.zones.selection import ZoneSelection
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree

ASKED = Request(needs=(CORES,), count=3, min_count=0, policy="chance")


def podm(name: str, **fields) -> dict:
    return {"id": name, "blocks": cpus(1, 16), **fields}


class FlakyZone:
    """A zone that answers so many times, and then no more; it counts how often it is asked."""

    def __init__(self, zone, answers):
        self._zone, self._answers, self.asked = zone, answers, 0

    def offers(self, query):
        return self._answer(self._zone.offers, query)

    def group_state(self, query):
        return self._answer(self._zone.group_state, query)

    def _answer(self, ask, query):
        self.asked += 1
        if self.asked > self._answers:
            raise SchedulerError("gone")
        return ask(query)


def leaf(name: str, *podms: dict) -> ZoneTree:
    return ZoneTree(name, Tokens([name], name), decider(list(podms)))


def top(**zones) -> ZoneTree:
    return ZoneTree("top", Tokens(["top"], "top"), None,
                    [ChildZone(name, zone) for name, zone in zones.items()])  # fmt: skip


class TestLostZones(unittest.TestCase):
    """A zone that gives no answer any more has no node in the decision, if it had one in mind."""

    def setUp(self):
        self.decider = decider([podm("a1"), podm("a2"), podm("b1"), podm("b2")])

    def selection(self, zone, asked=ASKED, **words) -> ZoneSelection:
        policy = next(one for one in self.decider.policies() if one.name == asked.policy)
        return ZoneSelection(zone, policy, self.decider.seal(asked), **words)

    def chosen(self, selected) -> list[str]:
        return [one.chosen.candidate.podm for one in selected.nodes]

    def test_the_decision_is_the_one_of_the_zones_that_are_left(self):
        """S70: for each moment at which the zone can be lost."""
        alone = self.selection(top(b=leaf("b", podm("b1"), podm("b2")))).nodes()
        self.assertEqual(2, len(alone.nodes))
        for answers in (0, 1, 2):
            with self.subTest(answers):
                flaky = FlakyZone(leaf("a", podm("a1"), podm("a2")), answers)
                zones = top(a=flaky, b=leaf("b", podm("b1"), podm("b2")))
                selected = self.selection(zones).nodes()
                self.assertEqual(["a"], list(selected.silent))
                self.assertEqual(answers + 1, flaky.asked)
                if any(one.chosen.zone == "a" for one in selected.nodes):
                    continue  # it was lost after its last node
                self.assertEqual(self.chosen(alone), self.chosen(selected))

    def test_a_group_is_never_split_by_a_zone_that_is_lost(self):
        """What a lost node would forbid is not known: none is counted, and none is placed."""
        group = Group(name="g", anti_affinity=("facts.rack",))
        asked = replace(ASKED, group=group, policy="default")
        fact = {"rack": "r1"}
        flaky = FlakyZone(leaf("a", podm("a1", facts=fact)), 2)
        zones = top(a=flaky, b=leaf("b", podm("b1", facts=fact), podm("b2", facts={"rack": "r2"})))
        selected = self.selection(zones, asked).nodes()
        self.assertEqual({"b1", "b2"}, set(self.chosen(selected)))
        self.assertEqual("gone", selected.silent["a"].reason)

    def test_time_that_is_over_ends_no_round(self):
        """Each query has what is left of the deadline, and never none."""
        ticks = iter(range(1000))
        deadlines = []

        class Zone:
            def offers(self, query):
                deadlines.append(query.deadline_s)
                return inner.offers(query)

        inner = top(b=leaf("b", podm("b1"), podm("b2"), podm("b3")))
        selected = self.selection(Zone(), deadline_s=2.0, clock=lambda: next(ticks)).nodes()
        self.assertEqual(3, len(selected.nodes))
        self.assertEqual([1.0, 0.001, 0.001], deadlines)

    def test_a_pod_manager_that_no_zone_has_is_an_error_only_if_all_answer(self):
        asked = replace(ASKED, podms=("b1", "nowhere"), policy="default")
        zones = {"b": leaf("b", podm("b1"))}
        with self.assertRaises(UnknownName):
            self.selection(top(**zones), asked).nodes()
        zones["a"] = FlakyZone(leaf("a", podm("a1")), 0)
        self.assertEqual(["b1"], self.chosen(self.selection(top(**zones), asked).nodes()))
