# SPDX-License-Identifier: Apache-2.0
"""Processes over one state: each sees the changes of others in its next decision."""

import datetime
import sqlite3
import time
from types import MappingProxyType
from unittest import mock

import sqlalchemy as sa
from falcon import testing

from tests.service.application import EXAMPLE, RACK, SMALL, ApplicationCase
from tests.unit.store.site import part, podm
from valence_sched.lifecycle.follower import Follower
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.testing.served import served

SELECT = "/v1/select_destinations"


def registration(name, **words):
    return Registration(name=name, url=f"https://{name}", **words)


class FollowingCase(ApplicationCase):
    """A test case with two processes that do not read, and a store that changes the state."""

    settings = MappingProxyType({})

    def setUp(self):
        super().setUp()
        self.store = Store(self.state)
        self.addCleanup(self.store.close)
        self.other = self.new_process()
        self.addCleanup(self.other.stop, 10)
        self.clients = [self.client, testing.TestClient(self.other.application)]

    def add(self, name, **words):
        self.store.register(registration(name))
        self.read(name, **words)

    def read(self, name, **words):
        self.store.remember(podm(name, read_at="2026-01-01T00:00:00Z", **words))

    def fail_reading(self, name):
        failure = ReadFailure(reason="https://x: connection refused")
        self.store.record_failures({name: (FullPodm(id=name, status="Offline"), failure)})

    def room(self, **words):
        """Return the number of nodes that fit by pod manager, as each process answers."""
        body = {"request": {**SMALL["request"], **words}}
        return [self.room_of(client, body) for client in self.clients]

    def room_of(self, client, body):
        result = client.simulate_post("/v1/fits", json=body)
        self.assertEqual(200, result.status_code, result.text)
        return {name: count for name, count in result.json["podms"] if count}

    def counts(self, process):
        return process.engines._engine._stored.store.counts


