# SPDX-License-Identifier: Apache-2.0
"""Hardware that Ironic uses is not changed by a command or a service."""

import json
import os
import threading
import time
import unittest
import urllib.request
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from tests.baremetal import FakeIronic, node
from tests.functional.cloud import Cloud
from tests.functional.programs import PROGRAMS, SITE, Case, run
from tests.loopback import LoopbackServer
from tests.service.serving import serving
from valence_sched.app import App
from valence_sched.errors import BaremetalUnavailable, HardwareInUse
from valence_sched.model.baremetal import IronicSettings
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.model.request_spec import RequestSpec
from valence_sched.server.wiring import app_maker
from valence_sched.service.settings import KeystoneSettings, ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

OURS, THEIRS = PROGRAMS
AWAY = "http://127.0.0.1:9"
URL = "VALENCE_SCHED_IRONIC_URL"
REAL = os.environ.get("VALENCE_SCHED_TEST_IRONIC", "http://127.0.0.1:35810")
#: A pod manager without composed nodes.
FAULT = "status:500:POST:/redfish/v1/Systems@gpu-north"
HOMES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


class IronicCase(Case):
    """A test case with a composed node, and an Ironic without nodes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        podms = cls.enterClassContext(served(SITE, fail=(FAULT,)))
        cls.podm, cls.failing = podms["gpu-east"], podms["gpu-north"]

    def setUp(self):
        self.state = f"{self.folder}/{self.id()}.sqlite"
        app = App(environ=dict.fromkeys(HOMES, str(self.folder)))
        with closing(app.engine(Selection(live=ReadOptions(state=self.state)))) as engine:
            engine.register(Registration(name="gpu-east", url=self.podm.url))
            flavor = app.config.flavor("small")
            request = app.config.compile_request(RequestSpec(flavor="small"), flavor)
            (node,) = engine.compose(request).nodes
        self.node = {"Node": node.id, "URI": node.uri}
        self.ironic = FakeIronic()
        self.addCleanup(self.ironic.close)
        self.written = self.writes()

    def podms(self, *words, program=OURS, **more):
        return run(program, "podm", *words, "--state", self.state, **more)

    def writes(self):
        """Return the writes to the pod manager, without logins."""
        return [(one.method, one.path) for one in self.podm.requests
                if one.method != "GET" and "Sessions" not in one.path]  # fmt: skip

    def enrol(self, uri, **fields):
        """Register a system of the pod manager in Ironic; it is in use unless fields set another
        state.
        """
        info = {"redfish_address": self.podm.url + "/", "redfish_system_id": uri and f"{uri}/"}
        fields = {"provision_state": "active", "driver_info": info, **fields}
        one = node("rack-1", **fields)
        self.ironic.nodes = [one]
        return one

    def check(self, code, told, *words, rest="", **more):
        """Check that a command is refused and changes nothing on the pod manager."""
        done = self.podms(*words, **more)
        self.assertEqual(code, done.code, done)
        self.assertRegex(done.out + done.err, told)
        self.assertEqual(self.written, self.writes())
        return done

    def check_plan(self, url):
        """Compose a plan of which one node fails; Ironic uses all other systems.

        The nodes that were composed are not decomposed.
        """
        plan, more = f"{self.folder}/{self.id()}.json", {URL: url}
        self.assertEqual(0, self.podms("create", "gpu-north", self.failing.url).code)
        done = self.podms("schedule", "--flavor", "small", "--count", "2", "--anti-affinity",
                          "podm", "--plan", plan)  # fmt: skip
        self.assertEqual(0, done.code, done)
        before = {row["Node"] for row in self.podms("node", "list", "-f", "json").data}
        done = self.podms("apply", plan, **more)
        self.assertEqual(7, done.code, done)
        told = (
            r"not verified: gpu-east: \S+ remains, although .* in use in Ironic as node .* active: "
        )
        self.assertRegex(done.err, told)
        after = {row["Node"] for row in self.podms("node", "list", "-f", "json").data}
        (stays,) = after - before
        self.assertIn(f"composed: node {stays}: ", done.err)
        new = self.writes()[len(self.written) :]
        self.assertEqual(1, new.count(("POST", "/redfish/v1/Systems")))
        self.assertNotIn("DELETE", [method for method, _path in new])
        self.written = self.writes()
        self.check(6, "in use in Ironic as", "node", "delete", stays, **more)
        return stays

    def serve(self, ironic, **words):
        settings = ServiceSettings(state=f"sqlite:///{self.state}", ironic=ironic, **words)
        environ = dict.fromkeys(HOMES, str(self.folder / "service"))
        return self.enterContext(serving(settings, environ))

    def delete(self, url, *words):
        return run(OURS, "podm", "node", "delete", self.node["Node"], *words, VALENCE_SCHED_URL=url)

    def check_service(self, url, told):
        """Request the deletion of the node twice from a service, which refuses."""
        done = self.delete(url)
        self.assertEqual(6, done.code, done)
        self.assertRegex(done.err, told)
        request = urllib.request.Request(f"{url}/v1/nodes/{self.node['Node']}", method="DELETE")
        with urllib.request.urlopen(request) as answer:
            place = answer.headers["Location"]
        problem = self.operation(url, place)["problem"]
        self.assertEqual((409, "hardware_in_use", 6),
                         (problem["status"], problem["code"], problem["exit_code"]))  # fmt: skip
        self.assertRegex(problem["detail"], told)
        self.assertEqual(self.written, self.writes())

    def operation(self, url, place):
        while True:
            with urllib.request.urlopen(url + place) as answer:
                found: Any = json.load(answer)
            if found["state"] != "running":
                return found
            time.sleep(0.02)


class TestCommands(IronicCase):
    """Both programs, with an Ironic from the environment."""

    def test_a_node_with_a_server_is_not_deleted_by_either_program(self):
        instance = "22222222-2222-4222-8222-222222222222"
        one = self.enrol(self.node["URI"], instance_uuid=instance, maintenance=True,
                         instance_info={"display_name": "db-7"})  # fmt: skip
        told = (f"^node {self.node['Node']}: gpu-east: in use in Ironic as node {one['uuid']} "
                r"\(called 'rack-1'\), of server 'db-7': provision state active; "
                f"instance {instance}; in maintenance: undeploy it there first\n$")  # fmt: skip
        words = ("node", "delete", self.node["Node"])
        for program in PROGRAMS:
            self.check(6, told, *words, program=program, **{URL: self.ironic.url})
        one.update(provision_state="available", instance_uuid=None)
        self.assertEqual((0, "", ""), self.podms(*words, **{URL: self.ironic.url}))
        self.assertEqual([], self.podms("node", "list", "-f", "json").data)

    def test_blocks_of_a_system_with_a_server_are_not_composed(self):
        (planned,) = self.podms("schedule", "--flavor", "small", "-f", "json").data
        plan = f"{self.folder}/{self.id()}.json"
        self.assertEqual(0, self.podms("schedule", "--flavor", "small", "--plan", plan).code)
        (block,) = planned["Blocks"]
        uri = "/redfish/v1/Systems/physical-2"
        document = dict(self.podm.documents.get(block), ComputerSystems=[{"@odata.id": uri}])
        before = self.podm.documents.copy()
        self.addCleanup(lambda: self.podm.documents.restore(before))
        self.podm.documents.put(block, document)
        self.enrol(uri)
        claim = self.podms("schedule", "--flavor", "small", "--claim", "--seed", "0", "-f", "json")
        told = r"not composed: gpu-east: in use in Ironic as node .* \(called 'rack-1'\)"
        more = {URL: self.ironic.url}
        self.check(6, told, "claim", "compose", claim.data[0]["Claim"], **more)
        self.check(6, told, "apply", plan, **more)
        self.check(6, told, "schedule", "--flavor", "small", "--compose", **more)
        self.assertEqual(1, len(self.podms("claim", "list", "-f", "json").data))

    def test_a_node_of_a_plan_that_failed_is_not_taken_apart_where_ironic_uses_it_by_then(self):
        self.enrol(None)
        stays = self.check_plan(self.ironic.url)
        self.ironic.nodes.clear()
        done = self.podms("node", "delete", stays, **{URL: self.ironic.url})
        self.assertEqual((0, "", ""), done)

    def test_what_a_reaper_may_not_take_apart_is_left_and_named(self):
        self.enrol(self.node["URI"])
        with Store(f"sqlite:///{self.state}") as store:
            store.nodes.forget(self.node["Node"])
        words = ("claim", "reap", "-f", "json")
        for more in (("--dry-run",), ()):
            done = self.check(6, "unchanged: gpu-east: in use in Ironic", *words, *more,
                              **{URL: self.ironic.url})  # fmt: skip
            self.assertIn(self.node["URI"], [row["ID"] for row in done.data])
        self.check(5, "unchanged: Ironic at .* does not report", *words, **{URL: AWAY})
        done = self.podms(*words, "--no-ironic", **{URL: AWAY})
        self.assertEqual(0, done.code, done)
        self.assertIn("decomposed", done.out)

    def test_where_ironic_does_not_answer_nothing_is_claimed_composed_or_deleted(self):
        claims = [row["ID"] for row in self.podms("claim", "list", "-f", "json").data]
        for url in (AWAY, self.podm.url):
            for words in (("node", "delete", self.node["Node"]),
                          ("schedule", "--flavor", "small", "--compose")):  # fmt: skip
                told = (
                    "(?m)^(node .*: )?Ironic at .* does not report its nodes: found .*--no-ironic"
                )
                self.check(5, told, *words, **{URL: url})
        rows = self.podms("claim", "list", "-f", "json").data
        self.assertEqual(claims, [row["ID"] for row in rows])
        done = self.podms("node", "delete", self.node["Node"], "--no-ironic", **{URL: AWAY})
        self.assertEqual((0, "", ""), done)

    def test_the_catalogue_of_the_cloud_names_ironic(self):
        self.enrol(self.node["URI"])
        words = ("node", "delete", self.node["Node"])
        cloud = Cloud(ironics=[("R", AWAY), ("S", f"{self.ironic.url}/v1/")])
        self.addCleanup(cloud.close)
        here = cloud.environment | {"OS_REGION_NAME": "S"}
        wrong = here | {"OS_PASSWORD": "wrong"}
        alone = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": self.ironic.url}
        for code, told, more in (
            (6, r"in use in Ironic as node .* \(called 'rack-1'\)", here),
            (5, f"Ironic at {AWAY} does not report", cloud.environment),
            (5, "no hardware is changed before the cloud names its Ironic", wrong),
            (6, r"in use in Ironic as node .* \(called 'rack-1'\)", wrong | {URL: self.ironic.url}),
            (6, r"in use in Ironic as node .* \(called 'rack-1'\)", alone),
        ):
            with self.subTest(told, **more):
                self.check(code, told, *words, program=THEIRS, **more)
        without = Cloud()
        self.addCleanup(without.close)
        done = self.podms(*words, program=THEIRS, **without.environment)
        self.assertEqual((0, "", ""), done)


class TestService(IronicCase):
    """The service, which queries Ironic by its own settings."""

    def test_a_node_with_a_server_is_not_deleted(self):
        one = self.enrol(self.node["URI"])
        url = self.serve(IronicSettings(url=self.ironic.url))
        told = rf"in use in Ironic as node {one['uuid']} \(called 'rack-1'\)"
        self.check_service(url, told)

    def test_a_client_does_not_decide_whether_ironic_is_asked(self):
        url = self.serve(IronicSettings(url=self.ironic.url))
        done = self.delete(url, "--no-ironic")
        told = "--no-ironic: a service uses its own Ironic setting\n"
        self.assertEqual((2, "", told), done)

    def test_where_ironic_does_not_answer_nothing_is_changed(self):
        url = self.serve(IronicSettings(url=AWAY))
        self.assertEqual(5, self.delete(url).code)
        done = run(OURS, "podm", "schedule", "--flavor", "small", "--compose",
                   VALENCE_SCHED_URL=url)  # fmt: skip
        self.assertEqual(5, done.code, done)
        self.assertEqual(self.written, self.writes())

    def test_a_service_may_do_without(self):
        self.enrol(self.node["URI"])
        self.assertEqual((0, "", ""), self.delete(self.serve(False)))

    def test_the_catalogue_of_keystone_names_ironic(self):
        self.enrol(self.node["URI"])
        for ironics, error in (
            ([("R", self.ironic.url)], HardwareInUse),
            ([("R", AWAY)], BaremetalUnavailable),
            ([], None),
        ):
            with self.subTest(ironics):
                cloud = Cloud(ironics=ironics)
                self.addCleanup(cloud.close)
                words = cloud.environment
                keystone = KeystoneSettings(
                    auth_url=words["OS_AUTH_URL"], username=words["OS_USERNAME"],
                    password=PasswordReference(env="OS_PASSWORD"), interface="public",
                )  # fmt: skip
                settings = ServiceSettings(state=f"sqlite:///{self.state}", keystone=keystone)
                make_app = app_maker(settings, words | dict.fromkeys(HOMES, str(self.folder)))
                self.check_engine(make_app, error)

    def check_engine(self, make_app, error):
        selection = Selection(live=ReadOptions(state=self.state))
        errors = list(make_app().engine(selection).delete_nodes([self.node["Node"]]))
        self.assertEqual([error] if error else [], [type(one) for one in errors])


def _real(method: str, path: str, body: Any = None) -> Any:
    headers = {"X-OpenStack-Ironic-API-Version": "latest", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{REAL}/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = answer.read()
    return json.loads(content) if content else None


def _listens() -> bool:
    try:
        return bool(_real("GET", "/"))
    except (OSError, ValueError):
        return False


class SilentBmc(BaseHTTPRequestHandler):
    """A BMC that answers, with 404, only after ``released`` is set."""

    released: ClassVar[threading.Event]

    def do_GET(self) -> None:
        self.released.wait(60)
        self.send_error(404)

    def log_message(self, *_words: Any) -> None:
        """Log nothing."""


class TestRealIronic(IronicCase):
    """A real Ironic: nodes of the hardware type ``fake-hardware`` that refer to a system."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not _listens():
            raise unittest.SkipTest(
                f"no Ironic at {REAL}: VALENCE_SCHED_TEST_IRONIC names one without a login"
            )

    def setUp(self):
        super().setUp()
        info = {"redfish_address": self.podm.url, "redfish_system_id": self.node["URI"],
                "redfish_password": "geheim"}  # fmt: skip
        self.name = f"test-{self.node['Node']}"
        self.named = rf"in use in Ironic as node \S+ \(called '{self.name}'\)"
        self.path = self.make(driver="fake-hardware", name=self.name, driver_info=info,
                              resource_class="baremetal.test")  # fmt: skip

    def make(self, **fields):
        path = f"/nodes/{_real('POST', '/nodes', fields)['uuid']}"
        self.addCleanup(_real, "DELETE", path)
        self.addCleanup(_real, "PUT", f"{path}/maintenance", {"reason": "it is deleted"})
        return path

    def reach(self, target, state, **more):
        _real("PUT", f"{self.path}/states/provision", {"target": target, **more})
        self.wait(self.path, provision_state=state, reservation=None)

    def wait(self, path, **fields):
        until = time.monotonic() + 120
        while True:
            found = _real("GET", path)
            if fields == {name: found[name] for name in fields}:
                return
            self.assertLess(time.monotonic(), until, found)
            time.sleep(0.1)

    def change(self, path=None, **fields):
        """Set fields of the node, or remove fields that are None."""
        for name, value in fields.items():
            set_ = {"op": "add", "path": f"/{name}", "value": value}
            _real("PATCH", path or self.path,
                  [set_ if value else {"op": "remove", "path": f"/{name}"}])  # fmt: skip

    def check_refused(self, told, *words, **more):
        words = words or ("node", "delete", self.node["Node"])
        self.check(6, f"{self.named}.*{told}", *words, **{URL: REAL, **more})

    def check_allowed(self):
        """Delete the node, and create another node that Ironic has in its place."""
        done = self.podms("node", "delete", self.node["Node"], **{URL: REAL})
        self.assertEqual((0, "", ""), done)
        done = self.podms("schedule", "--flavor", "small", "--compose", "-f", "json", **{URL: REAL})
        self.assertEqual(0, done.code, done)
        (self.node,) = done.data
        self.change(**{"driver_info/redfish_system_id": self.node["URI"]})
        self.written = self.writes()

    def test_a_node_is_deleted_only_while_nothing_uses_it(self):
        words = ("node", "delete", self.node["Node"])
        self.reach("manage", "manageable")
        self.reach("provide", "available")
        self.change(instance_uuid="22222222-2222-4222-8222-222222222222")
        self.check_refused("instance 22222222-2222.*: delete the instance first")
        self.change(instance_uuid=None)
        self.reach("active", "active")
        for program in PROGRAMS:
            self.check_refused("provision state active", *words, program=program)
        alone = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": REAL}
        self.check(6, self.named, *words, program=THEIRS, **alone)
        _real("PUT", f"{self.path}/maintenance", {"reason": "a trial"})
        self.check_refused("provision state active; in maintenance")
        _real("DELETE", f"{self.path}/maintenance")
        self.change(**{"driver_info/redfish_system_id": "/redfish/v1/Systems/another"})
        self.check_allowed_elsewhere(words)
        self.change(**{"driver_info/redfish_system_id": self.node["URI"]})
        self.reach("deleted", "available")
        self.assertEqual((0, "", ""), self.podms(*words, **{URL: REAL}))

    def check_allowed_elsewhere(self, words):
        """Check that a node of another system does not protect the node."""
        more = {URL: REAL}
        done = self.podms("schedule", "--flavor", "small", "--compose", "-f", "json", **more)
        (other,) = done.data
        done = self.podms(*words[:-1], other["Node"], **more)
        self.assertEqual((0, "", ""), done)
        self.written = self.writes()

    def test_idle_states_are_free_in_maintenance_too_and_failed_ones_are_not(self):
        self.check_allowed()
        self.reach("manage", "manageable")
        self.check_allowed()
        step = {"interface": "deploy", "step": "none_such"}
        self.reach("clean", "clean failed", clean_steps=[step])
        self.check_refused("provision state clean failed.*: manage it there first")
        self.reach("manage", "manageable")
        self.reach("provide", "available")
        self.check_allowed()
        _real("PUT", f"{self.path}/maintenance", {"reason": "a trial"})
        self.check_allowed()
        _real("DELETE", f"{self.path}/maintenance")
        self.reach("active", "active")
        self.reach("service", "service failed", service_steps=[step])
        self.check_refused("provision state service failed.*: undeploy it there first")

    def test_an_allocation_keeps_a_node(self):
        self.reach("manage", "manageable")
        self.reach("provide", "available")
        _real("PUT", f"{self.path}/states/power", {"target": "power on"})
        self.wait(self.path, power_state="power on", reservation=None)
        body = {"resource_class": "baremetal.test",
                "candidate_nodes": [self.path.removeprefix("/nodes/")]}  # fmt: skip
        allocation = _real("POST", "/allocations", body)["uuid"]
        self.wait(f"/allocations/{allocation}", state="active")
        self.check_refused(f"allocation {allocation}: delete the allocation there first")
        self.check_service(self.serve(IronicSettings(url=REAL)), f"allocation {allocation}")
        _real("DELETE", f"/allocations/{allocation}")
        self.check_allowed()

    def test_a_lock_keeps_a_node_that_only_a_port_tells(self):
        SilentBmc.released = released = threading.Event()
        bmc = LoopbackServer(SilentBmc)
        self.addCleanup(bmc.close)
        self.addCleanup(released.set)
        bmc.start()
        info = {"redfish_address": bmc.url, "redfish_system_id": "/redfish/v1/Systems/1"}
        off = {f"{one}_interface": f"no-{one}" for one in ("bios", "raid", "vendor", "firmware")}
        path = self.make(driver="redfish", driver_info=info, deploy_interface="ramdisk",
                         boot_interface="redfish-virtual-media", **off)  # fmt: skip
        nics = self.podm.documents.get(f"{self.node['URI']}/EthernetInterfaces")
        (first, *_rest) = nics["Members"]
        address = self.podm.documents.get(first["@odata.id"])["MACAddress"]
        body = {"node_uuid": path.removeprefix("/nodes/"), "address": address}
        _real("POST", "/ports", body)
        self.addCleanup(self.wait, path, reservation=None)
        _real("PUT", f"{path}/states/power", {"target": "power off"})
        self.assertTrue(_real("GET", path)["reservation"])
        told = rf"in use in Ironic as node {body['node_uuid']}: locked by conductor \S+: wait until"
        self.check(6, told, "node", "delete", self.node["Node"], **{URL: REAL})
        self.check_service(self.serve(IronicSettings(url=REAL)), told)
        released.set()
        self.wait(path, reservation=None)
        self.check_allowed()

    def test_a_service_deletes_a_node_only_while_nothing_uses_it(self):
        url = self.serve(IronicSettings(url=REAL))
        self.reach("manage", "manageable")
        self.reach("provide", "available")
        self.reach("active", "active")
        self.check_service(url, f"{self.named}.*provision state active")
        _real("PUT", f"{self.path}/maintenance", {"reason": "a trial"})
        self.check_service(url, "provision state active; in maintenance")
        _real("DELETE", f"{self.path}/maintenance")
        self.reach("deleted", "available")
        self.assertEqual((0, "", ""), self.delete(url))

    def test_a_node_of_a_plan_that_failed_is_not_taken_apart_where_ironic_uses_it_by_then(self):
        self.change(**{"driver_info/redfish_system_id": None})
        self.reach("manage", "manageable")
        self.reach("provide", "available")
        self.reach("active", "active")
        stays = self.check_plan(REAL)
        self.reach("deleted", "available")
        done = self.podms("node", "delete", stays, **{URL: REAL})
        self.assertEqual((0, "", ""), done)
