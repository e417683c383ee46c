# SPDX-License-Identifier: Apache-2.0
"""Flavors and resource classes, compiled into needs."""

import unittest

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.codec import convert
from valence_sched.model.flavor import (
    GIB,
    REFUSED,
    STANDARD,
    Flavor,
    ProcessorSpec,
    Properties,
    add_needs,
    compile_amounts,
    resource_class_problem,
)
from valence_sched.model.need import Alternative, Need, Test, TopologyConstraint
from valence_sched.model.request import Request


def needs(properties: dict) -> list[tuple]:
    """Compile and write each need as (kind, measure, amount, count, tests, resource)."""
    flavor = convert({"name": "f", "properties": properties}, Flavor, "f")
    return [
        (
            n.kind,
            n.measure,
            n.amount,
            n.count,
            tuple((t.attribute, t.operator, t.value) for t in n.tests),
            n.resource,
        )
        for n in flavor.needs
    ]


def devices(kind: str, count: int, *tests: tuple) -> tuple:
    return (kind, "devices", count, 1, tests, "")


def total(kind: str, measure: str, amount: int, *tests: tuple) -> tuple:
    return (kind, measure, amount, 1, tests, "")


class TestCompile(unittest.TestCase):
    """Properties, and their needs."""

    TABLE = (
        ({"processor": {"total_cores": 16}}, [total("processor", "cores", 16)]),
        ({"processor": {"sockets": 2}}, [total("processor", "sockets", 2)]),
        ({"processor": {}}, [total("processor", "sockets", 1)]),
        (
            {"processor": {"total_cores": 16, "sockets": 2, "model": "Xeon"}},
            [
                total("processor", "cores", 16, ("model", "words", "Xeon")),
                total("processor", "sockets", 2, ("model", "words", "Xeon")),
            ],
        ),
        (
            {"processor": {"architecture": "ARM", "instruction_set": "ARM-A64", "speed_mhz": 9}},
            [
                total(
                    "processor",
                    "sockets",
                    1,
                    ("architecture", "equal", "ARM"),
                    ("instruction_set", "equal", "ARM-A64"),
                    ("speed_mhz", "at_least", 9),
                )
            ],
        ),
        ({"memory": {"capacity_mib": 2048}}, [total("memory", "capacity_mib", 2048)]),
        (
            {"memory": {"capacity_mib": 1, "type": "DDR5", "speed_mhz": 4800}},
            [
                total(
                    "memory",
                    "capacity_mib",
                    1,
                    ("type", "equal", "DDR5"),
                    ("speed_mhz", "at_least", 4800),
                )
            ],
        ),
        ({"accelerators": [{}]}, [devices("accelerator", 1, ("kind", "equal", "GPU"))]),
        (
            {"accelerators": [{"kind": "FPGA", "count": 2}, {"model": "A100", "memory_mib": 5}]},
            [
                devices("accelerator", 2, ("kind", "equal", "FPGA")),
                devices(
                    "accelerator",
                    1,
                    ("kind", "equal", "GPU"),
                    ("model", "words", "A100"),
                    ("memory_mib", "at_least", 5),
                ),
            ],
        ),
        (
            {"drives": [{"count": 3, "capacity_gib": 2, "media": "SSD", "protocol": "NVMe"}]},
            [
                devices(
                    "drive",
                    3,
                    ("media", "equal", "SSD"),
                    ("protocol", "equal", "NVMe"),
                    ("capacity_bytes", "at_least", 2 * GIB),
                )
            ],
        ),
        (
            {"drives": [{"rpm": 7200, "model": "Exos"}]},
            [devices("drive", 1, ("model", "words", "Exos"), ("rpm", "at_least", 7200))],
        ),
        (
            {"nics": [{"count": 2, "speed_mbps": 25000}]},
            [devices("nic", 2, ("speed_mbps", "at_least", 25000))],
        ),
        (
            {"stocks": [{"resource": "watts", "amount": 0.5, "count": 3}]},
            [("stock", "amount", 0.5, 3, (), "watts")],
        ),
        (
            {
                "cpus": [
                    {
                        "count": 2,
                        "cores": 8,
                        "model": "Xeon",
                        "architecture": "x86",
                        "instruction_set": "x86-64",
                        "speed_mhz": 9,
                    }
                ],
                "modules": [{"capacity_mib": 7, "type": "DDR5", "speed_mhz": 4800}, {}],
            },
            [
                devices(
                    "processor",
                    2,
                    ("architecture", "equal", "x86"),
                    ("instruction_set", "equal", "x86-64"),
                    ("model", "words", "Xeon"),
                    ("cores", "at_least", 8),
                    ("speed_mhz", "at_least", 9),
                ),
                devices(
                    "memory",
                    1,
                    ("type", "equal", "DDR5"),
                    ("capacity_mib", "at_least", 7),
                    ("speed_mhz", "at_least", 4800),
                ),
                devices("memory", 1),
            ],
        ),
        # Valence's own names
        (
            {"processor": {"total_cores": "8", "model": "Intel"}, "memory": {"capacity_mib": "9"}},
            [
                total("processor", "cores", 8, ("model", "words", "Intel")),
                total("memory", "capacity_mib", 9),
            ],
        ),
        (
            {"pci_device": {"type": ["NIC", "SSD", "NIC", "GPU"]}},
            [
                devices("nic", 2),
                devices("drive", 1, ("media", "equal", "SSD")),
                devices("accelerator", 1, ("kind", "equal", "GPU")),
            ],
        ),
        (
            {"remote_storage": {"capacity_gib": 100}},
            [("stock", "amount", 100, 1, (), "storage_gib")],
        ),
        ({}, []),
    )

    def test_properties_compile_to_needs(self):
        for properties, expected in self.TABLE:
            with self.subTest(properties):
                self.assertEqual(expected, needs(properties))

    def test_an_empty_word_is_refused_for_any_device_would_do(self):
        for kind, asked in (
            ("processor", {"total_cores": 8, "model": ""}),
            ("processor", {"architecture": ""}),
            ("processor", {"instruction_set": ""}),
            ("memory", {"capacity_mib": 8, "type": ""}),
            ("cpus", [{"model": ""}]),
            ("modules", [{"type": ""}]),
            ("accelerators", [{"kind": ""}]),
            ("accelerators", [{"model": ""}]),
            ("drives", [{"media": ""}]),
            ("drives", [{"protocol": ""}]),
            ("resources", {"": 5}),
        ):
            with (
                self.subTest(asked),
                self.assertRaisesRegex(InputError, rf"^f: \$\.properties\.{kind}.*length >= 1"),
            ):
                needs({kind: asked})

    def test_totals_come_first(self):
        kinds = [
            n[0] for n in needs({"nics": [{}], "memory": {"capacity_mib": 1}, "processor": {}})
        ]
        self.assertEqual(["processor", "memory", "nic"], kinds)

    def test_capabilities_are_a_map_or_text(self):
        words = {"name": "f", "properties": {}}
        for capabilities in ("a=1;2, b=3", {"a": ["1", "2"], "b": ["3"]}):
            flavor = msgspec.convert({**words, "capabilities": capabilities}, Flavor)
            self.assertEqual({"a": ("1", "2"), "b": ("3",)}, flavor.capability_map)


