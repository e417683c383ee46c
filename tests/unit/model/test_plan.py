# SPDX-License-Identifier: Apache-2.0
"""Plans as documents: whole, unchanged, without secrets, and what moved since."""

import json
import unittest

import msgspec
from msgspec import ValidationError
from msgspec.structs import replace

from tests.unit.core.deciders import built_in
from tests.unit.store.site import CORES, podm
from valence_sched.config.schemas import json_schema
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import InputError, NewerSchema
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.plan import (
    Plan,
    make_plan,
    parse_plan,
    plan_drift,
    podm_digest,
    same_placement,
)
from valence_sched.testing import request
from valence_sched.view.builder import ViewBuilder


def make_test_plan(*podms, count: int = 1):
    builder = ViewBuilder()
    for one in podms:
        builder.add(msgspec.json.decode(to_json(one), type=LeanPodm), "test")
    decision = Decider(builder.view(), built_in()).select_destinations(request(CORES, count=count))
    return make_plan(decision_report(decision), podms, "2030-01-01T00:00:00Z")


class TestPlan(unittest.TestCase):
    """From a decision to a file and back."""

    def setUp(self):
        self.podm = podm("p", url="https://op:canary@h/", facts={"x": 1.0})
        self.plan = make_test_plan(self.podm, podm("other", 0))
        self.text = to_json(self.plan)

    def changed(self, **fields) -> bytes:
        return json.dumps({**json.loads(self.text), **fields}).encode()

    def test_it_comes_back_as_it_was(self):
        plan, warnings = parse_plan(msgspec.json.format(self.text, indent=4), "f")
        self.assertEqual((self.plan, []), (plan, warnings))

    def test_only_those_that_take_a_node_are_in_it_and_no_credentials(self):
        (basis,) = self.plan.podms
        self.assertEqual("p", basis.podm.id)
        self.assertEqual(podm_digest(self.podm), basis.digest)
        self.assertNotIn(b"canary", self.text)

    def test_every_change_is_noticed(self):
        document = json.loads(self.text)
        document["podms"][0]["podm"]["facts"]["x"] = 2.0
        for text in (json.dumps(document).encode(), self.changed(digest="0" * 32),
                     self.changed(more=1), self.changed(decided_at=None)):  # fmt: skip
            with self.assertRaisesRegex(InputError, "somebody changed it"):
                parse_plan(text, "f")

    def test_what_no_pod_manager_of_it_has_is_refused(self):
        whole = json.loads(self.text)
        for name, value in (("podm", "q"), ("blocks", [{"uri": "/gone", "type": []}])):
            document = json.loads(self.text)
            document["decision"]["placements"][0]["chosen"][name] = value
            with self.subTest(name), self.assertRaisesRegex(ValidationError, "Expected .*(q|gone)"):
                msgspec.convert(document, Plan)
        with self.assertRaisesRegex(ValidationError, "each pod manager once"):
            msgspec.convert({**whole, "podms": whole["podms"] * 2}, Plan)

    def test_a_newer_major_version_is_refused_before_anything_else(self):
        with self.assertRaisesRegex(NewerSchema, "found 2.0, expected at most 1.x"):
            parse_plan(self.changed(version="2.0"), "f")

    def test_a_newer_minor_version_is_read_without_what_is_unknown(self):
        from valence_sched.model import plan as module

        newer = self.changed(version="1.7", mood="fine")
        newer = json.dumps({**json.loads(newer), "digest": module._plan_digest(newer)}).encode()
        plan, (warning,) = parse_plan(newer, "f")
        self.assertEqual(self.plan.decision, plan.decision)
        self.assertIn("unknown and left out: $.mood", warning)

    def test_one_of_an_older_version_is_read(self):
        from valence_sched.model import plan as module

        older = self.changed(version="1.0")
        older = json.dumps({**json.loads(older), "digest": module._plan_digest(older)}).encode()
        plan, warnings = parse_plan(older, "f")
        self.assertEqual(("1.0", "", []), (plan.version, plan.signature, warnings))

    def test_what_moved_is_named_and_when_it_was_read_is_not(self):
        later = replace(self.podm, generation=9, read_at="2031-01-01T00:00:00Z", url="http://new")
        self.assertEqual([], list(plan_drift(self.plan, {"p": later})))
        (one,) = plan_drift(self.plan, {"p": replace(later, facts={"x": 2.0})})
        self.assertEqual(("facts", {"x": 1.0}, {"x": 2.0}), (one.change, one.before, one.after))
        (one,) = plan_drift(self.plan, {})
        self.assertEqual(("p", "removed"), (one.podm, one.change))

    def test_the_same_is_the_same_place_and_blocks(self):
        first, second = make_test_plan(podm("p"), count=2).decision.placements
        self.assertTrue(same_placement(first, first))
        self.assertFalse(same_placement(first, second))
        self.assertFalse(same_placement(first, None))

    def test_it_is_what_its_schema_says(self):
        import jsonschema

        jsonschema.validate(json.loads(self.text), json.loads(json_schema("plan")))
