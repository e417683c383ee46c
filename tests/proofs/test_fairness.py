# SPDX-License-Identifier: Apache-2.0
"""A tenant with the largest possible load does not take the turns of other tenants."""

import base64
import contextlib
import json
import tempfile
import threading
import unittest
from collections import Counter
from pathlib import Path
from random import Random

import bcrypt

from tests.proofs.caller import Caller
from tests.proofs.scheduler_process import scheduler_process
from tests.proofs.served_site import inventory
from tests.service.application import SMALL
from tests.unit.core.fit.covers import podm, properties, split

HOSTILE = 16  # connections of one tenant, four times the threads of the worker
TURNS = 12
USERS = ("hostile", "other")


class TestFairness(unittest.TestCase):
    """One worker, a tenant with many clients, and a tenant with one."""

    def setUp(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        cover = split(28, Random(1))
        site = inventory(2, 8)
        site["podms"].append(podm("hard", cover))
        (folder / "site.json").write_text(json.dumps(site))
        self.hard = {"request": {"properties": properties(cover), "podms": ["hard"]}}
        users = folder / "users"
        users.touch(0o600)
        users.write_text("".join(
            f"{name}:{bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode()}:member\n"
            for name in USERS
        ))  # fmt: skip
        (folder / "service.yaml").write_text(f"{{auth: basic, users_file: {users}, threads: 4}}")
        words = ("--config", f"{folder}/service.yaml", "--inventory", f"{folder}/site.json",
                 "--state", f"sqlite:///{folder}/state.db")  # fmt: skip
        self.service = self.enterContext(scheduler_process(folder, 1, *words))

    def caller(self, name: str) -> Caller:
        login = "Basic " + base64.b64encode(f"{name}:{name}".encode()).decode()
        return Caller(self.service.url, {"Authorization": login})

    def test_one_tenant_does_not_starve_another(self):
        """Each request of the small tenant is decided during the load of the large one."""
        stop, seen = threading.Event(), Counter()

        def flood(number):
            with contextlib.closing(self.caller("hostile")) as caller:
                while not stop.is_set():
                    body = self.hard if number % 2 else SMALL
                    seen[caller.call("POST", "/v1/select_destinations", body).status] += 1

        clients = [threading.Thread(target=flood, args=(one,)) for one in range(HOSTILE)]
        for client in clients:
            client.start()
        try:
            self.service.wait_for(lambda: sum(seen.values()) >= HOSTILE, "flood")
            with contextlib.closing(self.caller("other")) as other:
                turns = []
                for _ in range(TURNS):
                    before = sum(seen.values())
                    answer = other.call("POST", "/v1/select_destinations", SMALL)
                    self.assertEqual(200, answer.status, answer.body)
                    turns.append(sum(seen.values()) - before)
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertLessEqual(sorted(turns)[TURNS // 2], 2 * HOSTILE, turns)
        self.assertEqual(set(), set(seen) - {200, 429, 503})
