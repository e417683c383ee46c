# SPDX-License-Identifier: Apache-2.0
"""Workloads: requests of a file in the order of their arrival, or drawn by a seed."""

import itertools
import json
import tracemalloc
import unittest
from collections import Counter

import yaml

from tests.unit.planning.sites import FLAVORS, entries_of, file_workload, times
from valence_sched.errors import InputError, SchedulerError, UnknownName, UsageError
from valence_sched.model.codec import MAX_HUMAN_BYTES
from valence_sched.model.request_spec import SyntheticSpec
from valence_sched.planning.workload import SyntheticWorkload
from valence_sched.planning.workload_lines import MAX_LINE_BYTES

LINES = [
    {"flavor": "cores", "arrival": 0, "duration": "2h", "owner": "a"},
    {"flavor": "card", "count": 3, "min_count": 1, "podms": ["p1", "p2"], "zone": "az1"},
    {"properties": {"processor": {"total_cores": 4}}, "arrival": "1h", "departure": 7200.0},
    {"flavor": "disk", "arrival": 3600, "traits": {"required": ["QUIET"]}, "policy": "pack"},
]
CSV = """flavor,arrival,duration,departure,owner,count,min_count,podms,zone,traits.required,policy,\
properties.processor.total_cores
cores,0,2h,,a,,,,,,,
card,,,,,3,1,p1;p2,az1,,,
,1h,,7200.0,,,,,,,,4
disk,3600,,,,,,,,QUIET,pack,
"""


class TestForms(unittest.TestCase):
    def test_every_form_of_a_workload_says_the_same(self):
        lines = "".join(json.dumps(line) + "\n" for line in LINES)
        found = [
            entries_of(lines, "w.jsonl"),
            entries_of(json.dumps(LINES), "w.json"),
            entries_of(json.dumps({"requests": LINES}), "w.json"),
            entries_of(yaml.safe_dump(LINES), "w.yaml"),
            entries_of("\n" + lines, "-"),
            entries_of(json.dumps(LINES, indent=1), "-"),
            entries_of(yaml.safe_dump(LINES), "-"),
            entries_of("\ufeff" + CSV, "w.csv"),
            entries_of(CSV, "-"),
        ]
        expected = [(0, 7200), (0, None), (3600, 7200), (3600, None)]
        for entries in found:
            self.assertEqual(expected, times(entries))
            self.assertEqual([one.request for one in found[0]], [one.request for one in entries])
        first, second, third, fourth = (one.request for one in found[0])
        self.assertEqual(("cores", "a"), (first.flavor, first.owner))
        self.assertEqual((3, 1, ("p1", "p2"), "az1"),
                         (second.count, second.min_count, second.podms, second.zone))  # fmt: skip
        self.assertEqual((None, 4), (third.flavor, third.needs[0].amount))
        self.assertEqual((("QUIET",), "pack"), (fourth.traits.required, fourth.policy))

    def test_lines_that_differ_in_times_and_id_alone_are_compiled_once(self):
        same = entries_of("flavor,arrival,duration,id\ncores,0,5,a\ncores,1,6,b\ncard,2,7,c\n")
        self.assertIs(same[0].request, same[1].request)
        self.assertIsNot(same[1].request, same[2].request)
        lines = '{"flavor":"cores","id":"a"}\n{"flavor":"cores","id":"b","arrival":9}\n'
        first, second = entries_of(lines, "w.jsonl")
        self.assertIs(first.request, second.request)

    def test_a_group_without_a_name_has_that_of_its_line(self):
        text = 'id,group,properties\n{},"{{""anti_affinity"": [""podm""]}}",{}\n'
        text = text.format("web", '"{""processor"": {""total_cores"": 1}}"')
        (entry,) = entries_of(text)
        self.assertEqual("web", entry.request.group.name)

    def test_keys_of_maps_may_have_dots_and_lists_may_have_objects(self):
        (entry,) = entries_of(
            "flavor,attributes.facts.year,properties.accelerators.0.count\ncores,>= 2022,\n"
        )
        self.assertEqual({"facts.year": ">= 2022"}, entry.request.attributes)
        (entry,) = entries_of(
            "properties.drives.1.count,properties.drives.0.count,properties.drives.0.media\n"
            "2,1,SSD\n"
        )
        self.assertEqual([1, 2], [need.amount for need in entry.request.needs])


