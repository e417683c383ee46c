# SPDX-License-Identifier: Apache-2.0
"""``scheduler whatif fail`` and ``drain``: what a person sees, what a program reads, exit codes."""

import json

from tests.functional.programs import PROGRAMS, SITE, Case, run

WORDS = ("scheduler", "whatif")


class TestWhatifRelocation(Case):
    """Failures and drains of the example site."""

    def ask(self, verb, *words, program="valence-sched", **more):
        return run(program, *WORDS, verb, "--inventory", SITE, *words, **more)

    def rows(self, verb, *words, code):
        done = self.ask(verb, *words, "-f", "json")
        self.assertEqual(code, done.code, done.err)
        return json.loads(done.out)

    def test_a_failure_lists_who_lands_where_and_says_why_the_others_do_not(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = self.ask("fail", "gpu-east", program=program)
                self.assertEqual(4, done.code)
                self.assertIn("notebook-7", done.out)
                self.assertIn("No place for 3 nodes\n  train-3, train-2 of gpu-east\n", done.err)
                self.assertIn("1 of 4 nodes of gpu-east land again, 3 cannot\n", done.err)
                self.assertLessEqual(max(map(len, [*done.out.splitlines(),
                                                   *done.err.splitlines()])), 80)  # fmt: skip

    def test_programs_get_the_blocks_and_the_hardware_of_each_move(self):
        rows = self.rows("fail", "gpu-east", code=4)
        self.assertEqual([1, None, None, None], [row["Step"] for row in rows])
        move = rows[0]
        self.assertEqual(("gpu-east", "gpu-west"), (move["From"], move["To"]))
        self.assertTrue(all(uri.startswith("/") for uri in move["Blocks"]))
        self.assertTrue(move["Hardware"]["processors"])

    def test_what_edits_add_takes_the_nodes(self):
        words = ("gpu-east", "--clone", "gpu-east")
        rows = self.rows("fail", *words, code=0)
        self.assertEqual({"gpu-east-2"}, {row["To"] for row in rows[:3]})
        self.assertIn("every node lands again: 4 nodes of gpu-east\n", self.ask("fail", *words).err)

    def test_nothing_on_it_is_nothing_to_move(self):
        done = self.ask("drain", "dark-1/missing-pool")
        self.assertEqual(1, done.code)
        done = self.ask("fail", "gpu-north", "--drain", "gpu-north")
        self.assertIn("of gpu-north", done.err)

    def test_whether_any_pod_manager_may_fail(self):
        done = self.ask("fail", "--survive", "1")
        self.assertEqual(4, done.code)
        self.assertIn(
            "not any 1 pod manager may fail: 6 of 7 sets leave nodes without a place\nworst: "
            "store-1: 4 of 4 nodes cannot land again\n",
            done.err,
        )
        rows = self.rows("fail", "--survive", "1", code=4)
        self.assertEqual({"store-1"}, {row["From"] for row in rows})

    def test_a_drain_says_what_stays(self):
        done = self.ask("drain", "gpu-west")
        self.assertEqual(4, done.code)
        self.assertIn("1 of 3 nodes of gpu-west move away, 2 cannot\n", done.err)

    def test_less_fragmentation_lists_the_moves_and_what_each_buys(self):
        words = ("--fragmentation-below", "30%", "--flavor", "gpu-large")
        done = self.ask("rebalance", *words)
        self.assertEqual(0, done.code, done.err)
        self.assertIn("2 moves bring fragmentation below 30.0%, and fewer do not\n", done.err)
        self.assertIn("in all: room for 4 more gpu-large becomes 5, fragmentation 32.7% becomes "
                      "28.6%\n", done.err)  # fmt: skip
        self.assertLessEqual(max(map(len, done.out.splitlines())), 80)
        rows = self.rows("rebalance", *words, code=0)
        self.assertEqual([5, 5], [row["Room"] for row in rows])
        self.assertEqual([1, 2], [row["Step"] for row in rows])
        shares = [row["Fragmentation"] for row in rows]
        self.assertTrue(0.327 > shares[0] > 0.3 > shares[1] > 0.28, shares)
        self.assertTrue(all(row["Blocks"] for row in rows))

    def test_a_mix_of_its_own_changes_the_measure(self):
        words = ("--fragmentation-below", "100%", "--mix", "gpu-large=1")
        done = self.ask("rebalance", *words)
        self.assertRegex(done.err, r"fragmentation is [0-9.]+% as things are: nothing has to move")
        self.assertNotIn("is 32.7%", done.err)

    def test_a_goal_that_is_not_reached_states_a_bound(self):
        done = self.ask("rebalance", "--fragmentation-below", "1%", "--most", "4")
        self.assertIn(done.code, (3, 5))
        self.assertRegex(done.err, "undecided: the best .* would be needed|no 4 moves can bring")

    def test_wrong_words_are_one_line(self):
        for words, code, text in (
            (("fail",), 2, "name what fails, or how many pod managers with --survive N"),
            (("fail", "a", "--survive", "1"), 2, "name what fails"),
            (("rebalance",), 2, "name a goal"),
            (("rebalance", "--fragmentation-below", "0"), 2, "must be a percentage above 0"),
            (("rebalance", "--fragmentation-below", "nan%"), 2, "must be a percentage above 0"),
            (("rebalance", "--fragmentation-below", "5%", "--mix", "smal"), 1, "'small'?"),
            (("rebalance", "--fragmentation-below", "5%", "--mix", "small"), 1, "name one that"),
            (("rebalance", "--fragmentation-below", "5%", "--most", "0"), 2, "1 to 1,000,000"),
            (("drain", "gpu-wst"), 1, "did you mean 'gpu-west'?"),
            (("fail", "colour=red"), 1, "colour"),
            (("fail", "gpu-east", "--policy", "pakc"), 1, "pack"),
        ):
            with self.subTest(words):
                done = self.ask(*words)
                self.assertEqual(code, done.code, done.err)
                self.assertIn(text, done.err)
                self.assertNotIn("Traceback", done.err)
