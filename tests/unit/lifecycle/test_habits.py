# SPDX-License-Identifier: Apache-2.0
"""Pod managers with habits of their own: the node that they make is ours, and nobody else's."""

import contextlib
import unittest
from collections.abc import Iterator

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import BAYS, PCIE
from tests.unit.lifecycle.site import Site, request, site
from tests.unit.simulator.site import documents
from tests.unit.trees import constrained, tree
from valence_sched.errors import ComposeFailed, Unverified
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.claim import Claim, ClaimPart, NodeAllocation
from valence_sched.model.composition import (
    CompositionRequest,
    composition_request,
    node_name,
    single_allocation,
)
from valence_sched.model.registration import Registration

SYSTEMS, NODES = "/redfish/v1/Systems", "/redfish/v1/Nodes"
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
DISK = {"processor": {"total_cores": 8}, "drives": [{"count": 1, "capacity_gib": 400}]}

BODIES = [[f"body:{kind}:{method}:*" for method in ("POST", "PATCH", "DELETE")]
          for kind in ("text", "number", "list")]  # fmt: skip
NAMES = ["own-names", "uri-names", "no-location"]
#: Habits that come together in one pod manager.
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

    @classmethod
    def setUpClass(cls) -> None:
        cls.redfish, cls.rack = tree("gpu-east"), documents_of(PCIE)

    @contextlib.contextmanager
    def on(self, documents: dict, *rules: str) -> Iterator[Site]:
        with site(*rules, source=None, documents={"podm": documents}) as here:
            yield here

    def test_a_node_of_blocks_is_made_counted_and_removed(self):
        for rules in REDFISH:
            with self.subTest(rules), self.on(self.redfish, *rules) as here:
                self.check(here)

    def test_a_node_of_a_rack_is_made_counted_and_removed(self):
        for rules in RACK:
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
        """The reply is lost and the node has another name: exit 7 names it, and so does reaping."""
        for of, where in ((self.redfish, SYSTEMS), (self.rack, NODES)):
            rules = [f"drop-reply:POST:{where}*", "own-names"]
            with self.subTest(where), self.on(of, *rules) as here:
                (claim,) = [here.claim(request(properties=DISK))]
                with self.assertRaisesRegex(Unverified, f"{where}/.*whose it is cannot be told"):
                    here.composer.compose(claim)
                self.assertEqual("COMPOSING", here.store.claims.show(claim.id).state)
                (node,) = [it for it in access(here).nodes("podm", live=True)
                           if it.node.claim == claim.id]  # fmt: skip
                self.assertEqual("UNKNOWN", node.state)
                with here.connect("podm") as composer:
                    part, share = single_allocation(claim)
                    found = composer.read_node(composition_request(claim, share, None))
                self.assertEqual(("unknown", "podm"), (found.state, part.podm))
                self.assertIn(node.node.uri, found.reason)

    def test_a_node_that_is_known_by_its_uri_is_no_orphan_of_another(self):
        """It came after its claim was given up, and its name stands in its URI alone."""
        with self.on(self.redfish, "uri-names") as here:
            claim = here.claim(request())
            wanted = composition_request(claim, claim.parts[0].shares[0], None)
            here.store.claims.start_composing(claim.id)
            here.store.claims.fail(claim.id, "the reply was lost")
            with here.connect("podm") as composer:
                composer.may_change(wanted).compose(wanted, lambda _state: None)
            (action,) = here.reconciler.reconcile()
            self.assertEqual(f"taken apart: its claim {claim.id} is FAILED", action.done)

    def test_the_text_of_a_refusal_is_its_reason(self):
        rules = [f"status:507:POST:{SYSTEMS}", f"body:text:POST:{SYSTEMS}"]
        with self.on(self.redfish, *rules) as here:
            done = here.provisioner.provision(request())
            self.assertEqual(("podm: HTTP 507: It is done.",), done.failures)

    def test_a_shareable_template_that_stays_unused_is_part_of_several_nodes(self):
        with (
            self.on(documents(), "stays-unused:D1") as here,
            here.connect("podm") as composer,
        ):
            nodes = []
            for name, block in (("vs-1", "C1"), ("vs-2", "C2")):
                blocks = (f"{BLOCKS}/{block}", f"{BLOCKS}/D1")
                wanted = CompositionRequest(name=name, blocks=blocks)
                result = composer.may_change(wanted).compose(wanted, lambda _state: None)
                self.assertEqual(("composed", blocks), (result.state, result.blocks))
                nodes.append((wanted, result.node))
            gone = composer.may_change(*nodes[0]).remove(*nodes[0], lambda _state: None)
            self.assertEqual(("absent", ""), (gone.state, gone.reason))
            self.assertEqual("composed", composer.read_node(*nodes[1]).state)

    def test_a_block_that_says_unused_and_is_part_of_another_node_is_not_taken_twice(self):
        with self.on(self.redfish, "stays-unused:*") as here:
            claim = here.claim(request())
            _, share = single_allocation(claim)
            with self.assertRaisesRegex(Unverified, "no block says that it is part of it"):
                here.composer.compose(claim)
            second = CompositionRequest(name="vs-2", pool=share.pool, blocks=share.blocks)
            with here.connect("podm") as composer:
                result = composer.may_change(second).compose(second, lambda _state: None)
            self.assertEqual("left", result.state)
            mine = f"{SYSTEMS}/{node_name(claim, share)}"
            self.assertEqual(f"its blocks are part of {mine} too", result.reason)


class TestEqualDevices(unittest.TestCase):
    """A composer that takes an equal device in place of the one that was named."""

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
            with self.assertRaisesRegex(ComposeFailed, "is there without .*Compute-02"):
                here.composer.compose(claim)
            self.assertEqual([], here.node_names())

    def test_a_claim_knows_which_places_its_request_tells_apart(self):
        bonds = [{"of": ["processor"], "same": "chassis"}]
        bound = {"processor": {"total_cores": 8}, "bonds": bonds}
        with site(source=None, documents={"podm": self.redfish}) as here:
            (part,) = here.claim(request(properties=bound)).parts
            self.assertEqual(("chassis",), part.shares[0].places)
            (part,) = here.claim(request()).parts
            self.assertEqual((), part.shares[0].places)
