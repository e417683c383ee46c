# SPDX-License-Identifier: Apache-2.0
"""Groups, owners and anti-affinity on the command line."""

import json
import unittest

from tests.functional.programs import ROOT, Case, asked, run
from tests.unit.core.deciders import cpus

SITE = str(ROOT / "doc" / "source" / "examples" / "inventory-groups.json")
POLICIES = str(ROOT / "doc" / "source" / "examples" / "policies-overrides.yaml")
SMALL = ("--inventory", SITE, "--flavor", "small")


class TestCompany(Case):
    """From the command line to the reason."""

    def rows(self, code: int, *words: str) -> list[dict]:
        done = asked("valence-sched", "podm", "schedule", *SMALL, *words, "-f", "json")
        self.assertEqual(code, done.code, done.err)
        return done.data

    def chosen(self, code: int, *words: str) -> list[str]:
        return [row["Podm"] for row in self.rows(code, *words) if row["Rank"] == 1]

    def reasons(self, code: int, *words: str) -> dict[str, str]:
        done = asked("valence-sched", "podm", "schedule", *SMALL, *words, "--report", "-")
        self.assertEqual(code, done.code, done.err)
        return {row["Podm"]: row["Reason"] for row in done.verdicts}

    def test_anti_affinity_counts_the_nodes_of_the_inventory_and_of_the_request(self):
        words = (
            "--owner",
            "physics",
            "--group",
            "web",
            "--anti-affinity",
            "podm",
            "--count",
            "3",
            "--min-count",
            "1",
        )
        self.assertEqual({"hall-a-2", "hall-b-1"}, set(self.chosen(4, *words)))
        reason = "spread: group web: at most 1 per podm: needs fewer than 1, has 1"
        self.assertEqual(reason, self.reasons(4, *words)["hall-a-1"])

    def test_affinity_stays_where_the_group_is(self):
        found = self.chosen(
            4, "--group", "web", "--affinity", "facts.rack", "--count", "3", "--min-count", "1"
        )
        self.assertEqual(["hall-a-1", "hall-a-1"], found)

    def test_a_rule_without_a_group_is_about_a_group_named_after_the_flavor(self):
        found = self.chosen(4, "--at-most", "zone=1", "--count", "2", "--min-count", "1")
        self.assertEqual(1, len(found))
        reasons = self.reasons(4, "--at-most", "zone=1", "--count", "2", "--min-count", "1")
        self.assertIn("spread: group small: at most 1 per zone", str(reasons))

    def test_spread_takes_a_skew(self):
        words = ("--owner", "physics", "--spread", "zone=2", "--count", "5", "--min-count", "1")
        zones = [name[:6] for name in self.chosen(0, *words)]
        self.assertLessEqual(abs(zones.count("hall-a") - zones.count("hall-b")), 2)

    def test_soft_forms_are_kept_where_they_can_and_otherwise_are_not(self):
        words = ("--group", "web", "--soft-anti-affinity", "podm")
        self.assertEqual(["hall-a-2"], self.chosen(0, *words))
        self.assertEqual(["hall-a-1"], self.chosen(0, "--group", "web", "--soft-affinity", "podm"))
        self.assertEqual(4, len(self.chosen(0, *words, "--count", "4", "--min-count", "1")))

    def test_reserved_and_quarantined_ones_say_why(self):
        found = self.reasons(0, "--owner", "biology")
        self.assertEqual(
            "isolation: reserved: needs for biology, has for physics", found["hall-b-1"]
        )
        self.assertEqual("quarantine: needs no, has coolant leak, ticket 4711", found["hall-b-2"])
        self.assertNotIn("isolation", str(self.reasons(0, "--owner", "physics")["hall-b-1"]))

    def test_the_owners_next_node_lands_elsewhere(self):
        """S33: the node is on a pod manager without nodes of the owner."""
        podms = [{"id": name, "blocks": cpus(2, 16)} for name in ("a", "b")]
        for podm, owner in zip(podms, ("physics", "chemistry"), strict=True):
            podm["nodes"] = [{"uri": "n", "owner": owner}]
        site = {"schema": "valence-sched/inventory", "version": "1.0", "podms": podms}
        flavor = self.write("f.yaml", "{name: f, properties: {processor: {total_cores: 16}}}")
        words = ("--inventory", self.write("two.json", json.dumps(site)), "--flavor", flavor)

        def chosen(*more):
            done = asked("valence-sched", "podm", "schedule", *words, *more, "-f", "json")
            self.assertEqual(0, done.code, done.err)
            return done.data[0]["Podm"]

        seeds = [("--seed", str(seed)) for seed in range(8)]
        self.assertEqual({"a", "b"}, {chosen(*seed) for seed in seeds})
        for owner, elsewhere in (("physics", "b"), ("chemistry", "a")):
            self.assertEqual({elsewhere}, {chosen(*seed, "--owner", owner) for seed in seeds})

    def test_fit_counts_with_rules_per_pod_manager_and_refuses_others(self):
        words = ("podm", "fit", *SMALL, "--group", "web", "--at-most", "podm=2", "-f", "json")
        found = {row["Podm"]: row["Nodes"] for row in asked("valence-sched", *words).data}
        self.assertEqual((1, 2), (found["hall-a-1"], found["hall-a-2"]))
        done = run("valence-sched", "podm", "fit", *SMALL, "--spread", "zone")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertIn("counts by pod manager", done.err)

    def test_a_policy_shows_its_overrides(self):
        words = ("scheduler", "policy", "show", "gold-apart", "--policy-file", POLICIES)
        shown = asked("valence-sched", *words, "-f", "json").data["Weighers"]
        self.assertEqual({"aggregate": {"gold": 5}, "zone": {"b": 0}}, shown[1]["overrides"])

    def test_words_that_say_nothing_exit_2(self):
        for words, line in (
            (("--affinity", "rack"), "unknown domain 'rack'"),
            (("--at-most", "podm"), "is not DOMAIN=N"),
            (("--at-most", "podm=0"), "must be 1 to 1,000,000"),
            (("--at-most", "podm=1", "--at-most", "podm=2"), "'podm' twice"),
            (("--spread", "zone", "--spread", "zone=2"), "'zone' twice"),
            (("--owner", " "), "a name of 1 to 255"),
        ):
            with self.subTest(words):
                done = run("valence-sched", "podm", "schedule", *SMALL, *words)
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(line, done.err)

    def test_a_policy_without_filters_keeps_to_target_zone_and_reservation(self):
        words = ("podm", "schedule", *SMALL, "--policy", "chance", "--seed", "7", "-f", "json")
        for program in ("openstack", "valence-sched"):
            done = asked(program, *words, "--owner", "physics", "--zone", "b", "--count", "2")
            self.assertLessEqual({row["Podm"] for row in done.data}, {"hall-b-1", "hall-b-2"})
        done = asked("openstack", *words, "--owner", "biology", "--podm", "hall-b-1")
        self.assertEqual(3, done.code, done.err)

    def test_a_policy_that_does_not_read_them_refuses_them(self):
        for words, line in (
            (("--anti-affinity", "podm"), "no filter 'spread'"),
            (("--soft-affinity", "podm"), "no weigher 'affinity'"),
        ):
            with self.subTest(words):
                done = run(
                    "valence-sched", "podm", "schedule", *SMALL, "--policy", "chance", *words
                )
                self.assertEqual((1, ""), (done.code, done.out))
                self.assertIn(line, done.err)


if __name__ == "__main__":
    unittest.main()
