# SPDX-License-Identifier: Apache-2.0
"""Live pod managers in both programs: read, stored, and reported if they do not answer."""

import contextlib
import datetime
import json
import signal
import socket
import sqlite3
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.functional import through
from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, Case, Done, environment, run
from tests.unit.simulator import site
from valence_sched.simulator.server.faults import faults_of
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import ServedPodm, served

RACK = "rack-mockup"
TREE = str(ROOT / "tests" / "recorded" / RACK)
SMALL = ("--flavor", "small")
RFC_3339 = r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"


class Live(Case):
    """A test case with served pod managers and its own state."""

    def setUp(self):
        self.state = self.folder / f"{self.id().rpartition('.')[2][:60]}.sqlite"
        through.write_key(self.state)
        self.held_ports = contextlib.ExitStack()
        self.addCleanup(self.held_ports.close)

    def serve(self, *sources: str, **options) -> dict[str, ServedPodm]:
        self.held_ports.close()
        default = () if "documents" in options else (SITE,)
        manager = served(*(sources or default), **options)
        found = manager.__enter__()
        self.ports = [urlsplit(one.url).port for one in found.values()]
        self.close = lambda: manager.__exit__(None, None, None)
        self.addCleanup(lambda: self.close and self.close())
        return found

    def stop(self) -> None:
        """Stop all servers; their ports refuse connections and are not reused by other tests."""
        self.close()
        self.close = None
        for port in self.ports:
            held = self.held_ports.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of ended connections
            held.bind(("127.0.0.1", port))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)

    def podm(self, *words, program="valence-sched", code=0, **more) -> Done:
        done = run(program, "podm", *words, VALENCE_SCHED_STATE=str(self.state), **more)
        self.assertEqual(code, done.code, done)
        self.assertNotIn("Traceback", done.err)
        return done

    def register(self, found: dict[str, ServedPodm]) -> None:
        for name, one in found.items():
            self.podm("create", name, one.url)

    def file(self, found: dict[str, str], **more) -> str:
        podms = {name: {"url": url, **more} for name, url in found.items()}
        return self.write("podms.yaml", yaml.safe_dump({"podms": podms}))

    def urls(self, found: dict[str, ServedPodm]) -> dict[str, str]:
        return {name: one.url for name, one in found.items()}


class TestMostBlocks(Live):
    """The largest number of compute blocks of a node."""

    def test_the_operator_says_so_where_the_pod_manager_tells_no_limit(self):
        documents = site.documents()
        del documents[site.SYSTEMS]["@Redfish.CollectionCapabilities"]
        (podm,) = self.serve(documents={"p": documents}, fail=["no-expand"]).values()
        self.register({"p": podm})
        both = self.write("both.json", json.dumps({"name": "both", "properties": {
            "processor": {"total_cores": 24}}}))  # fmt: skip
        schedule = ("schedule", "--flavor", both, "--compose", "-f", "json")
        self.podm(*schedule, code=3)
        self.podm("set", "p", "--max-blocks", "2")
        self.podm(*schedule)
        self.podm("unset", "p", "--max-blocks")
        shown = self.podm("show", "p", "-f", "json")  # now a system of two blocks exists
        self.assertIn("at most 2 per node", self.podm("list", "-vv").err + shown.err)

    def test_a_stricter_limit_of_the_pod_manager_holds_and_that_is_said(self):
        (podm,) = self.serve(documents={"p": site.documents()}).values()
        file = self.file({"p": podm.url}, max_blocks=2)
        shown = self.podm("show", "p", "--podm-file", file, "-f", "json")
        self.assertEqual({"Compute": 2, "ComputerSystem": 2}, shown.data["Max Blocks"])
        self.assertIn("found a limit of 1 Compute block in a node, expected 2", shown.err)


