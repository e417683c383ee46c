# SPDX-License-Identifier: Apache-2.0
"""The progress line of the real program on a terminal, while it waits for slow pod managers."""

import contextlib
import json
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.functional.programs import FLAVORS, PROGRAMS, SITE, Case, environment, run
from tests.functional.terminal import COLOUR, CONTROL, Terminal, frames, lasting, watched
from valence_sched.testing.served import ServedPodm, served

#: Longer than the second before the line appears, also on a busy machine.
SLOW = "delay:2500:GET:/redfish/v1"
COMPOSES_SLOWLY = "delay:2500:POST:/redfish/v1/Systems"
DELETES_SLOWLY = "delay:2500:DELETE:/redfish/v1/Systems/*"
RACKS = ("gpu-east", "gpu-west", "gpu-north", "dark-1")
SHOWN_AGAIN = "\x1b[?25h"  # the cursor
LOADED = """
import json, sys
from valence_sched_cli.shell import main
code = main(sys.argv[2:])
json.dump(sorted(sys.modules), open(sys.argv[1], "w"))
sys.exit(code)
"""


class TestProgress(Case):
    """A line appears after a second, names the awaited pod managers, and is erased at the end."""

    @contextlib.contextmanager
    def site(self, *fail: str, only: tuple[str, ...] = RACKS) -> Iterator[dict[str, ServedPodm]]:
        """Serve some pod managers of the example site, and write a file that names them."""
        with served(SITE, fail=fail) as podms:
            urls = {name: {"url": podms[name].url} for name in only}
            file = self.write("podms.yaml", yaml.safe_dump({"podms": urls}, sort_keys=False))
            self.site_words = ("--podm-file", file, "--state", f"{self.folder}/{self.id()}.sqlite")
            yield podms

    def watched(self, *words: str | Path, code: int = 0, **more: str) -> str:
        """Return all output of a command to a terminal."""
        done, _, text = watched("podm", *map(str, words), *self.site_words, **more)
        self.assertEqual(code, done, text)
        self.assertNotIn("Traceback", text)
        return text

    def test_reading_names_only_those_that_have_not_answered(self):
        line = "read 2 of 4 pod managers, waiting for gpu-west and dark-1"
        with self.site(f"{SLOW}@gpu-west", f"{SLOW}@dark-1"):
            for command in (("list",), ("schedule", "--flavor", "small"), ("check", "--all"),
                            ("capture", "--all", "-o", self.folder / "all.json")):  # fmt: skip
                with self.subTest(command[0]):
                    text = self.watched(*command)
                    self.assertIn(line, frames(text))
                    self.assertTrue(COLOUR.search(text))
                    self.assertTrue(text.rindex(SHOWN_AGAIN) > text.rindex("waiting"))
                    self.assertNotIn("waiting", " ".join(lasting(text)))

    def test_registering_says_that_the_pod_manager_is_read(self):
        with self.site(SLOW) as podms:
            self.site_words = self.site_words[2:]
            text = self.watched("create", "new", podms["gpu-east"].url)
            self.assertIn("new: reading", frames(text))

    def test_composing_and_removing_name_the_node_the_pod_manager_and_the_activity(self):
        with self.site(COMPOSES_SLOWLY, DELETES_SLOWLY, only=("gpu-east",)):
            text = self.watched("schedule", "--flavor", "small", "--compose")
            listed = run("valence-sched", "podm", "node", "list", "-f", "json", *self.site_words)
            (node,) = (row["Node"] for row in listed.data)
            self.assertIn(f"node {node} on gpu-east: composing (specific)", frames(text))
            self.assertIn("1 of 1 node composed (policy default", lasting(text)[-1])
            text = self.watched("node", "delete", node, "nobody", code=1)
            self.assertIn(f"node {node} on gpu-east: decomposing", frames(text))
            (line,) = lasting(text)
            self.assertIn("nobody", line)  # a message during the wait has its own line

    def test_a_quick_command_shows_nothing_and_does_not_import_what_would(self):
        loaded, terminal = self.folder / "loaded.json", Terminal()
        with self.site(), open(terminal.path, "wb") as err:
            command = [sys.executable, "-c", LOADED, loaded, "podm", "list", *self.site_words]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=err,
                                  env=environment(TERM="xterm"), check=False)  # fmt: skip
        text = terminal.close()
        self.assertEqual(0, done.returncode, text)
        self.assertNotIn("\x1b", text)
        modules = json.loads(loaded.read_text())
        self.assertIn("valence_sched_cli.output.progress", modules)
        self.assertNotIn("rich", modules)

    def test_no_line_without_a_terminal_that_can_have_one(self):
        with self.site(f"{SLOW}@gpu-west"):
            piped = run("valence-sched", "podm", "list", *self.site_words, TERM="xterm")
            self.assertNotIn("\x1b", piped.err)
            self.assertNotIn("waiting", piped.err)
            self.assertNotIn("waiting", self.watched("list", TERM="dumb"))
            self.assertEqual("", self.watched("list", "-q"))

    def test_no_colour_means_none(self):
        with self.site(f"{SLOW}@gpu-west"):
            text = self.watched("list", NO_COLOR="1")
            self.assertTrue(frames(text))
            self.assertIsNone(COLOUR.search(text))
            self.assertTrue(CONTROL.search(text))


PLACED = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "-f", "json")
NOT_PLACED = ("podm", "schedule", "--inventory", SITE, "--resource", "VCPU=100000", "-f", "json")
WRONG = ("podm", "schedule", "--inventory", SITE, "--flavor", "smal")
LINE = "no flavor named 'smal' (did you mean 'small'?)\n"
CLOSING = "placed 1 of 1 (policy default, seed 0); 5 others fit, 2 do not: --explain\n"
NOVA = '{"name": "n", "vcpus": 1, "ram": 1, "extra_specs": {"hw_rng:allowed": "True"}}'


class TestLogging(Case):
    """The logging options of every command."""

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
