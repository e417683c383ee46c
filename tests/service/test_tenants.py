# SPDX-License-Identifier: Apache-2.0
"""Tenants: their visible objects and permissions, their quotas, and the audit."""

import json
import logging
import re

from tests.service.application import SMALL, ApplicationCase, LivePodmsCase
from valence_sched.model.diagnostic import AuditQuery
from valence_sched.service.routes import ROUTES
from valence_sched.store.store import Store

FLAVOR = {"request": {"flavor": "small"}}
GPU = {"request": {"properties": {"accelerators": [{"kind": "GPU", "count": 1}]}}}
MANY_GPUS = {"request": {"properties": {"accelerators": [{"kind": "GPU", "count": 4}]}}}
SPREAD = {
    "request": {**SMALL["request"], "group": {"name": "spread", "soft_anti_affinity": ["podm"]}}
}
REQUESTS = (SMALL, FLAVOR, GPU, MANY_GPUS, SPREAD)
KEY = "key-of-eve"
MOST_CLAIMS = 60
#: The bodies of routes besides requests; every route with a body is in one of the two tables.
BODIES = {
    "RenewBody": {"ttl_s": 60},
    "ReconcileBody": {},
    "StatsBody": {"stats": {"load": 1}},
    "QuotaLimits": {"limits": {"claims": 100}},
    "QuotaChange": {"limits": {"claims": 100}},
}


def told(result) -> str:
    """Return the content of an answer, without the request id."""
    if result.text.startswith("<"):
        return re.sub(r"req-[\w-]+", "", result.text)
    return result.json.get("detail", result.text)


