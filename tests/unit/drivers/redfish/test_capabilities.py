# SPDX-License-Identifier: Apache-2.0
"""What the documents of a service say that it offers to compose."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_method_choice import NODE
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.methods import (
    CONSTRAINED,
    SPECIFIC,
    ComposeCapabilities,
    UseCase,
    choose_method,
)
from valence_sched.errors import PodmError


def offer(name: str = SPECIFIC, *zones: str, target: str = "", rules: str = "/Rules") -> Any:
    found = {"UseCase": name, "CapabilitiesObject": link(rules), "Links": {}}
    found["Links"] |= {"RelatedItem": links(*zones)} if zones else {}
    found["Links"] |= {"TargetCollection": link(target)} if target else {}
    return found


def offering(*offers: Any, **more: Any) -> dict[str, Any]:
    return {"@Redfish.CollectionCapabilities": {"Capabilities": list(offers)}, **more}


DOCUMENTS = {
    ROOT: {"Systems": link("/S/"), "CompositionService": link("/CS")},
    "/CS": {"ResourceBlocks": link("/B"), "ResourceZones": link("/Z")},
    "/S": {"Members": []}, "/B": {"Members": []}, "/Z": {"Members": links("/Z/a")},
    "/Z/a": {}, "/Rules": {"Name": "rules"},
}  # fmt: skip


class TestCapabilities(unittest.TestCase):
    """What the documents of a service say that it offers."""

    def read(self, **documents: Any) -> ComposeCapabilities:
        found = {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        return methods.read_capabilities(StoredPodm(DOCUMENTS | found))

    def case(self, **documents: Any) -> UseCase:
        (found,) = self.read(**documents).use_cases
        return found

    def test_a_service_without_documents_offers_nothing(self):
        empty = ComposeCapabilities(None, None, False, ())
        self.assertEqual(empty, methods.read_capabilities(StoredPodm({})))
        self.assertEqual(empty, methods.read_capabilities(StoredPodm({ROOT: {}})))

    def test_the_systems_the_action_and_whether_a_zone_can_be_named(self):
        self.assertEqual(ComposeCapabilities("/S", None, False, ()), self.read())
        action = {"#CompositionService.Compose": {"target": "http://host.invalid/Compose/"}}
        found = self.read(CS={"Actions": action, "AllowZoneAffinity": True})
        self.assertEqual(ComposeCapabilities("/S", "/Compose", True, ()), found)

    def test_a_root_that_cannot_be_read_is_an_error(self):
        with self.assertRaisesRegex(PodmError, f"^{ROOT}: HTTP 500, expected a document$"):
            methods.read_capabilities(StoredPodm({ROOT: 500}))

    def test_a_use_case_has_its_target_its_zones_and_its_rules(self):
        stated = offer(SPECIFIC, "http://host.invalid/Z/a", "", target="/T/")
        expected = UseCase(SPECIFIC, "/T", ("/Z/a",), {"Name": "rules"})
        self.assertEqual(expected, self.case(S=offering(stated, Members=[])))

    def test_without_a_target_it_is_the_collection_that_states_it(self):
        for word in ("S", "B", "Z"):
            found = self.case(**{word: offering(offer(), Members=[])})
            self.assertEqual((f"/{word}", ()), (found.target, found.zones))

    def test_a_target_that_cannot_be_read_is_none(self):
        for target in (True, {"x": 1}, "y" * 2000):
            stated = offer() | {"Links": {"TargetCollection": {"@odata.id": target}}}
            self.assertEqual("/S", self.case(S=offering(stated, Members=[])).target)

    def test_what_a_zone_states_holds_in_it_and_leads_to_the_systems(self):
        found = self.case(Z_a=offering(offer(SPECIFIC, "/Z/b", target="/T")))
        self.assertEqual(UseCase(SPECIFIC, "/S", ("/Z/a",), {"Name": "rules"}), found)

    def test_without_systems_it_leads_where_the_zone_says(self):
        documents = DOCUMENTS | {ROOT: {"CompositionService": link("/CS")}}
        documents["/Z/a"] = offering(offer(target="/T"))
        (found,) = methods.read_capabilities(StoredPodm(documents)).use_cases
        self.assertEqual(("/T", ("/Z/a",)), (found.target, found.zones))
        documents["/Z/a"] = offering(offer())
        (found,) = methods.read_capabilities(StoredPodm(documents)).use_cases
        self.assertEqual("", found.target)

    def test_members_of_systems_and_blocks_are_not_read_for_capabilities(self):
        podm = StoredPodm(DOCUMENTS | {"/S": {"Members": links("/S/1")},
                                            "/S/1": offering(offer())})  # fmt: skip
        self.assertEqual((), methods.read_capabilities(podm).use_cases)

    def test_rules_that_are_empty_gone_or_cannot_be_read_make_no_use_case(self):
        for rules in ({}, 404, 500):
            with self.subTest(rules):
                stated = offering(offer(), offer(CONSTRAINED, rules="/Other"), Members=[])
                found = self.read(S=stated, Rules=rules, Other={"Name": "other"})
                self.assertEqual([CONSTRAINED], [one.name for one in found.use_cases])

    def test_a_zone_that_cannot_be_read_leaves_the_others(self):
        found = self.read(Z={"Members": links("/Z/x", "/Z/a")}, Z_x=500, Z_a=offering(offer()))
        self.assertEqual([("/Z/a",)], [one.zones for one in found.use_cases])

    def test_a_use_case_without_a_name_is_read_and_never_chosen(self):
        stated = {"CapabilitiesObject": link("/Rules")}
        found = self.read(S=offering(stated, Members=[]))
        self.assertEqual([""], [one.name for one in found.use_cases])
        self.assertEqual("/S", choose_method(found, NODE).target)

    def test_every_use_case_of_every_place_is_read_in_their_order(self):
        found = self.read(
            S=offering(offer("1"), offer("2"), Members=[]), B=offering(offer("3"), Members=[]),
            Z=offering(offer("4"), Members=links("/Z/a")), Z_a=offering(offer("5")),
        )  # fmt: skip
        self.assertEqual(list("12345"), [one.name for one in found.use_cases])
