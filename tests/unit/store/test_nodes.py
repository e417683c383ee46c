# SPDX-License-Identifier: Apache-2.0
"""Composed nodes, and the end of claims and records."""

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, backdate, expire, part, podm
from tests.unit.store.test_claims import usage
from tests.unit.store.test_holds import nodes_of
from valence_sched.errors import InUse, UnknownName
from valence_sched.model.claim import Claim, ComposedNode
from valence_sched.model.inventory import Node
from valence_sched.model.need import NodeRequest
from valence_sched.model.registration import Registration
from valence_sched.store import claim_rows, tables
from valence_sched.store.holds import hold, lock
from valence_sched.store.tables import CHUNK, key_of, now

SOON_S = 5.0


@on_each_engine
class TestNodes:
    """Two nodes of one claim, and one of another pod manager."""

    def setUp(self):
        super().setUp()
        self.one.remember_all([podm("p"), podm("q")])
        self.both = self.composed(nodes_of(1, ("c0",), ("c1",)), ("n1", "/S/1"), ("n2", "/S/2"))
        self.other = self.composed(part("q", 1, "c0"), ("n0", "/S/1"), created_at=7.0)

    def composed(self, part_, *nodes, **words):
        claim = self.one.claims.create([part_])
        self.one.claims.start_composing(claim.id)
        self.one.claims.finish_composing(claim.id, [
            ComposedNode(id=f"{id_}-{number}", podm=part_.podm, uri=uri, claim=claim.id,
                         blocks=part_.shares[number - 1].blocks, **words)
            for number, (id_, uri) in enumerate(nodes, 1)
        ])  # fmt: skip
        return claim.id

    def ids(self, **words):
        return [node.id for node in self.one.nodes.list(**words)]

    def test_they_are_listed_by_pod_manager_and_by_claim(self):
        for words, found in (
            ({}, ["n0-1", "n1-1", "n2-2"]),
            ({"podm": "p"}, ["n1-1", "n2-2"]),
            ({"podm": "x"}, []),
            ({"claim": self.other}, ["n0-1"]),
            ({"claim": self.both, "podm": "q"}, []),
        ):
            with self.subTest(words):
                self.assertEqual(found, self.ids(**words))

    def test_the_newest_are_found_in_parts_with_how_many_there_are(self):
        def found(most=9, **words):
            newest, every = self.one.nodes.newest(most, **words)
            return [node.id for node in newest], every

        of = tables.claims.c
        for claim, values in (
            (self.both, {"created_at": 10.0}),
            (self.other, {"created_at": 20.0, "owner": "o"}),
        ):
            self.execute(sa.update(tables.claims).where(of.id == claim).values(values))
        self.assertEqual((["n0-1", "n1-1", "n2-2"], 3), found())
        self.assertEqual((["n1-1"], 3), found(1, skip=1))
        self.assertEqual((["n1-1", "n2-2"], 2), found(podm="p"))
        self.assertEqual((["n0-1"], 1), found(owner="o"))
        self.assertEqual(([], 0), found(owner="o", podm="p"))
        self.assertEqual(([], 0), found(podm="x"))
        forgotten = tables.nodes.c.id == "n0-1"
        self.execute(sa.update(tables.nodes).where(forgotten).values(claim_id="forgotten"))
        self.assertEqual((["n1-1", "n2-2", "n0-1"], 3), found())

    def test_one_is_shown_by_its_id_or_by_a_uri_that_only_it_has(self):
        for name, id_ in (("n0-1", "n0-1"), ("/S/2", "n2-2")):
            self.assertEqual(id_, self.one.nodes.show(name).id)
        for name in ("/S/1", "n9"):
            with self.assertRaisesRegex(UnknownName, f"^no node named {name!r} ") as caught:
                self.one.nodes.show(name)
        self.assertIn("n1-1", str(caught.exception))

    def test_the_time_of_composing_is_the_clock_of_the_database_unless_it_is_known(self):
        ((at,),) = self.execute(sa.select(now()))
        self.assertAlmostEqual(at, self.one.nodes.show("n1-1").created_at, delta=SOON_S)
        self.assertEqual(7.0, self.one.nodes.show("n0-1").created_at)

    def test_a_claim_is_released_with_its_last_node(self):
        self.one.nodes.forget("n1-1")
        self.assertEqual(["n0-1", "n2-2"], self.ids())
        self.assertEqual("COMPOSED", self.one.claims.show(self.both).state)
        self.assertEqual({"c0": 1, "c1": 1}, usage(self.one).blocks)
        self.one.nodes.forget("n2-2")
        ended = self.one.claims.show(self.both)
        self.assertEqual(("RELEASED", "its node is gone"), (ended.state, ended.note))
        self.assertFalse(usage(self.one))
        history = [(one.kind, one.words) for one in self.one.events(self.both)]
        self.assertEqual([("gone", "n1-1"), ("gone", "n2-2"), ("released", "its node is gone")],
                         history[-3:])  # fmt: skip

    def test_a_settled_claim_is_released_too(self):
        shown = [{"uri": "/S/1", "blocks": ["c0"]}]
        self.one.remember(podm("q", nodes=shown))
        self.assertEqual("SETTLED", self.one.claims.show(self.other).state)
        self.one.nodes.forget("n0-1")
        self.assertEqual("RELEASED", self.one.claims.show(self.other).state)

    def test_forgetting_one_that_is_not_known_changes_nothing(self):
        before = self.one.events(self.both)
        self.one.nodes.forget("n9")
        found = self.ids(), self.one.events(self.both)
        self.assertEqual((["n0-1", "n1-1", "n2-2"], before), found)


