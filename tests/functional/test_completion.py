# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines: commands, options, and values that have names."""

import json
import subprocess
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

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


#: Is the program for each environment in its standard input; it ends where it has completed.
PROGRAM = """
import json, os, sys
from valence_sched_cli.shell import main
for variables in json.load(sys.stdin):
    if os.fork() == 0:
        os.environ.update(variables)
        os._exit(main([]))
    if os.wait()[1]:
        sys.exit(f"{variables}: failed")
"""


def completions(lines: Sequence[str], folder: Path) -> list[list[str]]:
    """Return what the program offers where each line ends, as a shell asks it."""
    asked = []
    for number, line in enumerate(f"valence-sched {line}" for line in lines):
        asked.append({"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line,
                      "COMP_POINT": str(len(line)),
                      "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / str(number))})  # fmt: skip
    subprocess.run([BIN / "python", "-c", PROGRAM], input=json.dumps(asked), text=True,
                   env=environment(), cwd=ROOT, capture_output=True, check=True)  # fmt: skip
    return [
        sorted(word.rstrip() for word in (folder / str(number)).read_text().split("\n") if word)
        for number in range(len(asked))
    ]


class CompletionTest(unittest.TestCase):
    def test_commands_options_and_values_are_completed(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        offered = completions([line for line, _ in LINES], folder)
        for (line, expected), found in zip(LINES, offered, strict=True):
            with self.subTest(line):
                self.assertEqual(expected, found)

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
