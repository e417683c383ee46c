# SPDX-License-Identifier: Apache-2.0
"""Pod managers with unusual habits: the composed node is recognised as ours, and only it."""

import contextlib
import dataclasses
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import BAYS, NETWORK, PCIE
from tests.unit.lifecycle.site import Site, request, site
from tests.unit.simulator.site import documents
from tests.unit.trees import constrained, tree
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.errors import ComposeFailed, Unverified
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.claim import (
    ACTIVE_STATES,
    FINAL_STATES,
    Claim,
    ClaimPart,
    CompositionRequest,
    NodeAllocation,
    composition_request,
    node_allocations,
    node_name,
)
from valence_sched.model.registration import Registration

SYSTEMS, NODES = "/redfish/v1/Systems", "/redfish/v1/Nodes"
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
DISK = {"processor": {"total_cores": 8}, "drives": [{"count": 1, "capacity_gib": 400}]}

BODIES = [[f"body:{kind}:{method}:*" for method in ("POST", "PATCH", "DELETE")]
          for kind in ("text", "number", "list")]  # fmt: skip
NAMES = ["own-names", "uri-names", "no-location"]
#: Habits that occur together in one pod manager.
HABITS = [*BODIES, ["own-names", *BODIES[0]], *([it] for it in NAMES),
          ["own-names", "no-location"], ["uri-names", "no-location"]]  # fmt: skip
REDFISH = [*HABITS, ["stays-unused:Compute*"], ["stays-unused:NVMe*"],
           ["stays-unused:Compute*", "own-names", "no-location"]]  # fmt: skip
RACK = [*HABITS, ["odd-actions"]]


def access(here: Site) -> PodmAccess:
    members = {name: Registration(name=name, url=podm.url) for name, podm in here.podms.items()}
    return PodmAccess(here.store, members, lambda _registration: None)


