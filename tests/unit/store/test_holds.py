# SPDX-License-Identifier: Apache-2.0
"""What exactly a claim holds, until when, and from when on the inventory counts it."""

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import expire, part, podm
from tests.unit.store.test_claims import SHARED, usage
from valence_sched.errors import ClaimLost, ClaimState
from valence_sched.model.claim import ClaimPart, NodeAllocation
from valence_sched.model.composition import ComposedNode
from valence_sched.store import tables


def nodes_of(generation, *blocks):
    """Return a part of several nodes, of one list of blocks each."""
    shares = tuple(NodeAllocation(node=number, pool="all", blocks=tuple(each))
                   for number, each in enumerate(blocks, 1))  # fmt: skip
    return ClaimPart(podm="p", generation=generation, shares=shares)


@on_each_engine
class TestHolds:
    """Which pod manager, which blocks, how much."""

    def setUp(self):
        super().setUp()
        self.one = self.store()

    def refused(self, part_, words):
        with self.assertRaisesRegex(ClaimLost, words):
            self.one.claims.create([part_])

    def test_a_generation_that_has_not_come_yet_is_refused_like_one_that_is_over(self):
        generation = self.one.remember(podm())
        for other in (generation - 1, generation + 1):
            self.refused(part("p", other, "c0"), f"from generation {other} to {generation} since")
        self.assertEqual("HELD", self.one.claims.create([part("p", generation, "c0")]).state)

    def test_nothing_is_held_of_a_pod_manager_that_is_gone(self):
        generation = self.one.remember(podm())
        self.execute(sa.update(tables.podms).values(gone=True))
        self.refused(part("p", generation, "c0"), "^pod manager 'p' is no longer here$")

    def test_an_amount_may_pass_what_is_left_by_rounding_and_no_more(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 1}
        generation = self.one.remember(podm(stocks=[stock]))
        for amount in (9 + 2e-6, 9.001, 10):
            self.refused(part("p", generation, m=amount), "stock m of pod manager 'p' has 9 left")
        self.one.claims.create([part("p", generation, m=9 + 5e-7)])
        self.refused(part("p", generation, m=2e-6), "has 0 left")

    def test_several_nodes_hold_a_place_each_of_a_shared_block(self):
        generation = self.one.remember(podm(blocks=[{**SHARED, "status": {
            "shareable": True, "max_compositions": 3}}, {"uri": "c"}]))  # fmt: skip
        self.refused(nodes_of(generation, "s", "s", "s", "s"), "block s .* has no place")
        two = self.one.claims.create([nodes_of(generation, "s", "s")])
        self.assertEqual({"s": 2}, usage(self.one).blocks)
        self.refused(nodes_of(generation, "s", "s"), f"block s .* is held by claim {two.id}")
        self.one.claims.create([nodes_of(generation, "s")])
        self.refused(nodes_of(generation, "s"), "block s .* is held by claim")
        self.one.claims.release(two.id)
        self.one.claims.create([nodes_of(generation, "s", "s")])
        self.refused(nodes_of(generation, "c", "c"), "block c .* has no place for another node")


@on_each_engine
class TestTime:
    """No step of a claim is taken once its time is over."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.generation = self.one.remember(podm())

    def test_one_whose_time_is_over_is_composed_no_more(self):
        claim = self.one.claims.create([part("p", self.generation, "c0")])
        expire(self, claim)
        with self.assertRaisesRegex(ClaimState, "only one that is held is composed"):
            self.one.claims.start_composing(claim.id)
        self.assertEqual("HELD", self.one.claims.show(claim.id).state)

    def test_one_that_took_too_long_to_prepare_is_held_no_more(self):
        second, claims = self.one.remember(podm("q")), self.one.claims
        claims._abort = lambda _id: None
        write = claims._write_expiring
        claims._write_expiring = lambda work, *words: self.then_expire(write, work, words)
        with self.assertRaisesRegex(ClaimLost, "took too long to prepare: it is PREPARED"):
            claims.create([part("p", self.generation, "c0"), part("q", second, "c0")])

    def then_expire(self, write, work, words):
        """Do a step of preparing; once both pod managers are held, let the time be over."""
        claim = write(work, *words)
        if all(change.usage for change in self.store().snapshot().changes):
            expire(self, claim)
        return claim

    def test_what_is_being_composed_in_time_is_not_reaped(self):
        claim = self.one.claims.create([part("p", self.generation, "c0")])
        self.one.claims.start_composing(claim.id, 600)
        for dry_run in (True, False):
            self.assertEqual([], list(self.one.claims.reap(dry_run=dry_run)))
        self.assertEqual([], list(self.one.claims.list_stuck()))
        self.assertEqual("COMPOSING", self.one.claims.show(claim.id).state)


@on_each_engine
class TestSettling:
    """A claim is settled by the reading that shows all of its nodes, with all of their blocks."""

    FREE, USED = {"state": "Unused"}, {"state": "Composed"}

    def setUp(self):
        super().setUp()
        self.one = self.store()
        generation = self.one.remember(podm(blocks=4))
        self.claim = self.one.claims.create([nodes_of(generation, ("c0", "c1"), ("c2", "c3"))])
        self.one.claims.start_composing(self.claim.id)
        self.one.claims.finish_composing(self.claim.id, [
            ComposedNode(id="n-1", podm="p", uri="/S/1", claim=self.claim.id, blocks=("c0", "c1")),
            ComposedNode(id="n-2", podm="p", uri="/S/2", claim=self.claim.id, blocks=("c2", "c3")),
        ])  # fmt: skip

    def test_only_all_nodes_with_all_blocks_settle_it(self):
        first, second = ("/S/1", ("c0", "c1")), ("/S/2", ("c2", "c3"))
        for used, nodes, settled in (
            ("0123", (), False),
            ("0123", (first,), False),
            ("01", (first, ("/S/2", ("c2",))), False),  # c3 is neither of it nor in use
            ("01", (first, ("/S/2", ())), False),
            ("0123", (first, ("/S/3", second[1])), False),  # another node
            ("012", (("/S/1", ("c0",)), ("/S/2", ("c3",))), True),  # in use, or shown as its own
        ):
            with self.subTest(used=used, nodes=nodes):
                blocks = [{"uri": f"c{n}", "status": self.USED if str(n) in used else self.FREE}
                          for n in range(4)]  # fmt: skip
                shown = [{"uri": uri, "blocks": list(of)} for uri, of in nodes]
                self.one.remember(podm(blocks=blocks, nodes=shown))
                state = self.one.claims.show(self.claim.id).state
                self.assertEqual("SETTLED" if settled else "COMPOSED", state)
                self.assertEqual(not settled, bool(usage(self.one)))
