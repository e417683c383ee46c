# SPDX-License-Identifier: Apache-2.0
"""What a rack's dialect consists of, and its links of which an empty object is none."""

import unittest

from tests.unit.drivers.rsd.rack import NODE, Rack
from valence_sched.drivers.fields import NO_NOTES, Resource
from valence_sched.drivers.rsd.dialect import rsd
from valence_sched.drivers.rsd.schema import OptionalLink, PooledDevice


class Holder(Resource):
    """Anything with such links."""

    one = OptionalLink("Links/One", PooledDevice, "the only one")
    other = OptionalLink("Other", PooledDevice, "read where nothing else is", late=True)


class TestDialect(unittest.TestCase):
    def test_its_composer_composes_on_the_session_that_it_is_given(self):
        rack = Rack()
        composer = rsd().composer(rack, rack.patience)
        self.assertEqual("composed", composer.compose(NODE, rack.states.append).state)

    def test_of_all_amounts_it_composes_storage_alone(self):
        self.assertEqual({"storage_gib"}, rsd().amounts)


class TestOptionalLink(unittest.TestCase):
    def test_an_empty_object_is_no_link_and_all_others_are_read(self):
        for value, links in (({}, ()), (None, ()), ({"@odata.id": "/D/1"}, ("/D/1",)),
                             ([{"@odata.id": "/D/1"}, {}], ("/D/1", "")), ([], ())):  # fmt: skip
            with self.subTest(value):
                json = {"Links": {"One": value}, "Other": value}
                holder = Holder("/h", json, NO_NOTES)
                self.assertEqual((links, links), (holder.one, holder.other))

    def test_it_is_declared_as_any_link_is(self):
        declared = [(it.path, it.to, it.doc, it.late) for it in (Holder.one, Holder.other)]
        self.assertEqual(("Links/One", PooledDevice, "the only one", False), declared[0])
        self.assertEqual(("Other", PooledDevice, "read where nothing else is", True), declared[1])
