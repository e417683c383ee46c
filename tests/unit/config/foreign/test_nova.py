# SPDX-License-Identifier: Apache-2.0
"""Flavors of Nova; keys that Nova ignores are errors."""

import unittest

from tests.unit.config.refusal import Parsed, parsed, refusal
from valence_sched.config.foreign import nova
from valence_sched.errors import InputError
from valence_sched.model.flavor import GIB, Flavor, ProcessorSpec, Properties
from valence_sched.model.need import NameRequirements

SMALL = {"name": "n", "vcpus": 4, "ram": 2048, "disk": 0}
CORES, MEMORY = ("processor", "cores", 4), ("memory", "capacity_mib", 2048)


def read(specs: dict | None = None, *, ignored=(), known=dict, **more) -> Parsed:
    document = SMALL | {"extra_specs": specs or {}} | more
    return parsed(document, known=known, ignored=ignored)


def needs(specs: dict | None = None, **more) -> list[tuple]:
    return [(n.kind, n.measure, n.amount) for n in read(specs, **more).flavor.needs]


def drives(specs: dict | None = None, **more) -> list[int]:
    asked = [need for need in read(specs, **more).flavor.needs if need.kind == "drive"]
    return [need.tests[0].value // GIB for need in asked]


class TestAmounts(unittest.TestCase):
    """The amounts of the flavor, and the keys that override them."""

    def test_its_own_amounts(self):
        self.assertEqual([CORES, MEMORY], needs())
        self.assertEqual([100], drives(disk=100))
        self.assertEqual([100, 40], drives(disk=100, **{"OS-FLV-EXT-DATA:ephemeral": 40}))
        self.assertEqual([MEMORY], needs(vcpus=0))
        self.assertIn("f: $: found no requirement", refusal(needs, vcpus=0, ram=0))

    def test_resources_take_their_place_and_zero_takes_them_away(self):
        for specs, expected in (
            ({"resources:VCPU": "2"}, [("processor", "cores", 2), MEMORY]),
            ({"resources:PCPU": "2"}, [("processor", "cores", 2), MEMORY]),
            ({"resources:VCPU": "3", "resources:PCPU": "2"}, [("processor", "cores", 5), MEMORY]),
            ({"resources:PCPU": "0"}, [MEMORY]),
            ({"resources:VCPU": "0", "resources:PCPU": "2"}, [("processor", "cores", 2), MEMORY]),
            ({"resources:MEMORY_MB": "0"}, [CORES]),
            ({"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0",
              "resources:CUSTOM_STORAGE_GIB": "50"}, [("stock", "amount", 50)]),
            ({"resources:VGPU": "2"}, [CORES, MEMORY, ("accelerator", "devices", 2)]),
        ):  # fmt: skip
            with self.subTest(specs):
                self.assertEqual(expected, needs(specs))

    def test_a_disk_named_as_a_resource_takes_the_place_of_both(self):
        more = {"disk": 100, "ephemeral": 40}
        self.assertEqual([300], drives({"resources:DISK_GB": "300"}, **more))
        self.assertEqual([], drives({"resources:DISK_GB": "0"}, **more))


class TestConditions(unittest.TestCase):
    """Traits, capabilities, and keys without an equivalent."""

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
        for key, value in (
            ("hw:cpu_policy", "shared"), ("hw_rng:allowed", "x"), ("quota:cpu_shares", "x"),
            ("os:secure_boot", "disabled"), ("hw:cpu_thread_policy", "prefer"),
            ("hw:pci_numa_affinity_policy", "legacy"), ("hw:mem_encryption", "False"),
            ("hw:emulator_threads_policy", "share"), ("hw:numa_nodes", "1"),
            ("hw:mem_page_size", "large"), ("hw:viommu_model", "none"),
        ):  # fmt: skip
            with self.subTest(key):
                form = read({key: value})
                self.assertEqual(
                    (f"f: $.extra_specs[{key!r}]: not used: it tunes a virtual machine",),
                    form.remarks,
                )
                self.assertEqual(read().flavor, form.flavor)
        (remark,) = read(swap=512).remarks
        self.assertTrue(remark.startswith("f: $.swap: not used"))
        self.assertEqual((), read(swap="").remarks)

    def test_null_in_place_of_what_an_extension_tells_is_nothing(self):
        self.assertEqual((), read(swap=None).remarks)
        self.assertEqual([100], drives(disk=100, **{"OS-FLV-EXT-DATA:ephemeral": None}))
        for name in ("vcpus", "ram", "disk"):
            with self.subTest(name), self.assertRaises(InputError):
                read(**{name: None})

    def test_what_has_no_counterpart_is_refused_with_its_place(self):
        place = "f: $.extra_specs"
        for specs, line in (
            ({"colour": "blue"}, f"{place}.colour: found an extra spec without a scope, expected "
             "SCOPE:NAME (capabilities:colour is a capability, trait:NAME a trait; "
             "--ignore-extra-spec colour skips it)"),
            ({"aggregate_instance_extra_specs:ssd": "true"},
             f"{place}['aggregate_instance_extra_specs:ssd']: found an extra spec of scope "
             "'aggregate_instance_extra_specs', expected a known scope "
             "(select an aggregate with --member-of, or request trait:X)"),
            ({"pci_passthrough:alias": "a:1"},
             f"{place}['pci_passthrough:alias']: found an extra spec of scope 'pci_passthrough', "
             "expected a known scope "
             "(request resources:PGPU=1 or resources:FPGA=1)"),
            ({"trait1:A": "required"}, f"{place}['trait1:A']: found an extra spec of scope "
             "'trait1', expected a known scope "
             "(resource groups are not supported: write trait:)"),
            ({"resourcesgpu:A": "1"}, f"{place}['resourcesgpu:A']: found an extra spec of scope "
             "'resourcesgpu', expected a known scope "
             "(resource groups are not supported: write resources:)"),
            ({"trait:A,B": "forbidden"}, f"{place}['trait:A,B']: found an invalid trait name, "
             "expected upper-case letters, digits or _, at most 255 characters"),
            ({"trats:A": "required"}, f"{place}['trats:A']: found an extra spec of scope 'trats', "
             "expected a known scope (did you mean 'trait'?)"),
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
                self.assertEqual(line, refusal(read, specs))


class TestIgnored(unittest.TestCase):
    """Keys that the user wants to ignore."""

    def test_a_key_that_is_named_is_remarked_on_and_nothing_else_of_it_counts(self):
        for specs in ({"colour": "blue"}, {"group_policy": "none"}, {"resources:VCPU": "99"},
                      {"pci_passthrough:alias": "a:1"}, {"hw:numa_nodes": "2"}):  # fmt: skip
            (key,) = specs
            with self.subTest(key):
                form = read(specs, ignored=(key,))
                self.assertEqual(read().flavor, form.flavor)
                (remark,) = form.remarks
                self.assertTrue(remark.endswith("not used: --ignore-extra-spec names it"))

    def test_no_other_key_is_passed_over(self):
        with self.assertRaises(InputError):
            read({"colour": "blue", "color": "blue"}, ignored=("color",))


BARE = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
GOLD = BARE | {"resources:CUSTOM_BAREMETAL_GOLD": "1"}


class TestBareMetal(unittest.TestCase):
    """Flavors of Ironic: no VCPU, no memory, 1 of the class of the node."""

    def ours(self, *names: str, **more):
        properties = Properties(processor=ProcessorSpec(64))
        traits = NameRequirements(("T",))
        return lambda: {
            name: Flavor(name=name, properties=properties, traits=traits, **more) for name in names
        }

    def test_it_stands_for_the_flavor_of_ours_that_ironic_would_give_this_class(self):
        for name in ("CUSTOM_BAREMETAL_GOLD", "baremetal-gold", "baremetal.gold", "Baremetal_Gold"):
            with self.subTest(name):
                form = read(
                    GOLD | {"trait:A": "required", "capabilities:b": "x"},
                    known=self.ours(
                        "gold", "small", name, zone="east", attributes={"facts.a": "1"}
                    ),
                )
                self.assertEqual("n", form.flavor.name)
                self.assertEqual(
                    [("processor", 64)], [(need.kind, need.amount) for need in form.flavor.needs]
                )
                self.assertEqual(("T", "A"), form.flavor.traits.required)
                self.assertEqual("east", form.flavor.zone)
                expected = {"facts.a": "1", "capabilities.b": "x"}
                self.assertEqual(expected, form.flavor.attributes)
                (remark,) = form.remarks
                self.assertTrue(remark.endswith(f"read as flavor {name!r}"), remark)

    def test_without_one_it_stands_for_its_own_vcpus_ram_and_disk(self):
        form = read(GOLD, disk=100, known=self.ours("gold", "small"))
        self.assertEqual(
            [("processor", 4), ("memory", 2048), ("drive", 1)],
            [(need.kind, need.amount) for need in form.flavor.needs],
        )
        (remark,) = form.remarks
        self.assertIn("no flavor is named 'baremetal-gold': the flavor's own vcpus", remark)
        other = BARE | {"resources:CUSTOM_GOLD": "1"}
        self.assertEqual([CORES, MEMORY], needs(other))
        self.assertEqual(
            [CORES, MEMORY, ("accelerator", "devices", 2)], needs(GOLD | {"resources:PGPU": "2"})
        )

    def test_it_never_stands_for_anything(self):
        for specs, more, words in (
            (GOLD, {"vcpus": 0, "ram": 0}, "found no flavor of that name, expected a flavor"),
            (GOLD | {"resources:PGPU": "1"}, {"known": self.ours("baremetal-gold")},
             "found also PGPU, expected only the resources of flavor 'baremetal-gold'"),
        ):  # fmt: skip
            with self.subTest(words), self.assertRaises(InputError) as caught:
                read(specs, **more)
            place = "f: $.extra_specs['resources:CUSTOM_BAREMETAL_GOLD']: "
            self.assertTrue(str(caught.exception).startswith(place + words), caught.exception)

    def test_a_class_of_its_own_beside_cores_is_a_stock(self):
        for specs in ({"resources:CUSTOM_BAREMETAL_GOLD": "1"},
                      GOLD | {"resources:VCPU": "2"}, GOLD | {"resources:PCPU": "2"}):  # fmt: skip
            self.assertIn(("stock", "amount", 1), needs(specs))


class TestDocuments(unittest.TestCase):
    """Flavors in the format of the API, and in the format of the client."""

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
        found = [parsed(document) for document in (api, client)]
        self.assertEqual(found[0], found[1])
        self.assertEqual(("n", "7"), (found[0].flavor.name, found[0].flavor.uuid))

    def test_a_row_of_a_list_that_the_client_prints_is_one_too(self):
        row = {"ID": "7", "Name": "n", "RAM": 2048, "Disk": 0, "Ephemeral": 9, "VCPUs": 4,
               "Is Public": True, "Swap": 0, "RXTX Factor": 1.0,
               "Properties": {"resources:PGPU": "1"}}  # fmt: skip
        expected = read({"resources:PGPU": "1"}, id="7", ephemeral=9)
        self.assertEqual(expected, parsed(row))
        row["Properties"] = {"x": "1"}
        said = refusal(parsed, row)
        self.assertTrue(said.startswith("f: $.Properties.x: "))
        del row["Properties"]
        line = ("f: $: found no 'Properties', expected the extra specs of each flavor (openstack "
                "flavor list --long prints them)")  # fmt: skip
        self.assertEqual(line, refusal(parsed, row))

    def test_errors_name_the_place_in_that_document(self):
        for document, line in (
            ({"flavor": SMALL | {"extra_specs": {"x": "1"}}}, "f: $.flavor.extra_specs.x: "),
            (SMALL | {"properties": {"x": "1"}}, "f: $.properties.x: "),
            (SMALL | {"properties": "x='1'"}, "f: $.properties: found \"x='1'\", expected object"),
            (SMALL | {"properties": {}, "extra_specs": {"trait:X": "required"}},
             "f: $.properties: found the same field as 'extra_specs', expected only one of them"),
            ({"flavor": SMALL | {"ephemeral": 1, "OS-FLV-EXT-DATA:ephemeral": 0}},
             "f: $.flavor['OS-FLV-EXT-DATA:ephemeral']: found the same field as 'ephemeral'"),
            (SMALL | {"vcpus": -4}, "f: $.vcpus: found -4, expected int >= 0"),
            (SMALL | {"gpus": 1}, "f: $: found unknown field 'gpus'"),
        ):  # fmt: skip
            with self.subTest(line):
                said = refusal(parsed, document)
                self.assertTrue(said.startswith(line), said)


def read_hardware(vcpus: int = 1, **specs: str) -> Flavor:
    named = {key.replace("__", ":"): value for key, value in specs.items()}
    document = {"name": "n", "vcpus": vcpus, "ram": 1024, "extra_specs": named}
    return parsed(document).flavor


def cores(vcpus: int = 1, **specs: str) -> int:
    (need,) = [need for need in read_hardware(vcpus, **specs).needs if need.kind == "processor"]
    return int(need.amount)


class TestTraits(unittest.TestCase):
    """Keys that Nova converts to traits."""

    def test_each_becomes_the_traits_that_nova_asks_for(self):
        for specs, required, forbidden in (
            ({"hw__cpu_thread_policy": "require"}, ["HW_CPU_HYPERTHREADING"], []),
            ({"hw__cpu_thread_policy": "isolate"}, [], ["HW_CPU_HYPERTHREADING"]),
            ({"os__secure_boot": "required"}, ["COMPUTE_SECURITY_UEFI_SECURE_BOOT"], []),
            ({"hw__tpm_version": "1.2"},
             ["COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_TIS"], []),
            ({"hw__tpm_version": "1.2", "hw__tpm_model": "tpm-tis"},
             ["COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_TIS"], []),
            ({"hw__tpm_version": "2.0", "hw__tpm_model": "tpm-crb"},
             ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"], []),
            ({"hw__maxphysaddr_mode": "passthrough"}, ["COMPUTE_ADDRESS_SPACE_PASSTHROUGH"], []),
            ({"hw__maxphysaddr_mode": "emulate", "hw__maxphysaddr_bits": "42"},
             ["COMPUTE_ADDRESS_SPACE_EMULATED"], []),
            ({"hw__pci_numa_affinity_policy": "socket"},
             ["COMPUTE_SOCKET_PCI_NUMA_AFFINITY"], []),
            ({"hw__virtio_packed_ring": "yes"}, ["COMPUTE_NET_VIRTIO_PACKED"], []),
            ({"hw__ephemeral_encryption": "true", "hw__ephemeral_encryption_format": "luks"},
             ["COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"], []),
        ):  # fmt: skip
            with self.subTest(specs):
                traits = read_hardware(**specs).traits
                self.assertEqual(
                    (required, forbidden), (sorted(traits.required), sorted(traits.forbidden))
                )

    def test_none_of_them_is_only_remarked_on(self):
        for key, values in nova.VALUES.items():
            for value, effect in values.items():
                if effect is nova.TUNES or key in ("hw:tpm_model", "hw:cpu_policy"):
                    continue
                with self.subTest(key=key, value=value):
                    specs = {key.replace(":", "__"): value}
                    try:
                        flavor = read_hardware(**specs)
                    except InputError:
                        continue
                    self.assertNotEqual(read_hardware(), flavor)

    def test_a_trait_that_says_the_same_is_one_and_the_contrary_is_refused(self):
        trait = {"trait__HW_CPU_HYPERTHREADING": "required"}
        flavor = read_hardware(hw__cpu_thread_policy="require", **trait)
        self.assertEqual(("HW_CPU_HYPERTHREADING",), flavor.traits.required)
        said = refusal(read_hardware, hw__cpu_thread_policy="isolate", **trait)
        self.assertIn("found also trait:HW_CPU_HYPERTHREADING=required", said)


class TestHardwareAmounts(unittest.TestCase):
    """Cores, each counted once, and persistent memory."""

    def test_cores_are_counted_as_nova_does(self):
        for vcpus, specs, expected in (
            (4, {}, 4),
            (4, {"hw__cpu_policy": "dedicated"}, 4),
            (1, {"hw__cpu_policy": "dedicated", "hw__cpu_thread_policy": "isolate",
                 "hw__emulator_threads_policy": "isolate"}, 2),
            (4, {"hw__cpu_policy": "mixed", "hw__cpu_dedicated_mask": "2,3"}, 4),
            (4, {"hw__cpu_policy": "mixed", "hw__cpu_dedicated_mask": "2,3",
                 "hw__emulator_threads_policy": "isolate"}, 5),
            (4, {"resources__PCPU": "4"}, 4),
            (4, {"resources__PCPU": "5", "hw__emulator_threads_policy": "isolate"}, 5),
            (4, {"resources__VCPU": "2"}, 2),
        ):  # fmt: skip
            with self.subTest(specs):
                self.assertEqual(expected, cores(vcpus, **specs))

    def test_persistent_memory_is_an_amount_of_the_class_of_its_label(self):
        resources = read_hardware(hw__pmem="4GB, 4GB,SMALL").properties.resources
        self.assertEqual({"pmem_namespace_4gb": 2.0, "pmem_namespace_small": 1.0}, resources)

    def test_what_contradicts_itself_or_has_no_counterpart_is_refused(self):
        for specs, words in (
            ({"hw__cpu_policy": "dedicated", "resources__PCPU": "1"},
             "$.extra_specs['hw:cpu_policy']: found also resources:VCPU or resources:PCPU"),
            ({"hw__emulator_threads_policy": "isolate"}, "found 'isolate' of shared cores"),
            ({"hw__emulator_threads_policy": "isolate", "resources__PCPU": "1"},
             "found 'isolate' without a core, expected also resources:PCPU=2"),
            ({"hw__emulator_threads_policy": "isolate", "hw__cpu_policy": "dedicated",
              "resources__VCPU": "0"},
             "found 'isolate' without a core, expected also resources:PCPU=2"),
            ({"hw__mem_encryption": "true"}, "(request trait:HW_CPU_X86_AMD_SEV=required)"),
            ({"hw__pci_numa_affinity_policy": "required"}, "which is not supported"),
            ({"hw__numa_nodes": "2"}, "found 2 NUMA nodes, expected 1"),
            ({"hw__numa_nodes": "0"}, "expected a whole number from 1 on"),
            ({"hw__numa_mem.0": "512"}, "found the size of one NUMA node"),
            ({"hw__tpm_model": "tpm-crb"}, "found no 'hw:tpm_version'"),
            ({"hw__tpm_model": "tpm-crb", "hw__tpm_version": "1.2"}, "found 'tpm-crb' of TPM 1.2"),
            ({"hw__cpu_policy": "x"}, "found 'x', expected one of shared, dedicated, mixed"),
            ({"hw__mem_encryption": "maybe"}, "found 'maybe', expected true or false"),
            ({"hw__pmem": "4GB,,"}, "expected comma-separated labels"),
            ({"hw__cpu_polcy": "shared"}, "(did you mean 'hw:cpu_policy'?; --ignore-extra-spec "
             "hw:cpu_polcy skips it)"),
            ({"os__colour": "blue"}, "found an extra spec unknown to Nova"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertIn(words, refusal(read_hardware, **specs))
