# SPDX-License-Identifier: Apache-2.0
"""Nodes whose blocks are attached and detached: states, holds, charges and records."""

import threading

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import part, podm
from tests.unit.store.test_claims import usage
from valence_sched.errors import ClaimLost, ClaimState, UnknownName
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.inventory import Node
from valence_sched.store import tables
from valence_sched.store.node_changes import ChangeRecord

TTL_S = 60.0
STOCK = {"uri": "/D", "resource": "mem", "unit": "MiB", "total": 100}


@on_each_engine
class TestNodeChanges:
    """A node of block c0 on a pod manager with four blocks."""

    def setUp(self):
        super().setUp()
        self.generation = self.one.remember(podm(blocks=4, stocks=[STOCK]))
        self.node, self.changes = self.compose("c0"), self.one.node_changes
        self.claim = self.one.nodes.show(self.node).claim

    def compose(self, block):
        claim = self.one.claims.create([part("p", self.generation, block)], owner="o")
        self.one.claims.start_composing(claim.id)
        id_, uri = f"vs-{claim.id}", f"/S/{int(block[1:]) + 1}"
        node = ComposedNode(id=id_, podm="p", uri=uri, claim=claim.id, owner="o", blocks=(block,))
        self.one.claims.finish_composing(claim.id, [node])
        return id_

    def held(self, *blocks, node=None, **charges):
        one = part("p", self.generation, *blocks)
        share = replace(one.shares[0], charges=charges)
        one = replace(one, node=node or self.node, shares=(share,))
        return self.one.claims.create([one], owner="o", ttl_s=TTL_S).id

    def state(self):
        return self.one.claims.show(self.claim).state

    def show(self):
        return self.one.nodes.show(self.node)

    def charged(self):
        return self.one.quotas.show("o").used

    def read(self, *blocks):
        """Store a reading in which the node has these blocks."""
        node = Node(uri="/S/1", blocks=blocks)
        read = [_json(one) for one in podm(blocks=4).blocks]
        for one in read:
            one["status"] = {"state": "Composed" if one["uri"] in blocks else "Unused"}
        return self.one.remember(podm(blocks=read, nodes=[_json(node)], stocks=[STOCK]))

    def held_amount(self, amount, *blocks, node=None):
        one = part("p", self.generation, *blocks)
        grants, charges = (Grant("/D", amount, "mem", "MiB"),), {"stock:mem": amount}
        share = replace(one.shares[0], grants=grants, charges=charges)
        one = replace(one, node=node or self.node, shares=(share,))
        return self.one.claims.create([one], owner="o", ttl_s=TTL_S).id

    def race(self, hold):
        """Let two nodes attach what ``hold`` holds at the same time; return how each ends."""
        nodes, ends = (self.node, self.compose("c1")), []

        def attach(node):
            try:
                ends.append(self.changes.start_attaching(node, hold(node), TTL_S).id)
            except ClaimLost:
                ends.append("lost")

        threads = [threading.Thread(target=attach, args=(node,)) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends

    def attach_amount(self, amount, uri, *blocks):
        self.changes.start_attaching(self.node, self.held_amount(amount, *blocks), TTL_S)
        self.changes.finish(self.node, ChangeRecord(), [Grant(uri, amount, "mem", "MiB")])

    def used(self):
        """Return the amount in use by the stored reading, and the amount that claims hold."""
        (stored,) = self.one.load_podms().values()
        self.generation = stored.generation
        return stored.stocks[0].used, usage(self.one).amounts.get("/D", 0.0)

    def test_attached_blocks_are_held_by_the_node_and_by_no_claim_of_their_own(self):
        held = self.held("c1", "c2", cores=16)
        node = self.changes.start_attaching(self.node, held, TTL_S)
        self.assertEqual((("c0",), ("c1", "c2")), (node.blocks, node.changing))
        self.assertEqual("ATTACHING", self.state())
        self.assertEqual("RELEASED", self.one.claims.show(held).state)
        self.assertEqual({"c0": 1, "c1": 1, "c2": 1}, usage(self.one).blocks)
        self.assertEqual({"claims": 1, "nodes": 1, "cores": 16}, self.charged())
        self.changes.finish(self.node, ChangeRecord("k", "digest"))
        node = self.show()
        self.assertEqual((("c0", "c1", "c2"), ()), (node.blocks, node.changing))
        self.assertEqual({"k": "digest"}, node.changes)
        self.assertEqual("COMPOSED", self.state())
        self.assertEqual({"c0": 1, "c1": 1, "c2": 1}, usage(self.one).blocks)
        words = [event.words for event in self.one.events(self.claim) if event.kind == "attached"]
        self.assertEqual(["2 blocks: c1, c2"], words)

    def test_blocks_for_a_node_are_neither_another_claim_nor_another_node(self):
        self.one.quotas.change("o", {"claims": 1, "nodes": 1})
        self.changes.start_attaching(self.node, self.held("c1"), TTL_S)
        self.assertEqual({"claims": 1, "nodes": 1}, self.charged())

    def make_room(self, *blocks):
        """Attach blocks, and detach them to make room for others."""
        self.changes.start_attaching(self.node, self.held(*blocks, cores=8), TTL_S)
        self.changes.finish(self.node, ChangeRecord())
        self.changes.start_detaching(self.node, blocks, TTL_S, undo_claim="undo")
        return self.changes.finish(self.node, ChangeRecord())

    def test_blocks_that_make_room_are_held_until_the_change_ends(self):
        node = self.make_room("c1")
        self.assertEqual((("c0",), "undo", "DETACHING"), (node.blocks, node.undo_claim, node.state))
        undo = self.one.claims.show("undo")
        self.assertEqual(
            ("DETACHING", "o", self.node), (undo.state, undo.owner, undo.parts[0].node)
        )
        self.assertIn("c1", usage(self.one).blocks)
        with self.assertRaisesRegex(ClaimLost, "is held by claim undo"):
            self.held("c1")
        with self.assertRaisesRegex(ClaimState, "its node may exist: reap the claim"):
            self.one.claims.release("undo")
        self.changes.start_attaching(self.node, self.held("c2"), TTL_S)
        self.assertEqual("undo", self.show().undo_claim)  # until the others are attached
        node = self.changes.finish(self.node, ChangeRecord())
        self.assertEqual((("c0", "c2"), None), (node.blocks, node.undo_claim))
        self.changes.end_undo("undo", "the node has c2")
        self.changes.end_undo("undo", "again")
        self.assertEqual("RELEASED", self.one.claims.show("undo").state)
        self.held("c1")

    def test_blocks_that_made_room_are_attached_again_by_their_claim(self):
        self.make_room("c1", "c2")
        charged = self.charged()
        self.changes.start_attaching(self.node, self.held("c3"), TTL_S)
        self.changes.cancel(self.node, "no slot")
        self.assertEqual("undo", self.show().undo_claim)
        self.changes.start_attaching(self.node, "undo", TTL_S)
        node = self.changes.finish(self.node, ChangeRecord())
        self.assertEqual((("c0", "c1", "c2"), None), (node.blocks, node.undo_claim))
        self.assertEqual("RELEASED", self.one.claims.show("undo").state)
        self.assertEqual(charged, self.charged())
        other = self.compose("c3")
        self.make_room_of_another(other)

    def make_room_of_another(self, other):
        """Check that the undo claim of a node is attached to no other node."""
        self.changes.start_detaching(self.node, ["c1"], TTL_S, undo_claim="second")
        self.changes.finish(self.node, ChangeRecord())
        with self.assertRaisesRegex(ClaimState, "only held blocks can be attached"):
            self.changes.start_attaching(other, "second", TTL_S)

    def test_a_detachment_that_is_cancelled_leaves_no_undo_claim(self):
        self.changes.start_attaching(self.node, self.held("c1"), TTL_S)
        self.changes.finish(self.node, ChangeRecord())
        self.changes.start_detaching(self.node, ["c1"], TTL_S, undo_claim="undo")
        node = self.changes.cancel(self.node, "no")
        self.assertEqual((None, "COMPOSED"), (node.undo_claim, node.state))
        with self.assertRaises(UnknownName):
            self.one.claims.show("undo")

    def test_an_undo_claim_does_not_expire_by_itself_and_outlives_no_node(self):
        self.make_room("c1")
        of = tables.claims.c
        with self.one._database.writer.begin() as connection:
            past = sa.update(tables.claims).where(of.id == "undo").values(expires_at=1.0)
            connection.execute(past)
        self.one.claims.expire()
        self.assertIn("c1", usage(self.one).blocks)
        self.assertEqual(["undo"], [one.id for one in self.one.claims.list_stuck()])
        self.one.nodes.forget(self.node)
        self.changes.end_undo("undo", "its node is gone")
        self.assertEqual({}, usage(self.one).blocks)

    def test_a_reading_settles_the_claim_once_it_shows_the_attached_blocks(self):
        self.changes.start_attaching(self.node, self.held("c1"), TTL_S)
        self.changes.finish(self.node, ChangeRecord())
        self.read("c0")
        self.assertEqual("COMPOSED", self.state())
        self.read("c0", "c1")
        self.assertEqual("SETTLED", self.state())
        self.assertFalse(usage(self.one).blocks)

    def test_a_canceled_attachment_frees_the_blocks_and_their_charges(self):
        self.changes.start_attaching(self.node, self.held("c1", cores=8), TTL_S)
        node = self.changes.cancel(self.node, "the port is full")
        self.assertEqual((("c0",), ()), (node.blocks, node.changing))
        self.assertEqual({"c0": 1}, usage(self.one).blocks)
        self.assertEqual({"claims": 1, "nodes": 1}, self.charged())
        self.assertEqual("the port is full", self.one.events(self.claim)[-2].words)
        self.held("c1")

    def test_detached_blocks_stay_held_until_they_are_gone_and_are_free_then(self):
        self.generation = self.read("c0")
        self.changes.start_attaching(self.node, self.held("c1", cores=8), TTL_S)
        self.changes.finish(self.node, ChangeRecord())
        self.generation = self.read("c0", "c1")
        self.assertEqual("SETTLED", self.state())
        node = self.changes.start_detaching(self.node, ["c1"], TTL_S)
        self.assertEqual((("c0", "c1"), ("c1",)), (node.blocks, node.changing))
        self.assertEqual("DETACHING", self.state())
        self.assertEqual({"c1": 1}, usage(self.one).blocks)
        with self.assertRaises(ClaimLost):
            self.held("c1")
        node = self.changes.finish(self.node, ChangeRecord(flavor="small"))
        self.assertEqual((("c0",), (), "small"), (node.blocks, node.changing, node.flavor))
        self.assertEqual({"claims": 1, "nodes": 1}, self.charged())
        (stored,) = self.one.load_podms().values()
        self.assertEqual("Unused", next(b for b in stored.blocks if b.uri == "c1").status.state)
        self.assertEqual(("c0",), stored.nodes[0].blocks)
        self.generation = stored.generation
        self.held("c1")

    def test_a_canceled_detachment_leaves_the_node_as_it_was(self):
        self.generation = self.read("c0")
        self.changes.start_detaching(self.node, ["c0"], TTL_S)
        node = self.changes.cancel(self.node, "refused")
        self.assertEqual((("c0",), ()), (node.blocks, node.changing))
        self.assertEqual("COMPOSED", self.state())
        self.read("c0")
        self.assertEqual("SETTLED", self.state())

    def test_an_attached_amount_is_held_until_the_reading_counts_it(self):
        node = self.changes.start_attaching(self.node, self.held_amount(60.0, "c1"), TTL_S)
        self.assertEqual(("ATTACHING", (0.0, 60.0)), (node.state, self.used()))
        with self.assertRaisesRegex(ClaimLost, "stock /D .* has 40 free"):
            self.held_amount(50.0)
        self.changes.finish(self.node, ChangeRecord(), [Grant("/D/1", 60.0)])
        self.assertEqual((60.0, 0.0), self.used())
        node = self.show()
        self.assertEqual((("c0", "c1"), (), ()),
                         (node.blocks, node.changing, node.changing_amounts))  # fmt: skip
        self.assertEqual(((Grant("/D", 60.0, "mem", "MiB"),), (Grant("/D/1", 60.0),)),
                         (node.grants, node.amounts))  # fmt: skip
        self.assertEqual({"claims": 1, "nodes": 1, "stock:mem": 60}, self.charged())
        words = [event.words for event in self.one.events(self.claim) if event.kind == "attached"]
        self.assertEqual(["1 block and 1 amount: c1, /D/1"], words)
        with self.assertRaisesRegex(ClaimLost, "stock /D .* has 40 free"):
            self.held_amount(50.0)

    def test_a_canceled_amount_is_free_again(self):
        self.changes.start_attaching(self.node, self.held_amount(60.0), TTL_S)
        self.changes.cancel(self.node, "refused")
        self.assertEqual((0.0, 0.0), self.used())
        self.assertEqual({"claims": 1, "nodes": 1}, self.charged())
        self.assertEqual(((), ()), (self.show().grants, self.show().changing_amounts))

    def test_a_detached_amount_is_in_use_until_it_is_gone(self):
        for number in (1, 2):
            self.attach_amount(30.0, f"/D/{number}")
            self.used()
        node = self.changes.start_detaching(self.node, (), TTL_S, self.show().amounts[:1])
        self.assertEqual(("DETACHING", (60.0, 0.0)), (node.state, self.used()))
        self.changes.cancel(self.node, "refused")
        self.assertEqual((60.0, 0.0), self.used())
        for _ in range(2):
            self.changes.start_detaching(self.node, (), TTL_S, self.show().amounts[:1])
        for _ in range(2):
            self.changes.finish(self.node, ChangeRecord())
        self.assertEqual((30.0, 0.0), self.used())
        self.assertEqual(["/D/2"], [one.uri for one in self.show().amounts])
        self.assertEqual({"claims": 1, "nodes": 1, "stock:mem": 30}, self.charged())
        with self.assertRaisesRegex(ClaimLost, "/D/1 is no longer part of it"):
            self.changes.start_detaching(self.node, (), TTL_S, [Grant("/D/1", 30.0)])

    def test_an_amount_that_was_composed_is_freed_from_its_claim(self):
        one = part("p", self.generation, "c1", **{"/D": 25.0})
        claim = self.one.claims.create([one], owner="o")
        self.one.claims.start_composing(claim.id)
        grants, amounts = one.shares[0].grants, (Grant("/D/1", 25.0),)
        node = ComposedNode(id="vs-x", podm="p", uri="/S/9", claim=claim.id, owner="o",
                            blocks=("c1",), grants=grants, amounts=amounts)  # fmt: skip
        self.one.claims.finish_composing(claim.id, [node])
        self.node = "vs-x"
        self.attach_amount(10.0, "/D/2")
        self.assertEqual((10.0, 25.0), self.used())
        self.changes.start_detaching("vs-x", (), TTL_S, self.show().amounts)
        self.changes.finish("vs-x", ChangeRecord())
        self.assertEqual((0.0, 0.0), self.used())

    def test_of_two_nodes_one_gets_the_last_amount(self):
        ends = self.race(lambda node: self.held_amount(60.0, node=node))
        self.assertEqual((1, (0.0, 60.0)), (ends.count("lost"), self.used()))

    def test_a_node_that_is_being_changed_is_not_changed_a_second_time(self):
        first, second = self.held("c1"), self.held("c2")
        self.changes.start_attaching(self.node, first, TTL_S)
        for change in (
            lambda: self.changes.start_attaching(self.node, second, TTL_S),
            lambda: self.changes.start_detaching(self.node, ["c0"], TTL_S),
        ):
            with self.assertRaisesRegex(ClaimState, "ATTACHING: its node cannot be changed now"):
                change()
        self.assertEqual("HELD", self.one.claims.show(second).state)

    def test_each_step_may_be_repeated_after_a_lost_answer(self):
        held = self.held("c1")
        for _ in range(2):
            self.changes.start_attaching(self.node, held, TTL_S)
        for _ in range(2):
            self.changes.finish(self.node, ChangeRecord())
        for _ in range(2):
            self.changes.start_detaching(self.node, ["c1"], TTL_S)
        for _ in range(2):
            self.changes.cancel(self.node, "refused")
        kinds = [event.kind for event in self.one.events(self.claim)]
        expected = ["attaching", "attached", "composed", "detaching", "unchanged", "composed"]
        self.assertEqual(expected, kinds[-6:])

    def test_an_expired_claim_and_a_claim_of_another_state_are_not_attached(self):
        held = self.held("c1")
        self.one.claims.release(held)
        with self.assertRaisesRegex(ClaimState, "only held blocks can be attached"):
            self.changes.start_attaching(self.node, held, TTL_S)
        self.assertEqual("COMPOSED", self.state())

    def test_a_block_that_the_node_lost_and_an_unknown_node_are_named(self):
        with self.assertRaisesRegex(ClaimLost, "c3 is no longer part of it"):
            self.changes.start_detaching(self.node, ["c3"], TTL_S)
        self.assertEqual("COMPOSED", self.state())
        with self.assertRaisesRegex(UnknownName, self.node):
            self.changes.start_detaching(f"{self.node}x", ["c0"], TTL_S)

    def test_a_change_that_takes_too_long_is_found_and_a_node_without_it_is_not(self):
        self.changes.start_attaching(self.node, self.held("c1"), 0.0)
        (stuck,) = self.one.claims.list_stuck()
        self.assertEqual((self.claim, "ATTACHING"), (stuck.id, stuck.state))
        with self.assertRaisesRegex(ClaimState, "reap the claim after it expires"):
            self.one.claims.fail(self.claim, "no")
        self.changes.finish(self.node, ChangeRecord())
        self.assertEqual([], self.one.claims.list_stuck())

    def test_a_node_that_is_gone_while_it_is_changed_frees_all(self):
        self.changes.start_attaching(self.node, self.held("c1"), TTL_S)
        self.one.nodes.forget(self.node)
        self.assertEqual("RELEASED", self.state())
        self.assertFalse(usage(self.one).blocks)

    def test_power_is_noted_in_the_history(self):
        for ttl_s, left_off in ((TTL_S, 0), (0.0, 1)):
            node = self.changes.shut_down(self.node, ttl_s)
            self.assertEqual("shut down", self.one.events(self.claim)[-1].kind)
            self.assertEqual(([node] * left_off, []), self.changes.overdue([node]))
        node = self.changes.started(self.node)
        self.assertEqual("started", self.one.events(self.claim)[-1].kind)
        self.assertEqual((None, ([], [])), (node.off_until, self.changes.overdue([node])))

    def test_of_several_changes_at_a_time_one_begins(self):
        held = [self.held("c1"), self.held("c2"), self.held("c3")]
        done, lost = [], []

        def start(id_):
            try:
                done.append(self.changes.start_attaching(self.node, id_, TTL_S).changing)
            except ClaimState:
                lost.append(id_)

        threads = [threading.Thread(target=start, args=(id_,)) for id_ in held]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((1, 2), (len(done), len(lost)))
        self.assertEqual(done[0], self.show().changing)

    def test_of_two_nodes_one_gets_the_last_block(self):
        ends = self.race(lambda node: self.held("c3", node=node))
        self.assertEqual(1, ends.count("lost"))
        changing = [node.changing for node in self.one.nodes.list()]
        self.assertEqual([(), ("c3",)], sorted(changing))


def _json(noun):
    return msgspec.to_builtins(noun)
