# SPDX-License-Identifier: Apache-2.0
"""A site of hundreds of pod managers on a terminal of 80 columns."""

import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

from tests.functional.programs import PROGRAMS, ROOT, SITE, Case, Done, run
from valence_sched.inventory.loader import MIN_CACHED_BYTES
from valence_sched.inventory.view_cache import SETTLED_NS
from valence_sched.testing import generate

PODMS = 300
WIDTH = 80
GPU = ("schedule", "--flavor", "gpu-large")
TOO_MANY = ("schedule", "--resource", "PGPU=64")


class TestMany(Case):
    """Screens that fit a terminal."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.site = str(cls.folder / "many.jsonl")
        command = [sys.executable, "-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                   "--blocks", "40", "--stocks", "2", "--output", cls.site]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True)

    def asked(self, *words: str, code: int = 0) -> str:
        done = run("valence-sched", "podm", *words, "--inventory", self.site, COLUMNS=str(WIDTH))
        self.assertEqual(code, done.code, done.err)
        return done.out

    def test_no_screen_is_wider_than_a_terminal(self):
        for words, code in (
            (("list",), 0),
            (("block", "list", "--limit", "200"), 0),
            (("pool", "list", "--sort", "gpus:desc"), 0),
            (("device", "list"), 0),
            (("fit", "--flavor", "gpu-large"), 0),
            ((*GPU, "--alternates", "5", "--explain"), 0),
            ((*GPU, "--zone", "zone-99"), 3),
            (TOO_MANY, 3),
            ((*TOO_MANY, "--explain"), 3),
        ):
            with self.subTest(words=words):
                lines = self.asked(*words, code=code).splitlines()
                self.assertTrue(lines)
                self.assertEqual([], [line for line in lines if len(line) > WIDTH])

    def test_why_nothing_fits_is_less_than_a_screen(self):
        for words in (TOO_MANY, (*GPU, "--zone", "zone-99")):
            self.assertLess(len(self.asked(*words, code=3).splitlines()), 24)

    def test_a_disabled_pod_manager_is_listed_as_one(self):
        listed = run("valence-sched", "podm", "list", "--long", "-f", "json", "--inventory",
                     self.site).data  # fmt: skip
        disabled = {row["Podm"] for row in listed if not row["Enabled"]}
        self.assertTrue(disabled)
        shown = {line.split()[1] for line in self.asked("list").splitlines() if "disabled" in line}
        self.assertEqual(disabled, shown)

    def test_a_pool_without_cores_or_memory_says_so(self):
        text = self.asked("show", "podm-00002")
        self.assertIn("no cores, no memory, 13 GPUs", " ".join(text.split()))

    def test_pages_go_on_where_the_last_one_ended(self):
        rows = []
        for marker in ((), ("--marker", "podm-00003")):
            data = run("valence-sched", "podm", "list", "--limit", "3", *marker, "-f", "json",
                       "--inventory", self.site).data  # fmt: skip
            rows += [row["Podm"] for row in data]
        self.assertEqual([f"podm-{number:05}" for number in range(1, 7)], rows)

    def test_a_row_that_is_none_is_refused_without_naming_all(self):
        words = ("block", "list", "--limit", "2", "--marker", "nope", "--inventory", self.site)
        done = run("valence-sched", "podm", *words)
        self.assertEqual(1, done.code)
        self.assertRegex(done.err, r"and [0-9,]+ more\)")


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
    """Return an outcome without ages, which change every second."""
    return done._replace(out=re.sub(r'"Read At": "[^"]*"', "", done.out))


class TestLargeFiles(Case):
    """A file just large enough for the cache, with and without the cache."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.folder / "site.jsonl"
        words = ["--podms", "480", "--blocks", "100", "--stocks", "1", "--seed", "1", "--output"]
        generate.main([*words, str(cls.file)])

    def setUp(self):
        self.assertGreater(self.file.stat().st_size, MIN_CACHED_BYTES)
        self.home = self.folder / self.id()

    def command(self, *words: str, program: str = PROGRAMS[0], **more: str):
        home = str(self.home)
        return run(program, *words, "--inventory", self.file, XDG_CACHE_HOME=home, **more)

    def cached_file(self) -> Path:
        """Return the file of the cached view, after the inventory is old enough to be cached."""
        time.sleep(max(0.0, self.file.stat().st_ctime + SETTLED_NS / 1e9 - time.time()))
        self.command("podm", "list")
        (found,) = self.home.rglob("*.view")
        return found

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
        self.assertIn("could not be used: its checksum is wrong", damaged.err)
        self.assertEqual(without, self.command(*COMMANDS[0]))

    def test_nothing_is_cached_where_the_environment_says_so(self):
        self.cached_file().unlink()
        self.command("podm", "list", VALENCE_SCHED_NO_CACHE="1")
        self.assertEqual([], list(self.home.rglob("*.view")))


