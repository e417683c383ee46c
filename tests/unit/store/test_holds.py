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
from valence_sched.store.holds import SLACK


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

    def refused(self, part_, words, claim=""):
        with self.assertRaisesRegex(ClaimLost, words) as caught:
            self.one.claims.create([part_])
        self.assertEqual(part_.podm, caught.exception.podm)
        if claim:
            self.assertEqual(claim, caught.exception.claim)

    def create_at(self, created_at, part_):
        """Return a claim that was created at a time."""
        claim = self.one.claims.create([part_])
        table = tables.claims
        self.execute(sa.update(table).where(table.c.id == claim.id).values(created_at=created_at))
        return claim.id

    def test_a_generation_that_has_not_come_yet_is_refused_like_one_that_is_over(self):
        generation = self.one.remember(podm())
        for other in (generation - 1, generation + 1):
            self.refused(part("p", other, "c0"), f"from generation {other} to {generation} since")
        self.assertEqual("HELD", self.one.claims.create([part("p", generation, "c0")]).state)

    def test_nothing_is_held_of_a_pod_manager_that_is_gone(self):
        generation = self.one.remember(podm())
        self.execute(sa.update(tables.podms).values(gone=True))
        self.refused(part("p", generation, "c0"), "^pod manager 'p' is no longer here$")
        self.refused(part("never", 1, "c0"), "^pod manager 'never' is no longer here$")

    def test_an_amount_may_pass_what_is_left_by_rounding_and_no_more(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 1}
        generation = self.one.remember(podm(stocks=[stock]))
        for amount in (9 + 2e-6, 9.001, 10):
            self.refused(part("p", generation, m=amount), "stock m of pod manager 'p' has 9 left")
        self.one.claims.create([part("p", generation, m=9 + 5e-7)])
        self.refused(part("p", generation, m=2e-6), "has 0 left")

    def test_of_a_stock_that_is_used_up_the_rounding_alone_may_be_held(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 10}
        generation = self.one.remember(podm(stocks=[stock]))
        self.one.claims.create([part("p", generation, m=SLACK)])

    def test_nothing_is_left_of_a_stock_that_is_not_known(self):
        generation = self.one.remember(podm())
        self.refused(part("p", generation, x=0.5), "stock x of .* has 0 left, 0.5 were chosen$")

    def test_stocks_are_counted_each_by_itself_and_by_pod_manager(self):
        for name, total in (("p", 10), ("q", 100), ("r", 1)):
            stocks = [{"uri": uri, "resource": "memory", "total": total} for uri in ("m", "n")]
            self.one.remember(podm(name, stocks=stocks))
        first = self.one.claims.create([part("p", 1, m=7, n=2)])
        self.one.claims.create([part("q", 1, m=90)])
        self.refused(part("q", 1, m=11), "stock m of pod manager 'q' has 10 left")
        self.refused(part("r", 1, m=2), "stock m of pod manager 'r' has 1 left")
        self.refused(part("p", 1, n=9), "stock n of pod manager 'p' has 8 left", first.id)
        self.refused(part("p", 1, m=4, n=1), "stock m of pod manager 'p' has 3 left", first.id)
        self.one.claims.create([part("p", 1, m=3, n=8)])
        self.assertEqual({"m": 10.0, "n": 10.0}, usage(self.one).amounts)

    def test_the_latest_of_those_that_hold_is_named(self):
        stock = {"uri": "m", "resource": "memory", "total": 10}
        generation = self.one.remember(podm(blocks=[SHARED], stocks=[stock]))
        for words, wanted in (({}, ["s"]), ({"m": 5}, [])):
            for times in ((1.0, 2.0), (2.0, 1.0)):
                both = [self.create_at(at, part("p", generation, *wanted, **words)) for at in times]
                latest = both[times.index(2.0)]
                with self.subTest(words=words, times=times):
                    self.refused(part("p", generation, *wanted, **words),
                                 f"claim {latest}$", latest)  # fmt: skip
                for claim in both:
                    self.one.claims.release(claim)

    def test_a_block_is_shared_only_where_its_own_pod_manager_shares_it(self):
        for name, blocks in (("p", [{"uri": "s"}]), ("q", [SHARED]), ("r", [{"uri": "s"}])):
            self.one.remember(podm(name, blocks))
        for name in ("p", "r"):
            claim = self.one.claims.create([part(name, 1, "s")])
            self.refused(part(name, 1, "s"), f"block s of pod manager '{name}' is held", claim.id)
        for _ in range(2):
            self.one.claims.create([part("q", 1, "s")])

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

    def test_a_claim_of_several_pod_managers_is_settled_by_the_last_of_them(self):
        for name in ("x", "y"):
            self.one.remember(podm(name))
        claim = self.one.claims.create([part("x", 1, "c0"), part("y", 1, "c0")])
        self.one.claims.start_composing(claim.id)
        self.one.claims.finish_composing(claim.id, [
            ComposedNode(id=f"{name}-1", podm=name, uri=f"/{name}", claim=claim.id, blocks=("c0",))
            for name in ("x", "y")
        ])  # fmt: skip
        for name, state in (("x", "COMPOSED"), ("y", "SETTLED")):
            self.one.remember(podm(name, nodes=[{"uri": f"/{name}", "blocks": ["c0"]}]))
            self.assertEqual(state, self.one.claims.show(claim.id).state)
            self.assertFalse(usage(self.one, name))
        self.assertEqual("COMPOSED", self.one.claims.show(self.claim.id).state)

    def test_one_claim_is_settled_beside_another_that_is_not(self):
        self.one.remember(podm("x"))
        claims = [self.one.claims.create([part("x", 1, f"c{n}")]) for n in (0, 1)]
        for number, claim in enumerate(claims):
            self.one.claims.start_composing(claim.id)
            node = ComposedNode(id=f"m-{number}", podm="x", uri=f"/S/{number}", claim=claim.id,
                                blocks=(f"c{number}",))  # fmt: skip
            self.one.claims.finish_composing(claim.id, [node])
        self.one.remember(podm("x", nodes=[{"uri": "/S/1", "blocks": ["c1"]}]))
        states = [self.one.claims.show(claim.id).state for claim in claims]
        self.assertEqual(["COMPOSED", "SETTLED"], states)
        self.assertEqual({"c0": 1}, usage(self.one, "x").blocks)
