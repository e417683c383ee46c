# SPDX-License-Identifier: Apache-2.0
"""Interactive sessions: each command does what it does alone, whatever came before it."""

import contextlib
import json
import re

from tests.functional.cloud import Cloud
from tests.functional.programs import FLAVORS, PROGRAMS, SITE, Case, run
from tests.functional.session import run_session
from tests.service.serving import serving
from valence_sched.service.settings import ServiceSettings
from valence_sched.testing.served import served

HOMES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
LIST = ("podm", "list", "-f", "json", "-c", "Podm")
SCHEDULE = ("podm", "schedule", "--flavor", "small", "--report", "-")
BROKEN = '{"schema": "valence-sched/inventory", "version": "1.0", "podms": [%s, {"id": 7}]}'
ONE = '{"id": "half", "pools": [], "blocks": []}'


def every_pair(commands):
    """Return a walk over commands in which each one follows each one, itself included."""
    unused = {first: list(range(len(commands))) for first in range(len(commands))}
    stack, walk = [0], []
    while stack:
        if unused[stack[-1]]:
            stack.append(unused[stack[-1]].pop())
        else:
            walk.append(commands[stack.pop()])
    return walk[::-1]


def told(done):
    """Return what a command left behind, without how long it took."""
    code, *texts = done
    return code, *(re.sub(r"\d+(\.\d+)?(ms|s)\b", "", text) for text in texts)


class TestInteractive(Case):
    """Every pair of commands that name other targets, in one session of each program."""

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
        for name, words, homes in (
            ("other", cls.other, {}),
            ("registered", (), cls.homes),
        ):
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
