# SPDX-License-Identifier: Apache-2.0
"""The application: versions, bodies, problems, limits, idempotency, logs."""

import io
import itertools
import json
import logging
import re
import threading
import unittest
from random import Random
from types import MappingProxyType
from unittest import mock

from tests.service.application import SMALL, ApplicationCase
from tests.unit.core.fit.covers import FAMILIES, podm, properties
from valence_sched.errors import StoreError
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.model.verbs import StatsBody
from valence_sched.server.process import JsonLines
from valence_sched.service.routes import ROUTES
from valence_sched.service.settings import Limits
from valence_sched.store.service_state import Records

SELECT = "/v1/select_destinations"
SPLIT = FAMILIES["split"](44, Random(4))
HARD_SITE = {"schema": "valence-sched/inventory", "version": "1.0", "podms": [podm("hard", SPLIT)]}
TIGHT = {
    "name": "tight",
    "filters": ["alive", "capacity", "devices"],
    "weighers": ["pack"],
    "budget": {"pool_states": 300, "decision_states": 0},
}


class TestVersions(ApplicationCase):
    def test_versions_are_listed_to_anybody(self):
        (version,) = self.call("GET", "/").json["versions"]
        self.assertEqual(("v1", "1.0", "1.0"), (version["id"], version["min_version"],
                                                version["version"]))  # fmt: skip

    def test_a_microversion_is_negotiated(self):
        for asked in (None, "podm-scheduler 1.0", "podm-scheduler latest", "compute 2.90",
                      "compute 2.90, podm-scheduler 1.0"):  # fmt: skip
            with self.subTest(asked):
                headers = {"OpenStack-API-Version": asked} if asked else {}
                result = self.call("GET", "/v1/policies", headers=headers)
                self.assertEqual(200, result.status_code)
                self.assertEqual("podm-scheduler 1.0", result.headers["openstack-api-version"])
                self.assertEqual("OpenStack-API-Version", result.headers["vary"])

    def test_a_version_that_is_not_there_is_refused(self):
        for asked in ("1.1", "2.0", "0.9", "one", "", "1.0.0", "99999999.1"):
            with self.subTest(asked):
                headers = {"OpenStack-API-Version": f"podm-scheduler {asked}"}
                result = self.call("GET", "/v1/policies", headers=headers)
                self.check_problem(result, 406, "http_406", "this service has 1.0 to 1.0")


class TestHead(ApplicationCase):
    def test_it_is_as_get_without_the_body(self):
        for path in ("/healthcheck", "/v1/podms", "/v1/podms/absent", "/ui"):
            head, get = self.call("HEAD", path), self.call("GET", path)
            with self.subTest(path):
                self.assertEqual((get.status_code, b""), (head.status_code, head.content))
                for name in ("content-type", "content-length"):
                    self.assertEqual(get.headers[name], head.headers[name])
        self.assertEqual(405, self.call("HEAD", SELECT).status_code)


class TestPaths(ApplicationCase):
    def test_a_slash_at_the_end_of_a_health_check_changes_nothing(self):
        for path in ("/healthcheck", "/healthcheck/alive"):
            with self.subTest(path):
                plain, slashed = self.call("GET", path), self.call("GET", f"{path}/")
                self.assertEqual(200, plain.status_code)
                self.assertEqual(plain.status_code, slashed.status_code)


