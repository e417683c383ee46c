# SPDX-License-Identifier: Apache-2.0
"""An application of the service for tests, called without sockets."""

import io
import tempfile
import time
import unittest
from pathlib import Path
from types import MappingProxyType

import bcrypt
from falcon import testing

from tests.service.serving import await_reading
from valence_sched.model.registration import Registration
from valence_sched.server import main
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "site.json")
SMALL = {"request": {"properties": {"processor": {"total_cores": 8}}}}
RACK = {"pools": [{"id": "z"}], "blocks": [{"uri": "/b", "type": ["Compute"], "pools": ["z"],
        "devices": {"processors": [{"cores": 16}]}}]}  # fmt: skip


class ApplicationCase(unittest.TestCase):
    """A test case with an application over its own state."""

    settings = MappingProxyType({"inventories": (EXAMPLE,)})

    def setUp(self):
        # a reading that outlives its process may write to the cache
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self.enterContext(folder))
        self.state = f"sqlite:///{self.folder}/state.sqlite"
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.environ = dict.fromkeys(homes, str(self.folder))
        self.client = self.new_client()

    def new_process(self, **words):
        settings = ServiceSettings(**{"state": self.state, **self.settings, **words})
        return ServiceProcess(settings, time.monotonic, self.environ)

    def new_client(self, **words) -> testing.TestClient:
        if hasattr(self, "process"):
            self.process.stop(10)
        self.process = self.new_process(**words)
        self.addCleanup(self.process.stop, 10)
        return testing.TestClient(self.process.application)

    def read_podms(self) -> None:
        """Start to read the registered pod managers, and wait until each was tried."""
        self.process.start()
        await_reading(self.process)

    def users_file(self, *lines: str) -> str:
        """Write users ``name:role``, each with the name as password; return the path."""
        path = self.folder / "users"
        rows = []
        for line in lines:
            name, _, role = line.partition(":")
            hashed = bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode()
            rows.append(f"{name}:{hashed}" + (f":{role}" if role else ""))
        path.write_text("# users\n" + "\n".join(rows) + "\n")
        path.chmod(0o600)
        return str(path)

    def log_in(self, *users: str, **words) -> None:
        """Send further requests as one of the users of :meth:`users_file`."""
        self.client = self.new_client(auth="basic", users_file=self.users_file(*users), **words)

    def run_program(self, *words: str, **environ: str) -> tuple[int, str, str]:
        """Run ``valence-scheduler``; return its exit code, its output and its errors."""
        out, err = io.StringIO(), io.StringIO()
        arguments = main.parser().parse_args(words)
        code = main.run(arguments, {**self.environ, **environ}, out, err)
        return code, out.getvalue(), err.getvalue()

    def call(self, method, path, body=None, user=None, headers=None, **words):
        """Call the application; return its result."""
        headers = dict(headers or {})
        if user is not None:
            name, _, password = user.partition(":")
            headers["Authorization"] = testing_login(name, password or name)
        if body is not None:
            words["json"] = body
        return self.client.simulate_request(method, path, headers=headers, **words)

    def check_problem(self, result, status, code, words=""):
        """Check that a result is the problem of a code, and that its text contains some words."""
        self.assertEqual((status, code), (result.status_code, result.json["code"]), result.text)
        self.assertEqual("application/problem+json", result.headers["content-type"])
        self.assertEqual(status, result.json["status"])
        self.assertIn(words, result.json["detail"])
        self.assertEqual(result.headers["x-openstack-request-id"], result.json["request_id"])


class LivePodmsCase(ApplicationCase):
    """A test case with live pod managers, each read once; ``users`` is their password file."""

    settings = MappingProxyType({})
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # registrations, by default without any

    def setUp(self):
        self.served = self.enterContext(served(EXAMPLE))
        super().setUp()
        with Store(self.state) as store:
            for name in self.names or self.served:
                store.register(Registration(name=name, url=self.served[name].url))
        words = {"auth": "basic", "users_file": self.users_file(*self.users)} if self.users else {}
        self.client = self.new_client(**words)
        self.read_podms()


def testing_login(name: str, password: str) -> str:
    """Return the header of HTTP basic."""
    import base64

    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