class TestTraces(unittest.TestCase):
    TRACE = (
        "name,cpu_milli,mem,num_gpu,created,deleted\na,3152,5600,1,10000,20000\nb,500,8,0,10000,\n"
    )
    COLUMNS = {  # noqa: RUF012
        "arrival": "created/1000", "departure": "deleted/1000",
        "properties__processor__total_cores": "cpu_milli/1000",
        "properties__memory__capacity_mib": "mem", "properties__accelerators__0__count": "num_gpu",
    }  # fmt: skip

    def test_columns_of_other_names_and_units_are_read_by_a_map(self):
        entries = entries_of(self.TRACE, **self.COLUMNS)
        self.assertEqual([(10, 20), (10, None)], times(entries))
        amounts = [{need.kind: need.amount for need in one.request.needs} for one in entries]
        self.assertEqual({"processor": 4, "memory": 5600, "accelerator": 1}, amounts[0])
        self.assertEqual({"processor": 1, "memory": 8}, amounts[1])

    def test_a_column_that_the_trace_lacks_is_named_with_the_nearest(self):
        with self.assertRaisesRegex(InputError, "no column 'creatd' for arrival.*'created'"):
            entries_of(self.TRACE, arrival="creatd")


class TestStreams(unittest.TestCase):
    def test_a_long_stream_takes_no_more_memory_than_a_short_one(self):
        for name, lines in (
            ("w.csv", (b"flavor,arrival\n", b"cores,%d\n")),
            ("w.jsonl", (b"", b'{"flavor":"cores","arrival":%d}\n')),
        ):
            peaks = [self.peak_bytes(name, *lines, count) for count in (500, 5_000)]
            self.assertLess(peaks[1], peaks[0] + 100_000, name)

    def peak_bytes(self, name: str, head: bytes, line: bytes, count: int) -> int:
        workload = file_workload("", name)
        workload.opened = lambda: _Stream(head, line, count)
        tracemalloc.start()
        found = sum(1 for _ in workload.entries(FLAVORS))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertEqual(count, found)
        return peak

    def test_a_line_without_end_is_refused(self):
        with self.assertRaisesRegex(InputError, "line 1: found .* bytes, expected at most"):
            entries_of(b"x" * (MAX_LINE_BYTES + 2), "w.jsonl")


class TestBadLines(unittest.TestCase):
    def assert_refused(self, pattern: str, text: str | bytes, name: str = "w.csv", **words):
        with self.assertRaisesRegex(SchedulerError, pattern) as raised:
            entries_of(text, name, **words)
        self.assertNotIn("\n", str(raised.exception))
        return raised.exception

    def test_a_departure_before_the_arrival_has_its_line(self):
        self.assert_refused(r"w\.csv: line 3: found departure 4, expected .* arrival 5",
                            "flavor,arrival,departure\ncores,1,2\ncores,5,4\n")  # fmt: skip
        for texts in (("2026-03-29T02:30:00-02:00", "2026-03-29T02:30:00-01:00"), ("", "1")):
            since = texts[0] or "1774747800"
            self.assert_refused(
                f"found departure {texts[1]}, expected a time at or after its arrival {since}",
                f"flavor,arrival,departure\ncores,1774747800,\ncores,{','.join(texts)}\n",
            )

    def test_an_arrival_before_the_one_above_it_names_sort_which_sorts(self):
        text = "flavor,arrival\ncores,1\ncard,5\ndisk,4\ncard,4\n"
        self.assert_refused("line 4: found arrival 4 after 5, .*add --sort", text)
        found = entries_of(text, sort=True)
        self.assertEqual(["cores", "disk", "card", "card"], [one.request.flavor for one in found])
        self.assertEqual([2, 4, 5, 3], [one.line for one in found])

    def test_an_empty_workload_is_refused_in_every_form(self):
        for text, name in (("", "w.csv"), ("flavor\n", "w.csv"), ("\n\n", "w.jsonl"),
                           ("[]", "w.json"), ("[]", "w.yaml")):  # fmt: skip
            for sort in (False, True):
                self.assert_refused("found no request", text, name, sort=sort)

    def test_an_unknown_flavor_has_its_line_and_the_nearest(self):
        error = self.assert_refused("line 3: no flavor named 'carts' .*'card'",
                                    "flavor\ncores\ncarts\n")  # fmt: skip
        self.assertIsInstance(error, UnknownName)
        self.assert_refused("request 2: no flavor", '[{"flavor":"card"},{"flavor":"x"}]', "w.json")

    def test_an_unknown_column_and_an_unknown_field_are_named_with_the_nearest(self):
        self.assert_refused("unknown column 'arival'.*'arrival'", "flavor,arival\ncores,1\n")
        self.assert_refused("unknown column 'properties.procesor.*'processor'",
                            "properties.procesor.total_cores\n1\n")  # fmt: skip
        self.assert_refused("line 1: \\$: found unknown field 'arival'.*'arrival'",
                            '{"flavor":"cores","arival":1}', "w.jsonl")  # fmt: skip

    def test_other_mistakes_are_one_line_with_their_place(self):
        for pattern, text, name in (
            ("line 2: found 1 cell, expected 2", "flavor,arrival\ncores\n", "w.csv"),
            ("the column 'flavor' twice", "flavor,flavor\ncores,card\n", "w.csv"),
            ("line 2: found 'soon', expected a duration", "flavor,arrival\ncores,soon\n", "w.csv"),
            ("line 2: found -1, expected seconds", "flavor,duration\ncores,-1\n", "w.csv"),
            (
                "departure and duration, expected one",
                "flavor,departure,duration\ncores,1,1\n",
                "w.csv",
            ),
            ("line 2: \\$.count: found .*expected", "flavor,count\ncores,0\n", "w.csv"),
            ("line 2: \\$: .*a flavor, or else properties", "owner\nme\n", "w.csv"),
            ("line 1: found 3, expected an object", "3\n", "w.jsonl"),
            (
                "line 2: \\$: found the key 'flavor' twice",
                '{"flavor":"cores"}\n{"flavor":"cores","flavor":"card"}\n',
                "w.jsonl",
            ),
            (
                "line 2: \\$.properties.processor: found the key 'total_cores' twice",
                'properties\n"{""processor"": {""total_cores"": 1, ""total_cores"": 2}}"\n',
                "w.csv",
            ),
            (
                "\\$\\[0\\]: found the key 'count' twice",
                '[{"flavor":"cores","count":1,"count":9}]',
                "w.json",
            ),
            (
                "\\$\\[0\\]: found the key 'count' twice",
                '[{"flavor":"cores","count":1,\n' + " " * MAX_HUMAN_BYTES + '"count":9}]',
                "w.json",
            ),
            ("line 2: .*end of the text", '{"flavor":"cores"}\n{\n', "w.jsonl"),
            ("found no list, expected a list", "3", "w.json"),
            ("unknown field 'more'", '{"requests":[],"more":1}', "w.json"),
            ("not UTF-8", b"flavor\n\xff\n", "w.csv"),
            ("expected CSV", 'flavor\n"cores\n', "w.csv"),
            ("line 2: .*near", "flavor,near\ncores," + "[" * 3_000, "w.csv"),
        ):
            with self.subTest(pattern):
                self.assert_refused(pattern, text, name)


