# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of documents, generated from the nouns: ``python -m tests.schemas FOLDER``."""

import inspect
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

from valence_sched.config.podms_file import PodmFile
from valence_sched.model import check, codec, decision, quantity
from valence_sched.model.baremetal import IronicSettings
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import Inventory
from valence_sched.model.node_change import DrainSettings, NodeChangePlan
from valence_sched.model.plan import Plan
from valence_sched.model.policy import PolicyText
from valence_sched.model.replay import Replay
from valence_sched.model.request_spec import RequestFile, RequestSpec, TraceFile, WorkloadLine
from valence_sched.model.scenario import EDITS, ScenarioFile, SingleScenario
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import ZoneFile

NOUNS: dict[str, Any] = {
    "check": check.CheckFile,
    "inventory": Inventory,
    "decision": decision.Report,
    "decisions": decision.Reports,
    "drain": DrainSettings,
    "flavor": Flavor,
    "ironic": IronicSettings,
    "node-change": NodeChangePlan,
    "plan": Plan,
    "podms": PodmFile,
    "policy": PolicyText,
    "replay": Replay,
    "requests": RequestFile | RequestSpec,
    "scenario": ScenarioFile | SingleScenario,
    "trace": TraceFile,
    "workload": WorkloadLine,
    "zone-settings": ZoneSettings,
    "zones": ZoneFile,
}

REFERRED: dict[str, tuple[Any, ...]] = {
    "check": (*check.EXPECTATIONS.values(), *EDITS.values()),
    "scenario": tuple(EDITS.values()),
}

WRITTEN_BY_PEOPLE = ("flavor", "requests", "scenario", "workload")  # amounts may have a unit
#: The key of the list in files of these nouns. A file may also have one noun or a plain list.
LIST_KEYS = {"flavor": "flavors", "policy": "policies", "workload": "requests"}


def json_schema(name: str) -> bytes:
    """Return the JSON Schema (2020-12) of a document, indented, with a stable order."""
    nouns = get_args(NOUNS[name]) or (NOUNS[name],)
    every = (*nouns, *REFERRED.get(name, ()))
    forms, defined = msgspec.json.schema_components(every, ref_template="#/$defs/{name}")
    found: list[dict[str, Any]] = list(forms[: len(nouns)])
    if name in LIST_KEYS:
        key, many = LIST_KEYS[name], {"type": "array", "items": found[0], "minItems": 1}
        under_key = {"type": "object", "properties": {key: many}, "required": [key]}
        found += [many, {**under_key, "additionalProperties": False}]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"valence-sched/{name}",
        **_clean_descriptions({"anyOf": found} if len(found) > 1 else found[0]),
        "$defs": _clean_descriptions(defined),
    }
    for noun in document["$defs"].values():
        if name in (*WRITTEN_BY_PEOPLE, "inventory"):
            _accept_gib(noun)
        if name in WRITTEN_BY_PEOPLE:
            _accept_units(noun.get("properties", {}))
    text = msgspec.json.encode(document, order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"


def _accept_gib(noun: dict[str, Any]) -> None:
    """Accept ``capacity_gib`` in place of ``capacity_mib``, as decoding does."""
    properties, required = noun.get("properties", {}), noun.get("required", [])
    if codec.MIB not in properties or codec.GIB in properties:
        return
    properties[codec.GIB] = {"type": "number", "minimum": 0}
    either = [{"required": [codec.MIB]}, {"required": [codec.GIB]}]
    if codec.MIB in required:
        noun["oneOf"] = either
        noun["required"] = [name for name in required if name != codec.MIB]
    else:
        noun["not"] = {"allOf": either}


def _accept_units(properties: dict[str, Any]) -> None:
    """Accept ``"64 GiB"`` for a number if its name, or the name of its resource, has a unit."""
    text = {"type": "string", "pattern": f"^{quantity.PATTERN}$"}
    for name, schema in properties.items():
        if name == "resources":
            schema["additionalProperties"] = {"anyOf": [schema["additionalProperties"], text]}
        elif name == "amount" or quantity.unit_of(name):
            default = {"default": schema.pop("default")} if "default" in schema else {}
            forms = schema.get("anyOf", [schema])
            properties[name] = {"anyOf": [*forms, text], **default}


def _clean_descriptions(schema: Any, key: str = "") -> Any:
    if isinstance(schema, dict):
        return {key: _clean_descriptions(value, key) for key, value in schema.items()}
    if key == "description" and isinstance(schema, str):
        return inspect.cleandoc(schema)
    return [_clean_descriptions(item) for item in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    for noun in NOUNS:
        (Path(sys.argv[1]) / f"{noun}.schema.json").write_bytes(json_schema(noun))
