# SPDX-License-Identifier: Apache-2.0
"""Changes of nodes as nouns: their forms, their plans in a file, and the state of a node."""

import json
import unittest

import msgspec
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from tests.schemas import json_schema
from valence_sched.errors import InputError, NewerSchema, RequestError
from valence_sched.model.claim import ComposedNode
from valence_sched.model.flavor import Properties
from valence_sched.model.inventory import to_json
from valence_sched.model.node_change import (
    BlockChange,
    NodeChange,
    NodeChangeResult,
    parse_change_plan,
    plan_change,
)
from valence_sched.model.request_spec import properties_of

NODE = ComposedNode(id="vs-1", podm="p", uri="/S/1", claim="1", blocks=("/B/1",))
PLANNED = NodeChangeResult(node=NODE, attached=(BlockChange("/B/2"),))


class TestForms(unittest.TestCase):
    """A change has one form."""

    def test_several_forms_are_refused_but_a_plan_may_have_a_flavor_and_its_blocks(self):
        for fields in (
            {}, {"flavor": "f", "idle": True}, {"attach": Properties(), "idle": True},
            {"flavor": "f", "attach_blocks": ("b",)}, {"flavor": "f", "before": ("b",), "idle": 1},
        ):  # fmt: skip
            with self.subTest(fields), self.assertRaises(ValueError):
                NodeChange(**fields)
        NodeChange(flavor="f", attach_blocks=("b",), before=("a",))


class TestPlans(unittest.TestCase):
    """The plan of a change in a file."""

    def setUp(self):
        self.plan = plan_change(NodeChange(flavor="f", power_cycle=True, policy="pack"), PLANNED)
        self.text = to_json(self.plan)

    def test_a_plan_has_the_exact_blocks_and_all_else_of_the_change(self):
        change = NodeChange(flavor="f", policy="pack", power_cycle=True,
                            attach_blocks=("/B/2",), before=("/B/1",))  # fmt: skip
        self.assertEqual(("vs-1", "p", change), (self.plan.node, self.plan.podm, self.plan.change))
        self.assertEqual((self.plan, []), parse_change_plan(self.text, "f"))
        Draft202012Validator(json.loads(json_schema("node-change"))).validate(json.loads(self.text))

    def test_a_plan_that_was_edited_is_refused(self):
        for text in (self.text.replace(b"vs-1", b"vs-2"), to_json(replace(self.plan, digest=""))):
            with self.assertRaisesRegex(InputError, "digest of other content.*make it again"):
                parse_change_plan(text, "f")

    def test_a_plan_of_a_newer_program_is_refused(self):
        text = to_json(replace(self.plan, version="2.0"))
        with self.assertRaises(NewerSchema):
            parse_change_plan(text, "f")


class TestNode(unittest.TestCase):
    """The state of a node."""

    def test_a_node_is_in_the_state_of_its_change(self):
        for changing, state in (
            ((), "COMPOSED"),
            (("/B/1",), "DETACHING"),
            (("/B/2",), "ATTACHING"),
        ):
            self.assertEqual(state, replace(NODE, changing=changing).state)


class TestProperties(unittest.TestCase):
    """Devices that options describe."""

    def test_options_and_resource_classes_are_one_noun(self):
        given = {"accelerators": [{"count": 2}], "processor": {"total_cores": 4}}
        found = properties_of(given, {"PGPU": 1, "MEMORY_MB": 1024})
        counts = [one.count for one in found.accelerators]
        self.assertEqual(
            ([2, 1], 4, 1024), (counts, found.processor.total_cores, found.memory.capacity_mib)
        )
        with self.assertRaisesRegex(RequestError, "processor is given twice"):
            properties_of(given, {"VCPU": 4})
        self.assertEqual(found, msgspec.json.decode(to_json(found), type=Properties))