class TestChanges(FollowingCase):
    """Changes by another process take effect in every process immediately."""

    def check(self, **podms):
        self.assertEqual([podms] * 2, self.room())

    def test_a_pod_manager_comes_changes_and_goes(self):
        self.add("a")
        self.check(a=3)
        self.add("b", blocks=1)
        self.check(a=3, b=1)
        self.read("b", blocks=2)
        self.check(a=3, b=2)
        self.store.change(registration("a", enabled=False))
        self.check(b=2)
        self.store.change(registration("a"))
        self.fail_reading("b")
        self.check(a=3)
        self.read("b", blocks=2)
        self.store.unregister("a")
        self.check(b=2)

    def test_what_an_operator_registers_counts_before_the_next_reading(self):
        self.add("a")
        self.check(a=3)
        where = {"aggregates": ["gold"], "zone": "east"}
        self.assertEqual([{}, {}], self.room(**where))
        self.store.change(registration("a", zone="east", aggregates=("gold",)))
        self.assertEqual([{"a": 3}] * 2, self.room(**where))

    def test_what_an_operator_unsets_counts_before_the_next_reading(self):
        words = {"zone": "east", "aggregates": ("gold", "ssd"), "traits": ("T", "U"),
                 "capabilities": {"net": ("ib",), "disk": ("ssd",)},
                 "facts": {"power_w": 1, "rack": "r"}}  # fmt: skip
        self.store.register(registration("a", **words))
        own = {**words, "aggregates": ("its-own", *words["aggregates"])}
        self.read("a", **own)
        self.assertEqual([{"a": 3}] * 2, self.room(zone="east", aggregates=["gold"]))
        left = {"aggregates": ("ssd",), "traits": ("U",), "capabilities": {"disk": ("ssd",)},
                "facts": {"rack": "r"}}  # fmt: skip
        self.store.change(registration("a", **left))
        for where in ({"zone": "east"}, {"aggregates": ["gold"]}, {"traits": {"required": ["T"]}}):
            self.assertEqual([{}, {}], self.room(**where), where)
        self.assertEqual(
            [{"a": 3}] * 2, self.room(aggregates=["ssd", "its-own"], traits={"required": ["U"]})
        )
        found = self.store.load_podms()["a"]
        self.assertEqual((None, ("its-own", "ssd")), (found.zone, found.aggregates))
        self.assertEqual(({"disk": ("ssd",)}, {"rack": "r"}), (found.capabilities, found.facts))

    def test_a_maximum_of_blocks_counts_before_the_next_reading(self):
        blocks = [{**RACK["blocks"][0], "uri": f"/{number}"} for number in range(3)]
        self.add("a", pools=RACK["pools"], blocks=blocks)
        two = {"request": {"properties": {"processor": {"total_cores": 32}}}}
        for most, room in ((1, 0), (2, 1), (3, 1), (1, 0), (None, 0), (2, 1)):
            limits = {} if most is None else {"max_blocks": {"Compute": most}}
            self.store.change(registration("a", **limits))
            found = [self.room_of(client, two) for client in self.clients]
            self.assertEqual([{"a": room} if room else {}] * 2, found, most)

    def test_a_maximum_that_is_stated_holds_again_with_the_next_reading(self):
        """A stated 1 counts as an assumed one at first; a larger maximum counts immediately."""
        blocks = [{**RACK["blocks"][0], "uri": f"/{number}"} for number in range(4)]
        three = {"request": {"properties": {"processor": {"total_cores": 48}}}}
        for name, stated, first in (("a", 1, 1), ("b", 2, 0)):
            pools = [{**RACK["pools"][0], "limits": {"Compute": {"max": stated}}}]
            self.add(name, pools=pools, blocks=blocks)
            self.store.change(registration(name, max_blocks={"Compute": 3}))
            found = [self.room_of(client, three).get(name, 0) for client in self.clients]
            self.assertEqual([first] * 2, found, stated)
            self.read(name, pools=pools, blocks=blocks)
            self.assertEqual([{}] * 2, [self.room_of(client, three) for client in self.clients])

    def test_a_maximum_of_a_report_takes_the_place_of_a_registered_one(self):
        blocks = [{**RACK["blocks"][0], "uri": f"/{number}"} for number in range(3)]
        self.add("a", pools=RACK["pools"], blocks=blocks)
        two = {"request": {"properties": {"processor": {"total_cores": 32}}}}
        for reported, registered, room in ((1, 2, 0), (2, 1, 1), (2, 3, 1)):
            pools = [{**RACK["pools"][0], "limits": {"Compute": {"max": reported}}}]
            self.store.update_stats("a", {"pools": pools})
            self.store.change(registration("a", max_blocks={"Compute": registered}))
            found = [self.room_of(client, two) for client in self.clients]
            self.assertEqual([{"a": room} if room else {}] * 2, found, (reported, registered))

    def test_what_a_pod_manager_reports_by_itself_stays_when_an_operator_unsets_it(self):
        self.store.register(registration("a", zone="east"))
        self.read("a", zone="east")
        self.store.update_stats("a", {"zone": "east"})
        generation = self.store.load_podms()["a"].generation
        self.store.change(registration("a"))
        found = self.store.load_podms()["a"]
        self.assertEqual(("east", generation), (found.zone, found.generation))
        self.store.register(registration("never-read", zone="east"))
        self.store.change(registration("never-read"))
        self.assertNotIn("never-read", self.store.load_podms())

    def test_claims_and_releases_of_another_process(self):
        self.add("a")
        self.check(a=3)
        claimed = self.clients[1].simulate_post("/v1/claims", json=SMALL)
        self.assertEqual(201, claimed.status_code, claimed.text)
        self.check(a=2)
        claim = claimed.json["claim"]["id"]
        self.assertEqual(204, self.clients[0].simulate_delete(f"/v1/claims/{claim}").status_code)
        self.check(a=3)

    def test_a_claim_whose_time_is_over(self):
        self.add("a")
        self.assertEqual(201, self.call("POST", "/v1/claims", SMALL).status_code)
        self.check(a=2)
        with sa.create_engine(self.state).begin() as connection:
            over = sa.update(tables.claims).values(expires_at=1.0, sweep_at=1.0)
            connection.execute(over)
        self.check(a=3)

    def test_reports_of_another_process(self):
        """S4: a report of a pod manager reaches every process."""
        self.clients[1].simulate_post("/v1/podms/r/stats", json={"stats": RACK})
        self.check(r=1)
        self.clients[1].simulate_post("/v1/podms/r/stats", json={"stats": {"enabled": False}})
        self.check()
        self.add("a")
        self.clients[0].simulate_delete("/v1/podms/r/stats")
        self.check(a=3)
        self.clients[0].simulate_post("/v1/podms/a/stats", json={"stats": {"enabled": False}})
        self.check()
        self.store.change(registration("a", zone="east"))
        self.check()
        self.clients[1].simulate_delete("/v1/podms/a/stats")
        self.read("a")
        self.check(a=3)

    def test_pod_managers_of_a_file_are_followed_as_well(self):
        file = self.folder / "some.yaml"
        file.write_text("podms: {a: {url: https://a}}\n")
        self.client = self.new_client(state=None, podm_files=(str(file),))
        self.clients = [self.client]
        with self.process.engines.changing() as engine, engine._changing_store() as store:
            store.remember(podm("a", blocks=2))
            store.remember(podm("b", blocks=2))
        self.assertEqual([{"a": 2}], self.room())
        planned = self.call("POST", "/v1/plans", SMALL).json["plan"]
        self.assertEqual("a", planned["decision"]["placements"][0]["chosen"]["podm"])
        file.write_text("podms: {b: {url: https://bb}}\n")
        self.assertEqual([{"b": 2}], self.room())


