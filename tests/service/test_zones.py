# SPDX-License-Identifier: Apache-2.0
"""Child zones over real services: added, polled, shown as a tree, and deleted."""

import contextlib
import sqlite3
import tempfile
import unittest
from pathlib import Path

from tests.service.application import ApplicationCase
from tests.service.serving import serving, wait_for
from tests.service.zone_services import child_server
from tests.unit.store.site import podm
from valence_sched.errors import AccessDenied, InputError, NameTaken, UnknownName
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import RESERVED_NAMES, ZoneChange, ZoneRegistration
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.server.wiring import configuration_problems
from valence_sched.service.routes import ROUTES
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.store import Store

NOWHERE = "http://127.0.0.1:9"  # where nothing listens
ROUTING = ZoneSettings(name="top", enable_zone_routing=True, poll_interval_s=1.0)


class ZonesCase(unittest.TestCase):
    """A test case with zones, each a service with its own state."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.environ = dict.fromkeys(homes, str(self.folder))

    def state(self, name):
        return f"sqlite:///{self.folder}/{name}.sqlite"

    def zone(self, name, settings, **words):
        """Return the server of a zone and its scheduler after it has started; the caller may end
        it.
        """
        stack = self.enterContext(contextlib.ExitStack())
        settings = ServiceSettings(state=self.state(name), reader=False, zones=settings, **words)
        url = stack.enter_context(serving(settings, self.environ))
        return stack, url

    def child(self, name, told=None, **words):
        return self.zone(name, ZoneSettings(name=told or name, **words))

    def scheduler(self, url):
        return RemoteScheduler(ServiceConnection(url))

    def polled(self, scheduler, name, check):
        """Return a child zone after a check of its report succeeds."""
        return wait_for(lambda: (one := scheduler.zone(name)) and check(one.report) and one)


class TestPolling(ZonesCase):
    """Reports of children."""

    def test_a_child_is_stored_then_polled_and_lost_and_found(self):
        """S44, S49, S54: capabilities, name and the active flag follow the child."""
        _, top_url = self.zone("top", ROUTING)
        top = self.scheduler(top_url)
        stack, url = self.child("rack", "dallas", capabilities="os=linux;bsd")
        Store(self.state("rack")).update_stats("h", {"compute": {"cpu": 0.7}})
        added = top.add_zone(ZoneRegistration(name="east", url=url))
        self.assertEqual((False, None), (added.report.is_active, added.report.info))
        found = self.polled(top, "east", lambda report: report.is_active)
        info = found.report.info
        self.assertEqual(("dallas", {"os": ("linux", "bsd")}), (info.name, info.capabilities))
        wait_for(lambda: top.zone("east").report.info.services == {"compute_cpu": (0.7, 0.7)})
        stack.close()
        gone = self.polled(top, "east", lambda report: not report.is_active)
        self.assertRegex(gone.report.reason, "does not answer")
        self.assertGreaterEqual(gone.report.failures, 3)
        stack, url = self.child("rack", "austin")
        top.change_zone("east", ZoneChange(url=url))
        found = self.polled(top, "east", lambda report: report.is_active)
        self.assertEqual(("austin", {}), (found.report.info.name, found.report.info.capabilities))

    def test_one_with_wrong_credentials_is_skipped_with_the_reason(self):
        """S58: the other children are used."""
        users = ApplicationCase.users_file(self, "up:reader")
        _, top_url = self.zone("top", ROUTING)
        top = self.scheduler(top_url)
        _, url = self.zone("rack", ZoneSettings(), auth="basic", users_file=users)
        secret = self.folder / "secret"
        for name, password in (("right", "up"), ("wrong", "down")):
            file = secret.with_name(name)
            file.write_text(password)
            file.chmod(0o600)
            reference = PasswordReference(file=str(file))
            top.add_zone(ZoneRegistration(name=name, url=url, username="up", password=reference))
        missing = PasswordReference(env="NOT_SET_ANYWHERE")
        top.add_zone(ZoneRegistration(name="unset", url=url, username="up", password=missing))
        self.polled(top, "right", lambda report: report.is_active)
        for name, reason in (
            ("wrong", "user"),
            ("unset", "NOT_SET_ANYWHERE of its password is not"),
        ):
            one = self.polled(top, name, lambda report: report.failures)
            self.assertFalse(one.report.is_active)
            self.assertIn(reason, one.report.reason)


class TestRegistry(ZonesCase):
    """Child zones that an operator configures."""

    def setUp(self):
        super().setUp()
        slow = ZoneSettings(name="top", enable_zone_routing=True, poll_interval_s=3600.0)
        _, url = self.zone("top", slow)
        self.top = self.scheduler(url)

    def add(self, name="east", url=NOWHERE, **words):
        return self.top.add_zone(ZoneRegistration(name=name, url=url, **words))

    def test_a_name_that_a_path_of_the_service_has_is_refused(self):
        prefix = "/v1/zones/"
        paths = {
            route.path.removeprefix(prefix) for route in ROUTES if route.path.startswith(prefix)
        }
        self.assertEqual(set(RESERVED_NAMES), paths - {"{name}"})
        for name in RESERVED_NAMES:
            with self.assertRaisesRegex(InputError, "the service has paths of these names"):
                self.add(name)
        self.assertEqual((), tuple(self.top.zones()))

    def test_one_that_is_not_reached_is_added_listed_changed_and_deleted(self):
        """S52: adding only stores."""
        first, second = self.add(weight_scale=0.5), self.add("west")
        self.assertEqual([first.id, second.id], [one.id for one in self.top.zones()])
        changed = self.top.change_zone(str(first.id), ZoneChange(enabled=False, weight_offset=-1.0))
        self.assertEqual(
            (False, 0.5, -1.0, NOWHERE),
            (changed.registration.enabled, changed.registration.weight_scale,
             changed.registration.weight_offset, changed.registration.url),
        )  # fmt: skip
        errors = [*self.top.delete_zones(["nope", "east"])]
        self.assertEqual([UnknownName], [type(error) for error in errors])
        self.assertEqual(["west"], [one.registration.name for one in self.top.zones()])

    def test_what_contradicts_itself_is_refused_and_no_secret_is_repeated(self):
        self.add()
        with self.assertRaises(NameTaken):
            self.add()
        reference = PasswordReference(env="SECRET")
        for words, text in (
            ({"url": "ftp://x"}, "which is not http://HOST or https://HOST"),
            ({"url": "http://u:hunter2@x"}, "a URL with a user or password in it"),
            ({"url": "http://x:99999"}, "an invalid URL"),
            ({"url": "http://x y"}, "invalid characters"),
            ({"name": "7"}, "a name that is not a number"),
            ({"name": "a/b"}, "printable characters without /"),
            ({"username": "u"}, "a username without a password"),
            ({"password": reference}, "a password without a username"),
            ({"username": "u", "password": PasswordReference()}, "exactly one of env and file"),
            ({"username": "u", "password": PasswordReference(stored=True)}, "one of env and file"),
        ):
            with self.subTest(text), self.assertRaises(InputError) as caught:
                self.add(**{"name": "other", **words})
            self.assertIn(text, str(caught.exception))
            self.assertNotIn("hunter2", str(caught.exception))
        with self.assertRaisesRegex(InputError, "weight_scale"):
            self.add("other", weight_scale=-1.0)
        with self.assertRaisesRegex(InputError, "both"):
            self.top.change_zone("east", ZoneChange(username="u"))

    def test_deleting_one_touches_nothing_of_its_own(self):
        """S55: only the entry of the parent is deleted; a running child is not called."""
        _, url = self.child("rack")
        Store(self.state("rack")).remember(podm("p"))
        heard = []
        spy = self.enterContext(child_server(lambda _path, _query: {}, heard))
        self.add(url=url)
        self.add("spy", url=spy)
        self.assertFalse(self.top.zone_tree().children[0].silent)
        self.polled(self.top, "east", lambda report: report.is_active)
        self.polled(self.top, "spy", lambda report: report.reason)
        before, asked = self.kept("rack"), len(heard)
        self.assertEqual([], [*self.top.delete_zones(["east", "spy"])])
        self.assertEqual((before, asked), (self.kept("rack"), len(heard)))
        self.assertEqual((), self.top.zone_tree().children)

    def kept(self, name):
        file = self.state(name).removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return "\n".join(connection.iterdump())

    def test_only_an_admin_sees_how_zones_are_reached(self):
        users = ApplicationCase.users_file(self, "ann:admin", "rob:reader")
        settings = ZoneSettings(enable_zone_routing=True, poll_interval_s=3600.0)
        _, url = self.zone("guarded", settings, auth="basic", users_file=users)
        ann, rob = (
            RemoteScheduler(ServiceConnection(url, user=name, password=name))
            for name in ("ann", "rob")
        )
        ann.add_zone(ZoneRegistration(name="east", url=NOWHERE))
        for verb in (rob.zones, lambda: rob.zone("east"), lambda: [*ann.zones(), *rob.zones()]):
            with self.assertRaises(AccessDenied):
                verb()
        for error in rob.delete_zones(["east"]):
            self.assertIsInstance(error, AccessDenied)
        self.assertEqual("default", rob.zone_info().name)
        self.assertNotIn(NOWHERE, str(rob.zone_tree(deadline_s=5.0).known_as))
        self.assertEqual(1, len(ann.zones()))


class TestSettings(ZonesCase):
    """Invalid settings are found before the service starts."""

    def problems(self, state=None, **words):
        zones = ZoneSettings(**words)
        settings = ServiceSettings(state=state or self.state("top"), zones=zones)
        return [str(error) for error in configuration_problems(settings, self.environ)]

    def test_a_secret_that_cannot_be_had_is_named(self):
        missing = PasswordReference(env="NOT_SET_ANYWHERE")
        (problem,) = self.problems(secrets=(missing,))
        self.assertRegex(problem, "^zones: secrets: .* NOT_SET_ANYWHERE")

    def test_processes_on_a_database_server_need_a_secret_to_share(self):
        state = "postgresql://127.0.0.1:9/state"
        problems = self.problems(state, enable_zone_routing=True)
        self.assertRegex("\n".join(problems), "zones: secrets is empty")
        self.assertNotRegex("\n".join(self.problems(state)), "zones")

    def test_a_state_in_a_file_needs_none(self):
        self.assertEqual([], self.problems(enable_zone_routing=True))


class TestTree(ZonesCase):
    """The whole tree, seen from the top."""

    def setUp(self):
        super().setUp()
        self.slow = {"enable_zone_routing": True, "poll_interval_s": 3600.0}

    def test_a_grandchild_is_in_the_tree_and_not_in_the_state(self):
        _, leaf = self.child("leaf", "rack-7")
        Store(self.state("leaf")).remember(podm("p", blocks=3))
        Store(self.state("leaf")).update_stats("h", {"load": 1})
        _, mid = self.child("mid", **self.slow)
        _, top = self.child("top", **self.slow)
        self.scheduler(mid).add_zone(ZoneRegistration(name="leaf", url=leaf))
        scheduler = self.scheduler(top)
        scheduler.add_zone(ZoneRegistration(name="mid", url=mid))
        tree = scheduler.zone_tree()
        (middle,) = tree.children
        (lowest,) = middle.children
        self.assertEqual(["top", "mid", "rack-7"], [tree.name, middle.name, lowest.name])
        self.assertEqual(["", "mid", "leaf"], [tree.known_as, middle.known_as, lowest.known_as])
        self.assertEqual([0, 0, 1], [one.own.podms for one in (tree, middle, lowest)])
        self.assertIsNotNone(lowest.age_s)
        names = [one.registration.name for one in Store(self.state("top")).zones.list()]
        self.assertEqual(["mid"], names)
        self.assertEqual((), scheduler.zone_tree(hops=1).children[0].children)
        self.assertEqual((), scheduler.zone_tree(hops=0).children)

    def test_one_that_does_not_answer_says_why_and_the_others_are_there(self):
        _, good = self.child("good")
        _, top = self.child("top", **self.slow)
        scheduler = self.scheduler(top)
        scheduler.add_zone(ZoneRegistration(name="good", url=good))
        scheduler.add_zone(ZoneRegistration(name="gone", url=NOWHERE))
        scheduler.add_zone(ZoneRegistration(name="off", url=NOWHERE, enabled=False))
        found = {one.known_as: one.silent for one in scheduler.zone_tree().children}
        self.assertEqual({"good", "gone"}, {*found})
        self.assertEqual("", found["good"])
        self.assertRegex(found["gone"], "does not answer")

    def test_a_child_with_more_levels_than_allowed_is_left_out(self):
        """A tenant got an internal error: its answer was too deep to be searched for names."""
        deep = b'{"children":[' * 400 + b"]}" * 400
        url = self.enterContext(child_server(lambda *_: deep))
        _, top = self.child("top", **self.slow)
        scheduler = self.scheduler(top)
        scheduler.add_zone(ZoneRegistration(name="deep", url=url))
        for hops in (1, MOST_HOPS):
            (found,) = scheduler.zone_tree(hops=hops).children
            expected = f"its tree has more levels than the {hops} allowed"
            self.assertEqual(("deep", expected, ()), (found.known_as, found.silent, found.children))

    def test_a_circle_ends(self):
        _, one = self.child("one", **self.slow)
        _, two = self.child("two", **self.slow)
        self.scheduler(one).add_zone(ZoneRegistration(name="two", url=two))
        self.scheduler(two).add_zone(ZoneRegistration(name="one", url=one))
        (lower,) = self.scheduler(one).zone_tree().children
        (again,) = lower.children
        self.assertRegex(again.silent, "the zones form a cycle")

    def test_without_routing_nothing_below_is_asked_nor_polled(self):
        """S56: routing must be enabled."""
        Store(self.state("top")).zones.add(ZoneRegistration(name="east", url=NOWHERE))
        _, top = self.child("top")
        scheduler = self.scheduler(top)
        self.assertEqual((), scheduler.zone_tree().children)
        self.assertEqual(["east"], [one.registration.name for one in scheduler.zones()])
        with self.assertRaisesRegex(
            AccessDenied,
            "child zones are not enabled: set enable_zone_routing: true in the section zones of "
            "the settings of the service",
        ):
            scheduler.add_zone(ZoneRegistration(name="west", url=NOWHERE))
        self.assertIsNone(Store(self.state("top")).zones.show("east").polled_age_s)
