# SPDX-License-Identifier: Apache-2.0
"""What is asked about and nobody has or tells is warned of."""

import unittest

from tests.unit.core.deciders import cpus, engine_of
from valence_sched.core.explain.report import decision_warnings
from valence_sched.testing import request

TOLD = {"id": "a", "zone": "z", "blocks": cpus(1),
        "facts": {"year": 2022, "location": ["dc1/row-3/rack-7", "hall-1"]},
        "capabilities": {"os": ["linux"]}, "aggregates": ["gold"], "traits": ["T"]}  # fmt: skip


def warnings(**words) -> list[str]:
    asked = request({"processor": {"sockets": 1}}, **words)
    return decision_warnings(engine_of(TOLD).select_destinations(asked))


class TestUntold(unittest.TestCase):
    """One line each, with the nearest name."""

    def test_a_fact_or_capability_that_nobody_tells_is_named_with_the_nearest(self):
        for words, line in (
            ({"attributes": {"yaer": ">= 1"}}, "'facts.yaer' (did you mean 'year'?)"),
            ({"attributes": {"zoen": "z"}}, "'facts.zoen' (did you mean 'zone'?)"),
            ({"attributes": {"capabilities.so": "linux"}},
             "'capabilities.so' (did you mean 'os'?)"),
            ({"capabilities": {"oss": ("linux",)}}, "'capabilities.oss' (did you mean 'os'?)"),
            ({"where": ["=", "$facts.yaer", 1]}, "'facts.yaer' (did you mean 'year'?)"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual([f"no pod manager tells {line}"], warnings(**words))

    def test_each_is_said_once_and_what_is_told_not_at_all(self):
        self.assertEqual([], warnings())
        reported = {"attributes": {"year": ">= 1", "zone": "z"}, "capabilities": {"os": ("linux",)}}
        self.assertEqual([], warnings(**reported, where=["=", "$facts.year", "$free.cores"]))
        named = {"zone": "z", "aggregates": ["gold"], "traits": {"any_of": [["T"]]}}
        self.assertEqual([], warnings(**named))
        twice = warnings(attributes={"rack": "1"}, where=["=", "$facts.rack", 1])
        self.assertEqual(1, len(twice))

    def test_a_zone_aggregate_trait_or_value_that_nobody_has_is_named_with_the_nearest(self):
        for words, line in (
            ({"zone": "zz"}, "is in the zone 'zz' (did you mean 'z'?)"),
            ({"locations": ["dc1/row-3/"]}, None),
            ({"locations": ["hall-1", "dc1/rwo-3"]},
             "is at the location 'dc1/rwo-3' (did you mean 'dc1/row-3'?)"),
            ({"aggregates": ["glod"]}, "is in the aggregate 'glod' (did you mean 'gold'?)"),
            ({"traits": {"any_of": [["T", "X"]]}}, "has the trait 'X' (known: T)"),
            ({"capabilities": {"os": ("linus",)}},
             "has the capability os 'linus' (did you mean 'linux'?)"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual([f"no pod manager {line}"] if line else [], warnings(**words))

    def test_what_is_forbidden_and_nowhere_is_doubtful_only_where_one_is_like_it(self):
        like = warnings(traits={"forbidden": ["TT", "LAB"]})
        self.assertEqual(["no pod manager has the trait 'TT' (did you mean 'T'?)"], like)


if __name__ == "__main__":
    unittest.main()
