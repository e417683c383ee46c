# SPDX-License-Identifier: Apache-2.0
"""Plain YAML: a loader that reads nothing but what stands there, and a dumper of printable text.

A module of its own, because most commands read no YAML, and importing it takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml


class PrintingDumper(yaml.SafeDumper):
    """A safe dumper that escapes line ends too, which YAML could also fold."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().represent_str(data)
        if not data.isprintable():
            node.style = '"'
        return node


PrintingDumper.add_representer(str, PrintingDumper.represent_str)


_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0b[01_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)")
_FLOAT = re.compile(
    r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


def _resolvers(
    pairs: list[tuple[str, re.Pattern[str]]],
) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield what YAML 1.1 takes a plain word for, without its dates and odd numbers.

    There 12:30 is 750 and 010 is 8, which nobody means who writes a time, a slot or an amount.
    """
    ours = {_TAG + "int": _INT, _TAG + "float": _FLOAT}
    for tag, pattern in pairs:
        if tag != _TAG + "timestamp":
            yield tag, re.compile(f"(?:{ours[tag].pattern})$") if tag in ours else pattern


class PlainLoader(yaml.SafeLoader):
    """A safe loader that refuses aliases and duplicate keys and reads dates and times as text."""

    yaml_implicit_resolvers = {
        first: list(_resolvers(pairs))
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="an alias (*name)", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[object] = set()
        for key_node, _ in node.value:
            plain = isinstance(key_node, yaml.ScalarNode)
            if not plain or key_node.value in keys:
                problem = f"the key {key_node.value!r} twice" if plain else "a list or map as a key"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            keys.add(key_node.value)
        return super().construct_mapping(node, deep)
