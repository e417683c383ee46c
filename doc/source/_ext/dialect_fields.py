# SPDX-License-Identifier: Apache-2.0
"""The directive ``dialect-fields``: what a dialect reads, from the fields of its resources."""

from collections.abc import Iterator
from importlib import metadata

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from valence_sched.drivers.fields import Field, Link, NamedResource, Parts, Resource

GROUP = "valence_sched.dialects"


class DialectFields(SphinxDirective):
    """A table per resource that a dialect reads: path, meaning, unit, what it leads to."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the tables, the service root first."""
        points = metadata.entry_points(group=GROUP, name=self.arguments[0])
        if not points:
            raise self.error(f"no dialect {self.arguments[0]} in {GROUP}")
        (point,) = points
        return self.parse_text_to_nodes(tables(point.load()().root), allow_section_headings=True)


def tables(root: type[Resource]) -> str:
    """Return reStructuredText: what every resource has, then a section per resource."""
    parts = [_section("Every resource", "", dict(_fields(NamedResource)))]
    common = set(dict(_fields(NamedResource)))
    for resource in resources(root):
        fields = {name: field for name, field in _fields(resource) if name not in common}
        parts.append(_section(resource.__name__, resource.__doc__ or "", fields))
    return "\n".join(parts)


def resources(root: type[Resource]) -> list[type[Resource]]:
    """Return the resources that links lead to from a root down, each once, the root first."""
    found, left = [], [root]
    while left:
        resource = left.pop(0)
        if resource not in found:
            found.append(resource)
            left += [field.to for _, field in _fields(resource) if isinstance(field, Link | Parts)]
    return found


def _fields(resource: type[Resource]) -> Iterator[tuple[str, Field]]:
    """Yield the fields of a resource, inherited ones first; of two of a name the nearer one."""
    names = dict.fromkeys(name for kind in reversed(resource.__mro__) for name in vars(kind))
    for name in names:
        if isinstance(field := getattr(resource, name), Field):
            yield name, field


def _section(title: str, text: str, fields: dict[str, Field]) -> str:
    lines = [title, "-" * len(title), "", text, ""]
    if not fields:
        return "\n".join([*lines, "Its presence is what is read.", ""])
    lines += [".. list-table::", "   :header-rows: 1", "   :widths: 38 40 8 14", ""]
    for row in (("Property", "Meaning", "Unit", "Leads to"), *map(_row, fields.values())):
        lines += [f"   * - {row[0]}", *(f"     - {cell}" for cell in row[1:])]
    return "\n".join([*lines, ""])


def _row(field: Field) -> tuple[str, str, str, str]:
    to = field.to.__name__ if isinstance(field, Link | Parts) else ""
    return f"``{field.path}``", field.doc, field.unit, to


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("dialect-fields", DialectFields)
    return {"parallel_read_safe": True}
