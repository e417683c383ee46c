# SPDX-License-Identifier: Apache-2.0
"""Requests as people write them, and what they compile to."""

import unittest

import msgspec

from valence_sched.app import App
from valence_sched.config.parsers import parse_requests
from valence_sched.errors import SchedulerError
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import to_json
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec, compile_request

FLAVOR = {
    "name": "web",
    "properties": {"processor": {"total_cores": 4}},
    "zone": "a",
    "aggregates": ["ssd"],
    "capabilities": "os=linux, net=fast",
    "attributes": {"year": ">= 2020"},
    "traits": {"required": ["X"], "any_of": [["P", "Q"]]},
    "where": ["=", "$zone", "a"],
    "policy": "pack",
}


def compiled(**words):
    flavor = convert(FLAVOR, Flavor, "f")
    return compile_request(convert({"flavor": "web", **words}, RequestSpec, "f"), flavor)


class TestCompiled(unittest.TestCase):
    """A flavor, and what the request says beyond it."""

    def test_what_is_not_said_is_the_flavors(self):
        request = compiled()
        self.assertEqual(("a", "pack", 0), (request.zone, request.policy, request.seed))
        self.assertEqual(("ssd",), request.aggregates.required)
        self.assertEqual({"os": ("linux",), "net": ("fast",)}, request.capabilities)
        self.assertEqual(FLAVOR["where"], request.where)

    def test_single_words_take_the_flavors_place(self):
        request = compiled(zone="b", policy="default", seed=7, capabilities={"os": ["bsd"]},
                       attributes={"facts.year": "< 2020"})  # fmt: skip
        self.assertEqual(("b", "default", 7), (request.zone, request.policy, request.seed))
        self.assertEqual({"os": ("bsd",), "net": ("fast",)}, request.capabilities)
        self.assertEqual({"facts.year": "< 2020"}, request.attributes)

    def test_names_and_expressions_add_up(self):
        request = compiled(aggregates={"forbidden": ["hdd"]}, traits={"required": ["X", "Y"]},
                       where=["=", "$facts.row", 1])  # fmt: skip
        self.assertEqual(("ssd",), request.aggregates.required)
        self.assertEqual(("hdd",), request.aggregates.forbidden)
        self.assertEqual(("X", "Y"), request.traits.required)
        self.assertEqual((("P", "Q"),), request.traits.any_of)
        self.assertEqual(["and", FLAVOR["where"], ["=", "$facts.row", 1]], request.where)


class TestFiles(unittest.TestCase):
    """Strict, and one line for what is wrong."""

    def refuses(self, line, text):
        with self.assertRaises(SchedulerError) as caught:
            parse_requests(text.encode(), "f")
        self.assertEqual(line, str(caught.exception))

    def test_one_request_or_many(self):
        one = parse_requests(b"{flavor: web, count: 2}", "f")
        many = parse_requests(b"requests: [{flavor: web}, {id: x, properties: {nics: [{}]}}]", "f")
        self.assertEqual([("$", 2)], [(place, asked.count) for place, asked in one])
        self.assertEqual(["$.requests[0]", "$.requests[1]"], [place for place, _ in many])

    def test_what_is_wrong_is_named_with_its_place(self):
        self.refuses("f: $.requests[0]: found unknown field 'flavour' (did you mean 'flavor'?)",
                     "requests: [{flavour: web}]")  # fmt: skip
        self.refuses("f: $.requests[1].id: found 'a' again, expected its own id",
                     "requests: [{id: a, flavor: x}, {id: a, flavor: x}]")  # fmt: skip
        self.refuses("f: $.requests[0].count: found 0, expected `int` >= 1".replace("`", ""),
                     "requests: [{flavor: web, count: 0}]")  # fmt: skip

    def test_a_flavor_or_properties_and_never_both(self):
        for text in ("count: 1", "{flavor: web, properties: {nics: [{}]}}"):
            with self.assertRaisesRegex(SchedulerError, "flavor, or else properties"):
                parse_requests(text.encode(), "f")

    def test_a_compiled_request_of_a_newer_major_version_is_refused(self):
        """S20."""
        text = '{"schema": "valence-sched/request", "version": "%s", "seed": 3}'
        ((_, request),) = parse_requests((text % "1.0").encode(), "f")
        self.assertEqual(3, request.seed)
        with self.assertRaisesRegex(SchedulerError, "version"):
            parse_requests((text % "2.0").encode(), "f")

    def test_an_unknown_flavor_is_named_with_its_place(self):
        app = App(environ={}, stdin=_Stdin(b"requests: [{flavor: smal}]"))
        with self.assertRaises(SchedulerError) as caught:
            app.config.read_requests("-")
        self.assertRegex(str(caught.exception), r"\$\.requests\[0\]\.flavor.*did you mean 'small'")


class _Stdin:
    def __init__(self, data):
        self.data = data

    def read(self, size):
        return self.data[:size]


if __name__ == "__main__":
    unittest.main()


class TestSending(unittest.TestCase):
    """A compiled request is the same one where it arrives."""

    def test_every_built_in_flavor_is_the_same_request_after_it_was_sent(self):
        """S68: an amount that is read back otherwise would be another request, and other lots."""
        flavors = App(environ={"XDG_CONFIG_HOME": "/nope"}).config.flavors().values()
        self.assertGreater(len(flavors), 3)
        for flavor in flavors:
            with self.subTest(flavor.name):
                request = compile_request(RequestSpec(flavor=flavor.name), flavor)
                arrived = msgspec.json.decode(to_json(request), type=Request)
                self.assertEqual(to_json(request), to_json(arrived))
                self.assertEqual(request.identity, arrived.identity)
