# SPDX-License-Identifier: Apache-2.0
"""Requirements of a service on compositions, and early refusals of impossible requests."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_composer import EXAMPLE as NODE
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.methods import (
    CONSTRAINED,
    SPECIFIC,
    ComposeCapabilities,
    ComposeWrite,
    UseCase,
    choose_write,
    device_templates,
)
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor

REQUIRED, OPTIONAL = "@Redfish.RequiredOnCreate", "@Redfish.OptionalOnCreate"
ALLOWED, COUNT = "@Redfish.AllowableValues", "@Redfish.RequestedCount"
CPUS = Devices(processors=(Processor(count=2, cores=16, model="X"),))
CHOICE = CompositionRequest(name="vs-1", pool="/Z/a", blocks=("/B/1", "/B/2"), devices=CPUS)
BLOCKS = {"Name": "vs-1", "Links": {"ResourceBlocks": links("/B/1", "/B/2")}}


def manifest(kind: str, **more: str) -> dict[str, Any]:
    stanza = {"StanzaType": "ComposeSystem", "StanzaId": "node", "Request": BLOCKS}
    return {"RequestFormat": "Manifest", "RequestType": kind,
            "Manifest": {"Expand": "None", "Stanzas": [stanza]}, **more}  # fmt: skip


def capabilities(
    *cases: UseCase, systems: str | None = "/S", action: str | None = None, affinity: bool = False
) -> ComposeCapabilities:
    return ComposeCapabilities(systems, action, affinity, cases)


def case(name: str = SPECIFIC, *zones: str, target: str = "/T", **rules: Any) -> UseCase:
    return UseCase(name, target, zones, rules)


class TestTemplates(unittest.TestCase):
    """The body of a constrained composition."""

    def only(self, rules: dict[str, Any], **kinds: Any) -> Any:
        return device_templates(Devices(**kinds), rules)

    def test_each_kind_of_device_is_asked_for_by_all_that_is_known_of_it(self):
        rules = {"Processors": {}, "Memory": {}, "EthernetInterfaces": {}, "Storage": {}}
        devices = Devices(
            processors=(Processor(count=2, cores=16, model="X"),),
            accelerators=(Accelerator(kind="GPU", count=4, model="A100"),),
            memory=(Memory(count=8, capacity_mib=1024, type="DDR5"),),
            drives=(
                Drive(count=3, capacity_bytes=10**12, media="SSD", protocol="NVMe"),
                Drive(count=1, capacity_bytes=10**9),
            ),
            nics=(Nic(count=1, speed_mbps=25000),),
        )
        cpu = {COUNT: 2, "ProcessorType": "CPU", "TotalCores": 16, "Model": "X"}
        gpu = {COUNT: 4, "ProcessorType": "GPU", "Model": "A100"}
        ram = {COUNT: 8, "MemoryType": "DRAM", "MemoryDeviceType": "DDR5", "CapacityMiB": 1024}
        ssd = {COUNT: 3, "CapacityBytes": 10**12, "MediaType": "SSD", "Protocol": "NVMe"}
        expected = {
            "Processors": {"Members": [cpu, gpu]},
            "Memory": {"Members": [ram]},
            "EthernetInterfaces": {"Members": [{COUNT: 1, "SpeedMbps": 25000}]},
            "Storage": {
                "Members": [{COUNT: 1, "Drives": [ssd, {COUNT: 1, "CapacityBytes": 10**9}]}]
            },
        }
        self.assertEqual(expected, device_templates(devices, rules))

    def test_drives_are_simple_storage_only_where_that_alone_is_offered(self):
        drive = Drive(count=1, capacity_bytes=5)
        simple = {"Members": [{COUNT: 1, "Devices": [{COUNT: 1, "CapacityBytes": 5}]}]}
        storage = {"Members": [{COUNT: 1, "Drives": [{COUNT: 1, "CapacityBytes": 5}]}]}
        for rules, expected in (
            ({"SimpleStorage": {}}, {"SimpleStorage": simple}),
            ({"SimpleStorage": {}, "Storage": {}}, {"Storage": storage}),
            ({"Processors": {}}, "the service cannot compose Storage by properties"),
        ):
            with self.subTest(rules):
                self.assertEqual(expected, self.only(rules, drives=(drive,)))

    def test_a_template_that_names_properties_is_given_no_others(self):
        cpu = Processor(count=1, cores=8, model="X", speed_mhz=3000)
        for member, expected in (
            ({f"TotalCores{OPTIONAL}": True}, {"TotalCores": 8}),
            ({f"Model{REQUIRED}": True, f"MaxSpeedMHz{OPTIONAL}": True},
             {"Model": "X", "MaxSpeedMHz": 3000}),
            ({f"TotalCores{ALLOWED}": [8]},
             {"ProcessorType": "CPU", "TotalCores": 8, "Model": "X", "MaxSpeedMHz": 3000}),
        ):  # fmt: skip
            with self.subTest(member):
                found = self.only({"Processors": {"Members": [member]}}, processors=(cpu,))
                self.assertEqual({"Processors": {"Members": [{COUNT: 1, **expected}]}}, found)

    def test_only_the_first_member_is_the_template_and_other_shapes_are_none(self):
        whole = {COUNT: 1, "ProcessorType": "CPU", "TotalCores": 8}
        cut = {f"TotalCores{OPTIONAL}": True}
        for rule, expected in (
            ({"Members": [cut, {f"Model{REQUIRED}": True}]}, {COUNT: 1, "TotalCores": 8}),
            ({"Members": []}, whole),
            ({"Members": cut}, whole),
            ({"Members": ["x"]}, whole),
            ([cut], whole),
            (None, whole),
        ):
            with self.subTest(rule):
                found = self.only({"Processors": rule}, processors=(Processor(count=1, cores=8),))
                self.assertEqual({"Processors": {"Members": [expected]}}, found)

    def test_what_is_required_and_unknown_is_named_with_its_kind(self):
        member = {f"{key}{REQUIRED}": True for key in ("TotalThreads", "Model", "TotalCores")}
        found = self.only({"Processors": {"Members": [member]}},
                          processors=(Processor(count=1, cores=8),))  # fmt: skip
        self.assertEqual("Processors: required but unknown: Model, TotalThreads", found)

    def test_the_cores_of_a_card_may_be_required_and_say_nothing(self):
        rules = {"Processors": {"Members": [{f"TotalCores{REQUIRED}": True,
                                             f"Model{OPTIONAL}": True}]}}  # fmt: skip
        found = self.only(rules, accelerators=(Accelerator(kind="GPU", model="A", count=1),))
        member = {COUNT: 1, "Model": "A", "TotalCores": 1}
        self.assertEqual({"Processors": {"Members": [member]}}, found)
        found = self.only(rules, processors=(Processor(count=1, model="X"),))
        self.assertEqual("Processors: required but unknown: TotalCores", found)

    def test_controllers_may_be_required_beside_drives(self):
        rules = {"Storage": {"Members": [{f"StorageControllers{REQUIRED}": True,
                                          f"Drives{REQUIRED}": True}]}}  # fmt: skip
        found = self.only(rules, drives=(Drive(count=1, capacity_bytes=5),))
        drives = [{COUNT: 1, "CapacityBytes": 5}]
        self.assertEqual({"Storage": {"Members": [{COUNT: 1, "Drives": drives}]}}, found)

    def test_what_no_rule_is_for_or_nothing_at_all_is_refused(self):
        memory = (Memory(count=1, capacity_mib=5),)
        self.assertEqual("the service cannot compose Memory by properties",
                         self.only({"Processors": {}}, memory=memory))  # fmt: skip
        self.assertEqual(
            "the request has no device that the service can compose by properties", self.only({})
        )


class TestChoice(unittest.TestCase):
    """The first method that a service offers."""

    def test_without_any_rules_the_blocks_are_posted_to_the_systems(self):
        expected = ComposeWrite("specific", "/S", BLOCKS, True)
        self.assertEqual(expected, choose_write(capabilities(), CHOICE))

    def test_a_use_case_of_the_zone_or_of_all_zones_names_the_target(self):
        for zones, target in (
            ((), "/T"),
            (("/Z/a",), "/T"),
            (("/Y/other", "/Z/a"), "/T"),
            (("/Z/b",), "/S"),
        ):
            with self.subTest(zones):
                found = choose_write(capabilities(case(SPECIFIC.upper(), *zones)), CHOICE)
                self.assertEqual(ComposeWrite("specific", target, BLOCKS, True), found)
        by_id = CompositionRequest(name="vs-1", pool="a", blocks=CHOICE.blocks)
        self.assertEqual("/T", choose_write(capabilities(case(SPECIFIC, "/Z/a")), by_id).target)

    def test_the_first_use_case_that_holds_wins(self):
        offers = capabilities(case(CONSTRAINED), case(SPECIFIC, "/Z/b"), case(), case(target="/U"))
        self.assertEqual("/T", choose_write(offers, CHOICE).target)

    def test_a_manifest_is_taken_where_no_use_case_names_the_blocks(self):
        for offers in (
            capabilities(action="/A"),
            capabilities(case(CONSTRAINED), action="/A"),
            capabilities(case(**{f"Tenant{REQUIRED}": True}), action="/A"),
        ):
            with self.subTest(offers):
                expected = ComposeWrite("manifest", "/A", manifest("Apply"), True)
                self.assertEqual(expected, choose_write(offers, CHOICE))

    def test_a_method_of_a_vendor_is_tried_first_and_may_refuse_or_not_be_offered(self):
        own = ComposeWrite("own", "/O", {}, False)
        for found, expected in ((own, own), (None, "/S"), ("it has no slot", "/S")):
            with self.subTest(found):
                offers = capabilities()._replace(methods=(lambda *_given, it=found: it,))
                chosen = choose_write(offers, CHOICE)
                self.assertEqual(expected, chosen if found is own else chosen.target)
        offers = capabilities(systems=None)._replace(methods=(lambda *_given: "it has no slot",))
        self.assertEqual("it has no slot", choose_write(offers, CHOICE))

    def test_a_constrained_composition_asks_for_devices_and_may_name_the_zone(self):
        member = {COUNT: 2, "ProcessorType": "CPU", "TotalCores": 16, "Model": "X"}
        body = {"Name": "vs-1", "Processors": {"Members": [member]}}
        offer = case(CONSTRAINED, Processors={})
        expected = ComposeWrite("constrained", "/T", body, False)
        self.assertEqual(expected, choose_write(capabilities(offer), CHOICE))
        zoned = choose_write(capabilities(offer, affinity=True), CHOICE)
        self.assertEqual(body | {"@Redfish.ZoneAffinity": "a"}, zoned.body)
        anywhere = CompositionRequest(name="vs-1", devices=CPUS)
        self.assertEqual(body, choose_write(capabilities(offer, affinity=True), anywhere).body)

    def test_devices_that_no_rule_can_say_are_the_reason_why_there_is_none(self):
        found = choose_write(capabilities(case(CONSTRAINED)), CHOICE)
        self.assertEqual("the service cannot compose Processors by properties", found)

    def test_without_any_way_the_reason_is_what_is_required_or_what_is_not_offered(self):
        none = (
            "the service cannot compose: it has neither a Systems collection nor a Compose action"
        )
        self.assertEqual(none, choose_write(capabilities(systems=None), CHOICE))
        required = case(**{f"Tenant{REQUIRED}": True})
        reason = "the service requires 'Tenant', but states no allowed value"
        self.assertEqual(reason, choose_write(capabilities(required), CHOICE))

    def test_only_a_constrained_composition_or_none_may_take_other_blocks(self):
        for offers, exact in (
            (capabilities(), True),
            (capabilities(action="/A"), True),
            (capabilities(case(CONSTRAINED, Processors={})), False),
            (capabilities(systems=None), False),
        ):
            with self.subTest(offers):
                self.assertIs(exact, methods.composes_exact_blocks(offers, CHOICE))


class TestRequiredProperties(unittest.TestCase):
    """Required properties of a use case besides the name and the blocks."""

    def extra(self, **rules: Any) -> Any:
        found = choose_write(capabilities(case(**rules)), CHOICE)
        if isinstance(found, str):
            return found
        return {key: value for key, value in found.body.items() if key not in BLOCKS}

    def test_the_first_value_that_is_allowed_is_sent(self):
        rules = {f"PowerPolicy{REQUIRED}": True, f"PowerPolicy{ALLOWED}": ["Eco", "Full"]}
        self.assertEqual({"PowerPolicy": "Eco"}, self.extra(**rules))

    def test_texts_that_describe_a_system_are_the_name_of_the_node(self):
        for key in ("HostName", "Description", "AssetTag"):
            self.assertEqual({key: "vs-1"}, self.extra(**{f"{key}{REQUIRED}": True}))

    def test_the_name_the_blocks_and_what_is_not_required_are_not_sent_again(self):
        known = dict.fromkeys((f"Name{REQUIRED}", f"Links{REQUIRED}"), True)
        rules = {f"Tenant{REQUIRED}": False, f"Boot{OPTIONAL}": True, "HostName": True}
        rules |= known | {f"AssetTag{REQUIRED}": True}
        self.assertEqual({"AssetTag": "vs-1"}, self.extra(**rules))

    def test_an_object_has_what_is_required_in_it(self):
        boot = {f"Target{REQUIRED}": True, f"Target{ALLOWED}": ["Pxe"], f"Mode{OPTIONAL}": True}
        rules = {f"Boot{REQUIRED}": True, "Boot": boot}
        self.assertEqual({"Boot": {"Target": "Pxe"}}, self.extra(**rules))

    def test_what_no_value_is_known_for_is_named(self):
        for name, rules in (
            ("Tenant", {f"Tenant{REQUIRED}": True}),
            ("Tenant", {f"Tenant{REQUIRED}": True, f"Tenant{ALLOWED}": []}),
            ("Tenant", {f"Tenant{REQUIRED}": True, f"Tenant{ALLOWED}": "any"}),
            ("Boot", {f"Boot{REQUIRED}": True, "Boot": {}}),
            ("Boot", {f"Boot{REQUIRED}": True, "Boot": "Pxe"}),
            ("Boot", {f"Boot{REQUIRED}": True, "Boot": {f"HostName{REQUIRED}": True,
             f"Target{REQUIRED}": True}}),
        ):  # fmt: skip
            with self.subTest(rules):
                reason = f"the service requires {name!r}, but states no allowed value"
                self.assertEqual(reason, self.extra(**rules))


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
    """The offers in the documents of a service."""

    def read(self, **documents: Any) -> ComposeCapabilities:
        found = {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        return methods.read_capabilities(StoredPodm(DOCUMENTS | found))

    def case(self, **documents: Any) -> UseCase:
        (found,) = self.read(**documents).use_cases
        return found

    def test_a_service_without_documents_offers_nothing(self):
        empty = ComposeCapabilities(None, None, False, (), {})
        self.assertEqual(empty, methods.read_capabilities(StoredPodm({})))
        self.assertEqual(empty, methods.read_capabilities(StoredPodm({ROOT: {}})))

    def test_the_systems_the_action_and_whether_a_zone_can_be_named(self):
        self.assertEqual(
            ComposeCapabilities("/S", None, False, ()), self.read()._replace(service=None)
        )
        action = {"#CompositionService.Compose": {"target": "http://host.invalid/Compose/"}}
        found = self.read(CS={"Actions": action, "AllowZoneAffinity": True})
        self.assertEqual(
            ComposeCapabilities("/S", "/Compose", True, ()), found._replace(service=None)
        )

    def test_a_root_that_cannot_be_read_is_an_error(self):
        with self.assertRaisesRegex(PodmError, f"^{ROOT}: HTTP 500, expected a document$"):
            methods.read_capabilities(StoredPodm({ROOT: 500}))

    def test_a_missing_page_of_zones_is_an_error(self):
        service = {"ResourceZones": link("/zones")}
        page = {"Members": [], "Members@odata.nextLink": "/none"}
        documents = {ROOT: {"CompositionService": link("/cs")}, "/cs": service, "/zones": page}
        with self.assertRaisesRegex(PodmError, "/none: found no such document"):
            methods.read_capabilities(StoredPodm(documents))

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
        self.assertEqual("/S", choose_write(found, NODE).target)

    def test_the_zones_of_every_page_tell_their_ways_and_what_all_pages_offer_is_told_once(self):
        pages = offering(offer("1"), **{"Members": [], "Members@odata.nextLink": "/Next"})
        last = offering(offer("1"), Members=links("/Z/a"))
        found = self.read(Z=pages, Next=last, Z_a=offering(offer("2")))
        self.assertEqual(["1", "2"], [one.name for one in found.use_cases])

    def test_every_use_case_of_every_place_is_read_in_their_order(self):
        found = self.read(
            S=offering(offer("1"), offer("2"), Members=[]), B=offering(offer("3"), Members=[]),
            Z=offering(offer("4"), Members=links("/Z/a")), Z_a=offering(offer("5")),
        )  # fmt: skip
        self.assertEqual(list("12345"), [one.name for one in found.use_cases])
