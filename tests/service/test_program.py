# SPDX-License-Identifier: Apache-2.0
"""The program: its settings, and real processes that answer, die and end."""

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
import unittest
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests
from falcon import testing

from tests.service.application import EXAMPLE, SMALL, ApplicationCase
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.effect import AuditQuery
from valence_sched.model.registration import Registration
from valence_sched.server.wsgi import loopback_only
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PROGRAM = [sys.executable, "-m", "valence_sched.server.main"]
RACK = {"pools": [{"id": "z"}], "blocks": [{"uri": "/b", "type": ["Compute"], "pools": ["z"],
        "devices": {"processors": [{"cores": 16}]}}]}  # fmt: skip


class TestCheckConfig(ApplicationCase):
    def check_config(self, *words, settings=None):
        if settings is not None:
            path = self.folder / "service.yaml"
            path.write_text(settings)
            words = (*words, "--config", str(path))
        return self.run_program("check-config", "--state", self.state, *words)

    def test_settings_in_effect_are_printed(self):
        code, out, err = self.check_config("--port", "9000", settings="workers: 3\n")
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"(?s)queue_s: 10.0.*port: 9000.*workers: 3")

    def test_settings_that_the_environment_names_are_refused_by_its_name(self):
        missing = str(self.folder / "none.yaml")
        for words in (["check-config"], ["store", "check"]):
            code, _, err = self.run_program(*words, VALENCE_SCHEDULER_CONFIG=missing)
            self.assertEqual(1, code)
            self.assertRegex(err, f"^VALENCE_SCHEDULER_CONFIG: {missing}: found no such")

    def test_a_file_of_none_is_the_defaults(self):
        self.assertEqual(0, self.check_config(settings="")[0])

    def test_what_is_wrong_is_one_line(self):
        for words, settings, code, text in (
            (
                (),
                "prot: 1\n",
                1,
                r"\$: found unknown field 'prot' \(did you mean 'port'",
            ),
            ((), "port: 99999\n", 1, r"\$.port: found 99999"),
            (("--port", "99999"), None, 2, r"the command line: \$.port: found 99999"),
            (("--config", ""), None, 2, "^--config: an empty name: name a file$"),
            (("--state", ""), None, 2, "^--state: an empty name: name a file$"),
            (("--inventory", ""), None, 2, "^--inventory: an empty name: name a file$"),
            (("--host", "0.0.0.0"), None, 2, "beyond loopback without authentication"),
            ((), "auth: basic\n", 2, "without a users_file"),
            ((), "auth: basic\nusers_file: /nope\n", 1, "/nope: found no such file"),
            (("--inventory", "/nope.json"), None, 1, "/nope.json: found no such file"),
            (("--config", "/nope.yaml"), None, 1, "/nope.yaml: found no such file"),
            ((), "policy_files: [/nope.yaml]\n", 1, "/nope.yaml"),
            ((), "certificate: /a\nprivate_key: /b\n", 1, "/a: found no such file"),
        ):
            with self.subTest(text):
                found, out, err = self.check_config(*words, settings=settings)
                self.assertEqual((code, ""), (found, out))
                self.assertRegex(err, text)
                self.assertNotIn("Traceback", err)


