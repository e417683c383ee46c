# SPDX-License-Identifier: Apache-2.0
"""Holds of blocks and amounts, and their changes of the claim."""

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import expire, part, podm
from tests.unit.store.test_claims import SHARED, usage
from valence_sched.errors import ClaimLost, ClaimState, NameTaken
from valence_sched.model.claim import ClaimPart, ComposedNode, Grant, NodeAllocation
from valence_sched.model.diagnostic import held_state
from valence_sched.store import tables
from valence_sched.store.holds import SLACK


def nodes_of(generation, *blocks):
    """Return a part of several nodes, with one list of blocks each."""
    shares = tuple(NodeAllocation(node=number, pool="all", blocks=tuple(each))
                   for number, each in enumerate(blocks, 1))  # fmt: skip
    return ClaimPart(podm="p", generation=generation, shares=shares)


@on_each_engine
class TestHolds:
    """The pod managers, the blocks and the amounts of holds."""

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
        self.refused(part("p", generation, "c0"), "^pod manager 'p' is no longer registered$")
        self.refused(part("never", 1, "c0"), "^pod manager 'never' is no longer registered$")

    def test_an_amount_may_pass_what_is_left_by_rounding_and_no_more(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 1}
        generation = self.one.remember(podm(stocks=[stock]))
        for amount in (9 + 2e-6, 9.001, 10):
            self.refused(part("p", generation, m=amount), "stock m of pod manager 'p' has 9 free")
        self.one.claims.create([part("p", generation, m=9 + 5e-7)])
        self.refused(part("p", generation, m=2e-6), "has 0 free")

    def test_of_a_stock_that_is_used_up_the_rounding_alone_may_be_held(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 10}
        generation = self.one.remember(podm(stocks=[stock]))
        self.one.claims.create([part("p", generation, m=SLACK)])

    def test_nothing_is_left_of_a_stock_that_is_not_known(self):
        generation = self.one.remember(podm())
        self.refused(
            part("p", generation, x=0.5), "stock x of .* has 0 free, but the decision needs 0.5$"
        )

    def test_stocks_are_counted_each_by_itself_and_by_pod_manager(self):
        for name, total in (("p", 10), ("q", 100), ("r", 1)):
            stocks = [{"uri": uri, "resource": "memory", "total": total} for uri in ("m", "n")]
            self.one.remember(podm(name, stocks=stocks))
        first = self.one.claims.create([part("p", 1, m=7, n=2)])
        self.one.claims.create([part("q", 1, m=90)])
        self.refused(part("q", 1, m=11), "stock m of pod manager 'q' has 10 free")
        self.refused(part("r", 1, m=2), "stock m of pod manager 'r' has 1 free")
        self.refused(part("p", 1, n=9), "stock n of pod manager 'p' has 8 free", first.id)
        self.refused(part("p", 1, m=4, n=1), "stock m of pod manager 'p' has 3 free", first.id)
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
                                 rf"claim {latest}\)?$", latest)  # fmt: skip
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
        self.refused(nodes_of(generation, "s", "s", "s", "s"), "block s .* cannot be part of")
        two = self.one.claims.create([nodes_of(generation, "s", "s")])
        self.assertEqual({"s": 2}, usage(self.one).blocks)
        self.refused(nodes_of(generation, "s", "s"), f"block s .* is held by claim {two.id}")
        self.one.claims.create([nodes_of(generation, "s")])
        self.refused(nodes_of(generation, "s"), "block s .* is held by claim")
        self.one.claims.release(two.id)
        self.one.claims.create([nodes_of(generation, "s", "s")])
        self.refused(nodes_of(generation, "c", "c"), "block c .* cannot be part of another node")


