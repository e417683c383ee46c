# SPDX-License-Identifier: Apache-2.0
"""Leases: one holder at a time, by the clock of the database."""

import threading

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from valence_sched.store import tables

NAME, TTL_S = "reader", 60.0


@on_each_engine
class TestLeases:
    """Two processes want one lease."""

    def setUp(self):
        super().setUp()
        self.one, self.other = self.store().leases, self.store().leases

    def end_all(self):
        self.execute(sa.update(tables.leases).values(expires_at=1.0))

    def test_one_has_it_until_it_gives_it_up(self):
        self.assertIsNone(self.one.holder(NAME))
        self.assertTrue(self.one.acquire(NAME, "a", TTL_S))
        self.assertFalse(self.other.acquire(NAME, "b", TTL_S))
        self.assertEqual("a", self.other.holder(NAME))
        self.other.give_up(NAME, "b")
        self.assertEqual("a", self.other.holder(NAME))
        self.one.give_up(NAME, "a")
        self.assertIsNone(self.other.holder(NAME))
        self.assertTrue(self.other.acquire(NAME, "b", TTL_S))

    def test_a_name_is_a_lease_of_its_own(self):
        self.one.acquire(NAME, "a", TTL_S)
        self.assertTrue(self.other.acquire("else", "b", TTL_S))
        self.assertEqual(("a", "b"), (self.one.holder(NAME), self.one.holder("else")))

    def test_who_has_it_may_take_it_again_and_renew_it(self):
        for take in (self.one.acquire, self.one.renew, self.one.acquire):
            if take == self.one.renew:
                before = self.ends()
            self.assertTrue(take(NAME, "a", TTL_S))
        self.assertTrue(self.one.renew(NAME, "a", 2 * TTL_S))
        self.assertGreater(self.ends(), before + TTL_S / 2)
        self.assertFalse(self.other.renew(NAME, "b", TTL_S))

    def test_a_lease_ends_when_its_time_is_over_however_it_was_taken(self):
        self.one.acquire(NAME, "a", TTL_S)
        for holder, take in (("a", self.one.acquire), ("a", self.one.renew),
                             ("b", self.other.acquire)):  # fmt: skip
            for ttl_s in (7200.0, 10.0):
                with self.subTest(take.__name__, holder=holder, ttl_s=ttl_s):
                    if holder == "b":
                        self.end_all()
                    self.assertTrue(take(NAME, holder, ttl_s))
                    ((now,),) = self.execute(sa.select(tables.now()))
                    self.assertAlmostEqual(ttl_s, self.ends() - now, delta=5.0)
                    self.assertEqual(holder, self.one.holder(NAME))

    def test_what_is_done_with_one_lease_is_not_done_with_another(self):
        for name in (NAME, "else"):
            self.one.acquire(name, "a", TTL_S)
        self.one.renew("else", "a", 7200.0)
        self.assertLess(self.ends(), self.ends("else") - 3600)
        self.one.give_up("else", "a")
        self.assertEqual(("a", None), (self.one.holder(NAME), self.one.holder("else")))
        self.assertTrue(self.other.acquire("else", "b", TTL_S))
        self.assertEqual(("a", "b"), (self.one.holder(NAME), self.one.holder("else")))

    def ends(self, name=NAME):
        of = tables.leases.c
        return self.execute(sa.select(of.expires_at).where(of.name == name))[0][0]

    def test_the_lease_of_a_holder_that_died_goes_to_the_next(self):
        self.one.acquire(NAME, "a", TTL_S)
        self.end_all()
        self.assertIsNone(self.one.holder(NAME))
        self.assertFalse(self.one.renew(NAME, "a", TTL_S), "it ended: the holder must not go on")
        self.assertTrue(self.other.acquire(NAME, "b", TTL_S))
        self.assertFalse(self.one.acquire(NAME, "a", TTL_S))
        self.assertFalse(self.one.renew(NAME, "a", TTL_S))

    def test_of_many_at_once_one_gets_it(self):
        stores = [self.store() for _ in range(4)]
        for round_ in range(3):
            got, barrier = [], threading.Barrier(len(stores))

            def take(number, barrier=barrier, got=got):
                barrier.wait()
                if stores[number].leases.acquire(NAME, str(number), TTL_S):
                    got.append(number)

            threads = [threading.Thread(target=take, args=(n,)) for n in range(len(stores))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with self.subTest(round_):
                self.assertEqual([self.one.holder(NAME)], [str(number) for number in got])
            self.end_all()
