# SPDX-License-Identifier: Apache-2.0
"""A site of hundreds of pod managers, as its operator sees it on a terminal of 80 columns."""

import subprocess
import sys

from tests.functional.programs import ROOT, Case, run

PODMS = 300
WIDTH = 80
GPU = ("schedule", "--flavor", "gpu-large")
TOO_MANY = ("schedule", "--resource", "PGPU=64")


class TestMany(Case):
    """Screens of the size of a terminal."""

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
