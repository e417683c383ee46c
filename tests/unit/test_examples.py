# SPDX-License-Identifier: Apache-2.0
"""The example site and the flavors match the documentation."""

from __future__ import annotations

import unittest
from pathlib import Path

import msgspec

import valence_sched
from valence_sched.model.codec import convert, load_yaml
from valence_sched.model.flavor import (
    AcceleratorSpec,
    CpuSpec,
    DriveSpec,
    Flavor,
    MemoryModuleSpec,
    MemorySpec,
    NicSpec,
    ProcessorSpec,
    Properties,
    StockSpec,
    TopologyConstraintSpec,
)
from valence_sched.model.inventory import FullBlock, FullPodm, Inventory, Pool, Status
from valence_sched.model.need import NameRequirements, Need
from valence_sched.view.block_kinds import device_amount

EXAMPLES = Path(__file__).parents[2] / "examples"
OURS = EXAMPLES / "flavors.yaml"
BUILT_IN = Path(valence_sched.__path__[0]) / "data" / "flavors.json"
GROUPS = {
    "processor": "processors",
    "accelerator": "accelerators",
    "memory": "memory",
    "drive": "drives",
    "nic": "nics",
}


def site() -> dict[str, FullPodm]:
    data = (EXAMPLES / "site.json").read_bytes()
    return {podm.id: podm for podm in msgspec.json.decode(data, type=Inventory).podms}


def flavors(path: Path) -> dict[str, Flavor]:
    document = load_yaml(path.read_bytes(), path.name)
    found = convert(document["flavors"], tuple[Flavor, ...], path.name, "$.flavors")
    return {flavor.name: flavor for flavor in found}


def status(block: FullBlock) -> Status:
    return block.status or Status()


def free(podm: FullPodm, pool: Pool | None = None) -> list[FullBlock]:
    return [b for b in podm.blocks if status(b).slots and (pool is None or pool.id in b.pools)]


def brings(block: FullBlock, need: Need) -> int:
    return sum(
        device_amount(need, kind, device)
        for kind, group in GROUPS.items()
        for device in getattr(block.devices, group)
    )


def lacking(blocks: list[FullBlock], flavor: Flavor) -> list[str]:
    """Return the devices that the blocks cannot supply together."""
    needs = [need for need in flavor.needs if need.kind != "stock"]
    return [n.label for n in needs if sum(brings(block, n) for block in blocks) < n.amount]


def makers(podm: FullPodm, flavor: Flavor) -> list[str]:
    """Return the pools in which one compute block and all other free blocks make the flavor."""
    found = []
    for pool in podm.pools:
        heads = [block for block in free(podm, pool) if "Compute" in block.type]
        others = [block for block in free(podm, pool) if "Compute" not in block.type]
        granted = all(
            any(
                stock.total and stock.total - stock.used >= need.amount
                for stock in podm.stocks
                if stock.resource == need.resource and pool.id in stock.pools
            )
            for need in flavor.needs
            if need.kind == "stock"
        )
        if granted and any(not lacking([head, *others], flavor) for head in heads):
            found.append(pool.id)
    return found