def asked_of(podm):
    """Return the number of requests to a pod manager, without event streams."""
    return sum(not seen.path.endswith("/SSE") for seen in podm.requests)


class TestWork(FollowingCase):
    """S30: the work of a decision depends on the changes, not on the size of the site."""

    def work(self, change):
        """Return the rows and the pod managers that the next decision of each process reads."""
        change()
        before = [self.counted(one) for one in (self.process, self.other)]
        self.room()
        after = [self.counted(one) for one in (self.process, self.other)]
        first, second = (
            tuple(b - a for a, b in zip(*pair, strict=True))
            for pair in zip(before, after, strict=True)
        )
        self.assertEqual(first, second)
        return first

    def counted(self, process):
        counts = self.counts(process)
        return counts.rows_read, counts.podms_decoded, counts.transactions

    def test_it_does_not_grow_with_what_is_there(self):
        costs = [self.costs(4), self.costs(40)]
        self.assertEqual(*costs)
        self.assertEqual((1, 0, 1), costs[0][0], "the totals of the change log")
        counts = tables.SHARDS + 2  # and those of registrations and of zones
        self.assertEqual([1 + counts + 1] * 6, [rows for rows, *_ in costs[0][1:]])
        self.assertEqual([1, 0, 0, 0, 1, 0], [decoded for _, decoded, _ in costs[0][1:]])

    def costs(self, count):
        """Return the cost of each kind of change in a site of ``count`` pod managers."""
        for number in range(count):
            if f"p{number:02}" not in self.store.load_podms():
                self.add(f"p{number:02}")
        self.room()
        claims = []
        return [
            self.work(lambda: None),
            self.work(lambda: self.read("p03", blocks=count)),
            self.work(lambda: self.fail_reading(f"p{count // 20:02}")),
            self.work(lambda: claims.append(self.claimed())),
            self.work(lambda: self.store.claims.release(claims[0])),
            self.work(lambda: self.store.update_stats("p01", {"zone": f"z{count}"})),
            self.work(lambda: self.store.forget_report("p01")),
        ]

    def claimed(self):
        generation = self.store.load_podms(["p01"])["p01"].generation
        return self.store.claims.create([part("p01", generation, "c0")]).id

    def test_a_claim_reads_nothing_again(self):
        self.add("a")
        self.room()
        decoded = self.counts(self.process).podms_decoded
        self.assertEqual(201, self.call("POST", "/v1/claims", SMALL).status_code)
        self.assertEqual(decoded, self.counts(self.process).podms_decoded)

    def test_what_changes_reads_no_pod_manager_but_its_own(self):
        with served(EXAMPLE) as podms:
            for name in ("gpu-east", "general-1", "gpu-north"):
                self.store.register(Registration(name=name, url=podms[name].url))
            self.read_podms()
            self.process.reader.stop(10)
            before = self.settled(podms)
            result = self.call("POST", "/v1/nodes", SMALL)
            self.assertTrue(self.process.operations.wait(60))
            node = self.call("GET", result.headers["location"]).json["result"]["nodes"][0]
            asked = {name for name, one in podms.items() if asked_of(one) != before[name]}
            self.assertEqual({node["podm"]}, asked)

    def settled(self, podms):
        """Return the number of requests to each, after ended event streams have logged out."""
        before = None
        for _ in range(100):
            counts = {name: asked_of(one) for name, one in podms.items()}
            if counts == before:
                return counts
            before = counts
            time.sleep(0.2)
        raise AssertionError("the requests do not end")


