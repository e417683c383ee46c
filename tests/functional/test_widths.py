# SPDX-License-Identifier: Apache-2.0
"""No default screen of a command is wider than 80 columns, on recordings and on live pod managers.

The programs write to files here, as to a pipe, so no terminal narrows their tables.
"""

import itertools
import json
import re
import shlex
import signal
import subprocess
from contextlib import ExitStack
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from tests.functional.programs import (
    BIN,
    PROGRAMS,
    ROOT,
    SITE,
    Case,
    Done,
    environment,
    run,
    run_to,
)
from tests.functional.terminal import Terminal, watched
from tests.unit.cli.output.hostile import EVIL, raw
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing.served import served
from valence_sched_cli.base import Command

WIDTH = 80
SITE_OPTION = "--inventory examples/site.json"
DOC = "doc/source/examples"
#: Words that may make a line on standard error longer: an id, a URL, or a path with a slash. It
#: must be copied as a whole; and programs find lines by their beginning, so that they are not
#: folded.
IDENTIFIER = re.compile(r"/|\b[0-9a-f]{8,}\b")

#: Screens of recordings, which do not depend on each other.
RECORDED = (
    "podm list", "podm list --stale", "podm block list",
    "podm block list --free", "podm block show --podm gpu-east GPU-03", "podm pool list",
    "podm device list", "podm fit", "podm fit --flavor gpu-large --require gpu-large=40",
    "podm fit --mix gpu-large=1,small=4 --explain --require mix=99",
    "podm fit --mix gpu-large=1,small=4 --proven --explain", "podm fit --stranded",
    "podm fit --mix gpu-large=1,small=4 --stranded",
    *(f"podm show {name}" for name in ("gpu-east", "gpu-north", "gpu-west", "mem-1", "store-1",
                                       "general-1", "dark-1", "full-1")),
    *(f"podm schedule --flavor {name}" for name in ("small", "large", "gpu-small", "gpu-large",
                                                    "storage-large", "memory-large")),
    "podm schedule --flavor gpu-large --explain", "podm schedule --flavor small --count 200",
    "podm schedule --flavor gpu-large --alternates 3 --count 2",
    "podm schedule --flavor gpu-large --count 9", "podm schedule --resource PGPU=99",
    "podm schedule --flavor gpu-large --count 9 --min-count 1 --explain",
    f"podm schedule --request-file {DOC}/request-several.yaml",
    f"podm schedule --request-file {DOC}/request-too-many.yaml",
    "podm schedule --flavor gpu-large --report {folder}/report.json",
    "podm inventory convert --output {folder}/a.json",
    "podm inventory edit --fail GPU-02@gpu-east --clone mem-1x2 --output {folder}/b.json",
    "scheduler policy tune --workload examples/workload.csv --samples 2 --jobs 1",
    "scheduler check examples/check.yaml", f"scheduler check {DOC}/check-not-met.yaml",
    "scheduler whatif drain gpu-west", "scheduler whatif fail gpu-east",
    "scheduler whatif fail --survive 1",
    "scheduler whatif need --flavor gpu-large --count 7 --buy GPU-03@gpu-east --buy "
    "Compute-02@gpu-east --buy NVMe-02@gpu-east",
    "scheduler whatif rebalance --flavor gpu-large --fragmentation-below 30%",
    "scheduler whatif run --workload examples/workload.csv",
    "scheduler whatif run --workload examples/workload.csv --policy default --policy pack "
    "--compare",
    "scheduler whatif run --workload examples/workload.csv --series",
    "scheduler whatif sweep --workload examples/workload.csv --policy default --policy pack "
    "--jobs 1",
)  # fmt: skip

#: Screens without an inventory or a pod manager, after those of RECORDED.
PLAIN = (
    "scheduler config show", "podm flavor list", "podm flavor show gpu-large",
    "podm flavor validate examples/flavors.yaml",
    f"podm flavor validate {DOC}/policy-minimal.yaml",
    "podm inventory validate examples/site.json",
    "podm inventory validate examples/flavors.yaml",
    f"podm inventory diff {DOC}/inventory-small.json examples/site.json",
    "scheduler explain {folder}/report.json", "scheduler filter list", "scheduler weigher list",
    "scheduler policy list", "scheduler policy show default",
    f"scheduler policy validate {DOC}/policies-catalogue.yaml",
    "scheduler policy validate examples/flavors.yaml",
)  # fmt: skip

