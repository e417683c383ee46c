# SPDX-License-Identifier: Apache-2.0
"""S36: each attribute that can be asked for, alone, keeps out a pool that lacks only it."""

import copy
import unittest

from valence_sched.core.fit.fit import Fitter
from valence_sched.filters.capacity import capacity
from valence_sched.filters.devices import devices
from valence_sched.testing import request, view

GIB = 1 << 30
HAS = {
    "processors": [{"count": 2, "cores": 32, "model": "AMD EPYC 9354", "architecture": "x86",
                    "instruction_set": "x86-64", "speed_mhz": 3250}],
    "memory": [{"count": 8, "capacity_mib": 32768, "type": "DDR5", "speed_mhz": 4800}],
    "accelerators": [{"kind": "GPU", "count": 2, "model": "NVIDIA A100", "memory_mib": 81920}],
    "drives": [{"count": 2, "capacity_bytes": 4000 * GIB, "media": "SSD", "protocol": "NVMe",
                "rpm": 7200, "model": "Micron 7450", "remote": True}],
    "nics": [{"count": 2, "speed_mbps": 100000}],
}  # fmt: skip
ASKS = {
    "processors": {"processor": {"total_cores": 64, "sockets": 2, "model": "EPYC 9354",
                                 "architecture": "x86", "instruction_set": "x86-64",
                                 "speed_mhz": 3250}},
    "memory": {"memory": {"capacity_mib": 262144, "type": "DDR5", "speed_mhz": 4800}},
    "accelerators": {"accelerators": [{"kind": "GPU", "count": 2, "model": "A100",
                                       "memory_mib": 81920}]},
    "drives": {"drives": [{"count": 2, "capacity_gib": 4000, "media": "SSD", "protocol": "NVMe",
                           "rpm": 7200, "model": "Micron", "remote": True}]},
    "nics": {"nics": [{"count": 2, "speed_mbps": 100000}]},
}  # fmt: skip
#: Per attribute: the one thing that a pool has otherwise, and the one word that asks for it.
LACKS = {
    ("processors", "cores"): (31, {"processor": {"total_cores": 64}}),
    ("processors", "count"): (1, {"processor": {"sockets": 2}}),
    ("processors", "model"): ("Intel Xeon 6430", {"processor": {"model": "EPYC"}}),
    ("processors", "architecture"): ("ARM", {"processor": {"architecture": "x86"}}),
    ("processors", "instruction_set"): ("x86", {"processor": {"instruction_set": "x86-64"}}),
    ("processors", "speed_mhz"): (3249, {"processor": {"speed_mhz": 3250}}),
    ("memory", "capacity_mib"): (32767, {"memory": {"capacity_mib": 262144}}),
    ("memory", "type"): ("DDR4", {"memory": {"capacity_mib": 1, "type": "DDR5"}}),
    ("memory", "speed_mhz"): (4799, {"memory": {"capacity_mib": 1, "speed_mhz": 4800}}),
    ("accelerators", "kind"): ("FPGA", {"accelerators": [{"kind": "GPU"}]}),
    ("accelerators", "count"): (1, {"accelerators": [{"count": 2}]}),
    ("accelerators", "model"): ("NVIDIA A40", {"accelerators": [{"model": "A100"}]}),
    ("accelerators", "memory_mib"): (81919, {"accelerators": [{"memory_mib": 81920}]}),
    ("drives", "count"): (1, {"drives": [{"count": 2}]}),
    ("drives", "capacity_bytes"): (4000 * GIB - 1, {"drives": [{"capacity_gib": 4000}]}),
    ("drives", "media"): ("HDD", {"drives": [{"media": "SSD"}]}),
    ("drives", "protocol"): ("SAS", {"drives": [{"protocol": "NVMe"}]}),
    ("drives", "rpm"): (7199, {"drives": [{"rpm": 7200}]}),
    ("drives", "model"): ("Fjord H1", {"drives": [{"model": "Micron"}]}),
    ("drives", "remote"): (False, {"drives": [{"remote": True}]}),
    ("nics", "count"): (1, {"nics": [{"count": 2}]}),
    ("nics", "speed_mbps"): (99999, {"nics": [{"speed_mbps": 100000}]}),
}


