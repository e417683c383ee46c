# SPDX-License-Identifier: Apache-2.0
"""Pod managers that choose the blocks themselves: a claim comes to what they really took."""

import unittest
from collections.abc import Iterator
from pathlib import Path

from tests.unit.lifecycle.site import Site, request, site
from tests.unit.trees import constrained, tree
from valence_sched.errors import ComposeFailed
from valence_sched.model.claim import Claim, ClaimPart, NodeAllocation
from valence_sched.model.composition import CompositionRequest

TREE = (
    Path(__file__).parents[3].parent / "shared" / "data" / "dmtf" / "public-constrained-composition"
)
PODM = "gpu-east"


def computes(here: Site) -> Iterator[str]:
    """The free compute blocks, in the order in which the pod manager goes through them."""
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
    """A tree of our own."""

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
        """The pod manager knows nothing of claims: it takes what is free for it."""
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
