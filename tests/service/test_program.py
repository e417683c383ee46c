# SPDX-License-Identifier: Apache-2.0
"""The program: its settings, and real processes that answer, die and end."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.service.application import EXAMPLE, SMALL, ApplicationCase
from valence_sched.server import main

PROGRAM = [sys.executable, "-m", "valence_sched.server.main"]
RACK = {"pools": [{"id": "z"}], "blocks": [{"uri": "/b", "type": ["Compute"], "pools": ["z"],
        "devices": {"processors": [{"cores": 16}]}}]}  # fmt: skip


class TestCheckConfig(ApplicationCase):
    def run_program(self, *words, settings=None):
        if settings is not None:
            path = self.folder / "service.yaml"
            path.write_text(settings)
            words = (*words, "--config", str(path))
        out, err = io.StringIO(), io.StringIO()
        arguments = main.parser().parse_args(["check-config", "--state", self.state, *words])
        return main.run(arguments, self.environ, out, err), out.getvalue(), err.getvalue()

    def test_settings_in_effect_are_printed(self):
        code, out, err = self.run_program("--port", "9000", settings="workers: 3\n")
        self.assertEqual((0, ""), (code, err))
        self.assertRegex(out, r"(?s)queue_s: 10.0.*port: 9000.*workers: 3")

    def test_a_file_of_none_is_the_defaults(self):
        self.assertEqual(0, self.run_program(settings="")[0])

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
            (("--host", "0.0.0.0"), None, 2, "beyond loopback without authentication"),
            ((), "auth: basic\n", 2, "without a users_file"),
            ((), "auth: basic\nusers_file: /nope\n", 1, "/nope: found no such file"),
            (("--inventory", "/nope.json"), None, 1, "/nope.json: found no such file"),
            (("--config", "/nope.yaml"), None, 1, "/nope.yaml: found no such file"),
            ((), "policy_files: [/nope.yaml]\n", 1, "/nope.yaml"),
            ((), "certificate: /a\nprivate_key: /b\n", 1, "/a: found no such file"),
        ):
            with self.subTest(text):
                found, out, err = self.run_program(*words, settings=settings)
                self.assertEqual((code, ""), (found, out))
                self.assertRegex(err, text)
                self.assertNotIn("Traceback", err)


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
