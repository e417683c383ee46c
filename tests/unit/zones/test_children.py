# SPDX-License-Identifier: Apache-2.0
"""Children: the child zones, as decisions see them, and their polls."""

import tempfile
import threading
import unittest
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from tests.unit.zones.http_zone import http_zone
from valence_sched.errors import (
    AccessDenied,
    CredentialError,
    InputError,
    NameTaken,
    RequestError,
    ServiceError,
    StoreError,
    Unauthenticated,
    UnknownName,
)
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import (
    ZoneAmounts,
    ZoneChange,
    ZoneInfo,
    ZoneNode,
    ZoneOverview,
    ZoneRegistration,
    ZoneReport,
)
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone
from valence_sched.zones.children import Children, ZonePoller, ZoneRegistry

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
    """Child zones in a state, with the numbers of their changes and reads."""

    def __init__(self, *rows):
        self.rows, self.moved, self.reads = list(rows), 0, 0

    def changes(self):
        return self.moved

    def list(self):
        self.reads += 1
        return self.rows


class TestChildren(unittest.TestCase):
    """The children that can be asked."""

    def capabilities(self, heard_age_s):
        zone = ZoneOverview(id=1, registration=EAST, report=HEARD, heard_age_s=heard_age_s)
        (listed,) = Children(lambda: Listed(zone), 30.0).list()
        self.assertEqual(EAST, listed.registration)
        return listed.report.info.capabilities

    def test_what_it_told_expires_after_three_intervals(self):
        """S47: a report expires after three intervals."""
        self.assertEqual({"os": ("linux",)}, self.capabilities(90.0))
        self.assertEqual({}, self.capabilities(90.1))
        self.assertEqual({}, self.capabilities(None))

    def test_they_are_read_where_they_changed_and_once_a_second(self):
        clock = Clock()
        zones = Listed(ZoneOverview(id=1, registration=EAST, report=HEARD, heard_age_s=1.0))
        children = Children(lambda: zones, 30.0, clock)
        for at, changes, reads in ((0, 0, 1), (0.9, 0, 1), (0.95, 1, 2), (1.9, 1, 2), (2, 1, 3)):
            clock.at, zones.moved = at, changes
            self.assertEqual(["east"], [one.registration.name for one in children.list()])
            self.assertEqual(reads, zones.reads, at)

    def test_what_they_told_expires_without_a_change(self):
        clock, told = Clock(), ZoneOverview(id=1, registration=EAST, report=HEARD, heard_age_s=89.0)
        zones = Listed(told)
        children = Children(lambda: zones, 30.0, clock)
        self.assertEqual({"os": ("linux",)}, children.list()[0].report.info.capabilities)
        zones.rows, clock.at = [replace(told, heard_age_s=90.5)], 1001.5
        self.assertEqual({}, children.list()[0].report.info.capabilities)


class Zones:
    """The child zones of a state whose time is a test clock."""

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

    def release(self, _name, holder):
        if self.holder == holder:
            self.holder = None


class Clock:
    """The seconds of a test."""

    at = 1000.0

    def __call__(self):
        return self.at


