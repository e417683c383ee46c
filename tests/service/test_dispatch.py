# SPDX-License-Identifier: Apache-2.0
"""A service that posts its decisions to a controller behind a real socket."""

import json
import time
from types import MappingProxyType

import sqlalchemy as sa
from falcon import testing

from tests.service.application import SMALL, LivePodmsCase
from tests.service.serving import wait_for
from tests.unit.integrations.test_dispatchers import controller
from valence_sched.errors import UsageError
from valence_sched.integrations.dispatchers.webhook import CLAIM, SIGNATURE, TIMESTAMP, signature
from valence_sched.model.dispatch import DispatchSettings
from valence_sched.model.registration import PasswordReference
from valence_sched.service.settings import ServiceSettings, check_settings, read_settings
from valence_sched.store import tables
from valence_sched.store.store import Store

SELECT, CLAIMS = "/v1/select_destinations", "/v1/claims"
KEPT = {**SMALL, "keep": True}


def twice(door) -> None:
    """Answer one request two times, the second time with a refusal."""
    for status in (202, 500):
        text = json.dumps({"status": status}).encode()
        door.wfile.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s"
                         % (status, len(text), text))  # fmt: skip
    door.close_connection = True


class DispatchCase(LivePodmsCase):
    """A test case with a service whose sender runs step by step, and a scripted controller."""

    names = ("gpu-east",)

    def setUp(self):
        self.there = self.enterContext(controller())
        dispatch = DispatchSettings(target=f"webhook={self.there.url}/hook", timeout_s=0.2)
        self.settings = MappingProxyType({"dispatch": dispatch, "reader": True})
        super().setUp()
        self.process.sender.stop(10)  # only the test posts
        self.store = Store(self.state)
        self.addCleanup(self.store.close)
        self.told = []

    def sender(self, process=None):
        return (process or self.process)._dispatch_sender(self.told.append, lambda _s: None)

    def make_due(self):
        of = tables.dispatches.c
        with self.store._database.writer.begin() as connection:
            connection.execute(sa.update(tables.dispatches).where(of.due_at.is_not(None))
                               .values(due_at=1.0))  # fmt: skip

    def post_all(self):
        """Post until the controller has accepted everything; return the number of attempts."""
        sender, attempts = self.sender(), 0
        while self.store.dispatches.waiting().total:
            attempts += 1
            self.assertLess(attempts, 20, self.told)
            sender.step()
            self.make_due()
        return attempts

    def came(self):
        """Return the idempotency key, the claim id and the pod managers of each post."""
        return [
            (headers["Idempotency-Key"], headers.get(CLAIM),
             [one["chosen"]["podm"] for one in json.loads(body)["placements"]])
            for _, headers, body in self.there.came
        ]  # fmt: skip


class TestDispatch(DispatchCase):
    """S3, S81: a request comes in, and its decision is posted to a controller."""

    def test_what_is_kept_and_what_is_claimed_is_posted_and_nothing_is_composed(self):
        kept = self.call("POST", SELECT, KEPT)
        claim = self.call("POST", CLAIMS, SMALL).json["claim"]["id"]
        asked = self.call("POST", SELECT, SMALL)
        self.assertEqual([200, 200], [kept.status_code, asked.status_code])
        self.post_all()
        decision = kept.headers["content-location"].rpartition("/")[2]
        self.assertEqual([(decision, None, ["gpu-east"]), (claim, claim, ["gpu-east"])],
                         self.came())  # fmt: skip
        self.assertEqual(["/hook"] * 2, [path for path, _, _ in self.there.came])
        self.assertEqual([], self.call("GET", "/v1/nodes").json)
        events = self.call("GET", f"{CLAIMS}/{claim}").json["events"]
        self.assertEqual(["held", "dispatched"], [one["kind"] for one in events])

    def test_the_claim_of_a_key_is_posted_once_however_often_it_is_asked_for(self):
        for _ in range(2):
            self.call("POST", CLAIMS, SMALL, headers={"Idempotency-Key": "k"})
        self.post_all()
        self.assertEqual(1, len(self.there.came))

    def test_a_controller_that_fails_gets_it_until_it_takes_it_with_the_same_key(self):
        """The controller refuses, closes, interrupts, is slow, redirects, and finally answers
        twice.
        """
        self.there.answers = [(503, {}), (0, {}), (206, {}), lambda _door: time.sleep(0.5),
                              (302, {}), twice]  # fmt: skip
        claim = self.call("POST", CLAIMS, SMALL).json["claim"]["id"]
        self.assertEqual(6, self.post_all())
        self.assertEqual([(claim, claim, ["gpu-east"])] * 6, self.came())
        (receipt,) = self.store.dispatches.newest(1)[0].receipts
        self.assertEqual(202, receipt.status)
        self.assertEqual("decisions are posted again", self.told[-1])
        self.assertIn("HTTP 503", self.told[0])

    def test_decisions_of_one_request_come_in_order_and_hold_up_no_other(self):
        named = [{**KEPT, "request": {**SMALL["request"], "id": id_}} for id_ in ("r", "r", "s")]
        ids = []
        for seed, body in enumerate(named):
            body["request"]["seed"] = seed
            found = self.call("POST", SELECT, body).headers["content-location"]
            ids.append(found.rpartition("/")[2])
        self.there.answers = [(503, {})]
        sender = self.sender()
        self.assertEqual([False, True], [sender.step() for _ in range(2)])
        self.post_all()
        self.assertEqual([ids[0], ids[2], ids[0], ids[1]], [id_ for id_, _, _ in self.came()])

    def test_a_service_that_dies_after_its_answer_leaves_it_to_the_next(self):
        claim = self.call("POST", CLAIMS, SMALL).json["claim"]["id"]
        other = self.new_process()
        self.addCleanup(other.stop, 10)
        self.assertTrue(self.sender(other).step())
        self.assertEqual([(claim, claim, ["gpu-east"])], self.came())

    def test_a_service_that_dies_while_it_posts_leaves_it_to_the_next(self):
        self.call("POST", CLAIMS, SMALL)
        self.store.dispatches.take(600.0)  # and is gone
        self.assertFalse(self.sender().step())
        self.make_due()
        self.assertTrue(self.sender().step())

    def test_the_threads_of_a_service_post_by_themselves(self):
        self.client = self.new_client()
        self.process.start()
        self.call("POST", CLAIMS, SMALL)
        wait_for(lambda: not self.store.dispatches.waiting().total, 60.0)
        self.assertEqual(1, len(self.there.came))

    def test_what_waits_is_named_by_health_metrics_and_the_program(self):
        self.there.answers = [(403, {})]
        claim = self.call("POST", CLAIMS, SMALL).json["claim"]["id"]
        self.assertEqual("ok", self.call("GET", "/healthcheck").json["status"])
        self.sender().step()
        health = self.call("GET", "/healthcheck")
        self.assertEqual((200, "degraded"), (health.status_code, health.json["status"]))
        self.assertRegex(health.json["problems"][0], "^not posted to the controller: 1 decision, ")
        self.assertIn("valence_scheduler_dispatches_waiting 1.0", self.call("GET", "/metrics").text)
        self.assertRegex(self.run_store(), f"^claim {claim} on gpu-east: waiting, .*: HTTP 403")
        self.assertEqual(f"{claim}: dropped\n", self.run_store("--drop", claim))
        self.assertEqual("ok", self.call("GET", "/healthcheck").json["status"])

    def run_store(self, *words):
        code, out, err = self.run_program("store", "dispatches", "--state", self.state, *words)
        self.assertEqual(0, code, err)
        return out