def fits(properties: dict, *blocks: dict, **words) -> bool:
    asked = request(properties)
    named = [{"uri": str(n), "devices": block} for n, block in enumerate(blocks)]
    seen = view({"id": "a", "blocks": named, **words})
    found = Fitter(asked.needs, seen.kinds, asked.bonds).fit(seen, 0)
    if found is not None:
        assert capacity(seen, asked)[0] and devices(seen, asked)[0], "a filter rejects what fits"
    return found is not None


def cards(**counts: int) -> list[dict]:
    return [{"accelerators": [{"kind": "GPU", "model": model, "count": count}]}
            for model, count in counts.items()]  # fmt: skip


class TestEachAttribute(unittest.TestCase):
    """One attribute at a time."""

    def test_every_device_attribute_has_its_line(self):
        asked = {(group, name) for group, lines in HAS.items() for name in lines[0]}
        self.assertEqual(asked - {("memory", "count")}, set(LACKS))

    def test_a_pool_that_has_all_is_kept_and_one_that_lacks_a_single_thing_is_not(self):
        everything = {name: part for ask in ASKS.values() for name, part in ask.items()}
        self.assertTrue(fits(everything, HAS))
        for (group, attribute), (value, word) in LACKS.items():
            with self.subTest(f"{group}.{attribute}"):
                other = copy.deepcopy(HAS)
                other[group][0][attribute] = value
                self.assertTrue(fits(word, HAS))
                self.assertFalse(fits(word, other))
                self.assertFalse(fits(everything, other))

    def test_what_is_not_told_does_not_pass(self):
        for (group, attribute), (_, word) in LACKS.items():
            if attribute not in ("count", "kind"):
                with self.subTest(f"{group}.{attribute}"):
                    silent = copy.deepcopy(HAS)
                    del silent[group][0][attribute]
                    self.assertFalse(fits(word, silent))

    def test_local_drives_are_asked_for_as_remote_ones_are(self):
        local = {"drives": [{"remote": False}]}
        self.assertTrue(fits({"drives": [{"remote": False}]}, local))
        self.assertFalse(fits({"drives": [{"remote": False}]}, {"drives": [{"remote": True}]}))

    def test_any_kind_of_accelerator_can_be_asked_for_and_is_no_other(self):
        for kind in ("GPU", "FPGA", "DSP", "Partition"):
            block = {"accelerators": [{"kind": kind}]}
            for other in ("GPU", "FPGA", "DSP", "Partition"):
                self.assertEqual(kind == other, fits({"accelerators": [{"kind": other}]}, block))

    def test_stocks(self):
        asked = {"stocks": [{"resource": "storage_gib", "amount": 5, "count": 2}]}
        for total, enough in ((10, True), (9, False)):
            stocks = [{"uri": "/s", "resource": "storage_gib", "total": total}]
            self.assertEqual(enough, fits(asked, stocks=stocks))


class TestGroups(unittest.TestCase):
    """Two A100 and any one GPU: three cards, never two."""

    ASKED = {"accelerators": [{"model": "A100", "count": 2}, {"count": 1}]}  # noqa: RUF012

    def test_each_device_counts_for_one_group(self):
        for counts, enough in (
            ({"A100": 2}, False), ({"A100": 3}, True), ({"A100": 2, "A40": 1}, True),
            ({"A100": 1, "A40": 2}, False), ({"A40": 3}, False),
        ):  # fmt: skip
            with self.subTest(counts):
                self.assertEqual(enough, fits(self.ASKED, *cards(**counts)))

    def test_each_group_has_its_own_memory(self):
        asked = {"accelerators": [{"memory_mib": 80, "count": 1}, {"memory_mib": 40, "count": 1}]}
        big, small = ({"accelerators": [{"kind": "GPU", "memory_mib": m}]} for m in (80, 40))
        self.assertTrue(fits(asked, big, small))
        self.assertTrue(fits(asked, big, big))
        self.assertFalse(fits(asked, small, small))
