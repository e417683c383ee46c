# SPDX-License-Identifier: Apache-2.0
"""A pod manager rendered as Redfish documents is read back unchanged."""

import io
import json
import math
import unittest
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.unit.core.sites import sized
from tests.unit.drivers.redfish.rendered import read_back, round_trip_losses
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers.recorded import records
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.drivers.redfish.schema import (
    BOUNDS,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import (
    Accelerator,
    Devices,
    Drive,
    FullBlock,
    FullPodm,
    Inventory,
    Limit,
    Memory,
    Nic,
    Node,
    Pool,
    Processor,
    Status,
    Stock,
)
from valence_sched.testing import generate as drawn

SITE = Path(__file__).parents[4] / "examples" / "site.json"
UNSPOKEN = ("url", "driver", "status", "enabled", "zone", "aggregates", "capabilities", "traits",
            "facts", "generation", "read_at")  # fmt: skip
MEMORY = ("cxl_memory_mib", "cxl_pmem_mib")
STORAGE = ("storage_gib",)
B = "/redfish/v1/CompositionService/ResourceBlocks/"


def expressible(podm: FullPodm) -> FullPodm:
    """Return a podm with only the facts that Redfish can express, as a driver expresses them."""
    blank = msgspec.structs.asdict(FullPodm(id="x", driver="redfish"))
    used = {block.uri: 0 for block in podm.blocks}
    for node in podm.nodes:
        for uri in set(node.blocks) & set(used):
            used[uri] += 1
    return replace(
        podm,
        **{name: blank[name] for name in UNSPOKEN},
        name=podm.name or podm.id,
        pools=tuple(replace(pool, name=pool.name or pool.id, traits=()) for pool in podm.pools),
        blocks=tuple(_block(block, used[block.uri]) for block in podm.blocks),
        stocks=tuple(
            replace(stock, name=stock.name or stock.uri.rpartition("/")[2])
            for kinds in (MEMORY, STORAGE)
            for stock in podm.stocks
            if stock.resource in kinds
        ),
        nodes=tuple(
            replace(node, name=node.name or node.uri.rpartition("/")[2], owner=None, group=None)
            for node in podm.nodes
        ),
    )


def _block(block: FullBlock, used: int) -> FullBlock:
    status = block.status or Status()
    places = {
        name: value for name, value in (block.places or {}).items() if value.startswith("/redfish")
    }
    devices = block.devices or Devices()
    return replace(
        block,
        name=block.name or block.uri.rpartition("/")[2],
        places=places or None,
        status=replace(status, compositions=max(used, status.compositions)),
        devices=replace(
            devices, drives=tuple(replace(drive, remote=_remote(drive)) for drive in devices.drives)
        ),
    )


def _remote(drive: Drive) -> bool | None:
    return None if drive.protocol is None else drive.protocol == "NVMeOverFabrics"


class SamePodm(unittest.TestCase):
    def assert_same(self, podm: FullPodm) -> dict[str, dict]:
        documents = documents_of(podm)
        diagnostics = Diagnostics()
        found = read_back(documents, podm.id, diagnostics)
        want = expressible(podm)
        self.assertEqual([self.bound(pool, want) for pool in want.pools],
                         [self.bound(pool, found) for pool in found.pools])  # fmt: skip
        self.assertEqual(replace(want, pools=()), replace(found, pools=()))
        hushed = ("found in no zone", "found nothing to compose", "expected a size (its free size",
                  "Status: found",
                  "ResourceBlockType: found none")  # fmt: skip
        self.assertEqual(
            [], [note for note in diagnostics.lines() if not any(h in note for h in hushed)]
        )
        return documents

    def bound(self, pool: Pool, podm: FullPodm) -> Pool:
        """Return a pool with only those limits that can prevent a composition."""
        limits = {}
        for kind, limit in pool.limits.items():
            count = sum(kind in b.type for b in podm.blocks if pool.id in b.pools)
            most = None if limit.max is None or limit.max >= max(count, limit.min) else limit.max
            if limit.min or most is not None:
                limits[kind] = Limit(limit.min, most)
        return replace(pool, limits=limits)


class GeneratedPodms(SamePodm):
    @settings(max_examples=sized(120))
    @given(st.integers(0, 30), st.integers(0, 2**16), st.integers(1, 5), st.integers(0, 8))
    def test_are_read_back_as_they_were(self, blocks, seed, pools, stocks) -> None:
        for line in drawn.podms(2, blocks, seed, pools, stocks):
            self.assert_same(msgspec.json.decode(line, type=FullPodm))

    def test_every_pod_manager_of_the_example_site_is_read_back_as_it_was(self) -> None:
        site = msgspec.json.decode(SITE.read_bytes(), type=Inventory)
        for podm in site.podms:
            with self.subTest(podm.id):
                self.assert_same(podm)


NAMES = st.text("abcXYZ 09.-_%é", min_size=1, max_size=8).map(str.strip).filter(bool)
COUNTS = st.none() | st.integers(0, 2**40)
MANY = st.integers(1, 4)


def amounts(field: Any) -> st.SearchStrategy[int | None]:
    """Draw a possible amount of a part of a server."""
    least, most = BOUNDS[field]
    return st.none() | st.integers(math.ceil(least), int(most))


CORES, THREADS = amounts(ProcessorDevice.cores), amounts(ProcessorDevice.threads)
CLOCK, VRAM = amounts(ProcessorDevice.speed_mhz), amounts(ProcessorDevice.memory_mib)
MODULE, MTS = amounts(MemoryDevice.capacity_mib), st.none() | st.integers(1, 10_000)
DISK, SPEED = amounts(DriveDevice.capacity_bytes), amounts(EthernetInterface.speed_mbps)
STATE = {
    "state": st.none() | st.sampled_from(["Disabled", "Quiesced", "UnavailableOffline"]),
    "health": st.none() | st.sampled_from(["Warning", "Critical"]),
}
MAYBE = st.none() | NAMES
DEVICES = st.builds(
    Devices,
    processors=st.lists(
        st.builds(Processor, count=MANY, cores=CORES, threads=THREADS, model=MAYBE,
                  architecture=MAYBE, instruction_set=MAYBE, speed_mhz=CLOCK, **STATE),
        max_size=2, unique_by=lambda cpu: replace(cpu, count=1)).map(tuple),
    accelerators=st.lists(
        st.builds(Accelerator, kind=st.sampled_from(["GPU", "FPGA", "NPU"]), count=MANY,
                  model=MAYBE, memory_mib=VRAM, **STATE),
        max_size=2, unique_by=lambda card: replace(card, count=1)).map(tuple),
    memory=st.lists(
        st.builds(Memory, count=MANY, capacity_mib=MODULE, type=MAYBE, speed_mhz=MTS, **STATE),
        max_size=2, unique_by=lambda module: replace(module, count=1)).map(tuple),
    drives=st.lists(
        st.builds(Drive, count=MANY, capacity_bytes=DISK, media=MAYBE, model=MAYBE, rpm=COUNTS,
                  protocol=st.none() | st.sampled_from(["NVMe", "NVMeOverFabrics"]), **STATE),
        max_size=2, unique_by=lambda drive: replace(drive, count=1)).map(tuple),
    nics=st.lists(st.builds(Nic, count=MANY, speed_mbps=SPEED, **STATE), max_size=2,
                  unique_by=lambda nic: replace(nic, count=1)).map(tuple),
)  # fmt: skip
STATUS = st.builds(
    Status,
    state=st.sampled_from(["Composing", "Composed", "ComposedAndAvailable", "Failed", "Unknown"]),
    reserved=st.booleans(),
    enabled=st.none() | st.booleans(),
    health=st.none() | st.sampled_from(["OK", "Warning", "Critical"]),
    active=st.booleans(),
    shareable=st.booleans(),
    max_compositions=st.none() | st.integers(0, 9),
    compositions=st.integers(0, 9),
    client=MAYBE,
    resource_state=st.none() | st.sampled_from(["StandbySpare", "Odd"]),
).map(lambda it: it if it.enabled is False else replace(it, resource_state=None))
CHASSIS = st.sampled_from(["/redfish/v1/Chassis/1", "/redfish/v1/Chassis/Rack 2"])
FABRIC = "/redfish/v1/Fabrics/PCIe"


@st.composite
def podms(draw: st.DrawFn) -> FullPodm:
    """Draw a podm with everything that Redfish can express, and with odd names."""
    pools = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.casefold))
    names = draw(st.lists(NAMES, max_size=5, unique_by=str.casefold))
    limit = st.builds(Limit, st.integers(0, 3), st.none() | st.integers(3, 5))
    limits = st.dictionaries(st.sampled_from(["Compute", "Storage", "Processor"]), limit)
    blocks = tuple(
        FullBlock(
            uri=B + name, name=draw(MAYBE), devices=draw(DEVICES), status=draw(STATUS),
            type=tuple(draw(st.sets(st.sampled_from(["Compute", "Storage", "ComputerSystem"])))),
            pools=tuple(pool for pool in pools if draw(st.booleans())),
            places=draw(st.none() | st.fixed_dictionaries({"chassis": CHASSIS})),
        )
        for name in names
    )  # fmt: skip
    stock = st.builds(
        Stock, uri=st.sampled_from(["/redfish/v1/Chassis/1/MemoryDomains/a", "/redfish/v1/mem/b"]),
        resource=st.sampled_from(MEMORY), unit=st.just("MiB"), name=MAYBE,
        pools=st.just(tuple(pools)), total=COUNTS, used=st.integers(0, 99),
        min=st.integers(0, 9), step=st.integers(0, 9),
    )  # fmt: skip
    drawn = draw(st.lists(stock, max_size=2, unique_by=lambda one: one.uri))
    nodes = draw(st.lists(NAMES, max_size=3, unique_by=str.casefold))
    return FullPodm(
        id="p", name=draw(MAYBE), blocks=blocks,
        pools=tuple(Pool(id=pool, name=draw(MAYBE), limits=draw(limits)) for pool in pools),
        stocks=tuple(sorted(drawn, key=lambda one: one.uri)),
        nodes=tuple(
            Node(uri=f"/redfish/v1/Systems/{name}", name=draw(MAYBE),
                 blocks=tuple(block.uri for block in blocks if draw(st.booleans())))
            for name in nodes
        ),
    )  # fmt: skip


