# SPDX-License-Identifier: Apache-2.0
"""Commands on a large inventory file: its view is cached, and nothing that they print changes."""

import re
import time
from pathlib import Path

from tests.functional.programs import PROGRAMS, Case, Done, run
from valence_sched.inventory.loader import MIN_CACHED_BYTES
from valence_sched.testing import generate

COMMANDS = (
    ("podm", "schedule", "--flavor", "gpu-large", "--count", "3", "--report", "-"),
    ("podm", "schedule", "--flavor", "small", "--explain", "--alternates", "2"),
    ("podm", "schedule", "--flavor", "gpu-large", "--count", "100000"),
    ("podm", "list", "--long", "-f", "json"),
    ("podm", "fit", "--flavor", "storage-large", "-f", "json"),
    ("podm", "show", "podm-00007", "-f", "json"),
    ("podm", "pool", "list", "-f", "json"),
    ("podm", "block", "list", "--podm", "podm-00011", "-f", "json"),
    ("podm", "device", "list", "-f", "json"),
)


def ageless(done: Done) -> Done:
    """Return an outcome without ages, which are others a second later."""
    return done._replace(out=re.sub(r'"Read At": "[^"]*"', "", done.out))


class TestLargeFiles(Case):
    """One file just large enough, with the cache and without."""

    def setUp(self):
        self.file, self.home = self.folder / "site.jsonl", self.folder / "cache"
        words = ["--podms", "480", "--blocks", "100", "--stocks", "1", "--seed", "1", "--output"]
        generate.main([*words, str(self.file)])
        self.assertGreater(self.file.stat().st_size, MIN_CACHED_BYTES)

    def command(self, *words: str, program: str = PROGRAMS[0], **more: str):
        home = str(self.home)
        return run(program, *words, "--inventory", self.file, XDG_CACHE_HOME=home, **more)

    def cached_file(self) -> Path:
        """Return the file of the cached view, once the inventory is old enough for one."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.command("podm", "list")
            if found := list(self.home.rglob("*.view")):
                return found[0]
        raise AssertionError("nothing was cached")

    def test_each_command_prints_the_same_with_the_cache_as_without(self):
        self.cached_file()
        for words in COMMANDS:
            with self.subTest(" ".join(words)):
                without = self.command(*words, "--no-cache")
                cached = self.command(*words)
                self.assertEqual(ageless(without), ageless(cached))
                self.assertTrue(cached.out or cached.code == 3, cached.err)
        for program in PROGRAMS[1:]:
            self.assertEqual(self.command(*COMMANDS[0], "--no-cache", program=program).out,
                             self.command(*COMMANDS[0], program=program).out)  # fmt: skip

    def test_a_damaged_view_is_told_and_changes_nothing(self):
        file = self.cached_file()
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        without = self.command(*COMMANDS[0], "--no-cache")
        damaged = self.command(*COMMANDS[0])
        self.assertEqual((without.code, without.out), (damaged.code, damaged.out))
        self.assertIn("could not be used: its checksum is another one", damaged.err)
        self.assertEqual(without, self.command(*COMMANDS[0]))

    def test_nothing_is_cached_where_the_environment_says_so(self):
        self.cached_file().unlink()
        self.command("podm", "list", VALENCE_SCHED_NO_CACHE="1")
        self.assertEqual([], list(self.home.rglob("*.view")))
