# SPDX-License-Identifier: Apache-2.0
"""Children: the zones directly below, as decisions see them, and how they are polled."""

import threading
import unittest
from collections import Counter

from msgspec.structs import replace

from valence_sched.errors import (
    AccessDenied,
    CredentialError,
    ServiceError,
    StoreError,
    Unauthenticated,
)
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone_registry import (
    ZoneInfo,
    ZoneOverview,
    ZoneRegistration,
    ZoneReport,
)
from valence_sched.zones.children import Children, ChildRow, ZonePoller
from valence_sched.zones.merge import Weighting

EAST = ZoneRegistration(
    name="east",
    url="http://east",
    username="up",
    password=PasswordReference(env="EAST"),
    cacert="/ca.pem",
    weight_scale=2.0,
    weight_offset=-0.5,
)
INFO = ZoneInfo(name="dallas", capabilities={"os": ("linux",)})
HEARD = ZoneReport(is_active=True, info=INFO, reason="")


class Listed:
    """Child zones that a state lists, and how often they changed and were read."""

    def __init__(self, *rows):
        self.rows, self.moved, self.reads = list(rows), 0, 0

    def changes(self):
        return self.moved

    def list(self):
        self.reads += 1
        return self.rows


class TestChildren(unittest.TestCase):
    """The children that may be asked."""

    def row(self, *, heard_age_s=1.0, report=HEARD, registration=EAST):
        zone = ZoneOverview(
            id=1, registration=registration, report=report, heard_age_s=heard_age_s
        )  # fmt: skip
        (row,) = Children(lambda: Listed(zone), 30.0).rows()
        return row

    def test_a_child_has_what_it_takes_to_ask_it_and_what_it_told(self):
        expected = ChildRow(
            name="east", url="http://east", username="up", password=PasswordReference(env="EAST"),
            cacert="/ca.pem", weighting=Weighting(2.0, -0.5), is_active=True,
            capabilities={"os": ("linux",)},
        )  # fmt: skip
        self.assertEqual(expected, self.row())

    def test_one_that_is_not_active_has_the_reason(self):
        row = self.row(report=replace(HEARD, is_active=False, failures=3, reason="no answer"))
        self.assertEqual((False, "no answer"), (row.is_active, row.reason))
        self.assertEqual("it was not polled yet", self.row(report=ZoneReport()).reason)

    def test_a_failure_that_did_not_make_it_inactive_is_no_reason(self):
        self.assertEqual("", self.row(report=replace(HEARD, failures=1, reason="late")).reason)

    def test_what_it_told_expires_after_three_intervals(self):
        """S47: none for three intervals is stale."""
        self.assertEqual({"os": ("linux",)}, self.row(heard_age_s=90.0).capabilities)
        self.assertEqual({}, self.row(heard_age_s=90.1).capabilities)
        self.assertEqual({}, self.row(heard_age_s=None).capabilities)

    def test_one_that_is_not_enabled_says_so(self):
        zone = ZoneOverview(id=1, registration=replace(EAST, enabled=False), report=HEARD)
        (row,) = Children(lambda: Listed(zone), 30.0).rows()
        self.assertFalse(row.enabled)

    def test_they_are_read_where_they_changed_and_once_a_second(self):
        clock = Clock()
        zones = Listed(ZoneOverview(id=1, registration=EAST, report=HEARD, heard_age_s=1.0))
        children = Children(lambda: zones, 30.0, clock)
        for at, changes, reads in ((0, 0, 1), (0.9, 0, 1), (0.95, 1, 2), (1.9, 1, 2), (2, 1, 3)):
            clock.at, zones.moved = at, changes
            self.assertEqual(["east"], [row.name for row in children.rows()])
            self.assertEqual(reads, zones.reads, at)

    def test_what_they_told_expires_without_a_change(self):
        clock, told = Clock(), ZoneOverview(id=1, registration=EAST, report=HEARD, heard_age_s=89.0)
        zones = Listed(told)
        children = Children(lambda: zones, 30.0, clock)
        self.assertEqual({"os": ("linux",)}, children.rows()[0].capabilities)
        zones.rows, clock.at = [replace(told, heard_age_s=90.5)], 1001.5
        self.assertEqual({}, children.rows()[0].capabilities)