class TestHabits(unittest.TestCase):
    """Each habit, from the claim to the removal."""

    of_redfish, of_rack = REDFISH[:1], RACK[:1]  # more in the proofs

    @classmethod
    def setUpClass(cls) -> None:
        cls.redfish, cls.rack = tree("gpu-east"), documents_of(PCIE)

    @contextlib.contextmanager
    def on(self, documents: dict, *rules: str) -> Iterator[Site]:
        with site(*rules, source=None, documents={"podm": documents}) as here:
            yield here

    def test_a_node_of_blocks_is_made_counted_and_removed(self):
        for rules in self.of_redfish:
            with self.subTest(rules), self.on(self.redfish, *rules) as here:
                self.check(here)

    def test_a_node_of_a_rack_is_made_counted_and_removed(self):
        for rules in self.of_rack:
            with self.subTest(rules), self.on(self.rack, *rules) as here:
                self.check(here)

    def test_a_node_of_blocks_that_the_pod_manager_chose_is_made_counted_and_removed(self):
        chooses = constrained(tree("gpu-east"))
        for rules in ([], ["own-names"], ["uri-names", "no-location"]):
            with self.subTest(rules), self.on(chooses, *rules) as here:
                self.check(here)

    def check(self, here: Site) -> None:
        """Compose two nodes and remove them: each is ours, settled, listed, and gone at the end."""
        before = {node.uri for node in here.read("podm").nodes}
        nodes = []
        for _ in range(2):
            done = here.provisioner.provision(request(properties=DISK))
            self.assertEqual(((), ()), (done.failures, done.unverified))
            nodes += done.nodes
        here.read_again()
        claims = {claim.id: claim.state for claim in here.store.claims.list()}
        self.assertEqual({node.claim: "SETTLED" for node in nodes}, claims)
        self.assertEqual(before | {node.uri for node in nodes},
                         {node.uri for node in here.read("podm").nodes})  # fmt: skip
        self.assertEqual([], [str(action) for action in here.reconciler.reconcile()])
        states = {one.node.uri: one.state for one in access(here).nodes("podm", live=True)}
        self.assertEqual({"COMPOSED"}, {states[node.uri] for node in nodes}, states)
        self.assertEqual([], here.blocks_used_twice())
        for node in nodes:
            here.composer.remove(node)
        self.assertEqual(before, {node.uri for node in here.read("podm").nodes})
        self.assertEqual([], here.store.claims.list())

    def test_a_node_that_may_be_ours_is_named_and_is_not_foreign(self):
        """The reply is lost, the name differs: the error (exit 7) and reaping name the node."""
        for of, where in ((self.redfish, SYSTEMS), (self.rack, NODES)):
            rules = [f"drop-reply:POST:{where}*", "own-names"]
            with self.subTest(where), self.on(of, *rules) as here:
                (claim,) = [here.claim(request(properties=DISK))]
                with self.assertRaisesRegex(Unverified, f"{where}/.*the owner is unknown"):
                    here.composer.compose(claim)
                self.assertEqual("COMPOSING", here.store.claims.show(claim.id).state)
                (node,) = [it for it in access(here).nodes("podm", live=True)
                           if it.node.claim == claim.id]  # fmt: skip
                self.assertEqual("UNKNOWN", node.state)
                with here.connect("podm") as composer:
                    part, share = next(node_allocations(claim))
                    found = composer.reads.read_node(composition_request(claim, share, None))
                self.assertEqual(("unknown", "podm"), (found.state, part.podm))
                self.assertIn(node.node.uri, found.reason)

    def test_a_node_that_is_known_by_its_uri_is_no_orphan_of_another(self):
        """The node appeared after its claim had failed, and its name is only in its URI."""
        with self.on(self.redfish, "uri-names") as here:
            claim = here.claim(request())
            wanted = composition_request(claim, claim.parts[0].shares[0], None)
            here.store.claims.start_composing(claim.id)
            here.store.claims.fail(claim.id, "the reply was lost")
            with here.connect("podm") as composer:
                composer.may_change(wanted).compose(wanted, lambda _state: None)
            (action,) = here.reconciler.reconcile()
            self.assertEqual(f"decomposed: its claim {claim.id} is FAILED", action.done)

    def test_the_text_of_a_refusal_is_its_reason(self):
        rules = [f"status:507:POST:{SYSTEMS}", f"body:text:POST:{SYSTEMS}"]
        with self.on(self.redfish, *rules) as here:
            done = here.provisioner.provision(request())
            self.assertEqual(("podm: HTTP 507: It is done.",), done.failures)

    def test_a_shareable_template_that_stays_unused_is_part_of_several_nodes(self):
        with self.on(documents(), "stays-unused:D1") as here, here.connect("podm") as composer:
            nodes = []
            for name, block in (("vs-1", "C1"), ("vs-2", "C2")):
                blocks = (f"{BLOCKS}/{block}", f"{BLOCKS}/D1")
                wanted = CompositionRequest(name=name, blocks=blocks)
                result = composer.may_change(wanted).compose(wanted, lambda _state: None)
                self.assertEqual(("composed", blocks), (result.state, result.blocks))
                nodes.append((wanted, result.node))
            gone = composer.may_change(*nodes[0]).remove(*nodes[0], lambda _state: None)
            self.assertEqual(("absent", ""), (gone.state, gone.reason))
            self.assertEqual("composed", composer.reads.read_node(*nodes[1]).state)

    def test_a_block_that_says_unused_and_is_part_of_another_node_is_not_taken_twice(self):
        with self.on(self.redfish, "stays-unused:*") as here:
            claim = here.claim(request())
            _, share = next(node_allocations(claim))
            with self.assertRaisesRegex(Unverified, "is not confirmed by any block"):
                here.composer.compose(claim)
            second = CompositionRequest(name="vs-2", pool=share.pool, blocks=share.blocks)
            with here.connect("podm") as composer:
                result = composer.may_change(second).compose(second, lambda _state: None)
            self.assertEqual("left", result.state)
            mine = f"{SYSTEMS}/{node_name(claim, share)}"
            self.assertEqual(f"its blocks are also part of {mine}", result.reason)


