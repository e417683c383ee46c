# SPDX-License-Identifier: Apache-2.0
"""The interfaces keep the promises of ``golden/stable.json``: additions only."""

import copy
import unittest

from tests.functional.stable import PROMISED, added, breaks, describe, encode, read


class TestInterfaces(unittest.TestCase):
    """The present commands, documents, routes, plug-ins, names and tables."""

    maxDiff = None

    def test_the_present_interfaces_keep_each_promise(self):
        self.assertEqual([], list(breaks(read(), describe())))

    def test_the_file_is_as_the_renewal_writes_it(self):
        self.assertEqual(PROMISED.read_text(encoding="utf-8"), encode(read()))

    def test_each_kind_of_interface_has_promises(self):
        promised = read()
        for kind, names in (
            ("cells", ("podm list", "podm node attach", "scheduler whatif run")),
            ("commands", ("podm schedule", "valence-scheduler serve")),
            ("documents", ("inventory", "plan", "service settings")),
            ("exit codes", ("documented", "NothingFits")),
            ("http", ("routes", "bodies", "answers")),
            ("metrics", ("valence_scheduler_decisions_total", "valence_scheduler_podms")),
            ("plug-ins", ("valence_sched.filters", "valence_sched.dialects")),
            ("python", ("valence_sched.View", "valence_sched.drivers.composer.Composer")),
            ("store", ("claims", "nodes")),
        ):
            with self.subTest(kind):
                self.assertEqual(set(), {*names} - promised[kind].keys())


