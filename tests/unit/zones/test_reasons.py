# SPDX-License-Identifier: Apache-2.0
"""What zones say of a decision that places nothing, as one zone would say it."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpus, engine_of
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ServiceError, UnknownName
from valence_sched.model.decision import FunnelStep
from valence_sched.testing import request
from valence_sched.zones.result import with_reasons_below

HUGE = request({"processor": {"total_cores": 10_000}})


def refused(*names):
    site = ({"id": name, "blocks": cpus(1)} for name in names)
    return decision_report(engine_of(*site).select_destinations(HUGE))


class TestReasons(unittest.TestCase):
    """Verdicts have the way to their pod manager; steps of funnels add up."""

    def test_children_are_named_and_funnels_add_up(self):
        own, east = refused("a"), refused("b", "c")
        found = with_reasons_below(own, {"east": replace(east, warnings=("it is old",))})
        self.assertEqual(["a", "east/b", "east/c"], [one.podm for one in found.podms])
        self.assertTrue(all(one.reason for one in found.podms))
        self.assertEqual([step.filter for step in own.funnel],
                         [step.filter for step in found.funnel])  # fmt: skip
        self.assertEqual(own.funnel[0].came_in + east.funnel[0].came_in, found.funnel[0].came_in)
        self.assertEqual((3, 3), (found.inventory.podms, found.inventory.blocks))
        self.assertNotIn(found.inventory.digest, (own.inventory.digest, east.inventory.digest))
        self.assertEqual((*own.warnings, "zone east: it is old"), found.warnings)

    def test_what_no_zone_tells_is_said_once_and_what_one_tells_is_not(self):
        line, other = "no pod manager tells 'facts.x' (none is known)", "no pod manager tells 'y'"
        hint = "no pod manager tells 'facts.x' (did you mean 'z'?)"
        for own in (replace(refused("a"), warnings=("old", line, other)), None):
            east = replace(refused("b"), warnings=(hint, "old"))
            west = replace(refused("c"), warnings=(line, other))
            found = with_reasons_below(own, {"east": east, "west": west}).warnings
            self.assertEqual([(line if own else hint)], [one for one in found if "tells" in one])
            self.assertIn("zone east: old", found)

    def test_what_one_zone_lacks_names_it_and_what_all_lack_does_not(self):
        here, there = "no pod manager is in the zone 'x' (did you mean 'y'?)", "no pod manager is"
        there += " in the zone 'x' (none is known)"
        for east, expected in (
            ((), (f"this zone: {here}",)),
            ((there,), (here,)),
            (("no pod manager tells 'z'",), (f"this zone: {here}",)),
        ):
            below = {"east": replace(refused("b"), warnings=east)}
            found = with_reasons_below(replace(refused("a"), warnings=(here,)), below)
            self.assertEqual(expected, found.warnings)

    def test_what_is_undecided_adds_up_as_well(self):
        own, east = refused("a"), refused("b")
        steps = [FunnelStep(filter="fit", came_in=3, went_on=1, undecided=n) for n in (2, 5)]
        own, east = replace(own, funnel=(steps[0],)), replace(east, funnel=(steps[1],))
        (step,) = with_reasons_below(own, {"east": east}).funnel
        self.assertEqual((6, 2, 7), (step.came_in, step.went_on, step.undecided))

    def test_a_router_says_what_its_children_say(self):
        found = with_reasons_below(None, {"east": refused("b")})
        self.assertEqual(["east/b"], [one.podm for one in found.podms])
        self.assertIsNone(with_reasons_below(None, {}))

    def test_a_child_that_says_nothing_is_named_unless_it_has_nothing_of_it(self):
        below = {
            "east": ServiceError("it is away"),
            "west": UnknownName("pod manager", "p", ()),
        }
        found = with_reasons_below(refused("a"), below)
        self.assertEqual(["zone east gives no reasons: it is away"],
                         [line for line in found.warnings if "zone" in line])  # fmt: skip
