# SPDX-License-Identifier: Apache-2.0
"""``podm capture`` and ``podm inventory diff``, as people and scripts run them."""

import json
import os
from pathlib import Path

from tests.functional.programs import PROGRAMS, SITE, Case, run

KEY = "a key that nobody guesses"


class TestCapture(Case):
    def test_a_captured_inventory_has_no_difference_from_its_source(self):
        for program in PROGRAMS:
            file = str(self.folder / f"{program}.jsonl.gz")
            done = run(program, "podm", "capture", "--inventory", SITE, "-o", file, "-f", "json")
            self.assertEqual((0, ""), (done.code, done.err))
            self.assertEqual({"File": file, "Podms": 8, "Blocks": 203, "Failed": {}}, done.data)
            done = run(program, "podm", "inventory", "diff", SITE, file, "--detailed-exitcode")
            self.assertEqual((0, "", "no difference\n"), done)

    def test_a_tree_has_the_blocks_of_its_source(self):
        tree = str(self.folder / "tree")
        done = run("valence-sched", "podm", "capture", "--inventory", SITE, "--tree", tree,
                   "-f", "json")  # fmt: skip
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertEqual((8, 203), (done.data["Podms"], done.data["Blocks"]))
        self.assertTrue(os.path.isfile(f"{tree}/gpu-east/redfish/v1/index.json"))
        done = run("valence-sched", "podm", "inventory", "diff", SITE, tree, "-f", "json")
        told = {(row["Kind"], row["Change"]) for row in done.data}
        self.assertFalse(told & {("block", "added"), ("block", "removed"), ("block", "state")})
        self.assertFalse({row["Change"] for row in done.data if row["Kind"] == "node"}
                         - {"owner", "group"})  # fmt: skip

    def test_a_folder_that_is_there_is_not_replaced(self):
        self.write("full/mine", "x")
        full = str(self.folder / "full")
        done = run("valence-sched", "podm", "capture", "--inventory", SITE, "--tree", full)
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertEqual(1, done.err.count("\n"))
        self.assertIn("name a new folder", done.err)
        self.assertEqual(["mine"], os.listdir(full))

    def test_only_those_that_are_named_are_captured(self):
        file = str(self.folder / "two.json")
        words = ("podm", "capture", "mem-1", "gpu-east", "--inventory", SITE, "-o", file)
        self.assertEqual(2, run("valence-sched", *words, "-f", "json").data["Podms"])
        done = run("valence-sched", "podm", "capture", "gpu-eats", "--inventory", SITE, "-o", file)
        self.assertEqual(1, done.code)
        self.assertIn("did you mean 'gpu-east'?", done.err)

    def test_a_capture_under_one_key_is_the_same_each_time(self):
        files = [str(self.folder / f"{number}.json") for number in range(3)]
        for file, key in zip(files, (KEY, KEY, KEY[::-1]), strict=True):
            done = run("valence-sched", "podm", "capture", "--inventory", SITE, "-o", file,
                       "--anonymize-key-env", "ALIASES", ALIASES=key)  # fmt: skip
            self.assertEqual(0, done.code, done)
        first, second, third = ((self.folder / f"{n}.json").read_bytes() for n in range(3))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        for name in (b"east", b"example.org", b"Northwind", KEY.encode()):
            self.assertNotIn(name, first)

    def test_words_that_contradict_each_other_are_refused(self):
        file = str(self.folder / "never.json")
        for words, code, told in (
            (("-o", file), 2, "give --all"),
            (("a", "--all", "-o", file), 2, "not both"),
            (("--all",), 2, "--output"),
            (("--all", "-o", file, "--tree", "x"), 2, "not allowed with"),
            (("--inventory", SITE, "-o", str(self.folder / "x.txt")), 1, "end it in .json"),
            (("--inventory", SITE, "-o", file, "--anonymize-key-env", "NOPE"), 1, "found nothing"),
            (("--inventory", SITE, "-o", file, "--anonymize-key-env", "HOME"), 1, "at least 16"),
        ):
            with self.subTest(words=words):
                done = run("valence-sched", "podm", "capture", *words, HOME="/x")
                self.assertEqual((code, ""), (done.code, done.out), done)
                self.assertIn(told, done.err)
        self.assertFalse(os.path.exists(file))

    def test_what_had_to_be_skipped_is_told_and_strict_about(self):
        broken = self.write("broken.jsonl", b'{"schema":"valence-sched/inventory"}\n'
                            b'{"id":"a"}\n{"id":1}\n')  # fmt: skip
        for words, code in (((), 0), (("--strict",), 5)):
            file = str(self.folder / f"sound{code}.json")
            done = run(
                "valence-sched", "podm", "capture", "--inventory", broken, "-o", file, *words
            )
            self.assertEqual(code, done.code, done)
            self.assertIn("skipped: ", done.err)
            self.assertEqual(
                ["a"], [one["id"] for one in json.loads(Path(file).read_bytes())["podms"]]
            )


