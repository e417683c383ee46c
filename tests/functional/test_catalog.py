# SPDX-License-Identifier: Apache-2.0
"""Pod managers in a cloud's service catalogue: named by service; no password is sent to them."""

import json
import unittest
from http.server import BaseHTTPRequestHandler
from unittest import mock

import yaml

from tests.functional.cloud import PASSWORD, TOKEN, Cloud
from tests.functional.programs import ROOT, SITE, Case, Done, run
from tests.loopback import LoopbackServer
from tests.service.serving import serving
from tests.unit.zones.in_process import made_nodes, served_tree
from valence_sched.service.settings import ServiceSettings
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

RACK = "rack-mockup"
TREE = str(ROOT / "tests" / "recorded" / RACK)
SILENT = "http://127.0.0.1:9"


class TestCatalog(Case):
    """The openstack program, a cloud and a pod manager on loopback."""

    def setUp(self):
        manager = served(TREE, settings=SimulatorSettings(login=Account("op", "word")))
        self.podm = manager.__enter__()[RACK]
        self.addCleanup(manager.__exit__, None, None, None)

    def cloud(self, *podms: tuple[str, str]) -> Cloud:
        cloud = Cloud(podms)
        self.addCleanup(cloud.close)
        return cloud

    def listed(self, cloud: Cloud, *words: str, code: int = 0, **more: str) -> Done:
        environ = cloud.environment | {"XDG_STATE_HOME": str(self.folder / "state")} | more
        words = ("podm", "list", "--from-catalog", "--request-timeout", "3", "-f", "json", *words)
        done = run("openstack", *words, **environ)
        self.assertEqual(code, done.code, done)
        for secret in (PASSWORD, TOKEN):
            self.assertNotIn(secret, done.out + done.err)
        return done

    def test_regions_and_endpoint_ids_name_those_that_do_not_answer(self):
        every = (("west", SILENT), ("east", f"{SILENT}1"), ("east", f"{SILENT}0"))
        names = {}
        for gone in (None, *every):
            cloud = self.cloud(*(one for one in every if one != gone))
            names[gone] = [row["Podm"] for row in self.listed(cloud).data]
        self.assertEqual(["east-90p", "east-91p", "west-9p"], names[None])
        for gone, left in names.items():
            self.assertEqual(left, [name for name in names[None] if name in left], gone)
            self.assertEqual(3 if gone is None else 2, len(left))

    def test_another_interface_renames_nothing_and_our_nodes_stay_ours(self):
        _, podms = self.enterContext(served_tree("rack"))
        cloud = self.cloud(("west", podms["rack"].url))
        flavor = self.write(
            "node.json", '{"name": "node", "properties": {"processor": {"total_cores": 8}}}'
        )
        state = {"XDG_STATE_HOME": str(self.folder / "state")}

        def podm(*words: str, interface: str = "public", code: int = 0) -> Done:
            environ = cloud.environment | state | {"OS_INTERFACE": interface}
            done = run("openstack", "podm", *words, **environ)
            self.assertEqual(code, done.code, done)
            return done

        compose = ("schedule", "--from-catalog", "--flavor", flavor, "--compose", "-f", "json")
        (node,) = podm(*compose).data
        name = node["Podm"]
        self.assertRegex(name, "^west-[0-9a-f]{12}$")
        (listed,) = self.listed(cloud, OS_INTERFACE="internal").data
        self.assertEqual((name, 1), (listed["Podm"], listed["Nodes"]))
        live = ("node", "list", "--from-catalog", "--live", "-f", "json")
        (found,) = podm(*live, interface="internal").data
        self.assertEqual((node["Node"], name, "COMPOSED"),
                         (found["Node"], found["Podm"], found["State"]))  # fmt: skip
        self.assertIn(f"{name!r} still has 1 ", podm("delete", name, code=1).err)
        podm("node", "delete", "--from-catalog", node["Node"], interface="internal")
        podm("delete", name)
        self.assertEqual([], made_nodes(podms))

    def test_one_region_can_be_asked_for(self):
        cloud = self.cloud(("west", SILENT), ("east", f"{SILENT}0"))
        rows = self.listed(cloud, OS_REGION_NAME="west").data
        self.assertEqual(["west-9p"], [row["Podm"] for row in rows])

    def test_every_region_can_be_asked_for_whichever_is_configured(self):
        cloud = self.cloud(("west", SILENT), ("east", f"{SILENT}0"))
        rows = self.listed(cloud, "--all-regions", OS_REGION_NAME="west").data
        self.assertEqual(["east-90p", "west-9p"], [row["Podm"] for row in rows])
        done = run("openstack", "podm", "list", "--all-regions", **cloud.environment)
        line = "--all-regions: only with --from-catalog\n"
        self.assertEqual((2, "", line), done)

    def test_the_region_is_the_zone(self):
        cloud = self.cloud(("west", self.podm.url))
        entries = (
            {"mine": {"url": self.podm.url, "username": "op", "password": {"env": "WORD"}}},
            {"mine": {"url": self.podm.url, "username": "op", "password": {"env": "WORD"},
                      "zone": "hall-2"}},
        )  # fmt: skip
        for entry, zone in zip(entries, ("west", "hall-2"), strict=True):
            file = self.write("podms.yaml", yaml.safe_dump({"podms": entry}))
            done = self.listed(cloud, "--podm-file", file, "-c", "Zone", WORD="word")
            self.assertEqual([{"Zone": zone}], done.data)

    def test_an_endpoint_of_a_token_is_the_pod_manager_itself(self):
        words = ("podm", "list", "--from-catalog", "--request-timeout", "3", "-f", "json")
        for more in ((), ("--os-auth-type", "admin_token")):
            given = ("--os-endpoint", self.podm.url, "--os-token", "a-token", *more)
            done = run("openstack", *given, *words)
            self.assertEqual((0, "podm"), (done.code, done.data[0]["Podm"]), done.err)
            self.assertIn("not read: podm: ", done.err)
            self.assertNotIn("a-token", done.out + done.err)

    def test_the_project_of_the_token_owns_what_is_asked_for(self):
        cloud = self.cloud(("west", self.podm.url))
        entry = {"url": self.podm.url, "username": "op", "password": {"env": "WORD"}}
        file = self.write("podms.yaml", yaml.safe_dump({"podms": {"mine": entry}}))
        report = self.folder / "report.json"
        words = ("podm", "schedule", "--podm-file", file, "--resource", "VCPU=1", "--report",
                 str(report))  # fmt: skip
        for more, owner in (
            (("--from-catalog",), "p"),
            (("--from-catalog", "--owner", "me"), "me"),
            ((), None),
        ):
            done = run("openstack", *words, *more, **cloud.environment, WORD="word")
            self.assertEqual(0, done.code, done.err)
            self.assertEqual(owner, json.loads(report.read_bytes())["request"].get("owner"))
        requests = self.write("r.yaml", "requests: [{properties: {processor: {total_cores: 1}}}]")
        words = ("podm", "schedule", "--podm-file", file, "--request-file", requests, "--report",
                 str(report), "--from-catalog")  # fmt: skip
        done = run("openstack", *words, **cloud.environment, WORD="word")
        self.assertEqual(0, done.code, done.err)
        self.assertIn('"owner":"p"', report.read_text().replace(" ", ""))

    def test_a_login_of_the_cloud_is_not_sent_to_a_pod_manager(self):
        cloud = self.cloud(("west", self.podm.url))
        done = self.listed(cloud)
        self.assertEqual("Unknown", done.data[0]["Status"])
        self.assertRegex(done.err, r"^not read: west-[0-9a-f]{12}: .*")
        internal = self.listed(cloud, OS_INTERFACE="internal")
        self.assertEqual(done.data, internal.data)  # the same service has the same name
        self.assertNotIn("POST", [seen.method for seen in self.podm.requests])

    def test_an_entry_of_its_url_names_it_and_says_how_to_log_in(self):
        cloud = self.cloud(("west", f"{self.podm.url.rstrip('/')}/"))
        entry = {"url": self.podm.url, "username": "op", "password": {"env": "WORD"}}
        other = {"url": "http://127.0.0.1:1"}
        text = yaml.safe_dump({"podms": {"mine": entry, "not-in-the-catalogue": other}})
        done = self.listed(cloud, "--podm-file", self.write("podms.yaml", text), WORD="word")
        self.assertEqual([("mine", "Online")], [(row["Podm"], row["Status"]) for row in done.data])

    def test_every_other_command_takes_it_too(self):
        cloud = self.cloud(("west", SILENT))
        for words, code in (
            (("show", "west-9p"), 0),
            (("schedule", "--flavor", "small"), 5),
            (("fit", "--flavor", "small"), 5),
        ):
            with self.subTest(words=words):
                done = run("openstack", "podm", *words, "--from-catalog", "--request-timeout", "2",
                           **cloud.environment)  # fmt: skip
                self.assertEqual(code, done.code, done)
                self.assertIn(" west-9p: http:", done.err)

    def test_a_catalogue_without_any_says_where_it_looked_and_is_no_usage_error(self):
        start = "the service catalogue has no endpoint of service type podm: "
        west = self.cloud(("west", SILENT))
        for cloud, words, more, where in (
            (self.cloud(), (), {}, "any region, interface public, project ops"),
            (west, (), {"OS_REGION_NAME": "east"}, "region east, interface public, project ops"),
            (west, (), {"OS_INTERFACE": "admin"}, "any region, interface admin, project ops"),
            (self.cloud(), ("--all-regions",), {"OS_REGION_NAME": "east"},
             "any region, interface public, project ops"),
        ):  # fmt: skip
            with self.subTest(where):
                done = self.listed(cloud, *words, code=1, **more)
                self.assertEqual(f"{start}{where}\n", done.err)

    def test_a_url_that_is_none_and_a_secret_in_it_are_refused(self):
        for url, words in ((f"http://u:{PASSWORD}@h", "user or password"), ("gopher://h", "HOST")):
            done = self.listed(self.cloud(("west", url)), code=1)
            self.assertIn("service catalogue: podm of west: ", done.err)
            self.assertIn(words, done.err)

    def test_a_failed_login_names_the_cloud_and_advises_nothing_that_was_done(self):
        cloud = self.cloud(("west", SILENT))
        for more, reason in (
            ({"OS_PASSWORD": "another"}, "who are you"),
            ({"OS_USERNAME": ""}, "Set a username"),
            (
                {
                    "OS_AUTH_URL": f"{cloud.url}/identity/v3".replace("http:", "https:"),
                    "OS_CACERT": "/no/such.pem",
                },
                "invalid path: /no/such.pem",
            ),
        ):
            done = self.listed(cloud, code=1, **more)
            url = more.get("OS_AUTH_URL", f"{cloud.url}/identity/v3")
            self.assertTrue(done.err.startswith(f"cloud at {url}: "), done.err)
            self.assertIn(reason, done.err)
            self.assertNotIn("OS_CLOUD", done.err)

    def test_a_cloud_is_needed(self):
        done = run("valence-sched", "podm", "list", "--from-catalog")
        line = "--from-catalog: only inside openstack, which has a cloud\n"
        self.assertEqual((2, "", line), done)
        done = run("openstack", "podm", "list", "--from-catalog")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertRegex(done.err, r"\Ano cloud: .*\n\Z")

    def test_nobody_logs_in_to_a_cloud_for_registered_ones(self):
        cloud = self.cloud(("west", SILENT))
        text = yaml.safe_dump({"podms": {"a": {"url": SILENT}}})
        words = ("podm", "list", "--podm-file", self.write("a.yaml", text))
        words += ("--request-timeout", "2")
        self.assertEqual(0, run("openstack", *words, **cloud.environment).code)
        self.assertEqual([], cloud.asked)