class TestPolling(unittest.TestCase):
    """One process polls the children at their interval."""

    def setUp(self):
        self.clock, self.leases, self.lines = Clock(), Leases(), []
        self.zones = Zones(self.clock, EAST, replace(EAST, name="west"))
        self.answers = {"east": INFO, "west": replace(INFO, name="houston")}
        self.asked = []
        self.poller = self.new_poller("a")

    def new_poller(self, holder):
        return ZonePoller(
            self.zones, self.leases, self.ask, holder=holder, interval_s=30.0,
            log=self.lines.append, clock=self.clock, sleep=lambda _s: None,
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
        """S49: a renamed child has its new name after a poll."""
        self.after(0)
        self.assertEqual(INFO, self.report().info)
        renamed = ZoneInfo(name="austin", capabilities={"os": ("bsd",)})
        self.answers["east"] = renamed
        self.after(29)
        self.assertEqual(INFO, self.report().info)
        self.after(1)
        self.assertEqual(renamed, self.report().info)

    def test_it_is_active_after_one_success_and_not_after_three_failures(self):
        """S54: the active flag follows the polls."""
        states = []
        away = ServiceError("does not answer")
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
        self.answers["east"] = ServiceError("does not answer")
        self.after(30)
        report = self.report()
        self.assertEqual((INFO, "does not answer"), (report.info, report.reason))
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
        self.assertEqual((False, "its URL is of this zone itself: set the URL of a child zone"),
                         (self.report().is_active, self.report().reason))  # fmt: skip

    def test_one_that_hangs_costs_its_deadline_and_is_a_failure(self):
        release = threading.Event()
        self.addCleanup(release.set)
        self.poller = ZonePoller(
            self.zones, self.leases, lambda one: self.hang(one, release), holder="a",
            interval_s=30.0, log=self.lines.append, clock=self.clock, sleep=lambda _s: None,
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
        away = ServiceError("does not answer")
        for answer in (INFO, INFO, away, away, away, INFO):
            self.answers["east"] = answer
            self.after(30)
        self.assertEqual(
            ["zone east: active", "zone east: still active: does not answer",
             "zone east: not active: does not answer", "zone east: active"],
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
            log=self.lines.append, clock=self.clock, sleep=waits.append,
        )  # fmt: skip
        poller.run(lambda: len(waits) == 2)
        self.assertEqual(([1.0, 1.0], None), (waits, self.leases.holder))


ROUTING = ZoneSettings(enable_zone_routing=True, poll_interval_s=30.0)
NEAR = ZoneRegistration(name="east", url="http://127.0.0.1:1")
WEST = ZoneRegistration(name="west", url="http://127.0.0.1:2")


class State:
    """A state that is created when it is first opened for writing."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "zone.sqlite"
        self.where = f"sqlite:///{self._path}"

    @property
    def empty(self) -> bool:
        return not self._path.exists()

    def store(self) -> Store:
        return Store(self.where)

    def reports(self):
        return {}


class RegistryCase(unittest.TestCase):
    """Each test has its own state, which does not exist yet."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = State(folder.name)
        self.passwords: list[str] = []
        self.registry = self.with_settings(ROUTING)

    def with_settings(self, settings: ZoneSettings) -> ZoneRegistry:
        own = (tuple, lambda: datetime.now(UTC))
        file = "/etc/zone.yaml"
        return ZoneRegistry(settings, file, self.state, self.password, EffectLog(), *own)

    def password(self, child: ZoneRegistration) -> str | None:
        self.passwords.append(child.name)
        return "secret" if child.username else None


class TestRows(RegistryCase):
    """Adding, changing and deleting."""

    def test_before_the_first_zone_there_is_nothing_and_no_state_is_made(self):
        self.assertEqual(((), "", ()), (
            self.registry.zones(), self.registry.own_id(), self.registry.zone_branches(),
        ))  # fmt: skip
        with self.assertRaises(UnknownName) as caught:
            self.registry.zone("east")
        self.assertIn("no child zone named 'east'", str(caught.exception))
        self.assertIn(self.state.where, str(caught.exception))
        self.assertTrue(self.state.empty)

    def test_zones_are_listed_by_name_and_shown_by_name_or_id(self):
        for one in (WEST, NEAR):
            self.registry.add_zone(one)
        self.assertEqual([NEAR, WEST], [one.registration for one in self.registry.zones()])
        west = self.registry.zone("west")
        self.assertEqual(WEST, west.registration)
        self.assertEqual(west, self.registry.zone(str(west.id)))
        self.assertNotEqual("", self.registry.own_id())
        self.assertEqual(self.registry.own_id(), self.with_settings(ROUTING).own_id())

    def test_what_is_invalid_or_there_already_is_refused(self):
        self.registry.add_zone(NEAR)
        with self.assertRaises(NameTaken):
            self.registry.add_zone(NEAR)
        with self.assertRaises(InputError):
            self.registry.add_zone(ZoneRegistration(name="a/b", url=NEAR.url))
        with self.assertRaises(InputError):
            self.registry.change_zone("east", ZoneChange(url="ftp://east"))
        self.assertEqual([NEAR], [one.registration for one in self.registry.zones()])

    def test_a_change_keeps_what_it_does_not_name(self):
        before = self.registry.add_zone(NEAR)
        changed = self.registry.change_zone("east", ZoneChange(weight_scale=0.5))
        self.assertEqual((before.id, NEAR.url, 0.5), (
            changed.id, changed.registration.url, changed.registration.weight_scale,
        ))  # fmt: skip
        self.assertEqual(changed, self.registry.zone("east"))
        with self.assertRaises(UnknownName):
            self.registry.change_zone("north", ZoneChange(weight_scale=0.5))

    def test_a_zone_that_is_deleted_is_forgotten(self):
        for one in (WEST, NEAR):
            self.registry.add_zone(one)
        self.assertEqual([], list(self.registry.delete_zones(["west"])))
        self.assertEqual([NEAR], [one.registration for one in self.registry.zones()])
        (error,) = self.registry.delete_zones(["west"])
        self.assertIsInstance(error, UnknownName)

    def test_without_routing_nothing_is_changed_and_the_setting_is_named(self):
        self.registry.add_zone(NEAR)
        off = self.with_settings(ZoneSettings())
        for change in (
            lambda: off.add_zone(WEST),
            lambda: off.change_zone("east", ZoneChange(weight_scale=0.5)),
        ):
            with self.assertRaisesRegex(
                AccessDenied, "enable_zone_routing: true in /etc/zone.yaml"
            ):
                change()
        (error,) = off.delete_zones(["east"])
        self.assertIsInstance(error, AccessDenied)
        self.assertEqual([NEAR], [one.registration for one in off.zones()])


class TestCapabilities(RegistryCase):
    """The report of a child, which expires."""

    INFO = ZoneInfo(id="e", name="East", capabilities={"gpu": ("a100",)},
                    services={"podm_cores": (1.0, 8.0)})  # fmt: skip

    def told(self, **report: object) -> None:
        added = self.registry.add_zone(NEAR)
        with self.state.store() as store:
            polled = ZoneReport(is_active=True, reason="", info=self.INFO, **report)
            store.zones.record([PolledZone(added, polled)])

    def test_what_was_told_of_late_is_shown(self):
        self.told()
        for shown in (self.registry.zone("east"), *self.registry.zones()):
            self.assertEqual(self.INFO, shown.report.info)

    def test_the_name_that_a_child_gives_itself_is_captured_by_the_next_poll(self):
        """S79: in addition to its name in this zone."""
        self.registry.add_zone(NEAR)
        told = ["Europe"]

        def ask(_child: ZoneRegistration) -> ZoneInfo:
            return ZoneInfo(id="e", name=told[-1], services={"compute_cores": (1.0, 2.0)})

        with self.state.store() as store:
            poller = ZonePoller(store.zones, store.leases, ask, holder="p", interval_s=30.0,
                                log=lambda _line: None, clock=lambda: 0.0,
                                sleep=lambda _s: None)  # fmt: skip
            for name in ("Europe", "EMEA"):
                told.append(name)
                poller.poll(store.zones.list())
                (shown,) = self.registry.zones()
                self.assertEqual(("east", name), (shown.registration.name, shown.report.info.name))
                self.assertEqual({"compute_cores": (1.0, 2.0)}, shown.report.info.services)

    def test_what_was_told_long_ago_is_left_out_and_the_zone_is_still_known(self):
        self.told(failures=1)  # the time of an answer without a poll is unknown
        for shown in (self.registry.zone("east"), *self.registry.zones()):
            info = shown.report.info
            self.assertEqual(("e", "East", {}, {}),
                             (info.id, info.name, info.capabilities, info.services))  # fmt: skip
            self.assertEqual((True, 1), (shown.report.is_active, shown.report.failures))


class TestBranches(RegistryCase):
    """The trees of the child zones, requested over HTTP."""

    def test_each_is_asked_for_what_is_below_it_and_named_as_it_is_known_here(self):
        with http_zone() as zone:
            below = ZoneNode(name="Deep", own=ZoneAmounts(podms=2))
            zone.answers["/v1/zones/tree"] = ZoneNode(name="East", children=(below,))
            self.registry.add_zone(ZoneRegistration(name="east", url=zone.url, username="me",
                                               password=PasswordReference(env="PW")))  # fmt: skip
            (found,) = self.registry.zone_branches(hops=3, deadline_s=50.0, route=("top",))
            self.assertEqual(("East", "east", "", (below,)), (
                found.name, found.known_as, found.silent, found.children,
            ))  # fmt: skip
            (asked,) = zone.asked
            self.assertEqual({"hops": "2", "deadline_s": "40.0",
                              "route": f"top,{self.registry.own_id()}"}, asked.query)  # fmt: skip
            self.assertTrue(asked.headers["Authorization"].startswith("Basic "))
            self.assertEqual(["east"], self.passwords)

    def test_a_zone_that_does_not_answer_says_why_and_the_others_are_there(self):
        with http_zone() as zone:
            zone.answers["/v1/zones/tree"] = ZoneNode(name="East")
            self.registry.add_zone(ZoneRegistration(name="east", url=zone.url))
            self.registry.add_zone(WEST)
            east, west = self.registry.zone_branches(hops=1, deadline_s=20.0)
            self.assertEqual(("East", ""), (east.name, east.silent))
            self.assertEqual(("", "west"), (west.name, west.known_as))
            self.assertIn("does not answer", west.silent)
            self.assertNotIn("Authorization", zone.asked[0].headers)

    def test_nothing_is_asked_of_disabled_zones_beyond_the_last_level_or_without_routing(self):
        with http_zone() as zone:
            zone.answers["/v1/zones/tree"] = ZoneNode(name="East")
            self.registry.add_zone(ZoneRegistration(name="east", url=zone.url))
            self.assertEqual((), self.registry.zone_branches(hops=0, deadline_s=20.0))
            self.assertEqual(
                (), self.with_settings(ZoneSettings()).zone_branches(hops=3, deadline_s=20.0)
            )
            self.registry.change_zone("east", ZoneChange(enabled=False))
            self.assertEqual((), self.registry.zone_branches(hops=3, deadline_s=20.0))
            self.assertEqual([], zone.asked)

    def test_zones_in_a_circle_are_refused(self):
        self.registry.add_zone(NEAR)
        with self.assertRaisesRegex(RequestError, "a zone is below itself"):
            self.registry.zone_branches(
                hops=3, deadline_s=20.0, route=("top", self.registry.own_id())
            )
