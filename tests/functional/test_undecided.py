# SPDX-License-Identifier: Apache-2.0
"""Pod managers that the budget of a policy leaves undecided, on screens and in scripts."""

import json
import unittest
from random import Random

from tests.functional.programs import Case, asked, run
from tests.unit.core.fit.covers import FAMILIES, podm, properties

SPLIT = FAMILIES["split"](44, Random(4))
EASY = {
    "id": "easy",
    "blocks": [
        {
            "uri": "b",
            "type": ["Compute"],
            "devices": {"processors": [{"cores": 10**8}], "memory": [{"capacity_mib": 10**8}]},
        }
    ],
}
POLICY = {
    "name": "tight",
    "filters": ["alive", "capacity", "devices"],
    "weighers": ["pack"],
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

    def report(self, state: str, *podms: dict) -> None:
        """Let pod managers report themselves, so that blocks can be claimed."""
        for one in podms:
            words = ("podm", "stats", "set", one["id"], "-", "--state", state)
            stats = {name: value for name, value in one.items() if name != "id"}
            done = run("valence-sched", *words, stdin=json.dumps(stats).encode())
            self.assertEqual(0, done.code, done.err)

    def test_a_pool_that_is_not_settled_is_no_pool_that_does_not_fit(self):
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT)), "--explain")
        done = asked("valence-sched", *words, "--report", "-")
        self.assertEqual(5, done.code)
        self.assertEqual(
            [("hard", "undecided")], [(r["Podm"], r["Outcome"]) for r in done.verdicts]
        )
        self.assertIn("warning: undecided: 1 pool may fit: hard (p): no answer within 300 states",
                      done.err)  # fmt: skip
        self.assertIn({"filter": "fit", "in": 1, "out": 0, "undecided": 1}, done.data["funnel"])

    def test_another_is_taken_unless_the_answer_must_be_certain(self):
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT), EASY))
        self.assertEqual(0, run("valence-sched", *words).code)
        strict = run("valence-sched", *words, "--strict")
        self.assertEqual((5, ""), (strict.code, strict.out))
        self.assertEqual(1, strict.err.count("\n"))
        self.assertIn("undecided: 1 pool may fit: hard (p)", strict.err)

    def test_nothing_is_claimed_where_the_answer_must_be_certain(self):
        state = str(self.folder / "undecided.sqlite")
        self.report(state, podm("hard", SPLIT), EASY)
        _, _, *rest = self.words()
        claim = ("podm", "schedule", *rest, "--claim", "--state", state)
        strict = run("valence-sched", *claim, "--strict")
        self.assertEqual(5, strict.code, strict.err)
        self.assertIn("undecided: 1 pool may fit: hard (p)", strict.err)
        listed = ("podm", "claim", "list", "--state", state, "-f", "json")
        self.assertEqual([], run("valence-sched", *listed).data)
        self.assertEqual(0, run("valence-sched", *claim).code)
        self.assertEqual(1, len(run("valence-sched", *listed).data))
        other = str(self.folder / "hard.sqlite")
        self.report(other, podm("hard", SPLIT))
        claim = ("podm", "schedule", *rest, "--claim", "--state", other)
        self.assertEqual(5, run("valence-sched", *claim).code)

    def test_the_report_names_it_and_is_shown_again(self):
        report = self.write("report.json", "")
        words = ("podm", "schedule", *self.words(podm("hard", SPLIT)), "--report", report)
        self.assertEqual(5, run("valence-sched", *words).code)
        with open(report) as file:
            document = json.load(file)
        self.assertEqual([{"podm": "hard", "pool": "p"}], document["undecided"])
        shown = run("valence-sched", "scheduler", "explain", report)
        self.assertIn("Filters:       1 pool; undecided: 1", shown.out)

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