class TestBodies(ApplicationCase):
    def test_a_request_is_one_as_in_a_request_file(self):
        result = self.call("POST", SELECT, {"request": {"flavor": "small", "alternates": 1}})
        (placement,) = result.json["report"]["placements"]
        self.assertEqual(200, result.status_code)
        self.assertEqual(1, len(placement["alternates"]))

    def test_what_is_wrong_is_named_with_its_place(self):
        request = {"flavor": "small"}
        for body, words in (
            ({"request": {**request, "colour": 1}}, "$.request: found unknown field 'colour'"),
            ({"request": {**request, "count": 0}}, "$.request.count: found 0, expected int >= 1"),
            ({"request": {**request, "capabilities": "fast"}}, "$.capabilities: found 'fast'"),
            ({"request": {**request, "where": ["near", 1]}}, "$.where[0]: found unknown operator"),
            ({"request": {**request, "attributes": {"a": "<is> 1"}}}, "$.attributes['a']: found"),
            ({"reqest": request}, "did you mean 'request'?"),
            ({}, "exactly one of request, compiled"),
            ({"request": request, "compiled": {}}, "exactly one of request, compiled"),
            ({"request": request, "detail": "all"}, "$.detail"),
            ([], "the body: $"),
        ):
            with self.subTest(words):
                self.check_problem(self.call("POST", SELECT, body), 400, "input_invalid", words)

    def test_what_is_no_json_is_refused(self):
        for data in (b"{", b"\xff", b"[" * 100_000, b"", b"null", b'{"request": NaN}'):
            with self.subTest(data[:10]):
                json_type = {"Content-Type": "application/json"}
                result = self.call("POST", SELECT, headers=json_type, body_bytes=data)
                self.check_problem(result, 400, "input_invalid")

    def call(self, *words, body_bytes=None, **others):
        if body_bytes is None:
            return super().call(*words, **others)
        return self.client.simulate_request(*words, body=body_bytes, headers=others["headers"])

    def test_a_media_type_and_a_size_are_checked(self):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        result = self.call("POST", SELECT, headers=form, body_bytes=b"a=b")
        self.check_problem(result, 415, "http_415", "application/json")
        for headers in ({}, {"Content-Type": "text/plain"}):
            result = self.call("POST", "/v1/reconciliations", headers=headers, body_bytes=b"")
            self.check_problem(result, 415, "http_415", "application/json")
        headers = {"Content-Type": "Application/JSON; charset=utf-8"}
        result = self.call("POST", SELECT, headers=headers, body_bytes=b"{}")
        self.check_problem(result, 400, "input_invalid")
        self.client = self.new_client(limits=Limits(body_bytes=1000))
        json_type = {"Content-Type": "application/json"}
        result = self.call("POST", SELECT, headers=json_type, body_bytes=b" " * 1001)
        self.check_problem(result, 413, "http_413", "1,000 bytes")

    def test_a_transfer_coding_that_nobody_decodes_is_refused(self):
        for coding in ("gzip", "gzip, chunked", "chunked, chunked"):
            headers = {"Transfer-Encoding": coding}
            result = self.call("POST", "/v1/select_destinations", SMALL, headers=headers)
            self.check_problem(result, 501, "http_501", f"transfer coding '{coding}'")
        result = self.call("POST", "/v1/select_destinations", SMALL,
                           headers={"Transfer-Encoding": "Chunked"})  # fmt: skip
        self.assertEqual(200, result.status_code)

    def test_an_older_request_is_taken_and_a_newer_major_refused(self):
        """S20: a stable, versioned interface."""
        needs = [{"kind": "processor", "measure": "cores", "amount": 8}]
        compiled = {"schema": "valence-sched/request", "version": "1.0", "needs": needs}
        self.assertEqual(200, self.call("POST", SELECT, {"compiled": compiled}).status_code)
        newer = {"compiled": {**compiled, "version": "2.0"}}
        self.check_problem(self.call("POST", SELECT, newer), 400, "schema_newer", "at most 1.x")
        other = {"compiled": {**compiled, "schema": "x"}}
        self.check_problem(self.call("POST", SELECT, other), 400, "input_invalid", "$.schema")

    def test_a_flavor_is_a_name_and_never_a_file(self):
        for name in ("/etc/passwd", "-", "examples/site.json", "smal"):
            with self.subTest(name):
                result = self.call("POST", SELECT, {"request": {"flavor": name}})
                self.check_problem(result, 404, "name_unknown", f"no flavor named {name!r}")

    def test_a_size_beyond_the_limits_is_refused(self):
        for fields, words in (
            ({"count": 1001}, "1,001 nodes exceed the limit of 1,000"),
            ({"alternates": 101}, "101 alternates exceed the limit of 100"),
        ):
            body = {"request": {**SMALL["request"], **fields}}
            self.check_problem(self.call("POST", SELECT, body), 400, "request_invalid", words)
        many = {"requests": [SMALL["request"]] * 101}
        result = self.call("POST", "/v1/select_all", many)
        self.check_problem(result, 400, "request_invalid", "101 requests exceed the limit of 100")

    def test_a_query_is_strict(self):
        for path in ("/v1/blocks?fre=true", "/v1/blocks?free=perhaps", "/v1/claims?ended=1"):
            with self.subTest(path):
                self.check_problem(self.call("GET", path), 400, "input_invalid")
        free = self.call("GET", "/v1/blocks?free=true&podm=gpu-east").json
        self.assertEqual({"gpu-east"}, {block["podm"] for block in free})

    def test_a_query_is_bounded(self):
        self.client = self.new_client(inventories=())
        self.call("DELETE", "/v1/claims/x")  # the first change creates the state
        for route in (one for one in ROUTES if one.method == "GET"):
            for word, value in itertools.product(route.words, ("9" * 20, "-1", "1e400", "nan")):
                with self.subTest(route.path, word=word, value=value):
                    path = f"{route.path.replace('{name}', 'x')}?{word}={value}"
                    self.assertLess(self.call("GET", path).status_code, 500)

    def test_a_character_that_not_each_store_takes_is_refused_everywhere(self):
        for body in ({"request": {**SMALL["request"], "owner": "a\0"}}, {"a\0": 1}):
            self.check_problem(super().call("POST", "/v1/claims", body), 400, "input_invalid",
                               "U+0000")  # fmt: skip
        for path in ("/v1/claims/%00", "/v1/decisions/-?name=a%00", "/v1/claims?owner=%00",
                     "/v1/quotas/%00", "/ui/claims/%00"):  # fmt: skip
            with self.subTest(path):
                self.assertEqual(400, super().call("GET", path).status_code)
        body = {"request": {**SMALL["request"], "owner": "a\\u0000"}}
        self.assertEqual(200, super().call("POST", SELECT, body).status_code)

    def test_a_key_that_stands_twice_is_refused(self):
        form = {"Content-Type": "application/json"}
        for path, body, place in (
            (SELECT, b'{"request":{"flavor":"small","count":1,"count":2}}', "$.request"),
            ("/v1/nodes", b'{"flavor_id":"a","flavor_id":"b"}', "$"),
        ):
            result = self.call("POST", path, headers=form, body_bytes=body)
            words = f"{place}: found the key '"
            self.check_problem(result, 400, "input_invalid", words)
            self.assertIn("' twice, expected each key once", result.json["detail"])

    def test_a_parameter_that_is_unknown_or_stands_twice_is_refused(self):
        for path, words in (
            ("/v1/claims?ownr=a", "found unknown parameter 'ownr' (did you mean 'owner'"),
            ("/v1/podms?limit=1", "the query: found unknown parameter 'limit'"),
            ("/v1/podms/gpu-east?name=gpu-west", "the query: found unknown parameter 'name'"),
            ("/v1/blocks?podm=a&podm=b", "found the parameter 'podm' twice, expected it once"),
            ("/v1/blocks?free=no", 'the query: $.free: found "no", expected bool'),
        ):
            with self.subTest(path):
                self.check_problem(self.call("GET", path), 400, "input_invalid", words)

    def test_a_body_that_is_too_deep_is_refused_by_every_route_before_any_effect(self):
        form = {"Content-Type": "application/json"}
        before = self.call("GET", "/v1/podms/gpu-east").json
        for route in (one for one in ROUTES if one.body is not None and not one.takes_token):
            path = route.path.replace("{name}", "gpu-east")
            for depth in (65, 900, 100_000):
                deep = "[" * depth + "1" + "]" * depth
                body = f'{{"request":{{"flavor":"small","where":{deep}}}}}'
                if route.body is StatsBody:
                    body = f'{{"stats":{{"a":{deep}}}}}'
                with self.subTest(route.path, depth=depth):
                    result = self.call(route.method, path, headers=form, body_bytes=body.encode())
                    self.check_problem(result, 400, "input_invalid", "nested lists")
        self.assertEqual(before, self.call("GET", "/v1/podms/gpu-east").json)
        for path in ("/v1/claims?ended=true", "/v1/nodes"):
            self.assertEqual([], self.call("GET", path).json)

    def test_one_that_the_server_cannot_read_is_no_defect(self):
        words = {"wsgi.input": UnreadableBody(), "wsgi.input_terminated": True}
        result = self.call("POST", "/v1/fits", headers={"Content-Type": "application/json"},
                           extras=words)  # fmt: skip
        self.assertEqual(400, result.status_code, result.text)
        self.assertIn("cannot be read: Invalid chunk size: b'z'", result.json["detail"])


