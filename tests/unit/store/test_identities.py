# SPDX-License-Identifier: Apache-2.0
"""One name for each service and one service for each name, on every engine."""

import contextlib
import threading

from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import part, podm
from valence_sched.errors import IdentityConflict
from valence_sched.model.registration import Registration
from valence_sched.store.maintenance import Maintenance

U, V = "uuid:11111111-2222-4333-8444-555555555555", "uuid:99999999-2222-4333-8444-555555555555"
HERE, THERE = "address:127.0.0.1:8000", "address:127.0.0.2:8000"


def named(name, identity, *uris):
    """Return a pod manager with an identity, of two blocks, or of these."""
    one = podm(name, 2, identity=identity)
    blocks = [replace(one.blocks[0], uri=uri) for uri in uris]
    return replace(one, blocks=tuple(blocks)) if uris else one


@on_each_engine
class TestIdentities:
    """What is stored, refused and learnt of identities."""

    def setUp(self):
        super().setUp()
        self.one = self.store()

    def register(self, name, identity=None):
        self.one.register(Registration(name=name, url=f"http://{name}", identity=identity))

    def kept(self, *names):
        """Return the names that are stored, of pod managers read in this order."""
        return [name for name, one in zip(names, self.one.upsert_all(
            [named(name, U) for name in names]), strict=True)
            if not isinstance(one, IdentityConflict)]  # fmt: skip

    def test_one_service_is_stored_under_one_name_whoever_comes_second(self):
        self.assertEqual(["a"], self.kept("a", "b"))
        self.register("a")
        self.assertEqual(["a"], self.kept("b", "a"))
        with self.assertRaisesRegex(
            IdentityConflict, "'b' is the same service as 'a'.*podm delete"
        ):
            self.one.remember(named("b", U))
        with self.assertRaisesRegex(IdentityConflict, "'c' is the same service as 'a'"):
            self.register("c", U)
        self.assertEqual({"a": U}, self.one.identities())

    def test_a_name_that_is_neither_registered_nor_in_use_can_change(self):
        self.one.remember(named("a", U))
        self.one.remember(named("b", U))
        claim = self.one.claims.create([part("b", 1, "c0")])
        with self.assertRaisesRegex(IdentityConflict, "'a' is the same service as 'b'"):
            self.one.remember(named("a", U))
        self.one.claims.release(claim.id)
        self.one.remember(named("a", U))
        self.assertEqual({"a": U}, self.one.identities())

    def test_another_service_is_not_stored_under_a_name_and_is_once_it_is_accepted(self):
        for known, found, refused in (
            (named("a", U), named("a", U), False),
            (named("a", U), named("a", V), True),
            (named("a", U), named("a", HERE), True),
            (named("a", U), named("a", None), False),
            (named("a", None), named("a", U), False),
            (named("a", HERE), named("a", U), False),
            (named("a", HERE), named("a", THERE), True),
            (named("a", HERE, "x", "y"), named("a", HERE, "y", "z"), False),
            (named("a", HERE, "x", "y"), named("a", HERE, "z"), True),
            (named("a", HERE, "x"), named("a", U, "z"), True),
            (named("a", U, "x"), named("a", U, "z"), False),
        ):
            with self.subTest(known=known.identity, found=found.identity, blocks=found.blocks):
                self.register("a")
                self.one.remember(known)
                before = self.one.load_podms()["a"]
                expected = (
                    self.assertRaisesRegex(IdentityConflict, "another service.*unset a --identity")
                    if refused else contextlib.nullcontext()
                )  # fmt: skip
                with expected:
                    self.one.remember(found)
                if refused:
                    self.assertEqual(before, self.one.load_podms()["a"])
                    self.one.change(Registration(name="a", url="http://a"))
                    self.one.remember(found)
                (registered,) = self.one.registrations()
                self.assertEqual(found.identity or known.identity, registered.identity)
                self.one.unregister("a")

    def test_an_identity_that_was_registered_counts_before_anything_is_read(self):
        self.register("a", U)
        with self.assertRaisesRegex(IdentityConflict, f"was {U} and is now {V}"):
            self.one.remember(named("a", V))
        with self.assertRaisesRegex(IdentityConflict, "'b' is the same service as 'a'"):
            self.one.remember(named("b", U))
        self.one.unregister("a")
        self.one.remember(named("b", U))

    def test_of_many_in_one_batch_only_those_that_conflict_are_left_out(self):
        self.register("p3", V)
        every = [named(f"p{number}", f"uuid:{number}") for number in range(120)]
        before = self.one.counts.transactions
        results = self.one.upsert_all([*every, named("twice", "uuid:7")])
        self.assertLess(self.one.counts.transactions - before, 8)
        refused = [str(one) for one in results if isinstance(one, IdentityConflict)]
        self.assertEqual(2, len(refused), refused)
        self.assertEqual(119, len(self.one.load_podms()))

    def test_two_that_read_one_service_at_once_store_it_once(self):
        stores, outcomes = [self.store() for _ in range(4)], []
        barrier = threading.Barrier(len(stores))

        def read(number):
            barrier.wait()
            outcomes.extend(stores[number].upsert_all([named(f"n{number}", U)]))

        threads = [threading.Thread(target=read, args=(n,)) for n in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(self.one.identities()), outcomes)

    def test_a_store_of_before_is_upgraded_and_learns(self):
        self.register("a")
        self.one.remember(named("a", None))
        with Maintenance(self.url) as older:
            older.downgrade("0001")
        again = self.store()
        again.remember(named("a", U))
        self.assertEqual({"a": U}, again.identities())
        self.assertEqual(U, again.registrations()[0].identity)
        with self.assertRaises(IdentityConflict):
            again.remember(named("b", U))