@on_each_engine
class TestUsage:
    """The holds of claims, as decisions count them."""

    def setUp(self):
        super().setUp()
        stock = {"uri": "m", "resource": "memory", "total": 10}
        self.one.remember_all([podm("p", stocks=[stock]), podm("q")])

    def test_it_is_by_name_and_only_where_there_is_any(self):
        self.one.claims.create([part("p", 1, "c0", m=1.5)])
        self.one.claims.create([part("p", 1, "c1", m=2)])
        found = self.one.usages(iter(["p", "q", "x"]))
        self.assertEqual(["p"], [*found])
        self.assertEqual(({"c0": 1, "c1": 1}, {"m": 3.5}), (found["p"].blocks, found["p"].amounts))
        self.assertEqual({}, self.one.usages(["q"]))

    def test_a_claim_whose_time_is_over_holds_nothing(self):
        expire(self, self.one.claims.create([part("p", 1, "c0")]))
        self.assertEqual({}, self.one.usages(["p"]))

    def test_the_nodes_to_be_of_an_owner_or_a_group_are_listed_in_order(self):
        self.one.claims.create([part("p", 1, "c0")])
        first = self.one.claims.create([part("p", 1, "c1"), part("q", 1, "c0")], owner="o")
        second = self.one.claims.create([part("p", 1, "c2")], group="g")
        backdate(self, first)
        found = self.one.usages(["p", "q"])
        owned = Node(uri=f"claim:{first.id}#1", owner="o", blocks=("c1",))
        grouped = Node(uri=f"claim:{second.id}#1", group="g", blocks=("c2",))
        self.assertEqual((owned, grouped), found["p"].nodes)
        self.assertEqual((Node(uri=f"claim:{first.id}#1", owner="o", blocks=("c0",)),),
                         found["q"].nodes)  # fmt: skip

    def test_the_nodes_to_be_tell_what_they_were_asked_for(self):
        one = part("p", 1, "c0")
        share = replace(one.shares[0], flavor="gold")
        request = NodeRequest(zone="z")
        self.one.claims.create([replace(one, shares=(share,), request=request)], owner="o")
        (node,) = self.one.usages(["p"])["p"].nodes
        self.assertEqual(("gold", request), (node.flavor, node.request))

    def test_those_of_one_moment_come_by_id(self):
        claims = [self.one.claims.create([part("p", 1, f"c{n}")], owner="o") for n in range(3)]
        claims.append(self.one.claims.create([part("q", 1, "c0")]))
        self.execute(sa.update(tables.claims).values(created_at=9.0))
        ids = sorted(claim.id for claim in claims)
        self.assertEqual(ids, [claim.id for claim in self.one.claims.list()])
        expected = sorted(f"claim:{claim.id}#1" for claim in claims[:3])
        self.assertEqual(expected, [node.uri for node in self.one.usages(["p"])["p"].nodes])
        of = tables.claims.c
        for later, id_ in enumerate(reversed(ids)):
            values = {"created_at": 9.0 + later}
            self.execute(sa.update(tables.claims).where(of.id == id_).values(values))
        found = [node.uri for node in self.one.usages(["p"])["p"].nodes]
        self.assertEqual(expected[::-1], found)

    def test_of_many_pod_managers_all_is_read_as_of_few(self):
        """More pod managers than one query can contain; the first and the last are in use."""
        names = sorted((f"p{n}" for n in range(CHUNK + 1)), key=key_of)
        self.one.remember_all([podm(name, 1) for name in names])
        used = {names[0], names[-1]}
        for name in used:
            self.one.claims.create([part(name, 1, "c0")])
        self.assertEqual(used, {*self.one.usages(names)})
        snapshot = self.one.snapshot()
        self.assertEqual(used, {change.id for change in snapshot.changes if change.usage})
        self.one.remember_all([podm(name, 1, zone="z") for name in names])
        changes = self.one.snapshot(snapshot.position).changes
        self.assertEqual(CHUNK + 1, len(changes))
        self.assertEqual(used, {change.id for change in changes if change.usage})

    def test_many_new_claims_are_added_to_what_was_known(self):
        """More claims than one query can contain."""
        self.one.remember(podm("many", CHUNK + 1))
        position = self.one.snapshot().position

        def create(connection):
            locked = lock(connection, part("many", 1))
            for number in range(CHUNK + 1):
                one = part("many", 1, f"c{number}")
                claim = Claim(id=f"x{number}", state="HELD", parts=(one,), created_at=locked.at,
                              expires_at=locked.at + 600)  # fmt: skip
                claim_rows.insert(connection, claim)
                hold(connection, claim.id, one, locked)

        self.one._write(create)
        (change,) = self.one.snapshot(position).changes
        self.assertTrue(change.incremental)
        self.assertEqual(CHUNK + 1, len(change.usage.blocks))

    def test_a_pod_manager_in_use_is_not_removed_and_says_by_what(self):
        self.one.register(Registration(name="p", url="https://p.invalid"))
        first = self.one.claims.create([part("p", 1, "c0")])
        stock = {"uri": "m", "resource": "memory", "total": 10}
        self.one.remember(podm("p", 9, stocks=[stock]))
        for claims, nodes in ((1, 0), (6, 0), (6, 1)):
            if claims > 1 and not nodes:
                for number in range(1, claims):
                    self.one.claims.create([part("p", 2, f"c{number}")])
            if nodes:
                self.one.claims.start_composing(first.id)
                node = ComposedNode(id="n", podm="p", uri="/n", claim=first.id, blocks=("c0",))
                self.one.claims.finish_composing(first.id, [node])
            ids = sorted(claim.id for claim in self.one.claims.list())
            more = f" and {claims - 3} more" if claims > 3 else ""
            words = f"{claims} claim{'s' * (claims > 1)} ({', '.join(ids[:3])}{more})"
            words += " and 1 node (n)" * nodes
            with self.assertRaises(InUse) as caught:
                self.one.unregister("p")
            self.assertEqual(f"pod manager 'p' still has {words}: run podm claim release and "
                             "podm node delete first", str(caught.exception))  # fmt: skip
        self.one.register(Registration(name="q", url="https://q.invalid"))
        self.one.unregister("q")
        self.assertEqual(["p"], [*self.one.load_podms()])