class UnreadableBody(io.BytesIO):
    """The body of a request that the server cannot read; it raises an error of the server."""

    def read(self, *_words):
        raise RuntimeError("Invalid chunk size: b'z'\r\n")


class TestProblems(ApplicationCase):
    def test_what_is_not_there_is_a_problem(self):
        for method, path, status, code in (
            ("GET", "/v2", 404, "http_404"),
            ("GET", "/v1/podms/", 404, "name_unknown"),
            ("PUT", "/v1/podms", 405, "http_405"),
            ("GET", "/v1/podms/nope", 404, "name_unknown"),
            ("GET", "/v1/podms/-?name=a/b", 404, "name_unknown"),
            ("GET", "/v1/claims/nope", 404, "name_unknown"),
            ("GET", "/v1/operations/nope", 404, "name_unknown"),
            ("GET", "/v1/operations/" + "x" * 500, 404, "name_unknown"),
            ("GET", "/v1/decisions/nope", 404, "name_unknown"),
            ("GET", "/v1/plugins/nope", 404, "name_unknown"),
            ("DELETE", "/v1/podms/nope/stats", 404, "name_unknown"),
        ):
            with self.subTest(path):
                self.check_problem(self.call(method, path), status, code)

    def test_a_problem_has_the_exit_code_and_what_the_error_says(self):
        found = self.call("POST", "/v1/claims", SMALL).json
        self.assertEqual(("usage", 2), (found["code"], found["exit_code"]))
        found = self.call("GET", "/v1/podms/gpu-eas").json
        self.assertEqual("gpu-eas", found["members"]["name"])
        self.assertTrue(found["type"].endswith(":name_unknown"))

    def test_a_defect_tells_nothing_but_where_it_is_logged(self):
        with (
            mock.patch.object(type(self.process.operations), "get", side_effect=KeyError("s3cr3t")),
            self.assertLogs("valence_sched.service", "ERROR") as logs,
        ):
            result = self.call("GET", "/v1/operations/x")
        self.check_problem(result, 500, "scheduler_error", result.json["request_id"])
        self.assertNotIn("s3cr3t", result.text)
        self.assertIn(result.json["request_id"], logs.output[0])

    def test_a_request_that_waits_too_long_is_sent_away(self):
        self.client = self.new_client(limits=Limits(queue_s=0.05))
        entered, leave = threading.Event(), threading.Event()
        schedulers = self.process.parts.schedulers

        def decide_long():
            with schedulers.reading():
                entered.set()
                leave.wait(10)

        thread = threading.Thread(target=decide_long)
        thread.start()
        entered.wait(10)
        try:
            result = self.call("POST", SELECT, SMALL)
        finally:
            leave.set()
            thread.join()
        self.check_problem(result, 503, "service_busy", "try again")
        self.assertEqual("1", result.headers["retry-after"])
        self.assertEqual(200, self.call("POST", SELECT, SMALL).status_code)


