# SPDX-License-Identifier: Apache-2.0
"""Children: the zones directly below, as decisions see them."""

import unittest

from msgspec.structs import replace

from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone_registry import (
    ZoneInfo,
    ZoneOverview,
    ZoneRegistration,
    ZoneReport,
)
from valence_sched.zones.children import Children, ChildRow
from valence_sched.zones.merge import Weighting

EAST = ZoneRegistration(
    name="east",
    url="http://east",
    username="up",
    password=PasswordReference(env="EAST"),
    weight_scale=2.0,
    weight_offset=-0.5,
)
INFO = ZoneInfo(name="dallas", capabilities={"os": ("linux",)})
HEARD = ZoneReport(is_active=True, info=INFO, reason="")


class TestChildren(unittest.TestCase):
    """The children that may be asked."""

    def row(self, *, heard_age_s=1.0, report=HEARD, registration=EAST):
        zone = ZoneOverview(
            id=1, registration=registration, report=report, heard_age_s=heard_age_s
        )  # fmt: skip
        (row,) = Children(lambda: [zone], 30.0).enabled()
        return row

    def test_a_child_has_what_it_takes_to_ask_it_and_what_it_told(self):
        expected = ChildRow(
            name="east", url="http://east", username="up", password=PasswordReference(env="EAST"),
            weighting=Weighting(2.0, -0.5), is_active=True, capabilities={"os": ("linux",)},
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

    def test_one_that_is_not_enabled_is_not_there(self):
        zone = ZoneOverview(id=1, registration=replace(EAST, enabled=False), report=HEARD)
        self.assertEqual([], Children(lambda: [zone], 30.0).enabled())