@on_each_engine
class TestHistory:
    """Events, the oldest first."""

    def setUp(self):
        super().setUp()
        self.one.remember_all([podm("p"), podm("q")])

    def test_the_creation_of_a_claim_comes_first(self):
        claim = self.one.claims.create([part("p", 1, "c0")], owner="me")
        self.one.claims.start_composing(claim.id)
        self.one.claims.fail(claim.id, "why")
        self.one.claims.create([part("p", 1, "c1")])
        (held, composing, failed) = self.one.events(claim.id)
        self.assertEqual(("held", "composing", "failed"),
                         (held.kind, composing.kind, failed.kind))  # fmt: skip
        self.assertEqual((claim.id, claim.created_at, "me"), (held.claim, held.at, held.words))
        self.assertEqual((claim.id, "why", None), (failed.claim, failed.words, failed.podm))

    def test_the_last_are_kept_and_those_of_a_claim_of_several_begin_with_prepared(self):
        claim = self.one.claims.create([part("p", 1, "c1"), part("q", 1, "c1")])
        self.assertEqual(["prepared", "held"], [one.kind for one in self.one.events(claim.id)])
        row = {"at": 1.0, "kind": "renewed", "claim_id": claim.id}
        self.execute(sa.insert(tables.events), [row] * (claim_rows.MOST_EVENTS - 1))
        found = [one.kind for one in self.one.events(claim.id)]
        self.assertEqual(["held", *["renewed"] * (claim_rows.MOST_EVENTS - 1)], found)

    def test_a_reading_that_settles_a_claim_is_named(self):
        claim = self.one.claims.create([part("p", 1, "c0")])
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=claim.id, blocks=("c0",))
        self.one.claims.finish_composing(claim.id, [node])
        self.one.remember(podm("p", nodes=[{"uri": "/S/1", "blocks": ["c0"]}]))
        found = [(one.kind, one.podm) for one in self.one.events(claim.id)]
        self.assertEqual([("accounted", "p"), ("settled", None)], found[-2:])

    def test_long_words_are_cut(self):
        if self.engine != "sqlite":
            self.skipTest("a server refuses a note of this length")
        claim = self.one.claims.create([part("p", 1, "c0")])
        self.one.claims.fail(claim.id, "x" * 2000)
        self.assertEqual("x" * 1024, self.one.events(claim.id)[-1].words)

    def test_an_unknown_claim_is_named_with_those_that_are_known(self):
        claim = self.one.claims.create([part("p", 1, "c0")])
        with self.assertRaisesRegex(UnknownName, "claim.*nobody") as caught:
            self.one.claims.show("nobody")
        self.assertIn(claim.id[:4], str(caught.exception))


