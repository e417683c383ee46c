# SPDX-License-Identifier: Apache-2.0
"""No name that a pod manager or a file tells controls a terminal, whatever command prints it."""

import itertools
import json
import signal
import subprocess

from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, Case, environment, run
from tests.unit.cli.output.hostile import EVIL, raw

FORMATS = {"list": ("table", "json", "yaml", "csv", "value", "markdown"),
           "show": ("table", "json", "yaml", "shell", "value", "markdown")}  # fmt: skip
FLAVOR = {"name": EVIL, "properties": {"processor": {"total_cores": 4}}}
OPERATOR = {"name": EVIL, "weighers": [{"name": "room"}], "filters": ["enabled", EVIL]}


def hostile_podm(name: str, **more: object) -> dict[str, object]:
    words = {"name": EVIL, "zone": EVIL, "traits": [EVIL], "aggregates": [EVIL]}
    devices = {"processors": [{"cores": 8, "model": EVIL}], "drives": [{"model": EVIL}]}
    return {
        "id": name, **words, "facts": {EVIL: EVIL}, "capabilities": {EVIL: [EVIL]},
        "pools": [{"id": EVIL, "name": EVIL}],
        "blocks": [{"uri": f"/b/{n}{EVIL}", "name": EVIL, "pools": [EVIL], "devices": devices}
                   for n in (1, 2)] + [{"uri": f"/b/3{EVIL}", "status": {"state": "Composed"}}],
        "nodes": [{"name": EVIL, "uri": f"/n/{EVIL}", "blocks": [f"/b/3{EVIL}"]}], **more,
    }  # fmt: skip


