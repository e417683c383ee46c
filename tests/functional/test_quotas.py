# SPDX-License-Identifier: Apache-2.0
"""Quotas in both programs: set, listed, shown with what is in use, and unset."""

from tests.functional.programs import PROGRAMS, Done, run
from tests.functional.test_live import Live

TEAM = "team-a"


class TestQuotas(Live):
    """Limits of an owner, and of all."""

    def quota(self, verb: str, *words: str, program=PROGRAMS[0], code=0) -> Done:
        done = run(program, "scheduler", "quota", verb, *words, VALENCE_SCHED_STATE=str(self.state))
        self.assertEqual(code, done.code, done)
        self.assertNotIn("Traceback", done.err)
        return done

    def rows(self, program=PROGRAMS[0]) -> list[tuple[str | None, str, float]]:
        listed = self.quota("list", "-f", "json", program=program).data
        return [(row["Owner"], row["Resource"], row["Limit"]) for row in listed]

    def test_they_are_set_one_by_one_and_unset(self):
        self.quota("set", "--default", "--resource", "claims=50")
        for program in PROGRAMS:
            with self.subTest(program):
                words = (TEAM, "--resource", "nodes=20", "--resource", "stock:power_w=900.5")
                self.quota("set", *words, program=program)
                done = self.quota(
                    "set", TEAM, "--resource", "nodes=8", "-f", "json", program=program
                )
                limits = {"claims": 50, "nodes": 8, "stock:power_w": 900.5}
                self.assertEqual({"Owner": TEAM, "Limits": limits, "Used": {}}, done.data)
                expected = [
                    (None, "claims", 50),
                    (TEAM, "nodes", 8),
                    (TEAM, "stock:power_w", 900.5),
                ]
                self.assertEqual(expected, self.rows(program))
                table = self.quota("list", program=program).out
                self.assertRegex(table, r"\| claims +\| +50 \|")
                shown = self.quota("show", TEAM, "-f", "json", program=program).out
                self.assertRegex(shown, r'"claims": 50,\s+"nodes": 8,\s+"stock:power_w": 900.5')
                self.quota("unset", TEAM, "--resource", "nodes", program=program)
                self.assertEqual([expected[0], expected[2]], self.rows(program))
                self.quota("unset", TEAM, program=program)
                self.assertEqual(expected[:1], self.rows(program))
        self.quota("unset", "--default")
        self.assertEqual([], self.rows())

    def test_a_claim_beyond_one_is_refused_and_what_is_in_use_is_shown(self):
        self.register(self.serve())
        self.quota("set", TEAM, "--resource", "nodes=1")
        claim = ("schedule", "--flavor", "small", "--owner", TEAM, "--claim")
        self.podm(*claim)
        done = self.podm(*claim, code=1)
        self.assertIn("quota of 'team-a': nodes: 1 in use and 1 more needed, 1 allowed", done.err)
        shown = self.quota("show", TEAM, "-f", "json").data
        self.assertEqual({"nodes": 1}, shown["Limits"])
        self.assertEqual((1, 1), (shown["Used"]["claims"], shown["Used"]["nodes"]))
        self.assertIn("nodes=1", self.quota("show", TEAM).out)

    def test_what_is_wrong_is_told_and_nothing_is_set(self):
        for words, code, text in (
            ((TEAM, "--resource", "node=1"), 1, "did you mean 'nodes'"),
            ((TEAM, "--resource", "nodes=-1"), 2, "'nodes=-1' is not NAME=LIMIT"),
            ((TEAM, "--resource", "nodes"), 2, "'nodes' is not NAME=LIMIT"),
            ((TEAM,), 2, "--resource"),
            (("--resource", "nodes=1"), 2, "name either an owner or --default"),
            ((TEAM, "--default", "--resource", "nodes=1"), 2, "name either an owner or --default"),
            (("", "--resource", "nodes=1"), 1, "owner: found 0 characters"),
        ):
            with self.subTest(words):
                done = self.quota("set", *words, code=code)
                self.assertEqual((1, ""), (len(done.err.splitlines()), done.out), done.err)
                self.assertIn(text, done.err)
        self.assertEqual([], self.rows())
        self.quota("show", "", code=1)

    def test_an_owner_that_nobody_limits_has_no_limits(self):
        expected = {"Owner": "nobody", "Limits": {}, "Used": {}}
        self.assertEqual(expected, self.quota("show", "nobody", "-f", "json").data)
