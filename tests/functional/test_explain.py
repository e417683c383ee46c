# SPDX-License-Identifier: Apache-2.0
"""``scheduler explain`` and ``podm schedule --explain``: screens, JSON, and bad reports."""

import csv
import io
import json
import re
import unittest
from pathlib import Path

import yaml

from tests.functional.programs import PROGRAMS, SITE, Case, run, run_to
from tests.functional.terminal import Terminal

ASK = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large", "--policy", "balanced")
ESCAPE = "\x1b"


class Explain(Case):
    """A decision, explained when it is made and from its report."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = str(cls.folder / "report.json")
        cls.made = run("valence-sched", *ASK, "--explain", "--report", cls.report)
        cls.document = json.loads(Path(cls.report).read_bytes())

    def explain(self, *words, program="valence-sched", **more):
        return run(program, "scheduler", "explain", *words, **more)


class TestLongNames(Case):
    """Pod managers whose names are wider than the screen."""

    def test_the_reasons_are_lines_of_words_and_not_of_letters(self):
        site, name = json.loads(Path(SITE).read_bytes()), "mem-1." + "x" * 84
        (one,) = (podm for podm in site["podms"] if podm["id"] == "mem-1")
        one["id"] = one["name"] = name
        file = self.folder / "long.json"
        file.write_text(json.dumps(site))
        words = ("podm", "schedule", "--inventory", str(file), "--flavor", "gpu-large", "--explain")
        out = run("valence-sched", *words).out
        self.assertIn("drawer-1: 128 of 256 GiB memory drawer-2: ", " ".join(out.split()))
        self.assertIn("status Offline, needs Online", " ".join(out.split()))


class TestSeveral(Case):
    """The report of a file of requests is explained, one decision after another."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = str(cls.folder / "reports.json")
        file = cls.folder / "requests.yaml"
        file.write_text("requests: [{flavor: small, id: one}, {flavor: gpu-large, count: 100, "
                        "min_count: 1}]")  # fmt: skip
        words = ("podm", "schedule", "--inventory", SITE, "--request-file", str(file))
        cls.made = run("valence-sched", *words, "--report", cls.report, "-f", "json")

    def explain(self, *words):
        done = run("valence-sched", "scheduler", "explain", self.report, *words)
        self.assertEqual(0, done.code, done.err)
        note = "for requests that were placed, or failed because of another request"
        bound = "warning: no placement has more than 5 of the 101 nodes"
        self.assertEqual(f"{bound}\nthe report holds no reasons {note}\n", done.err)
        return done

    def test_the_screen_tells_of_every_request(self):
        out = self.explain().out
        parts = ["request 1: one\nplaced: 1 of 1 (policy default, seed 0)\nsmall: 8 cores",
                 "request one, inventory ", "| general-1 |", "request 2: ", "placed in part: ",
                 "\nNot chosen: ", " in all\n"]  # fmt: skip
        places = [out.find(part) for part in parts]
        self.assertNotIn(-1, places, out)
        self.assertEqual(sorted(places), places)

    def test_programs_get_the_whole_or_rows_with_the_request(self):
        whole = self.explain("-f", "json").data
        self.assertEqual("placed_in_part", whole["Outcome"])
        first, second = whole["Decisions"]
        self.assertEqual(("1: one", "placed"), (first["Called"], first["Outcome"]))
        self.assertEqual(second["Placed"] + 1, whole["Placed"])
        rows = list(csv.DictReader(io.StringIO(self.explain("-f", "csv").out)))
        self.assertEqual(8, len(rows))
        self.assertTrue(all(row["Request"].startswith("2: ") for row in rows))

    def test_both_programs_agree(self):
        one, other = (run(program, "scheduler", "explain", self.report) for program in PROGRAMS)
        self.assertEqual(one, other)