class SiteTest(unittest.TestCase):
    def setUp(self) -> None:
        self.site = site()
        self.blocks = [block for podm in self.site.values() for block in podm.blocks]
        self.gpu_large = flavors(BUILT_IN)["gpu-large"]

    def test_it_has_eight_podms_of_a_dozen_to_forty_blocks(self) -> None:
        self.assertEqual(len(self.site), 8)
        for podm in self.site.values():
            self.assertTrue(12 <= len(podm.blocks) <= 40, podm.id)

    def test_uris_are_unique_within_a_podm_and_pools_exist(self) -> None:
        for podm in self.site.values():
            pools = {pool.id for pool in podm.pools}
            members = {block.uri: block.pools for block in podm.blocks}
            members |= {stock.uri: stock.pools for stock in podm.stocks}
            self.assertEqual(len(members), len(podm.blocks) + len(podm.stocks), podm.id)
            for uri, mine in members.items():
                self.assertTrue(mine and pools.issuperset(mine), uri)

    def test_every_node_is_made_of_used_blocks_of_one_pool_within_its_limits(self) -> None:
        for podm in self.site.values():
            blocks = {block.uri: block for block in podm.blocks}
            for node in podm.nodes:
                mine = [blocks[uri] for uri in node.blocks]
                shared = set.intersection(*(set(block.pools) for block in mine))
                self.assertTrue(shared, node.uri)
                self.assertTrue(all(status(b).state.startswith("Composed") for b in mine))
                for pool in podm.pools:
                    if pool.id not in shared:
                        continue
                    for type_, limit in pool.limits.items():
                        used = sum(type_ in block.type for block in mine)
                        self.assertTrue(limit.min <= used <= (limit.max or used), node.uri)

    def test_every_composed_block_is_in_as_many_nodes_as_it_says(self) -> None:
        for podm in self.site.values():
            for block in podm.blocks:
                used = sum(block.uri in node.blocks for node in podm.nodes)
                if status(block).state == "Composed":
                    self.assertEqual(used, 1, (podm.id, block.uri))
                else:
                    self.assertEqual(used, status(block).compositions, (podm.id, block.uri))

    def test_one_podm_is_offline_and_could_otherwise_make_a_large_gpu_node(self) -> None:
        offline = [podm for podm in self.site.values() if podm.status == "Offline"]
        self.assertEqual([podm.id for podm in offline], ["dark-1"])
        self.assertTrue(makers(offline[0], self.gpu_large))

    def test_one_podm_has_nothing_free(self) -> None:
        self.assertEqual([podm.id for podm in self.site.values() if not free(podm)], ["full-1"])

    def test_pools_overlap_in_shared_blocks_that_have_room(self) -> None:
        both = [block for block in self.blocks if len(block.pools) > 1 and status(block).shareable]
        self.assertTrue(any(status(block).slots > 1 for block in both))
        self.assertTrue(any(status(block).state == "ComposedAndAvailable" for block in both))
        self.assertTrue(any(not status(block).slots for block in both))

    def test_some_blocks_are_reserved_critical_or_not_fully_told(self) -> None:
        self.assertTrue(any(status(block).reserved for block in self.blocks))
        self.assertTrue(any(status(block).health == "Critical" for block in self.blocks))
        devices = [block.devices for block in self.blocks]
        self.assertTrue(any(card.model is None for d in devices for card in d.accelerators))
        self.assertTrue(any(drive.capacity_bytes is None for d in devices for drive in d.drives))
        self.assertTrue(any(module.capacity_mib is None for d in devices for module in d.memory))

    def test_cxl_memory_is_a_stock_with_bounds(self) -> None:
        stocks = [s for s in self.site["mem-1"].stocks if s.resource == "cxl_memory_mib"]
        self.assertTrue(any(s.min and s.max and s.step for s in stocks))

    def test_a_large_gpu_node_fits_two_pools_of_one_podm_and_one_of_another(self) -> None:
        found = {
            podm.id: pools
            for podm in self.site.values()
            if podm.status == "Online" and (pools := makers(podm, self.gpu_large))
        }
        self.assertEqual(found, {"gpu-east": ["row-a", "row-b"], "gpu-north": ["hall-1"]})

    def test_the_other_podms_each_lack_one_thing_for_it(self) -> None:
        for name, lack in (("gpu-west", "GPU A100"), ("mem-1", "memory"), ("store-1", "cores")):
            self.assertEqual(lacking(free(self.site[name]), self.gpu_large), [lack], name)

    def test_the_sums_of_one_podm_suffice_but_no_pool_of_it_has_all_the_pieces(self) -> None:
        podm = self.site["general-1"]
        self.assertEqual(lacking(free(podm), self.gpu_large), [])
        for pool in podm.pools:
            self.assertTrue(lacking(free(podm, pool), self.gpu_large), pool.id)

    def test_the_sums_of_one_pool_suffice_but_not_with_one_compute_block(self) -> None:
        podm = self.site["gpu-east"]
        (pool,) = [pool for pool in podm.pools if pool.id == "row-c"]
        self.assertEqual(lacking(free(podm, pool), self.gpu_large), [])
        self.assertEqual(pool.limits["Compute"].max, 1)


class FlavorsTest(unittest.TestCase):
    def test_the_built_in_set_has_these_flavors(self) -> None:
        names = "small medium large gpu-small gpu-large storage-large memory-large"
        self.assertEqual(list(flavors(BUILT_IN)), names.split())

    def test_the_built_in_large_gpu_flavor_is_32_cores_256_gib_two_a100_and_a_drive(self) -> None:
        document = load_yaml(BUILT_IN.read_bytes(), "flavors.yaml")
        (found,) = [each for each in document["flavors"] if each["name"] == "gpu-large"]
        self.assertEqual(
            found["properties"],
            {
                "processor": {"total_cores": 32},
                "memory": {"capacity_mib": 262144},
                "accelerators": [{"kind": "GPU", "model": "A100", "count": 2}],
                "drives": [{"count": 1, "capacity_gib": 900, "media": "SSD", "protocol": "NVMe"}],
            },
        )

    def test_every_flavor_says_what_it_is_and_fits_somewhere_on_the_site(self) -> None:
        podms = [podm for podm in site().values() if podm.status == "Online"]
        for path in (BUILT_IN, OURS):
            for flavor in flavors(path).values():
                self.assertTrue(flavor.description, flavor.name)
                self.assertTrue(any(makers(podm, flavor) for podm in podms), flavor.name)

    def test_the_sites_own_flavors_show_every_field(self) -> None:
        text = OURS.read_text()
        for noun in (
            Flavor,
            Properties,
            ProcessorSpec,
            MemorySpec,
            CpuSpec,
            MemoryModuleSpec,
            AcceleratorSpec,
            DriveSpec,
            NicSpec,
            StockSpec,
            TopologyConstraintSpec,
            NameRequirements,
        ):
            for name in noun.__struct_fields__:
                self.assertIn(f"{name}:", text, f"{noun.__name__}.{name}")


if __name__ == "__main__":
    unittest.main()
