# SPDX-License-Identifier: Apache-2.0
"""Records: what the processes of a service share."""

import threading

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from valence_sched.store import tables
from valence_sched.store.snapshot import LogPosition


@on_each_engine
class TestRecords(StoreCase):
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
        store = self.store()
        for name in ("old", "new"):
            store.records.put_new(name, b"a")
        old = sa.update(tables.records).where(tables.records.c.id == "old")
        self.execute(old.values(at=tables.records.c.at - 7200))
        self.assertGreater(store.records.get("old")[1], 7000)
        store.purge(3600)
        self.assertIsNone(store.records.get("old"))
        self.assertIsNotNone(store.records.get("new"))

    def test_the_log_counts_move_with_what_is_decided_on(self):
        store = self.store()
        before = store.log_counts(), store.log_totals()
        store.records.put_new("x", b"a")
        self.assertEqual(before, (store.log_counts(), store.log_totals()))
        store.update_stats("p", {"load": 1})
        self.assertNotEqual(before[0], store.log_counts())
        self.assertNotEqual(before[1], store.log_totals())
        counts = store.log_counts()
        expired = counts.pop(-1)
        totals = sum(counts.values()), sum(moved * (shard + 2) for shard, moved in counts.items())
        self.assertEqual((*totals, expired), store.log_totals())
        self.assertTrue(LogPosition(counts).is_at(store.log_totals()))
        self.assertFalse(LogPosition().is_at(self.store().log_totals()))
