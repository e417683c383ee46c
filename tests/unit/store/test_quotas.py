# SPDX-License-Identifier: Apache-2.0
"""Quotas: no owner exceeds its limits, also with concurrent claims of several processes."""

import threading

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import claimer, expire, part, podm
from valence_sched.errors import QuotaExceeded
from valence_sched.model.flavor import ProcessorSpec, Properties
from valence_sched.model.quota import Quota
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.store import tables
from valence_sched.store.holds import SLACK
from valence_sched.store.maintenance import Maintenance
from valence_sched.store.store import Store

ROUNDS = 8
BUYERS = 4


@on_each_engine
class TestQuotas:
    """Limits of owners."""

    def claim(self, block, owner="red", podm_name="p", **words):
        return self.stored.claims.create([part(podm_name, 1, block)], owner=owner, **words)

    def setUp(self):
        super().setUp()
        self.stored = self.store()
        self.stored.remember(podm(blocks=6))

    def test_an_owner_without_a_limit_claims_what_it_likes(self):
        self.stored.quotas.change("blue", {"claims": 0}, keep=False)
        for number in range(4):
            self.claim(f"c{number}")
        expected = Quota(owner="red", used={"claims": 4, "nodes": 4})
        self.assertEqual(expected, self.stored.quotas.show("red"))

    def test_a_change_keeps_the_limits_that_it_does_not_name(self):
        self.stored.quotas.change(None, {"nodes": 9}, keep=False)
        self.stored.quotas.change("red", {"claims": 1, "nodes": 2, "cores": 3}, keep=False)
        changed = self.stored.quotas.change("red", {"claims": 5, "nodes": None})
        self.assertEqual({"claims": 5, "cores": 3, "nodes": 9}, changed.limits)
        self.assertEqual({}, self.stored.quotas.change(None, {"nodes": None}).limits)
        self.assertEqual({"claims": 5, "cores": 3}, self.stored.quotas.show("red").limits)

    def test_a_claim_beyond_a_limit_is_refused_with_the_numbers_and_holds_nothing(self):
        self.stored.quotas.change("red", {"claims": 2, "nodes": 10}, keep=False)
        self.claim("c0")
        self.claim("c1")
        with self.assertRaisesRegex(
            QuotaExceeded, "quota of 'red': claims: 2 in use and 1 more needed, 2 allowed"
        ):
            self.claim("c2")
        self.assertEqual(2, len(self.stored.claims.list()))
        self.claim("c2", owner="blue")
        self.claim("c3", owner=None)

    def test_each_limit_that_is_exceeded_is_named_also_where_nothing_is_in_use(self):
        self.stored.quotas.change("red", {"claims": 0, "nodes": 0.5, "cores": 0}, keep=False)
        with self.assertRaises(QuotaExceeded) as raised:
            self.claim("c0")
        self.assertEqual(
            "quota of 'red': claims: 0 in use and 1 more needed, 0 allowed; "
            "nodes: 0 in use and 1 more needed, 0.5 allowed: "
            "release claims, or ask the operator for a larger quota",
            str(raised.exception),
        )

    def test_sums_that_are_off_by_no_more_than_rounding_are_within_a_limit(self):
        self.stored.quotas.change("red", {"nodes": 1 - SLACK}, keep=False)
        self.claim("c0")
        with self.assertRaises(QuotaExceeded):
            self.claim("c1")
        self.stored.quotas.change("blue", {"nodes": 1 - 2 * SLACK}, keep=False)
        with self.assertRaises(QuotaExceeded):
            self.claim("c1", owner="blue")

    def test_a_refusal_sweeps_only_claims_that_count_in_it(self):
        """Claims of other owners, and ended ones, are left to the reaper."""
        ended, other = self.claim("c0"), self.claim("c1", owner="blue")
        expire(self, other)
        of = tables.claims.c
        unfreed = {"state": "EXPIRED", "sweep_at": 0.0}
        self.execute(sa.update(tables.claims).where(of.id == ended.id).values(unfreed))
        self.stored.quotas.change("red", {"claims": 0}, keep=False)
        with self.assertRaises(QuotaExceeded):
            self.claim("c2")
        rows = {tuple(row) for row in self.execute(sa.select(of.id, of.state, of.sweep_at))}
        self.assertEqual({(ended.id, "EXPIRED", 0.0), (other.id, "HELD", 1.0)}, rows)

    def test_owners_are_listed_in_their_order_after_the_limits_of_all(self):
        for owner in ("red", None, "blue", "green"):
            self.stored.quotas.change(owner, {"nodes": 1, "claims": 2}, keep=False)
        quotas = self.stored.quotas.list()
        self.assertEqual([None, "blue", "green", "red"], [one.owner for one in quotas])
        self.assertEqual(["claims", "nodes"], list(quotas[1].limits))

    def test_what_is_released_or_over_counts_no_longer(self):
        self.stored.quotas.change(None, {"claims": 1}, keep=False)
        first = self.claim("c0")
        self.stored.claims.release(first.id)
        second = self.claim("c0")
        expire(self, second)
        third = self.claim("c1")
        self.stored.claims.fail(third.id, "no")
        self.assertEqual({}, self.stored.quotas.show("red").used)
        self.assertEqual(0, self.count())

    def test_a_claim_that_has_ended_counts_no_longer_before_it_is_freed(self):
        claim = self.claim("c0")
        of = tables.claims.c
        ended = {"state": "EXPIRED", "sweep_at": 0.0}
        self.execute(sa.update(tables.claims).where(of.id == claim.id).values(ended))
        self.assertLess(0, self.count())
        self.assertEqual({}, self.stored.quotas.show("red").used)

    def count(self):
        return self.execute(sa.select(sa.func.count()).select_from(tables.quota_charges))[0][0]

    def test_the_limit_of_an_owner_wins_over_the_one_of_all(self):
        self.stored.quotas.change(None, {"claims": 1, "nodes": 5}, keep=False)
        self.stored.quotas.change("red", {"claims": 2}, keep=False)
        self.assertEqual({"claims": 2, "nodes": 5}, self.stored.quotas.show("red").limits)
        self.assertEqual({"claims": 1, "nodes": 5}, self.stored.quotas.show("blue").limits)
        listed = [(one.owner, one.limits) for one in self.stored.quotas.list()]
        self.assertEqual([(None, {"claims": 1, "nodes": 5}), ("red", {"claims": 2})], listed)
        self.stored.quotas.change("red", {}, keep=False)
        self.assertEqual({"claims": 1, "nodes": 5}, self.stored.quotas.show("red").limits)

    def test_the_same_key_again_counts_once(self):
        self.stored.quotas.change("red", {"claims": 1}, keep=False)
        self.assertEqual(self.claim("c0", key="k").id, self.claim("c0", key="k").id)

    def test_nodes_of_one_claim_count_as_one_claim_also_when_they_are_split(self):
        self.stored.quotas.change(
            "red", {"claims": 1, "nodes": 3, "cores": 24, "processors": 3}, keep=False
        )
        asked = RequestSpec(properties=Properties(processor=ProcessorSpec(8)), count=3, owner="red")
        request = compile_request(asked)
        claim = claimer(self.stored).claim(request).claim
        used = {"claims": 1, "nodes": 3, "cores": 24, "processors": 3}
        self.assertEqual(used, self.stored.quotas.show("red").used)
        singles = self.stored.claims.split(claim.id)
        self.assertEqual(used, self.stored.quotas.show("red").used)
        for one in singles:
            self.stored.claims.release(one.id)
        self.assertEqual({}, self.stored.quotas.show("red").used)

    def test_of_two_processes_at_a_time_one_sees_the_other(self):
        """Each claims from a different pod manager, so that only the quota is locked by both."""
        for number in range(BUYERS):
            self.stored.remember(podm(f"own-{number}", 1))
        self.stored.quotas.change("red", {"nodes": 1}, keep=False)
        stores = [Store(self.url) for _ in range(BUYERS)]
        for store in stores:
            self.addCleanup(store.close)
        for _ in range(ROUNDS):
            start = threading.Barrier(BUYERS)
            outcomes = []

            def buy(number, start=start, outcomes=outcomes):
                parts = [part(f"own-{number}", 1, "c0")]
                start.wait(30)
                try:
                    outcomes.append(stores[number].claims.create(parts, owner="red").id)
                except QuotaExceeded as error:
                    outcomes.append(error)

            threads = [threading.Thread(target=buy, args=(one,)) for one in range(BUYERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            won = [one for one in outcomes if isinstance(one, str)]
            self.assertEqual((BUYERS, 1), (len(outcomes), len(won)), outcomes)
            self.stored.claims.release(won[0])

    def test_claims_of_an_older_store_count_once_it_is_upgraded(self):
        self.claim("c0")
        self.stored.claims.release(self.claim("c1").id)
        self.claim("c2", owner=None)
        self.stored.close()
        with Maintenance(self.url) as older:
            older.downgrade("0005")
        expected = Quota(owner="red", used={"claims": 1, "nodes": 1})
        self.assertEqual(expected, self.store().quotas.show("red"))
        self.assertEqual(2, self.count())