class TestDiff(Case):
    def changed(self) -> str:
        site = json.loads(Path(SITE).read_bytes())
        podms = {podm["id"]: podm for podm in site["podms"]}
        east = podms["gpu-east"]
        east["blocks"][1]["status"] = {"state": "Composed", "health": "OK"}
        del east["blocks"][2]
        east["zone"] = "east-2"
        site["podms"].remove(podms["mem-1"])
        return self.write("changed.json", json.dumps(site))

    def test_rows_say_what_came_went_and_changed(self):
        new = self.changed()
        for program in PROGRAMS:
            done = run(program, "podm", "inventory", "diff", SITE, new, "-f", "json")
            self.assertEqual((0, ""), (done.code, done.err))
            rows = [tuple(row.values()) for row in done.data]
            block = "/redfish/v1/CompositionService/ResourceBlocks/Compute-0"
            self.assertEqual(("gpu-east", "podm", "gpu-east", "zone", "east-1", "east-2"), rows[0])
            self.assertEqual(
                ("gpu-east", "block", f"{block}2", "state", "Unused", "Composed"), rows[1]
            )
            self.assertEqual(("gpu-east", "block", f"{block}3", "removed"), rows[2][:4])
            self.assertEqual(("Compute", None), (rows[2][4]["type"][0], rows[2][5]))
            self.assertEqual(("mem-1", "podm", "mem-1", "removed"), rows[3][:4])
            self.assertEqual(4, len(rows))

    def test_the_exit_code_tells_a_difference_if_asked(self):
        new = self.changed()
        for words, code in (((), 0), (("--detailed-exitcode",), 10)):
            for format_ in ("table", "json", "csv", "value"):
                done = run("valence-sched", "podm", "inventory", "diff", SITE, new, *words,
                           "-f", format_)  # fmt: skip
                self.assertEqual((code, ""), (done.code, done.err))
                self.assertIn("Compute-02", done.out)

    def test_standard_input_may_be_one_of_them(self):
        data = Path(SITE).read_bytes()
        words = ("podm", "inventory", "diff")
        for pair in (("-", SITE), (SITE, "-")):
            done = run("valence-sched", *words, *pair, stdin=data)
            self.assertEqual((0, "", "no difference\n"), done)
        done = run("valence-sched", *words, "-", "-", stdin=data)
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("only one may be standard input", done.err)

    def test_no_difference_is_an_empty_list_for_a_program(self):
        done = run("valence-sched", "podm", "inventory", "diff", SITE, SITE, "-f", "json")
        self.assertEqual((0, [], "no difference\n"), (done.code, done.data, done.err))

    def test_what_cannot_be_read_is_told_and_no_difference_is_claimed(self):
        for file in ("/nowhere.json", self.write("empty.json", b""), self.write("odd.json", "{}")):
            for pair in ((SITE, file), (file, SITE)):
                done = run("valence-sched", "podm", "inventory", "diff", *pair)
                self.assertEqual((1, ""), (done.code, done.out), done)
                self.assertNotIn("no difference", done.err)
