# SPDX-License-Identifier: Apache-2.0
"""Parses and validates files of scenarios with templates, and files of expectations."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from valence_sched.config.parsers import check_flavors, check_policies, check_unique_names
from valence_sched.errors import InputError, suggest
from valence_sched.model import check, scenario as nouns
from valence_sched.model.check import EXPECTATIONS, Check
from valence_sched.model.codec import check_schema, convert, item_lines, load_yaml
from valence_sched.model.decode_error import refuse_other_kind

KEY = "expectations"


class ScenarioDocument(Struct, frozen=True):
    """The content of a scenario file: scenarios in its order, and the templates that they share."""

    scenarios: dict[str, nouns.Scenario]
    templates: tuple[nouns.Template, ...] = ()


def parse_scenarios(data: bytes, file: str) -> ScenarioDocument:
    """Parse a list under ``scenarios``, or a single scenario; same errors as for flavors."""
    document = load_yaml(data, file)
    if not isinstance(document, dict):
        raise InputError(file, "$", "no map", "a scenario, or a list of them under 'scenarios'")
    if "name" not in document:  # the file has a list, not a single scenario
        refuse_other_kind(document, "scenario", file)
    schema, version = document.get("schema", nouns.SCHEMA), document.get("version", nouns.VERSION)
    check_schema(str(schema), str(version), nouns.SCHEMA, nouns.VERSION, file)
    if "scenarios" in document:
        content = convert(document, nouns.ScenarioFile, file)
        texts, templates = _placed(content, "scenarios"), content.templates
        check_unique_names(_placed(content, "templates"), file)
    else:
        texts, templates = [("$", convert(document, nouns.SingleScenario, file))], ()
    scenarios = {}
    for path, text in check_unique_names(texts, file):
        edits = tuple(_edit(item, file, place) for place, item in _placed(text, "edits", path))
        policies = tuple(check_policies(_placed(text, "policies", path), file))
        check_flavors(_placed(text, "flavors", path), file)
        check_unique_names(_placed(text, "templates", path), file)
        place = f"{file}: {path}"
        scenarios[text.name] = nouns.Scenario(
            text=text, edits=edits, policies=policies, place=place
        )
    return ScenarioDocument(scenarios, templates)


def _placed(noun: Struct, field: str, path: str = "$") -> list[tuple[str, Any]]:
    return [(f"{path}.{field}[{n}]", one) for n, one in enumerate(getattr(noun, field))]


def _verb(item: dict[str, Any], verbs: Iterable[str], noun: str, file: str, path: str) -> str:
    found = [key for key in item if key in verbs]
    if len(found) == 1:
        return found[0]
    hint = "" if found or not item else suggest(str(next(iter(item))), verbs)
    expected = f"one of {', '.join(verbs)}"
    raise InputError(file, path, " and ".join(found) or f"no {noun}", expected, hint)


def _check_target(target: object, place: str) -> None:
    if isinstance(target, str):
        try:
            nouns.parse_target(target)
        except InputError as error:
            raise error.at(place) from None


def _edit(item: dict[str, Any], file: str, path: str) -> nouns.Edit:
    verb = _verb(item, nouns.EDITS, "edit", file, path)
    key = "to" if verb == "add" else verb
    _check_target(item.get(key), f"{file}: {path}.{key}")
    return convert(item, nouns.EDITS[verb], file, path)


def parse_checks(data: bytes, file: str) -> tuple[list[Check], list[str]]:
    """Return the expectations of a file (at least one) and warnings; InputError or NewerSchema."""
    document = load_yaml(data, file)
    if not isinstance(document, dict):
        raise InputError(file, "$", "no map", f"a list under {KEY!r}")
    refuse_other_kind(document, "check", file)
    schema, version = document.get("schema", check.SCHEMA), document.get("version", check.VERSION)
    warnings = check_schema(str(schema), str(version), check.SCHEMA, check.VERSION, file)
    if not document.get(KEY):
        raise InputError(file, f"$.{KEY}", "no expectation", "at least one")
    items = _placed(convert(document, check.CheckFile, file), KEY)
    lines = item_lines(data, KEY)
    checks = [_check(item, file, path, lines[n]) for n, (path, item) in enumerate(items)]
    expectations = [(f"$.{KEY}[{n}]", one.expectation) for n, one in enumerate(checks)]
    check_unique_names([one for one in expectations if one[1].name is not None], file)
    return checks, warnings


def _check(item: dict[str, Any], file: str, path: str, line: int) -> Check:
    verb = _verb(item, EXPECTATIONS, "expectation", file, path)
    target, place = item[verb], f"{path}.{verb}"
    if verb != "fails":
        target, place = target.get("in") if isinstance(target, dict) else None, f"{place}.in"
    _check_target(target, f"{file}: {place}")
    expectation = convert(item, EXPECTATIONS[verb], file, path)
    edits = tuple(_edit(edit, file, at) for at, edit in _placed(expectation, "edits", path))
    where = f"{file}: {path}"
    return Check(expectation=expectation, edits=edits, place=where, file=file, line=line)
