# SPDX-License-Identifier: Apache-2.0
"""``--html``: which page is written, and what stops one."""

import itertools
import json
import re
import subprocess
import sys

from tests.functional.programs import FLAVORS, PROGRAMS, ROOT, SITE, Case, run

OURS = PROGRAMS[0]
LIST = ("podm", "list", "--inventory", SITE)
SCHEDULE = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large")
RUN = ("scheduler", "whatif", "run", "--inventory", SITE, "--flavor-file", FLAVORS, "--rate", "1/h",
       "--mix", "small=2,gpu-large=1", "--horizon", "2d", "--seed", "7")  # fmt: skip
FAIL = ("scheduler", "whatif", "fail", "gpu-east", "--inventory", SITE)
DRAIN = ("scheduler", "whatif", "drain", "gpu-west", "--inventory", SITE)
SWEEP = ("scheduler", "whatif", "sweep", "--jobs", "1", *RUN[3:-2])
ALL = (LIST, SCHEDULE, RUN, FAIL, DRAIN, SWEEP)
#: Runs commands where one library is not installed.
WITHOUT = """
import json, sys
sys.modules[sys.argv[1]] = None
from tests.functional.programs import run
print(json.dumps([run("valence-sched", *words) for words in json.loads(sys.argv[2])]))
"""


class TestPages(Case):
    """Pages of both commands, by both programs."""

    def page(self, *words: str, program: str = OURS, code: int = 0) -> str:
        file = self.folder / "page.html"
        file.unlink(missing_ok=True)
        done = run(program, *words, "--html", file)
        self.assertEqual(code, done.code, done.err)
        return file.read_text()

    def test_both_programs_write_the_same_bytes_and_print_their_rows(self):
        for words in (LIST, (*SCHEDULE, "--alternates", "2")):
            first, second = (self.page(*words, program=program) for program in PROGRAMS)
            self.assertEqual(first, second)
            done = run(OURS, *words, "--html", self.folder / "p.html", "-f", "json")
            self.assertEqual("gpu-east", done.data[0]["Podm"])

    def test_a_decision_that_is_refused_has_a_page_and_its_exit_code(self):
        text = self.page(*SCHEDULE, "--count", "30", code=3)
        self.assertIn("Nothing is placed: 4 of 30 nodes fit", text)

    def test_a_list_is_of_the_pod_managers_that_its_options_name(self):
        text = self.page(*LIST, "--zone", "east-1")
        self.assertEqual({"gpu-east", "mem-1"}, set(re.findall("<h3>(.*?)</h3>", text)))

    def test_a_file_of_requests_has_one_page(self):
        requests = [{"id": name, "flavor": "small"} for name in ("one", "two")]
        file = self.write("requests.json", json.dumps({"requests": requests}))
        words = ("podm", "schedule", "--inventory", SITE, "--flavor-file", FLAVORS)
        text = self.page(*words, "--request-file", file)
        self.assertIn("Placed: 2 of 2 nodes", text)

    def test_a_replay_has_a_page_with_its_runs_and_what_they_were(self):
        words = (*RUN, "--policy", "default", "--policy", "pack", "--fail", "GPU-01@gpu-east")
        output = self.folder / "replay.json"
        text = self.page(*words, "--compare", "-o", str(output))
        replay = json.loads(output.read_bytes())
        names = re.findall('<th scope=row data-t="Run">([^<]*)</th>', text)[-4:]
        self.assertEqual(["base/default", "base/pack", "edited/default", "edited/pack"], names)
        for run_ in replay["runs"]:
            self.assertIn(run_["inventory"]["digest"], text)
        for fact in ("fail GPU-01@gpu-east: 1 podm, 1 block, 1 node lost", "<dd>7</dd>",
                     "small=2, gpu-large=1"):  # fmt: skip
            self.assertIn(fact, text)
        self.assertIn('<span class="mark">best</span>', text)
        done = run(PROGRAMS[1], *words, "--compare", "--html", self.folder / "second.html")
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(text, (self.folder / "second.html").read_text())

    def test_a_failure_and_a_drain_have_pages_with_their_exit_codes(self):
        for words, code, lead in (
            ((*FAIL, "--clone", "gpu-east"), 0, "Every node lands again: 4 nodes of gpu-east"),
            (DRAIN, 4, "1 of 3 nodes of gpu-west move away, 2 cannot"),
            (("scheduler", "whatif", "fail", "--survive", "1", "--inventory", SITE), 4,
             "Not any 1 pod manager may fail"),
        ):  # fmt: skip
            with self.subTest(words[:4]):
                first, second = (self.page(*words, program=program, code=code)
                                 for program in PROGRAMS)  # fmt: skip
                self.assertIn(lead, first)
                self.assertEqual(first, second)
        self.assertIn("clone gpu-east: 1 podm", self.page(*FAIL, "--clone", "gpu-east"))

    def test_a_sweep_has_a_page_beside_its_file_of_runs(self):
        output = self.folder / "sweep.csv"
        words = (*SWEEP, "--seeds", "1..3", "--policy", "default", "--policy", "pack")
        text = self.page(*words, "-o", str(output))
        self.assertEqual(7, len(output.read_text().splitlines()))
        (digest,) = re.findall("<dd>([0-9a-f]{32})</dd>", text)
        self.assertEqual(3, text.count('data-t="Scenario">base</th>') // 2)
        self.assertRegex(text, "over 3 seeds")
        again = self.page(*words, program=PROGRAMS[1])
        self.assertEqual(text, again)
        self.assertIn(digest, again)

    def test_a_report_and_a_plan_can_be_written_beside_it(self):
        report, plan = self.folder / "r.json", self.folder / "plan.json"
        text = self.page(*SCHEDULE, "--report", str(report), "--plan", str(plan))
        self.assertIn(json.loads(report.read_text())["inventory"]["digest"], text)
        self.assertTrue(plan.exists())

    def test_a_name_that_is_none_and_a_place_that_is_none_are_refused(self):
        for program, words in itertools.product(PROGRAMS, ALL):
            for file, code, line in (
                ("-", 2, "--html: standard output is for the rows: name a file"),
                ("", 2, "argument --html: an empty name: name a file"),
                (f"{self.folder}/none/p.html", 1, "no such file or directory"),
            ):
                with self.subTest(program, words=words[:2], file=file):
                    done = run(program, *words, "--html", file)
                    self.assertEqual((code, ""), (done.code, done.out), done.err)
                    self.assertIn(line, done.err.splitlines()[-1])

    def test_a_library_that_is_missing_is_named_with_the_extra(self):
        file = self.folder / "missing.html"
        commands = [(*words, "--html", str(file)) for words in ALL]
        for library in ("jinja2", "pygal"):
            with self.subTest(library):
                outcomes = subprocess.run(
                    [sys.executable, "-c", WITHOUT, library, json.dumps(commands)],
                    capture_output=True, cwd=ROOT, check=True,
                ).stdout  # fmt: skip
                line = f"--html needs {library}: pip install 'valence-sched[html]'\n"
                self.assertEqual([[1, "", line]] * len(ALL), json.loads(outcomes))
                self.assertFalse(file.exists())