class TestReading(Live):
    """Registered pod managers are read if no inventory is given."""

    def test_what_is_live_is_listed_and_scheduled_as_its_recording_is(self):
        file = self.file(self.urls(self.serve()))
        words = ("schedule", "--flavor", "gpu-large", "--podm", "gpu-east", "-f", "json")
        recorded = self.podm(*words, "--inventory", SITE).data[0]
        for program in PROGRAMS:
            live = self.podm(*words, "--podm-file", file, program=program).data[0]
            for column in ("Podm", "Pool", "Score", "Blocks"):
                self.assertEqual(recorded[column], live[column])

    def test_registered_ones_are_read_without_an_option_by_every_command(self):
        found = self.serve(TREE)
        self.register(found)
        (row,) = self.podm("list", "--long", "-f", "json").data
        told = (row["Podm"], row["Status"], row["Total Blocks"])
        self.assertEqual((RACK, "Online", 2), told)
        self.assertRegex(row["Read At"], RFC_3339)
        self.assertEqual(2, self.podm("show", RACK, "-f", "json").data["Total Blocks"])
        self.assertEqual(RACK, self.podm("schedule", *SMALL, "-f", "json").data[0]["Podm"])
        self.assertTrue(self.podm("fit", *SMALL, "-f", "json").data)
        output = str(self.folder / "live.json")
        self.podm("inventory", "convert", "-o", output)
        kept = self.podm("list", "--long", "--inventory", output, "-f", "json").data
        self.assertEqual(2, kept[0]["Total Blocks"])
        self.assertEqual(0, found[RACK].open_sessions)

    def test_what_the_operator_says_stands_in_the_inventory(self):
        url = self.serve(TREE)[RACK].url
        self.podm("create", RACK, url, "--zone", "east", "--aggregate", "gold", "--location", "r7",
                  "--capability", "fabric=pcie")  # fmt: skip
        (row,) = self.podm("list", "--long", "--capabilities", "-f", "json").data
        self.assertEqual(("east", ["gold"]), (row["Zone"], row["Aggregates"]))
        self.assertEqual("r7", row["Facts"]["location"])
        self.assertEqual(["pcie"], row["Capabilities"]["fabric"])
        words = (*SMALL, "--zone", "west")
        self.podm("schedule", *words, code=3)

    def test_a_podm_file_adds_to_an_inventory_and_takes_the_place_of_the_registry(self):
        found = self.serve(TREE)
        self.podm("create", "other", "http://127.0.0.1:9", "--no-check")
        file = self.file(self.urls(found))
        alone = self.podm("list", "--podm-file", file, "-f", "json")
        self.assertEqual(
            ([RACK], True), ([row["Podm"] for row in alone.data], "skipped" in alone.err)
        )
        beside = self.podm("list", "--podm-file", file, "--inventory", SITE, "-f", "json").data
        self.assertEqual(9, len(beside))
        both = self.podm("list", "--podm-file", file, "--state", str(self.state),
                         "--request-timeout", "2", "-f", "json").data  # fmt: skip
        self.assertEqual(["other", RACK], [row["Podm"] for row in both])

    def test_one_id_twice_is_refused(self):
        found = self.serve(TREE)
        file = self.file(self.urls(found))
        self.register(found)
        line = self.podm("list", "--podm-file", file, "--state", str(self.state), code=1).err
        self.assertIn(f"{RACK!r} again, first in {self.state}", line)
        inventory = self.write("same.json", json.dumps({"id": RACK, "blocks": []}))
        line = self.podm("list", "--podm-file", file, "--inventory", inventory, code=1).err
        self.assertIn(f"{RACK!r} again, first in", line)

    def test_a_persons_own_file_is_read_beside_what_is_registered(self):
        found = self.serve(TREE)
        text = yaml.safe_dump({"podms": {"mine": {"url": found[RACK].url}}})
        self.write("valence-sched/podms.yaml", text)
        self.podm("create", "other", "http://127.0.0.1:9", "--no-check")
        rows = self.podm(
            "list", "--request-timeout", "2", "-f", "json", XDG_CONFIG_HOME=str(self.folder)
        )
        self.assertEqual(["other", "mine"], [row["Podm"] for row in rows.data])

    def test_with_a_podm_file_alone_nothing_is_written(self):
        file = self.file(self.urls(self.serve(TREE)))
        home = self.folder / "empty-home"
        done = run("valence-sched", "podm", "list", "--podm-file", file, HOME=str(home),
                   XDG_STATE_HOME=str(home / "s"), XDG_CACHE_HOME=str(home / "c"))  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        self.assertFalse(home.exists())

    def test_a_file_in_another_folder_finds_its_password_and_certificates_beside_it(self):
        self.write("deep/word", "x\n")
        (self.folder / "deep" / "word").chmod(0o644)
        text = "podms: {a: {url: 'http://127.0.0.1:9', username: u, password: {file: word}}}"
        done = self.podm(
            "list", "--podm-file", self.write("deep/p.yaml", text), "--request-timeout", "2"
        )
        self.assertIn(f"{self.folder}/deep/word: other users can read", done.err)

    def test_the_generation_moves_only_when_the_content_does(self):
        found = self.serve(TREE)
        self.register(found)
        for _ in range(2):
            self.assertEqual(1, self.podm("show", RACK, "-f", "json").data["Generation"])
        documents = found[RACK].documents
        uri = "/redfish/v1/CompositionService/ResourceBlocks/jbod"
        block = dict(documents.get(uri))
        block["CompositionStatus"] = {"CompositionState": "Composed"}
        documents.put(uri, block)
        self.assertEqual(2, self.podm("show", RACK, "-f", "json").data["Generation"])