class TestIdempotency(ApplicationCase):
    KEY = MappingProxyType({"Idempotency-Key": "k-1"})

    def test_a_post_that_is_sent_again_gets_its_first_answer(self):
        path = "/v1/podms/rack-1/stats"
        first = self.call("POST", path, {"stats": {"load": 1}}, headers=self.KEY)
        other = self.call("POST", path, {"stats": {"load": 2}}, headers={"Idempotency-Key": "k-2"})
        again = self.call("POST", path, {"stats": {"load": 1}}, headers=self.KEY)
        self.assertEqual((first.status_code, first.text), (again.status_code, again.text))
        self.assertEqual("true", again.headers["idempotency-replayed"])
        self.assertNotIn("idempotency-replayed", other.headers)
        self.assertEqual({"load": 2}, self.call("GET", path).json["stats"])

    def test_a_change_whose_answer_cannot_be_stored_is_not_denied(self):
        full = mock.patch.object(Records, "put_new", side_effect=StoreError("disk full"))
        body, path = {"stats": {"load": 1}}, "/v1/podms/rack-1/stats"
        with full, self.assertLogs("valence_sched.service", "ERROR") as logged:
            first = self.call("POST", path, body, headers=self.KEY)
        self.assertEqual(200, first.status_code, first.text)
        self.assertIn("'k-1' is not stored: disk full", logged.output[0])
        again = self.call("POST", path, body, headers=self.KEY)
        self.assertNotIn("idempotency-replayed", again.headers)

    def test_a_key_is_for_one_request(self):
        self.call("POST", SELECT, SMALL, headers=self.KEY)
        other = {"request": {**SMALL["request"], "count": 2}}
        result = self.call("POST", SELECT, other, headers=self.KEY)
        self.check_problem(result, 409, "name_taken", "'k-1' belongs to another request")

    def test_a_failure_may_be_tried_again(self):
        bad = {"request": {"flavor": "nope"}}
        self.call("POST", SELECT, bad, headers=self.KEY)
        self.assertEqual(200, self.call("POST", SELECT, SMALL, headers=self.KEY).status_code)

    def test_a_key_is_printable(self):
        for key in ("", " ", "ä", "x" * 256):
            with self.subTest(key[:3]):
                result = self.call("POST", SELECT, SMALL, headers={"Idempotency-Key": key})
                self.check_problem(result, 400, "input_invalid", "Idempotency-Key")