class TestScreen(Explain):
    """The output for a user, in a pipe."""

    def test_every_part_is_there_in_order(self):
        done = self.explain(self.report)
        self.assertEqual((0, ""), (done.code, done.err))
        parts = ["placed: 1 of 1 (policy balanced, seed 0)", "gpu-large: 32 cores, 256 GiB memory",
                 "8 pod managers, 16 pools, 203 blocks", "| gpu-east |", "\nCandidates\n",
                 "gpu-north  hall-1",
                 "weights: fragmentation 12, level 6, balance 0.4, room 0.2, tight 0.2",
                 "\nNot chosen: 6 of 8 ",
                 "dark-1     status Offline, needs Online; would fit otherwise",
                 "mem-1      drawer-1: 128 of 256 GiB memory",
                 "Filters:       16 pools, 15 after alive, 7 after capacity, 4 after devices",
                 "Nearest miss:  mem-1 lacks 128 GiB memory; removing node graph-2 frees it",
                 "Sensitivity:   pool row-c of gpu-east instead of row-a, with 16 cores instead",
                 "row-b of gpu-east instead of row-a, if the weight of",
                 "fragmentation is 0.333 instead of 12"]  # fmt: skip
        places = [done.out.find(part) for part in parts]
        self.assertNotIn(-1, places, done.out)
        self.assertEqual(sorted(places), places)

    def test_there_is_no_escape_code_in_a_pipe_whatever_the_terminal(self):
        for term in ("xterm-256color", "dumb"):
            done = self.explain(self.report, TERM=term, COLORTERM="truecolor", FORCE_COLOR="1")
            self.assertNotIn(ESCAPE, done.out + done.err)
        self.assertNotIn(ESCAPE, self.made.out + self.made.err)

    def test_the_decision_says_the_same_when_it_is_made_and_from_its_report(self):
        of_report = self.explain(self.report).out.splitlines()
        of_decision = self.made.out.splitlines()
        sections = of_decision[of_decision.index("Candidates") :]
        self.assertGreater(len(sections), 20)
        self.assertEqual(sections, of_report[-len(sections) :])
        table = [line for line in of_decision if line.startswith(("|", "+"))]
        self.assertIn("\n".join(table), "\n".join(of_report))

    def test_programs_get_the_explanation_as_a_structure(self):
        done = run("valence-sched", *ASK, "--explain", "-f", "json")
        self.assertEqual("placed 1 of 1 (policy balanced, seed 0)\n", done.err)
        explained = run("valence-sched", "scheduler", "explain", self.report, "-f", "json")
        self.assertEqual(explained.data, done.data)
        self.assertTrue(done.data["Candidates"])

    def test_formats_of_rows_have_no_place_for_an_explanation(self):
        for words in ("-f csv", "-f value", "-f json --claim", "-f json -c Podm"):
            done = run("valence-sched", *ASK, "--explain", *words.split())
            self.assertEqual(2, done.code, words)
            self.assertIn("write --report FILE and read it with scheduler explain", done.err)

    def test_the_same_inputs_give_the_same_bytes(self):
        again = self.folder / "again.json"
        run("valence-sched", *ASK, "--report", again)
        self.assertEqual(Path(self.report).read_bytes(), again.read_bytes())

    def test_when_nothing_fits_it_says_what_would(self):
        report = self.folder / "nothing.json"
        done = run("valence-sched", *ASK, "--podm", "full-1", "--report", report)
        self.assertEqual(3, done.code)
        done = self.explain(report)
        self.assertEqual(0, done.code)
        self.assertIn("nothing fits: 0 of 1", done.out)
        self.assertIn("removing node tenant-1 frees it", " ".join(done.out.split()))
        self.assertNotIn("Candidates", done.out)

    def test_lots_are_said_to_decide_where_they_do(self):
        report = self.folder / "chance.json"
        run("valence-sched", *ASK[:-1], "chance", "--report", report)
        out = self.explain(report).out
        self.assertIn("Note:          the scheduler 'chance' does not use weights", out)
        self.assertRegex(out, r"(?m)^Filters: .* after alive$")

    def test_what_a_podm_calls_itself_cannot_command_the_terminal(self):
        site = json.loads(Path(SITE).read_text())
        site["podms"][1]["id"] = "evil\x1b[31m"
        inventory = self.write("evil.json", json.dumps(site))
        report = self.folder / "evil-report.json"
        done = run("valence-sched", *ASK[:2], "--inventory", inventory, *ASK[4:], "--explain",
                   "--report", report)  # fmt: skip
        self.assertIn("evil\\u001b[31m", done.out)
        self.assertNotIn(ESCAPE, done.out + done.err + self.explain(report).out)


