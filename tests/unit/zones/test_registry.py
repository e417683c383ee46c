# SPDX-License-Identifier: Apache-2.0
"""The registry of child zones: what it stores, what it refuses, and the trees below it."""

import tempfile
import unittest
from pathlib import Path

from tests.unit.zones.http_zone import http_zone
from valence_sched.errors import AccessDenied, InputError, NameTaken, RequestError, UnknownName
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import (
    ZoneAmounts,
    ZoneChange,
    ZoneInfo,
    ZoneNode,
    ZoneRegistration,
    ZoneReport,
)
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone
from valence_sched.zones.children import ZonePoller, ZoneRegistry

ROUTING = ZoneSettings(enable_zone_routing=True, poll_interval_s=30.0)
EAST = ZoneRegistration(name="east", url="http://127.0.0.1:1")
WEST = ZoneRegistration(name="west", url="http://127.0.0.1:2")


class State:
    """A state that is made when it is first opened for writing."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "zone.sqlite"
        self.where = f"sqlite:///{self._path}"

    @property
    def empty(self) -> bool:
        return not self._path.exists()

    def store(self) -> Store:
        return Store(self.where)


class RegistryCase(unittest.TestCase):
    """Each test has a state of its own, which is not there yet."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = State(folder.name)
        self.passwords: list[str] = []
        self.registry = self.with_settings(ROUTING)

    def with_settings(self, settings: ZoneSettings) -> ZoneRegistry:
        return ZoneRegistry(settings, "/etc/zone.yaml", self.state, self.password)

    def password(self, child: ZoneRegistration) -> str | None:
        self.passwords.append(child.name)
        return "secret" if child.username else None


class TestRows(RegistryCase):
    """Adding, changing and deleting."""

    def test_before_the_first_zone_there_is_nothing_and_no_state_is_made(self):
        self.assertEqual(((), "", ()), (
            self.registry.list(), self.registry.own_id(), self.registry.branches(3, 5.0),
        ))  # fmt: skip
        with self.assertRaises(UnknownName) as caught:
            self.registry.show("east")
        self.assertIn("no child zone named 'east'", str(caught.exception))
        self.assertIn(self.state.where, str(caught.exception))
        self.assertTrue(self.state.empty)

    def test_zones_are_listed_by_name_and_shown_by_name_or_id(self):
        for one in (WEST, EAST):
            self.registry.add(one)
        self.assertEqual([EAST, WEST], [one.registration for one in self.registry.list()])
        west = self.registry.show("west")
        self.assertEqual(WEST, west.registration)
        self.assertEqual(west, self.registry.show(str(west.id)))
        self.assertNotEqual("", self.registry.own_id())
        self.assertEqual(self.registry.own_id(), self.with_settings(ROUTING).own_id())

    def test_what_is_invalid_or_there_already_is_refused(self):
        self.registry.add(EAST)
        with self.assertRaises(NameTaken):
            self.registry.add(EAST)
        with self.assertRaises(InputError):
            self.registry.add(ZoneRegistration(name="a/b", url=EAST.url))
        with self.assertRaises(InputError):
            self.registry.change("east", ZoneChange(url="ftp://east"))
        self.assertEqual([EAST], [one.registration for one in self.registry.list()])

    def test_a_change_keeps_what_it_does_not_name(self):
        before = self.registry.add(EAST)
        changed = self.registry.change("east", ZoneChange(weight_scale=0.5))
        self.assertEqual((before.id, EAST.url, 0.5), (
            changed.id, changed.registration.url, changed.registration.weight_scale,
        ))  # fmt: skip
        self.assertEqual(changed, self.registry.show("east"))
        with self.assertRaises(UnknownName):
            self.registry.change("north", ZoneChange(weight_scale=0.5))

    def test_a_zone_that_is_deleted_is_forgotten(self):
        for one in (WEST, EAST):
            self.registry.add(one)
        self.registry.delete("west")
        self.assertEqual([EAST], [one.registration for one in self.registry.list()])
        with self.assertRaises(UnknownName):
            self.registry.delete("west")

    def test_without_routing_nothing_is_changed_and_the_setting_is_named(self):
        self.registry.add(EAST)
        off = self.with_settings(ZoneSettings())
        for change in (
            lambda: off.add(WEST),
            lambda: off.change("east", ZoneChange(weight_scale=0.5)),
            lambda: off.delete("east"),
        ):
            with self.assertRaisesRegex(
                AccessDenied, "enable_zone_routing: true in /etc/zone.yaml"
            ):
                change()
        self.assertEqual([EAST], [one.registration for one in off.list()])