LIST = ("podm", "list", "-f", "json", "-c", "Podm", "-c", "Free Cores")
NOWHERE = "http://127.0.0.1:9"


class Asking(BaseHTTPRequestHandler):
    """A service that requires a token, and returns empty lists."""

    tokens: list[str | None]

    def do_GET(self) -> None:
        token = self.headers.get("X-Auth-Token")
        self.tokens.append(token)
        code, body = (200, b"[]") if token == TOKEN else (401, b"{}")
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


class TestServiceCatalog(Case):
    """The openstack program, a cloud and a service on loopback."""

    def setUp(self):
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        state = f"sqlite:///{self.folder}/{self.id()}.sqlite"
        settings = ServiceSettings(state=state, inventories=(SITE,))
        environ = dict.fromkeys(homes, str(self.folder))
        self.url = self.enterContext(serving(settings, environ))

    def cloud(self, *schedulers: tuple[str, str]) -> Cloud:
        cloud = Cloud(schedulers=schedulers)
        self.addCleanup(cloud.close)
        return cloud

    def run_in(self, cloud, *words, **more):
        done = run("openstack", *words, **cloud.environment, **more)
        for secret in (PASSWORD, TOKEN):
            self.assertNotIn(secret, done.out + done.err)
        return done

    def test_the_service_of_the_catalogue_decides(self):
        cloud = self.cloud(("R", self.url))
        here = run("openstack", *LIST, "--inventory", SITE)
        self.assertEqual(here, self.run_in(cloud, *LIST))

    def test_one_of_several_regions_is_named(self):
        cloud = self.cloud(("east", self.url), ("west", NOWHERE))
        done = self.run_in(cloud, *LIST)
        self.assertEqual(1, done.code)
        self.assertIn("in several regions (east, west): name one", done.err)
        self.assertEqual(0, self.run_in(cloud, *LIST, OS_REGION_NAME="east").code)
        self.assertIn(NOWHERE, self.run_in(cloud, *LIST, OS_REGION_NAME="west").err)

    def test_a_region_and_an_interface_that_the_catalogue_lacks_are_no_empty_list(self):
        cloud = self.cloud(("east", self.url))
        for more, told in (
            ({"OS_REGION_NAME": "East"}, "no region 'East': name one with --os-region-name"),
            ({"OS_INTERFACE": "admin"}, "podm-scheduler, but not of interface admin: name one"),
        ):
            with self.subTest(told):
                done = self.run_in(cloud, "podm", "claim", "list", **more)
                self.assertEqual((1, ""), (done.code, done.out))
                self.assertIn(f"service catalogue: {told}", done.err)

    def test_a_token_without_a_scope_is_no_empty_list(self):
        cloud = self.cloud(("east", self.url))
        token = cloud._token()
        del token["token"]["catalog"]
        with mock.patch.object(cloud, "_token", lambda: token):
            done = self.run_in(cloud, "podm", "claim", "list")
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertIn("the token has no scope and therefore no catalogue: name", done.err)

    def test_what_is_named_wins_over_the_catalogue(self):
        cloud = self.cloud(("R", NOWHERE))
        state = str(self.folder / "own.sqlite")
        for words, more in (
            ((*LIST, "--inventory", SITE), {}),
            (LIST, {"VALENCE_SCHED_INVENTORY": SITE}),
            (LIST, {"VALENCE_SCHED_URL": self.url}),
            (("--os-scheduler-endpoint", self.url, *LIST), {}),
            (("podm", "claim", "list", "--state", state), {}),
        ):
            with self.subTest(words=words, **more):
                done = self.run_in(cloud, *words, **more)
                self.assertEqual((0, []), (done.code, cloud.asked), done.err)

    def test_where_the_catalogue_has_none_it_is_decided_here(self):
        cloud, state = self.cloud(), str(self.folder / "home")
        done = self.run_in(cloud, "podm", "claim", "list", "-f", "json", XDG_STATE_HOME=state)
        self.assertEqual((0, []), (done.code, done.data), done.err)
        self.assertIn("POST /identity/v3/auth/tokens", cloud.asked)

    def test_the_endpoint_of_a_login_without_a_catalogue_is_sent_no_command(self):
        cloud = self.cloud()
        for kind, login in (("none", {}), ("http_basic", {"username": "op", "password": "secret"})):
            clouds = {"alone": {"auth_type": kind, "auth": {"endpoint": cloud.url, **login}}}
            file = self.write("clouds.yaml", yaml.safe_dump({"clouds": clouds}))
            given = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "alone"}
            given["XDG_STATE_HOME"] = str(self.folder / "alone")
            done = run("openstack", "podm", "claim", "list", "-f", "json", **given)
            self.assertEqual((0, "[]\n", []), (done.code, done.out, cloud.asked), (kind, done.err))
            clouds["alone"]["podm_scheduler_endpoint_override"] = self.url
            self.write("clouds.yaml", yaml.safe_dump({"clouds": clouds}))
            self.assertEqual(0, run("openstack", *LIST, **given).code)
            self.assertEqual([], cloud.asked)

    def test_the_token_goes_to_a_service_that_asks_who_it_is(self):
        Asking.tokens = []
        server = LoopbackServer(Asking)
        server.start()
        self.addCleanup(server.close)
        url = server.url
        for schedulers, words in (
            ([("R", url)], LIST),
            ([], ("--os-scheduler-endpoint", url, *LIST)),
        ):
            with self.subTest(words=words):
                Asking.tokens.clear()
                done = self.run_in(self.cloud(*schedulers), *words)
                self.assertEqual((0, []), (done.code, done.data), done.err)
                self.assertEqual([None, TOKEN], Asking.tokens)


