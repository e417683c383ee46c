# SPDX-License-Identifier: Apache-2.0
"""Users: their authentication, the rights of their role, and that a tenant sees only its own."""

import os
import unittest
from pathlib import Path
from unittest import mock

import bcrypt

from tests.service.application import SMALL, ApplicationCase, LivePodmsCase, testing_login
from tests.service.serving import wait_for
from valence_sched.errors import AccessDenied, InputError, Unauthenticated, UsageError
from valence_sched.service.settings import ServiceSettings, check_settings, is_loopback
from valence_sched.service.users import BasicAccess, OpenAccess, User, parse_users

HASH = "$2b$04$abcdefghijklmnopqrstuuJjZyXgVqm7p5cOv4cO6dm2CwZ1yJ9a6"


def user_of(users, header):
    return users.authenticate({"HTTP_AUTHORIZATION": header})


class TestPasswordFile(ApplicationCase):
    def test_a_user_has_a_name_a_password_and_a_role(self):
        users = BasicAccess(self.users_file("ann:admin", "mo", "rea:reader"))
        for name, role in (("ann", "admin"), ("mo", "member"), ("rea", "reader")):
            for _ in range(2):  # the second time from the cache of verified passwords
                self.assertEqual(User(name, role), user_of(users, testing_login(name, name)))

    def test_others_are_refused_alike(self):
        users = BasicAccess(self.users_file("ann:admin"))
        texts = set()
        for name, password in (
            ("ann", "x"),
            ("ann", ""),
            ("nobody", "ann"),
            ("", ""),
            ("Ann", "ann"),
        ):
            with self.assertRaises(Unauthenticated) as caught:
                user_of(users, testing_login(name, password))
            texts.add(str(caught.exception))
        self.assertEqual(1, len(texts))

    def test_a_wrong_password_takes_as_long_for_each_name(self):
        """The test counts work: a hash of cost n takes 2^n."""
        hashes = {cost: bcrypt.hashpw(b"x", bcrypt.gensalt(cost)).decode() for cost in (4, 6, 7)}
        path = self.users_file("ann")
        with open(path, "a") as file:
            file.writelines(f"u{cost}:{hashed}\n" for cost, hashed in hashes.items())
        users, spent = BasicAccess(path), {}
        for name in ("ann", "u4", "u6", "u7", "unknown"):
            with (
                mock.patch.object(bcrypt, "checkpw", wraps=bcrypt.checkpw) as checked,
                mock.patch.object(bcrypt, "hashpw", wraps=bcrypt.hashpw) as hashed,
                self.assertRaises(Unauthenticated),
            ):
                user_of(users, testing_login(name, "wrong"))
            salts = [call.args[1] for call in (*checked.mock_calls, *hashed.mock_calls)]
            spent[name] = sum(2 ** int(salt[4:6]) for salt in salts)
        self.assertEqual({2**7}, {*spent.values()}, spent)

    def test_a_header_that_is_none_is_refused(self):
        users = BasicAccess(self.users_file("ann:admin"))
        for header in (None, "", "Basic", "Basic !!", "Bearer abc", "Basic YW5u", "Basic /w==",
                       testing_login("ann", "x" * 73), testing_login("ann", "a\0n")):  # fmt: skip
            with self.subTest(header), self.assertRaises(Unauthenticated):
                user_of(users, header)

    def test_a_file_that_changes_counts_at_once(self):
        path = self.users_file("ann:admin", "mo")
        users = BasicAccess(path)
        user_of(users, testing_login("mo", "mo"))
        os.utime(self.users_file("ann:reader"), ns=(1, 1))
        self.assertEqual("reader", user_of(users, testing_login("ann", "ann")).role)
        with self.assertRaises(Unauthenticated):
            user_of(users, testing_login("mo", "mo"))

    def test_a_file_that_breaks_is_no_fault_of_the_client(self):
        """Clients got 400 with the path of the file, and were counted as malformed requests."""
        path = self.users_file("ann:admin")
        self.client = self.new_client(auth="basic", users_file=path)
        for change in (lambda: Path(path).write_text("no line"), lambda: Path(path).unlink()):
            change()
            with self.assertLogs("valence_sched.service.users", "ERROR") as logs:
                result = self.call("GET", "/v1/podms", user="ann")
            self.check_problem(result, 503, "identity_unavailable", "cannot read its users")
            self.assertNotIn(path, result.text)
            self.assertIn(path, logs.output[0])

    def test_a_file_that_all_can_read_is_refused(self):
        path = self.users_file("ann:admin")
        os.chmod(path, 0o644)
        with self.assertRaisesRegex(InputError, "chmod o="):
            BasicAccess(path)

    def test_a_line_that_is_wrong_is_named(self):
        for text, words in (
            ("ann", "line 1: found an invalid bcrypt hash"),
            ("ann:secret", "line 1: found an invalid bcrypt hash"),
            (f"# c\n\nann:{HASH}:boss", "line 3: found 'boss'"),
            (f"ann:{HASH}\nann:{HASH}", "line 2: found user 'ann' twice"),
            (f"a b:{HASH}", "line 1: found no user name"),
            ("", "found no user"),
        ):
            with self.subTest(words), self.assertRaisesRegex(InputError, words) as caught:
                parse_users(text.encode(), "users")
            self.assertNotIn("secret", str(caught.exception))

    def test_a_role_includes_those_below(self):
        OpenAccess().check(User("x", "admin"), "r", "member")
        with self.assertRaisesRegex(
            AccessDenied, "r: user 'x' has the role reader, but member is required"
        ):
            OpenAccess().check(User("x", "reader"), "r", "member")


