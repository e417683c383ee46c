# SPDX-License-Identifier: Apache-2.0
"""Quotas: the amounts of a claim, and the names of resources."""

import unittest

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.claim import ClaimPart, NodeAllocation
from valence_sched.model.inventory import Devices
from valence_sched.model.need import Alternative, Need, NodeRequest, Test
from valence_sched.model.quota import (
    block_charges,
    check_limits,
    check_owner,
    claim_charges,
    node_charges,
)

CORES = Need(kind="processor", measure="cores", amount=8)
MEMORY = Need(kind="memory", measure="capacity_mib", amount=1024)
GPUS = Need(
    kind="accelerator",
    measure="devices",
    amount=2,
    tests=(
        Test("kind", "equal", "GPU"),
        Test("model", "words", "A100"),
        Test("memory", "at_least", 40),
    ),
)


class TestCharges(unittest.TestCase):
    def test_a_node_counts_what_was_asked_for(self):
        needs = (
            CORES,
            Need(kind="processor", measure="sockets", amount=2),
            MEMORY,
            GPUS,
            Need(kind="accelerator", measure="devices", amount=1),
            Need(kind="drive", measure="devices", amount=1),
            Need(kind="nic", measure="devices", amount=4),
            Need(kind="stock", measure="amount", amount=2.5, count=2, resource="storage_gib"),
        )
        expected = {"cores": 8, "processors": 2, "memory_mib": 1024, "accelerators": 3,
                    "accelerators:gpu": 2, "accelerators:a100": 2, "drives": 1, "nics": 4,
                    "stock:storage_gib": 5}  # fmt: skip
        self.assertEqual(expected, node_charges(NodeRequest(needs=needs)))

    def test_of_several_ways_the_most_counts(self):
        more = Need(kind="processor", measure="cores", amount=16)
        request = NodeRequest(needs=(CORES, MEMORY), other_alternatives=(Alternative((more,)),))
        self.assertEqual({"cores": 16, "memory_mib": 1024}, node_charges(request))

    def test_a_claim_counts_its_nodes_on_every_pod_manager(self):
        parts = [
            ClaimPart(podm=name, generation=1, request=NodeRequest(needs=(CORES,)),
                      shares=tuple(NodeAllocation(node=one, pool="a") for one in range(nodes)))
            for name, nodes in (("a", 2), ("b", 1))
        ]  # fmt: skip
        self.assertEqual({"claims": 1, "nodes": 3, "cores": 24}, claim_charges(parts))

    def test_a_node_counts_what_its_blocks_have_and_at_least_what_was_asked_for(self):
        request = NodeRequest(needs=(CORES, GPUS))
        few = NodeAllocation(node=1, pool="a", charges={"cores": 2.0, "accelerators": 1.0})
        many = NodeAllocation(node=2, pool="a", charges={"cores": 64.0, "drives": 4.0})
        parts = [ClaimPart(podm="p", generation=1, request=request, shares=(few, many))]
        expected = {"claims": 1, "nodes": 2, "cores": 72, "accelerators": 4, "drives": 4,
                    "accelerators:gpu": 4, "accelerators:a100": 4}  # fmt: skip
        self.assertEqual(expected, claim_charges(parts))
        empty = [ClaimPart(podm="p", generation=1, request=NodeRequest(), shares=(many,))]
        self.assertEqual({"claims": 1, "nodes": 1, **many.charges}, claim_charges(empty))

    def test_a_block_counts_its_devices_by_kind_and_by_each_word_of_their_model(self):
        devices = msgspec.convert({
            "processors": [{"count": 2, "cores": 16}, {"cores": None}],
            "memory": [{"count": 4, "capacity_mib": 1024}, {"count": None, "capacity_mib": 1}],
            "accelerators": [{"kind": "GPU", "count": 2, "model": "NVIDIA A100-SXM4 größer"},
                             {"kind": "FPGA"}],
            "drives": [{"count": 3}], "nics": [{}],
        }, Devices)  # fmt: skip
        expected = {"cores": 32, "processors": 3, "memory_mib": 4096, "accelerators": 3,
                    "accelerators:gpu": 2, "accelerators:nvidia": 2, "accelerators:a100": 2,
                    "accelerators:sxm4": 2, "accelerators:fpga": 1, "drives": 3,
                    "nics": 1}  # fmt: skip
        self.assertEqual(expected, dict(block_charges(devices)))

    def test_a_resource_has_a_name_that_some_claim_may_count(self):
        names = ("claims", "nodes", "accelerators:a100", "stock:power_w")
        check_limits(dict.fromkeys(names, 1.0), "f")
        for name, hint in (("claim", "claims"), ("stock:", "stock:NAME"), ("", "known"),
                           ("accelerators:a b", "accelerators")):  # fmt: skip
            with self.subTest(name), self.assertRaisesRegex(InputError, hint):
                check_limits({name: None}, "f")

    def test_a_limit_is_a_number_from_0_on_or_none(self):
        check_limits({"claims": 0.0, "nodes": 1e15, "cores": None}, "f")
        for most in (-1.0, 1e16, float("nan"), float("inf")):
            with self.subTest(most), self.assertRaisesRegex(InputError, "f: claims: found"):
                check_limits({"claims": most}, "f")

    def test_the_name_of_an_owner_is_not_empty_and_not_too_long(self):
        for owner in (None, "a", "a" * 255):
            check_owner(owner)
        for owner in ("", "a" * 256):
            with self.subTest(owner), self.assertRaisesRegex(InputError, "1 to 255 characters"):
                check_owner(owner)