class OddPodms(SamePodm):
    @settings(max_examples=sized(200))
    @given(podms())
    def test_are_read_back_as_they_were(self, podm) -> None:
        self.assert_same(podm)

    def test_fabrics_and_switches_of_devices_are_read_back(self) -> None:
        nic = Devices(nics=(Nic(count=2, speed_mbps=1000),))
        for places in (
            {"fabric": FABRIC},
            {"fabric": FABRIC, "switch": f"{FABRIC}/Switches/a"},
            {"chassis": "/redfish/v1/Chassis/9", "fabric": FABRIC},
        ):
            block = FullBlock(uri=B + "n", pools=("z",), status=Status(), devices=nic,
                              type=("Network",), places=places)  # fmt: skip
            documents = self.assert_same(FullPodm(id="p", pools=(Pool(id="z"),), blocks=(block,)))
            self.assertEqual(set(), dangling(documents))


class Documents(unittest.TestCase):
    def setUp(self) -> None:
        self.site = msgspec.json.decode(SITE.read_bytes(), type=Inventory)

    def test_every_document_has_what_redfish_demands_and_every_link_leads_to_one(self) -> None:
        for podm in self.site.podms:
            documents = documents_of(podm)
            self.assertEqual("/redfish/v1", next(iter(documents)))
            self.assertEqual(set(), dangling(documents))
            self.assertEqual(documents, json.loads(json.dumps(documents)))
            for uri, document in documents.items():
                self.assertEqual(uri, document["@odata.id"])
                self.assertRegex(document["@odata.type"], r"^#\w+\.(v\d+_\d+_\d+\.)?\w+$")
                self.assertTrue(document["Name"])
                self.assertTrue(document.get("Id") or "Members" in document, uri)

    def test_things_at_one_uri_get_documents_of_their_own(self) -> None:
        uris = ("/redfish/v1/Systems", "/redfish/v1/systems/", "/redfish/v1", "b")
        blocks = tuple(FullBlock(uri=uri, pools=("z",)) for uri in uris)
        podm = FullPodm(id="p", pools=(Pool(id="z"), Pool(id="a/b")), blocks=blocks)
        documents = documents_of(podm)
        again = read_back(documents, "p")
        self.assertEqual(["/redfish/v1/Systems", "/redfish/v1/systems", "/redfish/v1-2", "/b"],
                         [block.uri for block in again.blocks])  # fmt: skip
        self.assertEqual(["z", "a%2Fb"], [pool.id for pool in again.pools])
        self.assertEqual(set(), dangling(documents))

    def test_what_is_lost_is_told_line_by_line(self) -> None:
        pool = Pool(id="z", name="z", limits={"ComputerSystem": Limit(0, 1),
                                              "Compute": Limit(0, 1)})  # fmt: skip
        plain = FullPodm(id="p", name="p", driver="redfish", pools=(pool,))
        self.assertEqual([], round_trip_losses(plain))
        podm = replace(plain, zone="east", stocks=(Stock(uri="/s", resource="watts", total=5.0),))
        self.assertEqual(
            ['zone: "east", null',
             'stocks: {"uri":"/s","resource":"watts","total":5.0}, none'],
            round_trip_losses(podm),
        )  # fmt: skip
        self.assertEqual("east", documents_of(podm)["/redfish/v1"]["Oem"]["ValenceSched"]["zone"])

    def test_memory_that_a_pool_cannot_reach_is_never_offered_to_it(self) -> None:
        stock = Stock(uri="/redfish/v1/Chassis/1/MemoryDomains/1", resource="cxl_memory_mib",
                      unit="MiB", pools=("a",), total=1024.0)  # fmt: skip
        podm = FullPodm(id="p", pools=(Pool(id="a"), Pool(id="b")), stocks=(stock,))
        (stock,) = read_back(documents_of(podm), "p").stocks
        self.assertEqual(("a",), stock.pools)

    def test_a_block_of_a_billion_drives_does_not_fill_the_memory(self) -> None:
        drives = Devices(drives=(Drive(count=10**9),))
        podm = FullPodm(id="p", blocks=(FullBlock(uri=B + "1", devices=drives),))
        self.assertLess(len(documents_of(podm)), 5000)
        self.assertIn("blocks", " ".join(round_trip_losses(podm)))