class Zones:
    """The child zones of a state, whose time is the clock of a test."""

    def __init__(self, clock, *registrations):
        self.clock, self.rows = clock, {}
        for number, one in enumerate(registrations, start=1):
            self.rows[one.name] = [number, one, ZoneReport(), None, None]
        self.away = False

    def list(self):
        if self.away:
            raise StoreError("the state is away")
        return [
            ZoneOverview(id=id_, registration=one, report=report, heard_age_s=self.age_s(heard),
                         polled_age_s=self.age_s(polled))
            for id_, one, report, heard, polled in self.rows.values()
        ]  # fmt: skip

    def age_s(self, at):
        return None if at is None else self.clock.at - at

    def record(self, polled):
        for zone, report in polled:
            row = self.rows[zone.registration.name]
            row[2], row[4] = report, self.clock.at
            if not report.failures:
                row[3] = self.clock.at

    def own_id(self):
        return "own"


class Leases:
    """One lease, which another process may have."""

    def __init__(self):
        self.holder = None

    def acquire(self, _name, holder, _ttl_s):
        self.holder = self.holder or holder
        return self.holder == holder

    def give_up(self, _name, holder):
        if self.holder == holder:
            self.holder = None


class Clock:
    """The seconds of a test."""

    at = 1000.0

    def __call__(self):
        return self.at


