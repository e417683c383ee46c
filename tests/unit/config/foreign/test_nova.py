# SPDX-License-Identifier: Apache-2.0
"""Flavors of Nova; keys that Nova passes over are errors (semantics.md 1)."""

import unittest

from valence_sched.config.foreign.base import DocumentCursor, ForeignFlavor
from valence_sched.config.parsers import parse_flavor
from valence_sched.errors import InputError
from valence_sched.model.flavor import GIB

SMALL = {"name": "n", "vcpus": 4, "ram": 2048, "disk": 0}
CORES, MEMORY = ("processor", "cores", 4), ("memory", "capacity_mib", 2048)


def read(specs: dict | None = None, **more) -> ForeignFlavor:
    return parse_flavor(SMALL | {"extra_specs": specs or {}} | more, DocumentCursor("f"), dict)


def needs(specs: dict | None = None, **more) -> list[tuple]:
    return [(n.kind, n.measure, n.amount) for n in read(specs, **more).flavor.needs]


def drives(specs: dict | None = None, **more) -> list[int]:
    asked = [need for need in read(specs, **more).flavor.needs if need.kind == "drive"]
    return [need.tests[0].value // GIB for need in asked]


class TestAmounts(unittest.TestCase):
    """The flavor's own, and those that take their place."""

    def test_its_own_amounts(self):
        self.assertEqual([CORES, MEMORY], needs())
        self.assertEqual([100], drives(disk=100))
        self.assertEqual([100, 40], drives(disk=100, **{"OS-FLV-EXT-DATA:ephemeral": 40}))
        self.assertEqual([MEMORY], needs(vcpus=0))
        with self.assertRaises(InputError) as caught:
            needs(vcpus=0, ram=0)
        self.assertIn("f: $: found nothing asked for", str(caught.exception))

    def test_resources_take_their_place_and_zero_takes_them_away(self):
        for specs, expected in (
            ({"resources:VCPU": "2"}, [("processor", "cores", 2), MEMORY]),
            ({"resources:PCPU": "2"}, [("processor", "cores", 6), MEMORY]),
            ({"resources:VCPU": "0", "resources:PCPU": "2"}, [("processor", "cores", 2), MEMORY]),
            ({"resources:MEMORY_MB": "0"}, [CORES]),
            ({"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0",
              "resources:CUSTOM_BAREMETAL_GOLD": "1"}, [("stock", "amount", 1)]),
            ({"resources:VGPU": "2"}, [CORES, MEMORY, ("accelerator", "devices", 2)]),
        ):  # fmt: skip
            with self.subTest(specs):
                self.assertEqual(expected, needs(specs))

    def test_a_disk_named_as_a_resource_takes_the_place_of_both(self):
        more = {"disk": 100, "ephemeral": 40}
        self.assertEqual([300], drives({"resources:DISK_GB": "300"}, **more))
        self.assertEqual([], drives({"resources:DISK_GB": "0"}, **more))


class TestConditions(unittest.TestCase):
    """Traits, capabilities, and what is nothing of ours."""

    def test_traits_and_capabilities(self):
        flavor = read({
            "trait:A": "required",
            "trait:B": "forbidden",
            "capabilities:fabric": "<or> ib <or> cxl",
            "capabilities:cores:least": ">= 4",
        }).flavor  # fmt: skip
        self.assertEqual(("A",), flavor.traits.required)
        self.assertEqual(("B",), flavor.traits.forbidden)
        expected = {"capabilities.fabric": "<or> ib <or> cxl", "capabilities.cores:least": ">= 4"}
        self.assertEqual(expected, flavor.attributes)

    def test_what_tunes_a_virtual_machine_is_remarked_on(self):
        for key in ("hw:cpu_policy", "hw_rng:allowed", "quota:cpu_shares", "os:secure_boot"):
            with self.subTest(key):
                self.assertEqual(
                    (f"f: $.extra_specs[{key!r}]: not looked at: it tunes a virtual machine",),
                    read({key: "x"}).remarks,
                )
        (remark,) = read(swap=512).remarks
        self.assertTrue(remark.startswith("f: $.swap: not looked at"))
        self.assertEqual((), read(swap="").remarks)

    def test_what_has_no_counterpart_is_refused_with_its_place(self):
        place = "f: $.extra_specs"
        for specs, line in (
            ({"colour": "blue"}, f"{place}.colour: found an extra spec without a scope, expected "
             "SCOPE:NAME (capabilities:colour is a capability, trait:NAME a trait)"),
            ({"aggregate_instance_extra_specs:ssd": "true"},
             f"{place}['aggregate_instance_extra_specs:ssd']: found an extra spec of scope "
             "'aggregate_instance_extra_specs', expected one that has a meaning here "
             "(aggregates have names here: ask for trait:X, or --member-of)"),
            ({"pci_passthrough:alias": "a:1"},
             f"{place}['pci_passthrough:alias']: found an extra spec of scope 'pci_passthrough', "
             "expected one that has a meaning here "
             "(ask for resources:PGPU=1 or resources:FPGA=1)"),
            ({"trait1:A": "required"}, f"{place}['trait1:A']: found an extra spec of scope "
             "'trait1', expected one that has a meaning here "
             "(groups by number are not told apart here: write trait:)"),
            ({"trats:A": "required"}, f"{place}['trats:A']: found an extra spec of scope 'trats', "
             "expected one that has a meaning here (did you mean 'trait'?)"),
            ({"trait:A": "wanted"},
             f"{place}['trait:A']: found 'wanted', expected 'required' or 'forbidden'"),
            ({"resources:VCPUS": "1"}, f"{place}['resources:VCPUS']: found no resource class named "
             "'VCPUS' (did you mean 'VCPU'?; a class of your own is CUSTOM_...)"),
            ({"resources:VCPU": "-1"}, f"{place}['resources:VCPU']: found '-1', expected a whole "
             "number from 0 on"),
            ({"capabilities:x": "=< 3"}, f"{place}['capabilities:x']: found no operator named '=<' "
             "(did you mean '<='?)"),
        ):  # fmt: skip
            with self.subTest(line):
                with self.assertRaises(InputError) as caught:
                    read(specs)
                self.assertEqual(line, str(caught.exception))


class TestDocuments(unittest.TestCase):
    """As the API has it, as the client prints it."""

    def test_the_answer_of_the_api_and_what_the_client_prints_are_one_flavor(self):
        specs = {"resources:PGPU": "1"}
        api = {"flavor": SMALL | {
            "id": "7", "extra_specs": specs, "links": [], "rxtx_factor": 1.0, "swap": "",
            "OS-FLV-EXT-DATA:ephemeral": 9, "OS-FLV-DISABLED:disabled": False,
            "os-flavor-access:is_public": True, "description": None,
        }}  # fmt: skip
        client = SMALL | {
            "id": "7", "properties": specs, "access_project_ids": None, "swap": 0,
            "OS-FLV-EXT-DATA:ephemeral": 9, "rxtx_factor": 1.0, "description": None,
        }  # fmt: skip
        found = [parse_flavor(document, DocumentCursor("f"), dict) for document in (api, client)]
        self.assertEqual(found[0], found[1])
        self.assertEqual(("n", "7"), (found[0].flavor.name, found[0].flavor.uuid))

    def test_errors_name_the_place_in_that_document(self):
        for document, line in (
            ({"flavor": SMALL | {"extra_specs": {"x": "1"}}}, "f: $.flavor.extra_specs.x: "),
            (SMALL | {"properties": {"x": "1"}}, "f: $.properties.x: "),
            (SMALL | {"properties": "x='1'"}, "f: $.properties: found \"x='1'\", expected object"),
            (SMALL | {"properties": {}, "extra_specs": {"trait:X": "required"}},
             "f: $.properties: found the same as 'extra_specs' beside it, expected one of them"),
            ({"flavor": SMALL | {"ephemeral": 1, "OS-FLV-EXT-DATA:ephemeral": 0}},
             "f: $.flavor['OS-FLV-EXT-DATA:ephemeral']: found the same as 'ephemeral' beside it"),
            (SMALL | {"vcpus": -4}, "f: $.vcpus: found -4, expected int >= 0"),
            (SMALL | {"gpus": 1}, "f: $: found unknown field 'gpus'"),
        ):  # fmt: skip
            with self.subTest(line):
                with self.assertRaises(InputError) as caught:
                    parse_flavor(document, DocumentCursor("f"), dict)
                self.assertTrue(str(caught.exception).startswith(line), str(caught.exception))


if __name__ == "__main__":
    unittest.main()
