# SPDX-License-Identifier: Apache-2.0
"""The description of the API: it is one, it has every route, and the service keeps to it."""

import json
import re
import shlex
import unittest
from collections import Counter
from pathlib import Path
from types import MappingProxyType

import hypothesis
import jsonschema
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service import settings_table
from tests.service.api_table import rows, table
from tests.service.application import EXAMPLE, ApplicationCase, testing_login
from valence_sched.model.codec import convert, load_yaml
from valence_sched.model.registration import Registration
from valence_sched.service.openapi import document
from valence_sched.service.routes import ROUTES
from valence_sched.service.settings import Limits, ReaderSettings, ServiceSettings, check_settings
from valence_sched.service.users import ROLES
from valence_sched.store.store import Store
from valence_sched.testing.served import served

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = 4  # of each operation, right and wrong ones
SEQUENCES, STEPS = 12, 15
LIMITS = Limits(nodes=20, alternates=5, requests=3)
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


class FuzzCase(ApplicationCase):
    """An application whose answers to bodies and queries of any form are checked."""

    settings = MappingProxyType({"inventories": (EXAMPLE,), "limits": LIMITS})

    def setUp(self):
        super().setUp()
        application = self.process.application
        self.schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", application)

    def tearDown(self):
        self.process.operations.wait(60)


class TestFuzz(FuzzCase):
    """Bodies and queries of any form get answers that the description has, and never a 5xx."""

    def test_no_body_and_no_query_is_too_much(self):
        for operation in (result.ok() for result in self.schema.get_all_operations()):
            modes = [GenerationMode.POSITIVE]
            if operation.body or operation.query or operation.path_parameters:
                modes.append(GenerationMode.NEGATIVE)  # else whatever is sent is right
            for mode in modes:
                with self.subTest(operation.label, mode=mode.value):
                    fuzz(operation, mode, 1 if operation.label in SLOW else EXAMPLES)


class TestRoles(FuzzCase):
    """Users of each role send what the description allows, and never get a 5xx."""

    def new_process(self, **words):
        users = self.users_file(*(f"{role}:{role}" for role in ROLES))
        return super().new_process(auth="basic", users_file=users, **words)

    def test_no_role_is_too_much(self):
        for operation in (result.ok() for result in self.schema.get_all_operations()):
            for role in ROLES:
                with self.subTest(operation.label, role=role):
                    headers = {"Authorization": testing_login(role, role)}
                    fuzz(operation, GenerationMode.POSITIVE, 1, headers)


class TestSequences(FuzzCase):
    """What one answer names is asked for next: claims, operations, pod managers."""

    def setUp(self):
        self.podms = self.enterContext(served(EXAMPLE))
        super().setUp()
        self.read_podms()  # until then there is nothing to decide on, which is a 503

    def new_process(self, **words):
        with Store(self.state) as store:
            for name, podm in self.podms.items():
                store.register(Registration(name=name, url=podm.url))
        return super().new_process(**{"inventories": (), **words})

    def test_no_sequence_of_calls_is_too_much(self):
        """Every route, those that write included, on live pod managers."""
        asked = Counter()
        machine = self.schema.as_state_machine()

        class Sequence(machine):
            def validate_response(self, response, case, additional_checks=(), **_words):
                asked[case.operation.label] += 1
                case.validate_response(response, checks=CHECKS)

        Sequence.run(settings=fuzz_settings(SEQUENCES, stateful_step_count=STEPS))
        self.assertGreater(sum(asked.values()), SEQUENCES)
        self.assertGreater(len(asked), 15, asked)


def fuzz(operation, mode, examples, headers=None):
    """Check the answers of an operation to some requests, with the headers of a user."""

    @fuzz_settings(examples)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()


def fuzz_settings(examples, **words):
    """Return settings under which the same examples are drawn each time."""
    return hypothesis.settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        **words,
    )


DOC = Path(__file__).parents[2] / "doc" / "source"
API = (DOC / "reference" / "api.rst").read_text(encoding="utf-8")
HOWTO = (DOC / "howto" / "service.rst").read_text(encoding="utf-8")


class TestPages(unittest.TestCase):
    def test_every_route_is_a_row_with_its_role(self):
        """``python -m tests.service.api_table`` prints what belongs there."""
        self.assertIn(table(), API)
        self.assertEqual(len(rows()), len(re.findall(r"^   \* - ``[A-Z]+ /", API, re.MULTILINE)))

    def test_every_setting_and_role_is_described(self):
        kinds = (ServiceSettings, Limits, ReaderSettings)
        names = [name for kind in kinds for name in kind.__struct_fields__]
        for name in (*names, *ROLES):
            self.assertIn(f"``{name}``", HOWTO)

    def test_every_setting_is_a_row_with_its_values_and_default(self):
        """``python -m tests.service.settings_table`` prints what belongs there."""
        page = (DOC / "reference" / "service-settings.rst").read_text(encoding="utf-8")
        self.assertIn(settings_table.table(), page)
        self.assertEqual(len(list(settings_table.rows())), page.count("   * - ``"))

    def test_the_settings_of_the_page_are_settings(self):
        block = re.search(r"code-block:: yaml\n\n((?:   .*\n)+)", HOWTO)[1]
        settings = convert(load_yaml(block.encode(), "page"), ServiceSettings, "page")
        check_settings(settings, "page")
        self.assertEqual(4, settings.workers)


class TestExamples(ApplicationCase):
    def test_the_request_of_the_page_is_answered(self):
        block = re.search(r"\$ (curl [^\n]*select_destinations \\\n[^\n]*)", API)[1]
        words = shlex.split(block.replace("\\\n", " "))
        result = self.call("POST", "/v1/select_destinations", json.loads(words[-1]))
        self.assertEqual(2, result.json["report"]["placed"])

    def test_the_problem_of_the_page_is_the_one_that_is_answered(self):
        block = re.search(r"code-block:: json\n\n((?:   .*\n)+)", API)[1]
        shown = json.loads(block)
        body = {"request": {"flavor": "smal"}}
        found = self.call("POST", "/v1/select_destinations", body).json
        self.assertEqual(shown | {"request_id": ""}, found | {"request_id": ""})
