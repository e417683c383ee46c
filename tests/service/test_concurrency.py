# SPDX-License-Identifier: Apache-2.0
"""Concurrent requests: each gets a complete answer, and nothing is held twice."""

import json
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.service.application import EXAMPLE, SMALL, ApplicationCase, LivePodmsCase
from valence_sched.inventory.background_reader import LEASE
from valence_sched.store.store import Store

ROOT = Path(__file__).parents[2]
THREADS = 8


class TestDeciding(ApplicationCase):
    def test_threads_get_what_one_gets(self):
        bodies = [{"request": {**SMALL["request"], "seed": seed}} for seed in range(10)]
        alone = [self.call("POST", "/v1/select_destinations", body).json for body in bodies]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(
                pool.map(lambda body: self.call("POST", "/v1/select_destinations", body).json,
                         bodies * 8)
            )  # fmt: skip
        self.assertEqual(alone * 8, found)


class TestClaiming(LivePodmsCase):
    """Claims on live pod managers."""

    names = ("gpu-east", "general-1")

    def test_clients_claim_exactly_the_room_between_them(self):
        """S26, S27: no block has two claims, and no node that fits is left."""
        fits = sum(count for _, count in self.call("POST", "/v1/fits", SMALL).json["podms"])

        def claim_all(_number):
            mine = []
            while len(mine) <= fits:
                result = self.call("POST", "/v1/claims", SMALL)
                if result.status_code == 409:  # lost every race: try again
                    continue
                self.assertIn(result.status_code, (200, 201), result.text)
                if result.json["claim"] is None:
                    return mine
                mine.append(result.json["claim"])
            return mine

        with ThreadPoolExecutor(THREADS) as pool:
            claims = [claim for mine in pool.map(claim_all, range(THREADS)) for claim in mine]
        held = Counter(
            (part["podm"], uri)
            for claim in claims
            for part in claim["parts"]
            for share in part["shares"]
            for uri in share.get("blocks", ())
        )
        self.assertEqual(fits, len(claims))
        self.assertEqual({1}, set(held.values()))
        listed = self.call("GET", "/v1/claims").json
        self.assertEqual({one["id"] for one in claims}, {one["id"] for one in listed})

    def test_clients_keep_the_rules_of_a_group_between_them(self):
        group = {"name": "web", "anti_affinity": ["podm"]}

        def claim(seed):
            body = {"request": {**SMALL["request"], "group": group, "seed": seed}}
            return self.call("POST", "/v1/claims", body).json["claim"]

        with ThreadPoolExecutor(THREADS) as pool:
            claims = [one for one in pool.map(claim, range(THREADS)) if one is not None]
        podms = [part["podm"] for claim in claims for part in claim["parts"]]
        self.assertEqual(sorted(self.names), sorted(podms))

    def test_one_key_from_many_clients_is_one_claim(self):
        key = {"Idempotency-Key": "k"}
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(lambda _n: self.call("POST", "/v1/claims", SMALL, headers=key),
                                    range(THREADS)))  # fmt: skip
        self.assertEqual({201}, {result.status_code for result in results})
        self.assertEqual(1, len({result.json["claim"]["id"] for result in results}))


class TestOtherServers(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_program(self, program, settings=""):
        """Run a program with this settings file, or without one."""
        environ = {"XDG_CONFIG_HOME": self.folder, "XDG_STATE_HOME": self.folder}
        if settings:
            path = Path(self.folder, "service.yaml")
            path.write_text(settings)
            environ["VALENCE_SCHEDULER_CONFIG"] = str(path)
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              check=False, env=environ, cwd=ROOT)  # fmt: skip

    def test_a_process_reads_from_its_first_request_until_its_end(self):
        program = (
            "import os, time\n"
            "from falcon import testing\n"
            "from valence_sched.server import wsgi\n"
            "from valence_sched.inventory.background_reader import LEASE\n"
            "if os.fork():\n"
            "    os._exit(os.wait()[1] != 0)\n"
            "testing.TestClient(wsgi.application).simulate_get('/healthcheck')\n"
            "leases = wsgi._process._state.store().leases\n"
            "until = time.monotonic() + 30\n"
            "while not leases.holder(LEASE) and time.monotonic() < until:\n"
            "    time.sleep(0.02)\n"
            "print(f' {os.getpid()} ' in leases.holder(LEASE), flush=True)\n"
        )
        ran = self.run_program(program, f"state: {self.folder}/state.sqlite\n")
        self.assertEqual((0, "True\n"), (ran.returncode, ran.stdout), ran.stderr)
        with Store(f"sqlite:///{self.folder}/state.sqlite") as store:
            self.assertIsNone(store.leases.holder(LEASE))

    def test_the_application_is_importable_for_another_server(self):
        """The application uses the settings file of a variable, in a separate process."""
        program = (
            "from falcon import testing\n"
            "from valence_sched.server.wsgi import application\n"
            "client = testing.TestClient(application)\n"
            "print(client.simulate_get('/v1/podms', remote_addr='::1').status_code)\n"
        )
        state = f"{self.folder}/state.sqlite"
        ran = self.run_program(program, f"inventories: [{EXAMPLE}]\nstate: {state}\n")
        self.assertEqual("200\n", ran.stdout, ran.stderr)
        (line,) = map(json.loads, ran.stderr.splitlines())
        self.assertEqual(("/v1/podms", 200), (line["path"], line["status"]))

    def test_without_a_settings_file_it_says_so(self):
        program = (
            "from falcon import testing\n"
            "from valence_sched.server.wsgi import application\n"
            "for _ in range(2):\n"
            "    testing.TestClient(application).simulate_get('/v1', remote_addr='::1')\n"
        )
        ran = self.run_program(program)
        self.assertEqual(0, ran.returncode, ran.stderr)
        line, *others = map(json.loads, ran.stderr.splitlines())
        self.assertEqual((2, "warning"), (len(others), line["level"]))
        self.assertIn("VALENCE_SCHEDULER_CONFIG is not set", line["message"])


#: Prints the nouns of a body that msgspec builds at their decoding, before and after.
PROGRAM = """
import contextlib, json, sys
import msgspec
from valence_sched.server.wiring import prepare_process
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.routes import ROUTES

def built(kind):
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.json.decode(b"null", type=kind)
    sys.setprofile(None)
    return "get_class_annotations" in seen

bodies = [route.body for route in ROUTES if route.body]
before = built(bodies[0])
prepare_process()
print(json.dumps([before, [str(kind) for kind in bodies if built(kind)]]))
"""


class TestPreparation(unittest.TestCase):
    def test_no_thread_is_the_first_to_decode_a_body(self):
        """Two threads that decode a noun first at the same time crash the process."""
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                              check=False, cwd=ROOT)  # fmt: skip
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([True, []], json.loads(done.stdout))
