# SPDX-License-Identifier: Apache-2.0
"""What an idempotency key stands for, and what a person is told of claims."""

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import expire, part, podm
from tests.unit.store.test_claims import usage
from valence_sched.errors import ClaimLost, NameTaken
from valence_sched.model.composition import ComposedNode


@on_each_engine
class TestKeys:
    """What a key stands for, as those find it who ask before they decide."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember_all([podm("p"), podm("q")])
        self.claims = self.one.claims

    def find(self, owner="o", key="k", content="asked"):
        return self.claims.find_by_key(owner, key, content)

    def test_the_claim_of_its_owner_and_of_nobody_else(self):
        claim = self.claims.create([part("p", 1, "c0")], owner="o", key="k", content="asked")
        self.assertEqual(claim, self.find())
        for words in ({"owner": None}, {"owner": "x"}, {"key": "x"}):
            self.assertIsNone(self.find(**words))
        line = f"key 'k' stands for claim {claim.id}, which asked for something else"
        with self.assertRaisesRegex(NameTaken, f"^{line}: choose another key$"):
            self.find(content="else")

    def test_without_an_owner_too(self):
        claim = self.claims.create([part("p", 1, "c0")], key="k", content="asked")
        self.assertEqual(claim, self.find(owner=None))

    def test_one_whose_time_is_over_is_ended_by_asking(self):
        claim = self.claims.create([part("p", 1, "c0")], owner="o", key="k", content="asked")
        expire(self, claim)
        self.assertIsNone(self.find(content="else"))
        self.assertEqual("EXPIRED", self.claims.show(claim.id).state)

    def test_one_of_several_pod_managers_is_given_again_and_holds_nothing_more(self):
        def create(block):
            parts = [part("p", 1, block), part("q", 1, block)]
            return self.claims.create(parts, owner="o", key="k", content="asked")

        self.assertEqual(create("c0"), create("c1"))
        for name in ("p", "q"):
            self.assertEqual({"c0": 1}, usage(self.one, name).blocks)

    def test_one_that_is_being_prepared_is_waited_for(self):
        self.claims._abort = lambda _id: None
        add = self.claims._write_expiring

        def killed(work, *words):
            if self.claims.list():
                raise KeyboardInterrupt
            return add(work, *words)

        self.claims._write_expiring = killed
        parts = [part("p", 1, "c0"), part("q", 1, "c0")]
        with self.assertRaises(KeyboardInterrupt):
            self.claims.create(parts, owner="o", key="k", content="asked")
        (claim,) = self.claims.list()
        with self.assertRaisesRegex(ClaimLost, "of the same key is being prepared$") as caught:
            self.find()
        self.assertEqual(("", claim.id), (caught.exception.podm, caught.exception.claim))


class TestEffects(StoreCase):
    """What a person is told of claims that a command changed, if it ends before it says so."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm("p"))

    def create(self, **words):
        return self.one.claims.create([part("p", 1, "c0")], **words)

    def lines(self):
        return self.one.effects.unnamed_lines()

    def test_a_claim_that_is_held(self):
        claim = self.create(key="k")
        next_ = f"podm claim compose {claim.id} composes it, podm claim release {claim.id} ends it"
        expected = [f"claim {claim.id} is HELD: {next_}"]
        self.assertEqual(expected, self.lines())
        self.create(key="k")
        self.assertEqual(expected, self.lines())

    def test_one_that_may_be_held(self):
        def interrupt(_connection):
            raise KeyboardInterrupt

        sa.event.listen(self.one._database.writer, "commit", interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.create()
        (line,) = self.lines()
        self.assertRegex(line, r"^claim (\w{16}) may be held: podm claim show \1 has its state$")

    def test_one_that_was_given_up(self):
        claim = self.create()
        self.one.claims.fail(claim.id, "why")
        self.assertEqual([], self.lines())

    def test_a_node_that_was_composed_in_place_of_its_claim(self):
        claim = self.create()
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="n1", podm="p", uri="/S/1", claim=claim.id, blocks=("c0",))
        self.one.claims.finish_composing(claim.id, [node])
        self.assertEqual([f"node n1 is composed on p: /S/1, claim {claim.id}"], self.lines())


class TestStuckSweep(StoreCase):
    """An expired claim that cannot be ended, as where the database refuses it."""

    def test_it_is_tried_some_times_and_then_said(self):
        one = self.store()
        one.remember(podm("p"))
        expire(self, one.claims.create([part("p", 1, "c0")]))
        for table in ("claims", "claim_parts", "claimed_blocks"):
            for step in ("UPDATE", "DELETE"):
                self.execute(sa.text(f"CREATE TRIGGER no_{step}_{table} BEFORE {step} ON {table} "
                                     "BEGIN SELECT RAISE(IGNORE); END"))  # fmt: skip
        line = "^claims whose time is over could not be swept away: run claim reap$"
        with self.assertRaisesRegex(ClaimLost, line):
            one.claims.create([part("p", 1, "c0")])
