# SPDX-License-Identifier: Apache-2.0
"""``podm fit`` of a mix: the proven bound, the exhausted resource, sums, and stranded amounts."""

import json

from tests.functional.programs import ROOT, SITE, Case, asked, run

WORDS = ("podm", "fit", "--inventory", SITE)
MIX = ("--mix", "gpu-large=1,small=4")
SCENARIO = f"{ROOT / 'examples' / 'scenarios.yaml'}#new cards"


class TestCapacity(Case):
    """The capacity of the example site, on screens and in JSON."""

    def rows(self, *words, code=0):
        done = run("valence-sched", *WORDS, *words, "-f", "json")
        self.assertEqual(code, done.code, done.err)
        return json.loads(done.out), done.err

    def totals(self, *words):
        rows, _ = self.rows(*words)
        return {row["Flavor"]: row for row in rows if row["Podm"] == "total"}

    def test_a_mix_is_counted_beside_its_flavors(self):
        rows, told = self.rows(*MIX)
        mix = {row["Podm"]: row["Nodes"] for row in rows if row["Flavor"] == "mix"}
        self.assertEqual(mix.pop("total"), sum(mix.values()))
        self.assertEqual(["gpu-large", "small", "mix"],
                         list(dict.fromkeys(row["Flavor"] for row in rows)))  # fmt: skip
        self.assertIn("mix: 23 nodes (4 gpu-large, 19 small); then gpu-large does not fit", told)
        self.assertEqual({"Flavor", "Podm", "Nodes"}, set(rows[0]))

    def test_all_numbers_stand_in_order(self):
        for name, row in self.totals(*MIX, "--proven", "--explain").items():
            with self.subTest(name):
                numbers = [row["Nodes"], row["Found"], row["Proven Most"], row["Podm Sums"],
                           row["Site Sums"]]  # fmt: skip
                self.assertEqual(sorted(numbers), numbers)
                self.assertTrue(row["Runs Out"])
        self.assertEqual((23, 24, {"gpu-large": 4, "small": 19}),
                         (row["Nodes"], row["Proven Most"], row["Of Each"]))  # fmt: skip

    def test_people_see_what_runs_out_and_what_sums_promise(self):
        done = run("valence-sched", *WORDS, *MIX, "--explain", COLUMNS="80")
        _, _, sections = done.out.partition("Runs out first\n")
        self.assertRegex(sections, r"gpu-large  cores within the pool's block limits \(gpu-east\);")
        self.assertRegex(sections, r"gpu-large +12 +8 +4\n")
        self.assertRegex(sections, r"mix +64 +44 +23\n")

    def test_stranded_amounts_are_all_that_is_free_and_not_usable(self):
        rows, _ = self.rows(*MIX, "--stranded")
        self.assertEqual([], [row for row in rows if row["Usable"] + row["Stranded"] != row["Free"]
                              or sum(row["Reasons"].values()) != row["Stranded"]])  # fmt: skip
        (cards,) = [row for row in rows if (row["Podm"], row["Kind"]) == ("store-1", "GPU")]
        self.assertEqual((4, {"no free cores or memory (gpu-large)": 4}),
                         (cards["Stranded"], cards["Reasons"]))  # fmt: skip

    def test_edits_change_what_is_counted(self):
        edits = ("--add", "4xGPU-03@gpu-east/row-b", "--add", "4xCompute-02@gpu-east/row-b",
                 "--add", "4xNVMe-02@gpu-east/row-b")  # fmt: skip
        before, after = (self.totals(*MIX, *words)["gpu-large"]["Nodes"] for words in ((), edits))
        self.assertGreater(after, before)
        rows, _ = self.rows(*MIX, "--stranded", "--fail", "gpu-east", "--set", "mem-1:enabled=no")
        self.assertNotIn("gpu-east", {row["Podm"] for row in rows})  # it has no free amount
        self.assertEqual({0}, {row["Usable"] for row in rows if row["Podm"] == "mem-1"})
        edited, file = self.totals("--scenario", SCENARIO, "--flavor", "gpu-large"), "edited.json"
        run("valence-sched", "podm", "inventory", "edit", "--inventory", SITE, "--scenario",
            SCENARIO, "-o", self.folder / file)  # fmt: skip
        done = run("valence-sched", "podm", "fit", "--inventory", self.folder / file, "--flavor",
                   "gpu-large", "-f", "json")  # fmt: skip
        self.assertEqual(json.loads(done.out)[-1]["Nodes"], edited["gpu-large"]["Nodes"])

    def test_wrong_words_get_one_line(self):
        for words, told in (
            (("--mix", "gpu-large"), None),
            (("--mix", "gpu-large=0"), "'gpu-large=0' is not FLAVOR=SHARE"),
            (("--mix", "gpu-larg=1"), "no flavor named 'gpu-larg' (did you mean 'gpu-large'?)"),
            (("--mix", "small=0.333333,large=0.666667"), "add up to more than 10,000 parts"),
            ((*MIX, "--mix", "small=1"), "--mix: given twice"),
            ((*MIX, "--stranded", "--proven"), "--proven: not with --stranded"),
            ((*MIX, "--stranded", "--limit", "5"), "--limit: not with --stranded"),
            (("--require", "mix=3"), "no flavor named 'mix'"),
            (("--stranded", "--fail", "rack-9"), "rack-9"),
        ):
            with self.subTest(words):
                done = asked("valence-sched", *WORDS, *words)
                self.assertEqual(told is None, not done.code, done.err)
                lines = done.err.replace("free, but not usable: dark-1 (Offline)\n", "")
                self.assertEqual(1, len(lines.splitlines()))
                self.assertIn(told or "mix: 4 nodes", done.err)

    def test_what_is_required_of_the_mix_decides_the_exit_code(self):
        for least, code in ((23, 0), (24, 3)):
            done = asked("valence-sched", *WORDS, *MIX, "--require", f"mix={least}")
            self.assertEqual(code, done.code)
        self.assertIn("the mix has 23 nodes, but 24 are required", done.err)
