# SPDX-License-Identifier: Apache-2.0
"""Sweeps in both programs: the same bytes with any number of workers; resumed after a stop."""

import csv
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, Case, environment, run

WORKLOAD = str(ROOT / "examples" / "workload.csv")
SWEEP = ("scheduler", "whatif", "sweep", "--inventory", SITE)
DRAWN = ("--rate", "10/h", "--mix", "gpu-large=1,small=3", "--lifetime", "2d", "--horizon", "1d")
POLICIES = ("--policy", "default", "--policy", "pack")
SCENARIOS = """scenarios:
- {name: grown, edits: [{clone: gpu-east}]}
- {name: tray, edits: [{fail: gpu-east}]}
"""
#: The libraries whose extra may be missing.
WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from valence_sched_cli.shell import main
sys.exit(main(sys.argv[2:]))
"""


class Sweeps(Case):
    """Sweeps of the example."""

    def sweep(self, code, *words, program="valence-sched"):
        done = run(program, *SWEEP, *words)
        self.assertEqual(code, done.code, done)
        self.assertNotIn("Traceback", done.err)
        return done

    def written(self, name, *words, **more):
        file = self.folder / name
        self.sweep(0, *words, "-o", str(file), **more)
        return file.read_bytes()


class TestWorkers(Sweeps):
    """One process, two processes, and a Dask cluster."""

    def question(self):
        scenarios = self.write("scenarios.yaml", SCENARIOS)
        return (*DRAWN, *POLICIES, "--scenario", scenarios, "--seeds", "1..2")

    def test_one_process_and_two_of_either_program_write_the_same_bytes(self):
        one = self.written("one.jsonl", *self.question(), "--jobs", "1")
        for program in PROGRAMS:
            name = f"{program}.jsonl"
            two = self.written(name, *self.question(), "--jobs", "2", program=program)
            self.assertEqual(one, two)
        keys = [(row["scenario"], row["policy"], row["seed"])
                for row in map(json.loads, one.splitlines())]  # fmt: skip
        self.assertEqual(8, len(set(keys)))
        self.assertEqual(sorted(keys), keys)

    @unittest.skipUnless(importlib.util.find_spec("distributed"), "dask[distributed] is missing")
    def test_a_cluster_of_two_workers_writes_the_same_bytes_as_this_machine(self):
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
                          dashboard_address=None) as cluster:  # fmt: skip
            backend = f"dask:{cluster.scheduler_address}"
            for words in (self.question(), ("--workload", WORKLOAD, *POLICIES, "--seeds", "3,1")):
                with self.subTest(words[0]):
                    there = self.written("there.jsonl", *words, "--backend", backend)
                    self.assertEqual(self.written("here.jsonl", *words, "--jobs", "1"), there)
            unknown = self.write("unknown.csv", "flavor,podms\nsmall,\nsmall,nowhere\n")
            done = self.sweep(1, "--workload", unknown, "--backend", backend)
            self.assertRegex(done.err.splitlines()[-1], r"unknown\.csv: line 3: .*'nowhere'")

    def test_runs_are_those_of_a_replay_with_this_seed(self):
        (row,) = self.sweep(0, *DRAWN, "--seeds", "7", "--jobs", "1", "-f", "json").data
        words = ("scheduler", "whatif", "run", "--inventory", SITE, *DRAWN, "--seed", "7")
        (expected,) = run("valence-sched", *words, "-f", "json").data
        expected["Scenario"] = expected.pop("Site")
        self.assertEqual(expected | {"Seed": 7, "Requests": row["Requests"]}, row)

    def test_a_request_that_is_invalid_is_one_line_whoever_finds_it(self):
        unknown = self.write("unknown.csv", "flavor,podms\nsmall,\nsmall,nowhere\n")
        texts = {self.sweep(1, "--workload", unknown, "--jobs", jobs).err for jobs in "12"}
        (text,) = texts
        self.assertRegex(text.splitlines()[-1], r"unknown\.csv: line 3: .*'nowhere'")


class TestContinued(Sweeps):
    """``--resume``."""

    def test_a_line_that_is_cut_off_is_made_again_and_the_result_is_the_same(self):
        words = ("--workload", WORKLOAD, *POLICIES, "--jobs", "1")
        expected = self.written("whole.csv", *words, "--seeds", "1..3")
        journal = self.folder / "journal.jsonl"
        self.sweep(0, *words, "--seeds", "1,2", "--resume", str(journal))
        *lines, last = journal.read_bytes().splitlines(keepends=True)
        self.assertEqual(3, len(lines))
        journal.write_bytes(b"".join(lines) + last[:-9])
        found = self.written("found.csv", *words, "--seeds", "1..3", "--resume", str(journal))
        self.assertEqual(expected, found)
        runs = [json.loads(line) for line in journal.read_bytes().splitlines()]
        self.assertEqual(6, len({(one["policy"], one["seed"]) for one in runs}))
        self.assertEqual(lines, journal.read_bytes().splitlines(keepends=True)[:3])

    def test_the_file_with_the_finished_runs_may_be_the_output(self):
        words = ("--workload", WORKLOAD, "--jobs", "1")
        expected = self.written("whole.jsonl", *words, "--seeds", "1..4")
        file = self.folder / "sweep.jsonl"
        file.write_bytes(b"".join(reversed(expected.splitlines(keepends=True)[2:])))
        self.assertEqual(expected, self.written("sweep.jsonl", *words, "--seeds", "1..4",
                                                "--resume", str(file)))  # fmt: skip

    def test_an_interruption_leaves_the_runs_that_are_finished(self):
        file = self.folder / "interrupted.jsonl"
        words = [*DRAWN[:-1], "20d", "--seeds", "1..500", "--jobs", "2", "--resume", str(file)]
        process = subprocess.Popen(
            [BIN / "valence-sched", *SWEEP, *words], env=environment(), start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            while process.poll() is None and not (file.exists() and file.stat().st_size):
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            _, told = process.communicate(timeout=60)
        self.assertEqual(130, process.returncode, told)
        self.assertNotIn("Traceback", told)
        self.assertRegex(
            told, r"\d+ of 500 runs are in .*interrupted\.jsonl: repeat the command to continue"
        )
        self.assertTrue(file.read_bytes().splitlines())

    def test_another_question_or_no_run_at_all_is_one_line(self):
        journal = self.folder / "other.jsonl"
        words = ("--jobs", "1", "--resume", str(journal))
        self.sweep(0, *DRAWN, *words)
        before = journal.read_bytes()
        for other in (("--workload", WORKLOAD), (*DRAWN, "--fail", "gpu-east"),
                      (*DRAWN[:-1], "2d")):  # fmt: skip
            with self.subTest(other):
                done = self.sweep(1, *other, *words)
                self.assertRegex(done.err, r"other\.jsonl: line 1: found a run of sweep \w+")
                self.assertEqual(before, journal.read_bytes())
        journal.write_bytes(b"{}\n" + before)
        self.assertRegex(self.sweep(1, *DRAWN, *words).err, r"other\.jsonl: line 1: ")


class TestCompare(Sweeps):
    """``--compare``: means over seeds."""

    def test_a_row_has_means_with_errors_and_a_best_only_where_it_is_clear(self):
        scenarios = self.write("scenarios.yaml", SCENARIOS)
        words = (*DRAWN, "--scenario", scenarios, "--seeds", "1..4", "--jobs", "1", "--compare")
        rows = {row["Measure"]: row for row in self.sweep(0, *words, "-f", "json").data}
        self.assertEqual(["Measure", "grown", "tray", "Best"], [*rows["placed"]])
        self.assertEqual("grown", rows["placed"]["Best"])
        grown, tray = (rows["placed"][name] for name in ("grown", "tray"))
        self.assertEqual({"mean", "standard_error"}, {*grown})
        self.assertGreater(grown["mean"], tray["mean"])
        self.assertIsNone(rows["utilisation.cores"]["Best"])
        done = self.sweep(0, *words)
        self.assertIn("means over 4 seeds, ± the standard error\n", done.err)
        self.assertRegex(done.out, r"\| placed +\| \d+(\.\d+)? ± [\d.]+ ")

    def test_a_difference_that_seeds_may_have_made_has_no_best(self):
        words = (*DRAWN, *POLICIES, "--seeds", "1..3", "--jobs", "1", "--compare")
        self.assertRegex(self.sweep(0, *words).out, r"\| fragmentation .*\| no clear difference \|")

    def test_an_unknown_column_is_refused_before_anything_is_written(self):
        file = self.folder / "unwritten.csv"
        words = (*DRAWN, *POLICIES, "--compare", "-o", str(file))
        done = self.sweep(2, *words, "-c", "base/spread")
        self.assertIn("base/pack", done.err)
        self.assertFalse(file.exists())
        self.sweep(0, *words, "-c", "base/pack", "--jobs", "1")

    def test_one_seed_tells_nothing(self):
        done = self.sweep(0, *DRAWN, *POLICIES, "--jobs", "1", "--compare")
        self.assertIn("one seed does not show which variation is better: --seeds 1..10\n", done.err)


class TestFiles(Sweeps):
    """Files of ``-o``."""

    def test_csv_has_the_numbers_of_json_lines_and_a_column_for_each_measure(self):
        scenarios = self.write("scenarios.yaml", SCENARIOS)
        words = (*DRAWN, "--scenario", scenarios, "--jobs", "1")
        lines = [json.loads(line) for line in self.written("a.jsonl", *words).splitlines()]
        rows = list(csv.DictReader(io.StringIO(self.written("a.csv", *words).decode())))
        self.assertEqual(["grown", "tray"], [row["scenario"] for row in rows])
        for line, row in zip(lines, rows, strict=True):
            expected = {name: "" if one is None else str(one)
                        for name, one in line["measures"].items()}  # fmt: skip
            self.assertLessEqual(expected.items(), row.items())
            self.assertEqual(("", "0"), (row["policy"], row["seed"]))

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is missing")
    def test_parquet_has_typed_columns_with_the_same_numbers(self):
        from pyarrow import parquet

        words = (*DRAWN, *POLICIES, "--seeds", "1..2", "--jobs", "1")
        lines = [json.loads(line) for line in self.written("a.jsonl", *words).splitlines()]
        self.written("a.parquet", *words)
        table = parquet.read_table(self.folder / "a.parquet")
        self.assertEqual(("string", "int64", "double"), tuple(
            str(table.schema.field(name).type) for name in ("policy", "placed", "fragmentation")
        ))  # fmt: skip
        rows = table.to_pylist()
        for line, row in zip(lines, rows, strict=True):
            self.assertLessEqual(line["measures"].items(), row.items())

    def test_mistakes_are_one_line(self):
        for words, code, text in (
            (("--seeds", "3..1"), 2, "'3..1' has no seed: write the lower seed first"),
            (("--seeds", "one"), 2, "must be a seed such as 7 or a range such as 1..20, got 'one'"),
            (("--backend", "spark"), 2, "'spark' is not dask:ADDRESS"),
            (
                ("--backend", "dask:tcp://127.0.0.1:1", "--jobs", "2"),
                2,
                "not allowed with --backend",
            ),
            (("-o", "sweep.xls"), 2, "'sweep.xls' does not end in .jsonl, .csv or .parquet"),
            (("--resume", str(self.folder)), 1, "a directory"),
            (("--resume", "/dev/zero"), 1, "/dev/zero: found a special file, expected a file of"),
            (("--policy", "pakc"), 1, "pack"),
            (("--backend", "dask:udp://x"), 1, "no Dask scheduler at udp://x"),
        ):
            with self.subTest(words):
                done = self.sweep(code, *DRAWN, *words)
                self.assertIn(text, done.err.splitlines()[-1])

    def test_a_library_that_is_missing_is_one_line_that_names_its_extra(self):
        for library, words, extra in (
            ("joblib", (), "sweep"),
            ("distributed", ("--backend", "dask:tcp://127.0.0.1:1"), "sweep"),
            ("pyarrow", ("-o", str(self.folder / "a.parquet")), "parquet"),
        ):
            with self.subTest(library):
                done = subprocess.run(
                    [sys.executable, "-c", WITHOUT, library, *SWEEP, *DRAWN, *words],
                    capture_output=True, text=True, env=environment(), check=False,
                )  # fmt: skip
                self.assertEqual(1, done.returncode, done)
                last = done.stderr.splitlines()[-1]
                self.assertRegex(last, rf"needs {library}: pip install 'valence-sched\[{extra}\]'$")
                self.assertFalse(Path(self.folder, "a.parquet").exists())


class TestTune(Case):
    """Weights without a clear gain are not written."""

    def test_no_file_is_written_without_a_clear_gain(self):
        file = self.folder / "tuned.yaml"
        words = ("scheduler", "policy", "tune", "--inventory", SITE, "--workload", WORKLOAD)
        done = run("valence-sched", *words, "--samples", "2", "--jobs", "1", "-o", str(file))
        self.assertEqual(0, done.code, done)
        self.assertIn(
            "no weights are clearly better than those of policy default\ngain: ", done.err
        )
        self.assertIn(f"{file} is not written", done.err)
        self.assertFalse(file.exists())

    def test_wrong_input_is_refused_in_one_line(self):
        words = ("scheduler", "policy", "tune", "--inventory", SITE, "--workload", WORKLOAD)
        for more, code, text in (
            (("--policy", "none-such"), 1, "no policy named 'none-such'"),
            (("--policy", "chance"), 2, "policy 'chance' has fewer than two weighers to compare"),
            (("--samples", "1"), 2, "argument --samples: must be 2 to 1,000, got '1'"),
            (("--samples", "900"), 2, "too few for 900 samples"),
            (("--goal", "cost"), 2, "argument --goal: invalid choice: 'cost'"),
        ):
            with self.subTest(more):
                done = run("valence-sched", *words, *more)
                self.assertEqual(code, done.code, done)
                self.assertIn(text, done.err)