def dangling(documents: dict[str, dict]) -> set[str]:
    """Return the links to missing documents."""
    found = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(link := value.get("@odata.id"), str):
                found.add(link)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(json.dumps(documents)))
    return found - set(documents)


TREES = Path(__file__).parents[4].parent / "shared" / "data" / "dmtf"


def sums(blocks):
    def total(kind, what=None):
        lines = [line for block in blocks for line in getattr(block.devices, kind)]
        return sum(line.count * (getattr(line, what) if what else 1) for line in lines)

    return {
        "blocks": len(blocks),
        "cores": total("processors", "cores"),
        "memory_mib": total("memory", "capacity_mib"),
        "gpus": total("accelerators"),
        "drives": total("drives"),
    }


@unittest.skipUnless(TREES.is_dir(), f"the DMTF mockups are not at {TREES}")
class DmtfTreesTest(unittest.TestCase):
    def read(self, name):
        self.diagnostics = Diagnostics()
        (record,) = records(str(TREES / name), io.BytesIO(), self.diagnostics, DIALECTS)
        return msgspec.json.decode(record.json, type=FullPodm)

    def check(self, name, pools, every, free):
        podm = self.read(name)
        keys = ("blocks", "cores", "memory_mib", "gpus", "drives")
        self.assertEqual(pools, len(podm.pools))
        self.assertEqual(dict(zip(keys, every, strict=True)), sums(podm.blocks))
        unused = [block for block in podm.blocks if block.status.slots]
        self.assertEqual(dict(zip(keys, free, strict=True)), sums(unused))
        return podm

    def test_public_composability_has_the_numbers_counted_by_hand(self):
        podm = self.check("public-composability", 3, (12, 48, 81920, 1, 11), (7, 8, 8192, 1, 9))
        self.assertEqual(8, podm.pools[0].limits["Storage"].max)
        self.assertNotIn("Storage", podm.pools[2].limits)
        self.assertEqual(2, len(podm.nodes))

    def test_public_compose_action_has_the_numbers_counted_by_hand(self):
        podm = self.check("public-compose-action", 8, (14, 32, 65536, 0, 30), (9, 20, 40960, 0, 19))
        names = sorted(block.uri.rpartition("/")[2] for block in podm.blocks)
        self.assertEqual(["SASSled-1", "SASSled-2", "SASSled-3"], names[-3:])
        self.assertEqual(["Sled-1", "Sled-2"], [node.name for node in podm.nodes])

    def test_public_constrained_composition_has_the_numbers_counted_by_hand(self):
        self.check("public-constrained-composition", 2, (9, 32, 65536, 1, 8), (6, 0, 0, 1, 8))

    def test_public_cxl_has_stocks_and_one_host_with_devices_in_its_fabric(self):
        podm = self.read("public-cxl")
        ((fpga, gpu, host), (node,)) = podm.blocks, podm.nodes
        self.assertEqual((host.uri, (host.uri, fpga.uri)), (node.uri, node.blocks))
        self.assertEqual([0, 1, 0], [block.status.slots for block in podm.blocks])
        kinds = [one.kind for block in (fpga, gpu) for one in block.devices.accelerators]
        self.assertEqual(["FPGA", "GPU"], kinds)
        self.assertEqual([None], [cpu.cores for cpu in host.devices.processors])
        stocks = [(stock.resource, stock.total, stock.used) for stock in podm.stocks]
        self.assertEqual(
            [
                ("cxl_memory_mib", 262144, 4096),
                ("cxl_pmem_mib", 16384, 16384),
                ("cxl_memory_mib", 262144, 4096),
                ("cxl_pmem_mib", 16384, 16384),
                ("cxl_pmem_mib", 262144, 4096),
                ("cxl_memory_mib", 16384, 16384),
            ],
            stocks,
        )
        self.assertEqual(3, sum("sum of its modules" in line for line in self.diagnostics.lines()))

    def test_their_folder_is_four_pod_managers_and_other_files_are_passed_over(self):
        diagnostics = Diagnostics()
        found = [
            msgspec.json.decode(record.json)["id"]
            for record in records(str(TREES), io.BytesIO(), diagnostics, DIALECTS)
        ]
        names = ["composability", "compose-action", "constrained-composition", "cxl"]
        self.assertEqual([f"public-{name}" for name in names], found)
        self.assertFalse([problem for problem in diagnostics.lines() if "Manifest" in problem])