class TestStructure(Explain):
    """The output for a program."""

    def test_json_and_yaml_hold_the_whole(self):
        found = self.explain(self.report, "-f", "json").data
        self.assertLessEqual(
            {"Funnel", "Podms", "Candidates", "Runner Up", "Nearest Misses", "Flips", "Notes"},
            set(found),
        )
        self.assertEqual("gpu-north", found["Runner Up"]["podm"])
        self.assertEqual("graph-2", found["Nearest Misses"][0]["freeing"]["node"])
        self.assertEqual({"filter": "enabled", "in": 16, "out": 16}, found["Funnel"][0])
        for flip in found["Flips"]:
            self.assertTrue(flip["text"])
        text = self.explain(self.report, "-f", "yaml").out
        self.assertEqual(found, yaml.safe_load(text))

    def test_it_is_what_stands_in_the_report(self):
        found = self.explain(self.report, "-f", "json").data
        explanation = self.document["explanation"]
        without = [{k: v for k, v in flip.items() if k != "text"} for flip in found["Flips"]]
        self.assertEqual(explanation["flips"], without)
        self.assertEqual(explanation["candidates"], found["Candidates"])
        self.assertEqual(self.document["podms"], found["Podms"])

    def test_csv_has_a_row_a_podm(self):
        rows = list(csv.DictReader(io.StringIO(self.explain(self.report, "-f", "csv").out)))
        self.assertEqual(8, len(rows))
        found = {row["Podm"]: row for row in rows}
        names = ("Filter", "Label", "Need", "Have", "Unit")
        self.assertEqual(["capacity", "memory", "262144", "131072", "MiB"],
                         [found["mem-1"][name] for name in names])  # fmt: skip
        parts = json.loads(found["gpu-east"]["Parts"])
        self.assertAlmostEqual(float(found["gpu-east"]["Score"]), sum(parts.values()), 5)
        self.assertIn("removing node graph-2", found["mem-1"]["Near Miss"])

    def test_every_candidate_has_its_parts_in_csv_whichever_of_equal_pools_is_named(self):
        report = self.folder / "medium.json"
        run("valence-sched", *ASK[:5], "medium", *ASK[6:], "--report", report)
        rows = self.explain(report, "-f", "json", "-c", "Podm", "-c", "Score", "-c", "Parts").data
        with_score = [row for row in rows if row["Score"] is not None]
        self.assertEqual(5, len(with_score))
        for row in with_score:
            self.assertAlmostEqual(row["Score"], sum(row["Parts"].values()), 5)

    def test_columns_can_be_chosen_in_every_format(self):
        words = (self.report, "-c", "Podm", "-c", "Outcome")
        out = self.explain(*words, "-f", "value").out
        self.assertEqual("gpu-east chosen", out.splitlines()[0])
        data = self.explain(*words, "-f", "json").data
        self.assertEqual({"Podm": "gpu-east", "Outcome": "chosen"}, data[0])

    def test_a_report_may_come_through_a_pipe(self):
        done = self.explain("-", "-f", "json", stdin=Path(self.report).read_bytes())
        self.assertEqual("gpu-north", done.data["Runner Up"]["podm"])

    def test_openstack_has_it_too(self):
        ours, theirs = (self.explain(self.report, program=program) for program in PROGRAMS)
        self.assertEqual(ours, theirs)