class TestTenants(LivePodmsCase):
    """Eve has claims and nodes on every pod manager; Mo tries every request."""

    users = ("ann-admin:admin", "mo", "tenant-eve")

    def setUp(self):
        super().setUp()
        self.secrets = {"tenant-eve", KEY}
        self.podms = sorted(self.served)

    def eve(self, method, path, body=None, **words):
        result = self.call(method, path, body, user="tenant-eve", **words)
        self.assertLess(result.status_code, 300, result.text)
        return result

    def fill(self):
        """Let Eve compose nodes, and then claim all remaining GPUs."""
        for body in (FLAVOR, GPU, SPREAD):
            begun = self.eve("POST", "/v1/nodes", body)
            self.secrets.add(begun.json["id"])
        self.assertTrue(self.process.operations.wait(60))
        for node in self.eve("GET", "/v1/nodes").json:
            self.secrets |= {node["node"]["id"], node["node"]["uri"], node["node"]["claim"]}
        headers = {"Idempotency-Key": KEY}
        for _ in range(MOST_CLAIMS):
            claimed = self.eve("POST", "/v1/claims", GPU, headers=headers)
            headers = {}
            if claimed.status_code == 200:
                break
            self.secrets.add(claimed.json["claim"]["id"])
        kept = self.eve("POST", "/v1/select_destinations", {**SMALL, "keep": True})
        self.secrets.add(kept.headers["content-location"].rpartition("/")[2])

    def check(self, result, place, typed="nothing that was typed"):
        """Check that no answer, also in its headers, names anything of Eve."""
        self.assertNotIn(result.status_code, (500, 502), (place, result.text))
        text = result.text.replace(typed, "") + json.dumps(dict(result.headers))
        found = sorted(secret for secret in self.secrets if secret in text)
        if found:
            at = text.index(found[0])
            self.fail(f"{place}: {found}: ...{text[max(at - 300, 0) : at + 100]}...")

    def bodies(self, route):
        if route.body is None:
            return [None]
        if route.body.__name__ in BODIES:
            return [BODIES[route.body.__name__]]
        fields = route.body.__struct_fields__
        detail = {"detail": "report"} if "detail" in fields else {}
        explain = {"explain": True, "proven": True} if "explain" in fields else {}
        if "requests" in fields:
            shares = {"shares": [1] * len(REQUESTS)} if "shares" in fields else {}
            many = [one["request"] for one in REQUESTS]
            return [{"requests": many, **detail, **shares, **explain}]
        if "request" in fields:
            return [{**one, **detail, **explain} for one in REQUESTS]
        if "plan" in fields:
            return [{"plan": self.call("POST", "/v1/plans", SMALL, user="mo").json["plan"]}]
        kept = self.call("POST", "/v1/select_destinations", {**SMALL, "keep": True}, user="mo")
        return [{"decision": kept.json["report"]}]

    def test_no_answer_names_what_another_tenant_has(self):
        self.fill()
        self.assertGreater(len(self.secrets), 12)
        asked = 0
        for route in ROUTES:
            if "{name}" in route.path:
                names = [*self.podms, "filters", "nothing", "mo"]
            else:
                names = [""]
            for name in names:
                path = route.path.replace("{name}", name)
                for body in self.bodies(route):
                    with self.subTest(f"{route.method} {path}", body=str(body)[:80]):
                        result = self.call(route.method, path, body, user="mo")
                        self.check(result, path)
                        asked += 1
                        if result.status_code == 202:
                            self.process.operations.wait(60)
                            operation = self.call("GET", result.headers["location"], user="mo")
                            self.check(operation, f"the operation of {path}")
        self.assertGreater(asked, 2 * len(ROUTES))

    def test_no_words_of_a_query_find_what_another_tenant_has(self):
        self.fill()
        for route in ROUTES:
            if route.method != "GET" or not route.words:
                continue
            for word in route.words:
                for value in ("tenant-eve", "true", self.podms[0]):
                    path = f"{route.path.replace('{name}', self.podms[0])}?{word}={value}"
                    result = self.call("GET", path, user="mo")
                    if result.status_code == 200:
                        # reasons against a node name the requested model
                        typed = value if route.path == "/ui/fit" else f'value="{value}"'
                        self.check(result, path, typed=typed)

    def test_what_another_tenant_has_is_not_found_by_its_name(self):
        self.fill()
        unknown = "0123456789abcdef"
        for route in ROUTES:
            if "{name}" not in route.path or route.path.split("/")[2] == "plugins":
                continue
            body = self.bodies(route)[0]
            texts = set()
            for name in (unknown, *sorted(self.secrets - {"tenant-eve"})):
                path = route.path.replace("{name}", "-") + f"?name={name}"
                result = self.call(route.method, path, body, user="mo")
                texts.add((result.status_code, told(result).replace(name, "NAME")))
            self.assertEqual(1, len(texts), texts)

    def test_a_claim_that_is_lost_does_not_say_to_whom(self):
        for body in (SMALL, GPU, FLAVOR):
            plan = self.call("POST", "/v1/plans", body, user="mo").json["plan"]
            theirs = self.eve("POST", "/v1/plans", body).json["plan"]
            claimed = self.eve("POST", "/v1/claims", {"plan": theirs}).json["claim"]["id"]
            self.secrets.add(claimed)
            result = self.call("POST", "/v1/claims", {"plan": plan}, user="mo")
            self.check_problem(result, 409, "claim_lost", "in use by a claim of another owner")
            self.check(result, "claiming a plan")
            begun = self.call("POST", "/v1/nodes", {"plan": plan}, user="mo")
            self.process.operations.wait(60)
            self.check(self.call("GET", begun.headers["location"], user="mo"), "composing a plan")
            result = self.call("POST", "/v1/plans/refresh", {"plan": plan}, user="mo")
            self.check(result, "refreshing a plan")
            self.eve("DELETE", f"/v1/claims/{claimed}")

    def test_a_key_that_another_tenant_used_is_as_good_as_new(self):
        headers = {"Idempotency-Key": KEY}
        theirs = self.eve("POST", "/v1/claims", SMALL, headers=headers).json["claim"]["id"]
        self.secrets = {theirs}
        for path, body in (("/v1/claims", GPU), ("/v1/select_destinations", GPU)):
            result = self.call("POST", path, body, user="mo", headers=headers)
            self.assertLess(result.status_code, 300, result.text)
            self.check(result, path)


