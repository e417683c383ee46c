# SPDX-License-Identifier: Apache-2.0
"""The interfaces that stay within a major version; ``-m tests.functional.stable`` renews them.

``describe`` describes them as they are, ``golden/stable.json`` as they were promised. The renewal
adds what is new. It refuses to remove or to change a promise: that needs a new major version.
"""

import argparse
import ast
import enum
import importlib
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

import valence_sched
from tests.functional.programs import ROOT
from tests.functional.test_widths import command_of, every_screen, has_formats
from tests.schemas import NOUNS
from tests.unit.test_entry_points import COMMANDS, declared
from valence_sched import errors
from valence_sched.model.dispatch import WaitingDispatches
from valence_sched.server.main import parser as service_parser
from valence_sched.service.metrics import Metrics, StateFacts
from valence_sched.service.routes import document
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.tables import METADATA
from valence_sched_cli.options.parser import HelpAll

PROMISED = Path(__file__).parent / "golden" / "stable.json"
OF_OPTIONS = ("valence_sched.filters", "valence_sched.weighers")
RECIPES = ROOT / "tests" / "recipes"
EXIT_CODES = ROOT / "doc" / "source" / "reference" / "exit-codes.rst"
#: The documents that programs write. Others are written by people.
WRITTEN = {"decision", "decisions", "node-change", "plan", "replay"}
#: Keywords of a schema that refuse values; a field that gets one refuses what it accepted.
LIMITS = {
    "additionalProperties", "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "format",
    "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern",
}  # fmt: skip
#: The keys of a description whose values are objects by name.
BY_NAME = {"$defs", "properties", "parameters", "routes"}
#: The keys whose values are the words of a command or the parameters of a call.
WORDS = {"arguments", "options", "parameters"}
JSON_TYPES = {
    bool: "boolean", dict: "object", float: "number", int: "number", list: "array", str: "string",
    type(None): "null",
}  # fmt: skip
LEVELS = 4  # of the file, before an object is one line
Description = dict[str, Any]


def describe() -> Description:
    """Return the interfaces by kind, each as objects by name."""
    found = {
        "cells": cells(),
        "commands": commands(),
        "documents": documents(),
        "exit codes": exit_codes(),
        "http": http(),
        "metrics": metrics(),
        "plug-ins": plugins(),
        "python": python_names(),
        "store": store(),
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def cells() -> Description:
    """Return the columns of each command in JSON, with the types of their values beside null."""
    found: Description = {}
    with tempfile.TemporaryDirectory(prefix="stable-") as folder:
        screens = every_screen(Path(folder), "-f", "json")
    for words, done in screens.items():
        if not has_formats(words) or not done.out:
            continue
        columns = found.setdefault(command_of(words).name.replace("_", " "), {})
        for row in done.data if isinstance(done.data, list) else [done.data]:
            for column, value in row.items():
                types = columns.setdefault(column, {"types": set()})["types"]
                types |= {JSON_TYPES[type(value)]} - {"null"}
    for columns in found.values():
        for cell in columns.values():
            cell["types"] = sorted(cell["types"])
    return found


def commands() -> Description:
    """Return the options and the arguments of each command of each program."""
    found = {}
    for point in entry_points(group=COMMANDS):
        parser = point.load()(None, None).get_parser(point.name)
        found[point.name.replace("_", " ")] = _words(parser)
    return found | dict(_subcommands("valence-scheduler", service_parser()))


def _subcommands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, Description]]:
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not below:
        yield name, _words(parser)
    for action in below:
        for verb, one in action.choices.items():
            yield from _subcommands(f"{name} {verb}", one)


def _words(parser: argparse.ArgumentParser) -> Description:
    options, arguments = {}, {}
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, HelpAll)):
            continue
        word: Description = {}
        if action.nargs is not None:
            word["nargs"] = action.nargs
        if not isinstance(action, argparse._StoreAction):
            word["kind"] = type(action).__name__
        if action.choices is not None:
            word["choices"] = sorted(map(str, action.choices))
        if not action.option_strings:
            arguments[f"{len(arguments) + 1} {action.dest}"] = word
        elif action.required:
            word["required"] = True
        options.update(dict.fromkeys(action.option_strings, word))
    return {"arguments": arguments, "options": options}


def documents() -> Description:
    """Return the schemas of all documents, and of the settings of the service."""
    folder = ROOT / "valence_sched" / "data"
    found = {name: json.loads((folder / f"{name}.schema.json").read_bytes()) for name in NOUNS}
    found["service settings"] = msgspec.json.schema(ServiceSettings)
    return {name: _plain(schema) for name, schema in found.items()}


def _plain(value: Any) -> Any:
    """Return a schema without its texts."""
    if isinstance(value, dict):
        texts = {"description", "summary", "title", "examples", "example"}
        return {
            key: _plain(one)
            for key, one in value.items()
            if key not in texts or (isinstance(one, dict) and key != "example")
        }
    return [*map(_plain, value)] if isinstance(value, list) else value


