# SPDX-License-Identifier: Apache-2.0
"""Replay documents and their measures: which is better, and what differs from a baseline."""

import unittest

import msgspec

from tests.unit.planning.workloads import replay_of
from valence_sched.errors import InputError, NewerSchema, UnknownName
from valence_sched.model.inventory import to_json
from valence_sched.model.replay import (
    best_runs,
    changes,
    check_measure_names,
    measures,
    parse_replay,
)


def numbers(replay):
    return {one.name: one.value for one in measures(replay.runs[0])}


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

    def test_the_better_run_has_more_placed_and_less_refused(self):
        self.assertEqual({"a"}, best_runs({"a": 3, "b": 2, "c": None}, "higher"))
        self.assertEqual({"b", "c"}, best_runs({"a": 3, "b": 2, "c": 2}, "lower"))

    def test_no_run_is_better_where_all_are_equal_or_neither_way_is(self):
        self.assertEqual(frozenset(), best_runs({"a": 2, "b": 2}, "higher"))
        self.assertEqual(frozenset(), best_runs({"a": 3, "b": 2}, None))
        self.assertEqual(frozenset(), best_runs({"a": 3}, "lower"))
        self.assertEqual(frozenset(), best_runs({"a": 0.9071, "b": 0.9074}, "higher", 3))


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
