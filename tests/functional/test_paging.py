# SPDX-License-Identifier: Apache-2.0
"""Long lists: sorted, and page by page."""

import unittest

from tests.functional.programs import SITE, run

PODMS = ("podm", "list", "--inventory", SITE, "-f", "value", "-c", "Podm")
PAGES = [
    (PODMS, ("--sort", "memory:desc", "--limit", "2"), ["gpu-east", "dark-1"]),
    (PODMS, ("--sort", "Free Memory MiB:desc", "--limit", "2", "--marker", "dark-1"),
     ["gpu-west", "general-1"]),
    (PODMS, ("--sort", "zone", "--sort", "gpus:desc", "--limit", "3"),
     ["gpu-east", "mem-1", "general-1"]),
    (PODMS, ("--marker", "full-1"), []),
    (PODMS, ("--aggregate", "gold", "--limit", "1"), ["gpu-east"]),
    (PODMS, ("--trait", "HW_NIC_SRIOV", "--trait", "NO_SUCH"), []),
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
    (("--sort", "zone:up"), "--sort: 'zone:up': the direction is asc or desc", 2),
    (("--limit", "0"), "argument --limit: must be 1 to 1,000,000, got '0'", 2),
]


class PagingTest(unittest.TestCase):
    def test_a_page_is_what_is_asked_for(self):
        for command, options, expected in PAGES:
            with self.subTest(options):
                done = run("valence-sched", *command, *options)
                self.assertEqual((0, expected), (done.code, done.out.split()), done.err)

    def test_pages_one_after_another_are_the_whole_list(self):
        whole, found, marker = run("valence-sched", *PODMS).out.split(), [], ()
        while page := run("valence-sched", *PODMS, "--limit", "3", *marker).out.split():
            found += page
            marker = ("--marker", page[-1])
        self.assertEqual(whole, found)

    def test_a_wrong_page_is_refused_in_one_line(self):
        for options, problem, code in REFUSED:
            with self.subTest(options):
                done = run("valence-sched", *PODMS, *options)
                self.assertEqual((code, "", 1), (done.code, done.out, done.err.count("\n")))
                self.assertIn(problem, done.err)


if __name__ == "__main__":
    unittest.main()
