# SPDX-License-Identifier: Apache-2.0
"""The main task in both programs: choosing the pod manager, the pool and the blocks."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import unittest
from pathlib import Path

from tests.functional.programs import (
    BIN,
    FLAVORS,
    PROGRAMS,
    ROOT,
    SITE,
    Case,
    asked,
    environment,
    run,
)

BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks/"
COLUMNS = ["Node", "Rank", "Podm", "Pool", "Score", "Blocks", "Amounts"]
GPU = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large")
NODE = "name: tiny\nproperties: {processor: {total_cores: 4}}\n"
GOOD = {"id": "good", "blocks": [{"uri": "/b/1", "devices": {"processors": [{"cores": 8}]}}]}
PART = {"schema": "valence-sched/inventory", "podms": [GOOD, {"id": "bad", "zoen": "x"}]}


def rows(*words: str, program: str = "valence-sched"):
    return asked(program, *words, "-f", "json").data


def verdicts(*words: str):
    found = asked("valence-sched", *words, "--report", "-").verdicts
    return {one["Podm"]: one for one in found}


def chosen(*words: str):
    return [row for row in rows(*words) if row["Rank"] == 1]


class TestBothPrograms(Case):
    """Output that scripts use is the same in both programs."""

    def both(self, code, *words, stdin=b""):
        done = [run(program, *words, stdin=stdin) for program in PROGRAMS]
        self.assertEqual([code, code], [one.code for one in done], done)
        self.assertEqual(done[0], done[1])
        self.assertNotIn("Traceback", done[0].err)
        return done[0]

    def test_the_node_is_placed_and_every_other_pod_manager_is_counted(self):
        done = self.both(0, *GPU, "-f", "json")
        others = "1 other fits, 6 do not: --explain"
        self.assertEqual(f"placed 1 of 1 (policy default, seed 0); {others}\n", done.err)
        (first,) = done.data
        self.assertEqual(
            {
                "Node": 1,
                "Rank": 1,
                "Podm": "gpu-east",
                "Pool": "row-a",
                "Score": 0.695767,
                "Blocks": [BLOCKS + name for name in ("Compute-02", "GPU-03", "NVMe-02")],
                "Amounts": [],
            },
            first,
        )

    def test_the_report_in_place_of_the_rows_has_every_other_pod_manager_with_its_reason(self):
        first, second, *others = self.both(0, *GPU, "--report", "-").verdicts
        self.assertEqual(("gpu-east", "chosen"), (first["Podm"], first["Outcome"]))
        self.assertEqual(["gpu-north", "fits"], [second["Podm"], second["Outcome"]])
        self.assertEqual({"rejected"}, {row["Outcome"] for row in others})
        self.assertTrue(all(row["Reason"] and row["Score"] is None for row in others))
        self.assertEqual(6, len({row["Podm"] for row in others}))

    def test_an_error_exits_1_with_one_line(self):
        done = self.both(1, "podm", "schedule", "--inventory", SITE, "--flavor", "gpu-larg")
        self.assertEqual("no flavor named 'gpu-larg' (did you mean 'gpu-large'?)\n", done.err)
        self.assertEqual("", done.out)

    def test_a_wrong_command_line_exits_2(self):
        for program in PROGRAMS:
            for words, line in (
                (GPU[:4], "name --flavor"),
                ((*GPU, "--count", "0"), "argument --count: "),
                ((*GPU, "--nonsense"), "unrecognized arguments: --nonsense; see"),
            ):
                with self.subTest(program=program, words=words[4:]):
                    done = asked(program, *words)
                    self.assertEqual((2, ""), (done.code, done.out))
                    self.assertIn(line, done.err)

    def test_no_inventory_at_all_exits_2_and_says_how_to_name_one(self):
        done = self.both(2, "podm", "schedule", "--flavor", "small")
        self.assertRegex(
            done.err,
            r"\Ano inventory: name one with --inventory PATH, or - for stdin; or register a pod "
            r"manager with podm create NAME URL \(state: /.*/state\.sqlite\)\n\Z",
        )

    def test_nothing_fits_exits_3_and_still_gives_the_reasons(self):
        done = self.both(3, *GPU, "--zone", "nowhere", "-f", "json")
        self.assertEqual([], done.data)
        first, *reasons, warning, last = done.err.splitlines()
        self.assertEqual("Not chosen: 8 of 8 pod managers", first)
        self.assertIn("  gpu-east   zone east-1, needs nowhere (--zone)", reasons)
        zones = "east-1, east-2, north-1, west-1"
        problem = f"no pod manager is in the zone 'nowhere' (known: {zones})"
        self.assertEqual(f"warning: {problem}", warning)
        self.assertEqual("nothing fits: placed 0 of 1 (policy default, seed 0)", last)

    def test_fewer_than_asked_for_is_none_and_exits_3(self):
        done = self.both(3, *GPU, "--count", "9", "-f", "json")
        self.assertEqual([], done.data)
        *_, would, last = done.err.splitlines()
        self.assertEqual("4 of 9 nodes would fit, but all must: accept fewer with --min-count 4",
                         would)  # fmt: skip
        self.assertEqual("nothing fits: placed 0 of 9 (policy default, seed 0)", last)
        self.assertIn("\n  gpu-east   after 3 nodes: ", done.err)
        done = self.both(3, *GPU, "--count", "9", "--min-count", "5")
        self.assertIn("would fit, but at least 5 must: accept", done.err)

    def test_placed_in_part_exits_4(self):
        done = self.both(4, *GPU, "--count", "9", "--min-count", "1", "-f", "json")
        *full, last = done.err.splitlines()
        others = "0 others fit, 6 do not: --explain"
        self.assertEqual(f"placed 4 of 9 (policy default, seed 0); {others}", last)
        self.assertEqual(["no more nodes on gpu-east", "no more nodes on gpu-north"],
                         [line.partition(":")[0] for line in full])  # fmt: skip
        nodes = [row["Node"] for row in done.data if row["Rank"] == 1]
        self.assertEqual([1, 2, 3, 4], nodes)

    def test_a_skipped_document_is_named_and_exits_0_without_strict(self):
        file = self.write("part.json", json.dumps(PART))
        flavor = self.write("tiny.yaml", NODE)
        done = self.both(0, "podm", "schedule", "--inventory", file, "--flavor", flavor)
        self.assertEqual(
            f"skipped: {file}: $.podms[1]: found unknown field 'zoen' (did you mean 'zone'?)\n"
            "placed 1 of 1 (policy default, seed 0)\n",
            done.err,
        )

    def test_a_skipped_document_exits_5_with_strict(self):
        file = self.write("part.json", json.dumps(PART))
        words = ("podm", "schedule", "--inventory", file, "--flavor", "small", "--strict")
        done = self.both(5, *words)
        self.assertEqual("", done.out)
        self.assertEqual(1, len(done.err.splitlines()), done.err)
        self.assertIn("$.podms[1]: found unknown field 'zoen'", done.err)

    def test_the_report_is_the_same(self):
        files = [self.folder / f"{program}.json" for program in PROGRAMS]
        for program, file in zip(PROGRAMS, files, strict=True):
            self.assertEqual(0, run(program, *GPU, "--report", str(file)).code)
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        for program in PROGRAMS:
            with self.subTest(program=program):
                line = f"{BIN / program} podm schedule --inventory {SITE} --flavor small -f json"
                done = subprocess.run(
                    ["bash", "-c", f"{line} | head -1"],
                    capture_output=True,
                    env=environment(),
                    text=True,
                    check=False,
                )
                self.assertEqual("[\n", done.stdout)
                self.assertNotRegex(done.stderr, "(?m)^(?!placed 1 of 1 ).")

    def test_the_exit_codes_are_in_the_help(self):
        for program in PROGRAMS:
            done = asked(program, "podm", "schedule", "--help")
            text = " ".join(done.out.split())
            self.assertIn(
                "Exit codes: 0 placed; 1 error; 2 usage; 3 nothing fits; 4 placed in part; "
                "5 undecided within the budget of the policy, or --max-age or --strict not met; "
                "6 lost a race; 7 the composed node could not be verified, or the output failed.",
                text,
            )


class TestOptions(Case):
    """Every option of the command, one at a time."""

    def test_podm_asks_only_the_named_ones(self):
        found = chosen(*GPU, "--podm", "gpu-north")
        self.assertEqual(["gpu-north"], [row["Podm"] for row in found])

    def test_podm_takes_names_as_well_as_ids_and_may_be_repeated(self):
        words = ("--podm", "GPU hall, northern site", "--podm", "mem-1")
        self.assertEqual(["gpu-north"], [row["Podm"] for row in chosen(*GPU, *words)])

    def test_exclude_podm_leaves_some_out_and_says_so(self):
        found = verdicts(*GPU, "--exclude-podm", "gpu-east")
        self.assertEqual("chosen", found["gpu-north"]["Outcome"])
        self.assertEqual(
            "target: pod manager: needs not gpu-east, has gpu-east", found["gpu-east"]["Reason"]
        )

    def test_zone_keeps_to_one_zone(self):
        found = chosen(*GPU, "--zone", "north-1")
        self.assertEqual(["gpu-north"], [row["Podm"] for row in found])

    def test_count_places_nodes_on_blocks_of_their_own(self):
        found = chosen(*GPU, "--count", "4")
        self.assertEqual([1, 2, 3, 4], [row["Node"] for row in found])
        blocks = [(row["Podm"], uri) for row in found for uri in row["Blocks"]]
        self.assertEqual(len(blocks), len(set(blocks)))

    def test_alternates_are_other_pod_managers_in_order_and_do_not_change_the_choice(self):
        plain, more = chosen(*GPU), rows(*GPU, "--alternates", "2")
        self.assertEqual(plain, [row for row in more if row["Rank"] == 1])
        others = [row for row in more if row["Rank"] > 1]
        self.assertEqual([("gpu-north", 1, 2)], [(r["Podm"], r["Node"], r["Rank"]) for r in others])

    def test_the_seed_decides_between_equals_and_nothing_else(self):
        words = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--seed")
        found = [chosen(*words, str(seed))[0] for seed in range(8)]
        self.assertEqual({("general-1", "rack-2")}, {(row["Podm"], row["Pool"]) for row in found})
        equal = [chosen(*words, str(seed), "--policy", "chance")[0] for seed in range(8)]
        self.assertEqual(1, len({row["Score"] for row in equal}))
        self.assertLess(1, len({row["Pool"] for row in equal}))

    def test_another_policy_makes_another_choice(self):
        large = ("podm", "schedule", "--inventory", SITE, "--flavor", "large")
        spread, pack = chosen(*large)[0], chosen(*large, "--policy", "pack")[0]
        self.assertEqual("gpu-west", spread["Podm"])
        self.assertNotEqual(spread["Podm"], pack["Podm"])

    def test_chance_takes_any_that_can_make_the_node(self):
        words = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "--policy", "chance")
        found = {chosen(*words, "--seed", str(seed))[0]["Podm"] for seed in range(12)}
        self.assertGreater(len(found), 2)
        self.assertNotIn("full-1", found)

    def test_a_policy_of_ones_own_is_used(self):
        file = self.write(
            "policies.yaml",
            "policies:\n"
            "- name: full-pools\n"
            "  filters: [enabled, alive, {name: capacity, options: {headroom: 0.5}}, devices]\n"
            "  weighers: [{name: pack, weight: 2, options: {by: pool}}]\n",
        )
        words = ("--policy-file", file, "--policy", "full-pools", "--long")
        (row,) = chosen(*GPU, *words)
        self.assertEqual(["pack"], list(row["Scores"]))

    def test_a_flavor_is_a_name_a_file_or_standard_input(self):
        file = self.write("tiny.yaml", NODE)
        words = ("podm", "schedule", "--inventory", SITE, "-f", "json", "--flavor")
        by_file = run("valence-sched", *words, file)
        by_pipe = run("valence-sched", *words, "-", stdin=NODE.encode())
        self.assertEqual(0, by_file.code, by_file.err)
        self.assertEqual(by_file, by_pipe)

    def test_a_flavor_file_adds_names(self):
        words = ("podm", "schedule", "--inventory", SITE, "--flavor-file", FLAVORS)
        # A service scores by its own mix of flavors: it does not read this file.
        columns = [word for name in ("Rank", "Podm", "Amounts") for word in ("-c", name)]
        (row,) = chosen(*words, "--flavor", "in-memory", *columns)
        self.assertEqual("mem-1", row["Podm"])
        grant = {
            "uri": "/redfish/v1/Chassis/Switch1/MemoryDomains/Shared",
            "resource": "cxl_memory_mib",
            "amount": 524288.0,
            "unit": "MiB",
        }
        self.assertEqual([grant, grant], row["Amounts"])

    def test_an_inventory_may_come_from_standard_input(self):
        words = ("--flavor", "gpu-large", "-f", "json")
        done = run(
            "valence-sched", "podm", "schedule", "--inventory", "-", *words,
            stdin=Path(SITE).read_bytes(),
        )  # fmt: skip
        self.assertEqual(rows(*GPU), done.data)

    def test_an_inventory_may_come_from_the_environment(self):
        words = ("podm", "schedule", "--flavor", "gpu-large", "-f", "json")
        done = run("valence-sched", *words, VALENCE_SCHED_INVENTORY=SITE)
        self.assertEqual(rows(*GPU), done.data)

    def test_several_inventories_are_one_site(self):
        file = self.write("one.json", json.dumps({**PART, "podms": [GOOD]}))
        found = verdicts(*GPU, "--inventory", file)
        self.assertEqual(9, len(found))

    def test_long_adds_the_choice_the_scores_the_cost_and_the_waste(self):
        (found,) = rows(*GPU, "--long")
        self.assertEqual([*COLUMNS, "Choice", "Scores", "Cost", "Waste"], list(found))
        self.assertEqual(
            {"fragmentation": 0.80252, "room": 0.451033, "level": 0.5, "tight": 0.408333},
            found["Scores"],
        )
        self.assertEqual((1, 33686), (found["Choice"], found["Waste"]))

    def test_a_report_has_every_reason_against_each_pool(self):
        report = asked("valence-sched", *GPU, "--report", "-").data
        by_podm = {one["podm"]: one["pool_reasons"] for one in report["podms"]}
        self.assertEqual([], by_podm["gpu-east"])
        self.assertEqual(4, len(by_podm["full-1"][0]["reasons"]))
        first, second = by_podm["general-1"]
        self.assertEqual(("rack-1", "rack-2"), (first["pool"], second["pool"]))
        cards = {"filter": "devices", "label": "GPU A100", "need": 2, "have": 0, "unit": "",
                 "podm_have": 2, "instead": {}}  # fmt: skip
        self.assertEqual([cards], first["reasons"])
        cards = by_podm["gpu-west"][0]["reasons"][0]
        self.assertEqual({"NVIDIA L40S": 6}, cards["instead"])


class TestDeterminism(Case):
    """The same request gets the same answer, byte for byte."""

    def test_the_same_question_twice_gives_the_same_bytes(self):
        answers = []
        for number in range(2):
            file = self.folder / f"report-{number}.json"
            words = (*GPU, "--count", "3", "--alternates", "2", "--explain", "--report", str(file))
            answers.append((run("valence-sched", *words), file.read_bytes()))
        self.assertEqual(answers[0], answers[1])

    def test_the_report_does_not_depend_on_the_form_of_the_inventory(self):
        reports = []
        for name in ("copy.jsonl", "copy.jsonl.gz", "copy.jsonl.zst"):
            copy, report = self.folder / name, self.folder / f"{name}.report"
            run("valence-sched", "podm", "inventory", "convert", "--inventory", SITE, "-o", copy)
            run(
                "valence-sched", "podm", "schedule", "--inventory", copy, "--flavor", "gpu-large",
                "--report", report,
            )  # fmt: skip
            reports.append(report.read_bytes())
        self.assertEqual(1, len(set(reports)))

    def test_a_report_is_written_whole_or_not_at_all(self):
        file = self.write("report.json", "what was there")
        done = run("valence-sched", *GPU[:-1], "no-such-flavor", "--report", file)
        self.assertEqual(1, done.code)
        self.assertEqual("what was there", Path(file).read_text())


class TestStreams(Case):
    """Data goes to stdout, everything else to stderr."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.many = str(cls.folder / "many.jsonl")
        subprocess.run(
            [BIN / "python", "-m", "valence_sched.testing.generate", "--podms", "3000",
             "--blocks", "5", "--output", cls.many],
            cwd=ROOT,
            check=True,
        )  # fmt: skip

    def test_stdout_holds_nothing_but_data(self):
        self.assertEqual(
            "placed", run("valence-sched", *GPU, "--explain", "-f", "json").data["Outcome"]
        )
        self.assertIsInstance(run("valence-sched", *GPU, "-f", "json").data, list)
        done = run("valence-sched", *GPU, "-f", "csv")
        self.assertTrue(done.out.startswith('"Node","Rank",'))
        self.assertEqual(2, len(done.out.splitlines()))

    def test_there_is_no_progress_when_nobody_watches(self):
        done = run("valence-sched", "podm", "list", "--inventory", self.many, "-f", "json")
        self.assertEqual((3000, ""), (len(done.data), done.err))

    def test_a_pipe_that_closes_early_leaves_no_trace(self):
        for program in PROGRAMS:
            with self.subTest(program=program):
                line = f"{BIN / program} podm list --inventory {self.many} -f csv | head -1"
                done = subprocess.run(
                    ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
                    capture_output=True,
                    env=environment(),
                    text=True,
                    check=False,
                )
                self.assertEqual((141, ""), (done.returncode, done.stderr))
                self.assertTrue(done.stdout.startswith('"Podm","Status"'))

    def test_a_large_site_lists_what_was_placed_and_says_that_there_is_more(self):
        done = run("valence-sched", "podm", "schedule", "--inventory", self.many,
                   "--flavor", "gpu-large", "-f", "json")  # fmt: skip
        self.assertEqual([1], [row["Rank"] for row in done.data])
        self.assertRegex(done.err, r"\Aplaced 1 of 1 \(.*\); other pod managers: --explain\n\Z")

    def test_the_table_of_the_demo_fits_a_terminal_of_160_columns(self):
        done = asked("valence-sched", *GPU, "--alternates", "2", "--explain")
        self.assertLessEqual(max(map(len, done.out.splitlines())), 160)

    def test_on_a_terminal_the_table_comes_first_and_the_outcome_last(self):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        with subprocess.Popen(
            [BIN / "valence-sched", *GPU], stdin=theirs, stdout=theirs, stderr=theirs,
            env=environment(TERM="dumb"),
        ) as program:  # fmt: skip
            os.close(theirs)
            seen = b""
            while piece := _read(ours):
                seen += piece
        os.close(ours)
        lines = seen.decode().splitlines()
        self.assertEqual(0, program.returncode)
        self.assertTrue(lines[0].startswith("+------+"), lines[0])
        self.assertTrue(lines[-1].startswith("placed 1 of 1 (policy default, seed 0); 1 other"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the text of Linux for a closed pipe
        return b""


if __name__ == "__main__":
    unittest.main()
