# SPDX-License-Identifier: Apache-2.0
"""The directive ``modules`` and the role ``source``: modules and classes, from the source."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[3]
PACKAGES = ("valence_sched", "valence_sched_cli")


class Module(NamedTuple):
    """One file of the source: its path from the root, its docstring's first line, its classes."""

    path: str
    summary: str
    classes: tuple[str, ...]

    @property
    def room(self) -> str:
        """Return the room it stands in: a folder, a file of its own, or the commands' package."""
        package, _, inside = self.path.partition("/")
        room = inside.partition("/")[0].removesuffix(".py")
        return package if package == "valence_sched_cli" else room

    @property
    def address(self) -> str:
        """Return its path inside its room."""
        return self.path.split("/", 1 if self.room == "valence_sched_cli" else 2)[-1]


class Modules(SphinxDirective):
    """A table of the modules of one room, or of several files, each with what it says it is."""

    required_arguments = 1
    optional_arguments = 20

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [module for name in self.arguments for module in modules() if module.room == name]
        if not rows:
            raise self.error(f"no module in {' '.join(self.arguments)}")
        for row in rows:
            for path in (
                ROOT / row.path,
                (ROOT / row.path).parent,
            ):  # a new file changes the folder
                self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(table(rows))


class Source(SphinxRole):
    """A class by its name, or a module by its path, with the file that it is in."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the name and the path."""
        try:
            path = found(self.text)
        except LookupError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]
        self.env.note_dependency(str(ROOT / path))
        literal = nodes.literal(path, path)
        if self.text in path:
            return [literal], []
        return [nodes.literal(self.text, self.text), nodes.Text(" in "), literal], []


@functools.cache
def modules() -> tuple[Module, ...]:
    """Return the modules that say what they are, by path."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return tuple(_module(path) for path in files if path.stat().st_size)


def found(name: str) -> str:
    """Return the path of a class, a module or a room.

    Raises:
        LookupError: nothing has this name, or several classes have it.
    """
    if name[0].islower():
        path = name if name.startswith(PACKAGES[1]) else f"{PACKAGES[0]}/{name}"
        if (ROOT / f"{path}.py").is_file():
            return f"{path}.py"
        if (ROOT / path).is_dir():
            return f"{path}/"
        raise LookupError(f"there is no module {path}.py and no room {path}/")
    paths = [module.path for module in modules() if name in module.classes]
    if len(paths) != 1:
        raise LookupError(f"class {name} is defined in {' and '.join(paths) or 'no module'}")
    return paths[0]


def table(rows: list[Module]) -> str:
    """Return reStructuredText: a line for each module."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for row in rows:
        lines += [f"   * - ``{row.address}``", f"     - {row.summary}"]
    return "\n".join([*lines, ""])


def _module(path: Path) -> Module:
    tree = ast.parse(path.read_bytes(), str(path))
    classes = (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    return Module(path.relative_to(ROOT).as_posix(), summary, tuple(classes))


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive and the role."""
    app.add_directive("modules", Modules)
    app.add_role("source", Source())
    return {"parallel_read_safe": True}
