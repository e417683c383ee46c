# SPDX-License-Identifier: Apache-2.0
"""The API document: it is valid and complete, and the service follows it."""

import json
import re
import shlex
import unittest
from pathlib import Path

import jsonschema

from tests.service import settings_table
from tests.service.api_table import rows, table
from tests.service.application import ApplicationCase
from valence_sched.model.codec import convert, load_yaml
from valence_sched.service.routes import ROUTES, document
from valence_sched.service.settings import Limits, ReaderSettings, ServiceSettings, check_settings
from valence_sched.service.users import ROLES


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


DOC = Path(__file__).parents[2] / "doc" / "source"
API = (DOC / "reference" / "api.rst").read_text(encoding="utf-8")
HOWTO = (DOC / "howto" / "service.rst").read_text(encoding="utf-8")


class TestPages(unittest.TestCase):
    def test_every_route_is_a_row_with_its_role(self):
        """``python -m tests.service.api_table`` prints the expected table."""
        self.assertIn(table(), API)
        self.assertEqual(len(rows()), len(re.findall(r"^   \* - ``[A-Z]+ /", API, re.MULTILINE)))

    def test_every_setting_and_role_is_described(self):
        kinds = (ServiceSettings, Limits, ReaderSettings)
        names = [name for kind in kinds for name in kind.__struct_fields__]
        for name in (*names, *ROLES):
            self.assertIn(f"``{name}``", HOWTO)

    def test_every_setting_is_a_row_with_its_values_and_default(self):
        """``python -m tests.service.settings_table`` prints the expected table."""
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
