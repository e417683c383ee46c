# SPDX-License-Identifier: Apache-2.0
"""File kinds: what a file is that was given in place of another, and what reads it."""

import re
from typing import Any, NamedTuple

from valence_sched.errors import InputError

SCHEMA = "valence-sched/"
WRONG_FILE = "is this the right file?"
HEAD_BYTES = 4096  # of a file that is no JSON, in which its kind is looked for


class FileKind(NamedTuple):
    """What a file of a kind is called, and the option or command that reads it."""

    noun: str
    use: str


KINDS = {
    "inventory": FileKind("an inventory", "--inventory"),
    "decision": FileKind("a decision", "scheduler explain"),
    "decisions": FileKind("decisions", "scheduler explain"),
    "plan": FileKind("a plan", "podm apply"),
    "replay": FileKind("a replay", "scheduler whatif run --compare"),
    "check": FileKind("expectations", "scheduler check"),
    "request": FileKind("requests", "--request-file"),
    "scenario": FileKind("scenarios", "--scenario"),
    "zones": FileKind("a tree of zones", "--zone-file"),
    "flavors": FileKind("flavors", "--flavor-file"),
    "policies": FileKind("policies", "--policy-file"),
    "resources": FileKind("resources", "--resource-file"),
    "podms": FileKind("pod managers", "--podm-file"),
    "columns": FileKind("columns of a trace", "--map-file"),
}
#: Kinds by the field that no document but theirs has at its top.
_FIELDS = {"flavors": "flavors", "policies": "policies", "scenarios": "scenario",
           "requests": "request", "expectations": "check"}  # fmt: skip
_SCHEMA = re.compile(rb"schema['\"]?\s*:\s*['\"]?valence-sched/([a-z]+)")
_MAGIC = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "a zip archive", b"%PDF": "PDF", b"\x89PNG": "PNG"}
#: Kinds that no document in YAML or JSON is.
NOT_TEXT = frozenset({"HTML", "XML", *_MAGIC.values()})
_KEY = re.compile(rb"(?:- )?['\"]?[\w.-]+['\"]?:(?:\s|$)")  # of YAML


def refuse_other_kind(document: Any, kind: str, file: str) -> None:
    """Raise InputError, which says what reads it, for a document that is of another kind."""
    if not isinstance(document, dict):
        return
    found = str(document.get("schema", "")).removeprefix(SCHEMA)
    if found not in KINDS:
        kinds = {_FIELDS[field] for field in _FIELDS.keys() & document.keys()}
        found = kind if kind in kinds or kind in document else next(iter(kinds), kind)
    if found != kind and kind in KINDS:
        raise InputError(file, "", KINDS[found].noun, KINDS[kind].noun, use_hint(found))


def use_hint(kind: str) -> str:
    """Return what reads a kind of file, empty for a kind that is none."""
    return f"use {KINDS[kind].use}" if kind in KINDS else ""


def text_kind(data: bytes) -> tuple[str, str]:
    """Return what a text that is not JSON is, and a hint; both empty if that is not known."""
    head = data[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, noun in _MAGIC.items():
        if head.startswith(magic):
            return noun, WRONG_FILE
    if head[:64].lower().startswith((b"<!doctype html", b"<html")):
        return "HTML", WRONG_FILE
    if head.startswith((b"<?xml", b"<svg")):
        return "XML", WRONG_FILE
    lines = (line.strip() for line in head.splitlines())
    first = next((one for one in lines if one not in (b"", b"---") and one[:1] != b"#"), b"")
    if not _KEY.match(first):
        return ("", "") if b"\0" in head else ("text", WRONG_FILE)
    schema = _SCHEMA.search(head)
    kinds = (kind for field, kind in _FIELDS.items() if head.startswith(f"{field}:".encode()))
    found = schema[1].decode() if schema else next(kinds, "")
    if found in KINDS:
        return f"{KINDS[found].noun} in YAML", use_hint(found)
    return "YAML", WRONG_FILE
