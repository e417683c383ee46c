# SPDX-License-Identifier: Apache-2.0
"""Which method composes a node, and the very body that is sent for it."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import links
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.methods import (
    CONSTRAINED,
    SPECIFIC,
    ComposeCapabilities,
    ComposeMethod,
    UseCase,
    choose_method,
    device_templates,
)
from valence_sched.model.composition import CompositionRequest
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor

REQUIRED, OPTIONAL = "@Redfish.RequiredOnCreate", "@Redfish.OptionalOnCreate"
ALLOWED, COUNT = "@Redfish.AllowableValues", "@Redfish.RequestedCount"
CPUS = Devices(processors=(Processor(count=2, cores=16, model="X"),))
NODE = CompositionRequest(name="vs-1", pool="/Z/a", blocks=("/B/1", "/B/2"), devices=CPUS)
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
    """What a constrained composition asks for."""

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
            ({"Processors": {}}, "it composes no Storage by what they are"),
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
        self.assertEqual("Processors: Model, TotalThreads must be given, and is not known", found)

    def test_the_cores_of_a_card_may_be_required_and_say_nothing(self):
        rules = {"Processors": {"Members": [{f"TotalCores{REQUIRED}": True,
                                             f"Model{OPTIONAL}": True}]}}  # fmt: skip
        found = self.only(rules, accelerators=(Accelerator(kind="GPU", model="A", count=1),))
        member = {COUNT: 1, "Model": "A", "TotalCores": 1}
        self.assertEqual({"Processors": {"Members": [member]}}, found)
        found = self.only(rules, processors=(Processor(count=1, model="X"),))
        self.assertEqual("Processors: TotalCores must be given, and is not known", found)

    def test_controllers_may_be_required_beside_drives(self):
        rules = {"Storage": {"Members": [{f"StorageControllers{REQUIRED}": True,
                                          f"Drives{REQUIRED}": True}]}}  # fmt: skip
        found = self.only(rules, drives=(Drive(count=1, capacity_bytes=5),))
        drives = [{COUNT: 1, "CapacityBytes": 5}]
        self.assertEqual({"Storage": {"Members": [{COUNT: 1, "Drives": drives}]}}, found)

    def test_what_no_rule_is_for_or_nothing_at_all_is_refused(self):
        memory = (Memory(count=1, capacity_mib=5),)
        self.assertEqual("it composes no Memory by what they are",
                         self.only({"Processors": {}}, memory=memory))  # fmt: skip
        self.assertEqual("nothing is asked for that it could compose by what it is", self.only({}))


class TestChoice(unittest.TestCase):
    """The first way that a service offers."""

    def test_without_any_rules_the_blocks_are_posted_to_the_systems(self):
        expected = ComposeMethod("specific", "/S", BLOCKS, True)
        self.assertEqual(expected, choose_method(capabilities(), NODE))

    def test_a_use_case_of_the_zone_or_of_all_zones_names_the_target(self):
        for zones, target in (
            ((), "/T"),
            (("/Z/a",), "/T"),
            (("/Y/other", "/Z/a"), "/T"),
            (("/Z/b",), "/S"),
        ):
            with self.subTest(zones):
                found = choose_method(capabilities(case(SPECIFIC.upper(), *zones)), NODE)
                self.assertEqual(ComposeMethod("specific", target, BLOCKS, True), found)
        by_id = CompositionRequest(name="vs-1", pool="a", blocks=NODE.blocks)
        self.assertEqual("/T", choose_method(capabilities(case(SPECIFIC, "/Z/a")), by_id).target)

    def test_the_first_use_case_that_holds_wins(self):
        offers = capabilities(case(CONSTRAINED), case(SPECIFIC, "/Z/b"), case(), case(target="/U"))
        self.assertEqual("/T", choose_method(offers, NODE).target)

    def test_a_manifest_is_taken_where_no_use_case_names_the_blocks(self):
        for offers in (
            capabilities(action="/A"),
            capabilities(case(CONSTRAINED), action="/A"),
            capabilities(case(**{f"Tenant{REQUIRED}": True}), action="/A"),
        ):
            with self.subTest(offers):
                expected = ComposeMethod("manifest", "/A", manifest("Apply"), True)
                self.assertEqual(expected, choose_method(offers, NODE))
        found = choose_method(capabilities(action="/A"), NODE, "r-1")
        self.assertEqual(manifest("Apply", ReservationId="r-1"), found.body)

    def test_a_manifest_names_its_kind_and_no_reservation_unless_there_is_one(self):
        self.assertEqual(manifest("Preview"), methods.manifest(NODE, "Preview"))
        self.assertEqual(manifest("Preview"), methods.manifest(NODE, "Preview", ""))

    def test_a_constrained_composition_asks_for_devices_and_may_name_the_zone(self):
        member = {COUNT: 2, "ProcessorType": "CPU", "TotalCores": 16, "Model": "X"}
        body = {"Name": "vs-1", "Processors": {"Members": [member]}}
        offer = case(CONSTRAINED, Processors={})
        expected = ComposeMethod("constrained", "/T", body, False)
        self.assertEqual(expected, choose_method(capabilities(offer), NODE))
        zoned = choose_method(capabilities(offer, affinity=True), NODE)
        self.assertEqual(body | {"@Redfish.ZoneAffinity": "a"}, zoned.body)
        anywhere = CompositionRequest(name="vs-1", devices=CPUS)
        self.assertEqual(body, choose_method(capabilities(offer, affinity=True), anywhere).body)

    def test_devices_that_no_rule_can_say_are_the_reason_why_there_is_none(self):
        found = choose_method(capabilities(case(CONSTRAINED)), NODE)
        self.assertEqual("it composes no Processors by what they are", found)

    def test_without_any_way_the_reason_is_what_is_required_or_what_is_not_offered(self):
        none = "it offers no way to compose: no systems collection, no Compose action"
        self.assertEqual(none, choose_method(capabilities(systems=None), NODE))
        required = case(**{f"Tenant{REQUIRED}": True})
        reason = "it requires 'Tenant' to compose, and allows no known value for it"
        self.assertEqual(reason, choose_method(capabilities(required), NODE))

    def test_only_a_constrained_composition_or_none_may_take_other_blocks(self):
        for offers, exact in (
            (capabilities(), True),
            (capabilities(action="/A"), True),
            (capabilities(case(CONSTRAINED, Processors={})), False),
            (capabilities(systems=None), False),
        ):
            with self.subTest(offers):
                self.assertIs(exact, methods.composes_exact_blocks(offers, NODE))


class TestRequiredProperties(unittest.TestCase):
    """What a use case requires beside the name and the blocks."""

    def extra(self, **rules: Any) -> Any:
        found = choose_method(capabilities(case(**rules)), NODE)
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
                reason = f"it requires {name!r} to compose, and allows no known value for it"
                self.assertEqual(reason, self.extra(**rules))
