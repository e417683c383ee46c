# SPDX-License-Identifier: Apache-2.0
"""Pools of free hosts on several fabrics: what is attached to a host is on its fabric."""

import itertools
import random
import unittest

import msgspec

from tests.unit.planning.test_node_change import decide, gpu
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.reader import split_by_fabric
from valence_sched.model.inventory import FullPodm
from valence_sched.testing import request


def placed(block, fabric):
    return {**block, "places": {"fabric": f"{ROOT}/Fabrics/{fabric}"}} if fabric else block


def host(name, cores, pools, fabric=None):
    devices = {"processors": [{"cores": cores}]}
    block = {"uri": f"/B/{name}", "type": ["Compute"], "devices": devices, "pools": pools}
    return placed(block, fabric)


def podm(*blocks, pools="a", stocks=()):
    limits = {"Compute": {"max": 1}}
    found = {"id": "p", "pools": [{"id": one, "limits": limits} for one in pools]}
    return msgspec.convert({**found, "blocks": blocks, "stocks": stocks}, FullPodm)


def pools_of(found):
    return {block.uri[3:]: block.pools for block in found.blocks}


class TestPools(unittest.TestCase):
    """Pool ids, and the blocks and stocks in them."""

    def test_each_fabric_of_the_hosts_of_a_pool_is_a_pool(self):
        stock = {"uri": "/D", "resource": "mem", "unit": "MiB", "pools": ["a"]}
        blocks = [host("1", 8, ["a"], "x"), host("2", 8, ["a"], "y"), host("3", 8, ["a"])]
        blocks += [placed(gpu("4", pools="a"), "x"), placed(gpu("5", pools="a"), "z")]
        found = split_by_fabric(podm(*blocks, gpu("6", pools="a"), stocks=[stock]),
                                {"/B/1", "/B/2", "/B/3"})  # fmt: skip
        every = {"a", "a+x", "a+y"}
        self.assertEqual(sorted(every), [pool.id for pool in found.pools])
        self.assertEqual(every, set(found.stocks[0].pools))
        self.assertEqual(
            {"1": {"a+x"}, "2": {"a+y"}, "3": {"a"}, "4": {"a+x", "a"}, "5": {"a"}, "6": every},
            {name: set(pools) for name, pools in pools_of(found).items()},
        )

    def test_a_pool_of_one_fabric_keeps_its_id_and_loses_what_no_host_reaches(self):
        blocks = [host("1", 8, ["a"], "x"), placed(gpu("2", pools="a"), "x"),
                  placed(gpu("3", pools="ab"), "y")]  # fmt: skip
        found = split_by_fabric(podm(*blocks, pools="ab"), {"/B/1"})
        self.assertEqual({"1": ("a",), "2": ("a",), "3": ("b",)}, pools_of(found))
        self.assertEqual(["a", "b"], [pool.id for pool in found.pools])


class TestDecisions(unittest.TestCase):
    """Decisions on free hosts, compared with all choices."""

    def test_a_host_gets_only_devices_of_its_fabric_on_random_fabrics(self):
        rng, ends = random.Random(3), {True: 0, False: 0}
        for _ in range(150):
            fabrics = [None, "x", "y", "z"][: rng.randint(2, 4)]
            pools = ["a", "b"][: rng.randint(1, 2)]

            def some(pools=pools):
                return rng.sample(pools, rng.randint(1, len(pools)))

            hosts = [
                host(f"h{n}", rng.choice([4, 8, 16]), some(), rng.choice(fabrics))
                for n in range(rng.randint(1, 4))
            ]
            cards = [
                placed(gpu(f"g{n}", pools=some(), state=rng.choice(["Unused", "Composed"])),
                       rng.choice(fabrics))
                for n in range(5)
            ]  # fmt: skip
            cores, count = rng.choice([4, 8, 16]), rng.randint(1, 3)
            fits = any(
                one["devices"]["processors"][0]["cores"] >= cores
                and any(
                    all(_reaches(one, card, pool) for card in group)
                    for pool in one["pools"]
                    for group in itertools.combinations(cards, count)
                )
                for one in hosts
            )
            wanted = request({"processor": {"total_cores": cores},
                              "accelerators": [{"kind": "GPU", "count": count}]})  # fmt: skip
            split = split_by_fabric(podm(*hosts, *cards, pools=pools), {h["uri"] for h in hosts})
            placements = decide(split, wanted).report.placements
            with self.subTest(hosts=hosts, cards=cards, cores=cores, count=count):
                self.assertEqual(fits, bool(placements))
                for placement in placements:
                    names = {block.uri for block in placement.chosen.blocks}
                    (own,) = [one for one in hosts if one["uri"] in names]
                    chosen = [card for card in cards if card["uri"] in names]
                    pool = placement.chosen.pool.partition("+")[0]
                    self.assertTrue(all(_reaches(own, card, pool) for card in chosen))
            ends[fits] += 1
        self.assertGreater(min(ends.values()), 30, ends)


def _reaches(own, card, pool):
    fabrics = {one["places"]["fabric"] for one in (own, card) if "places" in one}
    return pool in card["pools"] and card["status"]["state"] == "Unused" and len(fabrics) < 2