class TestSecrets(DispatchCase):
    """The key and the password are references, and appear nowhere else."""

    def test_the_controller_gets_the_login_and_the_signature_of_references(self):
        self.environ |= {"HOOK_KEY": "canary-key", "HOOK_PASSWORD": "canary-word"}
        key, password = (PasswordReference(env=name) for name in ("HOOK_KEY", "HOOK_PASSWORD"))
        dispatch = DispatchSettings(target=f"webhook={self.there.url}", key=key, username="me",
                                    password=password)  # fmt: skip
        process = self.new_process(dispatch=dispatch)
        self.addCleanup(process.stop, 10)
        self.client = testing.TestClient(process.application)
        self.there.answers = [(403, {})]
        self.call("POST", CLAIMS, SMALL)
        self.sender(process).step()
        ((_, headers, body),) = self.there.came
        wanted = signature(b"canary-key", headers[TIMESTAMP], body)
        self.assertEqual(f"sha256={wanted}", headers[SIGNATURE])
        self.assertEqual("Basic bWU6Y2FuYXJ5LXdvcmQ=", headers["Authorization"])
        state = (self.folder / "state.sqlite").read_bytes()
        self.assertNotIn("canary", "".join(self.told) + state.decode(errors="replace"))


class TestSettings(DispatchCase):
    """Invalid settings are refused before the service starts."""

    def test_each_wrong_setting_is_one_line(self):
        target = f"webhook={self.there.url}"
        reference, typed = PasswordReference(env="WORD"), PasswordReference(stored=True)
        for words, text in (
            ({"target": "webhook"}, "target must be NAME=URL"),
            ({"target": "webhook=ftp://h"}, "target must be NAME=URL"),
            ({"target": "webhook=https://me:canary@h/"}, "without a password"),
            ({"target": target, "key": typed}, "key must refer to either env"),
            ({"target": target, "password": reference}, "set together"),
            ({"target": target, "username": "me"}, "set together"),
        ):
            with self.subTest(text), self.assertRaisesRegex(UsageError, text) as raised:
                check_settings(ServiceSettings(dispatch=DispatchSettings(**words)), "f")
            self.assertNotIn("canary", str(raised.exception))
        recorded = ServiceSettings(dispatch=DispatchSettings(target=target), inventories=("x",))
        with self.assertRaisesRegex(UsageError, "are recordings, which .* or use podm"):
            check_settings(recorded, "f")

    def test_an_unknown_dispatcher_and_a_missing_key_are_problems_of_the_settings(self):
        for word, text in (
            ("target: webhok=https://h", "no dispatcher named 'webhok'"),
            ("{target: 'webhook=https://h', key: {env: NOT_SET}}", "dispatch: key: .*NOT_SET"),
        ):
            path = self.folder / "settings.yaml"
            path.write_text(f"dispatch: {word if word[0] == '{' else '{' + word + '}'}\n")
            read_settings(str(path))
            code, _, err = self.run_program("check-config", "--config", str(path))
            self.assertEqual(1, code)
            self.assertRegex(err, text)
