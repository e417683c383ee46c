# SPDX-License-Identifier: Apache-2.0
"""A report read back is the report that was written."""

import unittest

import msgspec

from tests.unit.core.deciders import cpu, engine_of, gpu
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import InputError, NewerSchema
from valence_sched.model.decision import parse_report
from valence_sched.model.inventory import to_json
from valence_sched.planning.batches import decide_all
from valence_sched.testing import request

CARD = {"accelerators": [{}]}


class TestReports(unittest.TestCase):
    """Ours whole, others as far as they are known."""

    def setUp(self):
        podm = {"id": "a", "blocks": [cpu("c", 8), gpu("g")]}
        other = {"id": "b", "zone": "z", "blocks": [cpu("c", 4)], "nodes": [{"uri": "n"}]}
        asked = request({"processor": {"total_cores": 8}}, alternates=1)
        self.report = decision_report(engine_of(podm, other).select_destinations(asked))

    def document(self, **changes):
        return msgspec.json.encode({**msgspec.to_builtins(self.report), **changes})

    def test_what_was_written_is_read(self):
        self.assertEqual((self.report, []), parse_report(to_json(self.report), "r"))

    def test_unknown_fields_are_named_with_their_places(self):
        podms = msgspec.to_builtins(self.report.podms)
        podms[1]["reason"]["mood"] = 1
        policy = {**msgspec.to_builtins(self.report.policy), "mood": 1}
        report, (warning,) = parse_report(self.document(podms=podms, policy=policy), "r")
        self.assertEqual(self.report, report)
        self.assertIn("$.policy.mood, $.podms[1].reason.mood", warning)

    def test_many_unknown_fields_are_counted(self):
        _, (warning,) = parse_report(self.document(**{f"x{n}": n for n in range(9)}), "r")
        self.assertIn("$.x4 and 4 more", warning)

    def test_maps_whose_keys_are_free_lose_nothing(self):
        chosen = self.report.placements[0].chosen
        report, warnings = parse_report(to_json(self.report), "r")
        self.assertEqual((chosen.scores, []), (report.placements[0].chosen.scores, warnings))

    def test_a_report_of_several_decisions_is_read(self):
        podm = {"id": "a", "blocks": [cpu("c", 8)]}
        asked = request({"processor": {"total_cores": 8}}, count=2, min_count=1)
        reports = decide_all(engine_of(podm), [asked, request(CARD, min_count=0)]).report()
        self.assertEqual((reports, []), parse_report(to_json(reports), "r"))
        document = {**msgspec.to_builtins(reports), "mood": 1}
        read, (warning,) = parse_report(msgspec.json.encode(document), "r")
        self.assertEqual(reports, read)
        self.assertIn("$.mood", warning)

    def test_another_schema_and_a_newer_major_version_are_refused(self):
        with self.assertRaisesRegex(InputError, "found an inventory, expected a decision"):
            parse_report(self.document(schema="valence-sched/inventory"), "r")
        with self.assertRaises(NewerSchema):
            parse_report(self.document(version="2.0"), "r")
        with self.assertRaisesRegex(InputError, "a version such as"):
            parse_report(self.document(version="new"), "r")