class TestPolling(unittest.TestCase):
    """The children are asked at their interval, by one process."""

    def setUp(self):
        self.clock, self.leases, self.lines = Clock(), Leases(), []
        self.zones = Zones(self.clock, EAST, replace(EAST, name="west"))
        self.answers = {"east": INFO, "west": replace(INFO, name="houston")}
        self.asked = []
        self.poller = self.new_poller("a")

    def new_poller(self, holder):
        return ZonePoller(
            self.zones, self.leases, self.ask, holder=holder, interval_s=30.0,
            tell=self.lines.append, clock=self.clock, sleep=lambda _s: None,
        )  # fmt: skip

    def ask(self, registration):
        self.asked.append(registration.name)
        answer = self.answers[registration.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def after(self, seconds, poller=None):
        self.clock.at += seconds
        (poller or self.poller).step()

    def report(self, name="east"):
        (found,) = [one for one in self.zones.list() if one.registration.name == name]
        return found.report

    def test_each_is_asked_at_once_and_then_at_its_interval(self):
        for seconds, expected in ((0, 2), (29, 2), (1, 4), (1, 4)):
            self.after(seconds)
            self.assertEqual(expected, len(self.asked))
        self.assertEqual({"east", "west"}, {*self.asked})

    def test_one_that_is_new_is_asked_soon_and_one_that_is_disabled_never(self):
        self.after(0)
        self.zones.rows["north"] = [3, replace(EAST, name="north"), ZoneReport(), None, None]
        self.zones.rows["east"][1] = replace(EAST, enabled=False)
        self.answers["north"] = INFO
        self.after(1)
        self.after(60)
        self.assertEqual({"east": 1, "west": 2, "north": 2}, {**Counter(self.asked)})

    def test_name_and_capabilities_are_those_that_it_tells_now(self):
        """S49: a child that is renamed has its new name after a poll."""
        self.after(0)
        self.assertEqual(INFO, self.report().info)
        renamed = ZoneInfo(name="austin", capabilities={"os": ("bsd",)})
        self.answers["east"] = renamed
        self.after(29)
        self.assertEqual(INFO, self.report().info)
        self.after(1)
        self.assertEqual(renamed, self.report().info)

    def test_it_is_active_after_one_success_and_not_after_three_failures(self):
        """S54: the active flag follows whether it is reached."""
        states = []
        away = ServiceError("nobody answers there")
        for answer in (away, INFO, away, away, INFO, away, away, away, away, INFO):
            self.answers["east"] = answer
            self.after(30)
            states.append((self.report().is_active, self.report().failures))
        self.assertEqual(
            [(False, 1), (True, 0), (True, 1), (True, 2), (True, 0), (True, 1), (True, 2),
             (False, 3), (False, 4), (True, 0)],
            states,
        )  # fmt: skip

    def test_a_failure_keeps_what_was_told_and_says_why(self):
        self.after(0)
        self.answers["east"] = ServiceError("nobody answers there")
        self.after(30)
        report = self.report()
        self.assertEqual((INFO, "nobody answers there"), (report.info, report.reason))
        self.answers["east"] = INFO
        self.after(30)
        self.assertEqual("", self.report().reason)

    def test_one_that_refuses_the_credentials_is_skipped_at_once_and_others_are_not(self):
        """S58: a wrong key skips that child, with its reason."""
        for error in (CredentialError("EAST is not set"), Unauthenticated("no such user"),
                      AccessDenied("not with this role")):  # fmt: skip
            with self.subTest(type(error).__name__):
                self.answers["east"] = INFO
                self.after(30)
                self.answers["east"] = error
                self.after(30)
                report = self.report()
                self.assertEqual((False, str(error)), (report.is_active, report.reason))
                self.assertTrue(self.report("west").is_active)

    def test_a_url_that_leads_back_to_this_zone_is_refused(self):
        self.answers["east"] = replace(INFO, id="own")
        self.after(0)
        self.assertEqual((False, "it is this zone itself: name the URL of a zone below it"),
                         (self.report().is_active, self.report().reason))  # fmt: skip

    def test_one_that_hangs_costs_its_deadline_and_is_a_failure(self):
        release = threading.Event()
        self.addCleanup(release.set)
        self.poller = ZonePoller(
            self.zones, self.leases, lambda one: self.hang(one, release), holder="a",
            interval_s=30.0, tell=self.lines.append, clock=self.clock, sleep=lambda _s: None,
            deadline_s=0.05,
        )  # fmt: skip
        self.after(0)
        self.assertEqual("it did not answer in time", self.report().reason)
        self.assertTrue(self.report("west").is_active)

    def hang(self, registration, release):
        if registration.name == "east":
            release.wait(60)
        return INFO

    def test_one_process_polls_and_another_when_that_ends(self):
        other = self.new_poller("b")
        self.after(0)
        self.after(30, other)
        self.assertEqual(2, len(self.asked))
        self.poller.close()
        self.after(30, other)
        self.assertEqual(("b", 4), (self.leases.holder, len(self.asked)))

    def test_what_changes_is_told_once(self):
        away = ServiceError("nobody answers there")
        for answer in (INFO, INFO, away, away, away, INFO):
            self.answers["east"] = answer
            self.after(30)
        self.assertEqual(
            ["zone east: active", "zone east: still active: nobody answers there",
             "zone east: not active: nobody answers there", "zone east: active"],
            [line for line in self.lines if "east" in line],
        )  # fmt: skip

    def test_a_state_that_is_away_is_waited_for_and_told_once(self):
        self.zones.away = True
        self.after(0)
        self.after(1)
        self.zones.away = False
        self.after(1)
        self.assertEqual(["waiting: the state is away"], self.lines[:1])
        self.assertEqual((2, 1), (len(self.asked), self.lines.count(self.lines[0])))

    def test_it_runs_until_its_end_and_then_gives_up_the_lease(self):
        waits = []
        poller = ZonePoller(
            self.zones, self.leases, self.ask, holder="c", interval_s=30.0,
            tell=self.lines.append, clock=self.clock, sleep=waits.append,
        )  # fmt: skip
        poller.run(lambda: len(waits) == 2)
        self.assertEqual(([1.0, 1.0], None), (waits, self.leases.holder))