#: Promises in small.
PROMISES = {
    "cells": {"podm list": {"Nodes": {"types": []}, "Podm": {"types": ["string"]}}},
    "commands": {
        "podm list": {
            "arguments": {"1 name": {"nargs": "?"}},
            "options": {"--sort": {}, "--status": {"choices": ["Offline", "Online"]}},
        }
    },
    "documents": {
        "check": {
            "$defs": {
                "Check": {
                    "properties": {"count": {"type": "integer"}, "limit": {"type": "string"}},
                    "required": ["count"],
                }
            },
            "anyOf": [{"$ref": "#/$defs/Check"}, {"type": "array"}],
        },
        "plan": {"properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
    "exit codes": {"NothingFits": {"exit code": 3}},
    "http": {
        "routes": {"GET /v1/podms": {"parameters": {"query page": {"required": False}}}},
        "bodies": {"$defs": {"Body": {"properties": {"ttl": {"type": "number"}}}}},
        "answers": {
            "$defs": {"Claim": {"properties": {"id": {"type": "string"}}, "required": ["id"]}}
        },
    },
    "metrics": {"valence_scheduler_podms": {"type": "gauge", "labels": "state"}},
    "plug-ins": {"valence_sched.filters": {"alive": {"unknown": {"default": False}}}},
    "python": {
        "valence_sched.View": {"members": {"take": {"parameters": {"rows": {"place": 1}}}}},
        "valence_sched.drivers.Composer": {"members": {}, "implemented by plug-ins": True},
    },
    "store": {"claims": {"id": {"type": "VARCHAR(40)"}}},
}


class TestRules(unittest.TestCase):
    """Changes of promises: which are compatible."""

    def changed(self, *path, to=None):
        """Return the promises with the value at a path removed or replaced."""
        present = copy.deepcopy(PROMISES)
        *parents, last = path
        place = present
        for name in parents:
            place = place[name]
        if to is None:
            del place[last]
        else:
            place[last] = to
        return present

    CHECK = ("documents", "check", "$defs", "Check")
    LIST = ("commands", "podm list")
    TAKE = ("python", "valence_sched.View", "members", "take", "parameters")

    def test_an_addition_is_compatible(self):
        for path, value in (
            (("cells", "podm list"), {}),  # this time it printed no rows
            (("cells", "podm list", "Podm", "types"), []),
            (("cells", "podm list", "Zone"), {"types": ["string"]}),
            (("commands", "podm drain"), {"arguments": {}, "options": {}}),
            ((*self.LIST, "arguments", "2 more"), {"nargs": "*"}),
            ((*self.LIST, "options", "--zone"), {}),
            ((*self.LIST, "options", "--status", "choices"), ["Offline", "Online", "Unknown"]),
            ((*self.CHECK, "properties", "minimum"), {"type": "integer", "minimum": 1}),
            (("documents", "check", "$defs", "Other"), {"enum": ["a"]}),
            (("documents", "check", "anyOf"), [{"type": "array"}, {"$ref": "#/$defs/Check"}, {}]),
            ((*self.CHECK, "required"), []),
            (("exit codes", "Tainted"), {"exit code": 3}),
            (("http", "routes", "GET /v1/racks"), {}),
            (("http", "routes", "GET /v1/podms", "parameters", "query limit"), {"required": False}),
            (("http", "answers", "$defs", "Claim", "required"), ["id", "owner"]),
            (("plug-ins", "valence_sched.filters", "alive", "other"), {"default": 1}),
            ((*self.TAKE, "order"), {"place": 2}),
            (("store", "claims", "taint"), {"type": "VARCHAR(40)"}),
        ):
            with self.subTest(path):
                present = self.changed(*path, to=value)
                self.assertEqual([], list(breaks(PROMISES, present)))

    def test_a_removal_breaks_a_promise(self):
        for path in (
            ("cells", "podm list", "Podm"),
            self.LIST,
            (*self.LIST, "arguments", "1 name"),
            (*self.LIST, "options", "--sort"),
            (*self.CHECK, "properties", "limit"),
            ("exit codes", "NothingFits"),
            ("http", "routes", "GET /v1/podms"),
            ("http", "routes", "GET /v1/podms", "parameters", "query page"),
            ("http", "answers", "$defs", "Claim", "required"),
            ("metrics", "valence_scheduler_podms"),
            ("plug-ins", "valence_sched.filters", "alive"),
            (*self.TAKE, "rows"),
            ("store", "claims", "id"),
            ("store", "claims"),
        ):
            with self.subTest(path):
                (line,) = breaks(PROMISES, self.changed(*path))
                self.assertIn("missing", line)

    def test_another_change_breaks_a_promise(self):
        for path, value in (
            (("cells", "podm list", "Podm", "types"), ["number"]),
            (("cells", "podm list", "Podm", "types"), ["number", "string"]),
            ((*self.LIST, "arguments", "1 name", "nargs"), "+"),
            ((*self.LIST, "arguments", "2 more"), {}),
            ((*self.LIST, "options", "--zone"), {"required": True}),
            ((*self.LIST, "options", "--sort", "choices"), ["name"]),
            ((*self.LIST, "options", "--sort", "nargs"), 0),
            ((*self.LIST, "options", "--status", "choices"), ["Online"]),
            ((*self.CHECK, "properties", "count", "type"), "string"),
            ((*self.CHECK, "properties", "limit", "maxLength"), 8),
            ((*self.CHECK, "required"), ["count", "limit"]),
            (("documents", "check", "anyOf"), [{"$ref": "#/$defs/Check"}]),
            (("documents", "plan", "required"), []),
            (("documents", "plan", "required"), ["id", "name"]),
            (("exit codes", "NothingFits", "exit code"), 4),
            (("http", "routes", "GET /v1/podms", "parameters", "query q"), {"required": True}),
            (("http", "bodies", "$defs", "Body", "required"), ["ttl"]),
            (("http", "answers", "$defs", "Claim", "required"), []),
            (("metrics", "valence_scheduler_podms", "labels"), "state zone"),
            (("metrics", "valence_scheduler_podms", "type"), "counter"),
            (("plug-ins", "valence_sched.filters", "alive", "unknown", "default"), [False]),
            ((*self.TAKE, "order"), {"place": 2, "required": True}),
            ((*self.TAKE, "rows", "place"), 2),
            (("python", "valence_sched.drivers.Composer", "members", "reset"), {}),
            (("store", "claims", "id", "type"), "VARCHAR(8)"),
        ):
            with self.subTest(path):
                self.assertEqual(1, len(list(breaks(PROMISES, self.changed(*path, to=value)))))

    def test_the_renewal_keeps_the_promises_and_adds_what_is_new(self):
        for path in (("store", "claims", "taint"), (*self.LIST, "options", "--zone")):
            present = self.changed(*path, to={})
            self.assertEqual(present, added(PROMISES, present))
        unseen = self.changed("cells", "podm list", "Podm", "types", to=[])
        self.assertEqual(PROMISES, added(PROMISES, unseen))
        more = self.changed("cells", "podm show", to={"Zone": {"types": ["string"]}})
        self.assertEqual(more, added(more, PROMISES))