@on_each_engine
class TestTime:
    """No step of a claim is possible after its expiry."""

    def setUp(self):
        super().setUp()
        self.generation = self.one.remember(podm())

    def test_one_whose_time_is_over_is_composed_no_more(self):
        claim = self.one.claims.create([part("p", self.generation, "c0")])
        expire(self, claim)
        with self.assertRaisesRegex(ClaimState, "only a held claim can be composed"):
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
        """Prepare step by step; after both pod managers are held, let the claim expire."""
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
    """A claim settles with the reading that shows all its nodes, with all their blocks."""

    FREE, USED = {"state": "Unused", "health": "OK"}, {"state": "Composed"}

    def setUp(self):
        super().setUp()
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
                self.assertEqual(not settled, bool(usage(self.one).blocks))

    def test_a_host_stays_held_for_the_life_of_its_node_and_is_free_at_once(self):
        """Readings show a host that is free, or in use while hosts are unmanaged."""
        self.one.remember(podm("x", blocks=[{"uri": "/S/1"}]))
        claim = self.one.claims.create([part("x", 1, "/S/1")])
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="h-1", podm="x", uri="/S/1", claim=claim.id, blocks=("/S/1",))
        self.one.claims.finish_composing(claim.id, [node])
        shown = [{"uri": "/S/1", "blocks": ["/S/1"]}]
        for status, nodes in ((self.FREE, []), (self.USED, shown), (self.FREE, [])):
            for _ in range(2):
                self.one.remember(
                    podm("x", blocks=[{"uri": "/S/1", "status": status}], nodes=nodes)
                )
                self.assertEqual("COMPOSED", self.one.claims.show(claim.id).state)
                self.assertEqual({"/S/1": 1}, usage(self.one, "x").blocks)
        generation = self.one.load_podms()["x"].generation
        with self.assertRaises(ClaimLost):
            self.one.claims.create([part("x", generation, "/S/1")])
        self.one.nodes.forget("h-1")
        self.assertFalse(usage(self.one, "x"))
        self.assertEqual("HELD", self.one.claims.create([part("x", generation, "/S/1")]).state)

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
            self.assertFalse(usage(self.one, name).blocks)
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


STOCK = {"uri": "m", "resource": "memory", "total": 10}


def share(number, *blocks, **amounts):
    grants = tuple(Grant(uri, amount) for uri, amount in amounts.items())
    return NodeAllocation(node=number, pool="all", blocks=blocks, grants=grants)


@on_each_engine
class TestSplit:
    """A held claim of several nodes becomes claims of one node each."""

    def setUp(self):
        super().setUp()
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
        self.assertEqual(("RELEASED", "split into one claim per node"), (ended.state, ended.note))
        self.assertIsNone(self.one.claims.find_by_key("o", "k", "another"))
        self.one.claims.release(self.claim.id)
        self.assertEqual({"s": 2, "c1": 1, "c2": 1}, usage(self.one).blocks)

    def test_the_key_of_a_node_may_belong_to_another_claim(self):
        other = self.one.claims.create([part("q", 1, "c1")], owner="o", key="k#2")
        with self.assertRaisesRegex(NameTaken, f"the key 'k#2' .* belongs to claim {other.id}"):
            self.one.claims.split(self.claim.id)
        self.assertEqual("HELD", self.one.claims.show(self.claim.id).state)

    def test_without_a_key_there_are_none(self):
        claim = self.one.claims.create([part("q", 1, "c1")])
        self.assertEqual([None], [one.key for one in self.one.claims.split(claim.id)])

    def test_once_more_gives_the_same_claims(self):
        singles = self.one.claims.split(self.claim.id)
        self.assertEqual(singles, self.one.claims.split(self.claim.id))

    def test_only_what_is_held_in_time_is_split(self):
        expire(self, self.claim)
        with self.assertRaisesRegex(ClaimState, "only a held claim can be split"):
            self.one.claims.split(self.claim.id)
        other = self.one.claims.create([part("q", 1, "c1")])
        self.one.claims.start_composing(other.id)
        with self.assertRaisesRegex(ClaimState, "is COMPOSING: only a held claim can be split"):
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
    """A claim holds the blocks that a pod manager used instead of the planned ones."""

    def setUp(self):
        super().setUp()
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
        self.assertEqual(
            ["composed from 3 blocks, not from the planned blocks"], self.swapped(claim)
        )
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
        self.assertEqual(
            ["composed from 2 blocks, not from the planned blocks"], self.swapped(claim)
        )
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
