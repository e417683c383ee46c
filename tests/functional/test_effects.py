# SPDX-License-Identifier: Apache-2.0
"""No effect fails silently: a changed object is named on a stream that still works."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, Case, environment, run, run_to
from tests.functional.test_compose import REMARKS
from tests.unit.core.deciders import cpu, gpu
from tests.unit.integrations.test_dispatchers import controller
from tests.unit.store.engines import empty_file
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.model.diagnostic import AuditQuery
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration, RegistrationChange
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.store.store import Store
from valence_sched.testing import request
from valence_sched.testing.served import ServedPodm, served

OURS = PROGRAMS[0]
FULL = "/dev/full"
PODM = "gpu-east"
ZONE = ZoneRegistration(name="east", url="http://127.0.0.1:9")
GROUP = "openstack.podm.v1"
MEMORY = ("--resource", "cxl_memory_mib=65536")


class Here:
    """A served pod manager and its registration, for one run of one command."""

    def __init__(self, podms: Mapping[str, ServedPodm], folder: Path, number: int) -> None:
        self.podms, self.podm, self.folder = podms, podms[PODM], folder / str(number)
        self.folder.mkdir()
        self.state = Path(empty_file(self.folder).removeprefix("sqlite:///"))
        self.register(Registration(name=PODM, url=self.podm.url, zone="z"))
        self.app = App(environ={"XDG_CONFIG_HOME": str(folder)})
        self.request = request({"processor": {"total_cores": 8}})

    @property
    def engine(self) -> Engine:
        """Return a scheduler in this process, which prepares the objects of a command."""
        return self.app.engine(Selection(live=ReadOptions(state=str(self.state))))

    def register(self, registration: Registration) -> None:
        with Store(f"sqlite:///{self.state}") as store:
            store.register(registration)

    def words(self, *words: str | Path) -> tuple[str | Path, ...]:
        return ("podm", *words, "--state", self.state)

    def zone_words(self, *words: str) -> tuple[str | Path, ...]:
        return ("scheduler", "zone", *words, "--state", self.state)

    def schedule(self, *words: str) -> tuple[str | Path, ...]:
        return self.words("schedule", "--flavor", "small", *words)

    def held(self) -> str:
        """Hold blocks and return the id of the claim."""
        claim = self.engine.claim(self.request).claim
        assert claim is not None
        return claim.id

    def composed(self) -> str:
        (node,) = self.engine.compose(self.request).nodes
        return node.id

    def accelerated(self) -> str:
        """Compose a node with a GPU and return its id."""
        wanted = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU"}]}
        (node,) = self.engine.compose(request(wanted)).nodes
        return node.id

    def pooled(self) -> str:
        """Compose a node with pooled memory on another pod manager, and return its id."""
        self.register(Registration(name="mem-1", url=self.podms["mem-1"].url))
        wanted = {"processor": {"total_cores": 32}, "resources": {"cxl_memory_mib": 65536}}
        (node,) = self.engine.compose(request(wanted)).nodes
        return node.id

    def planned(self) -> Path:
        plan = self.engine.plan(self.request).plan
        assert plan is not None
        self.app.write_plan(plan, str(self.folder / "plan.json"))
        return self.folder / "plan.json"

    def expired(self) -> str:
        claim = self.engine.claim(self.request, ttl_s=0.001).claim
        assert claim is not None
        return claim.id

    def reported(self) -> str:
        self.engine.update_resource_stats("other", {})
        return "other"

    def zone(self) -> str:
        """Store a child zone and return its name."""
        with Store(f"sqlite:///{self.state}") as store:
            return store.zones.add(ZONE).registration.name

    def made(self) -> list[str]:
        """Return the claims and the nodes in the state."""
        with Store(f"sqlite:///{self.state}") as store:
            return [one.id for one in (*store.nodes.list(), *store.claims.list(("HELD",)))]

    def states(self) -> list[str]:
        with Store(f"sqlite:///{self.state}") as store:
            return [one.state for one in store.claims.list()]

    def report(self, text: str = "{}") -> Path:
        file = self.folder / "stats.json"
        file.write_text(text)
        return file


Words = tuple[str | Path, ...]
Prepared = tuple[Words, str]


class Row(NamedTuple):
    """A command line with an effect, the text that names it, and whether it prints rows."""

    prepare: Callable[[Here], Prepared]
    prints: bool = True


def _with(make: Callable[[Here], str], *words: str) -> Callable[[Here], Prepared]:
    def prepare(here: Here) -> Prepared:
        name = make(here)
        return here.words(*(word.replace("NAME", name) for word in words)), name

    return prepare


def _new(*words: str) -> Callable[[Here], Prepared]:
    """Return a command that creates a claim or a node, whose name is then found in the state."""
    return lambda here: (here.schedule(*words), "")


def _written(verb: tuple[str, ...], name: str, option: str) -> Callable[[Here], Prepared]:
    def prepare(here: Here) -> Prepared:
        file = here.folder / name
        return here.words(*verb, option, file), str(file)

    return prepare


def _dispatch(here: Here) -> Prepared:
    return (*here.schedule(), "--dispatch", f"webhook={here.hook}/x"), f"{here.hook}/x"


def _recorded(here: Here) -> Prepared:
    file, golden = here.folder / "check.yaml", here.folder / "golden.json"
    file.write_text("expectations: [{decision: {file: golden.json, flavor: small}}]")
    return ("scheduler", "check", file, "--record", "--state", here.state), str(golden)


def _reserved(here: Here) -> Prepared:
    change = RegistrationChange(reserved={"X-1": "repair"})
    here.engine.change_registration(PODM, change)
    return here.words("block", "unset", "X-1", "--podm", PODM), PODM


def _quota(verb: str, *words: str) -> Callable[[Here], Prepared]:
    def prepare(here: Here) -> Prepared:
        return ("scheduler", "quota", verb, "team-a", *words, "--state", here.state), "team-a"

    return prepare


def _sweep(here: Here) -> Prepared:
    file = str(here.folder / "sweep.csv")
    drawn = ("--rate", "1/h", "--mix", "small", "--horizon", "1d", "--jobs", "1")
    _, *words = here.words(*drawn, "-o", file)
    return ("scheduler", "whatif", "sweep", *words), file


def _tuned(here: Here) -> Prepared:
    """Tune a policy that prefers pod managers with cards, so that fewer nodes fit."""
    cards = [{"id": f"a{n}", "blocks": [cpu("c", 8), gpu("g")]} for n in range(8)]
    plain = [{"id": f"b{n}", "blocks": [cpu(f"c{m}", 8) for m in range(4)]} for n in range(3)]
    files = {name: here.folder / name for name in ("site.jsonl", "tuned.yaml")}
    files["site.jsonl"].write_text("\n".join(map(json.dumps, cards + plain)))
    names = {
        "flavors.yaml": {"flavors": [
            {"name": "cores", "properties": {"processor": {"total_cores": 8}}},
            {"name": "card", "properties": {"processor": {"total_cores": 8}, "accelerators": [{}]}},
        ]},
        "policies.yaml": {"policies": [
            {"name": "wrong", "weighers": [{"name": "scarce", "weight": 0.1}, "pack"]},
        ]},
    }  # fmt: skip
    for name, document in names.items():
        files[name] = here.folder / name
        files[name].write_text(json.dumps(document))
    return (
        *("scheduler", "policy", "tune", "--inventory", files["site.jsonl"], "--policy", "wrong"),
        *("--flavor-file", files["flavors.yaml"], "--policy-file", files["policies.yaml"]),
        *("--rate", "1/s", "--mix", "cores=1,card=1", "--horizon", "15s", "--samples", "2"),
        *("--jobs", "1", "--output", files["tuned.yaml"]),
    ), str(files["tuned.yaml"])


#: At least one row for each command with a lasting effect; all other commands are below.
ROWS: dict[str, tuple[Row, ...]] = {
    "podm_apply": (
        Row(lambda here: (here.words("apply", here.planned(), "--claim"), "")),
        Row(lambda here: (here.words("apply", here.planned(), "--compose"), "")),
    ),
    "podm_capture": (Row(_written(("capture", "--all"), "all.json", "-o")),),
    "podm_claim_compose": (Row(_with(Here.held, "claim", "compose", "NAME")),),
    "podm_claim_reap": (Row(_with(Here.expired, "claim", "reap")),),
    "podm_claim_release": (Row(_with(Here.held, "claim", "release", "NAME"), prints=False),),
    "podm_claim_renew": (Row(_with(Here.held, "claim", "renew", "NAME")),),
    "podm_create": (
        Row(lambda here: (here.words("create", "new-one", "http://127.0.0.1:9", "--no-check"),
                          "new-one")),
    ),
    "podm_delete": (Row(lambda here: (here.words("delete", PODM), PODM), prints=False),),
    "podm_inventory_convert": (Row(_written(("inventory", "convert"), "all.json", "-o")),),
    "podm_inventory_edit": (
        Row(_written(("inventory", "edit", "--drain", PODM), "edited.json", "-o")),
    ),
    "podm_node_attach": (
        Row(_with(Here.accelerated, "node", "attach", "NAME", "--gpu", "1")),
        Row(_with(Here.pooled, "node", "attach", "NAME", *MEMORY)),
    ),
    "podm_node_detach": (
        Row(_with(Here.accelerated, "node", "detach", "NAME", "--gpu", "1", "--force")),
        Row(_with(Here.pooled, "node", "detach", "NAME", *MEMORY, "--force")),
    ),
    "podm_node_resize": (
        Row(_with(Here.accelerated, "node", "resize", "NAME", "--flavor", "small", "--force")),
        Row(_with(Here.pooled, "node", "resize", "NAME", "--flavor", "memory-large", "--force")),
    ),
    "podm_node_set": (
        Row(_with(Here.composed, "node", "set", "NAME", "--shrinkable"), prints=False),
    ),
    "podm_node_unset": (
        Row(_with(Here.composed, "node", "unset", "NAME", "--shrinkable"), prints=False),
    ),
    "podm_node_delete": (Row(_with(Here.composed, "node", "delete", "NAME"), prints=False),),
    "podm_schedule": (
        Row(_new("--claim")),
        Row(_new("--compose")),
        Row(_new("--compose", "--count", "2", "-f", "value", "-c", "URI")),
        Row(_written(("schedule", "--flavor", "small"), "plan.json", "--plan")),
        Row(_dispatch),
    ),
    "podm_set": (Row(lambda here: (here.words("set", PODM, "--zone", "y"), PODM), prints=False),),
    "podm_stats_set": (
        Row(lambda here: (here.words("stats", "set", PODM, here.report()), PODM)),
    ),
    "podm_stats_unset": (
        Row(_with(Here.reported, "stats", "unset", "NAME"), prints=False),
    ),
    "scheduler_check": (Row(_recorded),),
    "scheduler_policy_tune": (Row(_tuned),),
    "scheduler_quota_set": (Row(_quota("set", "--resource", "nodes=1")),),
    "scheduler_quota_unset": (Row(_quota("unset"), prints=False),),
    "scheduler_whatif_sweep": (Row(_sweep),),
    "scheduler_zone_add": (
        Row(lambda here: (here.zone_words("add", "west", "http://127.0.0.1:9"), "west")),
    ),
    "scheduler_zone_delete": (
        Row(lambda here: (here.zone_words("delete", here.zone()), ZONE.name), prints=False),
    ),
    "scheduler_zone_set": (
        Row(lambda here: (here.zone_words("set", here.zone(), "--disable"), ZONE.name),
            prints=False),
    ),
    "podm_block_set": (
        Row(lambda here: (here.words("block", "set", "*", "--podm", PODM, "--reserve", "x"), PODM),
            prints=False),
    ),
    "podm_block_unset": (Row(_reserved, prints=False),),
    "podm_unset": (Row(lambda here: (here.words("unset", PODM, "--zone"), PODM), prints=False),),
}  # fmt: skip

#: Commands that change nothing, or nothing lasting.
READERS = {
    "podm_block_list", "podm_block_show", "podm_check", "podm_claim_list", "podm_claim_show",
    "podm_device_list", "podm_pool_list", "podm_fit", "podm_flavor_list", "podm_flavor_show",
    "podm_flavor_validate", "podm_inventory_diff", "podm_inventory_validate", "podm_list",
    "podm_node_history",
    "podm_node_list", "podm_node_show", "podm_serve", "podm_show", "podm_stats_show", "podm_watch",
    "scheduler_audit_list", "scheduler_explain", "scheduler_filter_list",
    "scheduler_policy_list", "scheduler_policy_show",
    "scheduler_policy_validate", "scheduler_quota_list", "scheduler_quota_show",
    "scheduler_weigher_list", "scheduler_whatif_drain",
    "scheduler_whatif_fail", "scheduler_whatif_need", "scheduler_whatif_rebalance",
    "scheduler_config_show", "scheduler_whatif_run", "scheduler_zone_info", "scheduler_zone_list",
    "scheduler_zone_show", "scheduler_zone_tree",
}  # fmt: skip


class TestEnumerated(unittest.TestCase):
    """All commands are enumerated."""

    def test_every_command_has_a_row_or_changes_nothing(self):
        for point in metadata.entry_points(group=GROUP):
            if not point.value.startswith("valence_sched_cli."):
                continue
            with self.subTest(point.name):
                found = (point.name in READERS, point.name in ROWS)
                self.assertIn(found, ((True, False), (False, True)), "has an effect? give it a row")

    def test_every_command_with_rows_and_an_effect_knows_its_columns_beforehand(self):
        for point in metadata.entry_points(group=GROUP):
            command = point.load()
            if point.name in ROWS and any(row.prints for row in ROWS[point.name]):
                with self.subTest(point.name):
                    self.assertTrue({"column_names", "known_columns"} & vars(command).keys())


class Effects(Case):
    """A test case with its own pod manager for each command."""

    count = 0

    @contextlib.contextmanager
    def here(self, *fail: str, source: str = SITE) -> Iterator[Here]:
        Effects.count += 1
        with served(source, fail=fail) as podms, controller() as hook:
            here = Here(podms, self.folder, Effects.count)
            here.hook = hook.url
            yield here

    @property
    def home(self) -> dict[str, str]:
        """Return an environment that names the settings of a zone with child zones."""
        file = self.folder / "valence-sched" / "zones.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text("enable_zone_routing: true")
        return {"XDG_CONFIG_HOME": str(self.folder)}

    def each(self, check: Callable[[Row, Here, Words, str], None]) -> None:
        for command, rows in ROWS.items():
            for number, row in enumerate(rows):
                with self.subTest(command, number=number), self.here() as here:
                    check(row, here, *row.prepare(here))

    def assert_audited(self, here: Here, words: Words) -> None:
        """Check that a change of the state records the user of this machine and the command."""
        elsewhere = {"capture", "convert", "edit", "check", "sweep", "tune", "--plan"}
        with Store(f"sqlite:///{here.state}") as store:
            lines = store.audit.newest(AuditQuery())
        self.assertEqual(not elsewhere & {*words}, bool(lines), words)
        for line in lines:
            self.assertEqual((pwd.getpwuid(os.getuid()).pw_name, "done"), (line.user, line.outcome))
            self.assertTrue(" ".join(map(str, words)).startswith(line.verb), line)

    def assert_named(self, here: Here, name: str, text: str) -> None:
        names = [name] if name else here.made()
        self.assertTrue(names)
        for one in names:
            self.assertIn(one, text)
        self.assertNotIn("Traceback", text)


class TestOutputs(Effects):
    """Failures of every output of every command with an effect."""

    def test_standard_output_is_full(self):
        def check(row: Row, here: Here, words: Words, name: str) -> None:
            done = run_to(OURS, FULL, None, *words, **self.home)
            self.assertEqual(7 if row.prints else 0, done.code, done)
            if row.prints:
                self.assert_named(here, name, done.err)
                self.assertRegex(done.err, "(?m)^standard output: no space left on device$")

        self.each(check)

    def test_standard_error_is_full(self):
        def check(row: Row, here: Here, words: Words, name: str) -> None:
            done = run_to(OURS, None, FULL, *words, **self.home)
            self.assertIn(done.code, (0, 7), done)
            if row.prints:
                self.assert_named(here, name, done.out)

        self.each(check)

    def test_no_stream_is_left(self):
        def check(row: Row, _here: Here, words: Words, _name: str) -> None:
            done = run_to(OURS, FULL, FULL, *words, **self.home)
            self.assertEqual(7 if row.prints else 0, done.code, done)

        self.each(check)

    def test_the_log_file_is_full_and_nothing_is_lost(self):
        def check(row: Row, here: Here, words: Words, name: str) -> None:
            done = run_to(OURS, None, None, "--log-file", FULL, *words, **self.home)
            self.assertEqual(0, done.code, done)
            if row.prints and "-c" not in words:
                self.assert_named(here, name, done.out + done.err)
            self.assert_audited(here, words)
            self.assertRegex(
                done.err, "(?m)^--log-file /dev/full: no space left on device: the log"
            )

        self.each(check)

    def test_a_log_file_that_cannot_be_opened_is_named_with_its_option(self):
        for file, found in (("/nowhere/log", "no such file or directory"), ("/", "is a directory")):
            done = run(OURS, "--log-file", file, "podm", "flavor", "list")
            self.assertEqual((1, "", f"--log-file {file}: {found}\n"), tuple(done))

    def test_a_column_that_is_none_is_refused_before(self):
        def check(row: Row, _here: Here, words: Words, _name: str) -> None:
            if row.prints and "-c" not in words:
                done = run_to(OURS, None, None, *words, "-c", "nosuch", **self.home)
                self.assertEqual((2, ""), (done.code, done.out), done)
                self.assertEqual(0, run(OURS, *words, **self.home).code)  # nothing was done

        self.each(check)


class TestStreams(Effects):
    """Closed and broken streams, and streams of a narrow encoding, in both programs."""

    def shell(self, program: str, words: tuple[str | Path, ...], rest: str, **more: str):
        line = f'{BIN / program} "$@" {rest}'
        return subprocess.run(["bash", "-c", line, "bash", *map(str, words)], cwd=ROOT,
                              env=environment(**more), capture_output=True, text=True,
                              check=False)  # fmt: skip

    def test_a_closed_stream(self):
        for program in PROGRAMS:
            for rest in (">&-", "2>&-", "| true; exit ${PIPESTATUS[0]}"):
                with self.subTest(program, rest=rest), self.here() as here:
                    done = self.shell(program, here.schedule("--compose"), rest)
                    self.assertIn(done.returncode, (0, 7), done)
                    self.assert_named(here, "", done.stdout + done.stderr)

    def test_a_closed_standard_input(self):
        """A job may start programs without standard input: they do not read it, or it is empty."""
        for program in PROGRAMS:
            with self.subTest(program):
                words = ("podm", "list", "--inventory", SITE, "-f", "value", "-c", "Podm")
                done = self.shell(program, words, "<&-")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertIn("gpu-east", done.stdout.splitlines())
        done = self.shell(OURS, ("podm", "list", "--inventory", "-"), "<&-")
        self.assertEqual(1, done.returncode)
        self.assertIn("stdin: found an empty file", done.stderr)
        done = self.shell(OURS, (), "<&-")
        self.assertEqual((2, "no command: see 'valence-sched --help'\n"),
                         (done.returncode, done.stderr))  # fmt: skip

    def test_a_reader_keeps_its_exit_code(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = run_to(program, FULL, None, "podm", "list", "--inventory", SITE)
                self.assertEqual((1, "standard output: no space left on device\n"),
                                 (done.code, done.err))  # fmt: skip
                done = run_to(program, None, FULL, "podm", "list", "--inventory", SITE)
                self.assertEqual(0, done.code)
                done = run_to(program, None, FULL, "podm", "list", "--nosuch")
                self.assertEqual(2, done.code)
        for words in (("podm",), ("complete",), ("--version",)):
            done = run_to(OURS, FULL, None, *words)
            self.assertEqual((1, "standard output: no space left on device\n"),
                             (done.code, done.err))  # fmt: skip

    def test_a_name_outside_of_the_encoding(self):
        site = Path(SITE).read_text().replace('"row-', '"rów-')
        with self.here(source=self.write("site.json", site)) as here:
            words = here.schedule("--compose", "-f", "value")
            done = self.shell(OURS, words, "", PYTHONIOENCODING="ascii")
            self.assertEqual(0, done.returncode, done)
            self.assertIn(r"r\u00f3w-", done.stdout)
            self.assert_named(here, "", done.stdout)


class TestReport(Effects):
    """The file of a decision, and its page."""

    FILES = ((OURS, "--html"), *((program, "--report") for program in PROGRAMS))

    def test_one_that_cannot_be_opened_stops_the_command_before(self):
        for program, option in self.FILES:
            for deed in ("--claim", "--compose"):
                with self.subTest(program, deed=deed, option=option), self.here() as here:
                    for file in (here.folder / "none" / "r.json", here.folder):
                        done = run(program, *here.schedule(deed, option, str(file)))
                        self.assertEqual((1, ""), (done.code, done.out), done)
                        self.assertIn(str(file), done.err)
                        self.assertEqual([], here.made())

    def test_one_that_fills_up_loses_no_rows(self):
        for program, option in self.FILES:
            for deed in ("--claim", "--compose"):
                with self.subTest(program, deed=deed, option=option), self.here() as here:
                    done = run(program, *here.schedule(deed, option, FULL, "-f", "json"))
                    self.assertEqual(7, done.code, done)
                    self.assert_named(here, "", json.dumps(done.data))
                    self.assertIn("/dev/full: found no space left on device", done.err)

    def test_one_that_is_standard_output_stands_before_the_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            out, stream = Path(folder, "out"), Path(folder, "stream")
            stream.symlink_to("/proc/self/fd/1")  # as /dev/stdout, which a program may replace
            words = ("podm", "schedule", "--inventory", SITE, "--flavor", "small", "-f", "json")
            for program, option in self.FILES:
                with self.subTest(program, option=option):
                    done = run_to(program, str(out), None, *words, option, str(stream))
                    self.assertEqual(0, done.code, done)
                    report, _, rows = out.read_text().rpartition("\n[\n")
                    self.assertTrue(report.endswith(("}", "</html>")), report[-20:])
                    self.assertEqual(1, len(json.loads(f"[{rows}")))
                    self.assertTrue(stream.is_symlink())

    def test_a_decision_that_was_made_before_is_said_to_have_none(self):
        for deed in ("--claim", "--compose"):
            with self.subTest(deed), self.here() as here:
                file, page = here.folder / "r.json", here.folder / "p.html"
                files = ("--report", str(file), "--html", str(page))
                words = here.schedule(deed, "--key", "k", *files)
                self.assertEqual(0, run(OURS, *words).code)
                for one in (file, page):
                    one.unlink()
                done = run(OURS, *words)
                self.assertEqual((0, False, False), (done.code, file.exists(), page.exists()))
                for noun in ("report", "page"):
                    line = f"no {noun}: --key k belongs to an earlier decision"
                    self.assertIn(line, done.err)

    def test_one_is_written_though_a_pod_manager_is_silent(self):
        with self.here() as here:
            here.register(Registration(name="silent", url="http://127.0.0.1:9"))
            for deed in ("--claim", "--compose"):
                file = here.folder / "r.json"
                done = run(OURS, *here.schedule(deed, "--report", str(file)))
                self.assertEqual(0, done.code, done)
                skipped = json.loads(file.read_bytes())["inventory"]["skipped"]
                self.assertRegex(skipped[0], "^silent: ")


class TestPage(Effects):
    """The page of a decision with an effect."""

    def test_it_shows_the_hardware_that_was_decided_on_and_what_became_of_it(self):
        for deed, fact in (("--claim", "HELD"), ("--compose", "1 of 1 node")):
            with self.subTest(deed), self.here() as here:
                free = run(OURS, *here.words("list", "-f", "json", "--long")).data[0]
                file = here.folder / "p.html"
                done = run(OURS, *here.schedule(deed, "--html", str(file)))
                self.assertEqual(0, done.code, done)
                text = file.read_text()
                self.assertIn(fact, text)
                self.assertIn(f"{free['Free Blocks']} of {free['Total Blocks']} usable", text)
                self.assertIn('<i class="c"', text)

    def test_one_is_written_though_a_pod_manager_is_silent(self):
        with self.here() as here:
            here.register(Registration(name="silent", url="http://127.0.0.1:9"))
            for deed in ("--claim", "--compose"):
                file = here.folder / "p.html"
                done = run(OURS, *here.schedule(deed, "--html", str(file)))
                self.assertEqual(0, done.code, done)
                self.assertEqual(1, done.err.count("not read: silent"), done.err)
                self.assertIn("not read: silent", file.read_text())


class TestSignals(Effects):
    """Signals that interrupt a command during a change."""

    def test_the_node_that_is_being_made_is_named(self):
        for program, number in (
            (OURS, signal.SIGINT), (OURS, signal.SIGTERM), (PROGRAMS[1], signal.SIGINT),
        ):  # fmt: skip
            with self.subTest(program, number=number), self.here("hang:POST:*Systems") as here:
                process = subprocess.Popen(
                    [BIN / program, *map(str, here.schedule("--compose", "--count", "3",
                                                            "--ttl", "5h"))],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                    env=environment(),
                )  # fmt: skip
                while here.states().count("COMPOSING") < 2:
                    self.assertIsNone(process.poll())
                    time.sleep(0.1)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual((7, ""), (process.returncode, out), err)
                self.assertTrue(err.removeprefix(REMARKS).startswith("interrupted\n"), err)
                with Store(f"sqlite:///{here.state}") as store:
                    claims = store.claims.list()
                self.assertEqual(3, len(claims))
                for claim in claims:
                    self.assertRegex(err, f"(?m)^claim {claim.id} is {claim.state}")
                    self.assertGreaterEqual(claim.expires_at - claim.created_at, 5 * 3600)


if __name__ == "__main__":
    unittest.main()
