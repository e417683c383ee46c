# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: one walk over the syntax trees and one map."""

import ast
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A new room is a new line here. A room may always import itself.
MAY_IMPORT = {
    "errors": set(),
    "model": {"errors"},
    "filters": {"errors", "model"},
    "weighers": {"errors", "model"},
    "core": {"errors", "model"},
    "schedulers": {"errors", "model", "core"},
    "drivers": {"errors", "model"},
    "simulator": {"errors", "model", "drivers"},
    "store": {"errors", "model"},
    "resolvers": {"errors", "model"},
    "engine": {"errors", "model", "core", "schedulers", "drivers"},
    "claiming": {"errors", "model", "core", "engine", "store"},
    "files": {"errors", "model", "core"},
    "configuration": {"errors", "model", "files"},
    "dispatchers": {"errors", "model"},
    "becoming": {"model"},
    "composing": {"errors", "model", "drivers", "store", "becoming"},
    "reaping": {"errors", "model", "drivers", "store", "becoming", "composing"},
    "provisioning": {"errors", "model", "core", "store", "claiming", "composing"},
    "credentials": {"errors", "model"},
    "members": {"errors", "model", "core"},
    "registry": {"errors", "model", "configuration", "credentials", "members", "store"},
    "readings": {"errors", "model", "core", "drivers", "members", "registry", "store"},
    "sources": {"errors", "model", "core", "drivers", "configuration", "readings", "registry"},
    "inventories": {"errors", "model", "drivers", "sources", "standing"},
    "liveness": {"errors", "model"},
    "standing": {"errors", "model", "core", "registry"},
    "capturing": {"errors", "model", "drivers", "files", "simulator"},
    "recordings": {
        "errors",
        "model",
        "drivers",
        "readings",
        "capturing",
        "credentials",
        "inventories",
        "simulator",
    },
    "main": {"errors", "model", "core", "engine", "files", "recordings", "sources"},
    "site": {"errors", "model", "core", "drivers", "store", "becoming", "composing", "reaping"},
    "planning": {"errors", "model", "claiming", "store"},
    "states": {"errors", "model", "store", "site", "main"},
    "plans": {
        "errors",
        "model",
        "core",
        "store",
        "engine",
        "files",
        "claiming",
        "planning",
        "states",
    },
    "operations": {"errors", "model", "core", "claiming", "provisioning", "site", "plans"},
    "testing": {"errors", "model", "core", "schedulers", "drivers", "engine", "simulator"},
    "valence_sched_cli": {
        "errors",
        "model",
        "core",
        "credentials",
        "main",
        "operations",
        "planning",
        "provisioning",
        "recordings",
        "site",
    },
}

# Libraries that anybody may use; of every other one the rooms that may.
FOR_ALL = {"msgspec", "numpy"}
ONLY_IN = {
    "aiohttp": {"simulator"},
    "alembic": {"store"},
    "cliff": {"valence_sched_cli"},
    "keystoneauth1": {"resolvers", "valence_sched_cli"},
    "openstack": {"resolvers", "valence_sched_cli"},
    "osc_lib": {"valence_sched_cli"},
    "platformdirs": {"config"},
    "requests": {"dispatchers", "drivers"},
    "rich": {"valence_sched_cli"},
    "sqlalchemy": {"store"},
    "stevedore": {"core/plugins.py"},
    "sushy": {"drivers"},
    "tabulate": {"valence_sched_cli/output/formatters.py"},
    "urllib3": {"dispatchers", "drivers/adapter.py"},
    "yaml": {"model/documents.py"},
    "zstandard": {"drivers", "files", "testing"},
}


class Import:
    """One import statement: where it stands, and what it brings in."""

    def __init__(self, path: Path, line: int, name: str) -> None:
        parts = path.relative_to(ROOT).with_suffix("").parts
        inside = parts if parts[0] == "valence_sched_cli" else parts[1:]
        self.room = inside[0]
        self.file = "/".join(inside) + ".py"
        self.place = f"{path.relative_to(ROOT)}:{line}"
        self.name = name

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]

    @property
    def target(self) -> str:
        """The room of ours that is imported; empty for the package itself."""
        if self.library == "valence_sched_cli":
            return self.library
        return self.name.split(".")[1] if "." in self.name else ""


def imports() -> Iterator[Import]:
    for package in ("valence_sched", "valence_sched_cli"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
                for name in _names(node, path):
                    yield Import(path, node.lineno, name)


def _names(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = list(path.relative_to(ROOT).parent.parts)
        above = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        # `from valence_sched import errors` names a room after the import.
        yield from (f"{module}.{alias.name}" for alias in node.names)


class TestLayers(unittest.TestCase):
    """Imports point one way."""

    maxDiff = None

    def test_a_room_imports_only_the_rooms_below_it(self):
        wrong = [
            f"{found.place} imports {found.name}"
            for found in imports()
            if found.library in ("valence_sched", "valence_sched_cli")
            and found.room not in ("__init__", found.target)
            and found.target not in MAY_IMPORT.get(found.room, set())
        ]
        self.assertEqual([], wrong)

    def test_every_room_stands_in_the_map(self):
        rooms = {found.room for found in imports()} - {"__init__"}
        self.assertEqual(set(), rooms - set(MAY_IMPORT))

    def test_an_outside_library_is_used_only_where_the_map_says(self):
        ours = {"valence_sched", "valence_sched_cli"}
        wrong = [
            f"{found.place} imports {found.name}"
            for found in imports()
            if found.library not in ours | FOR_ALL | sys.stdlib_module_names
            and not {found.room, found.file} & ONLY_IN.get(found.library, set())
        ]
        self.assertEqual([], wrong)

    def test_the_packages_import_nothing_themselves(self):
        wrong = [found.place for found in imports() if found.file == "__init__.py"]
        self.assertEqual([], wrong)

    def test_the_map_has_no_circle(self):
        def below(room, path=()):
            self.assertNotIn(room, path)
            for lower in MAY_IMPORT[room]:
                below(lower, (*path, room))

        for room in MAY_IMPORT:
            below(room)


class TestFiles(unittest.TestCase):
    """What every file has."""

    def test_every_file_names_its_licence_and_says_what_it_is(self):
        for package in ("valence_sched", "valence_sched_cli", "tests", "tools"):
            for path in sorted((ROOT / package).rglob("*.py")):
                text = path.read_text(encoding="utf-8")
                if not text:
                    continue
                with self.subTest(str(path.relative_to(ROOT))):
                    self.assertTrue(text.startswith("# SPDX-License-Identifier: Apache-2.0\n"))
                    self.assertTrue(ast.get_docstring(ast.parse(text)))

    def test_every_folder_of_tests_is_a_package_or_its_tests_would_not_be_found(self):
        for path in sorted((ROOT / "tests").rglob("test_*.py")):
            for folder in path.relative_to(ROOT).parents[:-1]:
                with self.subTest(str(folder)):
                    self.assertTrue((ROOT / folder / "__init__.py").exists())
