# SPDX-License-Identifier: Apache-2.0
"""What-if commands of both programs: replays, and relocations after failures and drains."""

import gzip
import json
import unittest
from pathlib import Path

import jsonschema
import zstandard

from tests.benchmarks.trace import SHARED
from tests.functional.programs import PROGRAMS, ROOT, SITE, Case, run, run_to
from tests.functional.terminal import COLOUR, Terminal

WORKLOAD = str(ROOT / "examples" / "workload.csv")
RUN = ("scheduler", "whatif", "run", "--inventory", SITE)
DRAWN = ("--rate", "10/h", "--mix", "gpu-large=1,small=3", "--lifetime", "2d", "--horizon", "2d")
TRACE = SHARED / "data" / "openb" / "openb_pod_list_default.csv"
REQUESTS = 800  # of the trace
ESCAPE = "\x1b["
MISSING = f"the trace is not at {TRACE}: name its folder in VALENCE_SCHED_TRACE"
COLUMNS = """columns:
  arrival: creation_time
  departure: deletion_time
  properties.processor.total_cores: cpu_milli/1000
  properties.memory.capacity_mib: memory_mib
  properties.accelerators.0.count: num_gpu
"""


class Replays(Case):
    """Replays of the example."""

    def replay(self, code, *words, program="valence-sched"):
        done = run(program, *RUN, *words)
        self.assertEqual(code, done.code, done)
        return done

    def result(self, *words):
        file = self.folder / "result.json"
        done = self.replay(0, *words, "-o", str(file))
        return done, file, json.loads(file.read_bytes())


class TestSeries(Replays):
    """``--series``: figures over time."""

    def test_a_row_for_each_time_in_place_of_the_runs(self):
        done = self.replay(0, *DRAWN, "--series")
        self.assertIn("| After | Cores ", done.out)
        self.assertNotIn(ESCAPE, done.out)
        rows = json.loads(self.replay(0, *DRAWN, "--series", "-f", "json").out)
        series = self.result(*DRAWN)[2]["runs"][0]["series"]
        self.assertEqual(series["refused"], [row["Refused"] for row in rows])
        self.assertEqual(series["used"]["cores"], [row["Utilisation"]["cores"] for row in rows])
        self.assertEqual(series["bucket_s"], rows[1]["After Seconds"])
        lines = self.replay(0, *DRAWN, "--series", "-f", "value", "-c", "Nodes").out.splitlines()
        self.assertEqual(series["nodes"], list(map(float, lines)))

    def test_shares_are_coloured_on_a_terminal_unless_no_color(self):
        shown = {}
        for name, more in (("colours", {}), ("plain", {"NO_COLOR": "1"})):
            terminal = Terminal(120)
            run_to("valence-sched", terminal.path, None, *RUN, *DRAWN, "--series",
                   TERM="xterm-256color", COLUMNS="120", **more)  # fmt: skip
            shown[name] = terminal.close().replace("\r\n", "\n")
        self.assertIn(ESCAPE, shown["colours"])
        self.assertNotIn(ESCAPE, shown["plain"])
        self.assertEqual(shown["plain"], COLOUR.sub("", shown["colours"]))

    def test_it_is_not_a_comparison_as_well(self):
        done = self.replay(2, *DRAWN, "--series", "--compare")
        line = "--series: not with --compare, which has a row for each measure\n"
        self.assertEqual(("", line), (done.out, done.err))