class TestEqualDevices(unittest.TestCase):
    """A composer that uses an equal device instead of the named one."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.redfish, cls.rack = tree("gpu-east"), documents_of(PCIE)
        for number, name in enumerate(("Compute-02", "Compute-03")):
            json = cls.redfish[f"{BLOCKS}/{name}"]
            chassis = {"@odata.id": f"/redfish/v1/Chassis/Drawer-{number}"}
            cls.redfish[f"{BLOCKS}/{name}"] = {**json, "Links": {"Chassis": [chassis]}}

    def held(self, here: Site, *blocks: str, places: tuple[str, ...] = ()) -> Claim:
        podm = here.store.load_podms(["podm"])["podm"]
        (first,) = [one for one in podm.blocks if one.uri == blocks[0]]
        share = NodeAllocation(node=1, pool=first.pools[0], blocks=blocks, places=places)
        return here.store.claims.create(
            [ClaimPart(podm="podm", generation=podm.generation, shares=(share,))]
        )

    def test_the_claim_is_settled_to_what_was_taken(self):
        named, taken = f"{BLOCKS}/Compute-02", f"{BLOCKS}/Compute-03"
        for rules in ([], ["own-names"], [f"drop-reply:POST:{SYSTEMS}"]):
            fail = ["equal-device", *rules]
            with (
                self.subTest(rules),
                site(*fail, source=None, documents={"podm": self.redfish}) as here,
            ):
                claim = self.held(here, named)
                node = here.composer.compose(claim)
                after = here.store.claims.show(claim.id)
                self.assertEqual(((taken,), "COMPOSED"), (node.blocks, after.state))
                self.assertEqual({taken: 1}, after.parts[0].blocks)
                self.held(here, named)  # it is free for others
                here.composer.remove(node)
                self.assertEqual([], here.node_names())

    def test_a_drive_of_a_rack_is_taken_for_an_equal_one(self):
        bay = self.rack[f"{BAYS}/bay-2"]
        twin = {**bay, "@odata.id": f"{BAYS}/bay-3", "Links": self.rack[f"{BAYS}/bay-3"]["Links"]}
        rack = {**self.rack, f"{BAYS}/bay-3": twin}
        with site("equal-device", source=None, documents={"podm": rack}) as here:
            free = [it for it in here.store.load_podms(["podm"])["podm"].blocks if it.status.slots]
            pooled = [it for it in free if it.uri.startswith(BAYS)]
            named, *others = [it for it in pooled if it.devices == pooled[0].devices]
            system = next(it for it in free if it.pools == named.pools and it is not named)
            node = here.composer.compose(self.held(here, system.uri, named.uri))
            self.assertIn(system.uri, node.blocks)
            self.assertNotIn(named.uri, node.blocks)
            self.assertIn(node.blocks[1], [it.uri for it in others])

    def test_where_the_request_tells_the_places_apart_it_is_taken_back(self):
        with site("equal-device", source=None, documents={"podm": self.redfish}) as here:
            claim = self.held(here, f"{BLOCKS}/Compute-02", places=("chassis",))
            with self.assertRaisesRegex(ComposeFailed, "exists without .*Compute-02"):
                here.composer.compose(claim)
            self.assertEqual([], here.node_names())

    def test_a_claim_knows_which_places_its_request_tells_apart(self):
        constraints = [{"of": ["processor"], "same": "chassis"}]
        bound = {"processor": {"total_cores": 8}, "topology": constraints}
        with site(source=None, documents={"podm": self.redfish}) as here:
            (part,) = here.claim(request(properties=bound)).parts
            self.assertEqual(("chassis",), part.shares[0].places)
            (part,) = here.claim(request()).parts
            self.assertEqual((), part.shares[0].places)


TREE = (
    Path(__file__).parents[3].parent / "shared" / "data" / "dmtf" / "public-constrained-composition"
)
PODM = "gpu-east"


def computes(here: Site) -> Iterator[str]:
    """Return the free compute blocks in the order of the pod manager."""
    for block in here.store.load_podms([PODM])[PODM].blocks:
        if "Compute" in block.type and block.status.slots:
            yield block.uri


def held(here: Site, block: str) -> Claim:
    podm = here.store.load_podms([PODM])[PODM]
    (pool,) = {pool for one in podm.blocks if one.uri == block for pool in one.pools}
    share = NodeAllocation(node=1, pool=pool, blocks=(block,))
    return here.store.claims.create(
        [ClaimPart(podm=PODM, generation=podm.generation, shares=(share,))], owner="team-a"
    )


class TestConstrained(unittest.TestCase):
    """A tree of this project."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.tree = constrained(tree(PODM))

    def site(self, *fail: str):
        return site(*fail, source=None, documents={PODM: self.tree})

    def test_the_claim_holds_what_the_node_is_made_of_and_nothing_else(self):
        with self.site() as here:
            *_, last = computes(here)
            claim = held(here, last)
            node = here.composer.compose(claim)
            self.assertNotIn(last, node.blocks)
            self.assertEqual(("composing (constrained)", True), self.how(here))
            after = here.store.claims.show(claim.id)
            self.assertEqual(set(node.blocks), set(after.parts[0].blocks))
            self.assertIn("swapped", [event.kind for event in here.store.events(claim.id)])
            self.assertEqual("COMPOSED", after.state)
            self.assertEqual(0, here.leak_count())
            held(here, last)  # it is free for others

    def how(self, here: Site) -> tuple[str, bool]:
        bodies = [mark for mark in here.points if mark.startswith("composing (")]
        return bodies[-1], "not reserved" in here.points

    def test_a_block_that_another_claim_holds_is_given_back(self):
        """The pod manager does not know claims: it uses any block that is free there."""
        with self.site() as here:
            *_, last = computes(here)
            probe = here.composer.compose(held(here, last))
            first = probe.blocks[0]
            here.composer.remove(probe)
            other, mine = held(here, first), held(here, last)
            with self.assertRaisesRegex(ComposeFailed, f"held by claim {other.id} of team-a"):
                here.composer.compose(mine)
            self.assertEqual([], here.node_names())
            self.assertEqual("FAILED", here.store.claims.show(mine.id).state)
            self.assertEqual("HELD", here.store.claims.show(other.id).state)
            node = here.composer.compose(other)
            self.assertEqual((first,), node.blocks[:1])

    def test_a_lost_reply_is_a_node_all_the_same(self):
        with self.site("drop-reply:POST:/redfish/v1/Systems") as here:
            *_, last = computes(here)
            node = here.composer.compose(held(here, last))
            self.assertEqual([node.name], here.node_names())

    def test_what_it_was_made_of_is_free_again_once_it_is_removed(self):
        with self.site() as here:
            *_, last = computes(here)
            free = here.free_blocks()
            here.composer.remove(here.composer.compose(held(here, last)))
            self.assertEqual((free, 0), (here.free_blocks(), here.leak_count()))