FLAVORS = ("podm", "flavor", "list", "-f", "json")
OTHER = ("token", "issue")


class TestVersions(unittest.TestCase):
    """``--os-podm-api-version`` and the variable."""

    def test_every_name_of_the_version_has_the_commands(self):
        for name in ("1", "1.0", "latest"):
            with self.subTest(name):
                done = run("openstack", "--os-podm-api-version", name, *FLAVORS)
                self.assertEqual((0, ""), (done.code, done.err))
                done = run("openstack", *FLAVORS, OS_PODM_API_VERSION=name)
                self.assertEqual((0, ""), (done.code, done.err))

    def test_a_version_that_does_not_exist_is_told_to_our_commands_only(self):
        usual = run("openstack", *OTHER)
        for name in ("7", "latest", "1.0", "x y"):
            with self.subTest(name):
                self.assertEqual(usual, run("openstack", *OTHER, OS_PODM_API_VERSION=name))
        done = run("openstack", *FLAVORS, OS_PODM_API_VERSION="7")
        line = "OS_PODM_API_VERSION: no API version '7': 1, 1.0, latest\n"
        self.assertEqual((2, "", line), done)
        done = run("openstack", "--os-podm-api-version", "1", *FLAVORS, OS_PODM_API_VERSION="7")
        self.assertEqual(0, done.code, done.err)
        done = run("openstack", "--os-podm-api-version", "7", *FLAVORS)
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("no API version '7': 1, 1.0, latest", done.err)


if __name__ == "__main__":
    unittest.main()