class TestQuotas(LivePodmsCase):
    users = ("ann:admin", "mo", "eve")

    def put(self, path, limits, user="ann"):
        return self.call("PUT", path, {"limits": limits}, user=user)

    def test_what_is_beyond_a_quota_is_refused_with_what_is_in_use(self):
        self.assertEqual(200, self.put("/v1/quotas", {"claims": 5}).status_code)
        small = {"request": {**SMALL["request"], "podms": ["gpu-east"]}}
        claimed = self.call("POST", "/v1/claims", small, user="eve").json["claim"]
        cores = claimed["parts"][0]["shares"][0]["charges"]["cores"]
        self.assertGreater(cores, 8)  # of a whole block
        self.call("DELETE", f"/v1/claims/{claimed['id']}", user="eve")
        shown = self.put("/v1/quotas/mo", {"cores": cores, "nodes": 9}).json
        self.assertEqual({"claims": 5, "cores": cores, "nodes": 9}, shown["limits"])
        self.assertEqual(201, self.call("POST", "/v1/claims", small, user="mo").status_code)
        result = self.call("POST", "/v1/claims", small, user="mo")
        words = f"quota of 'mo': cores: {cores:g} in use and 32 more needed, {cores:g} allo"
        self.check_problem(result, 403, "quota_exceeded", words)
        self.assertEqual(1, len(self.call("GET", "/v1/claims", user="mo").json))
        self.assertEqual(201, self.call("POST", "/v1/claims", small, user="eve").status_code)
        used = self.call("GET", "/v1/quotas/mo", user="mo").json["used"]
        self.assertEqual((1, 1, cores), (used["claims"], used["nodes"], used["cores"]))

    def test_a_node_counts_all_accelerators_of_its_blocks(self):
        """After the single blocks are in use, one accelerator comes in a block of two."""
        self.put("/v1/quotas/mo", {"accelerators:a100": 5})
        one = {"request": {"properties": {"accelerators": [{"kind": "GPU", "model": "A100"}]},
                           "podms": ["gpu-east"]}}  # fmt: skip
        held = []
        while (claimed := self.call("POST", "/v1/claims", one, user="mo")).status_code == 201:
            held.append(claimed.json["claim"]["parts"][0]["shares"][0]["charges"])
        words = "accelerators:a100: 4 in use and 2 more needed, 5 allowed"
        self.check_problem(claimed, 403, "quota_exceeded", words)
        self.assertEqual([1, 1, 2], sorted(charges["accelerators:a100"] for charges in held))
        used = self.call("GET", "/v1/quotas/mo", user="mo").json["used"]
        self.assertEqual((4, 4), (used["accelerators"], used["accelerators:a100"]))
        self.assertNotIn("accelerators:nvidia", used)

    def test_what_would_be_composed_beyond_a_quota_is_not(self):
        self.put("/v1/quotas/mo", {"nodes": 0})
        begun = self.call("POST", "/v1/nodes", SMALL, user="mo")
        self.assertTrue(self.process.operations.wait(30))
        operation = self.call("GET", begun.headers["location"], user="mo").json
        self.assertEqual("quota_exceeded", operation["problem"]["code"])

    def test_a_user_sees_its_own_quota_and_an_admin_all(self):
        self.put("/v1/quotas/mo", {"claims": 1})
        self.put("/v1/quotas", {"claims": 2})
        self.check_problem(self.call("GET", "/v1/quotas/mo", user="eve"), 404, "name_unknown")
        self.check_problem(self.call("GET", "/v1/quotas", user="mo"), 403, "access_denied")
        self.check_problem(self.put("/v1/quotas/mo", {}, user="mo"), 403, "access_denied")
        listed = self.call("GET", "/v1/quotas", user="ann").json
        found = [(one.get("owner"), one["limits"]["claims"]) for one in listed]
        self.assertEqual([(None, 2), ("mo", 1)], found)
        self.assertEqual(2, self.put("/v1/quotas/mo", {}).json["limits"]["claims"])

    def test_a_change_keeps_the_limits_that_it_does_not_name(self):
        self.put("/v1/quotas/mo", {"claims": 1, "nodes": 2})
        change = {"limits": {"claims": 3, "nodes": None, "cores": 4}}
        shown = self.call("PATCH", "/v1/quotas/mo", change, user="ann").json
        self.assertEqual({"claims": 3, "cores": 4}, shown["limits"])
        shown = self.call("PATCH", "/v1/quotas", {"limits": {"nodes": 7}}, user="ann").json
        self.assertEqual({"nodes": 7}, shown["limits"])
        for path in ("/v1/quotas", "/v1/quotas/mo"):
            refused = self.call("PATCH", path, change, user="mo")
            self.check_problem(refused, 403, "access_denied")

    def test_the_name_of_an_owner_is_not_empty(self):
        result = self.put("/v1/quotas/-?name=", {"claims": 0})
        self.check_problem(result, 400, "input_invalid", "owner: found 0 characters")
        self.assertEqual([], self.call("GET", "/v1/quotas", user="ann").json)

    def test_what_is_no_quota_is_refused(self):
        for limits, words in (
            ({"claim": 1}, "did you mean 'claims'"),
            ({"claims": -1}, "$.limits"),
            ({"claims": "many"}, "$.limits"),
        ):
            with self.subTest(words):
                self.check_problem(self.put("/v1/quotas/mo", limits), 400, "input_invalid", words)