def exit_codes() -> Description:
    """Return the exit codes of the documentation, and the codes of each error."""
    rows = re.findall(r"^   \* - ([\d, ]+)$", EXIT_CODES.read_text().partition("Errors")[0], re.M)
    found: Description = {"documented": {code: {} for code in re.findall(r"\d+", " ".join(rows))}}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.SchedulerError):
            found[name] = {
                "code": kind.code, "exit code": kind.exit_code, "http status": kind.http_status,
            }  # fmt: skip
    return found


def http() -> Description:
    """Return the routes, and the schemas of bodies and of answers: they change by other rules.

    The status codes of errors are those of the exit codes.
    """
    api = _plain(json.loads(document()))
    schemas = api["components"]["schemas"]
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    }
    routes = {
        name: {
            "parameters": {f"{x['in']} {x['name']}": x for x in one.get("parameters", ())},
            "body": one.get("requestBody", {}),
            "answers": {
                status: {"content": answer.get("content", {})}
                for status, answer in one["responses"].items()
                if status < "400"
            },
            "security": one.get("security"),
        }
        for name, one in operations.items()
    }
    bodies = [route["body"] for route in routes.values()]
    answers = [one["responses"] for one in operations.values()]
    return {
        "routes": routes,
        "bodies": {"$defs": _reached(bodies, schemas)},
        "answers": {"$defs": _reached(answers, schemas)},
    }


def _reached(value: Any, schemas: Description) -> Description:
    """Return the schemas to which a value refers, directly or through other schemas."""
    found: Description = {}
    ahead = [value]
    while ahead:
        for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(ahead.pop())):
            if name not in found:
                found[name] = schemas[name]
                ahead.append(schemas[name])
    return found


def metrics() -> Description:
    """Return the types and the labels of the metrics, by the names that Prometheus has for them."""
    waiting = WaitingDispatches(total=1, failed=0, oldest_s=1.0)
    facts = StateFacts({"read": 1}, 1.0, "reader", 1, {"nodes": 1}, waiting)
    source = Metrics(lambda: facts)
    source.count("GET", "/v1/podms", 200, 0.1)
    found: Description = {}
    for family in text_string_to_metric_families(source.text()[1].decode()):
        for sample in family.samples:
            if not sample.name.endswith("_created"):  # of the client library
                found[sample.name] = {"type": family.type, "labels": " ".join(sample.labels)}
    return found


def plugins() -> Description:
    """Return the groups of entry points, their names, and the options of filters and weighers."""
    return {
        group: {
            name: _options(value) if group in OF_OPTIONS else {} for name, value in points.items()
        }
        for group, points in declared().items()
        if group.startswith("valence_sched.")
    }


def _options(entry_point: str) -> Description:
    parameters = inspect.signature(EntryPoint("", entry_point, "").load()).parameters.values()
    return {
        one.name: {"default": msgspec.to_builtins(one.default, enc_hook=dict)}
        for one in parameters
        if one.kind is one.KEYWORD_ONLY
    }


def python_names() -> Description:
    """Return the public names, and those that the recipes of plug-ins import."""
    names = {
        f"valence_sched.{name}": getattr(valence_sched, name) for name in valence_sched.__all__
    }
    for file in sorted(RECIPES.rglob("*.py")):
        if not file.name.startswith("test_"):
            names |= _imported(ast.parse(file.read_bytes()))
    found = {}
    for name, value in sorted(names.items()):
        found[name] = _described(value)
        if getattr(value, "_is_protocol", False) and name.count(".") > 1:
            found[name]["implemented by plug-ins"] = True
    return found


def _imported(tree: ast.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.ImportFrom) or not statement.module:
            continue
        if statement.level or not statement.module.startswith("valence_sched"):
            continue
        for alias in statement.names:
            value = getattr(importlib.import_module(statement.module), alias.name)
            if not inspect.ismodule(value):
                found[f"{statement.module}.{alias.name}"] = value
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == alias.name:
                    found[f"{value.__name__}.{node.attr}"] = getattr(value, node.attr)
    return {name: value for name, value in found.items() if name.count(".") > 1}


def _described(value: Any) -> Description:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {"members": {one.name: {"value": one.value} for one in value}}
    if not callable(value) or not (inspect.isclass(value) or inspect.isfunction(value)):
        return {}
    described: Description = {"parameters": _parameters(value)}
    if inspect.isclass(value):
        described["members"] = {
            name: {"parameters": _parameters(member)}
            if callable(member) and inspect.isroutine(member)
            else {}
            for name, member in inspect.getmembers(value)
            if not name.startswith("_") and not hasattr(Exception, name)
        }
    return described


