# SPDX-License-Identifier: Apache-2.0
"""Amounts with a unit, alone and wherever an amount is read."""

import re
import unittest

from valence_sched.config.parsers import parse_flavors
from valence_sched.errors import InputError
from valence_sched.model import extra_specs
from valence_sched.model.expression import parse_expression
from valence_sched.model.need import Need
from valence_sched.model.quantity import UNITS, quantity_in, unit_of

READ = [
    ("256GiB", "MiB", 262144),
    ("256 gib", "MiB", 262144),
    ("256Gi", "GiB", 256),
    ("1.5TB", "B", 1_500_000_000_000),
    ("0.5MiB", "B", 524288),
    ("10Gbps", "Mbps", 10_000),
    ("400Mbit/s", "Mbps", 400),
    ("10gb/s", "Mbps", 10_000),
    ("2.8GHz", "MHz", 2800),
    ("1B", "MiB", 1 / (1 << 20)),
]
REFUSED = [
    ("256G", "MiB", "has no unit that is known"),
    ("256Gb", "MiB", "has no unit that is known"),
    ("1e3GiB", "MiB", "is not a number with a unit"),
    ("-1GiB", "MiB", "is not a number with a unit"),
    ("9999999999999999GiB", "MiB", "is not a number with a unit"),
    ("10Gbps", "GiB", "is in bits a second, expected bytes, such as 256GiB, 1.5TB"),
    ("1TB", "Mbps", "is in bytes, expected bits a second, such as 10Gbps"),
]
NAMES = {
    "capacity_mib": "MiB",
    "MEMORY_MB": "MiB",
    "CUSTOM_STORAGE_GIB": "GiB",
    "NET_BW_EGR_KILOBIT_PER_SEC": "kbps",
    "speed_mhz": "MHz",
    "crumb": None,
    "cores": None,
}
FLAVOR = """
name: node
properties:
  memory: {capacity_mib: 256GiB, speed_mhz: 3.2GHz}
  modules: [{capacity_mib: 16GB}]
  accelerators: [{memory_mib: 80GiB}]
  drives: [{capacity_gib: 1.5TB}]
  nics: [{speed_mbps: 10Gbps}]
  resources: {storage_gib: 2TiB}
  stocks: [{resource: cxl_mib, amount: 1.5GiB}]
attributes: {facts.scratch_gib: '>= 2TiB'}
where: ['>=', $free.capacity_mib, 512GiB]
"""


class QuantityTest(unittest.TestCase):
    def test_reads_amounts(self):
        for text, unit, expected in READ:
            with self.subTest(text):
                self.assertEqual(expected, quantity_in(text, unit))

    def test_refuses_what_is_ambiguous_or_of_another_dimension(self):
        for text, unit, problem in REFUSED:
            with self.subTest(text), self.assertRaisesRegex(ValueError, problem):
                quantity_in(text, unit)

    def test_every_unit_is_one_of_itself(self):
        for unit in UNITS:
            self.assertEqual(1, quantity_in(f"1{unit}", unit))

    def test_the_end_of_a_name_says_the_unit(self):
        self.assertEqual(NAMES, {name: unit_of(name) for name in NAMES})


class WhereAmountsAreReadTest(unittest.TestCase):
    def amounts(self, flavor: str) -> dict[str, object]:
        """Return the amounts and the least values of a flavor's needs, by kind and attribute."""
        (parsed,) = parse_flavors(flavor.encode(), "flavors.yaml")
        return dict(pair for need in parsed.needs for pair in _numbers(need))

    def test_a_flavor_may_name_units(self):
        self.assertEqual(
            {
                "memory": 262144,
                "memory.speed_mhz": 3200,
                "memory.capacity_mib": 15258,
                "accelerator.memory_mib": 81920,
                "drive.capacity_bytes": 1_500_000_000_000,
                "nic.speed_mbps": 10_000,
                "storage_gib": 2048,
                "cxl_mib": 1536,
            },
            self.amounts(FLAVOR),
        )

    def test_a_wrong_unit_is_named_with_its_place(self):
        places = {
            "memory: {capacity_mib: 256G}": "properties.memory.capacity_mib",
            "nics: [{speed_mbps: 10GB}]": "properties.nics[0].speed_mbps",
            "resources: {storage_gib: 1Gbps}": "properties.resources.storage_gib",
        }
        for field, place in places.items():
            flavor = f"name: x\nproperties: {{{field}}}\n"
            with self.subTest(field), self.assertRaisesRegex(InputError, re.escape(place)):
                parse_flavors(flavor.encode(), "flavors.yaml")

    def test_a_text_of_an_attribute_stays_a_text(self):
        flavor = "{name: x, properties: {memory: {capacity_mib: 1}}, attributes: {disk_gib: 2TiB}}"
        (parsed,) = parse_flavors(flavor.encode(), "flavors.yaml")
        self.assertEqual({"disk_gib": "2TiB"}, parsed.attributes)

    def test_conditions_and_expressions_compare_in_the_unit_of_the_name(self):
        self.assertTrue(extra_specs.parse_condition(">= 2TiB", "facts.disk_gib").holds(2048))
        self.assertFalse(extra_specs.parse_condition(">= 2TiB", "facts.disk_gib").holds(2047))
        for expression, expected in (
            ([">=", "$free.capacity_mib", "512GiB"], "free.capacity_mib >= 524288"),
            (["=", "$facts.model", "2TiB"], 'facts.model = "2TiB"'),
        ):
            self.assertEqual(expected, str(parse_expression(expression)))
        with self.assertRaisesRegex(InputError, "expected bytes"):
            parse_expression([">=", "$free.capacity_mib", "10Gbps"])


def _numbers(need: Need):
    if need.measure in ("capacity_mib", "amount"):
        yield need.resource or need.kind, need.amount
    for test in need.tests:
        if test.operator == "at_least":
            yield f"{need.kind}.{test.attribute}", test.value