class TestSilent(Live):
    """A pod manager that does not answer does not affect the others."""

    def test_the_others_are_scheduled_and_it_is_named(self):
        found = self.serve()
        file = self.file(self.urls(found) | {"gone": "http://127.0.0.1:9"})
        for program in PROGRAMS:
            report = str(self.folder / "report.json")
            done = self.podm("schedule", "--flavor", "gpu-large", "--podm-file", file, "--report",
                             report, "-f", "json", program=program)  # fmt: skip
            self.assertNotEqual("gone", done.data[0]["Podm"])
            (line,) = [line for line in done.err.splitlines() if line.startswith("not read: ")]
            self.assertRegex(line, "^not read: gone: http://127.0.0.1:9: ")
            told = json.loads(Path(report).read_bytes())["inventory"]["skipped"]
            self.assertEqual([line.removeprefix("not read: ")], told)
            strict = self.podm("schedule", "--flavor", "gpu-large", "--podm-file", file, "--strict",
                               code=5, program=program)  # fmt: skip
            self.assertRegex(
                strict.err, r"(?m)^incomplete inventory: gone: http://127.0.0.1:9: .*\n\Z"
            )
            self.assertEqual("", strict.out)

    def test_what_was_known_last_stands_in_and_is_not_chosen(self):
        found = self.serve(TREE)
        self.register(found)
        self.podm("list")
        self.podm("set", RACK, "--zone", "moved")
        self.stop()
        (row,) = self.podm("list", "--long", "--request-timeout", "2", "-f", "json").data
        told = (row["Status"], row["Total Blocks"], row["Zone"])
        self.assertEqual(("Offline", 2, "moved"), told)
        self.assertRegex(row["Read At"], RFC_3339)
        done = self.podm("schedule", *SMALL, "--request-timeout", "2", "-f", "json", code=5)
        self.assertRegex(done.err, f"no pod manager could be read: {RACK}: .*refused")

    def test_an_error_near_the_root_is_an_outage_and_no_empty_pod_manager(self):
        found = self.serve()
        self.register(found)
        self.podm("list")
        names = sorted(found)
        faults = faults_of([f"status:500:{site.SERVICE}"], names)
        big = json.dumps({"name": "big", "properties": {"processor": {"total_cores": 10**6}}})
        huge = self.write("big.json", big)
        found[names[0]].app.podm.faults = faults[names[0]]
        done = self.podm("schedule", *SMALL, "-f", "json")
        self.assertNotEqual(names[0], done.data[0]["Podm"])
        line = f"not read: {names[0]}: .*{site.SERVICE}: found HTTP 500, .*; last read [0-9]+s ago"
        self.assertRegex(done.err, line)
        self.assertRegex(self.podm("schedule", "--flavor", huge, code=3).err, line)
        for flavor in (SMALL, ("--flavor", huge)):
            self.podm("schedule", *flavor, "--strict", code=5)
        for name in names:
            found[name].app.podm.faults = faults[name]
        self.podm("schedule", *SMALL, code=5)
        rows = self.podm("list", "--long", "-f", "json").data
        self.assertEqual({"Offline"}, {row["Status"] for row in rows})
        self.assertTrue(all(row["Total Blocks"] and row["Read At"] is not None for row in rows))

    def test_a_service_that_answers_every_request_alike_is_not_registered(self):
        (one,) = self.serve(TREE, fail=["body:object:*"]).values()
        done = self.podm("create", "alike", one.url, code=1)
        self.assertRegex(
            done.err, "alike is not registered: .*/redfish/v1: found a document without type"
        )
        self.podm("list", code=2)

    def test_what_is_slow_or_cut_half_way_keeps_the_last_reading_and_its_age(self):
        found = self.serve(TREE)
        self.register(found)
        self.podm("list")
        port = urlsplit(found[RACK].url).port
        for rule in ("delay:3000:*/Processors/*", "cut-after:4"):
            with self.subTest(rule):
                self.stop()
                self.serve(TREE, fail=[rule, "no-expand"], port=port)
                (row,) = self.podm(
                    "list", "--long", "--full", "--request-timeout", "2", "-f", "json"
                ).data
                self.assertEqual(("Offline", 2), (row["Status"], row["Total Blocks"]))
                words = ("--full", "--request-timeout", "2", "--max-age", "0s")
                words += ("--policy", "chance")
                done = self.podm("schedule", *SMALL, *words, code=5)
                self.assertIn(RACK, done.err)
        self.stop()
        self.serve(TREE, port=port)
        (row,) = self.podm("list", "--long", "-f", "json").data
        self.assertEqual(("Online", 2), (row["Status"], row["Total Blocks"]))

    def test_a_pod_manager_that_was_never_read_has_unknown_amounts_which_are_not_zero(self):
        self.podm("create", "gone", "http://127.0.0.1:9", "--no-check")
        (row,) = self.podm("list", "--long", "--request-timeout", "2", "-f", "json").data
        self.assertEqual("Offline", row["Status"])
        titles = [name for name in row if name.startswith(("Free", "Total"))]
        self.assertGreater(len(titles), 10)
        unknown = {name: row[name] for name in ("Read At", "Nodes", "Pools", *titles)}
        self.assertEqual(dict.fromkeys(unknown), unknown)

    def test_a_password_that_is_not_there_leaves_out_that_one_alone(self):
        found = self.serve(TREE)
        text = {
            "podms": {
                "locked": {"url": found[RACK].url, "username": "u", "password": {"env": "NOT_SET"}},
                RACK: {"url": found[RACK].url},
            }
        }
        file = self.write("podms.yaml", yaml.safe_dump(text))
        done = self.podm("list", "--podm-file", file, "-f", "json")
        self.assertEqual(["Unknown", "Online"], [row["Status"] for row in done.data])
        self.assertIn("not read: locked: environment variable NOT_SET of its password is not set",
                      done.err)  # fmt: skip

    def test_two_names_for_one_address_hand_out_what_is_there_once(self):
        url = self.serve(TREE)[RACK].url
        file = self.file({"a": url, "b": url.removesuffix("/redfish/v1")})
        done = self.podm("list", "--long", "--podm-file", file, "-f", "json")
        found = {row["Podm"]: (row["Status"], row["Total Blocks"]) for row in done.data}
        self.assertEqual({"a": ("Online", 2), "b": ("Unknown", None)}, found)
        self.assertIn(
            f"not read: b: {url.removesuffix('/redfish/v1')}: is already read as 'a'", done.err
        )
        self.podm("list", "--podm-file", file, "--strict", code=5)

    def test_what_is_doubtful_of_a_live_one_is_told_by_showing_it(self):
        rules = ["omit:CompositionService"]
        urls = self.urls(self.serve(fail=rules))
        file = self.file(urls)
        done = self.podm("list", "--podm-file", file)
        self.assertRegex(done.err, r"\d remarks on the inventory: see podm show <podm>\n")
        for number, option in enumerate(("--output", "--tree")):
            where = self.folder / f"captured-{number}.json"
            done = self.podm("capture", "--podm-file", file, option, str(where))
            self.assertRegex(done.err, r"\d remarks on the inventory: see podm show <podm>\n")
        done = self.podm("create", "gpu-east", urls["gpu-east"])
        self.assertRegex(done.err, r"\d remarks on the inventory: see podm show <podm>\n")
        done = self.podm("check", "--all")
        self.assertRegex(done.err, r"\d remarks on the inventory: see podm show <podm>\n")
        done = self.podm("show", "gpu-east", "--podm-file", file)
        self.assertRegex(done.err, r"(?m)^remark: gpu-east: ")
        self.assertNotIn("on the inventory", done.err)

    def test_a_state_that_cannot_be_written_does_not_sink_the_reading(self):
        found = self.serve(TREE)
        self.register(found)
        self.podm("list")
        with sqlite3.connect(self.state) as connection:
            connection.execute("UPDATE podms SET read_at = '2026-01-05T06:00:00Z'")
            connection.execute("CREATE TRIGGER full BEFORE UPDATE ON podms "
                               "BEGIN SELECT RAISE(ABORT, 'no room'); END")  # fmt: skip
        done = self.podm("list", "-f", "json")
        self.assertEqual("Online", done.data[0]["Status"])
        self.assertIn("remark: reading not stored: ", done.err)

    def test_a_signal_ends_it_quickly_as_a_shell_says_it_and_no_session_is_left(self):
        settings = SimulatorSettings(login=Account("op", "word"))
        usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores the signal
        self.addCleanup(signal.signal, signal.SIGHUP, usual)
        for program, number, code in (
            ("valence-sched", signal.SIGINT, 130),
            ("valence-sched", signal.SIGTERM, 143),
            ("valence-sched", signal.SIGHUP, 129),
            ("openstack", signal.SIGTERM, 143),
        ):
            with self.subTest(program, number=number):
                hang = ["hang:/redfish/v1/CompositionService*"]
                found = self.serve(TREE, fail=hang, settings=settings)
                file = self.file(self.urls(found), username="op", password={"env": "WORD"})
                process = subprocess.Popen(
                    [str(BIN / program), "podm", "list", "--podm-file", file,
                     "--request-timeout", "60"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
                    env=environment(WORD="word"),
                )  # fmt: skip
                traffic = found[RACK].traffic
                while not (found[RACK].open_sessions and traffic.at_once and traffic.requests > 2):
                    threading.Event().wait(0.02)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
                self.assertEqual((code, b"", b""), (process.returncode, out, err))
                self.assertEqual(0, found[RACK].open_sessions)


class TestAges(Live):
    """Readings that are too old are not used for decisions."""

    def stale(self, *words) -> str:
        done = self.podm(*words, code=5)
        self.assertEqual("", done.out)
        (line,) = done.err.splitlines()
        return line

    def test_an_inventory_older_than_allowed_exits_5_and_is_named_with_its_age(self):
        for words in (("list",), ("schedule", *SMALL), ("fit", *SMALL), ("show", "mem-1"),
                      ("inventory", "convert", "-o", str(self.folder / "x.json"))):  # fmt: skip
            line = self.stale(*words, "--inventory", SITE, "--max-age", "10m")
            self.assertRegex(
                line, r"^pod manager 'gpu-east': read \d+d ago, the maximum age is 10m$"
            )

    def warned(self, *words, **more) -> str:
        more = {"VALENCE_SCHED_WARN_AGE": ""} | more  # as without a setting
        return "".join(line for line in self.podm(*words, **more).err.splitlines(keepends=True)
                       if line.startswith("warning: "))  # fmt: skip

    def test_an_inventory_older_than_a_day_is_a_warning_with_its_age(self):
        for words in (("list",), ("show", "mem-1"), ("fit", *SMALL), ("block", "list"),
                      ("schedule", *SMALL), ("pool", "list"), ("device", "list")):  # fmt: skip
            with self.subTest(words[0]):
                line = self.warned(*words, "--inventory", SITE)
                self.assertRegex(line, r"^warning: 8 pod managers were read over 24h ago, dark-1 "
                                 r"\d+d ago: read them again \(--warn-age\)\n$")  # fmt: skip

    def test_the_age_that_is_warned_of_is_an_option_and_a_variable(self):
        now = datetime.datetime.now(datetime.UTC)
        ages = {"new": 1, "old": 30, "older": 80}
        podms = [{"id": name, "blocks": [],
                  "read_at": (now - datetime.timedelta(hours=hours)).isoformat()}
                 for name, hours in ages.items()]  # fmt: skip
        podms.append({"id": "unknown", "blocks": []})
        lines = "".join(json.dumps(podm) + "\n" for podm in podms)
        words = ("list", "--inventory", self.write("ages.jsonl", lines))
        two = "warning: 2 pod managers were read over 24h ago, older 3d ago: read them again"
        self.assertEqual(f"{two} (--warn-age)\n", self.warned(*words))
        one = "warning: older was read 3d ago: read it again (--warn-age)\n"
        self.assertEqual(one, self.warned(*words, "--warn-age", "2d"))
        self.assertEqual(one, self.warned(*words, VALENCE_SCHED_WARN_AGE="2d"))
        never = {"VALENCE_SCHED_WARN_AGE": "never"}
        self.assertEqual(one, self.warned(*words, "--warn-age", "2d", **never))
        for off in (("--warn-age", "0"), ("--warn-age", "never"), ("-q",)):
            self.assertEqual("", self.warned(*words, *off))
        self.assertEqual("", self.warned(*words, **never))
        bad = self.podm(*words, VALENCE_SCHED_WARN_AGE="soon", code=2).err
        self.assertRegex(bad, "^VALENCE_SCHED_WARN_AGE: must be never or an age such as")
        self.podm(*words, "--warn-age", "soon", code=2)

    def test_what_was_known_last_of_a_silent_one_is_warned_of_when_it_is_old(self):
        found = self.serve(TREE)
        self.register(found)
        words = ("list", "--request-timeout", "2", "--warn-age", "1h")
        self.assertEqual("", self.warned(*words))
        self.stop()
        self.assertEqual("", self.warned(*words))
        with sqlite3.connect(self.state) as state:
            state.execute("UPDATE podms SET read_at = '2026-01-05T06:00:00Z'")
        done = self.podm(*words)
        self.assertRegex(done.err, f"(?m)^warning: {RACK} was read [0-9]+d ago: read it", done)

    def test_an_age_that_nobody_knows_is_too_old(self):
        line = self.stale("list", "--inventory", TREE, "--max-age", "9999d")
        self.assertEqual(f"pod manager {RACK!r}: read at an unknown time, the maximum age is "
                         "9999d", line)  # fmt: skip

    def test_a_reading_of_the_future_is_told_as_one(self):
        podm = {"id": "a", "read_at": "2999-01-05T06:00:00Z", "blocks": []}
        file = self.write("future.jsonl", json.dumps(podm))
        self.assertEqual("pod manager 'a': read at 2999-01-05T06:00:00Z, which is in the future "
                         "(compare the clocks), the maximum age is 24h",
                         self.stale("list", "--inventory", file, "--max-age", "1d"))  # fmt: skip

    def test_the_file_tells_the_age_where_a_pod_manager_does_not(self):
        for name, lines in (
            ("a.jsonl", ['{"schema":"valence-sched/inventory","captured_at":"%s"}',
                         '{"id":"a","blocks":[]}']),
            ("a.json", ['{"schema":"valence-sched/inventory","captured_at":"%s",',
                        '"podms":[{"id":"a","blocks":[]}]}']),
        ):  # fmt: skip
            with self.subTest(name):
                file = self.write(name, "\n".join(lines) % "2020-01-05T06:00:00Z")
                line = self.stale("list", "--inventory", file, "--max-age", "1d")
                self.assertRegex(line, r"'a': read \d+d ago")
                self.podm("list", "--inventory", file, "--max-age", "99999d")
                shown = self.podm("show", "a", "--inventory", file, "-f", "json").data
                self.assertEqual("2020-01-05T06:00:00Z", shown["Read At"])

    def test_what_was_just_read_is_young_and_what_is_silent_hands_nothing_out(self):
        found = self.serve(TREE)
        self.register(found)
        self.podm("schedule", *SMALL, "--max-age", "30s")
        self.stop()
        words = ("--request-timeout", "2", "--max-age", "0", "--policy", "chance")
        self.podm("schedule", *SMALL, *words, code=5)
        chance = ("--request-timeout", "2", "--policy", "chance")
        self.podm("schedule", *SMALL, *chance, code=5)

    def test_stale_lists_what_is_old_and_driver_what_a_driver_read(self):
        file = self.file(self.urls(self.serve(TREE)))
        words = ("list", "--podm-file", file, "--inventory", SITE, "-f", "json")
        every = self.podm(*words, "--long").data
        stale = self.podm(*words, "--stale").data
        self.assertEqual(8, len(stale))
        self.assertNotIn(RACK, [row["Podm"] for row in stale])
        self.assertEqual([], self.podm(*words, "--stale", "--max-age", "99999d").data)
        drivers = {row["Driver"] for row in every}
        self.assertIn("redfish", drivers)
        for driver in drivers - {None}:
            rows = self.podm(*words, "--driver", driver).data
            self.assertEqual([row["Podm"] for row in every if row["Driver"] == driver],
                             [row["Podm"] for row in rows])  # fmt: skip

    def test_an_age_or_timeout_that_is_none_is_a_matter_of_usage(self):
        for words in (("--max-age", "soon"), ("--max-age", "-1"), ("--request-timeout", "0"),
                      ("--request-timeout", "nan"), ("--request-timeout", "x")):  # fmt: skip
            with self.subTest(words=words):
                self.podm("list", "--inventory", SITE, *words, code=2)
