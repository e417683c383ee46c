# SPDX-License-Identifier: Apache-2.0
"""A stored body of one tenant does not break the lists of other tenants."""

import json
from types import MappingProxyType

import hypothesis
import sqlalchemy as sa
from hypothesis import strategies

from tests.service.application import SMALL, LivePodmsCase
from tests.service.serving import wait_for
from tests.unit.store.engines import raw_engine
from valence_sched.model.verbs import EventBody
from valence_sched.model.zone import ZoneSettings
from valence_sched.service.routes import REFERENCE, ROUTES, document

MOST, EACH = 80, 4  # examples of a body, and of one place of it
SITE, OTHER = "gpu-east", "general-1"
STOCK = {"request": {"podms": [OTHER], "properties": {
    "processor": {"total_cores": 8}, "resources": {"storage_gib": 100}}}}  # fmt: skip
VALUES = (
    -1, -5, -0.0001, 0, 2**53, 2**63, 2**70, -(2**70), 1e300, True, None, "", "a" * 2000,
    "\N{SNOWMAN}", [], {}, [None], [[]] * 3, {"": -1}, json.loads("[" * 60 + "]" * 60),
)  # fmt: skip
#: Routes that change only signed or already requested objects of the state.
NOT_STORED = ("/v1/zones/claims", "/v1/previews")
SEEN = (("/v1/podms", "tom"), ("/v1/nodes", "tom"), ("/v1/claims", "ada"), ("/v1/zones", "ada"))
LISTS = [route for route in ROUTES if route.method == "GET" and "{" not in route.path]
STORED = [route for route in ROUTES if route.body is not None and route.changes
          and route.body is not EventBody and route.path not in NOT_STORED]  # fmt: skip


class StoredCase(LivePodmsCase):
    """A test case with a claim of one tenant, whose effects another tenant checks."""

    users = ("mia:member", "tom:member", "ada:admin")
    names = (SITE, OTHER)

    def setUp(self):
        super().setUp()
        self.held = self.ask("POST", "/v1/claims", SMALL, "mia").json["claim"]["id"]

    def tearDown(self):
        self.process.operations.wait(60)

    def node(self):
        """Compose a node, and return its ID."""
        begun = self.ask("POST", "/v1/nodes", SMALL, "mia").json
        self.process.operations.wait(60)
        done = self.ask("GET", f"/v1/operations/{begun['id']}", None, "mia").json
        return done["result"]["nodes"][0]["id"]

    def ask(self, method, path, body, user):
        result = self.call(method, path, body, user)
        self.assertLess(result.status_code, 300, result.text)
        return result

    def check_lists(self):
        """Check that all lists of another tenant and of an administrator are complete."""
        for route in LISTS:
            for user in ("tom", "ada") if route.role == "reader" else ("ada",):
                result = self.call(route.method, route.path, None, user)
                self.assertEqual(200, result.status_code, f"{route.path} {user}: {result.text}")


