# SPDX-License-Identifier: Apache-2.0
"""Audit of the store: who changed what, the newest first."""

import threading
from functools import partial

from tests.unit.store.engines import StoreCase, on_each_engine
from valence_sched.model.effect import AuditLine, AuditQuery

LINE = partial(AuditLine, user="ann", request_id="r", verb="claims:create", outcome="done")


@on_each_engine
class TestAudit(StoreCase):
    def objects(self, **words):
        return [line.object for line in self.store().audit.newest(AuditQuery(**words))]

    def test_the_oldest_lines_go(self):
        audit = self.store().audit
        for begin in range(0, 400, 100):
            audit.add([LINE(object=str(begin + one)) for one in range(100)], most=200)
        found = self.objects(limit=1000)
        self.assertEqual([str(399 - one) for one in range(len(found))], found)
        self.assertIn(len(found), range(200, 300))  # they go by the hundred

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
