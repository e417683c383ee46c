# SPDX-License-Identifier: Apache-2.0
"""The architecture page; each path and name of this project on any page exists."""

import importlib.util
import pkgutil
import re
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.unit.structure import ROOT, every_module
from tests.unit.test_entry_points import declared

DOC = ROOT / "doc" / "source"
PAGE = (DOC / "concepts" / "architecture.rst").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.rst"), *DOC.rglob("*.rst"), *DOC.rglob("*.py")])
PATH = re.compile(r"\b(?:valence_sched(?:_cli)?|tests|doc/source)/[\w./-]*\w")
DOTTED = re.compile(r"\bvalence_sched(?:_cli)?(?:\.\w+)+")
# Files that a reader of a recipe creates, and files of a package that only look like names.
MADE = {
    "valence_sched.drivers.rack_csv",
    "valence_sched.filters.quiet_hours",
    "valence_sched_cli.commands.aggregate",
    "valence_sched/filters/quiet_hours.py",
    "tests/unit/filters/test_quiet_hours.py",
}


def rooms() -> set[str]:
    return {module.room for module in every_module()} - {""}


def texts(picture: str, kind: str) -> list[str]:
    """Return the texts of one class in a picture."""
    root = ElementTree.parse(DOC / "pictures" / picture).getroot()
    return [str(each.text) for each in root.iter() if each.get("class") == kind]


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or a member of a module."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


class TestPage(unittest.TestCase):
    """The page itself."""

    def test_every_room_is_drawn_and_no_other(self):
        self.assertEqual(sorted(rooms()), sorted(texts("rooms.svg", "room")))

    def test_every_room_has_its_table_of_modules(self):
        listed = " ".join(re.findall(r"^\.\. modules:: (.+)$", PAGE, re.MULTILINE)).split()
        self.assertEqual(sorted(rooms()), sorted(listed))

    def test_every_step_of_the_line_is_a_file(self):
        paths = texts("line.svg", "path")
        self.assertGreater(len(paths), 10)
        self.assertEqual([], [path for path in paths if not (ROOT / path).is_file()])

    def test_each_question_is_answered_by_a_file(self):
        questions = PAGE.partition("Where do I find")[2].partition("The modules")[0]
        answers = re.findall(r"   \* - (?:Where|What).*\n     - (``.*)", questions)
        self.assertEqual(13, len(answers))
        for answer in answers:
            self.assertTrue(PATH.search(answer), answer)


class TestPages(unittest.TestCase):
    """All pages, and the examples in them."""

    def test_each_path_is_there(self):
        missing = [
            f"{page.relative_to(ROOT)}: {path}"
            for page in PAGES
            for path in PATH.findall(page.read_text(encoding="utf-8"))
            if path not in MADE and not (ROOT / path).exists()
        ]
        self.assertEqual([], missing)

    def test_each_name_of_the_library_resolves(self):
        groups = {group for group in declared() if group.startswith("valence_sched.")}
        missing = [
            f"{page.relative_to(ROOT)}: {name}"
            for page in PAGES
            for name in DOTTED.findall(page.read_text(encoding="utf-8"))
            if name not in MADE | groups
            and name.rpartition(".")[0] not in MADE
            and not resolves(name)
        ]
        self.assertEqual([], missing)


@unittest.skipUnless(importlib.util.find_spec("sphinx"), "Sphinx is not installed")
class TestExtension(unittest.TestCase):
    """The tables and names that are read from the source."""

    @classmethod
    def setUpClass(cls):
        path = Path(DOC, "_ext", "source.py")
        spec = importlib.util.spec_from_file_location("source", path)
        cls.extension = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.extension)

    def test_each_module_is_a_row_with_what_it_says_it_is(self):
        rows = self.extension.table(list(self.extension.modules()))
        for module in every_module():
            if module.tree.body and (summary := module.tree.body[0].value.value.split("\n")[0]):
                with self.subTest(module.name):
                    self.assertIn(f"     - {summary}\n", rows)

    def test_a_class_is_found_by_its_name_and_a_module_by_its_path(self):
        self.assertEqual("valence_sched/view/view.py", self.extension.found("View"))
        self.assertEqual("valence_sched/core/ranking.py", self.extension.found("core/ranking"))
        self.assertEqual("valence_sched/filters/", self.extension.found("filters"))
        shell = "valence_sched_cli/shell"
        self.assertEqual(f"{shell}.py", self.extension.found(shell))

    def test_what_is_not_there_is_an_error(self):
        for name in ("NoSuchClass", "core/nosuch"):
            with self.assertRaises(LookupError):
                self.extension.found(name)
