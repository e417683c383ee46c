# SPDX-License-Identifier: Apache-2.0
"""The claim commands in both programs."""

import re

from tests.functional import through
from tests.functional.programs import PROGRAMS, Case, Done, run
from tests.functional.test_live import Live
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.store.store import Store
from valence_sched.testing import request


class TestClaims(Case):
    """The life of a claim."""

    def setUp(self):
        self.state = self.folder / f"{self.id()}.sqlite"
        with Store(f"sqlite:///{self.state}") as store:
            store.remember(podm("rack-1", 4, stocks=[{"uri": "m", "resource": "r", "total": 9}]))
            asked = request(CORES, owner="ana")
            self.claim = claimer(store).claim(asked, key="k", ttl_s=600).claim

    def asked(self, *words, program=PROGRAMS[0]):
        return run(program, "podm", "claim", *words, "--state", self.state)

    def test_a_claim_is_listed_shown_renewed_and_released(self):
        for program in PROGRAMS:
            with self.subTest(program):
                (row,) = self.asked("list", "-f", "json", program=program).data
                self.assertEqual((self.claim.id, "HELD", "ana", ["rack-1"], 1),
                                 (row["ID"], row["State"], row["Owner"], row["Podms"],
                                  row["Nodes"]))  # fmt: skip
                self.assertRegex(row["Expires At"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        shown = self.asked("show", self.claim.id, "-f", "json").data
        self.assertEqual((["rack-1 c0"], "k"), (shown["Blocks"], shown["Key"]))
        self.assertRegex(shown["Events"][0], r"Z held$")
        for ttl in ("0", "0.5s", "91d", "4000000d"):
            done = self.asked("renew", self.claim.id, "--ttl", ttl)
            self.assertEqual((2, "--ttl: must be 1s to 90d\n"), (done.code, done.err))
        later = self.asked("renew", self.claim.id, "--ttl", "1d", "-f", "json").data
        self.assertGreater(later["Expires At"], shown["Expires At"])
        done = self.asked("release", self.claim.id)
        self.assertEqual((0, "", ""), done)
        self.assertEqual([], self.asked("list", "-f", "json").data)
        (row,) = self.asked("list", "--all", "--long", "-f", "json").data
        self.assertEqual("RELEASED", row["State"])

    def test_what_cannot_be_released_is_named_and_the_others_go(self):
        done = self.asked("release", "nobody", self.claim.id)
        self.assertEqual(1, done.code)
        self.assertRegex(done.err, rf"^no claim named 'nobody' \(known: {self.claim.id}\)\n$")
        self.assertEqual([], self.asked("list", "-f", "json").data)

    def test_one_whose_time_is_over_is_held_no_more(self):
        ends = self.asked("renew", self.claim.id, "--ttl", "1s", "-f", "json").data["Expires At"]
        found = [1]
        for _ in range(1000):  # until it expires after a second
            found = found and self.asked("list", "-f", "json").data
        self.assertEqual([], found)
        shown = self.asked("show", self.claim.id, "-f", "json").data
        self.assertEqual(("EXPIRED", ends), (shown["State"], shown["Expires At"]))
        done = self.asked("renew", self.claim.id)
        self.assertRegex(done.err, f"^claim {self.claim.id} is EXPIRED: ")

    def test_reaping_names_what_it_frees(self):
        self.assertEqual(0, self.asked("renew", self.claim.id, "--ttl", "1s").code)
        found = []
        for _ in range(1000):  # until it expires after a second
            found = found or self.asked("reap", "--dry-run", "-f", "json").data
        self.assertEqual((self.claim.id, "expired: freed its holds"),
                         (found[0]["ID"], found[0]["Done"]))  # fmt: skip
        self.assertEqual(found, self.asked("reap", "-f", "json").data)
        done = self.asked("reap", "-f", "json")
        self.assertEqual([], done.data)
        self.assertEqual("no changes: claims and nodes agree with their pod managers\n", done.err)

    def test_reaping_forgets_what_ended_longer_ago_than_is_to_be_kept(self):
        self.assertEqual(0, self.asked("release", self.claim.id).code)
        self.assertEqual([], self.asked("reap", "--keep", "1h", "-f", "json").data)
        (row,) = self.asked("reap", "--keep", "0s", "-f", "json").data
        self.assertEqual(("claims", "deleted 1 older than --keep"), (row["Kind"], row["Done"]))
        self.assertEqual([], self.asked("list", "--all", "-f", "json").data)

    def test_asking_makes_no_state(self):
        if through.Switch.on:
            self.skipTest("a service creates a state")
        for verb in ("list", "reap"):
            done = run(PROGRAMS[0], "podm", "claim", verb, "--state", self.folder / "none.sqlite")
            self.assertEqual(0, done.code, done.err)
        self.assertFalse((self.folder / "none.sqlite").exists())

    def test_a_table_says_no_none(self):
        for words in (("list", "--long"), ("show", self.claim.id)):
            self.assertNotRegex(self.asked(*words).out, re.compile(r"\bNone\b"))


TEAM = "team-a"


class TestQuotas(Live):
    """Default limits, and limits of an owner."""

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
