# SPDX-License-Identifier: Apache-2.0
"""Quotas over HTTP: who sets them, who sees them, and what is beyond them is refused."""

from tests.service.application import SMALL, LivePodmsCase


class TestQuotas(LivePodmsCase):
    users = ("ann:admin", "mo", "eve")

    def put(self, path, limits, user="ann"):
        return self.call("PUT", path, {"limits": limits}, user=user)

    def test_what_is_beyond_a_quota_is_refused_with_what_is_in_use(self):
        self.assertEqual(200, self.put("/v1/quotas", {"claims": 5}).status_code)
        small = {"request": {**SMALL["request"], "podms": ["general-1"]}}
        claimed = self.call("POST", "/v1/claims", small, user="eve").json["claim"]
        cores = claimed["parts"][0]["shares"][0]["charges"]["cores"]
        self.assertGreater(cores, 8)  # of a whole block
        self.call("DELETE", f"/v1/claims/{claimed['id']}", user="eve")
        shown = self.put("/v1/quotas/mo", {"cores": cores, "nodes": 9}).json
        self.assertEqual({"claims": 5, "cores": cores, "nodes": 9}, shown["limits"])
        self.assertEqual(201, self.call("POST", "/v1/claims", small, user="mo").status_code)
        result = self.call("POST", "/v1/claims", small, user="mo")
        words = f"quota of 'mo': cores: {cores:g} in use and {cores:g} more needed, {cores:g} allo"
        self.check_problem(result, 403, "quota_exceeded", words)
        self.assertEqual(1, len(self.call("GET", "/v1/claims", user="mo").json))
        self.assertEqual(201, self.call("POST", "/v1/claims", small, user="eve").status_code)
        used = self.call("GET", "/v1/quotas/mo", user="mo").json["used"]
        self.assertEqual((1, 1, cores), (used["claims"], used["nodes"], used["cores"]))

    def test_a_node_counts_all_accelerators_of_its_blocks(self):
        """Once the blocks of one are taken, one accelerator comes in a block of two."""
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