class TestRun(Replays):
    """``scheduler whatif run``."""

    def test_a_workload_is_replayed_with_its_refusals_in_words(self):
        done = self.replay(0, "--workload", WORKLOAD)
        self.assertIn("| base |", done.out)
        self.assertRegex(done.err, r"(?m)^first refusal of gpu-large, after \d+h:$")
        self.assertRegex(done.err, r"(?m)^ +\d+  16 of 32 cores .*best: ")
        *_, outcome = done.err.splitlines()
        self.assertRegex(outcome, r"^placed \d+ of 14 nodes of 14 requests$")
        (row,) = json.loads(self.replay(0, "--workload", WORKLOAD, "-f", "json").out)
        self.assertEqual(14, row["Placed"] + row["Refused"] + row["Undecided"])
        self.assertEqual((None, "base"), (row["Policy"], row["Site"]))
        self.assertGreater(row["Utilisation"]["cores"], 0.5)
        self.assertGreater(row["Cost"], 0)

    def test_both_programs_write_the_same_bytes_which_the_schema_describes(self):
        written = []
        for program in PROGRAMS:
            file = self.folder / f"{program}.json"
            self.replay(0, *DRAWN, "--seed", "7", "-o", str(file), program=program)
            written.append(file.read_bytes())
        self.assertEqual(*written)
        schema = json.loads((ROOT / "valence_sched/data/replay.schema.json").read_bytes())
        jsonschema.validate(json.loads(written[0]), schema)

    def test_the_forms_of_a_workload_have_a_schema_too(self):
        schema = json.loads((ROOT / "valence_sched/data/workload.schema.json").read_bytes())
        line = {"flavor": "small", "arrival": "2h", "duration": 60,
                "properties": None}  # fmt: skip
        for document in (line, [line], {"requests": [line]}):
            jsonschema.validate(document, schema)
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate([{**line, "duration": "soon"}], schema)

    def test_packed_files_and_standard_input_say_the_same(self):
        _, _, expected = self.result("--workload", WORKLOAD)
        data = Path(WORKLOAD).read_bytes()
        for name, pack in (("w.csv.gz", gzip.compress), ("w.csv.zst", zstandard.compress)):
            (self.folder / name).write_bytes(pack(data))
            _, _, found = self.result("--workload", str(self.folder / name))
            self.assertEqual(expected["runs"], found["runs"])
        words = (*RUN, "--workload", "-", "-f", "json", "--policy", "default", "--policy", "pack")
        done = run("valence-sched", *words, stdin=data)
        self.assertEqual(["default", "pack"], [row["Policy"] for row in done.data])

    def test_a_file_that_is_cut_off_is_one_line(self):
        for name, pack in (("w.csv.gz", gzip.compress), ("w.csv.zst", zstandard.compress)):
            file = self.folder / name
            file.write_bytes(pack(Path(WORKLOAD).read_bytes())[:-20])
            done = self.replay(1, "--workload", str(file))
            self.assertRegex(done.err, rf"^.*{name}: found .*, expected a whole file.*\n$")

    def test_mistakes_in_the_words_are_one_line(self):
        for words, text in (
            ((), "no --rate: use --workload FILE, or generate"),
            (("--workload", WORKLOAD, "--rate", "1/h"), "--rate: not with --workload"),
            ((*DRAWN, "--sort"), "--sort: only with --workload"),
            ((*DRAWN, "--tolerance", "5"), "--tolerance: only with --baseline"),
            (("--rate", "often"), "must be a rate such as 10/h"),
            (("--mix", "small=0"), "'small=0' is not FLAVOR=SHARE"),
            (("--lifetime", "0s"), "'0s': must be above 0"),
            (("--map", "arrival"), "'arrival' is not FIELD=COLUMN"),
            (("--tolerance", "-1"), "must be a percentage of at least 0, got '-1'"),
            (("--tolerance", "placed=-1"), "must be a percentage of at least 0, got 'placed=-1'"),
            (("--tolerance", "placed=much"), "'placed=much' is not a percentage"),
        ):
            with self.subTest(words):
                done = self.replay(2, *words)
                self.assertEqual(1, done.err.count("\n"), done.err)
                self.assertIn(text, done.err)

    def test_mistakes_in_files_are_one_line_with_their_place(self):
        late = self.write("late.csv", "flavor,arrival,departure\nsmall,5,4\n")
        unsorted = self.write("unsorted.csv", "flavor,arrival\nsmall,5\nsmall,4\n")
        unknown = self.write("unknown.csv", "flavor\nsmal\n")
        nowhere = self.write("nowhere.csv", "flavor,podms\nsmall,\nsmall,nowhere\n")
        policy = self.write("policy.csv", "flavor,policy\nsmall,fast\n")
        for file, text in (
            (late, "late.csv: line 2: found departure 4, expected"),
            (unsorted, "unsorted.csv: line 3: found arrival 4 after 5"),
            (self.write("empty.csv", ""), "empty.csv: found no request"),
            (unknown, "unknown.csv: line 2: no flavor named 'smal' (did you mean 'small'?)"),
            (nowhere, "nowhere.csv: line 3: no pod manager named 'nowhere'"),
            (policy, "policy.csv: line 2: no policy named 'fast'"),
            (str(self.folder / "none.csv"), "none.csv: found no such file"),
        ):
            with self.subTest(text):
                done = self.replay(1, "--workload", file)
                self.assertEqual(1, done.err.count("\n"), done.err)
                self.assertIn(text, done.err)
        self.replay(0, "--workload", unsorted, "--sort")


