# SPDX-License-Identifier: Apache-2.0
"""Child zones, and the claims over them."""

import threading
import time

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import podm
from valence_sched.errors import ClaimLost, InUse, NameTaken, UnknownName
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneClaimPart
from valence_sched.model.zone_registry import ZoneInfo, ZoneRegistration, ZoneReport
from valence_sched.store import tables
from valence_sched.store.snapshot import LogPosition
from valence_sched.store.tables import key_of
from valence_sched.store.zones import PolledZone

EAST = ZoneRegistration(
    name="east",
    url="http://east:8790",
    username="up",
    password=PasswordReference(env="EAST_PASSWORD"),
    weight_scale=0.5,
)
WEST = ZoneRegistration(name="west", url="https://west")
HEARD = ZoneReport(
    is_active=True,
    info=ZoneInfo(
        id="1f", name="dallas", capabilities={"os": ("linux",)}, services={"compute_cpu": (1, 2)}
    ),
    reason="",
)
SILENT = ZoneReport(failures=1, reason="nobody answers")


@on_each_engine
class TestZones:
    """A child is an entry with its last report."""

    def setUp(self):
        super().setUp()
        self.zones = self.store().zones

    def moved(self):
        """Return the number of changes in the change log of the zones."""
        shard = sa.select(tables.shards.c.moved).where(tables.shards.c.shard == tables.ZONES_SHARD)
        ((count,),) = self.execute(shard)
        return count

    def test_what_was_added_is_there_after_opening_again_with_an_id_of_its_own(self):
        for one in (WEST, EAST):
            self.zones.add(one)
        found = self.store().zones.list()
        self.assertEqual([EAST, WEST], [one.registration for one in found])
        self.assertEqual(2, len({one.id for one in found}))
        self.assertEqual([ZoneReport()] * 2, [one.report for one in found])
        self.assertEqual([None] * 4, [age for one in found
                                      for age in (one.heard_age_s, one.polled_age_s)])  # fmt: skip

    def test_no_secret_is_in_the_state(self):
        self.zones.add(EAST)
        ((document,),) = self.execute(sa.select(tables.zones.c.document))
        self.assertIn(b'"password":{"env":"EAST_PASSWORD"}', bytes(document))

    def test_a_name_is_taken_once(self):
        self.zones.add(EAST)
        with self.assertRaisesRegex(NameTaken, "a zone named 'east' is already a child: change"):
            self.zones.add(EAST)
        self.zones.add(replace(EAST, name="EAST"))
        self.assertEqual(2, len(self.zones.list()))

    def test_of_processes_that_add_one_name_at_once_one_does(self):
        stores = [self.store() for _ in range(4)]
        outcomes = []

        def add(store):
            try:
                outcomes.append(store.zones.add(EAST).registration)
            except NameTaken:
                outcomes.append(None)

        threads = [threading.Thread(target=add, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([EAST, None, None, None], sorted(outcomes, key=lambda one: one is None))
        self.assertEqual(1, len(self.zones.list()))

    def test_one_is_found_by_its_name_or_its_id(self):
        added = self.zones.add(EAST)
        self.assertEqual(added, self.zones.show("east"))
        self.assertEqual(added, self.zones.show(str(added.id)))
        with self.assertRaisesRegex(UnknownName, "no child zone named 'eest' .*'east'"):
            self.zones.show("eest")

    def test_what_was_learned_stays_with_its_age(self):
        added = self.zones.add(EAST)
        self.zones.record([PolledZone(added, HEARD)])
        found = self.zones.show("east")
        self.assertEqual(HEARD, found.report)
        self.assertLess(found.heard_age_s, 60.0)
        self.execute(sa.update(tables.zones).values(heard_at=tables.zones.c.heard_at - 100.0))
        self.zones.record([PolledZone(found, SILENT)])
        found = self.zones.show("east")
        self.assertEqual(SILENT, found.report)
        self.assertGreater(found.heard_age_s, 99.0)
        self.assertLess(found.polled_age_s, 60.0)

    def test_a_poll_of_what_was_changed_or_deleted_meanwhile_is_left_aside(self):
        east, west = self.zones.add(EAST), self.zones.add(WEST)
        self.zones.change(east, replace(EAST, url="http://other"))
        self.zones.delete(west)
        before = self.moved()
        self.zones.record([PolledZone(east, HEARD), PolledZone(west, HEARD)])
        (found,) = self.zones.list()
        self.assertEqual((ZoneReport(), None), (found.report, found.polled_age_s))
        self.assertEqual(before, self.moved())

    def test_what_another_service_told_is_forgotten_and_of_the_same_one_it_stays(self):
        self.zones.record([PolledZone(self.zones.add(EAST), HEARD)])
        self.zones.change(self.zones.show("east"), replace(EAST, weight_scale=2.0))
        self.assertEqual((2.0, HEARD), self.weighted())
        self.zones.change(self.zones.show("east"), replace(EAST, username="other"))
        self.assertEqual((0.5, ZoneReport()), self.weighted())
        self.assertIsNone(self.zones.show("east").heard_age_s)

    def weighted(self):
        found = self.zones.show("east")
        return found.registration.weight_scale, found.report

    def test_one_that_is_gone_cannot_be_changed_and_is_deleted(self):
        added = self.zones.add(EAST)
        self.zones.delete(added)
        with self.assertRaisesRegex(UnknownName, "no child zone named 'east'"):
            self.zones.change(added, WEST)
        self.zones.delete(added)
        self.assertEqual([], self.zones.list())

    def test_one_with_a_part_of_a_live_claim_is_not_deleted(self):
        east, west = self.zones.add(EAST), self.zones.add(WEST)
        claims = self.store().zone_claims
        parts = (ZoneClaimPart(zone="west", nodes=(1,)),)
        words = {"owner": None, "group": None, "key": None, "content": "c", "ttl_s": 60.0}
        for state in ("HELD", "COMPOSED"):
            claim, _ = claims.begin(parts, **words)
            claims.change(claim.id, ["PREPARED"], state)
            self.zones.delete(east)
            text = rf"zone 'west' still has 1 claim \({claim.id}\): run podm claim release"
            with self.assertRaisesRegex(InUse, text):
                self.zones.delete(west)
            claims.change(claim.id, [state], "RELEASED")
        self.zones.delete(west)
        self.assertEqual([], self.zones.list())

    def test_changes_are_counted_as_in_the_change_log(self):
        before = self.zones.changes()
        self.zones.add(EAST)
        self.zones.add(WEST)
        self.assertEqual(
            (before + 2, self.moved()), (self.zones.changes(), self.store().zones.changes())
        )

    def test_the_change_log_moves_with_what_is_new_and_not_with_each_poll(self):
        counts = [self.moved()]
        self.zones.add(EAST)
        counts.append(self.moved())
        for report in (HEARD, HEARD, SILENT):
            self.zones.record([PolledZone(self.zones.show("east"), report)])
            counts.append(self.moved())
        self.zones.change(self.zones.show("east"), replace(EAST, enabled=False))
        self.zones.delete(self.zones.show("east"))
        counts.append(self.moved())
        self.assertEqual([0, 1, 2, 2, 3, 5], counts)

    def test_a_change_of_zones_is_no_change_of_pod_managers_nor_of_registrations(self):
        self.one.remember(podm("p"))
        position = self.one.snapshot().position
        self.zones.add(EAST)
        snapshot = self.one.snapshot(position)
        self.assertEqual(((), False), (snapshot.changes, snapshot.registry_changed))
        self.assertNotEqual(LogPosition(position.shards), snapshot.position)

    def test_the_id_of_the_zone_is_made_once_for_all_processes(self):
        stores = [self.store() for _ in range(4)]
        found = []
        threads = [
            threading.Thread(target=lambda one=one: found.append(one.zones.own_id()))
            for one in stores
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({self.zones.own_id()}, {*found})
        self.assertEqual((4, 32), (len(found), len(found[0])))


ASKED = (ZoneClaimPart(zone="east", nodes=(1, 3)), ZoneClaimPart(zone="", nodes=(2,)))
HOLDING = (ZoneClaimPart(zone="east", claim="e1", nodes=(1, 3)),)


@on_each_engine
class TestZoneClaims:
    """The claims of one zone over the zones below it."""

    def setUp(self):
        super().setUp()
        self.rows = self.one.zone_claims

    def begin(self, key=None, content="c", owner="alice", ttl_s=60.0):
        words = {"owner": owner, "group": None, "key": key, "content": content, "ttl_s": ttl_s}
        return self.rows.begin(ASKED, **words)

    def pass_time(self, claim_id):
        """Let a claim expire."""
        row = sa.update(tables.zone_claims).where(tables.zone_claims.c.id == claim_id)
        self.execute(row.values(expires_at=1.0))

    def test_who_is_asked_is_stored_before_they_are(self):
        before = time.time()
        claim, is_new = self.begin("k")
        self.assertTrue(is_new)
        self.assertEqual(("PREPARED", ASKED, "alice"), (claim.state, claim.parts, claim.owner))
        self.assertAlmostEqual(60.0, claim.expires_at - claim.created_at, places=3)
        self.assertLess(abs(claim.created_at - before), 60)
        self.assertEqual(claim, self.rows.get(claim.id))
        self.assertEqual([claim], list(self.rows.list()))

    def test_what_a_claim_is_for_comes_back_with_it(self):
        words = {"owner": "o", "group": "g", "key": "k", "content": "c", "ttl_s": 60.0}
        claim, _ = self.rows.begin(ASKED, **words)
        found = self.rows.get(claim.id)
        self.assertEqual(("o", "g", "k"), (found.owner, found.group, found.key))
        self.assertEqual((key_of("c"), None), (found.content, found.note))
        self.assertIsNone(self.rows.get("absent"))

    def test_claims_are_listed_by_state_and_owner_the_oldest_first(self):
        ids = [self.begin(owner=owner)[0].id for owner in ("alice", "bob", "alice")]
        of = tables.zone_claims.c
        for age, id_ in zip((9.0, 7.0, 8.0), ids, strict=True):
            row = sa.update(tables.zone_claims).where(of.id == id_)
            self.execute(row.values(created_at=of.created_at - age))
        self.rows.change(ids[1], ["PREPARED"], "HELD", ttl_s=600)
        for words, found in (
            ({}, [ids[0], ids[2], ids[1]]),
            ({"owner": "alice"}, [ids[0], ids[2]]),
            ({"states": ("HELD",)}, [ids[1]]),
            ({"states": ("HELD",), "owner": "alice"}, []),
        ):
            with self.subTest(words):
                self.assertEqual(found, [one.id for one in self.rows.list(**words)])

    def test_a_key_gives_the_same_claim_until_that_has_ended(self):
        claim, _ = self.begin("k")
        with self.assertRaises(ClaimLost) as caught:
            self.begin("k")
        line = f"claim {claim.id} of the same key is being prepared"
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(("", claim.id), (caught.exception.podm, caught.exception.claim))
        held = self.rows.change(claim.id, ["PREPARED"], "HELD", parts=HOLDING, ttl_s=600)
        self.assertEqual((held, False), self.begin("k"))
        self.assertEqual(held, self.rows.find_by_key("alice", "k", "c"))
        with self.assertRaisesRegex(NameTaken, "of another request: choose another key"):
            self.begin("k", content="other")
        self.assertTrue(self.begin("k", owner="bob")[1])
        self.rows.change(claim.id, ["HELD"], "RELEASED")
        self.assertIsNone(self.rows.find_by_key("alice", "k", "c"))
        self.assertTrue(self.begin("k", content="other")[1])

    def test_a_claim_past_its_time_gives_its_key_up(self):
        held, prepared = (self.begin(key)[0] for key in "ab")
        self.rows.change(held.id, ["PREPARED"], "HELD", ttl_s=600)
        for claim in (held, prepared):
            self.pass_time(claim.id)
        self.assertIsNone(self.rows.find_by_key("alice", "a", "c"))
        self.assertTrue(self.begin("a")[1])
        self.assertTrue(self.begin("b")[1])
        states = [self.rows.get(one.id).state for one in (held, prepared)]
        self.assertEqual(["EXPIRED", "RELEASING"], states)
        self.assertEqual([prepared.id], [one.id for one in self.rows.due()])

    def test_only_a_claim_in_the_state_that_is_expected_moves(self):
        claim, _ = self.begin()
        self.assertIsNone(self.rows.change(claim.id, ["HELD"], "COMPOSING"))
        self.assertEqual("PREPARED", self.rows.get(claim.id).state)
        held = self.rows.change(claim.id, ["PREPARED"], "HELD", parts=HOLDING, ttl_s=5)
        self.assertEqual(("HELD", HOLDING), (held.state, held.parts))
        composed = self.rows.change(claim.id, ["HELD"], "COMPOSED", note="n")
        self.assertEqual((None, "n", HOLDING), (composed.expires_at, composed.note, composed.parts))

    def test_a_claim_whose_time_is_over_can_only_end(self):
        claim, _ = self.begin()
        self.pass_time(claim.id)
        self.assertIsNone(self.rows.change(claim.id, ["PREPARED"], "HELD", ttl_s=600))
        self.assertEqual([claim.id], [one.id for one in self.rows.due()])
        self.assertIsNotNone(self.rows.change(claim.id, ["PREPARED"], "FAILED"))
        self.assertEqual([], list(self.rows.due()))

    def test_held_claims_expire_and_others_do_not(self):
        ids = {state: self.begin()[0].id for state in ("HELD", "COMPOSING", "COMPOSED")}
        for state, id_ in ids.items():
            self.rows.change(id_, ["PREPARED"], state, ttl_s=600)
            self.pass_time(id_)
        self.rows.expire()
        states = [self.rows.get(id_).state for id_ in ids.values()]
        self.assertEqual(["EXPIRED", "COMPOSING", "COMPOSED"], states)
        self.assertEqual([ids["COMPOSING"]], [one.id for one in self.rows.due()])

    def test_claims_that_ended_are_forgotten_after_a_time(self):
        live, ended = self.begin()[0], self.begin()[0]
        self.rows.change(ended.id, ["PREPARED"], "FAILED")
        self.assertEqual(0, self.one.purge(3600).claims)
        self.execute(sa.update(tables.zone_claims).values(created_at=1.0))
        self.assertEqual(1, self.one.purge(3600, dry_run=True).claims)
        self.assertEqual(1, self.one.purge(3600).claims)
        self.assertEqual([live.id], [one.id for one in self.rows.list()])
        self.assertIsNone(self.rows.get(ended.id))