class TestLabels(unittest.TestCase):
    """The text of a need for operators."""

    def test_labels_and_units(self):
        gpu, a100 = Test("kind", "equal", "GPU"), Test("model", "words", "A100")
        big = Test("memory_mib", "at_least", 5)
        for need, label, unit in (
            (Need(kind="accelerator", measure="devices", amount=1, tests=(gpu, a100, big)),
             "GPU A100", ""),
            (Need(kind="accelerator", measure="devices", amount=1), "accelerator", ""),
            (Need(kind="drive", measure="devices", amount=1,
                  tests=(Test("media", "equal", "SSD"),)), "drive SSD", ""),
            (Need(kind="processor", measure="cores", amount=1), "cores", ""),
            (Need(kind="processor", measure="sockets", amount=1), "sockets", ""),
            (Need(kind="memory", measure="capacity_mib", amount=1), "memory", "MiB"),
            (Need(kind="memory", measure="devices", amount=1), "memory module", ""),
            (Need(kind="processor", measure="devices", amount=1), "CPU", ""),
            (Need(kind="stock", measure="amount", amount=1, resource="watts"), "watts", ""),
        ):  # fmt: skip
            with self.subTest(label):
                self.assertEqual((label, unit), (need.label, need.unit))


def needs_of(**amounts: int) -> list[tuple]:
    flavor = Flavor(name="f", properties=compile_amounts(amounts))
    return [
        (need.kind, need.measure, need.resource or need.amount,
         *(test.value for test in need.tests))
        for need in flavor.needs
    ]  # fmt: skip


def cores(amount: int, *tests: Test) -> Need:
    return Need(kind="processor", measure="cores", amount=amount, tests=tests)


class TestClasses(unittest.TestCase):
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
                self.assertEqual([expected], needs_of(**amounts))

    def test_every_class_that_is_known_asks_for_something_or_says_why_not(self):
        for name in STANDARD:
            with self.subTest(name):
                self.assertIsNone(resource_class_problem(name))
                self.assertEqual(1, len(needs_of(**{name: 1})))
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
    """Needs in addition to a flavor."""

    def test_totals_are_added_up_and_devices_come_beside(self):
        drive = Need(kind="drive", measure="devices", amount=1)
        found = add_needs((cores(8), drive), (cores(4), drive))
        self.assertEqual((drive, cores(12), drive), found)

    def test_every_alternative_gets_them_and_keeps_its_constraints(self):
        one, other = (TopologyConstraint("same", name, ("drive",)) for name in ("switch", "rack"))
        asked = Request(
            needs=(cores(8),), topology=(one,), other_alternatives=(Alternative((), (other,)),)
        )
        found = asked.with_needs(lambda needs: add_needs(needs, (cores(4),)))
        expected = [Alternative((cores(12),), (one,)), Alternative((cores(4),), (other,))]
        self.assertEqual(expected, list(found.alternatives))

    def test_a_total_with_tests_stays_and_the_sum_is_of_all(self):
        flavor = Flavor(
            name="f", properties=Properties(processor=ProcessorSpec(total_cores=8, model="Xeon"))
        )
        found = add_needs(flavor.needs, (cores(4),))
        self.assertEqual((*flavor.needs, cores(12)), found)

    def test_nothing_to_add_to_is_no_obstacle(self):
        self.assertEqual((cores(4),), add_needs((), (cores(4),)))


if __name__ == "__main__":
    unittest.main()
