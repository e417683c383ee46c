# SPDX-License-Identifier: Apache-2.0
"""The hw: and os: extra specs, as the tests of Nova's scheduler have them."""

import unittest

from valence_sched.config.foreign import nova_hardware
from valence_sched.config.foreign.base import DocumentCursor
from valence_sched.config.foreign.nova import parse_flavor
from valence_sched.errors import InputError
from valence_sched.model.flavor import Flavor


def read(vcpus: int = 1, **specs: str) -> Flavor:
    named = {key.replace("__", ":"): value for key, value in specs.items()}
    document = {"name": "n", "vcpus": vcpus, "ram": 1024, "extra_specs": named}
    return parse_flavor(document, DocumentCursor("f"), dict).flavor


def cores(vcpus: int = 1, **specs: str) -> int:
    (need,) = [need for need in read(vcpus, **specs).needs if need.kind == "processor"]
    return int(need.amount)


class TestTraits(unittest.TestCase):
    """Keys that Nova turns into traits."""

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
                traits = read(**specs).traits
                self.assertEqual(
                    (required, forbidden), (sorted(traits.required), sorted(traits.forbidden))
                )

    def test_none_of_them_is_only_remarked_on(self):
        for key, values in nova_hardware.VALUES.items():
            for value, effect in values.items():
                if effect is nova_hardware.TUNES or key in ("hw:tpm_model", "hw:cpu_policy"):
                    continue
                with self.subTest(key=key, value=value):
                    specs = {key.replace(":", "__"): value}
                    try:
                        flavor = read(**specs)
                    except InputError:
                        continue
                    self.assertNotEqual(read(), flavor)

    def test_a_trait_that_says_the_same_is_one_and_the_contrary_is_refused(self):
        trait = {"trait__HW_CPU_HYPERTHREADING": "required"}
        flavor = read(hw__cpu_thread_policy="require", **trait)
        self.assertEqual(("HW_CPU_HYPERTHREADING",), flavor.traits.required)
        with self.assertRaises(InputError) as caught:
            read(hw__cpu_thread_policy="isolate", **trait)
        self.assertIn("found trait:HW_CPU_HYPERTHREADING=required beside it", str(caught.exception))


class TestAmounts(unittest.TestCase):
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
        resources = read(hw__pmem="4GB, 4GB,SMALL").properties.resources
        self.assertEqual({"pmem_namespace_4gb": 2.0, "pmem_namespace_small": 1.0}, resources)

    def test_what_contradicts_itself_or_has_no_counterpart_is_refused(self):
        for specs, words in (
            ({"hw__cpu_policy": "dedicated", "resources__PCPU": "1"},
             "$.extra_specs['hw:cpu_policy']: found resources:VCPU or resources:PCPU beside it"),
            ({"hw__emulator_threads_policy": "isolate"}, "found 'isolate' of shared cores"),
            ({"hw__emulator_threads_policy": "isolate", "resources__PCPU": "1"},
             "found 'isolate' without a core, expected resources:PCPU=2 beside it"),
            ({"hw__emulator_threads_policy": "isolate", "hw__cpu_policy": "dedicated",
              "resources__VCPU": "0"},
             "found 'isolate' without a core, expected resources:PCPU=2 beside it"),
            ({"hw__mem_encryption": "true"}, "(ask for trait:HW_CPU_X86_AMD_SEV=required)"),
            ({"hw__pci_numa_affinity_policy": "required"}, "which has no counterpart here"),
            ({"hw__numa_nodes": "2"}, "found 2 NUMA nodes, expected 1"),
            ({"hw__numa_nodes": "0"}, "expected a whole number from 1 on"),
            ({"hw__numa_mem.0": "512"}, "found a NUMA node of its own size"),
            ({"hw__tpm_model": "tpm-crb"}, "found no 'hw:tpm_version' beside it"),
            ({"hw__tpm_model": "tpm-crb", "hw__tpm_version": "1.2"}, "found 'tpm-crb' of TPM 1.2"),
            ({"hw__cpu_policy": "x"}, "found 'x', expected one of shared, dedicated, mixed"),
            ({"hw__mem_encryption": "maybe"}, "found 'maybe', expected true or false"),
            ({"hw__pmem": "4GB,,"}, "expected labels with commas between them"),
            ({"hw__cpu_polcy": "shared"}, "(did you mean 'hw:cpu_policy'?; --ignore-extra-spec "
             "hw:cpu_polcy passes over it)"),
            ({"os__colour": "blue"}, "found an extra spec that Nova does not know"),
        ):  # fmt: skip
            with self.subTest(words):
                with self.assertRaises(InputError) as caught:
                    read(**specs)
                self.assertIn(words, str(caught.exception))