@unittest.skipUnless(TREE.is_dir(), f"the DMTF mockup is not at {TREE}")
class TestPublicTree(unittest.TestCase):
    """The public mockup of a service that composes by constraints."""

    def test_a_node_of_it_is_composed_and_removed(self):
        with site(source=str(TREE)) as here:
            (name,) = here.podms
            for there in here.read(name).nodes:  # all of its compute blocks are in use
                wanted = CompositionRequest(name=there.name or "", blocks=there.blocks)
                with here.connect(name) as hands:
                    changes = hands.may_change(wanted, there.uri)
                    changes.remove(wanted, there.uri, lambda _state: None)
            here.store.remember(here.read(name))
            free = here.free_blocks()
            asked = {"processor": {"total_cores": 16}, "memory": {"capacity_mib": 8192}}
            done = here.provisioner.provision(request(properties=asked))
            self.assertEqual(((), ()), (done.failures, done.unverified))
            (node,) = done.nodes
            self.assertTrue(node.blocks)
            self.assertIn("composing (constrained)", here.points)
            here.composer.remove(node)
            self.assertEqual(free, here.free_blocks())


MEMORY = {"processor": {"total_cores": 16},
          "stocks": [{"resource": "cxl_memory_mib", "amount": 200000}]}  # fmt: skip
VOLUME = {"processor": {"total_cores": 8}, "stocks": [{"resource": "storage_gib", "amount": 100}]}
BOTH = ("mem-1", MEMORY, 262144, "MemoryChunks"), ("store-1", VOLUME, 112, "AllocatedVolumes")


class Case(NamedTuple):
    """Rules of a pod manager with ``{}`` for the collection of created amounts.

    Without a ``line`` the node exists; ``left`` belongs to an error that exits 7.
    """

    rules: tuple[str, ...]
    line: str = ""
    left: bool = False


CASES = (
    Case(()),
    Case(("own-names",)),
    Case(("no-location",)),
    Case(("own-names", "no-location")),
    Case(("body:text:POST:*", "body:list:DELETE:*")),
    Case(("drop-reply:POST:*/{}",)),
    Case(("short-amounts",), "expected (262144|112) as granted"),
    Case(("status:400:POST:*/{}",), "HTTP 400"),
    Case(("lie:POST:*/{}",), "HTTP 200"),
    Case((f"status:500:POST:{SYSTEMS}",), "HTTP 500"),
    Case((f"status:500:POST:{SYSTEMS}", "own-names"), "HTTP 500"),
    Case(("failed-node",), "is Failed"),
    Case(("steal:Host1", "steal:Host4", "steal:Head-1", "steal:Head-4"), "in use"),
    Case((f"status:500:POST:{SYSTEMS}", "status:500:DELETE:*/{}/*"), "/{}/.* still exists", True),
    Case(
        (f"status:500:POST:{SYSTEMS}", "ghost"),
        "/{}/.* still exists: the service reported its deletion",
        True,
    ),
    Case(("drop-reply:POST:*/{}", "own-names"), "appeared after the request: the owner is", True),
)