#: Routes with a body that change nothing.
READING = {
    "/v1/requests", "/v1/select_destinations", "/v1/select_all", "/v1/candidates", "/v1/fits",
    "/v1/capacity", "/v1/mix_capacity", "/v1/stranded", "/v1/plans", "/v1/plans/refresh",
    "/v1/previews", "/v1/zones/offers", "/v1/zones/group_state", "/v1/events/{token}",
}  # fmt: skip


def lines(state, **words):
    with Store(state) as store:
        return store.audit.newest(AuditQuery(**words))


class TestEveryRoute(ApplicationCase):
    def test_each_route_that_changes_anything_is_audited(self):
        for route in ROUTES:
            with self.subTest(route.method, path=route.path):
                changes = route.method != "GET" and route.path not in READING
                self.assertEqual(changes, route.audited)

    def test_each_leaves_a_line_whether_it_is_done_or_refused(self):
        self.log_in("ann:admin", "rea:reader")
        for route in (one for one in ROUTES if one.audited):
            path = route.path.replace("{name}", "x")
            for user, body in (("ann", {}), ("ann", {"what": "is this"}), ("rea", {})):
                with self.subTest(route.method, path=path, user=user, body=body):
                    result = self.call(route.method, path, body if route.body else None, user)
                    id_ = result.headers["x-openstack-request-id"]
                    line = [one for one in lines(self.state) if one.request_id == id_][-1]
                    self.assertEqual((user, route.rule), (line.user, line.verb))
                    code = {200: "done", 202: "accepted"}.get(result.status_code)
                    self.assertEqual(code or result.json["code"], line.outcome)
                    changed = path[4:].removesuffix("/changes")
                    self.assertRegex(line.object, f"^({changed}|operations/)")
        for line in lines(self.state, user="rea"):
            self.assertEqual("access_denied", line.outcome)

    def test_what_only_reads_and_strangers_leave_none(self):
        self.log_in("ann:admin")
        self.call("GET", "/v1/podms", user="ann")
        self.call("POST", "/v1/select_destinations", SMALL, "ann")
        self.call("DELETE", "/v1/claims/x", user="eve")
        self.assertEqual([], lines(self.state))