DAY_S = 86400.0


@on_each_engine
class TestPurge:
    """By the clock of the database."""

    def setUp(self):
        super().setUp()
        self.generation = self.one.remember(podm(blocks=9))

    def create(self, block):
        return self.one.claims.create([part("p", self.generation, block)])

    def age(self):
        """Move all events two days into the past."""
        for column in (tables.claims.c.created_at, tables.events.c.at,
                       tables.decisions.c.decided_at):  # fmt: skip
            self.execute(sa.update(column.table).values({column: column - 2 * DAY_S}))

    def count(self, table):
        return self.execute(sa.select(sa.func.count()).select_from(table))[0][0]

    def test_what_ended_long_ago_goes_with_all_that_happened_to_it(self):
        released, active = self.create("c0"), self.create("c1")
        self.one.claims.release(released.id)
        self.one.decisions.save("d", DECISION)
        self.age()
        recent = self.create("c2")
        self.one.claims.release(recent.id)
        self.assertEqual((1, 1), self.one.purge(DAY_S, dry_run=True))
        self.assertEqual(3, self.count(tables.claims))
        self.assertEqual((1, 1), self.one.purge(DAY_S))
        self.assertEqual({active.id, recent.id}, {id_ for (id_,) in self.execute(
            sa.select(tables.claims.c.id))})  # fmt: skip
        self.assertEqual(["held", "released"], [one.kind for one in self.one.events(recent.id)])
        with self.assertRaises(UnknownName):
            self.one.decisions.get("d")
        self.assertEqual((0, 0), self.one.purge(DAY_S))

    def test_a_claim_that_ended_lately_stays_however_old_it_is(self):
        claim = self.create("c0")
        self.age()
        self.one.claims.release(claim.id)
        self.assertEqual((0, 0), self.one.purge(DAY_S))
        self.assertEqual("RELEASED", self.one.claims.show(claim.id).state)

    def test_a_claim_with_a_node_stays(self):
        claim = self.create("c0")
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="n", podm="p", uri="/n", claim=claim.id, blocks=("c0",))
        self.one.claims.finish_composing(claim.id, [node])
        self.age()
        self.assertEqual((0, 0), self.one.purge(DAY_S))

    def test_a_claim_that_still_holds_something_stays(self):
        claim = self.create("c0")
        ended = {"state": "EXPIRED", "sweep_at": None}
        self.execute(sa.update(tables.claims).where(tables.claims.c.id == claim.id).values(ended))
        self.age()
        for dry_run in (True, False):
            self.assertEqual((0, 0), self.one.purge(DAY_S, dry_run=dry_run))

    def test_an_old_event_stays_with_its_claim_and_goes_without(self):
        claim = self.create("c0")
        self.one.claims.start_composing(claim.id)
        row = {"at": 1.0, "kind": "released", "claim_id": "forgotten"}
        self.execute(sa.insert(tables.events).values(row))
        self.age()
        for dry_run in (True, False):
            self.assertEqual((0, 0), self.one.purge(DAY_S, dry_run=dry_run))
            self.assertEqual(2 if dry_run else 1, self.count(tables.events))
        self.assertEqual(["held", "composing"], [it.kind for it in self.one.events(claim.id)])

    def test_many_go_some_at_a_time(self):
        row = {"state": "EXPIRED", "content": "", "created_at": 1.0, "document": b"[]"}
        self.execute(sa.insert(tables.claims), [{"id": f"x{n}", **row} for n in range(1203)])
        before = self.one.counts.transactions
        self.assertEqual((1203, 0), self.one.purge(DAY_S))
        self.assertEqual(4, self.one.counts.transactions - before)