class TestAmounts(unittest.TestCase):
    """Chunks of memory domains and volumes of storage pools."""

    cases = CASES[::9]  # more in the proofs

    @classmethod
    def setUpClass(cls) -> None:
        cls.trees = {name: tree(name) for name, *_ in BOTH}

    @contextlib.contextmanager
    def on(self, name: str, *rules: str) -> Iterator[Site]:
        with site(*rules, source=None, documents={name: self.trees[name]}, ttl_s=0.01) as here:
            yield here

    def made(self, here: Site, word: str) -> set[str]:
        (podm,) = here.podms.values()
        return {uri for uri in podm.documents if f"/{word}/" in uri}

    def test_it_is_made_whole_and_deleted_with_its_node_or_said(self):
        for name, properties, size, word in BOTH:
            for case in self.cases:
                rules = [rule.format(word) for rule in case.rules]
                with self.subTest(name, rules=rules), self.on(name, *rules) as here:
                    self.check(here, case, request(properties=properties), size, word)

    def check(self, here: Site, case: Case, asked, size: float, word: str) -> None:
        before = self.made(here, word)
        free = {stock.uri: stock.used for stock in here.read(*here.podms).stocks}
        done = here.provisioner.provision(asked, ttl_s=5)
        found = bool(done.nodes), bool(done.unverified)
        self.assertEqual((not case.line, case.left), found, done)
        if case.line:
            (line,) = (*done.failures, *(one.message for one in done.unverified))
            self.assertRegex(line, case.line.format(word))
        else:
            (node,) = done.nodes
            self.assertEqual({it.uri for it in node.amounts}, self.made(here, word) - before)
            self.assertEqual([float(size)], [it.amount for it in node.amounts])
            here.read_again()
            self.assertEqual(["SETTLED"], [claim.state for claim in here.store.claims.list()])
            used = {stock.uri: stock.used for stock in here.read(*here.podms).stocks}
            self.assertEqual(size, sum(used.values()) - sum(free.values()))
            here.composer.remove(node)
        here.clear_faults()
        if case.left and "own-names" not in case.rules:
            self.assertEqual(1, len(self.made(here, word) - before))
            here.reconcile()
        if "drop-reply" not in str(case.rules) or not case.left:
            self.assertEqual(before, self.made(here, word))
            self.assertEqual([], here.store.claims.list())
            self.assertEqual(free, {one.uri: one.used for one in here.read(*here.podms).stocks})

    def test_what_a_process_made_that_died_before_the_node_is_deleted(self):
        for name, properties, _, word in BOTH:
            with self.subTest(name), self.on(name) as here:
                before = self.made(here, word)

                def die(point: str) -> None:
                    if point == "composing (specific)":
                        raise KeyboardInterrupt

                dying = Site(here.podms, here.store, checkpoint=die, ttl_s=0.01)
                claim = here.claim(request(properties=properties))
                with self.assertRaises(KeyboardInterrupt):
                    dying.composer.compose(claim)
                self.assertEqual(1, len(self.made(here, word) - before))
                here.reconcile()
                self.assertEqual(before, self.made(here, word))
                self.assertEqual("FAILED", here.store.claims.show(claim.id).state)

    def test_what_cannot_be_told_from_anothers_is_named_when_the_claim_ends(self):
        for name, properties, _, word in BOTH:
            rules = f"drop-reply:POST:*/{word}", "own-names"
            with self.subTest(name), self.on(name, *rules) as here:
                before = self.made(here, word)
                here.provisioner.provision(request(properties=properties), ttl_s=5)
                (stays,) = self.made(here, word) - before
                here.clear_faults()
                (line,) = here.reconcile()
                self.assertIn(
                    f"no node was composed, but check {stays} may belong to the node", line
                )

    def test_what_has_another_nodes_name_by_now_is_left_alone(self):
        with self.on("mem-1") as here:
            node = here.composer.compose(here.claim(request(properties=MEMORY)))
            (chunk,) = node.amounts
            documents = here.podms["mem-1"].documents
            documents.put(chunk.uri, {**documents.get(chunk.uri), "Name": "vs-another"})
            here.composer.remove(node)
            self.assertEqual((True, ["vs-another"]), (chunk.uri in documents, here.node_names()))

    def test_a_node_that_is_gone_takes_its_chunk_with_it_when_it_is_reconciled(self):
        with self.on("mem-1") as here:
            node = here.composer.compose(here.claim(request(properties=MEMORY)))
            here.podms["mem-1"].app.podm.composition.decompose(node.uri)
            self.assertIn(node.amounts[0].uri, here.podms["mem-1"].documents)
            here.reconcile()
            self.assertNotIn(node.amounts[0].uri, here.podms["mem-1"].documents)
            self.assertEqual([], here.store.nodes.list())

    def test_an_amount_that_another_took_meanwhile_is_said_before_anything_is_made(self):
        with self.on("mem-1") as here:
            claim = here.claim(request(properties=MEMORY))
            (grant,) = claim.parts[0].shares[0].grants
            documents = here.podms["mem-1"].documents
            domain = documents.get(grant.uri)
            documents.put(grant.uri, {**domain, "MemorySizeMiB": 1})
            with here.connect("mem-1") as composer:
                wanted = composition_request(claim, claim.parts[0].shares[0], None)
                self.assertEqual([f"{grant.uri}: found 1 MiB free, expected 262144 or more"],
                                 list(composer.reads.conflicts(wanted)))  # fmt: skip
            self.assertEqual(262144.0, grant.amount)


