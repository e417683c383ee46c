# SPDX-License-Identifier: Apache-2.0
"""Repeated options ``NAME=VALUE``: a name has one value, whichever option sets it."""

import unittest

from tests.functional.programs import run
from tests.functional.test_help import COMMANDS, parser_of

SITE = ("--inventory", "examples/site.json", "--warn-age", "never")
SCHEDULE = ("podm", "schedule", *SITE)
WHATIF = ("scheduler", "whatif")
#: The arguments for each option: the command, and two values of one name.
TWICE = {
    ("--at-most", "<domain=n>"): (*SCHEDULE, "--flavor", "small", "podm=1", "podm=2"),
    ("--attribute", "<name=expression>"): (
        *SCHEDULE, "--flavor", "small", "year=3", "facts.year=4",
    ),
    ("--capability", "<key=value>"): (*SCHEDULE, "--flavor", "small", "os=linux", "os=bsd"),
    ("--fact", "<key=value>"): ("podm", "create", "twice", "http://127.0.0.1:9", "n=1", "n=2"),
    ("--map", "<field=column>"): (
        *WHATIF, "run", *SITE, "--workload", "trace.csv", "flavor=a", "flavor=b",
    ),
    ("--max-blocks", "<n|type=n>"): (
        "podm", "create", "twice", "http://127.0.0.1:9", "Compute=1", "compute=2",
    ),
    ("--price", "<block=amount>"): (
        *WHATIF, "need", *SITE, "--flavor", "small", "--count", "2", "--buy", "2xa@gpu-east",
        "a@gpu-east=1", "a@gpu-east=2",
    ),
    ("--require", "<flavor=n>"): ("podm", "fit", *SITE, "--flavor", "small", "small=1", "small=2"),
    ("--resource", "<class=n>"): (*SCHEDULE, "VCPU=4", "VCPU=8"),
    ("--resource", "<name=limit>"): ("scheduler", "quota", "set", "team-a", "nodes=1", "nodes=2"),
    ("--soft-spread", "<domain[=skew]>"): (*SCHEDULE, "--flavor", "small", "zone", "zone=2"),
    ("--spread", "<domain[=skew]>"): (*SCHEDULE, "--flavor", "small", "zone", "zone=2"),
    ("--taint", "<key=value:NoPlace>"): (
        "podm", "block", "set", "GPU-1", "--podm", "twice", "team=a:NoPlace", "team=b:NoPlace",
    ),
    ("--tolerance", "<[measure=]percent>"): (
        *WHATIF, "run", *SITE, "--workload", "trace.csv", "--baseline", "x.json",
        "placed=5", "placed=6",
    ),
    ("--weight", "<weigher=number>"): (
        "podm", "fit", *SITE, "--flavor", "small", "room=1", "room=2",
    ),
}  # fmt: skip
#: Options that use all values of one name, and why.
ALL_COUNT = {
    ("--capability", "<key=value;value>"): "values of a pod manager's capability add up",
    ("--near", "<kind=name>"): "a node is near each volume",
    ("--prefer-near", "<kind=name>"): "a node is rather near each volume",
    ("--set", "<target:key=value>"): "edits are steps, one after another",
    ("--tolerate", "<key[=value]>"): "a taint with any of the values is tolerated",
}


class TestTwice(unittest.TestCase):
    """Two values of one name are refused; the line names the option and the name."""

    def test_the_second_value_of_a_name_is_refused(self):
        for (option, usage), words in TWICE.items():
            *command, first, second = words
            with self.subTest(f"{option} {usage}"):
                done = run("valence-sched", *command, option, first, option, second)
                self.assertEqual((2, ""), (done.code, done.out), done.err)
                self.assertIn(f"{option}: ", done.err)
                self.assertRegex(done.err, "'[^']+' (is given |is said )?twice: ")
                self.assertEqual(1, done.err.count("\n"), done.err)

    def test_every_option_of_names_and_values_is_known_here(self):
        found = {
            (action.option_strings[0], str(action.metavar))
            for point in COMMANDS
            for action in parser_of(point)._actions
            if action.option_strings and action.default == [] and "=" in str(action.metavar)
        }
        self.assertEqual({*TWICE, *ALL_COUNT}, found)


if __name__ == "__main__":
    unittest.main()
