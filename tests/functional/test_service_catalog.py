# SPDX-License-Identifier: Apache-2.0
"""The scheduler's service in a cloud's catalogue: found by ``openstack`` where nothing is named."""

from http.server import BaseHTTPRequestHandler

from tests.functional.cloud import PASSWORD, TOKEN, Cloud
from tests.functional.programs import SITE, Case, run
from tests.loopback import LoopbackServer
from tests.service.serving import serving
from valence_sched.service.settings import ServiceSettings

LIST = ("podm", "list", "-f", "json", "-c", "Podm", "-c", "Free Cores")
NOWHERE = "http://127.0.0.1:9"


class Asking(BaseHTTPRequestHandler):
    """A service that asks who it is, and lists nothing to the one who has the token."""

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
        """Say nothing."""


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
