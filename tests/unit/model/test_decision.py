# SPDX-License-Identifier: Apache-2.0
"""Reports of decisions, matching of words, and replays."""

import unittest

import msgspec

from tests.unit.core.deciders import cpu, engine_of, gpu
from tests.unit.planning.sites import replay_of
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import InputError, NewerSchema, UnknownName
from valence_sched.model.decision import parse_report
from valence_sched.model.inventory import to_json
from valence_sched.model.need import has_words
from valence_sched.model.replay import (
    SweepRun,
    changes,
    check_measure_names,
    compare_seeds,
    measures,
    parse_replay,
)
from valence_sched.planning.batches import decide_all
from valence_sched.testing import request

CARD = {"accelerators": [{}]}


class TestReports(unittest.TestCase):
    """Our reports are complete, others as far as they are known."""

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


class TestWords(unittest.TestCase):
    """Model names are free text."""

    # (text of the podm, requested words, whether the text contains them)
    TABLE = (
        ("NVIDIA A100-SXM4-80GB", "A100", True),
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("NVIDIA A100-SXM4-80GB", "nvidia a100", True),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB", False),  # not adjacent
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB", True),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4", True),
        ("NVIDIA A100-SXM4-80GB", "A10", False),  # only whole words match
        ("NVIDIA A10", "A100", False),
        ("NVIDIA A10", "A10", True),
        ("NVIDIA A10G", "A10", False),
        ("NVIDIA A100X", "A100", False),
        ("Tesla V100_PCIE_16GB", "v100", True),
        ("Intel(R) Xeon(R) Gold 6338", "Xeon Gold", True),
        ("Intel(R) Xeon(R) Gold 6338", "Gold 6338", True),
        ("Intel Xeon Gold 6338", "Gold Xeon", False),
        ("AMD EPYC 7713", "EPYC", True),
        ("AMD EPYC 7713", "EPYC 7713 64-Core", False),
        ("", "A100", False),
        ("A100", "", False),
        ("A100", "--", False),
        ("Straße GPU", "STRASSE", True),
    )

    def test_words_stand_whole_in_order_and_side_by_side(self):
        for text, words, expected in self.TABLE:
            with self.subTest(text=text, words=words):
                self.assertIs(expected, has_words(text, words))


def numbers(replay):
    return measures(replay.runs[0])


class TestDocument(unittest.TestCase):
    def test_what_is_written_is_read_again(self):
        replay = replay_of(placed=3, refused=1)
        self.assertEqual((replay, []), parse_replay(to_json(replay), "r.json"))

    def test_another_document_and_a_newer_major_version_are_refused(self):
        replay = replay_of()
        for fields, error in (({"schema": "other"}, InputError), ({"version": "2.0"}, NewerSchema)):
            with self.assertRaises(error):
                parse_replay(to_json(msgspec.structs.replace(replay, **fields)), "r.json")
        _, warnings = parse_replay(to_json(msgspec.structs.replace(replay, version="1.9")), "r")
        self.assertEqual(1, len(warnings))


class TestMeasures(unittest.TestCase):
    def test_a_run_has_its_numbers_and_none_where_it_has_none(self):
        found = numbers(replay_of(placed=3, refused=1))
        self.assertEqual((4, 3, 1), (found["requested"], found["placed"], found["refused"]))
        self.assertEqual(0.25, found["utilisation.cores"])
        self.assertIsNone(found["cost"])

    def test_costs_are_those_of_a_placed_node(self):
        found = numbers(replay_of(placed=4, cost=6.0))
        self.assertEqual((1.5, 0.25), (found["cost_per_node"], found["podms_per_node"]))
        found = numbers(replay_of(placed=0, cost=6.0))
        self.assertEqual((None, None), (found["cost_per_node"], found["podms_per_node"]))


def seeds(**variations: dict[str, list[float]]) -> list[SweepRun]:
    """Return a run for each variation and seed, with each measure by seed."""
    runs = []
    for name, by_measure in variations.items():
        for seed, values in enumerate(zip(*by_measure.values(), strict=True)):
            found = dict(zip(by_measure, values, strict=True))
            runs.append(SweepRun(question="q", scenario=name, policy=None, seed=seed, requests=9,
                                 departed=0, duration_s=1.0, measures=found))  # fmt: skip
    return runs


def best(runs: list[SweepRun]) -> dict[str, str | None]:
    return {one.measure: "unclear" if one.is_unclear else one.best
            for one in compare_seeds(runs)}  # fmt: skip


