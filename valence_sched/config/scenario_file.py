# SPDX-License-Identifier: Apache-2.0
"""The scenario file: its document, parsed and validated into scenarios and templates."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from valence_sched.config.parsers import check_flavors, check_policies, check_unique_names
from valence_sched.errors import InputError, suggest
from valence_sched.model.codec import check_schema, convert, load_yaml
from valence_sched.model.scenario import (
    EDITS,
    SCHEMA,
    VERSION,
    Edit,
    Scenario,
    ScenarioFile,
    ScenarioText,
    SingleScenario,
    Template,
    parse_target,
)


class ScenarioDocument(Struct, frozen=True):
    """What a file has: scenarios by name, in its order, and templates for all of them."""

    scenarios: dict[str, Scenario]
    templates: tuple[Template, ...] = ()


def parse_scenarios(data: bytes, file: str) -> ScenarioDocument:
    """Parse a file of scenarios, a list under ``scenarios``, or of a single one.

    Raises:
        InputError, NewerSchema: naming the path, what was found and what was expected.
        UnknownName, RequestError: a policy names an unknown plug-in, a flavor contradicts itself.
    """
    document = load_yaml(data, file)
    if not isinstance(document, dict):
        raise InputError(file, "$", "no map", "a scenario, or a list of them under 'scenarios'")
    schema, version = document.get("schema", SCHEMA), document.get("version", VERSION)
    check_schema(str(schema), str(version), SCHEMA, VERSION, file)
    if "scenarios" in document:
        content = convert(document, ScenarioFile, file)
        texts: list[tuple[str, ScenarioText]]
        texts = [(f"$.scenarios[{n}]", text) for n, text in enumerate(content.scenarios)]
        templates = content.templates
    else:
        texts, templates = [("$", convert(document, SingleScenario, file))], ()
    check_unique_names([(f"$.templates[{n}]", one) for n, one in enumerate(templates)], file)
    scenarios = [_scenario(text, file, path) for path, text in check_unique_names(texts, file)]
    return ScenarioDocument({one.name: one for one in scenarios}, templates)


def _scenario(text: ScenarioText, file: str, path: str) -> Scenario:
    def placed(field: str) -> list[tuple[str, Any]]:
        return [(f"{path}.{field}[{n}]", one) for n, one in enumerate(getattr(text, field))]

    return Scenario(
        name=text.name,
        description=text.description,
        extends=text.extends,
        edits=tuple(parse_edit(item, file, place) for place, item in placed("edits")),
        policy=text.policy,
        weights=text.weights,
        policies=tuple(check_policies(placed("policies"), file)),
        flavors=tuple(check_flavors(placed("flavors"), file)),
        templates=tuple(one for _, one in check_unique_names(placed("templates"), file)),
        place=f"{file}: {path}",
    )


def parse_edit(item: dict[str, Any], file: str, path: str) -> Edit:
    """Return the edit that the verb among the keys of a map names; errors as for a file."""
    verbs = [key for key in item if key in EDITS]
    if len(verbs) != 1:
        hint = "" if verbs or not item else suggest(str(next(iter(item))), EDITS)
        found = " and ".join(verbs) or "no edit"
        raise InputError(file, path, found, f"one of {', '.join(EDITS)}", hint)
    key = "to" if verbs[0] == "add" else verbs[0]
    if isinstance(item.get(key), str):
        try:
            parse_target(item[key])
        except InputError as error:
            raise error.at(f"{file}: {path}.{key}") from None
    return convert(item, EDITS[verbs[0]], file, path)
