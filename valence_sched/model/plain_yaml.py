# SPDX-License-Identifier: Apache-2.0
"""Plain YAML: a strict loader and a dumper of printable text; imported when it is needed."""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_SHOWN = 40  # characters of a word in a message
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0b_*[01][01_]*|0|[1-9][0-9_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*)$")
_FLOAT = re.compile(
    r"(?:(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?(?:0|[1-9][0-9_]*)[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_IMPLICIT = {_TAG + name for name in ("bool", "float", "int", "null")}


class PrintingDumper(yaml.SafeDumper):
    """A safe dumper that escapes line ends, and quotes text that looks like a number."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().represent_str(data)
        if not data.isprintable() or _FLOAT.fullmatch(data):
            node.style = '"'
        return node


PrintingDumper.add_representer(str, PrintingDumper.represent_str)


def _resolvers(pairs: list[tuple[str, re.Pattern[str]]]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the implicit types without dates; unlike in YAML 1.1, 12:30 is text, 1e5 a number."""
    ours = {_TAG + "int": _INT, _TAG + "float": _FLOAT}
    for tag, pattern in pairs:
        if tag in _IMPLICIT:
            yield tag, ours.get(tag, pattern)


class PlainLoader(yaml.SafeLoader):
    """A safe loader of the types of JSON, which refuses aliases, tags, and duplicate keys."""

    yaml_implicit_resolvers = {
        first: list(_resolvers(pairs))
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("an alias (*name)", event)
        node = super().compose_node(parent, index)
        if node is not None and not self._is_plain(node):
            key = f" at the key {_shown(index)}" if isinstance(index, yaml.ScalarNode) else ""
            hint = "remove the tag, and quote text"
            raise _refusal(f"the tag {node.tag.replace(_TAG, '!!', 1)}{key}", event, hint)
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if _SURROGATE.search(node.value):  # JSON escapes a character above U+FFFF as a pair
            try:
                node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise _refusal("half of a surrogate pair", node) from None
        return node

    def _is_plain(self, node: yaml.Node) -> bool:
        """Return whether a node would have the same type without its tag, or is text."""
        if not isinstance(node, yaml.ScalarNode):
            kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
            return node.tag == _TAG + kind
        if node.tag not in _IMPLICIT:
            return node.tag == _TAG + "str"
        looks_like: str = self.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
        return looks_like == node.tag

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal("a list or map as a key", key)
            if key.tag != _TAG + "str":
                problem = f"the {key.tag.removeprefix(_TAG)} {_shown(key)} as a key"
                raise _refusal(problem, key, f'quote it: "{key.value}"')
            if key.value in keys:
                raise _refusal(f"the key {_shown(key)} twice", key)
            keys.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """Return the number of a scalar; an error if it is out of range."""
        read: Any = getattr(self, f"construct_yaml_{node.tag.removeprefix(_TAG)}")
        try:
            number: float = read(node)
        except ValueError:  # an int of too many digits
            number = math.inf
        if math.isinf(number) and "inf" not in node.value.lower():
            raise _refusal("a number that is out of range", node)
        return number


for _name in ("int", "float"):
    PlainLoader.add_constructor(_TAG + _name, PlainLoader.construct_number)


def _refusal(problem: str, place: yaml.Node | yaml.Event, hint: str = "") -> yaml.MarkedYAMLError:
    mark: Any = place.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=hint or None)


def _shown(node: yaml.ScalarNode) -> str:
    value: str = node.value
    return repr(value if len(value) <= MAX_SHOWN else f"{value[: MAX_SHOWN - 1]}…")
