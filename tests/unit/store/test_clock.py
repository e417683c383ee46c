# SPDX-License-Identifier: Apache-2.0
"""The clock of a machine with an embedded store: setting it does not affect expiry."""

import re
import time
import unittest
from pathlib import Path

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.errors import StoreError
from valence_sched.store import tables
from valence_sched.store.expiry import Boot, ClockWatch, read_boot
from valence_sched.testing import request

HOUR = 3600.0
BOOT, UPTIME = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/uptime")
_claims, _clocks = tables.claims.c, tables.clocks.c


class Machine:
    """Clocks of a machine: a test moves the stored times of a store instead of the clock."""

    def __init__(self) -> None:
        self.boot = read_boot() or Boot("boot", 1000.0)
        self._since = time.monotonic()
        self.ahead = 0.0
        self.remarks: list[str] = []

    def watch(self) -> ClockWatch:
        return ClockWatch(self.remarks.append, self.present, lambda: self.ahead)

    def present(self) -> Boot | None:
        """Return the boot with its uptime by now: a test may take long on a busy machine."""
        passed_s = time.monotonic() - self._since
        return self.boot and self.boot._replace(uptime_s=self.boot.uptime_s + passed_s)


class TestClock(StoreCase):
    """A claim of ten minutes, and a clock that is set wrong."""

    def setUp(self):
        super().setUp()
        self.machine = Machine()
        store = self.open()
        store.remember(podm(blocks=6))
        self.claim = claimer(store).claim(request(CORES), ttl_s=600).claim

    def open(self):
        return self.store(watch=self.machine.watch())

    def set_clock(self, by: float, *, boot: bool = True) -> None:
        """Set the clock; the comparison clock is moved in place of time itself."""
        moved = {"created_at": _claims.created_at - by, "expires_at": _claims.expires_at - by}
        swept = sa.case((_claims.sweep_at > 0, _claims.sweep_at - by), else_=_claims.sweep_at)
        self.execute(sa.update(tables.claims).values(**moved, sweep_at=swept))
        self.execute(sa.update(tables.events).values(at=tables.events.c.at - by))
        of = tables.leases.c
        self.execute(sa.update(tables.leases).values(expires_at=of.expires_at - by))
        ahead = {"ahead_s": _clocks.ahead_s - by, "noted_at": _clocks.noted_at - by}
        self.execute(sa.update(tables.clocks).values(**ahead))
        self.machine.ahead += by

    def left_s(self, store) -> float:
        claim = store.claims.show(self.claim.id)
        now = store._database.read(lambda c: c.scalar(sa.select(tables.now())))
        return claim.expires_at - now

    def test_a_jump_moves_the_end_of_a_claim_and_is_told(self):
        for by, way in ((HOUR, "ahead"), (-HOUR, "back"), (30 * 86400.0, "ahead")):
            for opened in ("before", "after"):
                with self.subTest(by=by, opened=opened):
                    store = self.open() if opened == "before" else None
                    left = self.left_s(store or self.open())
                    self.machine.remarks.clear()
                    self.set_clock(by)
                    store = store or self.open()
                    store.claims.expire()
                    self.assertAlmostEqual(left, self.left_s(store), delta=60)
                    self.assertEqual("HELD", store.claims.show(self.claim.id).state)
                    (line,) = self.machine.remarks
                    found = re.search(
                        rf"machine was set {way} by ([0-9,]+) s: the expiry of 1 cla", line
                    )
                    told_s = float(found[1].replace(",", ""))
                    self.assertAlmostEqual(abs(by), told_s, delta=60)

    def test_a_jump_moves_the_end_of_a_lease(self):
        for by in (HOUR, -HOUR):
            with self.subTest(by=by):
                self.assertTrue(self.open().leases.acquire("reader", "a", 600))
                self.set_clock(by)
                self.assertEqual("a", self.open().leases.holder("reader"))
                ((left,),) = self.execute(sa.select(tables.leases.c.expires_at - tables.now()))
                self.assertAlmostEqual(600, left, delta=60)

    def test_of_two_that_notice_a_jump_one_moves_the_ends(self):
        self.set_clock(HOUR)
        store = self.open()
        before = self.left_s(store)
        self.execute(sa.update(tables.clocks).values(ahead_s=_clocks.ahead_s - 3.0))
        clocks = self.execute(sa.select(tables.clocks))
        watch = self.machine.watch()
        self.assertEqual("", store._database.run_unwatched(watch.follow, "", write=True))
        self.assertEqual(clocks, self.execute(sa.select(tables.clocks)), "a slow drift is lost")
        self.assertAlmostEqual(before, self.left_s(store), delta=60)

    def test_time_that_really_passed_ends_a_claim(self):
        self.set_clock(HOUR)
        self.execute(sa.update(tables.clocks).values(ahead_s=_clocks.ahead_s + HOUR))  # it passed
        store = self.open()
        store.claims.expire()
        self.assertEqual("EXPIRED", store.claims.show(self.claim.id).state)
        self.assertEqual([], self.machine.remarks)

    def test_clocks_that_differ_by_little_change_nothing(self):
        self.set_clock(3.0)
        store = self.open()
        self.assertAlmostEqual(597, self.left_s(store), delta=60)
        self.assertEqual([], self.machine.remarks)

    def test_a_machine_that_starts_in_the_past_goes_on_from_what_was_noted_last(self):
        self.set_clock(-HOUR)
        self.machine.boot = Boot("another", 10.0)
        store = self.open()
        self.assertAlmostEqual(600, self.left_s(store), delta=60)
        self.assertRegex(
            self.machine.remarks[0], "was set back by 3,[56].. s: the expiry of 1 claim "
        )

    def test_a_composing_claim_and_a_prepared_one_move_and_an_ended_one_stays(self):
        store = self.open()
        other = claimer(store).claim(request(CORES), ttl_s=600).claim
        store.claims.start_composing(self.claim.id, 600)
        store.claims.release(other.id)
        self.set_clock(HOUR)
        store = self.open()
        self.assertAlmostEqual(600, self.left_s(store), delta=60)
        self.assertEqual([], store.claims.list_stuck())
        self.assertEqual("RELEASED", store.claims.show(other.id).state)

    def test_it_is_compared_where_the_clock_may_have_moved_and_only_then(self):
        store = self.open()
        for ahead, transactions in ((0.0, 1), (2.5, 1), (2.6, 2), (2.6, 1), (0.2, 1), (0.0, 2)):
            self.machine.ahead = ahead
            before = store.counts.transactions
            store.registrations()
            self.assertEqual(transactions, store.counts.transactions - before, ahead)
        self.assertEqual([], self.machine.remarks)

    def test_the_file_is_named_and_how_many_claims(self):
        store = self.open()
        claimer(store).claim(request(CORES), ttl_s=600)
        self.set_clock(HOUR)
        store = self.open()
        (line,) = self.machine.remarks
        start = f"^{store.address}: the clock of this machine was set ahead by 3,[56].. s"
        self.assertRegex(line, f"{start}: the expiry of 2 claims moved with it$")
        self.open()
        self.assertEqual([line], self.machine.remarks)

    def test_where_no_claim_has_an_end_nothing_is_said(self):
        self.open().claims.release(self.claim.id)
        self.set_clock(HOUR)
        self.open()
        self.assertEqual([], self.machine.remarks)

    def test_a_claim_that_expired_before_the_jump_stays_expired(self):
        store = self.open()
        past = sa.update(tables.claims).values(expires_at=_claims.expires_at - 2 * HOUR,
                                               sweep_at=0.0)  # fmt: skip
        self.execute(past)
        self.set_clock(HOUR)
        store = self.open()
        store.claims.expire()
        self.assertEqual("EXPIRED", store.claims.show(self.claim.id).state)

    def test_an_earlier_boot_is_another_clock(self):
        row = {"boot": "earlier", "ahead_s": 5.0, "noted_at": 1.0}
        self.execute(sa.insert(tables.clocks).values(row))
        recent = {**row, "boot": "recent", "noted_at": tables.now() - 80 * 86400.0}
        self.execute(sa.insert(tables.clocks).values(recent))
        self.open()
        self.assertEqual([], self.machine.remarks)
        self.set_clock(HOUR)
        self.open()
        boots = {boot for (boot,) in self.execute(sa.select(_clocks.boot))}
        self.assertEqual({self.machine.boot.id, "recent"}, boots)

    def test_a_machine_that_starts_later_lets_the_time_pass(self):
        self.set_clock(HOUR)
        self.machine.boot = Boot("another", 10.0)
        store = self.open()
        self.assertEqual([], self.machine.remarks)
        store.claims.expire()
        self.assertEqual("EXPIRED", store.claims.show(self.claim.id).state)

    def test_whatever_the_store_has_noted_last_is_where_time_goes_on(self):
        for table, column in (
            (tables.events, {"at": tables.now() + HOUR, "kind": "held"}),
            (tables.clocks, {"boot": "x", "ahead_s": 0.0, "noted_at": tables.now() + HOUR}),
        ):
            with self.subTest(table.name):
                self.machine.remarks.clear()
                self.machine.boot = Boot(f"another {table.name}", 10.0)
                self.execute(sa.insert(table).values(column))
                self.open()
                (line,) = self.machine.remarks
                self.assertRegex(line, "was set back by 3,[56].. s: the expiry of 1 claim moved")
                self.execute(sa.delete(table))

    def test_a_store_that_may_only_be_read_is_left_as_it_is(self):
        self.set_clock(HOUR)

        def refuse(connection):
            connection.exec_driver_sql("SELECT * FROM absent")

        store = self.store(watch=ClockWatch(self.machine.remarks.append, lambda: None))
        store._database.watches[:] = [self.machine.watch()]
        sa.event.listen(store._database.writer, "begin", refuse)
        self.assertEqual([], store.registrations())
        self.assertEqual([], self.machine.remarks)

    def test_a_store_that_cannot_be_compared_says_what_it_was_doing(self):
        store = self.open()
        self.execute(sa.text("DROP TABLE clocks"))
        self.machine.ahead += HOUR
        with self.assertRaisesRegex(StoreError, ": comparing clocks: "):
            store.registrations()

    def test_where_no_boot_is_told_nothing_is_compared(self):
        self.machine.boot = None
        self.set_clock(HOUR)
        self.open().claims.expire()
        self.assertEqual([], self.machine.remarks)

    @unittest.skipUnless(BOOT.exists() and UPTIME.exists(), "the kernel does not tell its boot")
    def test_the_boot_of_this_machine_is_read(self):
        boot = read_boot()
        self.assertIsNotNone(boot)
        self.assertEqual(BOOT.read_text().strip(), boot.id)
        before = float(UPTIME.read_text().split()[0])
        self.assertAlmostEqual(before, boot.uptime_s, delta=600)
