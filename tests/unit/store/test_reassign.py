# SPDX-License-Identifier: Apache-2.0
"""A claim is split by node, or moved to the blocks its nodes use; no block is free in between."""

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import expire, part, podm
from tests.unit.store.test_claims import SHARED, usage
from tests.unit.store.test_holds import nodes_of
from valence_sched.errors import ClaimLost, ClaimState
from valence_sched.model.claim import ClaimPart, Grant, NodeAllocation
from valence_sched.model.composition import ComposedNode
from valence_sched.model.effect import held_state
from valence_sched.store import tables

STOCK = {"uri": "m", "resource": "memory", "total": 10}


def share(number, *blocks, **amounts):
    grants = tuple(Grant(uri, amount) for uri, amount in amounts.items())
    return NodeAllocation(node=number, pool="all", blocks=blocks, grants=grants)


@on_each_engine
class TestSplit:
    """A held claim of several nodes becomes claims of one node each."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm(blocks=[SHARED, {"uri": "c1"}, {"uri": "c2"}], stocks=[STOCK]))
        self.one.remember(podm("q"))
        first = replace(share(1, "s", "c1"), grants=(Grant("m", 1.5), Grant("m", 0.5)))
        self.parts = [
            ClaimPart(podm="p", generation=1, shares=(first, share(2, "s", "c2", m=3))),
            ClaimPart(podm="q", generation=1, shares=(share(3, "c0"),)),
        ]
        self.claim = self.one.claims.create(
            self.parts, owner="o", group="g", key="k", content="asked"
        )

    def held(self):
        return {name: (usage(self.one, name).blocks, usage(self.one, name).amounts)
                for name in "pq"}  # fmt: skip

    def test_each_is_like_the_one_it_came_of_but_of_its_own_node(self):
        singles = self.one.claims.split(self.claim.id)
        for number, single in enumerate(singles, 1):
            (part_,) = single.parts
            expected = f"{self.claim.id}-{number}", "HELD", f"k#{number}", number
            node = part_.shares[0].node
            self.assertEqual(expected, (single.id, single.state, single.key, node))
            for name in ("owner", "group", "content", "created_at", "expires_at", "note"):
                self.assertEqual(getattr(self.claim, name), getattr(single, name), name)
        shares = [share for part_ in self.parts for share in part_.shares]
        self.assertEqual([(one,) for one in shares], [one.parts[0].shares for one in singles])
        self.assertEqual(["p", "p", "q"], [one.parts[0].podm for one in singles])
        self.assertEqual(singles, self.one.claims.list())

    def test_the_same_is_held_before_and_after_and_each_gives_back_its_own(self):
        before = self.held()
        singles = self.one.claims.split(self.claim.id)
        self.assertEqual(before, self.held())
        self.assertEqual(({"s": 2, "c1": 1, "c2": 1}, {"m": 5.0}), before["p"])
        for single, p_holds in zip(singles, (({"s": 1, "c2": 1}, {"m": 3.0}), ({}, {}), ({}, {})),
                                   strict=True):  # fmt: skip
            self.one.claims.release(single.id)
            self.assertEqual(p_holds, self.held()["p"])
        self.assertEqual(({}, {}), self.held()["q"])

    def test_what_was_split_has_ended_and_its_key_is_free(self):
        self.one.claims.split(self.claim.id)
        ended = self.one.claims.show(self.claim.id)
        self.assertEqual(("RELEASED", "one claim a node by now"), (ended.state, ended.note))
        self.assertIsNone(self.one.claims.find_by_key("o", "k", "another"))
        self.one.claims.release(self.claim.id)
        self.assertEqual({"s": 2, "c1": 1, "c2": 1}, usage(self.one).blocks)

    def test_without_a_key_there_are_none(self):
        claim = self.one.claims.create([part("q", 1, "c1")])
        self.assertEqual([None], [one.key for one in self.one.claims.split(claim.id)])

    def test_once_more_gives_the_same_claims(self):
        singles = self.one.claims.split(self.claim.id)
        self.assertEqual(singles, self.one.claims.split(self.claim.id))

    def test_only_what_is_held_in_time_is_split(self):
        expire(self, self.claim)
        with self.assertRaisesRegex(ClaimState, "only one that is held can be split"):
            self.one.claims.split(self.claim.id)
        other = self.one.claims.create([part("q", 1, "c1")])
        self.one.claims.start_composing(other.id)
        with self.assertRaisesRegex(ClaimState, "is COMPOSING: only one that is held can be split"):
            self.one.claims.split(other.id)

    def test_those_who_read_what_changed_see_all_that_is_held(self):
        position = self.one.snapshot().position
        before = {name: usage(self.one, name) for name in "pq"}
        self.one.claims.split(self.claim.id)
        changes = {change.id: change for change in self.one.snapshot(position).changes}
        self.assertEqual({"p", "q"}, {*changes})
        for name, change in changes.items():
            self.assertFalse(change.incremental)
            self.assertEqual(before[name].blocks, change.usage.blocks)
            self.assertEqual(before[name].amounts, change.usage.amounts)

    def test_what_is_held_is_said_of_each(self):
        singles = self.one.claims.split(self.claim.id)
        lines = [f"claim {one.id} {held_state(one.id)}" for one in singles]
        self.assertEqual(lines, self.one.effects.unnamed_lines())


@on_each_engine
class TestSwap:
    """What a pod manager took instead of the planned blocks is what the claim holds."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm(blocks=[*({"uri": f"c{n}"} for n in range(6)), SHARED]))

    def node(self, claim, number, *blocks, podm="p"):
        return ComposedNode(id=f"{claim.id}-{number}", podm=podm, uri=f"/S/{number}",
                            claim=claim.id, blocks=blocks)  # fmt: skip

    def composing(self, *parts):
        claim = self.one.claims.create(parts)
        self.one.claims.start_composing(claim.id)
        return claim

    def swapped(self, claim):
        return [one.words for one in self.one.events(claim.id) if one.kind == "swapped"]

    def test_another_block_is_held_from_then_on_and_the_planned_one_is_free(self):
        claim = self.composing(part("p", 1, "c0", "c1"))
        done = self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1", "c2", "c3")])
        self.assertEqual("COMPOSED", done.state)
        self.assertEqual({"c1": 1, "c2": 1, "c3": 1}, usage(self.one).blocks)
        self.assertEqual(("c1", "c2", "c3"), done.parts[0].shares[0].blocks)
        self.assertEqual(["made of 3 blocks, not those planned"], self.swapped(claim))
        self.assertEqual("HELD", self.one.claims.create([part("p", 1, "c0")]).state)

    def test_the_planned_blocks_are_no_swap(self):
        claim = self.composing(part("p", 1, "c0"))
        self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c0")])
        self.assertEqual([], self.swapped(claim))

    def test_a_block_of_another_claim_is_lost_and_nothing_changes(self):
        claim, other = self.composing(part("p", 1, "c0")), self.composing(part("p", 1, "c1"))
        with self.assertRaisesRegex(ClaimLost, f"block c1 of .* is held by claim {other.id}$"):
            self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1")])
        self.assertEqual("COMPOSING", self.one.claims.show(claim.id).state)
        self.assertEqual({"c0": 1, "c1": 1}, usage(self.one).blocks)
        self.assertEqual([], self.one.nodes.list())

    def test_a_block_whose_claim_has_expired_is_taken(self):
        claim = self.composing(part("p", 1, "c0"))
        late = self.one.claims.create([part("p", 1, "c1")])
        expire(self, late)
        self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1")])
        self.assertEqual("EXPIRED", self.one.claims.show(late.id).state)
        self.assertEqual({"c1": 1}, usage(self.one).blocks)

    def test_each_node_of_several_has_its_own(self):
        claim = self.composing(nodes_of(1, ("c0",), ("c1",)))
        done = self.one.claims.finish_composing(
            claim.id, [self.node(claim, 2, "c3"), self.node(claim, 1, "c2")]
        )
        self.assertEqual([("c2",), ("c3",)], [one.blocks for one in done.parts[0].shares])
        self.assertEqual(["made of 2 blocks, not those planned"], self.swapped(claim))
        self.assertEqual({"c2": 1, "c3": 1}, usage(self.one).blocks)

    def test_nodes_that_swap_blocks_hold_the_same_ones(self):
        claim = self.composing(nodes_of(1, ("c0",), ("c1",)))
        done = self.one.claims.finish_composing(
            claim.id, [self.node(claim, 1, "c1"), self.node(claim, 2, "c0")]
        )
        self.assertEqual([("c1",), ("c0",)], [one.blocks for one in done.parts[0].shares])
        self.assertEqual({"c0": 1, "c1": 1}, usage(self.one).blocks)

    def test_each_pod_manager_has_its_own(self):
        self.one.remember(podm("q"))
        claim = self.composing(part("p", 1, "c0"), part("q", 1, "c0"))
        self.one.claims.finish_composing(
            claim.id, [self.node(claim, 1, "c1"), self.node(claim, 2, "c0", podm="q")]
        )
        self.assertEqual(({"c1": 1}, {"c0": 1}),
                         (usage(self.one).blocks, usage(self.one, "q").blocks))  # fmt: skip

    def test_a_place_of_a_shared_block_is_taken_beside_others(self):
        self.one.claims.create([part("p", 1, "s")])
        claim = self.composing(part("p", 1, "c0"))
        self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "s")])
        self.assertEqual({"s": 2}, usage(self.one).blocks)

    def test_whatever_the_pod_manager_became_meanwhile(self):
        claim = self.composing(part("p", 1, "c0"))
        self.one.remember(podm(zone="moved"))
        self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1")])
        self.assertEqual({"c1": 1}, usage(self.one).blocks)

    def test_even_where_nothing_is_known_of_the_pod_manager_any_more(self):
        claim = self.composing(part("p", 1, "c0"))
        self.execute(sa.delete(tables.podms))
        done = self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1")])
        self.assertEqual(("c1",), done.parts[0].shares[0].blocks)

    def test_those_who_read_what_changed_see_it(self):
        claim = self.composing(part("p", 1, "c0"))
        position = self.one.snapshot().position
        self.one.claims.finish_composing(claim.id, [self.node(claim, 1, "c1")])
        (change,) = self.one.snapshot(position).changes
        self.assertEqual({"c1": 1}, change.usage.blocks)
