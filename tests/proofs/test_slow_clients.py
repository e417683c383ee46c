# SPDX-License-Identifier: Apache-2.0
"""Slow clients, large bodies and hard requests do not delay other clients of a worker."""

import contextlib
import json
import resource
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import bcrypt

from tests.proofs.caller import Caller
from tests.proofs.scheduler_process import scheduler_process
from tests.proofs.served_site import inventory
from tests.service.application import SMALL, testing_login
from tests.unit.core.fit.covers import podm, properties, split
from valence_sched.server.worker import MOST_HELD_BYTES

SLOW = 40  # clients, many more than the threads of the worker
FLOOD = 1500  # clients of each kind
BODY = json.dumps(SMALL).encode()
HEAD = (
    b"POST /v1/select_destinations HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


def setUpModule():
    """Allow this process enough sockets for the clients of a flood."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 4 * FLOOD), limits[1]))
    unittest.addModuleCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)


class TestSlowClients(unittest.TestCase):
    """One worker with few threads over a recording."""

    @classmethod
    def setUpClass(cls):
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cover = split(28, Random(1))
        site = inventory(20, 625)
        site["podms"].append(podm("hard", cover))
        (folder / "site.json").write_text(json.dumps(site))
        (folder / "service.yaml").write_text("threads: 4\nlimits: {read_s: 6, body_bytes: 100000}")
        cls.hard = {"request": {"properties": properties(cover), "podms": ["hard"]}}
        words = ("--config", f"{folder}/service.yaml", "--inventory", f"{folder}/site.json",
                 "--state", f"sqlite:///{folder}/state.db")  # fmt: skip
        cls.service = cls.enterClassContext(scheduler_process(folder, 1, *words))

    def setUp(self):
        self.caller = self.enterContext(contextlib.closing(Caller(self.service.url)))
        workers = self.service.worker_pids()
        self.addCleanup(lambda: self.assertEqual(workers, self.service.worker_pids()))

    def open(self, *parts: bytes) -> socket.socket:
        """Return a connection on which some bytes were sent."""
        address = urlsplit(self.service.url)
        line = self.enterContext(socket.create_connection((address.hostname, address.port), 30))
        for part in parts:
            line.sendall(part)
        return line

    def check_others(self, slow=()):
        """Check that other clients are answered, on old and new connections."""
        for _ in range(5):
            with contextlib.closing(Caller(self.service.url)) as other:
                for caller in (other, self.caller):
                    answer = caller.call("POST", "/v1/select_destinations", SMALL)
                    self.assertEqual(200, answer.status, answer.body)
        for line in slow:
            self.assertTrue(is_open(line))

    def test_heads_that_do_not_end(self):
        for part in (b"", b"POST /v1/select_dest", HEAD[:-2] % 10 + b"X: y\r\n"):
            with self.subTest(part):
                slow = [self.open(part) for _ in range(SLOW)]
                self.check_others(slow)

    def test_bodies_that_do_not_end(self):
        slow = [self.open(HEAD % len(BODY), BODY[:-1]) for _ in range(SLOW)]
        self.check_others(slow)
        slow[0].sendall(BODY[-1:])
        self.assertIn(b"200 OK", slow[0].recv(1000))

    def test_chunks_that_do_not_end(self):
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        slow = [self.open(head, b"5\r\n" + BODY[:5] + b"\r\n", b"%x\r\n" % (len(BODY) - 5))
                for _ in range(SLOW)]  # fmt: skip
        self.check_others(slow)
        slow[0].sendall(BODY[5:] + b"\r\n0\r\n\r\n")
        self.assertIn(b"200 OK", slow[0].recv(1000))

    def test_chunks_of_a_size_that_never_comes(self):
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        slow = [self.open(head, size + b"\r\n") for size in (b"f" * 9, b"1" * 17) * (SLOW // 2)]
        self.check_others(slow)

    def test_chunks_that_cost_more_than_they_bring_are_refused(self):
        """Clients that send small chunks at full speed do not delay others."""
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        for chunk in (b"1\r\n[\r\n", b"2;a=b\r\n[[\r\n"):
            lines = [self.open(head) for _ in range(12)]
            for line in lines:
                with contextlib.suppress(ConnectionError):
                    line.sendall(chunk * 100_000)
            self.check_others()
            for line in lines:
                with contextlib.suppress(ConnectionError):  # it sent more after the answer
                    self.assertIn(b" 400 ", line.recv(1000))

    def test_a_body_in_some_small_chunks_is_taken(self):
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        body = BODY.replace(b":", b":" + b" " * 200)
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        self.assertIn(b"200 OK", self.open(head, chunks + b"0\r\n\r\n").recv(1000))

    def test_chunks_that_are_none_are_refused_and_what_follows_is_no_request(self):
        head = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        follower = b"GET /v1 HTTP/1.1\r\nHost: here\r\n\r\n"
        for chunks in (b"zz\r\n\r\n", b"-1\r\n", b"2\r\n{}}\r\n0\r\n\r\n",
                       b"2;\0\r\n{}\r\n0\r\n\r\n", b"2 \r\n{}\r\n0\r\n\r\n"):  # fmt: skip
            with self.subTest(chunks):
                line, answer = self.open(head, chunks + follower), b""
                with contextlib.suppress(ConnectionError):
                    while part := line.recv(1000):
                        answer += part
                self.assertEqual(1, answer.count(b"HTTP/1.1"), answer)
                self.assertIn(b"HTTP/1.1 400 Bad Request", answer)

    def test_requests_that_do_not_end_are_dropped(self):
        for line in [self.open(part) for part in (b"", b"GET", HEAD % 10, HEAD % 10 + b"[")]:
            self.assertEqual(b"", line.recv(1000))

    def test_clients_that_do_not_close(self):
        """The clients have their last answer, and keep the connection open."""
        head = b"GET /healthcheck HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
        slow = [self.open(head) for _ in range(SLOW)]
        for line in slow:
            self.assertIn(b"200 OK", line.recv(1000))
        self.check_others()

    def test_a_flood_of_slow_senders(self):
        parts = ((), (HEAD[:-2] % 10 + b"X: y\r\n",), (HEAD % len(BODY), BODY[:-1]))
        slow = [self.open(*part) for part in parts for _ in range(FLOOD)]
        self.check_others(slow[::100])
        slow[-1].sendall(BODY[-1:])
        self.assertIn(b"200 OK", slow[-1].recv(1000))

    def test_clients_that_do_not_read(self):
        """Each requests much more than its socket can buffer, many times."""
        question = b"GET /v1/blocks HTTP/1.1\r\nHost: here\r\n\r\n"
        slow = [self.open(question * 20) for _ in range(12)]
        self.check_others(slow)
        self.assertGreater(len(json.dumps(self.caller.call("GET", "/v1/blocks").body)), 2_500_000)

    def test_a_health_check_waits_behind_no_question(self):
        question = b"GET /v1/blocks HTTP/1.1\r\nHost: here\r\n\r\n"
        lines = [self.open(question) for _ in range(100)]
        for path in ("/healthcheck", "/healthcheck/alive"):
            self.assertEqual(200, self.caller.call("GET", path).status)
        answered, _, _ = select.select(lines, [], [], 0)
        self.assertLess(len(answered), len(lines))

    def test_large_bodies(self):
        """Large bodies are refused, with or without a length, before they are complete."""
        large = [self.open(HEAD % (1 << 30), b"[" * 1000) for _ in range(SLOW)]
        chunked = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
        large += [self.open(chunked, b"30000\r\n" + b"[" * 0x30000 + b"\r\n")]
        for line in large:
            self.assertIn(b"413 Content Too Large", line.recv(1000))
        for head in (b"X: y\r\n" * 20_000, (b"X: " + b"y" * 8000 + b"\r\n") * 20 + b"\r\n"):
            line = self.open(b"GET / HTTP/1.1\r\nHost: here\r\n" + head)
            self.assertIn(b" 431 ", line.recv(1000))
        self.check_others()

    def test_bodies_in_a_coding_that_nobody_decodes(self):
        """Such requests are refused after their head, without waiting for the body."""
        coded = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: gzip, chunked")
        for parts in ((coded,), (coded, b"ff\r\n"), (coded + b"0\r\n\r\n",)):
            self.assertIn(b"501 Not Implemented", self.open(*parts).recv(1000))
        self.check_others()

    def test_hard_questions(self):
        """As many clients as threads send hard requests; others are answered."""
        stop, asked = threading.Event(), []

        def ask():
            with contextlib.closing(Caller(self.service.url)) as caller:
                while not stop.is_set():
                    answer = caller.call("POST", "/v1/select_destinations", self.hard)
                    asked.append(answer.status)

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        try:
            self.check_others()
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertEqual(set(), set(asked) - {200, 503})


class TestMemory(unittest.TestCase):
    """A worker that receives large bodies."""

    def test_bodies_that_arrive_and_wait_are_bounded_and_freed(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "site.json").write_text(json.dumps(inventory(2, 8)))
        words = ("--inventory", f"{folder}/site.json", "--state", f"sqlite:///{folder}/state.db")
        service = self.enterContext(scheduler_process(folder, 1, *words))
        status, address = f"/proc/{service.worker_pids()[0]}/status", urlsplit(service.url)
        size, before = 4_000_000, peak_mib(status)
        for _ in range(200):
            line = socket.create_connection((address.hostname, address.port), 30)
            with contextlib.suppress(ConnectionError):
                self.enterContext(line).sendall(HEAD % size + b" " * (size - 1))
        with contextlib.closing(Caller(service.url)) as caller:
            self.assertEqual(200, caller.call("POST", "/v1/select_destinations", SMALL).status)
        self.assertLess(peak_mib(status) - before, 2.5 * (MOST_HELD_BYTES >> 20))


class TestFewDescriptors(unittest.TestCase):
    """Workers with fewer file descriptors than clients."""

    def test_a_flood_costs_the_connections_that_wait_longest(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "site.json").write_text(json.dumps(inventory(2, 8)))
        (folder / "users").write_text(f"ann:{bcrypt.hashpw(b'ann', bcrypt.gensalt(4)).decode()}")
        (folder / "users").chmod(0o600)
        (folder / "service.yaml").write_text(f"{{auth: basic, users_file: {folder}/users}}")
        words = ("--config", f"{folder}/service.yaml", "--inventory", f"{folder}/site.json",
                 "--state", f"sqlite:///{folder}/state.db")  # fmt: skip
        login = {"Authorization": testing_login("ann", "ann")}
        service = self.enterContext(scheduler_process(folder, 2, *words, descriptors=200))
        workers, address = service.worker_pids(), urlsplit(service.url)
        kept = ("POST", "/v1/select_destinations", {**SMALL, "keep": True})
        connections = []
        for _ in range(20):
            for _ in range(FLOOD // 20):
                line = socket.create_connection((address.hostname, address.port), 30)
                connections.append(self.enterContext(line))
            with contextlib.closing(Caller(service.url, login)) as caller:
                for _ in range(3):
                    self.assertEqual(200, caller.call(*kept).status)
        self.assertEqual(workers, service.worker_pids())
        self.assertEqual("", service.defects())
        with contextlib.closing(Caller(service.url, login)) as caller:
            for _ in range(100):  # until each worker has accepted enough connections
                status = caller.call("GET", "/v1/policies").status
                if status != 200:
                    break
                for _ in range(20):
                    with socket.create_connection((address.hostname, address.port), 30) as line:
                        line.sendall(b"G\0T / HTTP/1.1\r\n\r\n")
                        self.assertIn(b" 400 ", line.recv(1000))
            self.assertEqual(429, status)


@unittest.skipUnless(shutil.which("openssl"), "no program openssl to make a certificate")
class TestSlowClientsOverTls(unittest.TestCase):
    """The same tests over TLS, where handshakes may be slow too."""

    def test_handshakes_and_requests_that_do_not_end(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                 "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                 "-keyout", f"{folder}/key", "-out", f"{folder}/crt"]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
        (folder / "site.json").write_text(json.dumps(inventory(2, 8)))
        settings = f"{{threads: 2, certificate: {folder}/crt, private_key: {folder}/key}}"
        (folder / "service.yaml").write_text(settings)
        words = ("--config", f"{folder}/service.yaml", "--inventory", f"{folder}/site.json",
                 "--state", f"sqlite:///{folder}/state.db")  # fmt: skip
        context = ssl.create_default_context(cafile=f"{folder}/crt")
        service = self.enterContext(scheduler_process(folder, 1, *words, context=context))
        address = (urlsplit(service.url).hostname, urlsplit(service.url).port)
        slow = [self.enterContext(socket.create_connection(address, 30)) for _ in range(SLOW)]
        for part in (b"POST /v1", HEAD % len(BODY) + BODY[:-1]):
            line = context.wrap_socket(socket.create_connection(address, 30),
                                       server_hostname=address[0])  # fmt: skip
            self.enterContext(line).sendall(part)
        for _ in range(5):
            with contextlib.closing(Caller(service.url, context=context)) as caller:
                for _ in range(3):
                    answer = caller.call("POST", "/v1/select_destinations", SMALL)
                    self.assertEqual(200, answer.status, answer.body)
        line.sendall(BODY[-1:])
        self.assertIn(b"200 OK", line.recv(1000))
        for one in slow:
            self.assertTrue(is_open(one))


def peak_mib(status: str) -> int:
    """Return the peak memory of a process from its status file."""
    line = next(one for one in Path(status).read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def is_open(line: socket.socket) -> bool:
    """Return whether a connection has received neither bytes nor its end."""
    line.setblocking(False)
    try:
        return bool(line.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    finally:
        line.settimeout(30)
