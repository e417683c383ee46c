# SPDX-License-Identifier: Apache-2.0
"""Child zones behind a real Keystone: the zone above logs in to them with tokens."""

import contextlib
import types
import unittest

from tests.service.keystone_server import ADMIN_PASSWORD, keystone
from tests.service.test_zone_children import podm
from tests.service.zone_services import ZoneServices, scheduler
from valence_sched.model.need import Need
from valence_sched.model.registration import PasswordReference
from valence_sched.model.request import Request
from valence_sched.service.settings import KeystoneSettings

_STACK = contextlib.ExitStack()
SITE = types.SimpleNamespace()
ASKED = Request(needs=(Need(kind="processor", measure="cores", amount=8),))


def setUpModule():
    """Start one Keystone, with a user that may request offers of a zone, and one that may not."""
    SITE.server = _STACK.enter_context(keystone())
    project = SITE.server.make_project("zones")
    for name, role in (("above", "admin"), ("reader", "reader")):
        user = SITE.server.make_user(name, f"{name}-password")
        SITE.server.grant(user, role, f"projects/{project}")


def tearDownModule():
    _STACK.close()


class TestChildrenBehindKeystone(unittest.TestCase):
    """Only tokens of Keystone give access to a child."""

    def setUp(self):
        self.zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        access = KeystoneSettings(
            auth_url=SITE.server.url, username="admin", project_name="admin",
            password=self.secret("service", ADMIN_PASSWORD),
        )  # fmt: skip
        self.child = self.zones.start("child", [podm("inside")], auth="keystone", keystone=access)

    def secret(self, name, password):
        path = self.zones.folder / f"{name}.secret"
        path.write_text(password)
        path.chmod(0o600)
        return PasswordReference(file=str(path))

    def decide(self, user, password=None, **login):
        """Return the decision of a zone over a child with this login."""
        top = f"top-{user}-{password}"
        url = self.zones.start(top, [podm("own")])
        words = {"username": user, "auth_url": SITE.server.url, "project": "zones", **login}
        reference = self.secret(top, password or f"{user}-password")
        self.zones.add_child(top, "child", self.child, password=reference, **words)
        both = Request(needs=ASKED.needs, count=2, min_count=0)
        return scheduler(url).select_destinations(both).report

    def test_a_user_with_the_role_has_the_offers(self):
        report = self.decide("above", user_domain="Default")
        self.assertEqual((), report.zones.silent)
        self.assertEqual({"own", "inside"}, {one.chosen.podm for one in report.placements})

    def test_why_a_child_is_not_opened_is_its_reason(self):
        for user, password, reason in (
            ("reader", None, "zones:offers"),
            ("above", "wrong", "Keystone at .* rejects the login of 'above'"),
        ):
            with self.subTest(user):
                report = self.decide(user, password)
                (silent,) = report.zones.silent
                self.assertRegex(silent.reason, reason)
                self.assertNotIn("password", silent.reason)
                self.assertEqual(["own"], [one.chosen.podm for one in report.placements])
