# SPDX-License-Identifier: Apache-2.0
"""Amounts with a unit or a noun, and ages."""

import datetime
import math
import re
import unittest

from valence_sched.config.parsers import parse_flavors
from valence_sched.errors import InputError
from valence_sched.model import extra_specs
from valence_sched.model.expression import parse_expression
from valence_sched.model.need import Need
from valence_sched.model.quantity import (
    UNITS,
    age_s,
    format_age,
    format_mib_of,
    parse_age,
    parse_age_limit,
    quantity_in,
    unit_of,
)

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
    ("256G", "MiB", ", expected a known unit"),
    ("256Gb", "MiB", ", expected a known unit"),
    ("1e3GiB", "MiB", ", expected a number with a unit"),
    ("-1GiB", "MiB", ", expected a number with a unit"),
    ("9999999999999999GiB", "MiB", ", expected a number with a unit"),
    ("10Gbps", "GiB", "in bits per second, expected bytes, such as 256GiB, 1.5TB"),
    ("1TB", "Mbps", "in bytes, expected bits per second, such as 10Gbps"),
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


class TestPartOfAWhole(unittest.TestCase):
    def test_a_part_has_the_unit_of_the_whole_and_is_never_rounded_to_nothing(self):
        tib = 1 << 20
        for part, whole, text in (
            (0, 4 * tib, "0/4 TiB"),
            (224 << 10, 5 * tib / 4, "0.22/1.2 TiB"),
            (1, 64 * tib, "<0.01/64 TiB"),
            (96 * tib, 640 * tib, "96/640 TiB"),
            (256.5 * tib, 640 * tib, "256/640 TiB"),
            (512, 768, "512/768 MiB"),
            (0, 0, "0/0"),
        ):
            self.assertEqual(text, format_mib_of(part, whole))


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
        """Return the amounts and the minimum values of a flavor's needs, by kind and attribute."""
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


NOON = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)


class TestAge(unittest.TestCase):
    """Seconds, and their text."""

    def test_an_age_is_a_number_and_a_unit_of_which_seconds_may_be_left_out(self):
        for text, seconds in (
            ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("90", 90), ("1.5h", 5400),
            ("0", 0),
        ):  # fmt: skip
            self.assertEqual(seconds, parse_age(text))

    def test_what_is_no_age_is_refused(self):
        for text in ("", "m", "-1s", "1w", "1 m", "nan", "inf", "1e3", "10m5s", "\u0663s"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "must be an age such as"):
                parse_age(text)

    def test_a_limit_of_zero_or_never_is_none(self):
        for text, seconds in (("2h", 7200), ("0", math.inf), ("0d", math.inf), ("Never", math.inf)):
            self.assertEqual(seconds, parse_age_limit(text))
        with self.assertRaisesRegex(ValueError, "must be never or an age such as 30s"):
            parse_age_limit("1w")

    def test_an_age_is_printed_in_the_largest_unit_of_which_there_are_two(self):
        for seconds, text in (
            (0.9, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"),
            (172799, "47h"), (172800, "2d"),
        ):  # fmt: skip
            self.assertEqual(text, format_age(seconds))

    def test_the_age_of_a_time_counts_from_now_whatever_its_zone(self):
        for text in ("2026-01-05T11:59:00Z", "2026-01-05T12:59:00+01:00", "2026-01-05T11:59:00"):
            self.assertEqual(60, age_s(text, NOON))
        years = (age_s("0001-01-01T00:00:00+14:00", NOON) or 0) / 86400 / 365
        self.assertEqual(2026, round(years))  # in UTC, the time is before the first year

    def test_nobody_knows_the_age_of_no_time_of_text_and_of_the_future(self):
        for text in (None, "", "yesterday", "2026-01-05T12:06:00Z", "9999-12-31T23:59:59Z"):
            self.assertIsNone(age_s(text, NOON))

    def test_a_clock_a_little_ahead_of_ours_makes_no_negative_age(self):
        self.assertEqual(0, age_s("2026-01-05T12:04:00Z", NOON))
