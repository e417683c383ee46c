# SPDX-License-Identifier: Apache-2.0
"""The status of blocks that report it in part, and the limits of a node."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Iterator
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from tests.unit.drivers.redfish.test_device_identity import BLOCKS, Case, V
from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import Limits, LimitsByZone, read_podm
from valence_sched.drivers.redfish.schema import Collection, Zone
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Node, Pool, Status

SHARED = {"SharingCapable": True, "SharingEnabled": True}


class TestLinks(Case):
    """Links without a target."""

    def test_each_is_noted_with_the_document_it_stands_in_and_the_rest_is_read(self) -> None:
        nothing: list[Json] = [{}]
        self.block("b")
        self.block("c", Links={"Chassis": nothing}, Drives=nothing, ComputerSystems=nothing)
        self.documents[f"{V}/S"]["Members"] += links(self.put(
            f"{V}/S/n", SystemType="Composed",
            Links={"ResourceBlocks": [*nothing, *links(f"{BLOCKS}/b")]},
        ))  # fmt: skip
        service = {
            "ResourceBlocks": [*nothing, *links(BLOCKS)],
            "ResourceZones": links(f"{V}/Z")[0],
        }
        self.documents[V]["CompositionService"] = links(self.put(f"{V}/CS", **service))[0]
        zone = self.put(f"{V}/Z/1", Links={"ResourceBlocks": [*nothing, *links(f"{BLOCKS}/b")]})
        self.put(f"{V}/Z", Members=[*nothing, *links(zone)])
        podm = self.read()
        self.assertEqual([("1",), ()], [block.pools for block in podm.blocks])
        self.assertEqual([(f"{BLOCKS}/b",)], [node.blocks for node in podm.nodes])
        where = (f"{BLOCKS}/c", f"{V}/CS", f"{V}/S/n", f"{V}/Z", f"{V}/Z/1")
        noted = [line for line in self.notes.lines() if "without @odata.id" in line]
        self.assertEqual(sorted(f"t.json: {it}: found a link without @odata.id, expected @odata.id"
                                for it in where), sorted(noted))  # fmt: skip


class TestLinkForms(Case):
    """The forms in which services link the parts of a system or a zone."""

    def forms(self) -> Iterator[tuple[str, Json]]:
        """Yield forms of the links to block ``b``, each with its name."""
        one, self_ = links(f"{BLOCKS}/b"), f"{V}/own"
        yield "usual", {"Links": {"ResourceBlocks": one}}
        yield "one link", {"Links": {"ResourceBlocks": one[0]}}
        yield "lower case", {"links": {"ResourceBlocks": one}}
        yield "lower case inside", {"links": {"resourceBlocks": one}, "Links": None}
        yield "other case", {"LINKS": {"ResourceBlocks": one}, "Links": {}}
        self.put(self_, Members=one)
        yield "a collection", {"Links": {"ResourceBlocks": links(self_)[0]}}
        yield "a collection in a list", {"Links": {"ResourceBlocks": links(self_)}}
        self.put(f"{V}/pages", **{"Members": [], "Members@odata.nextLink": self_})
        yield "a collection of pages", {"Links": {"ResourceBlocks": links(f"{V}/pages")}}

    def two_blocks(self) -> None:
        self.setUp()
        self.block("a")
        self.block("b", ResourceBlockType=["Processor"])

    def test_a_block_that_a_system_has_is_in_use_in_whatever_form_it_is_linked(self) -> None:
        for (form, json), type_ in itertools.product(self.forms(), ("Composed", "Physical")):
            for typed in (True, False):
                with self.subTest(form, type=type_, typed=typed):
                    self.two_blocks()
                    list(self.forms())
                    self.documents[f"{V}/S"]["Members"] += links(
                        self.put(f"{V}/S/1", SystemType=type_, **json)
                    )
                    if not typed:
                        del self.documents[f"{V}/S/1"]["@odata.type"]
                    podm = self.read()
                    self.assertEqual([1, 0], [it.status.slots for it in podm.blocks])
                    blocks = [it.blocks for it in podm.nodes]
                    self.assertEqual([(f"{BLOCKS}/b",)] * (type_ == "Composed"), blocks)

    def test_a_zone_has_its_blocks_in_whatever_form_they_are_linked(self) -> None:
        for form, json in self.forms():
            with self.subTest(form):
                self.two_blocks()
                list(self.forms())
                zone = self.put(f"{V}/Z/1", **json)
                self.documents[f"{V}/C"]["ResourceZones"] = links(
                    self.put(f"{V}/Z", Members=links(zone))
                )
                self.assertEqual([(), ("1",)], [it.pools for it in self.read().blocks])

    def test_a_system_that_is_not_listed_has_the_blocks_that_it_names(self) -> None:
        gpu = {"ResourceBlockType": ["Processor"]}
        system = links(f"{V}/Elsewhere/1")
        for type_ in ("Composed", "Physical"):
            for told in ({"Links": {"ComputerSystems": system}}, {"ComputerSystems": system},
                         {"links": {"ComputerSystems": links(f"{V}/all")}}):  # fmt: skip
                with self.subTest(type_, told=told):
                    self.setUp()
                    self.block("a")
                    self.block("b", **gpu, **told)
                    self.put(f"{V}/all", Members=system)
                    json = {"Links": {"ResourceBlocks": links(f"{BLOCKS}/a", f"{BLOCKS}/b")}}
                    self.put(system[0]["@odata.id"], SystemType=type_, **json)
                    podm = self.read()
                    self.assertEqual([0, 0], [it.status.slots for it in podm.blocks])
                    self.assertTrue(self.noted("/a: ", f"it is part of {V}/Elsewhere/1"))

    def test_a_system_that_is_not_listed_and_names_no_block_holds_none(self) -> None:
        self.block("a", Links={"ComputerSystems": links(self.put(f"{V}/Elsewhere/1"))})
        self.block("b", Links={"ComputerSystems": links(f"{V}/nowhere")})
        self.assertEqual([1, 1], [it.status.slots for it in self.read().blocks])
        self.assertTrue(self.noted("/nowhere: found no such document"))


class TestHosts(Case):
    """Blocks in systems that no client has composed."""

    def host(self, *blocks: str, uri: str = f"{V}/S/1", **json: Any) -> None:
        named = {"ResourceBlocks": links(*(f"{BLOCKS}/{name}" for name in blocks))}
        self.documents[f"{V}/S"]["Members"] += links(
            self.put(uri, **{"SystemType": "Physical", "Links": named} | json)
        )

    def states(self) -> list[tuple[str, int]]:
        podm = self.read()
        self.assertEqual((), podm.nodes)
        return [(block.status.state, block.status.slots) for block in podm.blocks]

    def test_a_block_that_a_system_names_is_in_use_whatever_it_says(self) -> None:
        own = {"Links": {"ComputerSystems": links(f"{V}/S/1")}}
        what = f"found Unused, expected Composed: it is part of {V}/S/1"
        for type_ in ("Physical", "PhysicallyPartitioned", "Virtual", None):
            with self.subTest(type_):
                self.setUp()
                self.block("compute", ResourceBlockType=["Compute"], **own)
                self.block("gpu", ResourceBlockType=["Processor"], Pool="Free")
                self.block("other", ResourceBlockType=["Processor"])
                self.host("compute", "gpu", SystemType=type_)
                self.assertEqual([("Composed", 0), ("Composed", 0), ("Unused", 1)], self.states())
                for name in ("compute", "gpu"):
                    self.assertTrue(self.noted(f"/{name}: CompositionStatus", what))

    def test_a_host_without_anything_attached_is_free_only_where_it_is_offered(self) -> None:
        system = links(f"{V}/S/1")
        linked = {"Links": {"ComputerSystems": system}}
        for told, free in (
            ({"ResourceBlockType": ["Compute"], **linked}, False),
            ({"ResourceBlockType": [], **linked}, False),
            ({"ResourceBlockType": ["Compute", "Storage"], "Pool": "Free", **linked}, True),
            ({"ResourceBlockType": ["ComputerSystem"], "ComputerSystems": system}, True),
            ({"ResourceBlockType": ["Storage"], "Pool": "Free", **linked}, False),
        ):
            for attached in (False, True):
                with self.subTest(told, attached=attached):
                    self.setUp()
                    self.block("host", **told)
                    self.block("gpu")
                    self.host("host", *["gpu"] * attached)
                    expected = ("Unused", 1) if free and not attached else ("Composed", 0)
                    self.assertEqual(expected, self.states()[0])

    def test_where_hosts_are_free_those_with_attached_blocks_are_nodes(self) -> None:
        self.put(f"{V}/cpu", ProcessorType="CPU", TotalCores=4)
        self.block("own", ResourceBlockType=[], Processors=links(f"{V}/cpu"))
        self.block("busy", ResourceBlockType=["Compute"])
        self.block("gpu", ResourceBlockType=["Processor"])
        self.block("only", ResourceBlockType=["Processor"])
        self.block("other", ResourceBlockType=["Processor"])
        self.host("own")
        self.host("busy", "gpu", uri=f"{V}/S/2", Name="host-2")
        self.host("only", uri=f"{V}/S/3")  # a host whose own parts are not a block
        service = LinkedDocuments(self.documents.get, Diagnostics(), free_hosts=("*",))
        podm = read_podm(service, "p", "redfish")
        node = Node(uri=f"{V}/S/2", name="host-2", blocks=(f"{BLOCKS}/busy", f"{BLOCKS}/gpu"))
        self.assertEqual((node,), podm.nodes)
        self.assertEqual([1, 0, 0, 0, 1], [block.status.slots for block in podm.blocks])
        self.assertEqual(("Compute",), podm.blocks[0].type)
        self.assertEqual([0, 0, 0, 0, 1], [block.status.slots for block in self.read().blocks])
        self.assertEqual((), self.read().nodes)


USE_CASE = "ComputerSystemComposition"
ONE = {"Compute": Limit(0, 1), "ComputerSystem": Limit(0, 1)}


def offer(number: int, *zones: str, use_case: str = USE_CASE) -> dict[str, Any]:
    found = {"UseCase": use_case, "CapabilitiesObject": link(f"/Rules/{number}")}
    return found | ({"Links": {"RelatedItem": links(*zones)}} if zones else {})


def stating(*offers: Any) -> dict[str, Any]:
    return {"@Redfish.CollectionCapabilities": {"Capabilities": list(offers)}}


class TestLimits(unittest.TestCase):
    """Limits of a service with the zones /Z/a and /Z/b."""

    def limits(
        self,
        *stated: Any,
        zone: str | None = None,
        of_zone: tuple[Any, ...] = (),
        joined: Any = None,
        blocks: Any = None,
        max_blocks: Any = None,
        offers: tuple[Any, ...] | None = None,
    ) -> Limits:
        """Return the limits of a zone; ``stated`` are the limits of the offers, in turn."""
        documents = {f"/Rules/{number}": {"@Redfish.ResourceBlockLimits": json}
                     for number, json in enumerate(stated)}  # fmt: skip
        self.notes = Diagnostics()
        service = LinkedDocuments(documents.get, self.notes, max_blocks=max_blocks)
        found = offers if offers is not None else tuple(offer(n) for n in range(len(stated)))
        collection = Collection("/S", stating(*found), self.notes)
        by_zone = LimitsByZone(service, [collection], joined or {}, {"/Z/a", "/Z/b"})
        here = zone and Zone(zone, stating(*of_zone), self.notes)
        first = by_zone.of(here, blocks or {})
        self.assertEqual(first, by_zone.of(here, blocks or {}))
        return first

    def test_where_nothing_is_stated_a_node_is_one_system(self):
        self.assertEqual(ONE, self.limits())
        self.assertEqual(ONE, self.limits(zone="/Z/a"))
        self.assertEqual([], self.notes.lines())

    def test_the_least_and_the_most_of_each_type_are_read(self):
        stated = {"MinCompute": 1, "MaxCompute": 2, "MaxStorage": "8", "MinNetwork": 1}
        expected = {"Compute": Limit(1, 2), "Storage": Limit(0, 8), "Network": Limit(1)}
        self.assertEqual(ONE | expected, self.limits(stated))

    def test_a_stated_least_without_a_most_is_the_most_that_is_assumed(self):
        self.assertEqual(ONE | {"Compute": Limit(3, 3)}, self.limits({"MinCompute": 3}))

    def test_the_strictest_of_several_limits_wins(self):
        stated = {"MinStorage": 1, "MaxStorage": 4}, {"MinStorage": 2}, {"MaxStorage": 8}
        self.assertEqual(ONE | {"Storage": Limit(2, 4)}, self.limits(*stated))
        self.assertEqual(ONE | {"Storage": Limit(2, 4)}, self.limits(*reversed(stated)))
        both = [{"MaxStorage": 8}, {"MaxStorage": 6, "MaxNetwork": 0}]
        expected = {"Storage": Limit(0, 6), "Network": Limit(0, 0)}
        self.assertEqual(ONE | expected, self.limits(both))

    def test_limits_of_some_zones_hold_in_these_alone(self):
        offers = offer(0, "/Z/a"), offer(1, "/z/b/")
        stated = {"MaxStorage": 4}, {"MaxStorage": 6}
        for zone, expected in (("/Z/a", Limit(0, 4)), ("/z/b", Limit(0, 6)), (None, None)):
            with self.subTest(zone):
                found = self.limits(*stated, zone=zone, offers=offers)
                self.assertEqual(expected, found.get("Storage"))

    def test_limits_that_apply_to_no_zone_of_blocks_are_noted_and_hold_nowhere(self):
        found = self.limits({"MaxStorage": 4}, zone="/Z/a", offers=(offer(0, "/C/2", "/C/1"),))
        self.assertEqual(ONE, found)
        what = "found /C/1, /C/2, expected a zone of resource blocks (its limits are ignored)"
        where = "/S#/@Redfish.CollectionCapabilities: Links/RelatedItem"
        self.assertEqual([f"{where}: {what}"], self.notes.lines())
        self.limits({"MaxStorage": 4}, offers=(offer(0, "/C/1", "/Z/a"),))
        self.assertEqual([], self.notes.lines())

    def test_a_zone_may_state_its_own(self):
        found = self.limits({"MaxStorage": 4, "MaxNetwork": 2}, zone="/Z/a", of_zone=(offer(0),),
                            offers=())  # fmt: skip
        self.assertEqual(ONE | {"Storage": Limit(0, 4), "Network": Limit(0, 2)}, found)

    def test_limits_of_other_use_cases_are_none_and_those_behind_them_hold(self):
        offers = offer(0, use_case="VolumeCreation"), offer(1, use_case=USE_CASE.upper())
        found = self.limits({"MaxStorage": 1}, {"MaxStorage": 4}, offers=offers)
        self.assertEqual(ONE | {"Storage": Limit(0, 4)}, found)

    def test_a_limit_that_cannot_be_read_is_noted_where_it_stands(self):
        self.assertEqual(ONE, self.limits({"MaxStorage": "many"}))
        where = "/Rules/0#/@Redfish.ResourceBlockLimits: MaxStorage"
        self.assertEqual([f"{where}: found 'many', expected a number"], self.notes.lines())

    def test_rules_that_are_missing_are_noted_with_what_links_them(self):
        self.assertEqual(ONE, self.limits(offers=(offer(7),)))
        line = "/Rules/7: found no such document, but /S links it"
        self.assertEqual([line], self.notes.lines())

    def test_as_many_as_a_composed_system_has_are_assumed_where_there_are_so_many(self):
        for joined, there, most in ((2, 2, 2), (3, 2, 3), (2, 1, 1), (1, 5, 1), (0, 5, 1)):
            with self.subTest(joined=joined, there=there):
                found = self.limits(joined={"Compute": joined}, blocks={"Compute": there})
                self.assertEqual(ONE | {"Compute": Limit(0, most)}, found)
                size = f"{joined} Compute blocks"
                what = f"found a composed system of {size} without a stated maximum"
                line = f"{what} (assuming at most {joined} per node)"
                self.assertEqual([line] if most > 1 else [], self.notes.lines())

    def test_a_stated_most_is_not_widened_by_what_is_composed(self):
        found = self.limits({"MaxCompute": 1}, joined={"Compute": 2}, blocks={"Compute": 4})
        self.assertEqual((ONE, []), (found, self.notes.lines()))

    def test_what_the_operator_says_is_assumed_in_any_case(self):
        words = {"joined": {"Compute": 2}, "blocks": {"Compute": 4}, "max_blocks": {"Compute": 8}}
        self.assertEqual(ONE | {"Compute": Limit(0, 8)}, self.limits(**words))
        self.assertEqual([], self.notes.lines())
        self.assertEqual(ONE, self.limits({"MaxCompute": 1}, **words))


STATES = "Unused, Composing, Composed, ComposedAndAvailable, Failed, Unavailable"
TYPES = "Compute, Processor, Memory, Network, Storage, ComputerSystem, Expansion"


def block(state: object = "Unused", **more: Any) -> dict[str, Any]:
    status = {"CompositionState": state, **more.pop("status", {})}
    return {"ResourceBlockType": ["Compute"], "CompositionStatus": status, **more}


def zone(*blocks: str, **more: Any) -> dict[str, Any]:
    return {"Links": {"ResourceBlocks": links(*blocks)}, **more}


def system(*blocks: str, type_: object = "Composed", **more: Any) -> dict[str, Any]:
    return {"SystemType": type_, "Links": {"ResourceBlocks": links(*blocks)}, **more}


class Service(unittest.TestCase):
    """A service of the blocks /B/1 and /B/2, both in the zone /Z/a."""

    def read(self, **changes: Any) -> FullPodm:
        """Read the service with other documents; ``_`` in a name stands for ``/``."""
        found: dict[str, Any] = {
            ROOT: {"CompositionService": link("/C"), "Systems": link("/S"), "Name": "r"},
            "/C": {"ResourceBlocks": link("/B"), "ResourceZones": link("/Z")},
            "/B": {"Members": links("/B/1", "/B/2")}, "/B/1": block(), "/B/2": block(),
            "/Z": {"Members": links("/Z/a")}, "/Z/a": zone("/B/1", "/B/2"),
            "/S": {"Members": []},
        }  # fmt: skip
        found |= {f"/{name.replace('_', '/')}": json for name, json in changes.items()}
        self.notes = Diagnostics()
        podm = read_podm(LinkedDocuments(found.get, self.notes), "t", "redfish")
        self.blocks = {one.uri: one for one in podm.blocks}
        return podm

    def noted(self, *lines: str) -> None:
        self.assertEqual(list(lines), self.notes.lines())


class TestPools(Service):
    """Zones of resource blocks are pools."""

    def test_a_zone_is_a_pool_by_the_last_part_of_its_uri(self):
        podm = self.read(Z_a=zone("/B/1", "/B/2", "/B/1", Name="Row A"))
        self.assertEqual((Pool(id="a", name="Row A", limits=ONE),), podm.pools)
        self.assertEqual([("a",), ("a",)], [one.pools for one in podm.blocks])
        self.assertEqual(("t", "r", "redfish"), (podm.id, podm.name, podm.driver))
        self.noted()

    def test_zones_whose_uris_end_alike_are_named_whole(self):
        podm = self.read(Z={"Members": links("/Z/a", "/Y/a", "/Z/b")}, Y_a=zone("/B/1"),
                         Z_b=zone("/B/1"))  # fmt: skip
        self.assertEqual(["/Z/a", "/Y/a", "b"], [pool.id for pool in podm.pools])
        self.assertEqual(("/Z/a", "/Y/a", "b"), self.blocks["/B/1"].pools)

    def test_without_zones_all_blocks_are_one_pool_and_without_blocks_there_is_none(self):
        podm = self.read(Z={"Members": []})
        self.assertEqual((Pool(id="all", limits=ONE),), podm.pools)
        self.assertEqual([("all",), ("all",)], [one.pools for one in podm.blocks])
        self.noted()
        podm = self.read(Z={"Members": []}, B={"Members": []})
        self.assertEqual(((), ()), (podm.pools, podm.blocks))
        what = "found nothing to compose: no resource block, memory domain or storage pool"
        self.noted(f"{ROOT}: {what}")

    def test_a_zone_of_another_kind_is_none_and_one_of_no_kind_is_noted(self):
        for type_, lines in (
            ("Default", []),
            ("ZoneOfEndpoints", []),
            ("zoneofzones", []),
            ("Odd", ["/Z/b: ZoneType: found Odd, expected ZoneOfResourceBlocks or another type "
                     "(left out)"]),
        ):  # fmt: skip
            with self.subTest(type_):
                podm = self.read(Z={"Members": links("/Z/b", "/Z/a")},
                                 Z_b=zone("/B/1", ZoneType=type_))  # fmt: skip
                self.assertEqual(["a"], [pool.id for pool in podm.pools])
                self.noted(*lines)
        podm = self.read(Z_a=zone("/B/1", "/B/2", ZoneType="zoneOfResourceBlocks"))
        self.assertEqual(["a"], [pool.id for pool in podm.pools])

    def test_a_free_block_in_no_zone_is_noted_and_one_in_use_is_not(self):
        self.read(Z_a=zone("/B/1"))
        self.assertEqual((), self.blocks["/B/2"].pools)
        self.noted("/B/2: found in no zone, expected in one (cannot be composed)")
        self.read(Z_a=zone("/B/1"), B_2=block("Composed"))
        self.noted()

    def test_a_block_that_only_a_zone_or_the_root_links_is_read_once(self):
        root = {"CompositionService": link("/C"), "ResourceBlocks": link("/A")}
        podm = self.read(redfish_v1=root, A={"Members": links("/B/2", "/B/3")}, B_3=block(),
                         Z_a=zone("/B/1", "/B/4"), B_4=block())  # fmt: skip
        self.assertEqual(["/B/2", "/B/3", "/B/1", "/B/4"], [one.uri for one in podm.blocks])

    def test_without_a_root_the_usual_links_are_tried(self):
        podm = self.read(redfish_v1=None, redfish_v1_Systems={"Members": links("/S/1")},
                         redfish_v1_CompositionService={"ResourceBlocks": link("/B")},
                         redfish_v1_Chassis={"Members": links("/Ch")}, Ch={"Name": "c"},
                         S_1=system("/B/1"))  # fmt: skip
        self.assertEqual(["/B/1", "/B/2"], [one.uri for one in podm.blocks])
        self.assertEqual(["/S/1"], [node.uri for node in podm.nodes])
        first, *_ = self.notes.lines()
        self.assertEqual(f"{ROOT}: found no such document, but the protocol links it",
                         first)  # fmt: skip
        self.assertFalse([line for line in self.notes.lines() if "Chassis: found no" in line])

    def test_each_of_the_usual_links_that_is_missing_is_noted(self):
        self.read(redfish_v1=None)
        missing = "found no such document, but"
        lines = [f"{ROOT}: {missing} the protocol links it"]
        names = ("CompositionService", "Systems", "Chassis")
        lines += [f"{ROOT}/{name}: {missing} {ROOT} links it" for name in names]
        self.assertLessEqual({*lines}, {*self.notes.lines()})

    def test_pages_that_are_named_by_a_query_alone_are_read(self):
        podm = self.read(B={"Members": links("/B/1"), "Members@odata.nextLink": "?page=2"},
                         **{"B?page=2": {"Members": links("/B/2")}})  # fmt: skip
        self.assertEqual(["/B/1", "/B/2"], [one.uri for one in podm.blocks])

    def test_limits_stand_at_systems_blocks_and_zones(self):
        use = {"UseCase": "ComputerSystemComposition", "CapabilitiesObject": link("/L")}
        stated = {"@Redfish.CollectionCapabilities": {"Capabilities": [use]}}
        limits = {"@Redfish.ResourceBlockLimits": {"MaxStorage": 3}}
        root = {"CompositionService": link("/C"), "ResourceBlocks": link("/A")}
        for changes in (
            {"S": {"Members": [], **stated}},
            {"B": {"Members": links("/B/1", "/B/2"), **stated}},
            {"Z": {"Members": links("/Z/a"), **stated}},
            {"redfish_v1": root, "A": {"Members": links("/B/1"), **stated}},
        ):
            with self.subTest(changes):
                (pool,) = self.read(**changes, L=limits).pools
                self.assertEqual(Limit(0, 3), pool.limits["Storage"])

    def test_the_zones_of_a_stock_are_pools_and_one_that_is_none_is_noted(self):
        domain = {"AllowsMemoryChunkCreation": True, "MemorySizeMiB": 8, "MemoryChunks": link("/K"),
                  "Oem": {"ValenceSched": {"Zones": links("/Z/b", "/Z/9")}}}  # fmt: skip
        root = {"CompositionService": link("/C"), "Chassis": links("/Ch")}
        words = {"redfish_v1": root, "Ch": {"MemoryDomains": links("/D")}, "K": {"Members": []},
                 "Z": {"Members": links("/Z/a", "/Z/b")}, "Z_b": zone("/B/1")}  # fmt: skip
        (stock,) = self.read(D=domain, **words).stocks
        self.assertEqual(("b",), stock.pools)
        self.noted("/Z/9: found no such zone, but a stock links it")
        (stock,) = self.read(D={**domain, "Oem": {}}, **words).stocks
        self.assertEqual(("a", "b"), stock.pools)
        self.noted()

    def test_one_compute_block_more_is_assumed_for_those_of_the_same_zone_alone(self):
        joined = {"S": {"Members": links("/S/1")}, "S_1": system("/B/1", "/B/2")}
        zones = {"Z": {"Members": links("/Z/a", "/Z/b")}, "Z_b": zone("/B/1")}
        podm = self.read(**joined, **zones)
        self.assertEqual([2, 1], [pool.limits["Compute"].max for pool in podm.pools])
        (pool,) = self.read(**joined, Z={"Members": []}).pools
        self.assertEqual(2, pool.limits["Compute"].max)


class TestNodes(Service):
    """Composed systems are nodes."""

    def test_a_composed_system_is_a_node_of_the_blocks_it_links(self):
        physical = {f"S_{n}": system("/B/1", type_=it) for n, it in ((2, "Physical"), (3, None))}
        podm = self.read(S={"Members": links("/S/1", "/S/2", "/S/3")},
                         S_1=system("/B/1", "/b/1", "/B/2", Name="n"), **physical)  # fmt: skip
        self.assertEqual((Node(uri="/S/1", name="n", blocks=("/B/1", "/B/2")),), podm.nodes)

    def test_a_block_that_is_not_listed_is_noted_and_kept(self):
        podm = self.read(S={"Members": links("/S/1")}, S_1=system("/B/9", type_="composed"))
        self.assertEqual(("/B/9",), podm.nodes[0].blocks)
        what = "found /B/9, expected a listed resource block"
        self.noted("/B/9: found no such document, but /S/1 links it",
                   f"/S/1: Links/ResourceBlocks: {what}")  # fmt: skip

    def test_a_block_that_a_node_has_is_in_use_whatever_it_says(self):
        shared = {"SharingCapable": True, "SharingEnabled": True}
        for before, used, state, noted in (
            (block(), 1, "Composed", True),
            (block(status=shared), 2, "ComposedAndAvailable", True),
            (block("Composed"), 1, "Composed", False),
            (block("Failed"), 2, "Failed", False),
        ):
            with self.subTest(before):
                members = links(*(f"/S/{number}" for number in range(used)))
                nodes = {f"S_{number}": system("/B/1", "/B/1") for number in range(used)}
                self.read(B_1=before, S={"Members": members}, **nodes)
                status = self.blocks["/B/1"].status
                self.assertEqual((state, used), (status.state, status.compositions))
                others = "" if used == 1 else " and 1 more"
                what = f"found Unused, expected {state}: it is part of /S/0{others}"
                where = "/B/1: CompositionStatus/CompositionState"
                self.noted(*([f"{where}: {what}"] if noted else []))

    def test_a_block_that_counts_more_nodes_than_are_listed_is_believed(self):
        self.read(B_1=block("Composed", status={"NumberOfCompositions": 3}),
                  S={"Members": links("/S/1")}, S_1=system("/B/1"))  # fmt: skip
        self.assertEqual(3, self.blocks["/B/1"].status.compositions)


class TestBlocks(Service):
    """The properties of a block."""

    def status(self, state: object = "Unused", **more: Any) -> Status:
        self.read(B_1=block(state, **more))
        return self.blocks["/B/1"].status

    def test_every_part_of_its_status_is_read(self):
        told = {"Reserved": True, "SharingCapable": True, "SharingEnabled": True,
                "MaxCompositions": 4, "NumberOfCompositions": 2}  # fmt: skip
        found = self.status("composedandavailable", status=told, Pool="active", Client="me",
                            Status={"State": "enabled", "Health": "OK"})  # fmt: skip
        expected = Status(state="ComposedAndAvailable", reserved=True, enabled=True, health="OK",
                          active=True, shareable=True, max_compositions=4, compositions=2,
                          client="me")  # fmt: skip
        self.assertEqual(expected, found)
        self.assertEqual(Status(state="Unused"), self.status())
        self.noted()

    def test_health_is_the_worse_of_its_own_and_that_of_all_below_it(self):
        for status, health in (
            ({"Health": "OK", "HealthRollup": "Critical"}, "Critical"),
            ({"Health": "Critical", "HealthRollup": "OK"}, "Critical"),
            ({"HealthRollup": "Critical"}, "Critical"),
            ({"Health": "OK"}, "OK"),
        ):
            self.assertEqual(health, self.status(Status=status).health)
        self.assertIs(False, self.status(Status={"State": "Disabled"}).enabled)
        self.assertIs(False, self.status(Pool="Free").active)

    def test_it_can_be_shared_only_if_both_flags_say_so(self):
        for flags in ({"SharingCapable": True}, {"SharingEnabled": True}, {}):
            self.assertIs(False, self.status(status=flags).shareable)

    def test_of_a_shared_block_in_use_that_tells_no_number_the_maximum_is_unknown(self):
        shared = {"SharingCapable": True, "SharingEnabled": True, "MaxCompositions": 4}
        self.assertIsNone(self.status("ComposedAndAvailable", status=shared).max_compositions)
        what = "found none, expected the number of nodes (its free share is unknown)"
        self.noted(f"/B/1: CompositionStatus/NumberOfCompositions: {what}")
        for state, status in (
            ("Unused", shared),
            ("Composed", shared | {"SharingCapable": False}),
            ("ComposedAndAvailable", shared | {"NumberOfCompositions": 0}),
        ):
            self.assertEqual(4, self.status(state, status=status).max_compositions)
            self.noted()
        self.status("ComposedAndAvailable", status=shared | {"MaxCompositions": None})
        self.noted()

    def test_a_state_that_is_none_is_unknown_and_noted(self):
        where = "/B/1: CompositionStatus/CompositionState"
        for state, found in ((None, "none"), ("", "none"), ("Odd", "Odd")):
            self.assertEqual(Status(state="Unknown"), self.status(state))
            self.noted(f"{where}: found {found}, expected one of {STATES} (cannot be composed)")
        self.assertEqual("Unknown", self.status("unknown").state)
        self.noted()

    def test_its_types_are_read_once_each_and_what_is_none_is_noted(self):
        for told, types, found in (
            (["Compute", "storage", "Compute"], ("Compute", "Storage"), None),
            ("Memory", ("Memory",), None),
            ([], (), None),
            (["Odd", "Storage"], ("Storage",), ["Odd", "Storage"]),
            (None, (), "none (limits ignore the block)"),
        ):
            with self.subTest(told):
                self.read(B_1=block(ResourceBlockType=told))
                self.assertEqual(types, self.blocks["/B/1"].type)
                lines = self.notes.lines()
                self.assertEqual(found is not None, bool(lines))
                start = f"/B/1: ResourceBlockType: found {found}, expected {TYPES}"
                self.assertTrue(all(line.startswith(start) for line in lines), lines)

    def test_a_block_has_its_name_its_places_and_its_devices(self):
        self.read(B_1=block(Name="b", Links={"Chassis": links("/Ch/1")}, Drives=links("/D")),
                  D={"CapacityBytes": 10**12})  # fmt: skip
        found = self.blocks["/B/1"]
        self.assertEqual(("b", {"chassis": "/Ch/1"}), (found.name, found.places))
        self.assertEqual([10**12], [drive.capacity_bytes for drive in found.devices.drives])

    def test_what_is_missing_is_noted_with_what_links_it(self):
        for missing, where in (("B_1", "/B"), ("Z_a", "/Z"), ("C", ROOT), ("S", ROOT), ("B", "/C"),
                               ("Z", "/C"), ("S_9", "/S"), ("D", "/B/2")):  # fmt: skip
            with self.subTest(missing):
                words = {"S": {"Members": links("/S/9")}, "S_9": system(type_="Physical"),
                         "B_2": block(Drives=links("/D")), "D": {"CapacityBytes": 5}}  # fmt: skip
                self.read(**words | {missing: None})
                line = f"/{missing.replace('_', '/')}: found no such document, but"
                self.assertIn(f"{line} {where} links it", self.notes.lines())