class TestSettings(unittest.TestCase):
    def test_nobody_listens_beyond_loopback_without_authentication(self):
        for host in ("0.0.0.0", "::", "", "10.0.0.1", "example.org", "127.0.0.1.example.org"):
            with self.subTest(host), self.assertRaisesRegex(UsageError, "reachable from other"):
                check_settings(ServiceSettings(host=host), "f")
        for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"):
            self.assertTrue(is_loopback(host))
            check_settings(ServiceSettings(host=host), "f")
        check_settings(ServiceSettings(host="::", auth="basic", users_file="u"), "f")

    def test_what_belongs_together_is_checked(self):
        for words in ({"auth": "basic"}, {"certificate": "c"}, {"private_key": "k"}):
            with self.subTest(words), self.assertRaises(UsageError):
                check_settings(ServiceSettings(**words), "f")


class TestRoles(ApplicationCase):
    def setUp(self):
        super().setUp()
        self.log_in("ann:admin", "mo", "rea:reader")

    def test_only_an_admin_forces_a_change_of_a_node(self):
        for user, force, status, code in (
            ("rea", False, 403, "access_denied"),
            ("mo", False, 404, "name_unknown"),
            ("mo", True, 403, "access_denied"),
            ("ann", True, 202, None),
        ):
            with self.subTest(user, force=force):
                change = {"change": {"detach_blocks": ["b"], "force": force}}
                result = self.call("POST", "/v1/nodes/x/changes", change, user)
                self.assertEqual((status, code), (result.status_code, result.json.get("code")))

    def test_each_role_does_what_it_may(self):
        stats = {"stats": {"load": 1}}
        for method, path, body, least in (
            ("GET", "/v1/podms", None, "rea"),
            ("POST", "/v1/select_destinations", SMALL, "rea"),
            ("POST", "/v1/claims", SMALL, "mo"),
            ("POST", "/v1/nodes", SMALL, "mo"),
            ("POST", "/v1/podms/r/stats", stats, "ann"),
            ("POST", "/v1/reconciliations", {}, "ann"),
        ):
            allowed = False
            for user in ("rea", "mo", "ann"):
                allowed = allowed or user == least
                with self.subTest(path, user=user):
                    status = self.call(method, path, body, user=user).status_code
                    self.assertEqual(not allowed, status == 403, status)

    def test_nobody_else_gets_in(self):
        for user in (None, "mo:x", "x:x"):
            result = self.call("GET", "/v1/podms", user=user)
            self.check_problem(result, 401, "unauthenticated")
            self.assertIn("Basic", result.headers["www-authenticate"])
        for path in ("/", "/healthcheck", "/v1/openapi.json"):
            self.assertEqual(200, self.call("GET", path).status_code)

    def test_a_decision_of_another_user_is_not_found(self):
        kept = self.call("POST", "/v1/select_destinations", {**SMALL, "keep": True}, user="mo")
        path = kept.headers["content-location"]
        self.assertEqual("mo", kept.json["report"]["request"]["owner"])
        self.assertEqual(200, self.call("GET", path, user="ann").status_code)
        self.assertEqual(200, self.call("GET", path, user="mo").status_code)
        for at in (path, "/v1/decisions/nope"):
            result = self.call("GET", at, user="rea")
            self.check_problem(result, 404, "name_unknown", "no name is known")

    def test_the_nodes_of_others_are_blocks_in_use_and_nothing_else(self):
        for path in ("/v1/podms", "/v1/podms/gpu-east"):
            answers = {user: self.call("GET", path, user=user).json for user in ("ann", "mo")}
            shown = {user: answer if isinstance(answer, list) else [answer]
                     for user, answer in answers.items()}  # fmt: skip
            nodes = {user: [node for one in podms for node in one["podm"].get("nodes", ())]
                     for user, podms in shown.items()}  # fmt: skip
            self.assertTrue(any("name" in node for node in nodes["ann"]))
            self.assertEqual(len(nodes["ann"]), len(nodes["mo"]))
            self.assertEqual([], [node for node in nodes["mo"] if {*node} - {"uri", "blocks"}])

    def test_nobody_asks_in_the_name_of_another(self):
        body = {"request": {**SMALL["request"], "owner": "ann"}}
        result = self.call("POST", "/v1/select_destinations", body, user="mo")
        self.check_problem(result, 403, "access_denied", "owner 'ann'")


