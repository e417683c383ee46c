# SPDX-License-Identifier: Apache-2.0
"""Two tenants: nothing that one has is named in any answer that the other gets."""

import json
import re

from tests.service.application import SMALL, LivePodmsCase
from valence_sched.service.routes import ROUTES

FLAVOR = {"request": {"flavor": "small"}}
GPU = {"request": {"properties": {"accelerators": [{"kind": "GPU", "count": 1}]}}}
MANY_GPUS = {"request": {"properties": {"accelerators": [{"kind": "GPU", "count": 4}]}}}
SPREAD = {
    "request": {**SMALL["request"], "group": {"name": "spread", "soft_anti_affinity": ["podm"]}}
}
REQUESTS = (SMALL, FLAVOR, GPU, MANY_GPUS, SPREAD)
KEY = "key-of-eve"
MOST_CLAIMS = 60
#: What a route is asked with besides requests; every route that takes a body is one or the other.
BODIES = {
    "RenewBody": {"ttl_s": 60},
    "ReconcileBody": {},
    "StatsBody": {"stats": {"load": 1}},
    "QuotaLimits": {"limits": {"claims": 100}},
    "QuotaChange": {"limits": {"claims": 100}},
}


def told(result) -> str:
    """Return what an answer says, without the id of its request."""
    if result.text.startswith("<"):
        return re.sub(r"req-[\w-]+", "", result.text)
    return result.json.get("detail", result.text)


class TestTenants(LivePodmsCase):
    """Eve has claims and nodes on every pod manager; Mo asks for everything."""

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
        """Let Eve compose nodes, and then claim all GPUs that are left."""
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
        """No answer names anything of Eve, not in its headers either; a page has what was typed."""
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
                        self.check(result, path, typed=f'value="{value}"')

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