class TestDecisions(ApplicationCase):
    def test_a_decision_that_is_kept_is_found(self):
        kept = {"request": {**SMALL["request"], "seed": 0}, "keep": True}
        result = self.call("POST", SELECT, kept)
        path = result.headers["content-location"]
        self.assertEqual(result.json["report"], self.call("GET", path).json)
        again = self.call("POST", SELECT, kept)
        self.assertEqual(path, again.headers["content-location"])
        self.assertNotIn("content-location", self.call("POST", SELECT, SMALL).headers)

    def test_what_is_decided_on_is_read_once_whatever_is_asked(self):
        views = []
        load = InventoryLoader.view

        def counted(*words):
            views.append(1)
            return load(*words)

        with mock.patch.object(InventoryLoader, "view", counted):
            for body in (SMALL, {"request": {"flavor": "nope"}}, {"request": {"flavor": "small",
                         "podms": ["nope"]}}, SMALL):  # fmt: skip
                self.call("POST", SELECT, body)
        self.assertEqual([1], views)

    def test_a_restarted_service_decides_on_its_own_store(self):
        """S23: the readings are stored, so pod managers are not needed."""
        self.settings = {}
        self.client = self.new_client()
        rack = {"pools": [{"id": "z"}], "blocks": [{"uri": "/b", "type": ["Compute"],
                "pools": ["z"], "devices": {"processors": [{"cores": 16}]}}]}  # fmt: skip
        self.call("POST", "/v1/podms/rack-1/stats", {"stats": rack})
        asked = {"request": {**SMALL["request"], "seed": 0}}
        before = self.call("POST", SELECT, asked).json
        self.client = self.new_client()
        self.assertEqual("rack-1", before["report"]["placements"][0]["chosen"]["podm"])
        self.assertEqual(before, self.call("POST", SELECT, asked).json)

    def test_a_change_is_in_the_very_next_decision_of_every_process(self):
        """S24: an edit by another process is seen without a restart."""
        self.settings = {}
        one, other = self.new_client(), self.new_client()
        for client, enabled in ((one, True), (other, False), (one, True)):
            self.client = client
            rack = {"pools": [{"id": "z"}], "enabled": enabled, "blocks": [
                {"uri": "/b", "type": ["Compute"], "pools": ["z"],
                 "devices": {"processors": [{"cores": 16}]}}]}  # fmt: skip
            self.call("POST", "/v1/podms/rack-1/stats", {"stats": rack})
            for reader in (one, other):
                self.client = reader
                report = self.call("POST", SELECT, SMALL).json["report"]
                self.assertEqual(int(enabled), report["placed"])

    def test_the_algorithm_is_configuration(self):
        """S2: another policy decides, and nothing else changes."""
        policies = self.folder / "policies.yaml"
        policies.write_text("policies: [{name: default, filters: [], weighers: []}]\n")
        plain = self.call("POST", SELECT, SMALL).json["report"]["policy"]
        self.client = self.new_client(policy_files=(str(policies),))
        other = self.call("POST", SELECT, SMALL).json["report"]["policy"]
        self.assertTrue(plain["filters"])
        self.assertFalse(other.get("filters"))

    def test_a_file_of_the_service_that_breaks_is_no_fault_of_the_client(self):
        policies = self.folder / "policies.yaml"
        policies.write_text("policies: [{name: default, filters: [], weighers: []}]\n")
        self.client = self.new_client(policy_files=(str(policies),))
        self.assertEqual(200, self.call("POST", SELECT, SMALL).status_code)
        policies.write_text("policies: 7\n")
        for method, path, body in (("POST", SELECT, SMALL), ("POST", "/v1/plans", SMALL)):
            result = self.call(method, path, body)
            self.check_problem(result, 503, "inventory_incomplete", "a file of the service is inv")