class TestEngine(FollowingCase):
    """The engine of a process stays until its files or settings change."""

    def setUp(self):
        super().setUp()
        self.add("a")
        self.room()
        self.engine = self.process.engines._engine

    def test_what_is_wrong_with_a_request_does_not_end_it(self):
        for body in ({"request": {"flavor": "nope"}}, {"request": {"flavor": "small",
                     "podms": ["nope"]}}, {}):  # fmt: skip
            self.assertGreaterEqual(self.call("POST", SELECT, body).status_code, 400)
        self.assertIs(self.engine, self.process.engines._engine)

    def test_a_file_that_changed_ends_it(self):
        home = self.folder / "valence-sched"
        home.mkdir(exist_ok=True)
        for name, text in (
            ("policies.yaml", "policies: [{name: mine, filters: [enabled]}]\n"),
            ("flavors.yaml", "flavors: [{name: tiny, properties: {processor: {total_cores: 1}}}]"),
            ("resources.yaml", "resources: [{name: licences, total: 3, podms: {a: 0}}]\n"),
        ):
            with self.subTest(name):
                (home / name).write_text(text)
                self.room()
                self.assertIsNot(self.engine, self.process.engines._engine)
                self.engine = self.process.engines._engine
        tiny = {"request": {"flavor": "tiny", "policy": "mine"}}
        self.assertEqual({"a": 3}, self.room_of(self.client, tiny))
        self.assertIs(self.engine, self.process.engines._engine)

    def test_a_defect_ends_it(self):
        with (
            mock.patch.object(Follower, "decider", side_effect=KeyError),
            self.assertLogs("valence_sched.service", "ERROR"),
        ):
            self.assertEqual(500, self.call("POST", SELECT, SMALL).status_code)
        self.assertEqual([{"a": 3}] * 2, self.room())
        self.assertIsNot(self.engine, self.process.engines._engine)

    def test_the_state_may_be_restored_from_a_backup(self):
        """Lower counts of the change log than before mean another state."""
        self.read("a", blocks=1)
        with sqlite3.connect(self.folder / "backup") as backup:
            source = sqlite3.connect(self.folder / "state.sqlite")
            source.backup(backup)
        for blocks in (2, 1, 2):
            self.read("a", blocks=blocks)
        self.assertEqual([{"a": 2}] * 2, self.room())
        backup.backup(source)
        self.assertEqual([{"a": 1}] * 2, self.room())
        source.close()
        backup.close()

    def test_a_reading_may_be_too_old_to_decide_on(self):
        self.client = self.new_client(max_age_s=60.0)
        for path in (SELECT, "/v1/claims"):
            self.check_problem(self.call("POST", path, SMALL), 503, "inventory_stale", "'a': read")
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.store.remember(podm("a", read_at=now))
        self.assertEqual(200, self.call("POST", SELECT, SMALL).status_code)

    def test_an_end_waits_for_no_request(self):
        with self.process.engines.reading():
            self.assertFalse(self.process.engines.close(0.01))
        self.assertTrue(self.process.engines.close(0.01))
        self.assertIsNone(self.process.engines._engine)
        self.assertEqual([{"a": 3}] * 2, self.room(), "it would go on")

    def test_nothing_is_noted_for_ever(self):
        for _ in range(3):
            self.call("POST", "/v1/claims", SMALL)
        self.assertFalse(self.process.engines._effects)


class TestAway(FollowingCase):
    """An unavailable state causes a one-line error, and the known data stay."""

    def setUp(self):
        super().setUp()
        for name in ("a", "b"):
            self.add(name)
        self.room()
        self.away = False
        self.databases = [self.counts_store()._database, self.process._state.store()._database]
        for database in self.databases:
            self.listen(database)

    def counts_store(self):
        return self.process.engines._engine._stored.store

    def listen(self, database):
        for engine in {database.reader, database.writer}:
            sa.event.listen(engine, "checkout", self.refuse)

    def lose_state(self):
        """Close all connections to the state, and refuse others until it is available again."""
        self.away = True
        for database in self.databases:
            database.close()

    def refuse(self, _connection, _record, _proxy):
        if self.away:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise sa.exc.OperationalError("SELECT", {}, error)

    def test_it_is_told_in_one_line_and_nothing_is_read_again(self):
        engine, decoded = self.process.engines._engine, self.counts_store().counts.podms_decoded
        self.lose_state()
        with self.assertLogs("valence_sched.service", "WARNING"):
            for path, body in ((SELECT, SMALL), ("/v1/claims", SMALL)):
                result = self.call("POST", path, body)
                self.check_problem(result, 503, "store_failed")
                self.assertEqual("1", result.headers["retry-after"])
                self.assertNotIn("\n", result.json["detail"])
        self.away = False
        self.read("b", blocks=1)
        self.assertEqual([{"a": 3, "b": 1}] * 2, self.room())
        self.assertIs(engine, self.process.engines._engine)
        self.assertEqual(decoded + 1, self.counts_store().counts.podms_decoded)

    def test_it_is_not_ready_and_says_nothing_of_where(self):
        self.assertEqual(200, self.call("GET", "/healthcheck").status_code)
        self.lose_state()
        with self.assertLogs("valence_sched.server", "WARNING") as logs:
            for _ in range(2):
                result = self.call("GET", "/healthcheck")
        self.assertEqual((503, "failing"), (result.status_code, result.json["status"]))
        self.assertNotIn(str(self.folder), result.text)
        self.assertIn(str(self.folder), logs.output[0])
        self.assertEqual(1, len(logs.output), "it is logged once")
        self.assertEqual(200, self.call("GET", "/healthcheck/alive").status_code)
        self.assertIn("valence_scheduler_state_up 0.0", self.call("GET", "/metrics").text)
        self.away = False
        self.assertEqual(200, self.call("GET", "/healthcheck").status_code)
