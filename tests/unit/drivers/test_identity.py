# SPDX-License-Identifier: Apache-2.0
"""The identity of a service: what its root tells, or the one manager that stands for it."""

import unittest

from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.identity import told_identity
from valence_sched.drivers.links import ROOT, LinkedDocuments

MANAGERS = f"{ROOT}/Managers"
ONE, TWO = (f"{MANAGERS}/{number}" for number in (1, 2))
UUID = "8f2d6c1e-3b7a-4d90-9c55-0a1b2c3d4e5f"


def page(*uris, following=None):
    """Return a page of managers, which links the one that follows."""
    json = {"Members": [{"@odata.id": uri} for uri in uris]}
    return json | ({"Members@odata.nextLink": following} if following else {})


class TestManagers(unittest.TestCase):
    """A service without a UUID is known by its manager, if it has one."""

    def identity(self, **pages):
        documents = {ROOT: {"Managers": {"@odata.id": MANAGERS}}, ONE: {"UUID": UUID}, TWO: {}}
        documents |= {MANAGERS + name.replace("first", ""): json for name, json in pages.items()}
        return told_identity(documents.get, LinkedDocuments(documents.get, NO_NOTES))

    def test_the_only_manager_stands_for_the_service(self):
        self.assertIn(UUID, self.identity(first=page(ONE)))

    def test_it_may_stand_on_any_page(self):
        self.assertIn(UUID, self.identity(first=page(following=MANAGERS + "2"), **{"2": page(ONE)}))

    def test_of_managers_on_several_pages_none_stands_for_the_service(self):
        second = {"2": page(TWO)}
        self.assertIsNone(self.identity(first=page(ONE, following=MANAGERS + "2"), **second))

    def test_behind_a_page_that_cannot_be_read_there_may_be_others(self):
        self.assertIsNone(self.identity(first=page(ONE, following=MANAGERS + "2")))


if __name__ == "__main__":
    unittest.main()
