# SPDX-License-Identifier: Apache-2.0
"""The file of expectations, parsed and validated into checks that know their lines."""

from __future__ import annotations

from typing import Any

from valence_sched.config.scenario_file import parse_edit
from valence_sched.errors import InputError, suggest
from valence_sched.model.check import (
    EXPECTATIONS,
    SCHEMA,
    VERSION,
    Check,
    CheckFile,
    place_target,
)
from valence_sched.model.codec import check_schema, convert, item_lines, load_yaml

KEY = "expectations"


def parse_checks(data: bytes, file: str) -> tuple[list[Check], list[str]]:
    """Parse a file of expectations; also return warnings.

    Raises:
        InputError, NewerSchema: naming the path, what was found and what was expected; a file
            without expectations is one.
    """
    document = load_yaml(data, file)
    if not isinstance(document, dict):
        raise InputError(file, "$", "no map", f"a list under {KEY!r}")
    schema, version = document.get("schema", SCHEMA), document.get("version", VERSION)
    warnings = check_schema(str(schema), str(version), SCHEMA, VERSION, file)
    if not document.get(KEY):
        raise InputError(file, f"$.{KEY}", "no expectation", "at least one")
    content = convert(document, CheckFile, file)
    lines = item_lines(data, KEY)
    checks = [_check(item, file, f"$.{KEY}[{number}]", lines[number])
              for number, item in enumerate(content.expectations)]  # fmt: skip
    _check_names(checks, file)
    return checks, warnings


def _check(item: dict[str, Any], file: str, path: str, line: int) -> Check:
    verbs = [key for key in item if key in EXPECTATIONS]
    if len(verbs) != 1:
        hint = "" if verbs or not item else suggest(str(next(iter(item))), EXPECTATIONS)
        found = " and ".join(verbs) or "no expectation"
        raise InputError(file, path, found, f"one of {', '.join(EXPECTATIONS)}", hint)
    _check_targets(item, verbs[0], file, path)
    expectation = convert(item, EXPECTATIONS[verbs[0]], file, path)
    edits = tuple(parse_edit(edit, file, f"{path}.edits[{number}]")
                  for number, edit in enumerate(expectation.edits))  # fmt: skip
    place = f"{file}: {path}"
    return Check(expectation=expectation, edits=edits, place=place, file=file, line=line)


def _check_targets(item: dict[str, Any], verb: str, file: str, path: str) -> None:
    """Refuse the text of a target that is none, with its place."""
    words = item[verb]
    texts = {f"{path}.{verb}": words if verb == "fails" else None}
    if isinstance(words, dict) and verb != "fails":
        texts[f"{path}.{verb}.in"] = words.get("in")
    for place, text in texts.items():
        if isinstance(text, str):
            try:
                place_target(text)
            except InputError as error:
                raise error.at(f"{file}: {place}") from None


def _check_names(checks: list[Check], file: str) -> None:
    names: set[str] = set()
    for number, check in enumerate(checks):
        name = check.expectation.name
        if name in names:
            path = f"$.{KEY}[{number}].name"
            raise InputError(file, path, f"{name!r} again", "a name of its own")
        if name is not None:
            names.add(name)
