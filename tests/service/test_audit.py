# SPDX-License-Identifier: Apache-2.0
"""Audit: each change leaves a line that says who asked for what, and what came of it."""

import logging

from tests.service.application import SMALL, ApplicationCase, LivePodmsCase
from valence_sched.model.effect import AuditQuery
from valence_sched.service.routes import ROUTES
from valence_sched.store.store import Store

#: Routes that take a body and change nothing.
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
        users = self.users_file("ann:admin", "rea:reader")
        self.client = self.new_client(auth="basic", users_file=users)
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
                    self.assertRegex(line.object, f"^({path[4:]}|operations/)")
        for line in lines(self.state, user="rea"):
            self.assertEqual("access_denied", line.outcome)

    def test_what_only_reads_and_strangers_leave_none(self):
        users = self.users_file("ann:admin")
        self.client = self.new_client(auth="basic", users_file=users)
        self.call("GET", "/v1/podms", user="ann")
        self.call("POST", "/v1/select_destinations", SMALL, "ann")
        self.call("DELETE", "/v1/claims/x", user="eve")
        self.assertEqual([], lines(self.state))


class TestChanges(LivePodmsCase):
    users = ("ann:admin", "mo")

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
