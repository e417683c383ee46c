# SPDX-License-Identifier: Apache-2.0
"""Resource classes of Placement, and what of ours they are."""

import unittest

from valence_sched.model.flavor import GIB, Flavor, ProcessorSpec, Properties
from valence_sched.model.need import Alternative, Need, Test, TopologyConstraint
from valence_sched.model.resource_classes import (
    REFUSED,
    STANDARD,
    add_needs,
    compile_amounts,
    resource_class_problem,
)


def needs(**amounts: int) -> list[tuple]:
    flavor = Flavor(name="f", properties=compile_amounts(amounts))
    return [
        (need.kind, need.measure, need.resource or need.amount,
         *(test.value for test in need.tests))
        for need in flavor.needs
    ]  # fmt: skip


def cores(amount: int, *tests: Test) -> Need:
    return Need(kind="processor", measure="cores", amount=amount, tests=tests)


class TestClasses(unittest.TestCase):
    """One by one, and together."""

    def test_each_class(self):
        for amounts, expected in (
            ({"VCPU": 4}, ("processor", "cores", 4)),
            ({"VCPU": 4, "PCPU": 2, "NUMA_CORE": 1}, ("processor", "cores", 7)),
            ({"NUMA_SOCKET": 2}, ("processor", "sockets", 2)),
            ({"MEMORY_MB": 512}, ("memory", "capacity_mib", 512)),
            ({"DISK_GB": 50}, ("drive", "devices", 1, 50 * GIB)),
            ({"PGPU": 3}, ("accelerator", "devices", 3, "GPU")),
            ({"FPGA": 1}, ("accelerator", "devices", 1, "FPGA")),
            ({"NET_BW_EGR_KILOBIT_PER_SEC": 1_000_001, "NET_BW_IGR_KILOBIT_PER_SEC": 5},
             ("nic", "devices", 1, 1001)),
            ({"CUSTOM_STORAGE_GIB": 9}, ("stock", "amount", "storage_gib")),
            ({"cxl_memory_mib": 9}, ("stock", "amount", "cxl_memory_mib")),
        ):  # fmt: skip
            with self.subTest(amounts):
                self.assertEqual([expected], needs(**amounts))

    def test_every_class_that_is_known_asks_for_something_or_says_why_not(self):
        for name in STANDARD:
            with self.subTest(name):
                self.assertIsNone(resource_class_problem(name))
                self.assertEqual(1, len(needs(**{name: 1})))
        for name, hint in REFUSED.items():
            with self.subTest(name):
                self.assertIn(hint, resource_class_problem(name))

    def test_other_names_are_refused_with_the_nearest(self):
        for name, nearest in (("VCPUS", "VCPU"), ("vcpu", "VCPU"), ("DISK", "DISK_GB")):
            with self.subTest(name):
                self.assertIn(f"did you mean {nearest!r}?", resource_class_problem(name))
        for name in ("", "CUSTOM_", "X", "pci_device", "CUSTOM_x", "CUSTOM_A B", "CUSTOM_A-B",
                     "custom_x", "cxl memory", "a,b", "a:b", "CUSTOM_" + "A" * 249):  # fmt: skip
            with self.subTest(name):
                self.assertIn("no resource class named", resource_class_problem(name))
        for name in ("CUSTOM_A_1", "CUSTOM_" + "A" * 248, "cxl_memory_mib", "power.watts", "x-1"):
            with self.subTest(name):
                self.assertIsNone(resource_class_problem(name))


class TestMore(unittest.TestCase):
    """What is asked beside a flavor."""

    def test_totals_are_added_up_and_devices_come_beside(self):
        drive = Need(kind="drive", measure="devices", amount=1)
        bond = TopologyConstraint("same", "switch", ("drive",))
        found = add_needs(Alternative((cores(8), drive), (bond,)), (cores(4), drive))
        self.assertEqual(Alternative((drive, cores(12), drive), (bond,)), found)

    def test_a_total_with_tests_stays_and_the_sum_is_of_all(self):
        flavor = Flavor(
            name="f", properties=Properties(processor=ProcessorSpec(total_cores=8, model="Xeon"))
        )
        found = add_needs(flavor.alternatives[0], (cores(4),))
        self.assertEqual((*flavor.needs, cores(12)), found.needs)

    def test_nothing_to_add_to_is_no_obstacle(self):
        self.assertEqual(Alternative((cores(4),)), add_needs(Alternative(), (cores(4),)))


if __name__ == "__main__":
    unittest.main()
