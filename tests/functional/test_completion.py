# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines: commands, options, and values that have names."""

import os
import subprocess
import unittest

from tests.functional.programs import BIN, ROOT, SITE, environment, run

LINES = [
    ("podm cl", ["claim"]),
    ("podm claim rel", ["release"]),
    (
        "scheduler ",
        ["audit", "check", "explain", "filter", "policy", "quota", "weigher", "whatif", "zone"],
    ),
    ("podm schedule --fla", ["--flavor", "--flavor-file"]),
    ("podm schedule --flavor gp", ["gpu-large", "gpu-small"]),
    ("podm fit --flavor-file examples/flavors.yaml --flavor tr", ["training"]),
    ("podm schedule --policy p", ["pack"]),
    ("podm schedule --policy-file examples/policy-cards.yaml --policy c", ["cards", "chance"]),
    (f"podm schedule --inventory {SITE} --podm gpu-", ["gpu-east", "gpu-north", "gpu-west"]),
    (f"podm show --inventory {SITE} m", ["mem-1"]),
    (f"podm schedule --inventory={SITE} --exclude-podm=ge", ["--exclude-podm=general-1"]),
    ("podm list --liveness f", ["file"]),
    ("podm list --driver r", ["redfish", "rsd"]),
    ("podm list --status O", ["Offline", "Online"]),
    ("podm schedule --inventory /no/such/file --podm ", []),
    ("nonsense ", []),
]


def completions(line: str) -> list[str]:
    """Return what the program offers where a line ends, as a shell asks it."""
    line = f"valence-sched {line}"
    reader, writer = os.pipe()
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line}
    asked |= {"COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": f"/dev/fd/{writer}"}
    with open(reader, encoding="utf-8") as answers:
        subprocess.run([BIN / "valence-sched"], env={**environment(), **asked}, cwd=ROOT,
                       pass_fds=[writer], capture_output=True, check=True)  # fmt: skip
        os.close(writer)
        return sorted(word.rstrip() for word in answers.read().split("\n") if word)


class CompletionTest(unittest.TestCase):
    def test_commands_options_and_values_are_completed(self):
        for line, expected in LINES:
            with self.subTest(line):
                self.assertEqual(expected, completions(line))

    def test_each_shell_gets_a_script_of_its_own(self):
        for shell, word in (("bash", "complete "), ("zsh", "compdef"), ("fish", "function __fish")):
            with self.subTest(shell):
                done = run("valence-sched", "complete", "--shell", shell)
                self.assertEqual(0, done.code, done.err)
                self.assertIn(word, done.out)
        done = run("valence-sched", "complete", "--shell", "bash")
        checked = subprocess.run(["bash", "-n"], input=done.out, text=True, check=False)
        self.assertEqual(0, checked.returncode)


class UnknownWordTest(unittest.TestCase):
    def test_a_noun_alone_lists_its_commands(self):
        done = run("valence-sched", "podm", "claim")
        self.assertEqual((0, ""), (done.code, done.err))
        names = [line.split("  ")[0] for line in done.out.splitlines()]
        verbs = ("compose", "list", "reap", "release", "renew", "show")
        self.assertEqual([f"podm claim {verb}" for verb in verbs], names)

    def test_a_misspelt_command_or_option_is_answered_with_the_nearest(self):
        for words, hint in (
            (("podm", "lst"), "no command named 'podm lst' (did you mean 'podm list'?)\n"),
            (
                ("podm", "list", "--inventori", "x"),
                "did you mean '--inventory'?); see",
            ),
            (("podm", "list", "--qqqqqq"), "unrecognized arguments: --qqqqqq; see"),
        ):
            with self.subTest(words):
                done = run("valence-sched", *words)
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(hint, done.err)
                self.assertEqual(1, done.err.count("\n"))


class HelpTest(unittest.TestCase):
    def test_help_is_about_a_command_whatever_options_stand_beside_it(self):
        for words in (("podm", "list", "-f", "json", "--help"), ("podm", "list", "-h", "--long"),
                      ("help", "podm", "list", "--inventory", "x")):  # fmt: skip
            with self.subTest(words):
                done = run("valence-sched", *words)
                self.assertEqual((0, ""), (done.code, done.err))
                self.assertTrue(done.out.startswith("usage: valence-sched podm list "), done.out)

    def test_help_of_a_noun_lists_its_commands(self):
        listed = run("valence-sched", "podm", "claim")
        for words in (("podm", "claim", "--help"), ("help", "podm", "claim")):
            with self.subTest(words):
                done = run("valence-sched", *words)
                self.assertEqual((0, "", listed.out), (done.code, done.err, done.out))

    def test_help_of_a_misspelt_command_names_the_nearest(self):
        done = run("valence-sched", "podm", "lst", "--help")
        self.assertEqual(
            (2, "", "no command named 'podm lst' (did you mean 'podm list'?)\n"),
            (done.code, done.out, done.err),
        )


if __name__ == "__main__":
    unittest.main()