class TestRack(unittest.TestCase):
    """Volumes that a rack's pod manager creates for RemoteDrives."""

    def test_they_are_read_back_and_gone_with_the_node(self):
        for name in (NETWORK, PCIE):
            with (
                self.subTest(name),
                site(source=None, documents={"rack": documents_of(name)}) as here,
            ):
                used = {stock.uri: stock.used for stock in here.read("rack").stocks}
                done = here.provisioner.provision(request(properties=VOLUME))
                self.assertEqual(((), ()), (done.failures, done.unverified))
                (made,) = done.nodes[0].amounts
                self.assertIn(made.uri, here.podms["rack"].documents)
                here.composer.remove(done.nodes[0])
                self.assertNotIn(made.uri, here.podms["rack"].documents)
                self.assertEqual(used, {it.uri: it.used for it in here.read("rack").stocks})

    def test_one_that_came_out_too_small_takes_its_node_with_it(self):
        documents = {"rack": documents_of(NETWORK)}
        with site("short-amounts", source=None, documents=documents) as here:
            before = {node.uri for node in here.read("rack").nodes}
            done = here.provisioner.provision(request(properties=VOLUME))
            self.assertRegex(done.failures[0], "without volumes of 100 GiB: found 50")
            self.assertEqual(before, {node.uri for node in here.read("rack").nodes})


class TestDeciding(unittest.TestCase):
    """A dialect that cannot create an amount: the decision reports this before a claim."""

    def provision(self, here: Site, dialect: Dialect, **fields):
        """Provision with one pod manager of a dialect in place of the other pod manager."""
        there = here.store.load_podms()["mem-1"]
        here.store.remember(replace(there, driver=dialect.name))
        reach = dataclasses.replace(
            access(here), dialects={dialect.name: lambda: dialect, "redfish": redfish}
        )
        return reach.provisioner(here.claimer).provision(request(**fields), detail="report")

    def test_it_is_left_out_and_named_and_nothing_is_claimed(self):
        plain = Dialect("plain", ServiceRoot, read_podm, composer=lambda _session, _patience: None)
        reads = Dialect("reads", ServiceRoot, read_podm)
        only_reads = "driver 'reads' only reads pod managers and cannot compose"
        lines = {plain: "driver 'plain' cannot compose cxl_memory_mib", reads: only_reads}
        for dialect, line in lines.items():
            with self.subTest(dialect.name), site() as here:
                done = self.provision(here, dialect, properties=MEMORY)
                self.assertEqual("nothing_fits", done.decision.report.outcome)
                self.assertIn(f"mem-1: {line}: left out", done.decision.report.warnings)
                self.assertEqual([], here.store.claims.list(FINAL_STATES + ACTIVE_STATES))
            with self.subTest(dialect.name, podms=True), site() as here:
                done = self.provision(here, dialect, properties=MEMORY, podms=["mem-1"])
                self.assertEqual((f"mem-1: {line}",), done.failures)
                self.assertEqual([], here.store.claims.list(FINAL_STATES + ACTIVE_STATES))
