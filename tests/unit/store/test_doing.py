# SPDX-License-Identifier: Apache-2.0
"""The error of a failed transaction names its operation."""

import contextlib
import itertools
import shutil
from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import DECISION, expire, part, podm
from valence_sched.errors import ClaimState, StoreError
from valence_sched.model.claim import ComposedNode
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.store.database import StoreUrl
from valence_sched.store.store import Store

FREED = ("reading claims", "freeing a claim", "freeing a claim")
SWEPT = ("reading claims", "ending a claim", *FREED)


class TestDoing(StoreCase):
    """The error of each transaction of a call, if it fails."""

    def failures(self, prepare: Callable[[Store], Callable[[], object]]) -> list[str]:
        """Return the operation in the error of each transaction of a call."""
        found: list[str] = []
        number, reached = 0, [True]
        while reached:
            store = self.opened()
            call = prepare(store)
            number += 1
            reached = self.fail_at(store, number)
            try:
                call()
            except StoreError as error:
                self.assertRegex(str(error), f"^{store.address}: .*: no such table: absent$")
                found.append(str(error).split(": ")[1])
        return found

    def setUp(self) -> None:
        super().setUp()
        with Store(self.url) as store:
            store.remember_all([podm("p"), podm("q")])
            self.claims = [store.claims.create([part(name, 1, "c0")]) for name in "pq"]
        self.made = StoreUrl(self.url).file

    def opened(self) -> Store:
        """Return a new store with two pod managers and a claim of each."""
        self.url = self.fresh_url()
        shutil.copy(self.made, StoreUrl(self.url).file)
        return self.store()

    def fail_at(self, store: Store, number: int) -> list[bool]:
        """Let the transaction of this number from now on fail; return whether it was reached."""
        count, reached = itertools.count(1), []

        def fail(connection: sa.Connection) -> None:
            if next(count) == number:
                reached.append(True)
                connection.exec_driver_sql("SELECT * FROM absent")

        for engine in (store._database.reader, store._database.writer):
            sa.event.listen(engine, "begin", fail)
        return reached

    def node(self, claim: str) -> ComposedNode:
        return ComposedNode(id="n", podm="p", uri="/S/1", claim=claim, blocks=("c0",))

    def composing(self, store: Store) -> str:
        claim = self.claims[0].id
        store.claims.start_composing(claim)
        return claim

    def check(self, prepare: Callable[[Store], Callable[[], object]], *doing: str) -> None:
        self.assertEqual(list(doing), self.failures(prepare))

    def test_of_a_claim(self):
        both = [part("p", 1, "c1"), part("q", 1, "c1")]
        for name, doing in (
            ("show", ["reading claims"]),
            ("renew", ["renewing a claim"]),
            ("release", ["releasing a claim", *FREED]),
            ("start_composing", ["recording an intent to compose"]),
            ("note_reserving", ["recording an intent to reserve"]),
            ("split", ["splitting a claim"]),
        ):
            with self.subTest(name):
                self.check(lambda s, it=name: lambda: getattr(s.claims, it)(self.claims[0].id),
                           *doing)  # fmt: skip
        for prepare, doing in (
            (lambda s: lambda: s.claims.create(both), ["claiming"] * 3),
            (lambda s: lambda: s.claims.create(both, key="k"), ["claiming"] * 3),
            (lambda s: lambda: s.claims.find_by_key(None, "k", ""), ["reading"]),
            (lambda s: lambda: s.claims.fail(self.claims[0].id, "why"),
             ["ending a failed claim", *FREED]),
            (lambda s: s.claims.list, ["reading claims"]),
            (lambda s: s.claims.list_stuck, ["reading claims"]),
        ):  # fmt: skip
            with self.subTest(doing=doing):
                self.check(prepare, *doing)

    def test_of_a_claim_that_has_ended(self):
        def fail(store: Store) -> Callable[[], object]:
            store.claims.release(self.claims[0].id)

            def fail_released() -> None:
                with contextlib.suppress(ClaimState):
                    store.claims.fail(self.claims[0].id, "why")

            return fail_released

        self.check(fail, "ending a failed claim", "reading claims")

    def test_of_what_is_composed(self):
        def finish(store: Store) -> Callable[[], object]:
            claim = self.composing(store)
            return lambda: store.claims.finish_composing(claim, [self.node(claim)])

        def forget(store: Store) -> Callable[[], object]:
            finish(store)()
            return lambda: store.nodes.forget("n")

        self.check(finish, "recording composed nodes", "settling", "reading claims")
        self.check(forget, "forgetting a node", *FREED)
        self.check(lambda s: s.nodes.list, "reading nodes")
        self.check(lambda s: lambda: s.nodes.newest(1), "reading nodes")

    def test_of_claims_whose_time_is_over(self):
        def over(store: Store) -> Store:
            expire(self, self.claims[0])
            return store

        self.check(lambda s: over(s).claims.reap, "reading claims", *SWEPT)
        self.check(lambda s: partial(over(s).claims.reap, dry_run=True), "reading claims")
        self.check(lambda s: over(s).snapshot, "looking", *SWEPT, "looking")
        self.check(lambda s: lambda: s.purge(1.0), "deleting claims", "deleting old records")
        self.check(lambda s: lambda: s.purge(1.0, dry_run=True), "counting old records")

    def test_of_giving_up_a_claim_that_could_not_be_prepared(self):
        store = self.opened()

        def fail(connection: sa.Connection) -> None:
            connection.exec_driver_sql("SELECT * FROM absent")

        begin = store.claims._begin

        def begin_last(*words: object) -> object:
            claim = begin(*words)
            sa.event.listen(store._database.writer, "begin", fail)
            return claim

        store.claims._begin = begin_last
        with self.assertRaisesRegex(StoreError, ": ending a failed claim: no such table"):
            store.claims.create([part("p", 1, "c1"), part("q", 1, "c1")])

    def test_of_pod_managers(self):
        entry = Registration(name="r", url="https://r.invalid")
        for doing, prepare in (
            ("reading the registry", lambda s: s.registrations),
            ("reading identities", lambda s: s.identities),
            ("registering", lambda s: lambda: s.register(entry)),
            ("changing the registry", lambda s: s.register(entry) or (lambda: s.change(entry))),
            ("unregistering", lambda s: s.register(entry) or (lambda: s.unregister("r"))),
            ("storing readings", lambda s: lambda: s.remember(podm("n"))),
            ("storing a report", lambda s: lambda: s.update_stats("r", {"zone": "z"})),
            ("reading reports", lambda s: s.reports),
            ("forgetting a report",
             lambda s: s.update_stats("r", {"zone": "z"}) and (lambda: s.forget_report("r"))),
            ("reading pod managers", lambda s: s.load_podms),
            ("reading usage", lambda s: lambda: s.usages(["p"])),
            ("reading events", lambda s: lambda: s.events("c")),
            ("storing failures", lambda s: lambda: s.record_failures({"n": away("n")})),
            ("reading failures", lambda s: s.failures),
            ("reading pod managers", lambda s: lambda: s.read_times(["p"])),
            ("looking", lambda s: s.registry_count),
            ("storing a decision", lambda s: lambda: s.decisions.save("d", DECISION)),
            ("reading a decision",
             lambda s: s.decisions.save("d", DECISION) or (lambda: s.decisions.get("d"))),
            ("reading decisions", lambda s: lambda: s.decisions.newest(1)),
            ("setting a quota", lambda s: lambda: s.quotas.change("o", {"claims": 1})),
            ("reading quotas", lambda s: s.quotas.list),
            ("reading quotas", lambda s: lambda: s.quotas.show("o")),
        ):  # fmt: skip
            with self.subTest(doing):
                self.assertEqual(doing, self.failures(prepare)[-1])
        twice = ["storing readings"] * 2
        self.check(lambda s: lambda: s.remember_all([podm("n")]), *twice)
        self.check(lambda s: lambda: s.upsert_all([podm("n")]), *twice)

    def test_of_looking_at_the_totals_of_the_change_log(self):
        store = self.opened()
        store._database.write(lambda c: c.exec_driver_sql("DROP TABLE shards"))
        with self.assertRaisesRegex(
            StoreError, f"^{store.address}: reading the change log: no such table: "
        ):
            store.log_totals()

    def test_of_child_zones(self):
        entry = ZoneRegistration(name="east", url="http://east")
        for doing, prepare in (
            ("reading zones", lambda s: s.zones.list),
            ("adding a zone", lambda s: lambda: s.zones.add(entry)),
            ("changing a zone",
             lambda s: (zone := s.zones.add(entry)) and (lambda: s.zones.change(zone, entry))),
            ("deleting a zone",
             lambda s: (zone := s.zones.add(entry)) and (lambda: s.zones.delete(zone))),
            ("storing polled zones", lambda s: lambda: s.zones.record([])),
        ):  # fmt: skip
            with self.subTest(doing):
                self.assertEqual(doing, self.failures(prepare)[-1])
        self.check(lambda s: s.zones.own_id, "reading the id of the zone",
                   "making the id of the zone")  # fmt: skip

    def test_of_claims_over_zones(self):
        words = {"owner": None, "group": None, "key": "k", "content": "", "ttl_s": 60.0}
        for doing, prepare in (
            ("claiming", lambda s: lambda: s.zone_claims.begin((), **words)),
            ("reading", lambda s: lambda: s.zone_claims.find_by_key(None, "k", "")),
            ("changing a claim", lambda s: lambda: s.zone_claims.change("x", ["HELD"], "FAILED")),
            ("reading claims", lambda s: lambda: s.zone_claims.get("x")),
            ("reading claims", lambda s: s.zone_claims.list),
            ("reading claims", lambda s: s.zone_claims.due),
        ):
            with self.subTest(doing):
                self.check(prepare, doing)

    def test_of_what_the_processes_of_a_service_share(self):
        for doing, prepare in (
            ("taking a lease", lambda s: lambda: s.leases.acquire("reader", "a", 60.0)),
            ("renewing a lease", lambda s: lambda: s.leases.renew("reader", "a", 60.0)),
            ("releasing a lease", lambda s: lambda: s.leases.release("reader", "a")),
            ("reading leases", lambda s: lambda: s.leases.holder("reader")),
            ("storing a record", lambda s: lambda: s.records.put_new("x", b"a")),
            ("storing a record", lambda s: lambda: s.records.replace("x", b"a")),
            ("reading a record", lambda s: lambda: s.records.get("x")),
        ):
            with self.subTest(doing):
                self.check(prepare, doing)
        self.check(lambda s: lambda: s.records.add_word("x", b"a"),
                   "reading a record", "storing a record")  # fmt: skip
        self.check(lambda s: s.records.add_word("x", b"a") or (lambda: s.records.take_words("x")),
                   "reading a record", "taking a record")  # fmt: skip


def away(name: str) -> tuple[FullPodm, ReadFailure]:
    """Return a pod manager that does not answer."""
    return FullPodm(id=name), ReadFailure(reason="does not answer")
