# SPDX-License-Identifier: Apache-2.0
"""Processes of the service answer, die, restart and end: answered requests stay valid."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.functional.programs import SITE
from tests.service.application import EXAMPLE, RACK, SMALL, ApplicationCase
from tests.service.serving import wait_for
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PROGRAM = [sys.executable, "-m", "valence_sched.server.main"]

#: Runs the program with a socket of another program, as systemd passes it.
ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""
NODES = 16  # claims of clients, on a rack with room for more


class Clients:
    """Threads that claim one node after another and record each answer, each with a connection."""

    def __init__(self, url, count=3):
        self.url, self.claims, self.problems = url, [], []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self):
        body = {"request": {"properties": {"processor": {"total_cores": 1}}}}
        while not self._over.is_set():
            try:
                answer = requests.post(f"{self.url}/v1/claims", json=body, timeout=60)
            except requests.RequestException as error:
                self.problems.append(repr(error))
                continue
            if answer.status_code == 201:
                self.claims.append(answer.json()["claim"]["id"])
            elif answer.status_code != 200:  # 200: the rack is full
                self.problems.append(answer.text)

    def wait(self, more):
        """Wait until this number of further claims is answered."""
        until = len(self.claims) + more
        for _ in range(1200):
            if len(self.claims) >= until:
                return
            time.sleep(0.05)
        raise AssertionError(f"{len(self.claims)} claims, {self.problems[:3]}")


class ServiceCase(unittest.TestCase):
    """A test case that starts a service of two workers over its own state."""

    def setUp(self):
        case = ApplicationCase()
        case.settings = {}
        case.setUp()
        self.addCleanup(case.doCleanups)
        self.environ = {**os.environ, **case.environ}
        for name in ("VALENCE_SCHED_INVENTORY", "PROMETHEUS_MULTIPROC_DIR"):
            self.environ.pop(name, None)
        self.state, self.folder = case.state, case.folder
        self.settings = self.folder / "service.yaml"
        self.write(workers=2, port=0)

    def write(self, **settings):
        self.settings.write_text(json.dumps({"state": self.state, **settings}))

    def start(self, *words, command=PROGRAM, name="log", **more):
        """Start the program; return its process, URL and log after it is healthy."""
        log = self.folder / name
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*command, "serve", "--config", str(self.settings), *words],
                env=self.environ, stderr=stream, stdout=stream, start_new_session=True, **more,
            )  # fmt: skip
        self.addCleanup(self.end, process)
        url = self.found(log, process, r"Listening at: (http://[\d.:]+)")[1]
        self.found(log, process, r"(?s)(Booting worker.*){2}")
        wait_for(lambda: requests.get(f"{url}/healthcheck", timeout=60).ok, 60.0)
        return process, url, log

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            process.wait(60)

    def found(self, log, process, pattern):
        """Wait until a log contains a text; return the match."""
        for _ in range(1200):
            if found := re.search(pattern, log.read_text()):
                return found
            self.assertIsNone(process.poll(), log.read_text())
            time.sleep(0.05)
        raise AssertionError(f"{pattern} is not in {log.read_text()}")


class TestProcesses(ServiceCase):
    """Two workers over one state."""

    def workers(self, log):
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", log.read_text())]

    def test_workers_agree_and_one_that_is_killed_is_replaced(self):
        """S4, S60: a report reaches every process, and no answered request is lost."""
        process, url, log = self.start()
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
        """Return the numbers of placed nodes, in many decisions of both processes."""
        with ThreadPoolExecutor(4) as pool:
            return set(pool.map(lambda _n: self.one_placed(url), range(20)))

    def test_when_the_worker_that_reads_is_killed_another_reads(self):
        """S60: readings continue, and every worker sees their results."""
        store = Store(self.state)
        self.addCleanup(store.close)
        with served(EXAMPLE) as podms:
            for name in ("gpu-east", "general-1"):
                store.register(Registration(name=name, url=podms[name].url))
            self.write(workers=2, port=0, reader={"interval_s": 0.5, "lease_s": 3})
            process, url, log = self.start()
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
                with contextlib.suppress(requests.ConnectionError):  # of the dead worker
                    answers.add(self.one_placed(url))
                if self.reader(store) not in (first, None):
                    break
                time.sleep(0.05)
            self.assertEqual({1}, answers)
            second = self.reader(store)
            self.assertIn(second, set(self.workers(log)) - {first})
            before = {name: len(podms[name].requests) for name in ("gpu-east", "general-1")}
            wait_for(lambda: all(len(podms[name].requests) > n for name, n in before.items()))
            text = requests.get(f"{url}/metrics", timeout=20).text
            self.assertIn('podms{state="read"} 2.0', text)
            self.assertRegex(text, rf'reader{{holder="[^"]* process {second} [^"]*"}} 1.0')
            old = self.workers(log)
            process.send_signal(signal.SIGHUP)
            wait_for(lambda: self.reader(store) not in (*old, None))
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
        """Return the numbers of nodes that fit, in many answers of both processes."""

        def room(_number):
            answer = requests.post(f"{url}/v1/fits", json=SMALL, timeout=20)
            answer.raise_for_status()
            return sum(count for _, count in answer.json()["podms"])

        with ThreadPoolExecutor(4) as pool:
            return set(pool.map(room, range(20)))

    def reader(self, store):
        """Return the reading process."""
        holder = store.leases.holder(LEASE)
        return holder and int(re.search(r" process (\d+) ", holder)[1])

    def test_a_client_that_resets_its_connection_is_no_error(self):
        """The client resets the connection before the answer is complete."""
        process, url, log = self.start()
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
        _, url, _ = self.start("--inventory", str(site), "--workers", "2", "--port", "0")
        before = requests.get(f"{url}/v1/podms", timeout=20).json()
        document = json.loads(site.read_text())
        document["podms"].pop()
        site.write_text(json.dumps(document))
        for _ in range(6):
            self.assertEqual(
                len(before) - 1, len(requests.get(f"{url}/v1/podms", timeout=20).json())
            )


class TestRestart(ServiceCase):
    """Clients that send requests without a pause while the service restarts."""

    def rack(self, url):
        rack = {**RACK, "blocks": [
            {"uri": f"/b/{number}", "type": ["Compute"], "pools": ["z"],
             "devices": {"processors": [{"cores": 1}]}} for number in range(2000)]}  # fmt: skip
        requests.post(
            f"{url}/v1/podms/r/stats", json={"stats": rack}, timeout=60
        ).raise_for_status()

    def check_held(self, claims):
        """Check that each answered claim exists once, and that no two claims share a block."""
        with Store(self.state) as store:
            stored = {one.id: one for one in store.claims.list()}
        self.assertEqual(len(claims), len(set(claims)))
        self.assertEqual(set(), set(claims) - set(stored))
        blocks = [uri for one in stored.values() for part in one.parts for uri in part.blocks]
        self.assertEqual(len(blocks), len(set(blocks)))

    def test_new_workers_take_over_and_no_request_is_refused(self):
        """S4: a restart of all workers loses no request."""
        process, url, log = self.start()
        self.rack(url)
        with Clients(url) as clients:
            clients.wait(NODES)
            self.write(workers=3, port=0)
            process.send_signal(signal.SIGHUP)
            self.found(log, process, r"(?s)(Booting worker.*){5}")
            self.found(log, process, r"(?s)(Worker exiting.*){2}")
            clients.wait(NODES)
        self.assertEqual([], clients.problems)
        self.check_held(clients.claims)
        answer = requests.get(f"{url}/metrics", timeout=60)
        self.assertEqual(200, answer.status_code, answer.text)
        counts = re.findall(r'requests_total\{[^}]*"/v1/claims",status="201"\} (\d+)', answer.text)
        self.assertGreaterEqual(int(counts[0]), len(clients.claims) // 2)

    def test_settings_that_are_wrong_stay_as_they_were(self):
        process, url, log = self.start()
        self.settings.write_text("prot: 1\n")
        process.send_signal(signal.SIGHUP)
        self.found(log, process, "invalid settings are not loaded: .*unknown field 'prot'")
        self.found(log, process, r"(?s)(Booting worker.*){4}")
        self.assertEqual(200, requests.get(f"{url}/healthcheck", timeout=60).status_code)

    def listening(self, host="127.0.0.1"):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind((host, 0))
        listener.listen(128)
        os.set_inheritable(listener.fileno(), True)
        return listener

    def activated(self, listener, name):
        self.environ["LISTEN_FDS"] = "1"
        number = listener.fileno()
        command = (sys.executable, "-c", ACTIVATED, str(number), *PROGRAM)
        return self.start(command=command, name=name, pass_fds=(number,))

    def test_a_new_program_takes_the_socket_over_and_no_request_is_refused(self):
        listener = self.listening()
        process, url, _ = self.activated(listener, "first")
        self.assertEqual(f"http://127.0.0.1:{listener.getsockname()[1]}", url)
        self.rack(url)
        with Clients(url) as clients:
            clients.wait(NODES)
            process.terminate()
            self.assertEqual(0, process.wait(60))
            self.activated(listener, "second")
            clients.wait(NODES)
        self.assertEqual([], clients.problems)
        self.check_held(clients.claims)

    def test_a_new_master_takes_over_and_has_metrics_of_its_own(self):
        process, url, log = self.start()
        process.send_signal(signal.SIGUSR2)
        self.found(log, process, r"(?s)(Listening at.*){2}")
        (new,) = set(re.findall(r"Listening at: \S+ \((\d+)\)", log.read_text())) - {
            str(process.pid)
        }
        self.addCleanup(self.end_pid, int(new))
        self.found(log, process, r"(?s)(Booting worker.*){4}")
        process.terminate()
        self.assertEqual(0, process.wait(60))
        for _ in range(5):
            self.assertEqual(200, requests.get(f"{url}/v1/policies", timeout=60).status_code)
        self.assertIn("requests_total", requests.get(f"{url}/metrics", timeout=60).text)

    def end_pid(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def test_a_socket_beyond_loopback_is_refused_without_authentication(self):
        listener = self.listening("0.0.0.0")
        with self.assertRaisesRegex(
            AssertionError, "is reachable from other machines without authentication"
        ):
            self.activated(listener, "log")


class TestEnd(ServiceCase):
    """A service that is ended while it works."""

    def podm(self, fault):
        podms = self.enterContext(served(SITE, fail=[f"{fault}:POST:/redfish/v1/Systems"]))
        with Store(self.state) as store:
            store.register(Registration(name="gpu-east", url=podms["gpu-east"].url))

    def compose(self, url):
        begun = requests.post(f"{url}/v1/nodes", json={"request": {"flavor": "small"}}, timeout=60)
        self.assertEqual(202, begun.status_code, begun.text)
        return begun

    def claims(self):
        with Store(self.state) as store:
            return [claim.state for claim in store.claims.list()]

    def test_a_pod_manager_that_never_answers_does_not_hold_up_the_end(self):
        self.podm("hang")
        self.write(workers=2, port=0, stop_s=1)
        process, url, log = self.start()
        self.compose(url)
        wait_for(lambda: "COMPOSING" in self.claims())
        process.terminate()
        self.assertEqual(0, process.wait(60), log.read_text())
        self.assertEqual(["COMPOSING"], self.claims())

    def test_what_is_being_composed_is_composed_and_on_record(self):
        """S4: a regular end interrupts no work."""
        self.podm("delay:2000")
        process, url, log = self.start()
        begun = self.compose(url)
        process.terminate()
        self.assertEqual(0, process.wait(60), log.read_text())
        _, url, _ = self.start(name="second")
        location = begun.headers["Location"]
        operation = requests.get(f"{url}{location}", timeout=60).json()
        self.assertEqual("done", operation["state"], operation)
        with Store(self.state) as store:
            (node,) = store.nodes.list()
        self.assertEqual(operation["result"]["nodes"][0]["id"], node.id)

    def test_what_is_being_answered_is_answered(self):
        """Connections of incomplete requests are refused, so that a client may try elsewhere."""
        self.podm("delay:1")
        process, url, log = self.start()
        answers = []
        body = {"request": {"flavor": "gpu-large", "count": 3}}

        def ask():
            with contextlib.suppress(requests.ConnectionError):
                found = requests.post(f"{url}/v1/select_destinations", json=body, timeout=60)
                answers.append(found.status_code)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        self.found(log, process, "select_destinations")  # one is answered, others are not
        process.terminate()
        for thread in threads:
            thread.join()
        self.assertEqual(0, process.wait(60))
        taken = len(re.findall(r'"path": ?"/v1/select_destinations"', log.read_text()))
        self.assertGreater(taken, 0)
        self.assertEqual([200] * taken, answers)