class TestTenants(LivePodmsCase):
    """Two members and an admin, on live pod managers."""

    users = ("ann:admin", "mo", "eve")

    def finished(self, result, user):
        self.assertEqual(202, result.status_code, result.text)
        path = result.headers["location"]

        def ended():
            operation = self.call("GET", path, user=user).json
            return operation["state"] != "running" and operation

        return wait_for(ended)

    def test_a_claim_is_seen_by_its_owner_and_by_admins(self):
        result = self.call("POST", "/v1/claims", SMALL, user="mo")
        claim, path = result.json["claim"], result.headers["location"]
        self.assertEqual((201, "mo"), (result.status_code, claim["owner"]))
        for user, count in (("mo", 1), ("ann", 1), ("eve", 0)):
            for query in ("", "?owner=mo", "?ended=true"):
                listed = self.call("GET", f"/v1/claims{query}", user=user).json
                self.assertEqual(count, len(listed), (user, query))
        for method, at, body in (
            ("GET", path, None),
            ("DELETE", path, None),
            ("POST", f"{path}/renew", {"ttl_s": 60}),
            ("POST", "/v1/nodes", {"claim": claim["id"]}),
            ("GET", "/v1/claims/c-nope", None),
        ):
            with self.subTest(at, method=method):
                result = self.call(method, at, body, user="eve")
                self.check_problem(result, 404, "name_unknown", "no claim named")
                self.assertIn("no name is known", result.json["detail"])
        podm = claim["parts"][0]["podm"]
        for user, seen in (
            ("mo", {claim["id"]}),
            ("ann", {claim["id"]}),
            ("eve", {"another owner"}),
        ):
            held = self.call("GET", f"/v1/podms/{podm}/usage", user=user).json["held"]
            self.assertEqual(seen, set(held.values()))
        renewed = self.call("POST", f"{path}/renew", {"ttl_s": 3000}, user="mo").json
        self.assertGreater(renewed["expires_at"], claim["expires_at"])
        self.assertEqual(204, self.call("DELETE", path, user="mo").status_code)
        self.assertEqual([], self.call("GET", "/v1/claims", user="mo").json)

    def claim_id(self, user, key):
        claimed = self.call("POST", "/v1/claims", SMALL, user=user, headers=key)
        return claimed.json["claim"]["id"]

    def test_a_key_of_one_tenant_is_not_that_of_another(self):
        key = {"Idempotency-Key": "k"}
        ids = {user: [self.claim_id(user, key) for _ in range(2)] for user in ("mo", "eve")}
        self.assertEqual([1, 1], [len(set(found)) for found in ids.values()])
        self.assertNotEqual(ids["mo"], ids["eve"])

    def test_metrics_count_the_decision_of_a_claim_and_of_a_node_once(self):
        for _ in range(2):
            self.claim_id("mo", {"Idempotency-Key": "k"})
        self.finished(self.call("POST", "/v1/nodes", SMALL, user="mo"), "mo")
        text = self.call("GET", "/metrics", user="ann").text
        self.assertIn('valence_scheduler_decisions_total{outcome="placed"} 2.0\n', text)

    def test_a_node_is_seen_by_its_owner_and_by_admins(self):
        valence = {"name": "n", "flavor_id": "small"}
        begun = self.call("POST", "/v1/nodes", valence, user="mo")
        self.check_problem(self.call("GET", begun.headers["location"], user="eve"), 404,
                           "name_unknown")  # fmt: skip
        operation = self.finished(begun, "mo")
        (node,) = operation["result"]["nodes"]
        self.assertEqual(
            ("done", "mo", "small"), (operation["state"], node["owner"], node["flavor"])
        )
        path = f"/v1/nodes/{node['id']}"
        for user, count in (("mo", 1), ("ann", 1), ("eve", 0)):
            for query in ("", "?owner=mo", "?owner=mo&live=true"):
                listed = self.call("GET", f"/v1/nodes{query}", user=user).json
                self.assertEqual(count, len(listed), (user, query))
        for method in ("GET", "DELETE"):
            for at in (path, f"/v1/nodes/-?name={node['uri']}", "/v1/nodes/nope"):
                result = self.call(method, at, user="eve")
                self.check_problem(result, 404, "name_unknown", "no name is known")
        blocks = self.call("GET", "/v1/blocks", user="eve").text
        self.assertNotIn(node["id"], blocks)
        gone = self.finished(self.call("DELETE", path, user="mo"), "mo")
        self.assertEqual("done", gone["state"], gone)
        self.assertEqual([], self.call("GET", "/v1/nodes", user="ann").json)

    def test_a_plan_is_claimed_by_who_made_it(self):
        plan = self.call("POST", "/v1/plans", SMALL, user="mo").json["plan"]
        result = self.call("POST", "/v1/claims", {"plan": plan}, user="eve")
        self.check_problem(result, 403, "access_denied")
        self.assertEqual(
            201, self.call("POST", "/v1/claims", {"plan": plan}, user="mo").status_code
        )
        admins = self.call("POST", "/v1/plans", SMALL, user="ann").json["plan"]
        result = self.call("POST", "/v1/claims", {"plan": admins}, user="eve")
        self.check_problem(result, 403, "access_denied")

    def test_a_podm_that_is_named_by_its_id_is_the_one(self):
        body = {"name": "n", "flavor_id": "small", "podm_id": "mem-1"}
        operation = self.finished(self.call("POST", "/v1/nodes", body, user="mo"), "mo")
        self.assertEqual("mem-1", operation["result"]["nodes"][0]["podm"])