class BodiesCase:
    """Fuzzes the ``bodies`` of the routes ``stored``, by path."""

    def test_no_body_that_is_stored_is_another_ones_loss(self):
        bodies = self.bodies()
        stored = {(one.method, one.path) for one in self.stored}
        self.assertEqual(stored, bodies.keys() - {("POST", "/v1/select_destinations")})
        roles = {(one.method, one.path): one.role for one in ROUTES}
        for (method, route), (path, examples) in bodies.items():
            user = "ada" if roles[method, route] == "admin" else "mia"
            for body in examples:
                with self.subTest(f"{method} {route}", body=sorted(body)):
                    self.fuzz(method, path, user, body, places(method, route, body))
        self.process.operations.wait(60)
        self.check_lists()
        health = self.call("GET", "/healthcheck")
        self.assertEqual((200, "ok"), (health.status_code, health.json["status"]))

    def fuzz(self, method, path, user, body, found):
        examples = min(MOST, EACH * len(found))
        numbers = (strategies.integers(0, len(of) - 1) for of in (found, VALUES))
        change = strategies.tuples(*numbers)

        @hypothesis.settings(max_examples=examples, deadline=None, database=None, derandomize=True,
                             suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip
        @hypothesis.given(change)
        def check(change):
            place, value = found[change[0]], VALUES[change[1]]
            result = self.call(method, path, with_value(body, place, value), user)
            self.assertLess(result.status_code, 500, result.text)
            if result.status_code < 300:
                for list_path, other in SEEN:
                    seen = self.call("GET", list_path, None, other)
                    self.assertEqual(200, seen.status_code, f"{place}: {value}: {seen.text}")
            if result.status_code == 201:  # otherwise nothing could be claimed
                made = result.json.get("claim") or result.json["registration"]
                self.call("DELETE", f"{path}/{made.get('id', made.get('name'))}", None, "ada")

        check()


class TestBodies(BodiesCase, StoredCase):
    """All bodies except those about child zones."""

    stored = tuple(one for one in STORED if not one.path.startswith("/v1/zones"))

    def bodies(self):
        """Return the path of each route that stores its body, with valid bodies."""
        request = {"owner": None, "group": {"name": "g"}, "zone": None, **STOCK["request"]}
        compiled = self.ask("POST", "/v1/requests", STOCK, "mia").json
        plan = self.ask("POST", "/v1/plans", STOCK, "mia").json["plan"]
        assert plan["decision"]["placements"][0]["chosen"]["grants"], "else less is stored"
        claims = [{"request": request, "ttl_s": 60}, {"compiled": compiled}, {"plan": plan}]
        registration = {"name": "new", "url": "http://127.0.0.1:1", "facts": {"a": 1.5},
                        "max_blocks": {"Compute": 2}, "capabilities": {"os": ["x"]}}  # fmt: skip
        limits = {"limits": {"claims": 5, "cores": 1000}}
        stats = {"load": 1, "facts": {"a": 1}, "amounts": {"GB": 5}, "enabled": True,
                 "capabilities": "os=linux", "zone": "z", "blocks": [{"uri": "/b"}]}  # fmt: skip
        return {
            ("POST", "/v1/claims"): ("/v1/claims", claims),
            ("POST", "/v1/nodes"): ("/v1/nodes", [claims[0], {"claim": self.held}]),
            ("POST", "/v1/nodes/{name}/changes"): (f"/v1/nodes/{self.node()}/changes", [
                {"change": {"attach": {"accelerators": [{"count": 1}]}, "before": ["/b"]}},
                {"change": {"flavor": "small"}, "dry_run": True},
            ]),
            ("POST", "/v1/claims/{name}/renew"): (f"/v1/claims/{self.held}/renew", [{"ttl_s": 60}]),
            ("POST", "/v1/reconciliations"): ("/v1/reconciliations", [{"dry_run": True}]),
            ("POST", "/v1/podms"): ("/v1/podms", [{"registration": registration, "check": False}]),
            ("PATCH", "/v1/podms/{name}"): (f"/v1/podms/{OTHER}", [{"facts": {"a": 1}}]),
            ("POST", "/v1/podms/{name}/stats"): (f"/v1/podms/{OTHER}/stats", [{"stats": stats}]),
            ("PUT", "/v1/quotas"): ("/v1/quotas", [limits]),
            ("PATCH", "/v1/quotas"): ("/v1/quotas", [limits]),
            ("PUT", "/v1/quotas/{name}"): ("/v1/quotas/zoe", [limits]),
            ("PATCH", "/v1/quotas/{name}"): ("/v1/quotas/zoe", [limits]),
            ("POST", "/v1/select_destinations"): (
                "/v1/select_destinations", [{"request": request, "keep": True}]
            ),
        }  # fmt: skip


class TestZones(BodiesCase, StoredCase):
    """Bodies about child zones."""

    settings = MappingProxyType({"zones": ZoneSettings(enable_zone_routing=True)})
    stored = tuple(one for one in STORED if one.path.startswith("/v1/zones"))

    def bodies(self):
        zone = {"name": "west", "url": "http://127.0.0.1:1", "enabled": False}
        self.ask("POST", "/v1/zones", zone | {"name": "east"}, "ada")
        return {
            ("POST", "/v1/zones"): ("/v1/zones", [zone]),
            ("PATCH", "/v1/zones/{name}"): ("/v1/zones/east", [{"weight_offset": 0.5}]),
        }


class TestDamage(StoredCase):
    """Rows of an older program, or damaged rows, of one tenant after another."""

    def test_every_other_tenant_goes_on(self):
        own = self.ask("POST", "/v1/claims", SMALL, "tom").json["claim"]["id"]
        self.ask("POST", "/v1/select_destinations", SMALL | {"keep": True}, "mia")
        engine = raw_engine(self.state)
        with engine.begin() as connection:
            for table, where in (("claims", "owner = 'mia'"), ("decisions", "1 = 1"),
                                 ("registry", f"name = '{OTHER}'")):  # fmt: skip
                text = sa.text(f"update {table} set document = :garbage where {where}")
                connection.execute(text, {"garbage": b'[{"podm":"p","generation":-1}]'})
        engine.dispose()
        with self.assertLogs("valence_sched.store", "WARNING"):
            self.check_lists()
        counts = "claims 1, decisions 1, registry 1 "
        wait_for(lambda: counts in self.call("GET", "/healthcheck").text)
        health = self.call("GET", "/healthcheck")
        self.assertEqual((200, "degraded"), (health.status_code, health.json["status"]))
        metrics = self.call("GET", "/metrics", None, "ada").text
        self.assertIn('valence_scheduler_undecodable_rows{table="claims"} 1.0', metrics)
        path = f"/v1/claims/{self.held}"
        mine, tom = self.call("GET", path, None, "mia"), self.call("GET", path, None, "tom")
        self.check_problem(mine, 500, "undecodable", f"claim {self.held} cannot be decoded")
        self.assertNotIn(str(self.folder), mine.text)
        self.check_problem(tom, 404, "name_unknown")
        self.check_problem(self.call("DELETE", path, None, "tom"), 404, "name_unknown")
        self.ask("GET", f"/v1/claims/{own}", None, "tom")
        self.ask("POST", "/v1/claims", SMALL, "tom")
        self.ask("DELETE", path, None, "mia")

    def test_a_number_that_is_no_time_breaks_no_page(self):
        self.ask("POST", "/v1/select_destinations", SMALL | {"keep": True}, "mia")
        engine = raw_engine(self.state)
        for number in (1e300, -1e300, 1e12):
            with engine.begin() as connection:
                for table, column in (("claims", "created_at"), ("claims", "expires_at"),
                                      ("decisions", "decided_at")):  # fmt: skip
                    connection.exec_driver_sql(f"update {table} set {column} = {number}")
            self.check_lists()
        engine.dispose()


def places(method, path, body):
    """Return the places in a body, also those that are only in the API document.

    For a plan, only the places of the claimed parts: nothing else is stored.
    """
    described = json.loads(document())
    operation = described["paths"][path][method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    found = list(_places(schema, body, described["components"]["schemas"]))
    claimed = [one for one in found if one[:3] == ("plan", "decision", "placements")]
    return [one for one in claimed if "alternates" not in one] or found


def _places(schema, value, components, place=()):
    kinds = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    names = [one["$ref"].removeprefix(REFERENCE.format(name="")) for one in kinds if "$ref" in one]
    kinds += [components[name] for name in names]
    if place:
        yield place
    if isinstance(value, dict):
        properties = {
            name: one for kind in kinds for name, one in kind.get("properties", {}).items()
        }
        for name in {**properties, **value}:
            below = properties.get(name, {})
            yield from _places(below, value.get(name), components, (*place, name))
    elif isinstance(value, list):
        items = next((kind["items"] for kind in kinds if "items" in kind), {})
        for number, item in enumerate(value[:2]):
            yield from _places(items or {}, item, components, (*place, number))


def with_value(value, place, new):
    """Return JSON with another value at a place, unchanged if the place does not exist."""
    if not place:
        return new
    first, *rest = place
    if isinstance(value, dict):
        return value | {first: with_value(value.get(first), rest, new)}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        return [*value[:first], with_value(value[first], rest, new), *value[first + 1 :]]
    return value
