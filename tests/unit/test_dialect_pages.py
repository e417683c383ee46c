# SPDX-License-Identifier: Apache-2.0
"""The pages of the dialects: one for each, with a table of all declared fields."""

import importlib.util
import unittest
from pathlib import Path

from tests.unit.test_entry_points import declared, installed, is_ours
from valence_sched.drivers.fields import Field, Link, Parts

DOC = Path(__file__).parents[2] / "doc" / "source"
GROUP = "valence_sched.dialects"
EXTENSION = DOC / "_ext" / "dialect_fields.py"


def dialects():
    return [point.load()() for point in installed(GROUP) if is_ours(point)]


class TestPages(unittest.TestCase):
    def test_every_dialect_has_a_page_with_its_tables(self):
        index = (DOC / "index.rst").read_text(encoding="utf-8").split()
        for name in declared()[GROUP]:
            with self.subTest(name):
                page = (DOC / "reference" / f"dialect-{name}.rst").read_text(encoding="utf-8")
                self.assertIn(f".. dialect-fields:: {name}\n", page)
                self.assertIn(f"reference/dialect-{name}", index)

    def test_a_dialect_is_called_as_its_entry_point(self):
        self.assertEqual(sorted(declared()[GROUP]), sorted(it.name for it in dialects()))


@unittest.skipUnless(importlib.util.find_spec("sphinx"), "Sphinx is not installed")
class TestTables(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("dialect_fields", EXTENSION)
        self.extension = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.extension)

    def test_each_field_of_each_resource_is_a_row_with_its_meaning(self):
        for dialect in dialects():
            text = self.extension.tables(dialect.root)
            for resource in self.extension.resources(dialect.root):
                for name in dir(resource):
                    field = getattr(resource, name)
                    if isinstance(field, Field):
                        with self.subTest(f"{dialect.name}: {resource.__name__}.{name}"):
                            self.assertTrue(field.doc)
                            self.assertIn(f"   * - ``{field.path}``\n     - {field.doc}\n", text)

    def test_every_resource_that_something_leads_to_is_a_section(self):
        for dialect in dialects():
            text = self.extension.tables(dialect.root)
            for resource in self.extension.resources(dialect.root):
                self.assertIn(f"\n{resource.__name__}\n-", text)
                for field in map(resource.__dict__.get, resource.__dict__):
                    if isinstance(field, Link | Parts):
                        self.assertIn(f"\n{field.to.__name__}\n-", text)


if __name__ == "__main__":
    unittest.main()
