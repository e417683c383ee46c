# SPDX-License-Identifier: Apache-2.0
"""The directive ``opinions``: filters or weighers, by entry point, from their docstrings."""

import inspect
from importlib import metadata

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Opinions(SphinxDirective):
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
    for option in options:
        kind = option.annotation
        kind = kind if isinstance(kind, str) else inspect.formatannotation(kind)
        lines.append(f"* ``{option.name}`` ({kind}), by default ``{option.default!r}``")
    return "\n".join([*lines, ""])


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("opinions", Opinions)
    return {"parallel_read_safe": True}
