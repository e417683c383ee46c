# SPDX-License-Identifier: Apache-2.0
"""Zones below: which of them a name stands for."""

import unittest

from valence_sched.errors import ServiceError, UnknownName
from valence_sched.zones.below import ZonesBelow

BELOW = ZonesBelow(None, {"east": "zone east is not active"})


class TestNames(unittest.TestCase):
    """A child by its name."""

    def test_one_that_is_no_child_is_told_to_be_added(self):
        for find in (BELOW.child, BELOW.part):
            with self.assertRaisesRegex(ServiceError, "^it is no longer a child zone: add it"):
                find("eats")

    def test_of_one_that_cannot_be_asked_the_reason_is_told(self):
        for find in (BELOW.child, BELOW.part):
            with self.assertRaisesRegex(ServiceError, "^zone east is not active$"):
                find("east")

    def test_a_router_has_no_pod_managers_of_its_own(self):
        with self.assertRaisesRegex(UnknownName, "^no node named 'n' "):
            BELOW.find("node", "n")