def _parameters(value: Any) -> Description:
    """Return the parameters by name, each with its kind, its place and whether it is required."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except ValueError:
        return {}  # of a class that is made in C
    found: Description = {}
    for one in parameters:
        found[one.name] = {"kind": one.kind.description}
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            found[one.name] = {"place": len(found)}
        if one.default is one.empty and not one.kind.name.startswith("VAR"):
            found[one.name]["required"] = True
    return found


def store() -> Description:
    """Return the columns of each table: type, whether it may be null, and part in the key."""
    return {
        table.name: {
            column.name: {
                "type": str(column.type), "null": bool(column.nullable), "key": column.primary_key,
            }
            for column in table.columns
        }
        for table in METADATA.sorted_tables
    }  # fmt: skip


def breaks(promised: Any, present: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for each promise that the present interfaces do not keep.

    An object may get members, and a list of alternatives may get further ones. A document or a
    body must not require or limit what it did not, and an answer must not omit a field.
    """
    place = " / ".join(path)
    if path[:1] == ("cells",) and present == {}:
        return  # the command printed no rows
    if isinstance(promised, Mapping) and isinstance(present, Mapping):
        for key, value in promised.items():
            if key in present:
                yield from breaks(value, present[key], (*path, key))
            elif key != "required" or value is not True:
                yield f"{place}: {key} is missing"
        yield from _additions(promised, present, path)
    elif path and path[-1] == "required" and isinstance(promised, list):
        yield from _requirements(promised, present, path)
    elif path[-1:] == ("types",):
        if promised and (new := set(present) - set(promised)):
            yield f"{place}: was {promised}, is {sorted(new)}"
    elif isinstance(promised, list) and isinstance(present, list) and path[-1] != "default":
        for value in promised:
            if not any(not [*breaks(value, one, (*path, "*"))] for one in present):
                yield f"{place}: {json.dumps(value)[:100]} is missing"
    elif promised != present:
        yield f"{place}: was {json.dumps(promised)[:80]}, is {json.dumps(present)[:80]}"


def _additions(promised: Description, present: Description, path: tuple[str, ...]) -> Iterator[str]:
    place, room = " / ".join(path), path[-2] if len(path) > 1 else ""
    is_schema = path[:1] in (("documents",), ("http",)) and path[-1] not in BY_NAME
    for key in sorted(present.keys() - promised.keys()):
        value = present[key]
        if key == "required" and isinstance(value, list):
            yield from _requirements([], value, (*path, key))
        elif is_schema and key in LIMITS and "answers" not in path:
            yield f"{place}: is limited by {key}"
        elif room in WORDS and not is_schema:
            yield f"{place}: {key} is new: {json.dumps(value)[:80]}"
        elif path and _is_required(path[-1], value):
            yield f"{place}: {key} is required"
    if promised.get("implemented by plug-ins"):
        for name in sorted(present["members"].keys() - promised["members"].keys()):
            yield f"{place}: {name} is missing in the plug-ins that implement this protocol"


def _is_required(room: str, value: Any) -> bool:
    if room == "arguments":
        return value.get("nargs") not in ("?", "*")
    return room in WORDS and bool(value.get("required"))


def _requirements(promised: list[str], present: list[str], path: tuple[str, ...]) -> Iterator[str]:
    place = " / ".join(path[:-1])
    if "answers" not in path:
        for name in sorted(set(present) - set(promised)):
            yield f"{place}: {name} is required"
    if "answers" in path or (path[0] == "documents" and path[1] in WRITTEN):
        for name in sorted(set(promised) - set(present)):
            yield f"{place}: {name} can be omitted"


def added(promised: Any, present: Any) -> Any:
    """Return the promises together with what is new."""
    if not isinstance(promised, Mapping) or not isinstance(present, Mapping):
        return present
    found = {**promised, **present}
    for key in promised.keys() & present.keys():
        is_seen = key == "types" and isinstance(present[key], list)  # in the rows of this run
        found[key] = (
            sorted({*promised[key], *present[key]}) if is_seen
            else added(promised[key], present[key])
        )  # fmt: skip
    return found


def read() -> Description:
    """Return the promises."""
    promised: Description = json.loads(PROMISED.read_bytes())
    return promised


def encode(description: Description) -> str:
    """Return JSON with a line for each object below its first levels."""

    def lines(value: Any, level: int) -> str:
        is_flat = not isinstance(value, dict) or not any(
            isinstance(one, dict) for one in value.values()
        )
        if is_flat or level == LEVELS:
            return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        inner = (f"{json.dumps(key)}: {lines(value[key], level + 1)}" for key in sorted(value))
        indent = "\n" + " " * (level + 1)
        return f"{{{indent}{f',{indent}'.join(inner)}{indent[:-1]}}}"

    return lines(description, 0) + "\n"


def main() -> int:
    promised, present = (read() if PROMISED.exists() else {}), describe()
    if broken := list(breaks(promised, present)):
        print(*broken, sep="\n", file=sys.stderr)
        print(f"{len(broken)} promises are broken: {PROMISED.name} is as it was", file=sys.stderr)
        return 1
    PROMISED.write_text(encode(added(promised, present)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
