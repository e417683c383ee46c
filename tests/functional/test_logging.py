# SPDX-License-Identifier: Apache-2.0
"""What people read goes through logging: -q, --log-file and --debug, in both programs."""

import unittest

from tests.functional.programs import FLAVORS, PROGRAMS, SITE, Case, run

PLACED = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "-f", "json")
NOT_PLACED = ("podm", "schedule", "--inventory", SITE, "--resource", "VCPU=100000", "-f", "json")
WRONG = ("podm", "schedule", "--inventory", SITE, "--flavor", "smal")
LINE = "no flavor named 'smal' (did you mean 'small'?)\n"
CLOSING = "placed 1 of 1 (policy default, seed 0); 5 others fit, 2 do not: --explain\n"
NOVA = '{"name": "n", "vcpus": 1, "ram": 1, "extra_specs": {"hw_rng:allowed": "True"}}'


class TestLogging(Case):
    """The options that every command has."""

    def test_quiet_leaves_data_and_errors(self):
        nova = self.write("nova.json", NOVA)
        for program in PROGRAMS:
            with self.subTest(program):
                loud, quiet = run(program, *PLACED), run(program, "-q", *PLACED)
                self.assertEqual(CLOSING, loud.err)
                self.assertEqual((0, loud.out, ""), quiet)
                self.assertEqual((1, "", LINE), run(program, "-q", *WRONG))
                done = run(program, "--quiet", *PLACED[:-3], nova)
                self.assertEqual((0, ""), (done.code, done.err))

    def test_a_log_file_gets_what_people_read(self):
        nova = self.write("nova.json", NOVA)
        for program in PROGRAMS:
            with self.subTest(program):
                log = self.folder / f"{program}.log"
                for words in (PLACED, WRONG, (*PLACED[:-3], nova)):
                    run(program, "--log-file", str(log), *words)
                text = log.read_text()
                for level, line in (("WARNING", CLOSING), ("ERROR", LINE), ("WARNING", "remark: ")):
                    self.assertRegex(text, f"{level} .*{line[:12]}")

    def test_debug_adds_where_it_came_up_and_changes_no_exit_code(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = run(program, "--debug", *WRONG)
                self.assertEqual((1, ""), (done.code, done.out))
                self.assertIn("Traceback (most recent call last):", done.err)
                self.assertIn(f"\n{LINE}", done.err)
                self.assertNotIn("Traceback", run(program, *WRONG).err)
                usage = run(program, "--debug", *PLACED, "--all-regions")
                self.assertEqual(2, usage.code)
                self.assertEqual(3, run(program, "--debug", *NOT_PLACED).code)

    def test_errors_of_one_of_several_are_errors_too(self):
        for program in PROGRAMS:
            words = ("podm", "delete", "a", "b", "--state", str(self.folder / "state.sqlite"))
            done = run(program, "-q", *words)
            self.assertEqual((1, 2), (done.code, done.err.count("\n")), done.err)

    def test_the_help_of_our_program_says_so(self):
        self.assertIn("Suppress output except errors.", run("valence-sched", "--help").out)
        self.assertEqual(0, run("valence-sched", "-q", "podm", "flavor", "validate", FLAVORS).code)


if __name__ == "__main__":
    unittest.main()