#: Screens of live pod managers and of the store, in order.
LIVE = (
    "podm create extra {url} --zone east-1", "podm create gone {dead} --no-check",
    "podm set gone --url {dead}/redfish/v1 --max-blocks 4", "podm unset extra --zone",
    "podm create nobody {dead}", "podm check --all", "podm schedule --flavor small --podm gone",
    "podm delete gone", "podm block set GPU-10 --podm gpu-east --reserve repair",
    "podm block unset GPU-10 --podm gpu-east", "podm check --all", "podm watch --once",
    "podm list", "podm show gpu-east", "podm pool list", "podm device list",
    "podm block list --free", "podm fit --flavor small --flavor gpu-large",
    "podm schedule --flavor gpu-large", "podm schedule --flavor small --dry-run=server",
    "podm schedule --flavor small --owner ana "
    "--claim --key ticket-7", "podm schedule --flavor small --owner ana --claim --key ticket-7",
    "podm schedule --flavor gpu-large --count 2 --claim", "podm claim list", "podm claim show {id}",
    "podm claim renew {id} --ttl 1h", "podm claim compose {id}", "podm claim show {id}",
    "podm schedule --flavor small --count 2 --compose --owner ana",
    "podm node list", "podm node list --live", "podm node show {node}", "podm show gpu-east",
    "podm node resize {node} --flavor gpu-small --dry-run",
    "podm node attach {node} --gpu 1", "podm node detach {node} --gpu 1 --dry-run",
    "podm node detach {node} --gpu 1 --power-cycle", "podm node attach {node} --gpu 99",
    "podm node set {node} --shrinkable --floor small", "podm node show {node}",
    "podm node unset {node} --shrinkable", "podm node history {node}",
    "podm schedule --flavor small --plan {folder}/plan.json",
    "podm apply {folder}/plan.json --refresh", "podm apply {folder}/plan.json",
    "podm schedule --flavor small --plan {folder}/held.json",
    "podm apply {folder}/held.json --claim", "podm claim release {held}",
    "podm claim reap --dry-run", "podm claim reap",
    "podm claim list --all", "podm node delete {node}",
    "podm schedule --cores 32 --resource cxl_memory_mib=65536 --compose",
    "podm node attach {pooled} --resource cxl_memory_mib=65536 --dry-run=server",
    "podm node attach {pooled} --resource cxl_memory_mib=65536", "podm node show {pooled}",
    "podm node attach {pooled} --resource cxl_memory_mib=99TB",
    "podm node detach {pooled} --resource cxl_memory_mib=65536 --dry-run",
    "podm node resize {pooled} --flavor memory-large --dry-run",
    "podm node detach {pooled} --idle --power-cycle", "podm node history {pooled}",
    "podm node delete {pooled}",
    f"podm stats set rack-9 {DOC}/stats-rack.json", "podm stats show rack-9", "podm list",
    "podm stats unset rack-9", "podm capture gpu-east --output {folder}/capture.json",
    "scheduler quota set team-a --resource nodes=20 --resource accelerators:a100=8",
    "scheduler quota set --default --resource claims=50", "scheduler quota list",
    "scheduler audit list",
    "scheduler quota show ana", "scheduler quota unset team-a --resource nodes",
    "podm capture dark-1 mem-1 --tree {folder}/tree",
    "scheduler zone add east {dead}",
    "scheduler zone add west {dead} --username up --password-env WEST --weight-scale 0.5",
    "scheduler zone list", "scheduler zone show west", "scheduler zone set east --disable",
    "scheduler zone info", "scheduler zone tree", "scheduler zone delete east",
)  # fmt: skip