class TestChanges(LivePodmsCase):
    users = ("ann:admin", "mo", "eve")

    def test_a_node_of_another_user_is_unknown_to_those_who_change_it(self):
        begun = self.call("POST", "/v1/nodes", SMALL, "mo").headers["location"]
        self.process.operations.wait(60)
        (node,) = self.call("GET", begun, user="mo").json["result"]["nodes"]
        path, change = f"/v1/nodes/{node['id']}/changes", {"change": {"attach_blocks": ["b"]}}
        self.check_problem(self.call("POST", path, change, "eve"), 404, "name_unknown")
        self.assertEqual(202, self.call("POST", path, change, "mo").status_code)
        self.process.operations.wait(60)

    def test_a_key_belongs_to_one_node(self):
        """The change of another node was answered with the operation of the first."""
        two = {"request": {**SMALL["request"], "count": 2}}
        begun = self.call("POST", "/v1/nodes", two, "mo")
        self.process.operations.wait(60)
        nodes = self.call("GET", begun.headers["location"], user="mo").json["result"]["nodes"]
        change = {"change": {"attach_blocks": ["nope"]}}
        paths = [f"/v1/nodes/{node['id']}/changes" for node in (*nodes, nodes[0])]
        key = {"Idempotency-Key": "k"}
        first, second, again = (
            self.call("POST", path, change, "mo", key).json["id"] for path in paths
        )
        self.assertNotEqual(first, second)
        self.assertEqual(first, again)
        self.process.operations.wait(60)

    def test_an_administrator_sees_who_changed_what(self):
        with self.assertLogs("valence_sched.audit", logging.INFO) as logged:
            claim = self.call("POST", "/v1/claims", SMALL, "mo").json["claim"]["id"]
            self.call("DELETE", f"/v1/claims/{claim}", user="mo")
            self.call("DELETE", f"/v1/claims/{claim}", user="mo")
            self.call("PUT", "/v1/quotas/mo", {"limits": {"nodes": 1}}, "ann")
            zone = {"name": "east", "url": "http://127.0.0.1:9"}
            self.call("POST", "/v1/zones", zone, "ann")
            begun = self.call("POST", "/v1/nodes", SMALL, "mo").headers["location"]
            self.process.operations.wait(60)
            (node,) = self.call("GET", begun, user="mo").json["result"]["nodes"]
            change = {"change": {"attach_blocks": ["nope"]}}
            self.call("POST", f"/v1/nodes/{node['id']}/changes", change, "mo")
            self.process.operations.wait(60)
            self.call("DELETE", f"/v1/nodes/{node['id']}", user="mo")
            self.process.operations.wait(60)
        expected = [
            ("mo", "claims:create", f"claims/{claim}", "done"),
            ("mo", "claims:delete", f"claims/{claim}", "done"),
            ("mo", "claims:delete", f"claims/{claim}", "done"),
            ("ann", "quotas:update", "quotas/mo", "done"),
            ("ann", "zones:create", "zones/east", "access_denied"),
            ("mo", "nodes:create", begun[4:], "accepted"),
            ("mo", "nodes:create", f"nodes/{node['id']}", "done"),
            ("mo", "nodes:update", f"nodes/{node['id']}", "accepted"),
            ("mo", "nodes:update", f"nodes/{node['id']}", "name_unknown"),
            ("mo", "nodes:delete", f"nodes/{node['id']}", "accepted"),
            ("mo", "nodes:delete", f"nodes/{node['id']}", "done"),
        ]
        found = self.call("GET", "/v1/audit", user="ann").json
        keys = ("user", "verb", "object", "outcome")
        shown = [tuple(one[key] for key in keys) for one in reversed(found)]
        self.assertEqual(sorted(expected), sorted(shown))
        in_log = [tuple(record.fields[key] for key in keys) for record in logged.records]
        self.assertEqual(sorted(expected), sorted(in_log))
        only = self.call("GET", f"/v1/audit?object=claims/{claim}&outcome=done&limit=1", user="ann")
        self.assertEqual(["claims:delete"], [one["verb"] for one in only.json])
        self.check_problem(self.call("GET", "/v1/audit", user="mo"), 403, "access_denied")
