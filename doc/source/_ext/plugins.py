# SPDX-License-Identifier: Apache-2.0
"""The directive ``plugins``: filters or weighers, by entry point, from their docstrings."""

import inspect
import json
import types
import typing
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import msgspec
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from valence_sched.view.terms import Reads, declarations

KINDS = {
    bool: "true or false",
    float: "a number",
    str: "a string",
    tuple: "a list",
    Mapping: "a map",
    type(None): "``null``",
}


class Plugins(SphinxDirective):
    """A section per entry point of ours: its docstring, then its options and their defaults."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the sections, by name."""
        points = [
            point
            for point in metadata.entry_points(group=self.arguments[0])
            if point.module.startswith("valence_sched.")
        ]
        if not points:
            raise self.error(f"no entry points in {self.arguments[0]}: is valence-sched installed?")
        text = "\n".join(_section(point) for point in sorted(points, key=lambda point: point.name))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _section(point: metadata.EntryPoint) -> str:
    function = point.load()
    lines = [point.name, "-" * len(point.name), "", inspect.getdoc(function) or "", ""]
    options = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    lines += [_reads_line(one) for one in declarations(function)]
    hints = typing.get_type_hints(function)
    for option in options:
        default = json.dumps(option.default, default=_plain)
        lines.append(f"* ``{option.name}``: {_kind(hints[option.name])}, by default ``{default}``")
    return "\n".join([*lines, ""])


def _reads_line(declared: Reads) -> str:
    fields = " and ".join(f"``{field}``" for field in declared.fields)
    return f"{'Also reads' if declared.optional else 'Reads'} {fields} of a request.\n"


def _kind(hint: Any) -> str:
    """Return what an option may be, in the words of a policy file."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " or ".join(f"``{value}``" for value in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_kind, typing.get_args(hint)))
    return KINDS[origin or hint]


def _plain(value: Any) -> Any:
    """Return a default that JSON has no word for as one that it has."""
    return dict(value) if isinstance(value, Mapping) else msgspec.to_builtins(value)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("plugins", Plugins)
    return {"parallel_read_safe": True}
