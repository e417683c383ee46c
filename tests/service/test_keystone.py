# SPDX-License-Identifier: Apache-2.0
"""Keystone: tokens of a real one on loopback, their permissions, and their secrecy."""

import contextlib
import io
import logging
import os
import socket
import tempfile
import time
import types
from pathlib import Path
from types import MappingProxyType
from unittest import mock

from keystoneauth1.identity import v3

from tests.service.application import EXAMPLE, SMALL, ApplicationCase, testing_login
from tests.service.keystone_server import ADMIN_PASSWORD, keystone, short_lived_tokens
from tests.service.serving import wait_for
from tests.unit.certificates import LOOPBACK, server_context
from tests.unit.zones.test_logins import MALFORMED_TOKENS, KeystoneAndChild
from valence_sched.model.registration import PasswordReference
from valence_sched.server.keystone import cloud_login
from valence_sched.server.wiring import configuration_problems
from valence_sched.service.routes import ROUTES
from valence_sched.service.settings import KeystoneSettings, RateSettings
from valence_sched.service.users import BASIC

EXPIRATION_S = 6
REVOKED_S = 1.1  # Keystone also revokes tokens issued within the second of a change
ADMIN_SCOPE = {"project": {"name": "admin", "domain": {"id": "default"}}}
_STACK = contextlib.ExitStack()
SITE = types.SimpleNamespace()
TOKENS: dict[str, str] = {}
PROJECTS: dict[str, str] = {}


def setUpModule():
    """Start one Keystone for all tests, with two projects and users of each role."""
    SITE.server = _STACK.enter_context(keystone())
    PROJECTS.update({name: SITE.server.make_project(name) for name in ("red", "blue")})
    for name, role, where in (
        ("rea", "reader", "red"),
        ("mo", "member", "red"),
        ("ann", "admin", "red"),
        ("eve", "member", "blue"),
        ("sys", "reader", "system"),
    ):
        user = SITE.server.make_user(name, f"{name}-password")
        place = "system" if where == "system" else f"projects/{PROJECTS[where]}"
        SITE.server.grant(user, role, place)
        TOKENS[name] = new_token(name, where)
        if name == "mo":
            SITE.server.grant(user, "member", "domains/default")


def tearDownModule():
    _STACK.close()


def new_token(user, where):
    scopes = {"system": {"system": {"all": True}}, "domain": {"domain": {"id": "default"}}}
    scope = scopes.get(where) or {"project": {"id": PROJECTS.get(where)}}
    return SITE.server.token(user, f"{user}-password", None if where == "none" else scope)


class KeystoneCase(ApplicationCase):
    settings = MappingProxyType({})

    def setUp(self):
        super().setUp()
        self.environ["SERVICE_PASSWORD"] = ADMIN_PASSWORD
        self.client = self.new_keystone_client()

    def new_keystone_client(self, policy_file=None, **words):
        fields = {
            "auth_url": SITE.server.url,
            "username": "admin",
            "project_name": "admin",
            "password": PasswordReference(env="SERVICE_PASSWORD"),
            "token_cache_s": 0,
            **words,
        }
        return self.new_client(
            auth="keystone", keystone=KeystoneSettings(**fields), policy_file=policy_file
        )

    def ask(self, method, path, token, body=None, **headers):
        sent = {"X-Auth-Token": token} if token else {}
        return self.call(method, path, body, headers={**sent, **headers})