class _Stream:
    """A file of any length, which is never stored as a whole."""

    def __init__(self, head: bytes, line: bytes, count: int) -> None:
        self._lines = itertools.chain([head], (line % number for number in range(count)))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def peek(self, _size: int) -> bytes:
        return b""

    def readline(self, _limit: int) -> bytes:
        return next((line for line in self._lines if line), b"")


def drawn(**fields):
    spec = {"rate_per_s": 1.0, "mix": {"cores": 3.0, "card": 1.0}, "horizon_s": 10_000.0}
    workload = SyntheticWorkload(SyntheticSpec(**(spec | fields)))
    return list(workload.entries(FLAVORS))


class TestSyntheticWorkload(unittest.TestCase):
    def test_the_same_seed_draws_the_same_and_another_one_something_else(self):
        self.assertEqual(drawn(seed=7, lifetime_s=60.0), drawn(seed=7, lifetime_s=60.0))
        self.assertNotEqual(drawn(seed=7), drawn(seed=8))

    def test_rate_mix_and_lifetime_are_those_that_were_asked_for(self):
        entries = drawn(seed=1, lifetime_s=60.0)
        self.assertAlmostEqual(10_000, len(entries), delta=400)  # four standard deviations
        flavors = Counter(one.request.flavor for one in entries)
        self.assertAlmostEqual(0.75, flavors["cores"] / len(entries), delta=0.02)
        lifetimes = [one.departure - one.arrival for one in entries]
        self.assertAlmostEqual(60.0, sum(lifetimes) / len(lifetimes), delta=3.0)
        arrivals = [one.arrival for one in entries]
        self.assertEqual(sorted(arrivals), arrivals)
        self.assertLessEqual(arrivals[-1], 10_000)

    def test_without_a_lifetime_nodes_stay(self):
        self.assertEqual({None}, {one.departure for one in drawn(horizon_s=50.0)})

    def test_an_unknown_flavor_is_named_with_the_nearest(self):
        with self.assertRaisesRegex(UnknownName, "--mix: no flavor named 'carts' .*'card'"):
            drawn(mix={"carts": 1.0})

    def test_a_horizon_before_the_first_arrival_is_refused(self):
        with self.assertRaisesRegex(UsageError, "no request arrives"):
            drawn(horizon_s=1e-6)