class Screens:
    """The screens of commands by their words; further words choose their format."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.screens: dict[str, Done] = {}
        self._folder, self._more = folder, more
        self._names = {"folder": str(folder), "dead": "http://127.0.0.1:9"}

    def run_all(self) -> None:
        """Run every command with an entry point but ``podm serve``."""
        with ExitStack() as stack:
            podms = stack.enter_context(served(SITE))
            state = self._folder / "valence-sched" / "state.sqlite"
            state.parent.mkdir(mode=0o700)
            (state.parent / "zones.yaml").write_text("enable_zone_routing: true")
            with Store(f"sqlite:///{state}") as store:
                for name, podm in podms.items():
                    if name != "full-1":
                        store.register(Registration(name=name, url=podm.url))
            self._names["url"] = podms["full-1"].url
            for words in RECORDED:
                self._run_screen(f"{words} {SITE_OPTION}")
            for words in (*PLAIN, *LIVE):
                self._run_screen(words)

    def _run_screen(self, words: str) -> None:
        """Run a command with the first claim and node that exist."""
        for name, listing, place in (
            ("id", "claim list", 0),
            ("held", "claim list", -1),
            ("node", "node list", 0),
            ("pooled", "node list --podm mem-1", 0),
        ):
            if f"{{{name}}}" in words:
                rows = self._run_words(f"podm {listing} -f json").data
                self._names[name] = rows[place]["Node" if "node" in listing else "ID"]
        more = self._more if has_formats(words) else ()
        done = self._run_words(" ".join((words.format(**self._names), *more)))
        number = sum(1 for known in self.screens if known.partition(" #")[0] == words)
        self.screens[f"{words} #{number}"] = done

    def _run_words(self, words: str) -> Done:
        return run("valence-sched", *shlex.split(words), COLUMNS=str(WIDTH),
                   XDG_STATE_HOME=str(self._folder), XDG_CONFIG_HOME=str(self._folder))  # fmt: skip


def command_of(words: str) -> EntryPoint:
    """Return the command of a line of words."""
    return next(one for one in COMMANDS if f"{words} ".startswith(one.name.replace("_", " ") + " "))


def has_formats(words: str) -> bool:
    """Return whether the command of a line prints rows."""
    return not issubclass(command_of(words).load(), Command)


def every_screen(folder: Path, *more: str) -> dict[str, Done]:
    """Return the results of all commands but ``podm serve``, by their words and a number."""
    screens = Screens(folder, *more)
    screens.run_all()
    return screens.screens


class TestWidths(Case):
    """Every command with an entry point, on the example site."""

    screens: dict[str, Done]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.screens = every_screen(cls.folder)
        cls.screens["podm serve"] = served_screen()

    def test_every_command_has_a_screen(self):
        shown = {words.replace(" ", "_") for words in self.screens}
        for name in (point.name for point in COMMANDS):
            with self.subTest(name):
                self.assertTrue(any(f"{words}_".startswith(f"{name}_") for words in shown))

    def test_the_screens_are_those_of_commands_that_work(self):
        """An error message would hide a screen that is too wide."""
        for words, done in self.screens.items():
            with self.subTest(words):
                self.assertNotIn(done.code, (2, 7), done.err)
                self.assertNotIn("Traceback", done.err)

    def test_no_line_is_wider_than_80_columns(self):
        for words, done in self.screens.items():
            with self.subTest(words):
                self.assertEqual([], [line for line in done.out.splitlines() if len(line) > WIDTH])

    def test_on_stderr_only_identifiers_make_a_line_longer(self):
        for words, done in self.screens.items():
            with self.subTest(words):
                wide = [line for line in done.err.splitlines() if len(line) > WIDTH]
                self.assertEqual([], [line for line in wide if not IDENTIFIER.search(line)])


class TestTerminals(Case):
    """Widths that are read from the terminal."""

    def on_terminal(self, columns: int, *words: str) -> str:
        """Return the output of a command to a terminal of this number of columns."""
        terminal = Terminal(columns)
        try:
            run_to("valence-sched", terminal.path, None, *words, COLUMNS="", TERM="dumb")
        finally:
            text = terminal.close()
        return text.replace("\r\n", "\n")

    def test_a_table_is_folded_for_a_terminal_and_whole_in_a_pipe(self):
        words = ("scheduler", "policy", "list")
        for columns in (60, 80, 100):
            text = self.on_terminal(columns, *words)
            self.assertLessEqual(max(map(len, text.splitlines())), columns, text)
        piped = run("valence-sched", *words, COLUMNS="").out
        self.assertGreater(max(map(len, piped.splitlines())), 100)
        self.assertEqual(piped, self.on_terminal(500, *words))

    def test_a_message_is_folded_for_a_terminal_and_one_line_in_a_pipe(self):
        for words in (("podm", "schedule"), ("podm", "list", "--wide", "--inventory", SITE)):
            piped = run("valence-sched", *words)
            self.assertEqual(1, piped.err.count("\n"))
            for columns in (60, 80):
                code, _, text = watched(*words, columns=columns)
                lines = text.splitlines()
                self.assertEqual(piped.code, code)
                self.assertLessEqual(max(map(len, lines)), columns, text)
                self.assertEqual(piped.err, " ".join(map(str.strip, lines)) + "\n")

    def test_a_table_that_cannot_fit_is_a_record_for_each_row(self):
        words = ("podm", "list", "--inventory", SITE)
        text = self.on_terminal(60, *words)
        self.assertTrue(text.startswith("Podm    gpu-east\nStatus  Online\n"), text)
        names = run("valence-sched", *words, "-f", "value", "-c", "Podm").out.split()
        self.assertEqual(names, re.findall(r"^Podm +(\S+)$", text, re.MULTILINE))
        text = self.on_terminal(80, "podm", "node", "list", "--long", "--inventory", SITE)
        self.assertIn("Hardware  64 cores, 1 TiB, 4 GPU NVIDIA A100-SXM4-80GB, 4 NVMe SSD\n", text)

    def test_podm_list_shows_what_is_free_of_the_total_and_alone_where_that_is_too_wide(self):
        words = ("podm", "list", "--inventory", self.thirteen())
        for columns, amount in ((WIDTH, "| 224/432 |"), (WIDTH - 8, "|   224 |")):
            done = run("valence-sched", *words, "--zone", "east-1", COLUMNS=str(columns))
            self.assertIn(amount, done.out)

    def test_no_column_that_an_option_adds_makes_a_screen_wider(self):
        for point in COMMANDS:
            parser = point.load()(None, None).get_parser(point.name)
            if "--inventory" not in parser._option_string_actions:
                continue
            options = [one for one in ADD_COLUMNS if one in parser._option_string_actions]
            words = point.name.replace("_", " ").split()
            needed = NEEDED.get(point.name, ())
            for option in options:
                done = run("valence-sched", *words, *needed, "--inventory", self.thirteen(), option,
                           COLUMNS=str(WIDTH))  # fmt: skip
                with self.subTest(point.name, option=option):
                    self.assertIn(done.code, (0, 3, 4, 10), done)
                    wide = [line for line in done.out.splitlines() if len(line) > WIDTH]
                    self.assertEqual([], [line for line in wide if " " in line.strip("| ")])

    def thirteen(self) -> str:
        """Return the path of the site with pod manager names of 13 letters."""
        text = Path(SITE).read_text().replace('"full-1"', '"full-rack-one"')
        file = self.folder / "thirteen.json"
        file.write_text(text.replace('"dark-1"', '"dark-hall-one"'))
        return str(file)


def served_screen() -> Done:
    """Return the output of ``podm serve`` until it is ended."""
    words = ("podm", "serve", "examples/site.json", "--port", "0")
    process = subprocess.Popen(
        [str(BIN / "valence-sched"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=ROOT, env=environment(COLUMNS=str(WIDTH)),
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, first + out, err)


COMMANDS = sorted(entry_points(group="openstack.podm.v1"), key=lambda point: point.name)
ADD_COLUMNS = ("--long", "--capabilities", "--explain")
#: The further arguments of a command beside an inventory.
NEEDED = {
    "podm_schedule": ("--flavor", "gpu-large"), "podm_fit": ("--flavor", "gpu-large"),
    "podm_show": ("mem-1",), "podm_block_show": ("--podm", "mem-1", "CXL-01"),
    "podm_node_show": ("train-1",), "scheduler_check": ("examples/check.yaml",),
    "scheduler_whatif_drain": ("gpu-west",), "scheduler_whatif_fail": ("mem-1",),
    "scheduler_whatif_need": ("--flavor", "small", "--buy", "Compute-02@gpu-east"),
    "scheduler_whatif_rebalance": ("--flavor", "gpu-large"),
    "scheduler_whatif_run": ("--workload", "examples/workload.csv"),
    "scheduler_whatif_sweep": ("--workload", "examples/workload.csv", "--jobs", "1"),
    "scheduler_policy_tune": (
        "--workload", "examples/workload.csv", "--samples", "2", "--jobs", "1"
    ),
}  # fmt: skip
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
    """Each command that reads third-party data, in formats for users and for programs."""

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
            ("list", ("podm", "schedule", *site, *flavor, "--count", "3"), (0, 4)),
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
    """``podm serve`` on a pod manager with an odd name."""

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