class TestTokens(KeystoneCase):
    def test_a_valid_token_lets_in_and_any_other_does_not(self):
        self.assertEqual(200, self.ask("GET", "/v1/policies", TOKENS["rea"]).status_code)
        for token in (None, "x", "gAAAAABk" + "x" * 100, "é", "a b", "x" * 9000):
            with self.subTest(token):
                result = self.ask("GET", "/v1/policies", token)
                self.check_problem(result, 401, "unauthenticated")
                self.assertEqual(
                    f'Keystone uri="{SITE.server.url}"', result.headers["www-authenticate"]
                )

    def test_a_revoked_token_is_one_no_longer(self):
        token = new_token("rea", "red")
        self.assertEqual(200, self.ask("GET", "/v1/policies", token).status_code)
        cached = self.new_keystone_client(token_cache_s=60)
        self.client, plain = cached, self.client
        self.assertEqual(200, self.ask("GET", "/v1/policies", token).status_code)
        SITE.server.revoke(token)
        self.assertEqual(200, self.ask("GET", "/v1/policies", token).status_code)
        self.client = plain
        result = self.ask("GET", "/v1/policies", token)
        self.check_problem(result, 401, "unauthenticated", "rejected the token")
        self.assertIn("Keystone uri=", result.headers["www-authenticate"])

    def test_headers_of_the_middleware_are_not_believed(self):
        forged = {"X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Id": "x",
                  "X-Project-Id": PROJECTS["red"], "X-Is-Admin-Project": "True"}  # fmt: skip
        self.check_problem(self.ask("GET", "/v1/claims", None, **forged), 401, "unauthenticated")
        result = self.ask("POST", "/v1/reconciliations", TOKENS["rea"], {}, **forged)
        self.check_problem(result, 403, "access_denied")

    def test_who_asks_for_nothing_protected_needs_no_token(self):
        self.assertEqual(200, self.call("GET", "/").status_code)

    def test_a_keystone_that_does_not_answer_lets_nobody_in(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/v3"
            self.client = self.new_keystone_client(auth_url=url)
            result = self.ask("GET", "/v1/policies", TOKENS["ann"])
        self.check_problem(result, 503, "identity_unavailable", "Keystone cannot verify the token")
        self.assertEqual("1", result.headers["retry-after"])
        self.assertNotIn("\n", result.json["detail"])

    def test_a_keystone_whose_answer_is_malformed_lets_nobody_in(self):
        other = KeystoneAndChild()
        other.serve(self)
        login = {"Authorization": testing_login("mo@red", "mo-password")}
        for document in MALFORMED_TOKENS:
            with self.subTest(document[:20]):
                other.malformed = document
                self.client = self.new_keystone_client(auth_url=f"{other.url}/v3")
                for path, headers in (("/v1/policies", {"X-Auth-Token": "t"}), ("/ui", login)):
                    self.assertEqual(503, self.call("GET", path, headers=headers).status_code)
                # the token of the service itself is not used again: the end may be unreadable
                other.malformed, asked = None, other.asked["keystone"]
                self.call("GET", "/v1/policies", headers={"X-Auth-Token": "t"})
                self.assertEqual(asked + 1, other.asked["keystone"])

    def test_the_usual_authorities_are_trusted_without_others(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        context, trusted = server_context(folder, LOOPBACK)
        other = KeystoneAndChild()
        other.serve(self, context)
        self.enterContext(mock.patch.dict(os.environ, {"OS_CACERT": trusted}))
        self.client = self.new_keystone_client(auth_url=f"{other.url}/v3")
        self.ask("GET", "/v1/policies", "t")
        asked = other.asked["keystone"]
        self.assertGreater(asked, 0, "by the middleware")
        fields = {"username": "up", "password": PasswordReference(env="P")}
        settings = KeystoneSettings(auth_url=f"{other.url}/v3", **fields)
        self.assertTrue(cloud_login(settings, "p").session.get_token())
        self.assertGreater(other.asked["keystone"], asked)

    def test_a_missing_file_of_authorities_is_a_problem_and_lets_nobody_in(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        file = str(folder / "authorities.pem")
        self.client = self.new_keystone_client(auth_url="https://127.0.0.1:9/v3", cafile=file)
        problems = configuration_problems(self.process._settings, self.environ)
        self.assertIn(f"keystone: cafile: {file!r}: no such file", "\n".join(map(str, problems)))
        login = {"Authorization": testing_login("mo@red", "mo-password")}
        for path, headers in (("/v1/policies", {"X-Auth-Token": "t"}), ("/ui", login)):
            result = self.call("GET", path, headers=headers)
            self.assertEqual(503, result.status_code, result.text)

    def test_a_service_that_may_not_ask_lets_nobody_in(self):
        self.environ["SERVICE_PASSWORD"] = "wrong"
        self.client = self.new_keystone_client()
        result = self.ask("GET", "/v1/policies", TOKENS["ann"])
        self.check_problem(result, 503, "identity_unavailable")


class TestExpired(KeystoneCase):
    """Keystone as a process whose tokens last seconds."""

    def test_an_expired_token_is_one_no_longer(self):
        server = self.enterContext(short_lived_tokens(SITE.server, EXPIRATION_S))
        self.client = self.new_keystone_client(auth_url=server.url)
        token = server.token("admin", ADMIN_PASSWORD, ADMIN_SCOPE)
        self.assertEqual(200, self.ask("GET", "/v1/policies", token).status_code)
        time.sleep(EXPIRATION_S)  # constant requests would keep Keystone busy
        result = wait_for(lambda: self.refused(token))
        self.check_problem(result, 401, "unauthenticated", "expired or revoked")
        self.assertIn("Keystone uri=", result.headers["www-authenticate"])
        new = server.token("admin", ADMIN_PASSWORD, ADMIN_SCOPE)
        self.assertEqual(200, self.ask("GET", "/v1/policies", new).status_code)

    def refused(self, token):
        result = self.ask("GET", "/v1/policies", token)
        return result if result.status_code != 200 else None


class TestBrowser(KeystoneCase):
    """A browser has no token: it sends a name and a password, only for pages."""

    def page(self, user, path="/ui/claims", password=None, **headers):
        name = f"{user}:{password or user.partition('@')[0] + '-password'}"
        return self.call("GET", path, user=name, headers=headers)

    def test_a_page_asks_for_name_and_password(self):
        result = self.call("GET", "/ui/claims")
        self.assertEqual(401, result.status_code)
        self.assertEqual(BASIC, result.headers["www-authenticate"])
        self.assertIn("text/html", result.headers["content-type"])

    def test_a_user_of_a_project_sees_the_pages_of_that_project(self):
        result = self.page("mo@red")
        self.assertEqual(200, result.status_code, result.text)
        self.assertNotIn("set-cookie", result.headers)
        for user, password in (
            ("mo@red", "wrong"), ("mo@blue", None), ("nobody@red", None), ("mo@none", None),
            ("mo", None), ("@red", "x"), ("mo@", "mo-password"),
        ):  # fmt: skip
            with self.subTest(user):
                result = self.page(user, password=password)
                self.assertEqual(401, result.status_code, result.text)
                self.assertEqual(BASIC, result.headers["www-authenticate"])

    def test_a_name_and_a_password_open_no_route_of_the_api(self):
        """A browser sends them with any request, also with one that another site causes."""
        for method, path, body in (
            ("GET", "/v1/claims", None), ("POST", "/v1/claims", SMALL), ("GET", "/metrics", None),
        ):  # fmt: skip
            result = self.call(method, path, body, user="ann@red:ann-password")
            self.check_problem(result, 401, "unauthenticated")
            self.assertIn("Keystone uri=", result.headers["www-authenticate"])

    def test_keystone_is_asked_for_one_token_and_about_it_each_time(self):
        user = SITE.server.make_user("pat", "pat-password")
        SITE.server.grant(user, "reader", f"projects/{PROJECTS['red']}")
        with mock.patch.object(v3.Password, "get_token", autospec=True,
                               side_effect=v3.Password.get_token) as log_in:  # fmt: skip
            for _ in range(3):
                self.assertEqual(200, self.page("pat@red").status_code)
            logins = [
                call
                for call in log_in.call_args_list
                if call.args[0].auth_methods[0].username == "pat"
            ]
        self.assertEqual(1, len(logins))
        SITE.server.call("PATCH", f"/users/{user}", {"user": {"password": "another"}})
        self.assertEqual(401, self.page("pat@red").status_code)
        time.sleep(REVOKED_S)
        self.assertEqual(200, self.page("pat@red", password="another").status_code)

    def test_a_keystone_that_does_not_answer_is_not_a_wrong_password(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/v3"
            self.client = self.new_keystone_client(auth_url=url)
            self.assertEqual(503, self.page("mo@red").status_code)

    def test_no_password_is_logged(self):
        with self.assertLogs(level="DEBUG") as logs:
            self.page("mo@red")
            self.page("mo@red", password="wr0ng-one")
        text = "\n".join(logs.output)
        for secret in ("mo-password", "wr0ng-one"):
            self.assertNotIn(secret, text)


class TestScopes(KeystoneCase):
    def test_each_role_does_what_it_may(self):
        for method, path, body, allowed in (
            ("GET", "/v1/policies", None, {"rea", "mo", "ann", "sys"}),
            ("GET", "/v1/claims", None, {"rea", "mo", "ann", "sys"}),
            ("DELETE", "/v1/claims/none", None, {"mo", "ann"}),
            ("DELETE", "/v1/podms/none/stats", None, {"ann"}),
        ):
            for user in ("rea", "mo", "ann", "sys"):
                with self.subTest(path, user=user):
                    status = self.ask(method, path, TOKENS[user], body).status_code
                    self.assertEqual(user not in allowed, status == 403, status)

    def test_a_token_of_no_project_is_refused(self):
        for where in ("none", "domain"):
            with self.subTest(where):
                result = self.ask("GET", "/v1/policies", new_token("mo", where))
                self.check_problem(result, 403, "access_denied", "neither project nor system")

    def test_what_a_member_decides_is_its_projects_and_an_admin_sees_it(self):
        self.settings = {"inventories": (EXAMPLE,)}
        self.client = self.new_keystone_client()
        body = {**SMALL, "keep": True}
        kept = self.ask("POST", "/v1/select_destinations", TOKENS["mo"], body)
        self.assertEqual(200, kept.status_code, kept.text)
        self.assertEqual(PROJECTS["red"], kept.json["report"]["request"]["owner"])
        path = kept.headers["content-location"]
        for user, status in (("mo", 200), ("rea", 200), ("ann", 200), ("sys", 200), ("eve", 404)):
            with self.subTest(user):
                self.assertEqual(status, self.ask("GET", path, TOKENS[user]).status_code)

    def test_an_operator_overrides_a_rule(self):
        path = self.folder / "policy.yaml"
        path.write_text('"policies:list": "rule:admin"\n')
        self.client = self.new_keystone_client(str(path))
        self.assertEqual(403, self.ask("GET", "/v1/policies", TOKENS["mo"]).status_code)
        self.assertEqual(200, self.ask("GET", "/v1/policies", TOKENS["ann"]).status_code)


class TestSecrets(KeystoneCase):
    def test_no_token_and_no_password_is_logged_or_stored(self):
        stream = io.StringIO()
        watching = logging.StreamHandler(stream)
        root = logging.getLogger()
        loggers = [root, logging.getLogger("valence_sched")]
        levels = [one.level for one in loggers]
        for one in loggers:
            one.addHandler(watching)
            one.setLevel(logging.DEBUG)
        try:
            bad = "gAAAAA" + "secretive" * 10
            for token in (TOKENS["mo"], bad):
                for method, path, body in (
                    ("GET", "/v1/claims", None),
                    ("POST", "/v1/claims", SMALL),
                    ("POST", "/v1/nodes", SMALL),
                ):
                    answer = self.ask(method, path, token, body, **{"Idempotency-Key": "k"})
                    self.assertNotIn(token, answer.text)
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.removeHandler(watching)
                one.setLevel(level)
        self.process.operations.wait(10)
        logged = stream.getvalue()
        self.assertIn("/v1/claims", logged)
        stored = b"".join(one.read_bytes() for one in self.folder.rglob("*") if one.is_file())
        for secret in (TOKENS["mo"], bad, ADMIN_PASSWORD):
            self.assertNotIn(secret, logged)
            self.assertNotIn(secret.encode(), stored)


class TestEveryRoute(KeystoneCase):
    settings = MappingProxyType({"rate_limits": RateSettings(failures=None)})

    def test_no_route_with_a_rule_answers_without_a_token(self):
        for route in ROUTES:
            if route.rule:
                with self.subTest(f"{route.method} {route.path}"):
                    path = route.path.replace("{name}", "x")
                    self.assertEqual(401, self.call(route.method, path).status_code)