class TestCapabilities(RegistryCase):
    """What a child told of itself, which expires."""

    INFO = ZoneInfo(id="e", name="East", capabilities={"gpu": ("a100",)},
                    services={"podm_cores": (1.0, 8.0)})  # fmt: skip

    def told(self, **report: object) -> None:
        added = self.registry.add(EAST)
        with self.state.store() as store:
            polled = ZoneReport(is_active=True, reason="", info=self.INFO, **report)
            store.zones.record([PolledZone(added, polled)])

    def test_what_was_told_of_late_is_shown(self):
        self.told()
        for shown in (self.registry.show("east"), *self.registry.list()):
            self.assertEqual(self.INFO, shown.report.info)

    def test_the_name_that_a_child_gives_itself_is_captured_by_the_next_poll(self):
        """S79: beside the name that this zone has for it."""
        self.registry.add(EAST)
        told = ["Europe"]

        def ask(_child: ZoneRegistration) -> ZoneInfo:
            return ZoneInfo(id="e", name=told[-1], services={"compute_cores": (1.0, 2.0)})

        with self.state.store() as store:
            poller = ZonePoller(store.zones, store.leases, ask, holder="p", interval_s=30.0,
                                tell=lambda _line: None, clock=lambda: 0.0,
                                sleep=lambda _s: None)  # fmt: skip
            for name in ("Europe", "EMEA"):
                told.append(name)
                poller.poll(store.zones.list())
                (shown,) = self.registry.list()
                self.assertEqual(("east", name), (shown.registration.name, shown.report.info.name))
                self.assertEqual({"compute_cores": (1.0, 2.0)}, shown.report.info.services)

    def test_what_was_told_long_ago_is_left_out_and_the_zone_is_still_known(self):
        self.told(failures=1)  # of no poll it is known when it was answered
        for shown in (self.registry.show("east"), *self.registry.list()):
            info = shown.report.info
            self.assertEqual(("e", "East", {}, {}),
                             (info.id, info.name, info.capabilities, info.services))  # fmt: skip
            self.assertEqual((True, 1), (shown.report.is_active, shown.report.failures))


class TestBranches(RegistryCase):
    """The trees of the zones below, asked over HTTP."""

    def test_each_is_asked_for_what_is_below_it_and_named_as_it_is_known_here(self):
        with http_zone() as zone:
            below = ZoneNode(name="Deep", own=ZoneAmounts(podms=2))
            zone.answers["/v1/zones/tree"] = ZoneNode(name="East", children=(below,))
            self.registry.add(ZoneRegistration(name="east", url=zone.url, username="me",
                                               password=PasswordReference(env="PW")))  # fmt: skip
            (found,) = self.registry.branches(3, 50.0, ("top",))
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
            self.registry.add(ZoneRegistration(name="east", url=zone.url))
            self.registry.add(WEST)
            east, west = self.registry.branches(1, 20.0)
            self.assertEqual(("East", ""), (east.name, east.silent))
            self.assertEqual(("", "west"), (west.name, west.known_as))
            self.assertIn("nobody answers there", west.silent)
            self.assertNotIn("Authorization", zone.asked[0].headers)

    def test_nothing_is_asked_of_disabled_zones_beyond_the_last_level_or_without_routing(self):
        with http_zone() as zone:
            zone.answers["/v1/zones/tree"] = ZoneNode(name="East")
            self.registry.add(ZoneRegistration(name="east", url=zone.url))
            self.assertEqual((), self.registry.branches(0, 20.0))
            self.assertEqual((), self.with_settings(ZoneSettings()).branches(3, 20.0))
            self.registry.change("east", ZoneChange(enabled=False))
            self.assertEqual((), self.registry.branches(3, 20.0))
            self.assertEqual([], zone.asked)

    def test_zones_in_a_circle_are_refused(self):
        self.registry.add(EAST)
        with self.assertRaisesRegex(RequestError, "one of them is below itself"):
            self.registry.branches(3, 20.0, ("top", self.registry.own_id()))
