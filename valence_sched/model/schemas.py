# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of our documents, made from the nouns: ``python -m …schemas FOLDER``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec

from valence_sched.model.asked import RequestFile
from valence_sched.model.decision import Report, Reports
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import Inventory
from valence_sched.model.plan import Plan
from valence_sched.model.podms import PodmFile
from valence_sched.model.policy import PolicyText

NOUNS: dict[str, Any] = {
    "inventory": Inventory,
    "decision": Report,
    "decisions": Reports,
    "flavor": Flavor,
    "plan": Plan,
    "podms": PodmFile,
    "policy": PolicyText,
    "requests": RequestFile,
}


def schema(name: str) -> bytes:
    """Return the JSON Schema (2020-12) of a document, indented, with a stable order."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"valence-sched/{name}",
        **_tidied(msgspec.json.schema(NOUNS[name])),
    }
    text = msgspec.json.encode(document, order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"


def _tidied(schema: Any) -> Any:
    """Return a schema whose descriptions, which are docstrings, have no margins."""
    if isinstance(schema, dict):
        return {
            key: inspect.cleandoc(value)
            if key == "description" and isinstance(value, str)
            else _tidied(value)
            for key, value in schema.items()
        }
    return [_tidied(item) for item in schema] if isinstance(schema, list) else schema


def write(folder: Path) -> None:
    """Write every schema into a folder, as the package ships them."""
    for name in NOUNS:
        (folder / f"{name}.schema.json").write_bytes(schema(name))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
