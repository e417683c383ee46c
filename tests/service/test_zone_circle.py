# SPDX-License-Identifier: Apache-2.0
"""Zones that are below each other: what asks all of them ends where it began."""

import contextlib
import unittest

from tests.service.zone_services import ZoneServices, scheduler

POOL = {
    "pools": [{"id": "z"}],
    "blocks": [{"uri": "/b1", "type": ["Compute"], "pools": ["z"],
                "devices": {"processors": [{"cores": 16}]}}],
}  # fmt: skip


class TestCircle(unittest.TestCase):
    """Two zones, each the child of the other."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        zones = ZoneServices(stack)
        self.urls = [zones.start(name, [{"id": f"{name}-podm", **POOL}]) for name in ("a", "b")]
        zones.add_child("a", "b", self.urls[1])
        zones.add_child("b", "a", self.urls[0])

    def test_lists_and_names_end_where_they_began(self):
        for url, own, other in zip(self.urls, "ab", "ba", strict=True):
            top = scheduler(url)
            with self.subTest(url):
                self.assertEqual([], list(top.claims()))
                self.assertEqual([], list(top.nodes()))
                below = f"{other}/{other}-podm"
                self.assertEqual(below, top.podm(f"{other}-podm").podm.id)
                podms = top.podms()
                self.assertEqual([f"{own}-podm", below], [one.podm.id for one in podms])
                self.assertEqual([f"{other}/{own}"], [one.zone for one in podms.silent])
