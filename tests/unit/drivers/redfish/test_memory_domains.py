# SPDX-License-Identifier: Apache-2.0
"""Memory domains that do not tell their size."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from tests.unit.drivers.files.test_tree import read_map
from valence_sched.model.diagnostic import Diagnostics

V = "/redfish/v1"
DOMAIN = f"{V}/Chassis/1/MemoryDomains/1"
DIMM, PMEM = {"CapacityMiB": 1024}, {"CapacityMiB": 4096, "MemoryType": "NVDIMM_P"}


class TestSizes(TestCase):
    """The total of a domain, and what is said of it."""

    def total(
        self, *modules: dict[str, Any], chunks: tuple[int | None, ...] = (), **domain: Any
    ) -> float | None:
        (total,) = self.totals(*modules, chunks=chunks, **domain)
        return total

    def totals(
        self,
        *modules: dict[str, Any],
        chunks: tuple[int | None, ...] = (),
        more: dict[str, Any] | None = None,
        **domain: Any,
    ) -> list[float | None]:
        dimms = {f"{V}/Memory/{i}": module for i, module in enumerate(modules)}
        pieces = {f"{V}/Chunks/{i}": {"MemoryChunkSizeMiB": size} for i, size in enumerate(chunks)}
        links = [{"@odata.id": uri} for uri in dimms]
        documents = {
            V: {"Chassis": [{"@odata.id": f"{V}/Chassis/1"}]},
            f"{V}/Chassis/1": {"MemoryDomains": [{"@odata.id": DOMAIN}]},
            f"{V}/Chunks": {"Members": [{"@odata.id": uri} for uri in pieces]},
            DOMAIN: {"AllowsMemoryChunkCreation": True, "InterleavableMemorySets": [
                {"MemorySet": links}, {"MemorySet": links[:1]}],
                "MemoryChunks": {"@odata.id": f"{V}/Chunks"}, **domain},
            **dimms, **pieces,
        }  # fmt: skip
        self.notes = Diagnostics()
        stocks = read_map(documents | (more or {}), self.notes).stocks
        return [stock.total for stock in stocks]

    def test_a_domain_without_a_size_has_that_of_its_modules_each_once(self) -> None:
        self.assertEqual(2048, self.total(DIMM, DIMM))
        self.assertEqual(2048, self.total(DIMM, DIMM, MemorySizeMiB=None))
        self.assertEqual([], self.notes.lines())

    def test_a_size_that_cannot_be_read_or_is_0_is_no_size_and_that_is_noted(self) -> None:
        for size in (0, "0", "", "plenty", -1, True):
            with self.subTest(size):
                self.assertEqual(2048, self.total(DIMM, DIMM, MemorySizeMiB=size))
                self.assertTrue([line for line in self.notes.lines() if "MemorySizeMiB" in line])

    def test_modules_of_unknown_size_or_none_at_all_make_it_unknown_and_never_0(self) -> None:
        for modules in ((), ({},), (DIMM, {"CapacityMiB": None}), (DIMM, {"CapacityMiB": "x"})):
            with self.subTest(modules):
                self.assertIsNone(self.total(*modules))
                text = "MemorySizeMiB: found none, expected a size, or modules with a size each"
                noted = any(text in line for line in self.notes.lines())
                self.assertEqual(len(modules) > 1, noted)  # null alone is unknown and no fault

    def test_modules_that_another_domain_has_make_it_unknown(self) -> None:
        again = f"{V}/Again"
        chassis = {"MemoryDomains": [{"@odata.id": DOMAIN}, {"@odata.id": again}]}
        sets = [{"MemorySet": [{"@odata.id": f"{V}/Memory/0"}]}]
        second = {"AllowsMemoryChunkCreation": True, "InterleavableMemorySets": sets,
                  "MemoryChunks": {"@odata.id": f"{V}/Chunks"}}  # fmt: skip
        more = {f"{V}/Chassis/1": chassis, again: second}
        self.assertEqual([2048, None], self.totals(DIMM, DIMM, more=more))
        self.assertIn(f"{again}: found modules of {DOMAIN}", self.notes.lines()[0])
        second["MemorySizeMiB"] = 512
        self.assertEqual([2048, 512], self.totals(DIMM, DIMM, more=more))

    def test_absent_modules_do_not_count(self) -> None:
        absent = {**DIMM, "Status": {"State": "Absent"}}
        self.assertEqual(1024, self.total(DIMM, absent))

    def test_of_a_mixed_domain_the_persistent_modules_are_no_memory(self) -> None:
        self.assertEqual(1024 + 512, self.total(DIMM, {**PMEM, "VolatileSizeMiB": 512}))
        self.assertEqual(8192, self.total(PMEM, PMEM))

    def test_chunks_beyond_the_modules_make_it_unknown(self) -> None:
        self.assertIsNone(self.total(DIMM, chunks=(1000, 1000)))
        self.assertIn("found chunks of 2000 MiB, expected at most 1024", self.notes.lines()[0])
        self.assertIsNone(self.total(DIMM, chunks=(None,)))

    def test_a_domain_of_0_mib_with_nothing_in_it_has_0(self) -> None:
        self.assertEqual(0, self.total(MemorySizeMiB=0))

    def test_a_domain_that_does_not_say_whether_it_hands_out_memory_is_noted(self) -> None:
        with self.assertRaises(ValueError):
            self.total(DIMM, AllowsMemoryChunkCreation=None)
        self.assertIn("AllowsMemoryChunkCreation: found none", self.notes.lines()[0])