class TestSeeds(unittest.TestCase):
    """Variations that are compared over seeds."""

    def test_a_difference_within_what_seeds_change_has_no_best(self):
        base = [90, 80, 85, 70, 75]
        for more, expected in (
            ([3, 3, -3, 0, 0], "unclear"),
            ([3, 3, 2, 4, 3], "b"),
            ([0, 0, 0, 0, 0], None),
            ([5, 5, 5, 5, 5], "b"),
        ):
            with self.subTest(more):
                other = [one + some for one, some in zip(base, more, strict=True)]
                runs = seeds(a={"placed": base}, b={"placed": other})
                self.assertEqual({"placed": expected}, best(runs))
        (one,) = compare_seeds(seeds(a={"placed": [1, 2, 3]}))
        self.assertEqual(({"a": 2.0}, None), (one.means, one.best))
        self.assertAlmostEqual(3**-0.5, one.errors["a"])

    def test_one_seed_tells_of_none_that_it_is_the_best(self):
        self.assertEqual({"placed": "unclear"},
                         best(seeds(a={"placed": [1]}, b={"placed": [99]})))  # fmt: skip

    def test_of_several_the_best_is_clearly_above_each_other(self):
        low, high, near = [10, 11, 12, 13], [20, 21, 22, 23], [20, 22, 21, 23]
        runs = seeds(a={"placed": low}, b={"placed": high}, c={"placed": near})
        self.assertEqual({"placed": "unclear"}, best(runs))
        runs = seeds(a={"placed": low}, b={"placed": high})
        self.assertEqual({"placed": "b"}, best(runs))

    def test_fewer_is_better_of_refusals_and_neither_of_utilisation(self):
        few, many = [1, 2, 1, 2], [9, 8, 9, 8]
        runs = seeds(a={"refused": few, "utilisation.cores": few},
                     b={"refused": many, "utilisation.cores": many})  # fmt: skip
        self.assertEqual({"refused": "a", "utilisation.cores": None}, best(runs))

    def test_a_variation_that_placed_fewer_nodes_is_never_the_best_at_cost(self):
        cheap, dear = [1.0, 1.1, 1.0, 1.1], [2.0, 2.1, 2.0, 2.1]
        for placed, expected in (([9, 8, 9, 8], "unclear"), ([30, 29, 30, 29], "a")):
            with self.subTest(placed):
                runs = seeds(a={"placed": placed, "cost_per_node": cheap},
                             b={"placed": [20, 20, 20, 21], "cost_per_node": dear})  # fmt: skip
                self.assertEqual(expected, best(runs)["cost_per_node"])

    def test_seeds_that_only_one_of_them_has_are_not_paired(self):
        runs = [*seeds(a={"placed": [5, 6, 7]}, b={"placed": [8, 9, 10]})[:-2]]
        self.assertEqual({"placed": "unclear"}, best(runs))


class TestBaseline(unittest.TestCase):
    BEFORE = replay_of(placed=100)

    def changed(self, after, tolerance=0.0, **tolerances):
        by_name = {name.replace("__", "."): share for name, share in tolerances.items()}
        return [one.measure for one in changes(self.BEFORE, after, tolerance, by_name)]

    def test_a_measure_differs_by_more_than_its_share(self):
        after = replay_of(placed=105)
        self.assertEqual(["requested", "placed"], self.changed(after))
        self.assertEqual([], self.changed(after, 0.05))
        self.assertEqual(["requested", "placed"], self.changed(after, 0.049))
        self.assertEqual(["placed"], self.changed(after, 0.049, requested=0.05))

    def test_where_it_was_0_nothing_else_is_tolerated(self):
        self.assertEqual(["refused"], self.changed(replay_of(placed=99, refused=1), 0.5))

    def test_the_part_before_the_dot_stands_for_all_of_its_measures(self):
        after = replay_of(placed=100, cores=0.3)
        self.assertEqual(["utilisation.cores"], self.changed(after, 0.1))
        self.assertEqual([], self.changed(after, 0.1, utilisation=0.2))
        narrow = {"utilisation": 0.2, "utilisation__cores": 0.1}
        self.assertEqual(["utilisation.cores"], self.changed(after, 0.1, **narrow))

    def test_a_number_that_came_or_went_differs_whatever_is_tolerated(self):
        after = replay_of(placed=100, cost=1.0)
        self.assertEqual(["cost"], self.changed(after, 100.0))

    def test_a_run_that_came_or_went_is_named(self):
        after = replay_of(placed=100, site="other")
        found = changes(self.BEFORE, after, 0.0, {})
        rows = [(one.run, one.measure, one.before, one.after) for one in found]
        self.assertEqual([("base", "run", 1, None), ("other", "run", None, 1)], rows)

    def test_an_unknown_measure_is_named_with_the_nearest(self):
        check_measure_names(("placed", "utilisation", "utilisation.cores"), self.BEFORE)
        with self.assertRaisesRegex(UnknownName, "no measure named 'refusd' .*'refused'"):
            check_measure_names(("refusd",), self.BEFORE)
        with self.assertRaisesRegex(UnknownName, "no measure named ''"):
            check_measure_names(("",), self.BEFORE)
