# SPDX-License-Identifier: Apache-2.0
"""The description of the API: it is one, it has every route, and the service keeps to it."""

import json
import unittest
from types import MappingProxyType

import hypothesis
import jsonschema
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.application import EXAMPLE, ApplicationCase
from valence_sched.service.openapi import document
from valence_sched.service.routes import ROUTES
from valence_sched.service.settings import Limits

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = 6  # of each operation
SLOW = ("POST /v1/plans/refresh", "POST /v1/previews")  # whole decisions as bodies: one is drawn


class TestDocument(unittest.TestCase):
    def setUp(self):
        self.document = json.loads(document())

    def test_every_route_is_described_and_no_other(self):
        described = {
            (method.upper(), path)
            for path, methods in self.document["paths"].items()
            for method in methods
        }
        self.assertEqual({(route.method, route.path) for route in ROUTES}, described)

    def test_each_operation_has_a_name_of_its_own(self):
        operations = [
            one for methods in self.document["paths"].values() for one in methods.values()
        ]
        ids = [one["operationId"] for one in operations]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual([], [one["operationId"] for one in operations if not one["summary"]])

    def test_every_schema_is_one(self):
        schemas = self.document["components"]["schemas"]
        self.assertIn("RequestSpec", schemas)
        for name, schema in schemas.items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)

    def test_every_reference_leads_somewhere(self):
        text = json.dumps(self.document)
        names = set(self.document["components"]["schemas"])
        named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
        self.assertEqual(set(), named - names)


class TestFuzz(ApplicationCase):
    """Bodies and queries of any form get answers that the description has, and never a 5xx."""

    settings = MappingProxyType(
        {"inventories": (EXAMPLE,), "limits": Limits(nodes=20, alternates=5, requests=3)}
    )

    def test_no_body_and_no_query_is_too_much(self):
        schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", self.process.application)
        for operation in (result.ok() for result in schema.get_all_operations()):
            with self.subTest(operation.label):
                self.fuzz(operation)

    def fuzz(self, operation):
        settings = hypothesis.settings(
            max_examples=1 if operation.label in SLOW else EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )

        @settings
        @hypothesis.given(case=operation.as_strategy())
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()