PAGED_PODMS = ("podm", "list", "--inventory", SITE, "-f", "value", "-c", "Podm")
PAGES = [
    (PAGED_PODMS, ("--sort", "memory:desc", "--limit", "2"), ["gpu-east", "dark-1"]),
    (PAGED_PODMS, ("--sort", "Free Memory MiB:desc", "--limit", "2", "--marker", "dark-1"),
     ["gpu-west", "general-1"]),
    (PAGED_PODMS, ("--sort", "zone", "--sort", "gpus:desc", "--limit", "3"),
     ["gpu-east", "mem-1", "general-1"]),
    (PAGED_PODMS, ("--marker", "full-1"), []),
    (PAGED_PODMS, ("--aggregate", "gold", "--limit", "1"), ["gpu-east"]),
    (PAGED_PODMS, ("--trait", "HW_NIC_SRIOV", "--trait", "NO_SUCH"), []),
    (("podm", "block", "list", "--inventory", SITE, "-f", "value", "-c", "Block"),
     ("--podm", "gpu-east", "--marker", "gpu-east/GPU-03", "--limit", "1"), ["GPU-04"]),
    (("podm", "pool", "list", "--inventory", SITE, "-f", "value", "-c", "Pool"),
     ("--marker", "gpu-east/row-b", "--limit", "1"), ["row-c"]),
    (("podm", "device", "list", "--inventory", SITE, "-f", "value", "-c", "Device"),
     ("--sort", "devices:desc", "--limit", "1"), ["memory", "module"]),
]  # fmt: skip
REFUSED = [
    (("--marker", "nobody"), "--marker: no row named 'nobody'", 1),
    (("--sort", "zonne"), "--sort: no column named 'zonne'", 2),
    (("--sort", "zone:up"), "--sort: 'zone:up': the direction must be asc or desc", 2),
    (("--limit", "0"), "argument --limit: must be 1 to 1,000,000, got '0'", 2),
]


class PagingTest(unittest.TestCase):
    def test_a_page_is_what_is_asked_for(self):
        for command, options, expected in PAGES:
            with self.subTest(options):
                done = run("valence-sched", *command, *options)
                self.assertEqual((0, expected), (done.code, done.out.split()), done.err)

    def test_pages_one_after_another_are_the_whole_list(self):
        whole, found, marker = run("valence-sched", *PAGED_PODMS).out.split(), [], ()
        while page := run("valence-sched", *PAGED_PODMS, "--limit", "3", *marker).out.split():
            found += page
            marker = ("--marker", page[-1])
        self.assertEqual(whole, found)

    def test_a_wrong_page_is_refused_in_one_line(self):
        for options, problem, code in REFUSED:
            with self.subTest(options):
                done = run("valence-sched", *PAGED_PODMS, *options)
                self.assertEqual((code, "", 1), (done.code, done.out, done.err.count("\n")))
                self.assertIn(problem, done.err)


if __name__ == "__main__":
    unittest.main()
