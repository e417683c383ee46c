# SPDX-License-Identifier: Apache-2.0
"""Interactive sessions: each command gives the same result as alone, after any other command."""

import contextlib
import json
import re
import subprocess
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tests.functional.cloud import Cloud
from tests.functional.programs import BIN, FLAVORS, PROGRAMS, ROOT, SITE, Case, environment, run
from tests.functional.session import run_session
from tests.service.serving import serving
from valence_sched.service.settings import ServiceSettings
from valence_sched.testing.served import served
from valence_sched_cli.shell import Shell

HOMES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
LIST = ("podm", "list", "-f", "json", "-c", "Podm")
SCHEDULE = ("podm", "schedule", "--flavor", "small", "--report", "-")
BROKEN = '{"schema": "valence-sched/inventory", "version": "1.0", "podms": [%s, {"id": 7}]}'
ONE = '{"id": "half", "pools": [], "blocks": []}'


def every_pair(commands):
    """Return a walk over commands in which each command follows each, also itself."""
    unused = {first: list(range(len(commands))) for first in range(len(commands))}
    stack, walk = [0], []
    while stack:
        if unused[stack[-1]]:
            stack.append(unused[stack[-1]].pop())
        else:
            walk.append(commands[stack.pop()])
    return walk[::-1]


def told(done):
    """Return the result of a command, without its duration."""
    code, *texts = done
    return code, *(re.sub(r"\d+(\.\d+)?(ms|s)\b", "", text) for text in texts)


class TestInteractive(Case):
    """Every pair of commands with different targets, in one session of each program."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.podms = cls.enterClassContext(served(SITE))
        cls.homes = dict.fromkeys(HOMES, str(cls.folder / "home"))
        lab = cls.podms["gpu-west"].url
        (cls.folder / "lab.yaml").write_text(f"podms:\n  lab: {{url: {lab}}}\n")
        (cls.folder / "half.json").write_text(BROKEN % ONE)
        cls.lab = ("--podm-file", f"{cls.folder}/lab.yaml", "--state", f"{cls.folder}/lab.sqlite")
        cls.other = ("--state", f"{cls.folder}/other.sqlite")
        for name, words, homes in (("other", cls.other, {}), ("registered", (), cls.homes)):
            url = cls.podms["gpu-east"].url
            done = run(PROGRAMS[0], "podm", "create", name, url, *words, **homes)
            assert done.code == 0, done
        state = f"sqlite:///{cls.folder}/prod.sqlite"
        settings = ServiceSettings(state=state, flavor_files=(FLAVORS,), reader=False)
        there = dict.fromkeys(HOMES, str(cls.folder / "service"))
        done = run(PROGRAMS[0], "podm", "create", "prod", cls.podms["gpu-east"].url, "--state",
                   f"{cls.folder}/prod.sqlite")  # fmt: skip
        assert done.code == 0, done
        cls.url = cls.enterClassContext(serving(settings, there))

    def commands(self):
        """Return a command for each kind of target, one with a remark, and one without a target."""
        return [
            LIST,
            (*LIST, "--inventory", SITE),
            (*LIST, "--inventory", f"{self.folder}/half.json"),
            (*LIST, *self.lab),
            (*LIST, *self.other),
            ("podm", "flavor", "list", "-f", "json"),
        ]

    def check(self, program, commands, *options, **more):
        alone = {words: told(run(program, *options, *words, **more)) for words in commands}
        walk, before = every_pair(commands), None
        results = run_session(program, walk, *options, **more)
        self.assertEqual(len(walk), len(results))
        for words, done in zip(walk, results, strict=True):
            with self.subTest(program, words=words, after=before):
                self.assertEqual(alone[words], told(done))
            before = words
        return alone

    def test_each_command_decides_on_what_it_names_whatever_a_service_answered_before(self):
        for program in PROGRAMS:
            alone = self.check(program, self.commands(), VALENCE_SCHED_URL=self.url, **self.homes)
            self.assertEqual([{"Podm": "prod"}], json.loads(alone[LIST][1]))
            self.assertEqual([{"Podm": "lab"}], json.loads(alone[(*LIST, *self.lab)][1]))

    def test_without_a_service_the_registry_is_asked_again(self):
        alone = self.check(PROGRAMS[0], self.commands()[:-1], **self.homes)
        self.assertEqual([{"Podm": "registered"}], json.loads(alone[LIST][1]))

    def test_the_option_of_a_session_stays_and_what_it_forbids_is_forbidden(self):
        option = ("--os-scheduler-endpoint", self.url)
        alone = self.check(PROGRAMS[1], self.commands(), *option, **self.homes)
        self.assertEqual([{"Podm": "prod"}], json.loads(alone[LIST][1]))

    def test_a_login_of_one_command_is_none_of_the_next(self):
        cloud = Cloud(schedulers=[("R", self.url)], podms=[("R", self.podms["gpu-west"].url)])
        self.addCleanup(cloud.close)
        commands = [
            *self.commands(),
            (*LIST, "--from-catalog"),
            (*SCHEDULE, "--inventory", SITE),
            (*SCHEDULE, "--inventory", SITE, "--prefer-near", "volume=db"),
        ]
        alone = self.check(PROGRAMS[1], commands, **cloud.environment, **self.homes)
        self.assertEqual([{"Podm": "prod"}], json.loads(alone[LIST][1]))
        owners = [json.loads(alone[words][1])["request"].get("owner")
                  for words in commands if words[:2] == SCHEDULE[:2]]  # fmt: skip
        self.assertEqual([None, "p"], owners)

    def test_hardware_that_a_command_does_not_name_is_not_composed(self):
        compose = ("podm", "schedule", "--flavor", "small", "--compose", "-f", "json")
        with contextlib.ExitStack() as stack:
            for program in PROGRAMS:
                results = run_session(
                    program, [LIST, (*compose, *self.lab), LIST], VALENCE_SCHED_URL=self.url,
                    **self.homes,
                )  # fmt: skip
                self.assertEqual([0, 0, 0], [done.code for done in results], results)
                (node,) = results[1].data
                self.assertEqual("lab", node["Podm"])
                stack.callback(run, program, "podm", "node", "delete", node["Node"], *self.lab)
        self.assertFalse([uri for uri in self.podms["gpu-east"].documents if "vs-" in uri])


LINES = [
    ("podm cl", ["claim"]),
    ("podm claim rel", ["release"]),
    (
        "scheduler ",
        [
            "audit",
            "check",
            "config",
            "explain",
            "filter",
            "policy",
            "quota",
            "weigher",
            "whatif",
            "zone",
        ],
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


#: Completes the command lines for each environment on its standard input.
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
    """Return the completions at the end of each line, as a shell requests them."""
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

    def test_a_session_completes_the_next_word_of_a_command(self):
        own = Shell()
        own.stdin = mock.Mock(isatty=lambda: True)
        with mock.patch("cliff.app.App.interact"), self.assertRaises(SystemExit):
            own.interact()
        prompt = object.__new__(own.interactive_app_factory)
        prompt.command_manager = own.command_manager
        for line, word, expected in (
            ("podm li", "li", ["list"]),
            ("podm no", "no", ["node"]),
            ("podm node l", "l", ["list"]),
            ("podm nothing", "nothing", []),
        ):
            with self.subTest(line):
                start = len(line) - len(word)
                found = prompt.completedefault(word, line, start, len(line))
                words = found if isinstance(found, list) else found.to_strings()
                self.assertEqual(expected, [*words])

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
            (("podm", "list", "--inventori", "x"), "did you mean '--inventory'?); see"),
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
