# SPDX-License-Identifier: Apache-2.0
"""The structure of the source: its modules, their imports, and their classes."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("valence_sched", "valence_sched_cli")


class Module(NamedTuple):
    """One file of the source, by the name it is imported by."""

    name: str
    path: Path

    @property
    def address(self) -> str:
        """Return its path from the package on, without ``.py``: ``core/policy``."""
        package, _, inside = self.name.partition(".")
        names = self.name if package == "valence_sched_cli" else inside
        return names.replace(".", "/")

    @property
    def room(self) -> str:
        """Return its room; empty for the package itself."""
        return self.address.partition("/")[0]

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


class Import(NamedTuple):
    """One name that a statement of a module imports."""

    module: Module
    line: int
    name: str

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]

    @property
    def target(self) -> Module | None:
        """Return the imported module of this project, None for another project."""
        modules = _by_name()
        return modules.get(self.name) or modules.get(self.name.rpartition(".")[0])

    def __str__(self) -> str:
        return f"{self.module.at(self.line)} imports {self.name}"


@functools.cache
def every_module() -> tuple[Module, ...]:
    """Return the modules of both packages by name."""
    return tuple(
        Module(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path
        )
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    )


@functools.cache
def _by_name() -> dict[str, Module]:
    return {module.name: module for module in every_module()}


@functools.cache
def every_import() -> tuple[Import, ...]:
    """Return each imported name of each module, also inside functions and for types only."""
    return tuple(
        Import(module, node.lineno, name)
        for module in every_module()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _names(node, module)
    )


def public_classes() -> Iterator[tuple[str, Module, int]]:
    """Yield the name, module and line of each class that does not begin with an underscore."""
    for module in every_module():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, module, node.lineno


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def _names(node: ast.Import | ast.ImportFrom, module: Module) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    package = list(module.path.relative_to(ROOT).parent.parts)
    above = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*above, *([node.module] if node.module else [])])
    # `from valence_sched import errors` names a room after the import.
    yield from (f"{source}.{alias.name}" for alias in node.names)
