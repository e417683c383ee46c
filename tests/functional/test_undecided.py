# SPDX-License-Identifier: Apache-2.0
"""What the budget of a policy leaves undecided, on the screen and to a script."""

import json
import unittest
from random import Random

from tests.functional.programs import Case, asked, run
from tests.unit.core.fit.hard_covers import FAMILIES, podm, properties

SPLIT = FAMILIES["split"](24, Random(4))
EASY = {
    "id": "easy",
    "blocks": [
        {
            "uri": "b",
            "type": ["Compute"],
            "devices": {"processors": [{"cores": 10**7}], "memory": [{"capacity_mib": 10**7}]},
        }
    ],
}
POLICY = {
    "name": "tight",
    "filters": ["alive", "capacity", "devices"],
    "weighers": ["room"],
    "budget": {"pool_states": 300, "decision_states": 0},
}


class TestUndecided(Case):
    """From the policy to the exit code."""

    def words(self, *podms: dict) -> tuple[str, ...]:
        header = {"schema": "valence-sched/inventory", "version": "1.0"}
        site = self.write("site.json", json.dumps({**header, "podms": podms}))
        policy = self.write("policy.json", json.dumps(POLICY))
        flavor = {"name": "split", "properties": properties(SPLIT)}
        return ("--inventory", site, "--flavor", self.write("flavor.json", json.dumps(flavor)),
                "--policy-file", policy, "--policy", "tight")  # fmt: skip

    def test_a_pool_that_is_not_settled_is_no_pool_that_does_not_fit(self):
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT)), "--explain")
        done = asked("valence-sched", *words, "-f", "json")
        self.assertEqual(5, done.code)
        self.assertEqual([("hard", "undecided")], [(r["Podm"], r["Outcome"]) for r in done.data])
        self.assertIn("warning: undecided: 1 pool may fit: hard (p): not settled within 300 states",
                      done.err)  # fmt: skip
        self.assertIn("pools: 1 in all; kept all: alive, capacity, devices; undecided: 1", done.err)

    def test_another_is_taken_unless_the_answer_must_be_certain(self):
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT), EASY))
        self.assertEqual(0, run("valence-sched", *words).code)
        strict = run("valence-sched", *words, "--strict")
        self.assertEqual((5, ""), (strict.code, strict.out))
        self.assertEqual(1, strict.err.count("\n"))
        self.assertIn("undecided: 1 pool may fit: hard (p)", strict.err)

    def test_the_report_names_it_and_is_shown_again(self):
        report = self.write("report.json", "")
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT)), "--report", report)
        self.assertEqual(5, run("valence-sched", *words).code)
        with open(report) as file:
            document = json.load(file)
        self.assertEqual([{"podm": "hard", "pool": "p"}], document["undecided"])
        shown = run("valence-sched", "scheduler", "explain", report)
        self.assertIn("undecided: 1 of the pools that are left", shown.out)

    def test_a_count_names_the_pod_managers_that_may_make_more(self):
        some = self.words(podm("hard", SPLIT), EASY)
        counted = asked("valence-sched", "podm", "fit", *some, "-f", "json")
        self.assertEqual([0, 1, 1], [row["Nodes"] for row in counted.data])
        self.assertIn("warning: undecided: 1 pool may fit: hard (p)", counted.err)
        self.assertEqual(0, counted.code)
        none = self.words(podm("hard", SPLIT))
        self.assertEqual(5, run("valence-sched", "podm", "fit", *none).code)
        self.assertEqual(5, run("valence-sched", "podm", "fit", *some, "--strict").code)


if __name__ == "__main__":
    unittest.main()
