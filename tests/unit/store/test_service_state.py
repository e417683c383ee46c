# SPDX-License-Identifier: Apache-2.0
"""Shared data of the processes of a service: records, leases and the audit."""

import threading
from functools import partial
from unittest import mock

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from valence_sched.model.diagnostic import AuditLine, AuditQuery
from valence_sched.store import service_state, tables
from valence_sched.store.snapshot import LogPosition


@on_each_engine
class TestRecords:
    def test_the_first_of_an_id_stays(self):
        one, other = self.store().records, self.store().records
        self.assertEqual(b"a", one.put_new("x", b"a"))
        self.assertEqual(b"a", other.put_new("x", b"b"))
        document, age_s = other.get("x")
        self.assertEqual(b"a", document)
        self.assertLess(age_s, 3600)
        self.assertIsNone(other.get("y"))

    def test_a_record_is_replaced_where_it_is(self):
        records = self.store().records
        records.replace("x", b"b")
        self.assertIsNone(records.get("x"))
        records.put_new("x", b"a")
        records.replace("x", b"b" * 100_000)
        self.assertEqual(b"b" * 100_000, records.get("x")[0])

    def test_words_are_a_set_until_they_are_taken(self):
        one, other = self.store().records, self.store().records
        self.assertEqual([], one.take_words("w"))
        for word in (b"a", b"b", b"a", b"ab"):
            one.add_word("w", word)
        other.add_word("v", b"c")
        self.assertEqual([b"a", b"b", b"ab"], other.take_words("w"))
        self.assertEqual([], one.take_words("w"))
        self.assertEqual([b"c"], one.take_words("v"))

    def test_no_word_is_lost_where_several_add_and_one_takes(self):
        words = [b"%d-%d" % (adder, number) for adder in range(3) for number in range(10)]

        def add(adder):
            records = self.store().records
            for word in words[adder * 10 : adder * 10 + 10]:
                records.add_word("w", word)

        threads = [threading.Thread(target=add, args=(adder,)) for adder in range(3)]
        for thread in threads:
            thread.start()
        taken, records = [], self.store().records
        while any(thread.is_alive() for thread in threads):
            taken += records.take_words("w")
        taken += records.take_words("w")
        self.assertEqual(sorted(words), sorted(taken))

    def test_old_records_are_purged(self):
        for name in ("old", "new"):
            self.one.records.put_new(name, b"a")
        old = sa.update(tables.records).where(tables.records.c.id == "old")
        self.execute(old.values(at=tables.records.c.at - 7200))
        self.assertGreater(self.one.records.get("old")[1], 7000)
        self.one.purge(3600)
        self.assertIsNone(self.one.records.get("old"))
        self.assertIsNotNone(self.one.records.get("new"))

    def test_the_log_counts_move_with_what_is_decided_on(self):
        before = self.one.snapshot().position, self.one.log_totals()
        self.one.records.put_new("x", b"a")
        self.assertEqual(before, (self.one.snapshot().position, self.one.log_totals()))
        self.one.update_stats("p", {"load": 1})
        self.assertNotEqual(before[0], self.one.snapshot().position)
        self.assertNotEqual(before[1], self.one.log_totals())
        counts = self.one.snapshot().position.shards
        totals = sum(counts.values()), sum(moved * (shard + 2) for shard, moved in counts.items())
        self.assertEqual((*totals, 0), self.one.log_totals())
        self.assertTrue(LogPosition(counts).is_at(self.one.log_totals()))
        self.assertFalse(LogPosition().is_at(self.store().log_totals()))


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
        self.other.release(NAME, "b")
        self.assertEqual("a", self.other.holder(NAME))
        self.one.release(NAME, "a")
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
        self.one.release("else", "a")
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


LINE = partial(AuditLine, user="ann", request_id="r", verb="claims:create", outcome="done")


@on_each_engine
class TestAudit:
    def objects(self, **words):
        return [line.object for line in self.store().audit.newest(AuditQuery(**words))]

    def test_the_oldest_lines_go(self):
        audit = self.store().audit
        for begin in range(0, 400, 100):
            audit.add([LINE(object=str(begin + one)) for one in range(100)], most=200)
        found = self.objects(limit=1000)
        self.assertEqual([str(399 - one) for one in range(len(found))], found)
        self.assertIn(len(found), range(200, 300))  # they are deleted in hundreds

    def test_a_database_that_numbers_lines_in_steps_deletes_some_too(self):
        for step in range(2, 11):
            numbers = range(7, 7 + step * (service_state.TRIM + 1), step)
            self.assertTrue(any(number % service_state.TRIM == 0 for number in numbers), step)

    @mock.patch.object(service_state, "TRIM", 1)
    def test_commands_and_gaps_between_numbers_delete_no_line_that_is_kept(self):
        audit = self.store().audit
        audit.add([LINE(object=one) for one in "abc"])
        number = tables.audit.c.number
        self.execute(sa.update(tables.audit).values(number=number * 1000 - 10_000))
        audit.add([LINE(object="d")])
        self.assertEqual([*"dcba"], self.objects())
        audit.add([LINE(object="e")], most=3)
        self.assertEqual([*"edc"], self.objects())

    def test_long_texts_are_cut_and_all_others_are_as_they_were(self):
        audit = self.store().audit
        for text in ("u" * 5000, "\N{GRINNING FACE}" * 2000, "a'\"%\\_?: b", ""):
            audit.add([LINE(user=text, object=text, owner=text)])
            (line,) = audit.newest(AuditQuery(limit=1))
            self.assertEqual([text[:1024]] * 2, [line.user, line.owner])
            self.assertTrue(text.startswith(line.object))

    def test_lines_are_found_by_each_of_their_texts(self):
        audit = self.store().audit
        audit.add([LINE(object="a"), LINE(object="b", owner="red"), LINE(object="c", verb="v")])
        audit.add([LINE(object="d", user="mo"), LINE(object="e", outcome="accepted")])
        for words, found in (
            ({}, "edcba"), ({"user": "ann"}, "ecba"), ({"owner": "red"}, "b"), ({"verb": "v"}, "c"),
            ({"object": "a"}, "a"), ({"outcome": "accepted"}, "e"), ({"limit": 2}, "ed"),
            ({"limit": 2, "skip": 1}, "dc"), ({"skip": 2**53}, ""), ({"user": "ann'"}, ""),
            ({"user": "ANN"}, ""), ({"user": "an%"}, ""),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(list(found), self.objects(**words))

    def test_processes_add_lines_at_the_same_time(self):
        stores = [self.store() for _ in range(4)]

        def add(store, number):
            for one in range(25):
                store.audit.add([LINE(object=f"{number}-{one}")], most=1000)

        threads = [threading.Thread(target=add, args=(store, number))
                   for number, store in enumerate(stores)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = self.objects(limit=1000)
        self.assertEqual((100, 100), (len(found), len({*found})))
