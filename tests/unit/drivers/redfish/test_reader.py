# SPDX-License-Identifier: Apache-2.0
"""The status of blocks that do not tell all of it, and the limits of a node."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import TestCase

from tests.unit.drivers.redfish.test_device_identity import BLOCKS, Case, V, links
from valence_sched.drivers.crawl.reading import with_max_blocks
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Pool, Status

SHARED = {"SharingCapable": True, "SharingEnabled": True}


class TestStatus(Case):
    """``CompositionStatus`` with something missing."""

    def status(self, **status: Any) -> Status:
        self.setUp()
        self.block("b", CompositionStatus=status)
        return self.read().blocks[0].status

    def test_a_block_without_a_composition_state_is_not_free_and_said_to_be_so(self) -> None:
        for status in ({}, {"CompositionState": None}, {"CompositionState": ""}):
            with self.subTest(status):
                self.assertEqual(
                    ("Unknown", 0), ((found := self.status(**status)).state, found.slots)
                )
                self.assertTrue(self.noted("/b: CompositionStatus/CompositionState: found none"))
        self.setUp()
        self.block("b", CompositionStatus=None)
        self.assertEqual(0, self.read().blocks[0].status.slots)
        self.assertTrue(self.noted("/b: CompositionStatus/CompositionState: found none"))

    def test_of_a_shared_block_whose_use_is_unknown_one_more_node_is_certain(self) -> None:
        shared = {**SHARED, "CompositionState": "ComposedAndAvailable", "MaxCompositions": 8}
        for number, slots in ((2, 6), ("2", 6), (None, 1), ("x", 1), (-1, 1)):
            with self.subTest(number):
                self.assertEqual(slots, self.status(**shared, NumberOfCompositions=number).slots)
                noted = self.noted("NumberOfCompositions: found none, expected the nodes")
                self.assertEqual(slots == 1, noted)
        self.assertEqual(8, self.status(**shared | {"CompositionState": "Unused"}).slots)

    def test_a_shared_block_that_stays_unused_has_room_for_what_its_nodes_leave(self) -> None:
        self.documents[f"{V}/S"]["Members"] = links(f"{V}/S/n")
        self.put(f"{V}/S/n", SystemType="Composed", Links={"ResourceBlocks": links(f"{BLOCKS}/b")})
        self.block(
            "b", CompositionStatus={**SHARED, "CompositionState": "Unused", "MaxCompositions": 3}
        )
        status = self.read().blocks[0].status
        self.assertEqual(("ComposedAndAvailable", 1, 2),
                         (status.state, status.compositions, status.slots))  # fmt: skip


class TestLinks(Case):
    """Links that name nothing."""

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
        self.assertEqual(sorted(f"t.json: {it}: found a link without @odata.id, expected one"
                                for it in where), sorted(noted))  # fmt: skip


class TestMostBlocks(Case):
    """How many blocks a node may have where the pod manager tells no limit."""

    def most(self, kind: str = "Compute", told: int | None = None, **max_blocks: int) -> int | None:
        if told is not None:
            limits = {"@Redfish.ResourceBlockLimits": {f"Max{kind}": told}}
            capability = {
                "UseCase": "ComputerSystemComposition",
                "CapabilitiesObject": links(self.put(f"{V}/limits", **limits))[0],
            }
            word = "@Redfish.CollectionCapabilities"
            self.documents[f"{V}/S"][word] = {"Capabilities": [capability]}  # fmt: skip
        self.notes = Diagnostics()
        service = LinkedDocuments(
            self.documents.get, self.notes, self.documents, max_blocks=max_blocks
        )
        podm = with_max_blocks(read_podm(service, "p", "redfish"), max_blocks, self.notes)
        return podm.pools[0].limits[kind].max

    def compose(self, *names: str, kind: str = "Compute", type_: str = "Composed") -> None:
        for name in names:
            self.block(name, ResourceBlockType=[kind])
        uris = [f"{BLOCKS}/{name}" for name in names]
        node = self.put(
            f"{V}/S/{names[0]}", SystemType=type_, Links={"ResourceBlocks": links(*uris)}
        )
        self.documents[f"{V}/S"]["Members"] += links(node)

    def test_one_compute_block_is_assumed_without_any_evidence(self) -> None:
        self.compose("a")
        self.compose("b", "c", type_="Physical")
        self.assertEqual(1, self.most())
        self.assertFalse(self.noted("no maximum"))

    def test_a_composed_system_of_several_is_evidence_that_they_can_be_joined(self) -> None:
        for kind, other in (("Compute", "ComputerSystem"), ("ComputerSystem", "Compute")):
            self.setUp()
            self.compose("a", "b", "c", kind=kind)
            self.compose("d", "e", kind=kind)
            self.assertEqual([3, 1], [self.most(kind), self.most(other)])
            what = f"found a composed system of 3 {kind} blocks and no maximum of them"
            self.assertTrue(self.noted(what))

    def test_a_limit_that_is_told_holds_whatever_was_composed(self) -> None:
        self.compose("a", "b")
        self.assertEqual([1, 4], [self.most(told=told) for told in (1, 4)])

    def test_the_word_of_the_operator_holds_where_no_limit_is_told(self) -> None:
        self.block("a", ResourceBlockType=["Compute"])
        self.assertEqual(4, self.most(Compute=4))
        self.assertEqual(2, self.most("Storage", Storage=2))
        self.assertEqual([], self.notes.lines())
        self.compose("b", "c")
        self.assertEqual(1, self.most(Compute=1))

    def test_of_a_limit_and_the_word_of_the_operator_the_stricter_holds_and_that_is_noted(
        self,
    ) -> None:
        self.block("a", ResourceBlockType=["Compute"])
        self.assertEqual(2, self.most(told=2, Compute=4))
        self.assertTrue(self.noted("found a limit of 2 Compute blocks in a node, expected 4"))
        self.assertEqual(1, self.most(told=2, Compute=1))
        self.assertEqual([], self.notes.lines())


class TestStated(TestCase):
    """Limits of other dialects."""

    def test_what_a_pod_manager_needs_at_least_it_gets(self) -> None:
        pools = (Pool(id="a", limits={"Compute": Limit(2, 2)}), Pool(id="b"))
        podm = with_max_blocks(FullPodm(id="p", pools=pools), {"Compute": 1}, NO_NOTES)
        self.assertEqual([Limit(2, 2), Limit(0, 1)], [it.limits["Compute"] for it in podm.pools])


class TestLinkForms(Case):
    """The forms in which services send what a system or a zone has."""

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
                    self.assertTrue(self.noted("/a: ", f"it is a block of {V}/Elsewhere/1"))

    def test_a_system_that_is_not_listed_and_names_no_block_holds_none(self) -> None:
        self.block("a", Links={"ComputerSystems": links(self.put(f"{V}/Elsewhere/1"))})
        self.block("b", Links={"ComputerSystems": links(f"{V}/nowhere")})
        self.assertEqual([1, 1], [it.status.slots for it in self.read().blocks])
        self.assertTrue(self.noted("/nowhere: found no such document"))


class TestHosts(Case):
    """Blocks that systems name which nothing composed."""

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
        what = f"found Unused, expected Composed: it is a block of {V}/S/1"
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

    def test_a_shared_block_counts_every_system_that_names_it(self) -> None:
        shared = {**SHARED, "CompositionState": "Unused", "MaxCompositions": 4}
        self.block("b", CompositionStatus=shared)
        self.host("b")
        self.host("b", uri=f"{V}/S/2")
        self.assertEqual([("ComposedAndAvailable", 2)], self.states())
        self.assertTrue(self.noted(f"it is a block of {V}/S/1 and 1 more"))