class TestEveryCommand(Case):
    """Each command that reads what others wrote, in formats for people and for programs."""

    def setUp(self):
        site = {"schema": "valence-sched/inventory"}
        podms = [hostile_podm(EVIL), hostile_podm("b", zoen=EVIL), hostile_podm("c" + EVIL)]
        self.site = self.write("evil.json", json.dumps({**site, "podms": podms}))
        whole = json.dumps({**site, "podms": [podms[0], podms[2]]})
        self.whole = self.write("whole.json", whole)
        less = [hostile_podm(EVIL, zone="z", blocks=[], nodes=[])]
        self.other = self.write("other.json", json.dumps({**site, "podms": less}))
        self.flavor = self.write("flavor.json", json.dumps(FLAVOR))
        self.policy = self.write("policy.json", json.dumps(OPERATOR))
        self.report = str(self.folder / "report.json")
        self.state = str(self.folder / "state.db")

    def check(self, kind, words, formats=None, codes=(0,)):
        for format_ in formats or FORMATS[kind]:
            for program in PROGRAMS if format_ == "table" else PROGRAMS[:1]:
                with self.subTest(program, words=words[:2], format=format_):
                    done = run(program, *words, "-f", format_)
                    self.assertIn(done.code, codes, done.err)
                    self.assertEqual("", raw(done.out))
                    self.assertEqual("", raw(done.err))
                    self.assertNotIn("Traceback", done.err)
                    if format_ == "table":
                        self.assertNotRegex(done.out + done.err, r"(?m)^placed 1 of 1-b")

    def test_commands_that_read_an_inventory(self):
        site = ("--inventory", self.site)
        flavor = ("--flavor", self.flavor)
        state = ("--state", self.state)
        for kind, words, codes in (
            ("list", ("podm", "list", *site, "--long", "--capabilities"), (0,)),
            ("show", ("podm", "show", EVIL, *site), (0,)),
            ("list", ("podm", "fit", *site, *flavor), (0, 3)),
            ("list", ("podm", "schedule", *site, *flavor, "--explain", "--count", "3"), (0, 4)),
            ("list", ("podm", "schedule", *site, *flavor, "--trait", EVIL, "--zone", "x"), (3,)),
            ("list", ("podm", "inventory", "validate", self.site, "--long"), (0,)),
            ("list", ("podm", "inventory", "diff", self.whole, self.other), (0,)),
            ("list", ("podm", "flavor", "list", "--flavor-file", self.flavor), (0, 1)),
            ("list", ("podm", "flavor", "validate", self.flavor), (0, 1)),
            ("list", ("scheduler", "policy", "validate", self.policy), (0, 1)),
            ("list", ("podm", "list", "--inventory", self.flavor), (1,)),
            ("list", ("podm", "list", "--inventory", f"{self.folder}/{EVIL[:20]}"), (1,)),
            ("list", ("podm", "node", "list", *state), (0,)),
        ):  # fmt: skip
            self.check(kind, words, codes=codes)

    def test_a_claim_and_its_podm_in_the_state(self):
        state = ("--state", self.state)
        stats = hostile_podm(EVIL)
        name = stats.pop("id")
        done = run("valence-sched", "podm", "stats", "set", name, "-", *state,
                   stdin=json.dumps(stats).encode())  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        words = ("--flavor", self.flavor, *state)
        self.check("list", ("podm", "schedule", *words, "--claim"), ["table"])
        self.check("list", ("podm", "claim", "list", "--state", self.state))

    def test_a_report_and_what_explains_it(self):
        words = ("--inventory", self.site, "--flavor", self.flavor, "--report", self.report)
        done = run("valence-sched", "podm", "schedule", *words, "--explain")
        self.assertEqual(0, done.code, done.err)
        text = (self.folder / "report.json").read_text()
        self.assertEqual("", raw(text))
        self.assertEqual(EVIL, json.loads(text)["placements"][0]["chosen"]["pool"])
        self.check("list", ("scheduler", "explain", self.report))

    def test_files_that_are_written_are_harmless_and_read_as_they_were(self):
        for name in ("all.json", "all.jsonl"):
            file = self.folder / name
            words = ("--inventory", self.whole, "-o", file)
            done = run("valence-sched", "podm", "inventory", "convert", *words)
            self.assertEqual(0, done.code, done.err)
            self.assertEqual("", raw(file.read_text()))
            difference = run("valence-sched", "podm", "inventory", "diff", self.whole, file)
            self.assertEqual((0, ""), (difference.code, difference.out), difference.err)

    def test_errors_logs_and_tracebacks(self):
        log = self.folder / "log"
        for words, program in itertools.product((("--debug",), ("-vv",)), PROGRAMS):
            done = run(program, *words, "--log-file", log, "podm", "show", "nobody",
                       "--inventory", self.site, "--strict")  # fmt: skip
            self.assertNotEqual(0, done.code)
            for text in (done.out, done.err, log.read_text()):
                self.assertEqual("", raw(text))


class TestServe(Case):
    """``podm serve`` on a pod manager with a name of that kind."""

    def test_its_lines_are_harmless_and_are_as_many_as_pod_managers(self):
        podms = [hostile_podm(EVIL), hostile_podm("b")]
        site = {"schema": "valence-sched/inventory", "podms": podms}
        file = self.write("evil.json", json.dumps(site))
        for program in PROGRAMS:
            with self.subTest(program):
                process = subprocess.Popen(
                    [str(BIN / program), "podm", "serve", file, "--port", "0"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    cwd=ROOT, env=environment(),
                )  # fmt: skip
                self.addCleanup(process.kill)
                lines = [process.stdout.readline() for _ in podms]
                process.send_signal(signal.SIGTERM)
                rest, err = process.communicate(timeout=60)
                self.assertEqual((0, ""), (process.returncode, rest), err)
                self.assertEqual("", raw("".join(lines) + err))
                for line in lines:
                    self.assertRegex(line, r" http://127\.0\.0\.1:[0-9]+/redfish/v1\n\Z")

    def test_a_rule_for_nobody_names_the_known_ones_in_one_line(self):
        done = run("valence-sched", "podm", "serve", SITE, "--podm", EVIL)
        self.assertEqual(("", 1), (raw(done.err), done.err.count("\n")))
