# SPDX-License-Identifier: Apache-2.0
"""External resources: from names to places."""

import unittest

from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.proximity import (
    ExternalResource,
    Place,
    external_resources,
    resolve_resource,
)
from valence_sched.model.request import Proximity


class FixedResolver:
    """Knows one volume, and another without its place."""

    where = "shelf"

    def find(self, kind, name):
        places = {"v-1": Place(zone="z1"), "v-2": Place()}
        return places.get(name) if kind == "volume" else None

    def known(self, kind):
        return ["v-1", "v-2"] if kind == "volume" else []

    def kinds(self):
        return ["volume"]


class TestResources(unittest.TestCase):
    """From names to places."""

    def test_a_map_of_kinds_gives_resources(self):
        names_by_kind = {"volume": "v", "port": ["p", "q"]}
        resources = external_resources(names_by_kind, soft=True)
        self.assertEqual(
            ["volume v", "port p", "port q"], [resource.text for resource in resources]
        )
        self.assertEqual({True}, {resource.soft for resource in resources})
        for wrong in ({"volume": ""}, {"": "v"}, {"volume": ["v", ""]}):
            with self.assertRaisesRegex(RequestError, "a kind and a name"):
                external_resources(wrong)

    def test_the_first_resolver_that_knows_a_resource_has_its_place(self):
        near = resolve_resource(ExternalResource("volume", "v-1", soft=True), [FixedResolver()])
        self.assertEqual(Proximity(thing="volume v-1", zone="z1", soft=True), near)

    def test_an_unknown_resource_is_refused_with_the_sources_and_the_nearest(self):
        with self.assertRaises(UnknownName) as caught:
            resolve_resource(ExternalResource("volume", "v-11"), [FixedResolver(), FixedResolver()])
        line = "looked in shelf, shelf: no volume named 'v-11' (did you mean 'v-1'?)"
        self.assertEqual(line, str(caught.exception))
        with self.assertRaisesRegex(RequestError, "shelf knows volume v-2 but does not tell where"):
            resolve_resource(ExternalResource("volume", "v-2"), [FixedResolver()])
        with self.assertRaisesRegex(RequestError, "nobody is there to ask .* --near-map"):
            resolve_resource(ExternalResource("volume", "v-1"), [])