class TestLogs(ApplicationCase):
    def test_each_answer_is_a_line_without_secrets(self):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonLines())
        logger = logging.getLogger("valence_sched.service")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.INFO)
        headers = {
            "X-Openstack-Request-Id": "req-mine",
            "Authorization": "Basic c2VjcmV0OnNlY3JldA==",
        }
        self.call("GET", "/v1/podms/password=hunter22?token=hunter22", headers=headers)
        line = json.loads(stream.getvalue())
        self.assertEqual(("req-mine", "GET", 400, "input_invalid"), (
            line["request_id"], line["method"], line["status"], line["code"]))  # fmt: skip
        for secret in ("hunter22", "c2VjcmV0"):
            self.assertNotIn(secret, stream.getvalue())

    def test_a_request_id_of_another_form_is_replaced(self):
        for given in ("x" * 500, "req-\n", "req-ä", "1"):
            result = self.call("GET", "/", headers={"X-Openstack-Request-Id": given})
            self.assertRegex(result.headers["x-openstack-request-id"], "^req-[0-9a-f-]{36}$")

    def test_an_error_in_a_log_has_no_secret(self):
        record = logging.makeLogRecord({"msg": "at https://u:hunter22@podm/ %s", "args": ("x",)})
        self.assertNotIn("hunter22", JsonLines().format(record))

    def test_metrics_count_by_route(self):
        self.call("GET", "/v1/podms/gpu-east")
        self.call("GET", "/v1/podms/nope")
        self.call("GET", "/nope/whatever")
        text = self.call("GET", "/metrics").text
        for words in (
            'requests_total{method="GET",route="/v1/podms/{name}",status="200"} 1.0',
            'requests_total{method="GET",route="/v1/podms/{name}",status="404"} 1.0',
            'requests_total{method="GET",route="unknown",status="404"} 1.0',
        ):
            self.assertIn(f"valence_scheduler_{words}", text)

    def test_metrics_count_each_new_decision_by_its_outcome(self):
        hard, policy = self.folder / "hard.json", self.folder / "tight.json"
        hard.write_text(json.dumps(HARD_SITE))
        policy.write_text(json.dumps(TIGHT))
        self.client = self.new_client(inventories=(str(hard),), policy_files=(str(policy),))
        request = {"properties": properties(SPLIT), "policy": "tight"}
        self.assertEqual([0.0] * 4, [*self.decisions().values()])
        self.assertEqual(
            "undecided", self.call("POST", SELECT, {"request": request}).json["report"]["outcome"]
        )
        for _ in range(2):
            self.call("POST", SELECT, SMALL, headers={"Idempotency-Key": "once"})
        self.call(
            "POST", "/v1/plans", {"request": {"properties": {"processor": {"total_cores": 10**9}}}}
        )
        self.call("POST", "/v1/select_all", {"requests": [SMALL["request"]]})
        self.call("POST", SELECT, {"request": {"flavor": "nope"}})
        wanted = {"placed": 2.0, "placed_in_part": 0.0, "nothing_fits": 1.0, "undecided": 1.0}
        self.assertEqual(wanted, self.decisions())

    def decisions(self):
        text = self.call("GET", "/metrics").text
        found = re.findall(r'^valence_scheduler_decisions_total{outcome="(\w+)"} (.+)$', text, re.M)
        return {outcome: float(number) for outcome, number in found}


class TestHealth(ApplicationCase):
    def test_a_service_that_can_decide_is_well(self):
        self.assertEqual({"status": "ok", "problems": []}, self.call("GET", "/healthcheck").json)

    def test_one_without_its_state_is_not(self):
        self.client = self.new_client(state=f"{self.folder}/missing/../../../dev/null/x")
        result = self.call("GET", "/healthcheck")
        self.assertEqual((503, "failing"), (result.status_code, result.json["status"]))
        self.assertTrue(result.json["problems"])


class TestRoutes(unittest.TestCase):
    def test_each_route_has_a_rule_or_tells_nothing_of_anybody(self):
        public = {route.path for route in ROUTES if not route.rule}
        checks = {"/healthcheck", "/healthcheck/alive"}
        tokens = {route.path for route in ROUTES if route.takes_token}
        self.assertEqual({"/v1/events/{token}"}, tokens)
        self.assertEqual({"/", "/v1", "/v1/openapi.json", *checks, *tokens}, public)

    def test_what_changes_takes_more_than_a_reader(self):
        changing = [route for route in ROUTES if route.method in ("POST", "DELETE")]
        self.assertTrue(changing)
        for route in changing:
            if route.role == "reader" and not route.takes_token:
                harmless = ("decisions:create", "plans:create", "requests:create")
                self.assertIn(route.rule, harmless, route.path)

    def test_no_route_is_there_twice(self):
        self.assertEqual(len(ROUTES), len({(route.method, route.path) for route in ROUTES}))