class TestCompare(Replays):
    """``--compare``, ``--baseline`` and ``--tolerance``."""

    def test_scenarios_and_edits_are_compared_with_the_inventory_as_it_is(self):
        words = ("--workload", WORKLOAD, "--compare", "-f", "json")
        done = self.replay(0, *words, "--fail", "gpu-east")
        self.assertIn("edited: 4 nodes are lost, and not re-placed\n", done.err)
        rows = done.data
        self.assertEqual(["Measure", "base", "edited"], list(rows[0]))
        placed = next(row for row in rows if row["Measure"] == "placed")
        self.assertGreater(placed["base"], placed["edited"])
        scenarios = str(ROOT / "examples" / "scenarios.yaml")
        (row, *_) = self.replay(0, *words, "--scenario", f"{scenarios}#new cards").data
        self.assertEqual(["base", "new cards"], list(row)[1:3])
        policies = ("--policy", "pack", "--policy", "default")
        rows = self.replay(0, *words, *policies, "--weight", "room=0", "--weight", "pack=9").data
        (nodes,) = [row for row in rows if row["Measure"] == "most_on_one_podm"]
        self.assertEqual(nodes["edited/default"], nodes["edited/pack"])
        self.assertNotEqual(nodes["edited/default"], nodes["base/default"])

    def test_rows_are_measures_and_one_seed_tells_of_no_run_that_it_is_better(self):
        words = (*DRAWN, "--policy", "default", "--policy", "pack", "--compare")
        done = self.replay(0, *words, "-f", "json")
        rows = {row["Measure"]: row for row in done.data}
        self.assertEqual({"Measure", "base/default", "base/pack"}, {*rows["placed"]})
        self.assertNotEqual(
            *[rows["fragmentation"][f"base/{name}"] for name in ("default", "pack")]
        )
        self.assertIn("one seed does not show which run is better: use whatif sweep", done.err)

    def test_an_equal_result_exits_0_and_another_one_10_naming_what_differs(self):
        _, file, _ = self.result(*DRAWN, "--seed", "1")
        same = self.replay(0, *DRAWN, "--seed", "1", "--baseline", str(file))
        self.assertIn(f"no measure differs from {file}\n", same.err)
        other = self.replay(10, *DRAWN, "--seed", "2", "--baseline", str(file))
        self.assertRegex(other.err, r"(?m)^base: requested was \d+, is \d+$")
        self.assertRegex(other.err, r"\d+ measures differ from ")
        self.replay(0, *DRAWN, "--seed", "2", "--baseline", str(file), "--tolerance", "1000")
        words = ("--tolerance", "1000%", "--tolerance", "requested=0")
        one = self.replay(10, *DRAWN, "--seed", "2", "--baseline", str(file), *words)
        self.assertIn("1 measure differs from", one.err)
        wrong = self.replay(1, *DRAWN, "--baseline", str(file), "--tolerance", "place=1")
        self.assertIn("--tolerance: no measure named 'place' (did you mean 'placed'?)", wrong.err)

    def test_a_baseline_that_is_none_is_one_line(self):
        done = self.replay(1, *DRAWN, "--baseline", SITE)
        self.assertRegex(
            done.err, r"^.*site\.json: found an inventory, expected a replay [^\n]*\n$"
        )