class TestStore(ApplicationCase):
    """The commands that look after the state."""

    def setUp(self):
        super().setUp()
        self.call("POST", "/v1/podms/r/stats", {"stats": RACK})

    def run_store(self, *words):
        return self.run_program("store", *words, "--state", self.state)

    def test_a_state_is_checked_taken_down_and_up(self):
        code, out, err = self.run_store("check")
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"(?s)version (\d+) of \1\n.*podms: 1\n")
        self.assertRegex(self.run_store("downgrade", "--to", "0004")[1], "version 0004, was 0")
        code, out, _ = self.run_store("check")
        self.assertEqual(1, code)
        self.assertIn("problem: its schema is version 0004", out)
        self.assertRegex(self.run_store("upgrade")[1], "was 0004")
        self.assertEqual(0, self.run_store("check")[0])

    def test_a_copy_is_a_state_and_what_is_not_in_it_is_named(self):
        copy = self.folder / "copy.sqlite"
        (self.folder / "state.sqlite.passwords").write_text("{}")
        code, out, _ = self.run_store("backup", str(copy))
        self.assertEqual(0, code)
        self.assertIn("not in it: ", out)
        self.state = f"sqlite:///{copy}"
        self.assertEqual(0, self.run_store("check")[0])

    def audited(self):
        with Store(self.state) as store:
            return [(one.verb, one.object, one.outcome) for one in store.audit.newest(AuditQuery())]

    def test_what_cannot_be_decoded_is_shown_and_taken_out_after_a_copy(self):
        with contextlib.closing(sqlite3.connect(self.folder / "state.sqlite")) as state, state:
            state.execute("UPDATE podms SET document = 'xx'")
        code, out, _ = self.run_store("check", "--deep")
        problem = "podms r: document: JSON is malformed: invalid character (byte 0)"
        self.assertEqual((1, [f"problem: {problem}"]), (code, out.splitlines()[-1:]))
        code, out, _ = self.run_store("repair")
        self.assertEqual(
            (0, f"{problem}: forgotten until it is read again"), (code, out.splitlines()[0])
        )
        self.assertIn("1 row that cannot be decoded: --yes --backup FILE repairs the state", out)
        self.assertEqual(1, self.run_store("check", "--deep")[0])
        code, out, err = self.run_store("repair", "--yes")
        self.assertEqual((2, "", 1), (code, out, err.count("\n")))
        backup = self.folder / "before"
        self.assertEqual((0, ""), self.run_store("repair", "--yes", "--backup", str(backup))[::2])
        self.assertIn(("store repair", "rows", "done"), self.audited())
        self.assertEqual(0, self.run_store("check", "--deep")[0])
        (row,) = map(json.loads, (self.folder / "before.rows").read_text().splitlines())
        self.assertEqual(("podms", "xx"), (row["table"], row["row"]["document"]))
        self.state = f"sqlite:///{backup}"
        self.assertEqual(1, self.run_store("check")[0])

    def test_what_cannot_be_is_one_line(self):
        for words, text in (
            (("downgrade", "--to", "9"), "no version '9' to go back to"),
            (("backup", "/nope/copy"), "/nope/copy: no such file or directory"),
        ):
            code, out, err = self.run_store(*words)
            self.assertEqual(("", 1), (out, err.count("\n")), err)
            self.assertNotEqual(0, code)
            self.assertIn(text, err)


