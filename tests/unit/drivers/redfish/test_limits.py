# SPDX-License-Identifier: Apache-2.0
"""How many blocks of each type one node can have, zone by zone."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.limits import Limits, LimitsByZone
from valence_sched.drivers.redfish.schema import Collection, Zone
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Limit

USE_CASE = "ComputerSystemComposition"
ONE = {"Compute": Limit(0, 1), "ComputerSystem": Limit(0, 1)}


def offer(number: int, *zones: str, use_case: str = USE_CASE) -> dict[str, Any]:
    found = {"UseCase": use_case, "CapabilitiesObject": link(f"/Rules/{number}")}
    return found | ({"Links": {"RelatedItem": links(*zones)}} if zones else {})


def stating(*offers: Any) -> dict[str, Any]:
    return {"@Redfish.CollectionCapabilities": {"Capabilities": list(offers)}}


class TestLimits(unittest.TestCase):
    """Limits of a service with the zones /Z/a and /Z/b."""

    def limits(
        self,
        *stated: Any,
        zone: str | None = None,
        of_zone: tuple[Any, ...] = (),
        joined: Any = None,
        blocks: Any = None,
        max_blocks: Any = None,
        offers: tuple[Any, ...] | None = None,
    ) -> Limits:
        """Return what holds in a zone; ``stated`` are the limits of the offers, in turn."""
        documents = {f"/Rules/{number}": {"@Redfish.ResourceBlockLimits": json}
                     for number, json in enumerate(stated)}  # fmt: skip
        self.notes = Diagnostics()
        service = LinkedDocuments(documents.get, self.notes, max_blocks=max_blocks)
        found = offers if offers is not None else tuple(offer(n) for n in range(len(stated)))
        collection = Collection("/S", stating(*found), self.notes)
        by_zone = LimitsByZone(service, [collection], joined or {}, {"/Z/a", "/Z/b"})
        here = zone and Zone(zone, stating(*of_zone), self.notes)
        first = by_zone.of(here, blocks or {})
        self.assertEqual(first, by_zone.of(here, blocks or {}))
        return first

    def test_where_nothing_is_stated_a_node_is_one_system(self):
        self.assertEqual(ONE, self.limits())
        self.assertEqual(ONE, self.limits(zone="/Z/a"))
        self.assertEqual([], self.notes.lines())

    def test_the_least_and_the_most_of_each_type_are_read(self):
        stated = {"MinCompute": 1, "MaxCompute": 2, "MaxStorage": "8", "MinNetwork": 1}
        expected = {"Compute": Limit(1, 2), "Storage": Limit(0, 8), "Network": Limit(1)}
        self.assertEqual(ONE | expected, self.limits(stated))

    def test_a_stated_least_without_a_most_is_the_most_that_is_assumed(self):
        self.assertEqual(ONE | {"Compute": Limit(3, 3)}, self.limits({"MinCompute": 3}))

    def test_the_strictest_of_several_limits_wins(self):
        stated = {"MinStorage": 1, "MaxStorage": 4}, {"MinStorage": 2}, {"MaxStorage": 8}
        self.assertEqual(ONE | {"Storage": Limit(2, 4)}, self.limits(*stated))
        self.assertEqual(ONE | {"Storage": Limit(2, 4)}, self.limits(*reversed(stated)))
        both = [{"MaxStorage": 8}, {"MaxStorage": 6, "MaxNetwork": 0}]
        expected = {"Storage": Limit(0, 6), "Network": Limit(0, 0)}
        self.assertEqual(ONE | expected, self.limits(both))

    def test_limits_of_some_zones_hold_in_these_alone(self):
        offers = offer(0, "/Z/a"), offer(1, "/z/b/")
        stated = {"MaxStorage": 4}, {"MaxStorage": 6}
        for zone, expected in (("/Z/a", Limit(0, 4)), ("/z/b", Limit(0, 6)), (None, None)):
            with self.subTest(zone):
                found = self.limits(*stated, zone=zone, offers=offers)
                self.assertEqual(expected, found.get("Storage"))

    def test_limits_that_apply_to_no_zone_of_blocks_are_noted_and_hold_nowhere(self):
        found = self.limits({"MaxStorage": 4}, zone="/Z/a", offers=(offer(0, "/C/2", "/C/1"),))
        self.assertEqual(ONE, found)
        what = "found /C/1, /C/2, expected a zone of resource blocks (its limits apply to none)"
        where = "/S#/@Redfish.CollectionCapabilities: Links/RelatedItem"
        self.assertEqual([f"{where}: {what}"], self.notes.lines())
        self.limits({"MaxStorage": 4}, offers=(offer(0, "/C/1", "/Z/a"),))
        self.assertEqual([], self.notes.lines())

    def test_a_zone_may_state_its_own(self):
        found = self.limits({"MaxStorage": 4, "MaxNetwork": 2}, zone="/Z/a", of_zone=(offer(0),),
                            offers=())  # fmt: skip
        self.assertEqual(ONE | {"Storage": Limit(0, 4), "Network": Limit(0, 2)}, found)

    def test_limits_of_other_use_cases_are_none_and_those_behind_them_hold(self):
        offers = offer(0, use_case="VolumeCreation"), offer(1, use_case=USE_CASE.upper())
        found = self.limits({"MaxStorage": 1}, {"MaxStorage": 4}, offers=offers)
        self.assertEqual(ONE | {"Storage": Limit(0, 4)}, found)

    def test_a_limit_that_cannot_be_read_is_noted_where_it_stands(self):
        self.assertEqual(ONE, self.limits({"MaxStorage": "many"}))
        where = "/Rules/0#/@Redfish.ResourceBlockLimits: MaxStorage"
        self.assertEqual([f"{where}: found 'many', expected a number"], self.notes.lines())

    def test_rules_that_are_missing_are_noted_with_what_links_them(self):
        self.assertEqual(ONE, self.limits(offers=(offer(7),)))
        line = "/Rules/7: found no such document, expected it: /S links it"
        self.assertEqual([line], self.notes.lines())

    def test_as_many_as_a_composed_system_has_are_assumed_where_there_are_so_many(self):
        for joined, there, most in ((2, 2, 2), (3, 2, 3), (2, 1, 1), (1, 5, 1), (0, 5, 1)):
            with self.subTest(joined=joined, there=there):
                found = self.limits(joined={"Compute": joined}, blocks={"Compute": there})
                self.assertEqual(ONE | {"Compute": Limit(0, most)}, found)
                size = f"{joined} Compute blocks"
                what = f"found a composed system of {size} and no maximum of them"
                line = f"{what} (assumed: at most {joined} in a node)"
                self.assertEqual([line] if most > 1 else [], self.notes.lines())

    def test_a_stated_most_is_not_widened_by_what_is_composed(self):
        found = self.limits({"MaxCompute": 1}, joined={"Compute": 2}, blocks={"Compute": 4})
        self.assertEqual((ONE, []), (found, self.notes.lines()))

    def test_what_the_operator_says_is_assumed_in_any_case(self):
        words = {"joined": {"Compute": 2}, "blocks": {"Compute": 4}, "max_blocks": {"Compute": 8}}
        self.assertEqual(ONE | {"Compute": Limit(0, 8)}, self.limits(**words))
        self.assertEqual([], self.notes.lines())
        self.assertEqual(ONE, self.limits({"MaxCompute": 1}, **words))