@unittest.skipUnless(TRACE.is_file(), MISSING)
class TestTrace(Replays):
    """A recorded trace with other column names and units."""

    def test_a_trace_is_replayed_by_a_map_of_its_columns(self):
        columns = self.write("columns.yaml", COLUMNS)
        lines = TRACE.read_text().splitlines(keepends=True)[: 1 + REQUESTS]
        trace = self.write("trace.csv", "".join(lines))
        _, _, result = self.result("--workload", trace, "--map-file", columns)
        (found,) = result["runs"]
        self.assertEqual(REQUESTS, found["requests"])
        self.assertEqual(REQUESTS, found["placed"] + found["refused"])
        self.assertGreater(found["departed"], REQUESTS // 10)


WORDS = ("scheduler", "whatif")


class TestWhatifRelocation(Case):
    """Failures and drains of the example site."""

    def ask(self, verb, *words, program="valence-sched", **more):
        return run(program, *WORDS, verb, "--inventory", SITE, *words, **more)

    def rows(self, verb, *words, code):
        done = self.ask(verb, *words, "-f", "json")
        self.assertEqual(code, done.code, done.err)
        return json.loads(done.out)

    def test_a_failure_lists_who_lands_where_and_says_why_the_others_do_not(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = self.ask("fail", "gpu-east", program=program)
                self.assertEqual(4, done.code)
                self.assertIn("notebook-7", done.out)
                self.assertIn(
                    "Nodes that cannot be re-placed: 3\n  train-3, train-2 of gpu-east\n", done.err
                )
                self.assertIn("1 of 4 nodes of gpu-east can be re-placed, 3 cannot\n", done.err)
                self.assertLessEqual(max(map(len, [*done.out.splitlines(),
                                                   *done.err.splitlines()])), 80)  # fmt: skip

    def test_programs_get_the_blocks_and_the_hardware_of_each_move(self):
        rows = self.rows("fail", "gpu-east", code=4)
        self.assertEqual([1, None, None, None], [row["Step"] for row in rows])
        move = rows[0]
        self.assertEqual(("gpu-east", "gpu-west"), (move["From"], move["To"]))
        self.assertTrue(all(uri.startswith("/") for uri in move["Blocks"]))
        self.assertTrue(move["Hardware"]["processors"])

    def test_what_edits_add_takes_the_nodes(self):
        words = ("gpu-east", "--clone", "gpu-east")
        rows = self.rows("fail", *words, code=0)
        self.assertEqual({"gpu-east-2"}, {row["To"] for row in rows[:3]})
        self.assertIn(
            "every node can be re-placed: 4 nodes of gpu-east\n", self.ask("fail", *words).err
        )

    def test_nothing_on_it_is_nothing_to_move(self):
        done = self.ask("drain", "dark-1/missing-pool")
        self.assertEqual(1, done.code)
        done = self.ask("fail", "gpu-north", "--drain", "gpu-north")
        self.assertIn("of gpu-north", done.err)

    def test_whether_any_pod_manager_may_fail(self):
        done = self.ask("fail", "--survive", "1")
        self.assertEqual(4, done.code)
        self.assertIn(
            "the site does not survive 1 failure: 6 of 7 combinations leave nodes unplaced\n"
            "worst: store-1: 4 of 4 nodes cannot be re-placed\n",
            done.err,
        )
        rows = self.rows("fail", "--survive", "1", code=4)
        self.assertEqual({"store-1"}, {row["From"] for row in rows})

    def test_a_drain_says_what_stays(self):
        done = self.ask("drain", "gpu-west")
        self.assertEqual(4, done.code)
        self.assertIn("1 of 3 nodes of gpu-west move away, 2 cannot\n", done.err)

    def test_less_fragmentation_lists_the_moves_and_what_each_buys(self):
        words = ("--fragmentation-below", "30%", "--flavor", "gpu-large")
        done = self.ask("rebalance", *words)
        self.assertEqual(0, done.code, done.err)
        self.assertIn("2 moves bring fragmentation below 30.0%, and fewer do not\n", done.err)
        self.assertIn("total: room for 4 more gpu-large becomes 5, fragmentation 32.7% becomes "
                      "28.6%\n", done.err)  # fmt: skip
        self.assertLessEqual(max(map(len, done.out.splitlines())), 80)
        rows = self.rows("rebalance", *words, code=0)
        self.assertEqual([5, 5], [row["Room"] for row in rows])
        self.assertEqual([1, 2], [row["Step"] for row in rows])
        shares = [row["Fragmentation"] for row in rows]
        self.assertTrue(0.327 > shares[0] > 0.3 > shares[1] > 0.28, shares)
        self.assertTrue(all(row["Blocks"] for row in rows))

    def test_a_mix_of_its_own_changes_the_measure(self):
        words = ("--fragmentation-below", "100%", "--mix", "gpu-large=1")
        done = self.ask("rebalance", *words)
        self.assertRegex(done.err, r"fragmentation is already [0-9.]+%: nothing has to move")
        self.assertNotIn("is 32.7%", done.err)

    def test_another_resource_is_measured_by_its_name_or_by_a_mix_without_accelerators(self):
        for words, resource in (
            (("--fragmentation-below", "memory_mib=100%"), "memory"),
            (("--fragmentation-below", "100%", "--mix", "medium"), "cores"),
        ):
            done = self.ask("rebalance", *words)
            self.assertRegex(done.err, f"fragmentation of {resource} is already [0-9.]+%: nothing")

    def test_a_goal_that_is_not_reached_states_a_bound(self):
        done = self.ask("rebalance", "--fragmentation-below", "1%", "--most", "4")
        self.assertIn(done.code, (3, 5))
        self.assertRegex(done.err, "undecided: the best .* would be needed|no 4 moves can bring")

    def test_wrong_words_are_one_line(self):
        for words, code, text in (
            (("fail",), 2, "name either the hardware that fails, or --survive N"),
            (("fail", "a", "--survive", "1"), 2, "name either the hardware that fails"),
            (("rebalance",), 2, "no goal: give"),
            (("rebalance", "--fragmentation-below", "0"), 2, "must be a percentage above 0"),
            (("rebalance", "--fragmentation-below", "nan%"), 2, "must be a percentage above 0"),
            (("rebalance", "--fragmentation-below", "5%", "--mix", "smal"), 1, "'small'?"),
            (("rebalance", "--fragmentation-below", "memory=5%"), 1, "'memory_mib'?"),
            (("rebalance", "--fragmentation-below", "5%", "--most", "0"), 2, "1 to 1,000,000"),
            (("drain", "gpu-wst"), 1, "did you mean 'gpu-west'?"),
            (("fail", "colour=red"), 1, "colour"),
            (("fail", "gpu-east", "--policy", "pakc"), 1, "pack"),
        ):
            with self.subTest(words):
                done = self.ask(*words)
                self.assertEqual(code, done.code, done.err)
                self.assertIn(text, done.err)
                self.assertNotIn("Traceback", done.err)


if __name__ == "__main__":
    unittest.main()