class TestProcesses(unittest.TestCase):
    """Two workers over one state."""

    def setUp(self):
        case = ApplicationCase()
        case.settings = {}
        case.setUp()
        self.addCleanup(case.doCleanups)
        self.environ = {**os.environ, **case.environ}
        self.environ.pop("VALENCE_SCHED_INVENTORY", None)
        self.state, self.folder = case.state, case.folder

    def serve(self, *words):
        log = self.folder / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*PROGRAM, "serve", "--port", "0", "--workers", "2", "--state", self.state, *words],
                env=self.environ, stderr=stream, stdout=stream, start_new_session=True,
            )  # fmt: skip
        self.addCleanup(self.stop, process)
        for _ in range(400):
            text = log.read_text()
            url = re.search(r"Listening at: (http://[\d.:]+)", text)
            if url and text.count("Booting worker") >= 2 and self.answers(url[1]):
                return process, url[1], log
            self.assertIsNone(process.poll(), text)
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def answers(self, url):
        try:
            return requests.get(f"{url}/healthcheck", timeout=20).ok
        except requests.ConnectionError:
            return False

    def stop(self, process):
        if process.poll() is None:
            process.terminate()
            process.wait(60)

    def workers(self, log):
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", log.read_text())]

    def test_workers_agree_and_one_that_is_killed_is_replaced(self):
        """S4, S60: a report reaches every process, and a death loses no answered request."""
        process, url, log = self.serve()
        report = {"stats": RACK}
        self.assertEqual(
            200, requests.post(f"{url}/v1/podms/r/stats", json=report, timeout=20).status_code
        )
        self.assertEqual({1}, self.placed(url))
        os.kill(self.workers(log)[0], signal.SIGKILL)
        answers = []
        for _ in range(400):
            try:
                answers.append(self.one_placed(url))
            except requests.ConnectionError:
                continue
            if len(self.workers(log)) == 3 and len(answers) > 20:
                break
            time.sleep(0.02)
        self.assertEqual({1}, set(answers))
        off = {"stats": {"enabled": False}}
        requests.post(f"{url}/v1/podms/r/stats", json=off, timeout=20).raise_for_status()
        self.assertEqual({0}, self.placed(url))
        text = requests.get(f"{url}/metrics", timeout=20).text
        found = re.search(r'requests_total\{[^}]*select_destinations",status="200"\} (\d+)', text)
        self.assertGreaterEqual(int(found[1]), 40)  # of all processes
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(60))
        self.assertNotIn("Traceback", log.read_text())

    def one_placed(self, url):
        answer = requests.post(f"{url}/v1/select_destinations", json=SMALL, timeout=20)
        answer.raise_for_status()
        return answer.json()["report"]["placed"]

    def placed(self, url):
        """Return how many nodes each of many decisions placed, of both processes."""
        with ThreadPoolExecutor(4) as pool:
            return set(pool.map(lambda _n: self.one_placed(url), range(20)))

    def test_when_the_worker_that_reads_is_killed_another_reads(self):
        """S60: readings go on, and every worker sees what they find."""
        store = Store(self.state)
        self.addCleanup(store.close)
        with served(EXAMPLE) as podms:
            for name in ("gpu-east", "general-1"):
                store.register(Registration(name=name, url=podms[name].url))
            settings = self.folder / "service.yaml"
            settings.write_text("reader: {interval_s: 0.5, lease_s: 3}\n")
            process, url, log = self.serve("--config", str(settings))
            first = self.reader(store)
            self.assertIn(first, self.workers(log))
            (room,) = self.rooms(url)
            claimed = requests.post(f"{url}/v1/claims", json=SMALL, timeout=20)
            self.assertEqual({room - 1}, self.rooms(url), "of each worker, before a reading")
            path = f"{url}/v1/claims/{claimed.json()['claim']['id']}"
            requests.delete(path, timeout=20).raise_for_status()
            self.assertEqual({room}, self.rooms(url))
            os.kill(first, signal.SIGKILL)
            answers = set()
            for _ in range(600):
                with contextlib.suppress(requests.ConnectionError):  # of the worker that died
                    answers.add(self.one_placed(url))
                if self.reader(store) not in (first, None):
                    break
                time.sleep(0.05)
            self.assertEqual({1}, answers)
            second = self.reader(store)
            self.assertIn(second, set(self.workers(log)) - {first})
            before = {name: len(podms[name].requests) for name in ("gpu-east", "general-1")}
            for _ in range(600):
                if all(len(podms[name].requests) > count for name, count in before.items()):
                    break
                time.sleep(0.05)
            else:
                self.fail("nothing is read")
            text = requests.get(f"{url}/metrics", timeout=20).text
            self.assertIn('podms{state="read"} 2.0', text)
            self.assertRegex(text, rf'reader{{holder="[^"]* process {second} [^"]*"}} 1.0')
            old = self.workers(log)
            process.send_signal(signal.SIGHUP)
            for _ in range(600):
                if self.reader(store) not in (*old, None):
                    break
                time.sleep(0.05)
            self.assertIn(self.reader(store), set(self.workers(log)) - {*old})
            self.assertEqual({room}, self.rooms(url))
            self.assertIn(
                'podms{state="read"} 2.0', requests.get(f"{url}/metrics", timeout=20).text
            )
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(60))
            self.assertIsNone(self.reader(store), "the lease is given up at the end")
        self.assertEqual([], re.findall(r"Traceback.{,400}", log.read_text()))

    def rooms(self, url):
        """Return how many nodes fit, as each of many answers of both processes says."""

        def room(_number):
            answer = requests.post(f"{url}/v1/fits", json=SMALL, timeout=20)
            answer.raise_for_status()
            return sum(count for _, count in answer.json()["podms"])

        with ThreadPoolExecutor(4) as pool:
            return set(pool.map(room, range(20)))

    def reader(self, store):
        """Return the process that reads."""
        holder = store.leases.holder(LEASE)
        return holder and int(re.search(r" process (\d+) ", holder)[1])

    def test_a_client_that_resets_its_connection_is_no_error(self):
        """In the midst of its answer, and before the service says that no more will come."""
        process, url, log = self.serve()
        place = urllib.parse.urlsplit(url)

        def leave(_number):
            client = socket.create_connection((place.hostname, place.port), timeout=20)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /healthcheck HTTP/1.1\r\nConnection: close\r\n\r\n")
            client.recv(1)
            client.close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(leave, range(1000)))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(60))
        self.assertNotIn("Traceback", log.read_text())

    def test_an_inventory_that_changes_is_read_again(self):
        site = self.folder / "site.json"
        site.write_bytes(Path(EXAMPLE).read_bytes())
        _, url, _ = self.serve("--inventory", str(site))
        before = requests.get(f"{url}/v1/podms", timeout=20).json()
        document = json.loads(site.read_text())
        document["podms"].pop()
        site.write_text(json.dumps(document))
        for _ in range(6):
            self.assertEqual(
                len(before) - 1, len(requests.get(f"{url}/v1/podms", timeout=20).json())
            )


class TestLoopback(unittest.TestCase):
    def answered(self, address):
        statuses = []

        def application(_environ, start_response):
            start_response("200 OK", [])
            return [b"in"]

        environ = testing.create_environ(remote_addr=address)
        chunks = loopback_only(application)(
            environ, lambda status, _headers: statuses.append(status)
        )
        return statuses[0], b"".join(chunks)

    def test_this_machine_is_answered(self):
        for address in ("127.0.0.1", "::1", "127.1.2.3"):
            self.assertEqual(("200 OK", b"in"), self.answered(address))

    def test_others_and_who_has_no_address_are_refused(self):
        for address in ("10.0.0.1", "", "::2", "example.org"):
            with self.subTest(address):
                status, body = self.answered(address)
                self.assertEqual("403 Forbidden", status)
                self.assertIn(b'"code":"access_denied"', body)