class TestBadReports(Explain):
    """A bad report causes one line: the error, its place, and the remedy."""

    def refused(self, text):
        file = self.write("bad.json", text if isinstance(text, (str, bytes)) else json.dumps(text))
        done = self.explain(file)
        self.assertEqual((1, ""), done[:2])
        self.assertEqual(1, done.err.count("\n"), done.err)
        self.assertTrue(done.err.startswith(file), done.err)
        return done.err

    def test_a_truncated_file(self):
        text = Path(self.report).read_bytes()
        self.assertIn("is the file complete?", self.refused(text[: len(text) // 2]))
        self.assertIn("is the file complete?", self.refused(""))

    def test_no_json_and_no_map(self):
        self.assertIn("expected JSON", self.refused("outcome: placed\n"))
        self.assertIn("found [], expected object", self.refused("[]"))
        self.assertIn("UTF-8", self.refused(b'{"schema": "\xff"}'))

    def test_another_document(self):
        refused = self.refused(Path(SITE).read_bytes())
        self.assertIn("found an inventory, expected a decision (use --inventory)", refused)
        self.assertIn("no field 'schema', which is required", self.refused({"a": 1}))

    def test_a_newer_major_version(self):
        newer = {"schema": "valence-sched/decision", "version": "2.0"}
        self.assertIn("$.version: found 2.0, expected at most 1.x", self.refused(newer))

    def test_wrong_types_and_missing_fields(self):
        wrong = {**self.document, "seed": "x"}
        self.assertIn('$.seed: found "x", expected int', self.refused(wrong))
        wrong = {**self.document, "podms": [{**self.document["podms"][0], "pools": []}]}
        self.assertIn("$.podms[0].pools: found []", self.refused(wrong))
        wrong = {name: value for name, value in self.document.items() if name != "funnel"}
        self.assertIn("no field 'funnel'", self.refused(wrong))

    def test_a_file_that_is_not_there(self):
        done = self.explain(self.folder / "nowhere.json")
        self.assertEqual(1, done.code)
        self.assertIn("no such file", done.err)

    def test_unknown_fields_of_a_newer_minor_version_are_reported_and_left_out(self):
        newer = {**self.document, "version": "1.9", "mood": "good"}
        newer["request"] = {**newer["request"], "colour": "blue"}
        file = self.write("newer.json", json.dumps(newer))
        done = self.explain(file)
        self.assertEqual(0, done.code, done.err)
        self.assertIn("ignored unknown fields: ", done.err)
        self.assertIn("$.mood", done.err)
        self.assertIn("$.request.colour", done.err)
        self.assertEqual(self.explain(self.report).out, done.out)

    def test_an_amount_of_a_newer_minor_version_is_shown_by_its_name(self):
        newer = json.loads(json.dumps(self.document))
        newer["explanation"]["candidates"][0]["excess"] = {"pump": 2}
        done = self.explain(self.write("newer.json", json.dumps(newer)))
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertIn("2 pumps", done.out)

    def test_a_report_of_an_older_program_is_shown_as_far_as_it_goes(self):
        older = {name: value for name, value in self.document.items() if name != "explanation"}
        done = self.explain(self.write("older.json", json.dumps(older)))
        self.assertEqual(0, done.code)
        self.assertIn("neither near misses nor sensitivity", done.err)
        self.assertIn("  mem-1 ", done.out)


class TestTerminal(Explain):
    """Colours appear only on a terminal that supports them."""

    def screen(self, *words, columns=160, **more):
        terminal = Terminal(columns)
        more = {"TERM": "xterm-256color", "COLUMNS": str(columns)} | more
        try:
            done = run_to("valence-sched", terminal.path, None, *words, **more)
        finally:
            seen = terminal.close()
        self.assertEqual(0, done.code, seen)
        return seen.replace("\r\n", "\n")

    def test_scores_are_coloured_and_the_words_are_the_same(self):
        seen = self.screen("scheduler", "explain", self.report)
        self.assertIn(f"{ESCAPE}[", seen)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
        for line in self.explain(self.report).out.splitlines():
            if not line.startswith(("+", "|")):
                self.assertIn(line, plain)
        coloured = [line for line in seen.splitlines() if ESCAPE in line]
        self.assertEqual(["gpu-east", "gpu-north"],
                         [re.search(r"Podm|gpu-\w+", line)[0] for line in coloured])  # fmt: skip

    def test_scheduling_shows_them_too(self):
        self.assertIn(f"{ESCAPE}[", self.screen(*ASK, "--explain"))
        self.assertNotIn(ESCAPE, self.screen(*ASK))

    def test_nobody_gets_colours_who_objects(self):
        for objection in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            with self.subTest(objection=objection):
                seen = self.screen("scheduler", "explain", self.report, **objection)
                self.assertNotIn(ESCAPE, seen)
                self.assertIn("Sensitivity: ", seen)

    def test_programs_get_none_on_a_terminal_either(self):
        for format_ in ("json", "csv", "markdown"):
            seen = self.screen("scheduler", "explain", self.report, "-f", format_)
            self.assertNotIn(ESCAPE, seen)
        for format_ in ("json", "yaml", "markdown"):
            self.assertNotIn(ESCAPE, self.screen(*ASK, "--explain", "-f", format_))


if __name__ == "__main__":
    unittest.main()
