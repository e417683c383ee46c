# SPDX-License-Identifier: Apache-2.0
"""``podm inventory edit`` in both programs: its output, messages and refusals."""

import json
from pathlib import Path

from tests.functional.programs import PROGRAMS, ROOT, SITE, Case, asked, run

SCENARIOS = str(ROOT / "examples" / "scenarios.yaml")
WORDS = ("podm", "inventory", "edit", "--inventory", SITE)


class TestEdit(Case):
    """Edits of the example site."""

    def edit(self, *words, program="valence-sched", **more):
        return run(program, *WORDS, *words, **more)

    def written(self, *words):
        file = self.folder / "edited.json"
        done = self.edit(*words, "-o", file, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        podms = json.loads(file.read_bytes())["podms"]
        return json.loads(done.out), {podm["id"]: podm for podm in podms}

    def fits(self, flavor, inventory):
        words = ("podm", "fit", "--inventory", inventory, "--flavor", flavor, "-f", "json")
        rows = json.loads(run("valence-sched", *words).out)
        return {row["Podm"]: row["Nodes"] for row in rows}

    def test_edits_are_applied_in_the_order_in_which_they_are_given(self):
        rows, podms = self.written(
            "--clone", "mem-1x2", "--remove", "mem-1", "--set", "mem-1-2:zone=az9",
            "--fail", "zone=az9", "--add", "2xHost1@mem-1-3",
        )  # fmt: skip
        self.assertEqual(["clone mem-1 x2", "remove mem-1", "set mem-1-2: zone", "fail zone=az9",
                          "add 2xHost1@mem-1-3"], [row["Edit"] for row in rows])  # fmt: skip
        self.assertEqual([4, 0], [rows[1]["Nodes Lost"], rows[3]["Nodes Lost"]])
        self.assertNotIn("mem-1", podms)
        self.assertEqual("Offline", podms["mem-1-2"]["status"])
        self.assertEqual(2, len(podms["mem-1-3"]["blocks"]) - len(podms["mem-1-2"]["blocks"]))

    def test_values_of_attributes(self):
        _, podms = self.written(
            "--set", "gpu-east:facts.price=2.5", "--set", "gpu-east:facts.racks=R1;R2",
            "--set", "gpu-east:facts.year=", "--set", "gpu-east:capabilities.os=linux;bsd",
            "--set", "gpu-east:capabilities.fabric=", "--set", "gpu-east:traits=A;B",
            "--set", "gpu-east:enabled=no", "--set", "gpu-east:zone=", "--set",
            "GPU-0[12]@gpu-east:health=Warning", "--set", "gpu-east/row-c:traits=SLED",
        )  # fmt: skip
        east = podms["gpu-east"]
        self.assertEqual((2.5, ["R1", "R2"]), (east["facts"]["price"], east["facts"]["racks"]))
        self.assertNotIn("year", east["facts"])
        self.assertEqual({"os": ["linux", "bsd"]}, east["capabilities"])
        self.assertEqual((["A", "B"], False, None),
                         (east["traits"], east["enabled"], east.get("zone")))  # fmt: skip
        warned = [block["uri"] for block in east["blocks"]
                  if block.get("status", {}).get("health") == "Warning"]  # fmt: skip
        self.assertGreaterEqual(len(warned), 2)
        self.assertEqual(["SLED"], east["pools"][2]["traits"])

    def test_both_programs_write_the_same_and_another_command_reads_it(self):
        texts = []
        for program in PROGRAMS:
            done = self.edit("--fail", "GPU-02@gpu-east", "-o", "-", program=program)
            self.assertEqual(0, done.code, done.err)
            self.assertIn("fail GPU-02@gpu-east: 1 podm, 1 block\n", done.err)
            texts.append(done.out)
        self.assertEqual(texts[0], texts[1])
        words = ("podm", "inventory", "validate", "-", "-f", "json")
        (row,) = json.loads(run("valence-sched", *words, stdin=texts[0].encode()).out)
        self.assertEqual((True, 8, []), (row["Valid"], row["Podms"], row["Skipped"]))

    def test_a_scenario_of_a_file_with_edits_besides(self):
        rows, podms = self.written("--scenario", f"{SCENARIOS}#new cards", "--drain", "gpu-west")
        self.assertEqual(["fail GPU-01@gpu-east", "add 2xA100 tray@gpu-east/row-a",
                          "drain gpu-west"], [row["Edit"] for row in rows])  # fmt: skip
        self.assertFalse(podms["gpu-west"]["enabled"])
        self.assertEqual(6, self.fits("gpu-large", self.folder / "edited.json")["total"])

    def test_a_remark_says_what_an_inventory_does_not_hold(self):
        remark = "remark: an inventory file does not hold policies, weights and flavors"
        remark += " of a scenario\n"
        for name, told in (("one more of the same", True), ("new cards", False)):
            done = self.edit("--scenario", f"{SCENARIOS}#{name}", "-o", self.folder / "e.json")
            self.assertEqual(told, remark in done.err, done.err)

    def test_what_is_refused_is_one_line_and_nothing_is_written(self):
        file = self.folder / "none.json"
        for words, code, message in (
            ((), 2,
             "no edit given: use --fail, --drain, --remove, --clone, --add, --set or --scenario, "
             "or use podm inventory convert"),
            (("--fail", "gpu-eats"), 1,
             "fail gpu-eats: no pod manager named 'gpu-eats' (did you mean 'gpu-east'?)"),
            (("--scenario", SCENARIOS), 2,
             "--scenario: 4 scenarios (a tray dies, new cards, no A100 in the east, one more of "
             "the same), but the command needs one inventory: name a scenario with FILE#NAME"),
            (("--scenario", f"{SCENARIOS}#a try dies"), 1,
             f"{SCENARIOS}: no scenario named 'a try dies' (did you mean 'a tray dies'?)"),
            (("--add", "1000000000xGPU-01@gpu-east"), 2, "argument --add"),
            (("--clone", "gpu-east/row-a"), 2,
             "'gpu-east/row-a', expected pod managers to clone, not pools or blocks"),
            (("--set", "gpu-east:zoen=a"), 2, "is not TARGET:KEY=VALUE (did you mean 'zone'?)"),
            (("--set", "GPU-01@gpu-east:zone=a"), 2,
             "expected for blocks one or more of enabled, health, reserved"),
            (("--fail", "free=perhaps"), 2, "argument --fail"),
            (("--add", "GPU-01"), 2, "is not NxBLOCK@PODM, as in 2xGPU-03@rack-1"),
        ):  # fmt: skip
            with self.subTest(words):
                done = self.edit(*words, "-o", file)
                self.assertEqual(code, done.code, done)
                self.assertIn(message, done.err)
                self.assertEqual(1, done.err.count("\n"), done.err)
                self.assertFalse(file.exists())

    def test_standard_input_is_read_once(self):
        done = asked("valence-sched", "podm", "inventory", "edit", "--inventory", "-", "--scenario",
                     "-", "-o", "-")  # fmt: skip
        self.assertEqual(2, done.code)
        self.assertIn("only one may be standard input (-): --inventory, --scenario", done.err)

    def test_a_scenario_of_standard_input(self):
        text = Path(SCENARIOS).read_bytes().partition(b"- name: new cards")[0]
        done = self.edit("--scenario", "-", "-o", "-", stdin=text)
        self.assertEqual(0, done.code, done.err)
        self.assertIn("fail GPU-01@gpu-east: 1 podm, 1 block, 1 node lost\n", done.err)
