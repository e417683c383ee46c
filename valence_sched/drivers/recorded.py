# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers: whatever ``--inventory`` names, one record for each pod manager.

A source is a JSON inventory, JSON Lines, a map from URI to Redfish document, a Redfish mockup
tree (folder, zip or tar), or a folder or archive of several of these; ``-`` is standard input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from valence_sched.drivers.files import tree as mockup
from valence_sched.drivers.files.archives import is_inventory_name, tar_members, zip_members
from valence_sched.drivers.files.folders import children, files_below
from valence_sched.drivers.files.json_inventory import (
    NotAnInventory,
    Record,
    text_records,
    tree_record,
)
from valence_sched.drivers.files.streams import input_errors, open_stream
from valence_sched.errors import InputError

__all__ = ["Record", "records"]

#: An archive in an archive is read, one more level is not.
MAX_NESTING = 1

_STEM = re.compile(r"(\.(json|jsonl|ndjson|gz|tgz|zst|zip|tar))+$", re.IGNORECASE)


class Child(NamedTuple):
    """What stands in a folder or archive: a tree, or a file that may be an inventory."""

    name: str
    tree: Callable[[], mockup.RecordedTree | None]
    open: Callable[[], BinaryIO]


def records(source: str, stdin: BinaryIO, problems: list[str]) -> Iterator[Record]:
    """Yield every pod manager of a source; ``problems`` gets a line for all that is left out.

    Raises:
        InputError: the source as a whole cannot be read.
    """
    with input_errors("stdin" if source == "-" else source):
        if source == "-":
            yield from _stream(stdin, "stdin", "stdin", problems)
            return
        path = Path(source)
        if path.is_dir():
            yield from _folder(path, source, problems)
            return
        path.stat()
        if not path.is_file():
            hint = "for a pipe, name - and redirect it to standard input"
            raise InputError(source, "", "no regular file", "a file or a folder", hint)
        with path.open("rb") as file:
            yield from _stream(file, source, stem(path), problems)


def stem(path: Path) -> str:
    """Return the id of the pod manager that a path is named after."""
    path = path.absolute()
    while path.name in ("redfish", "v1", "..", "."):
        path = path.resolve().parent if path.name in ("redfish", "v1") else path.resolve()
    return _STEM.sub("", path.name) or path.name or "root"


def _stream(
    source: BinaryIO, file: str, id_: str, problems: list[str], nesting: int = 0
) -> Iterator[Record]:
    stream = open_stream(source, file)
    if stream.form == "text":
        yield from text_records(stream.bytes, file, id_, problems)
        return
    if nesting > MAX_NESTING:
        raise InputError(file, "", "an archive in an archive", "a tree", "unpack it first")
    members = zip_members if stream.form == "zip" else tar_members
    with nullcontext() if stream.bytes is source else stream.bytes:
        files = members(stream.bytes, file, problems)
    yield from _archive(files, file, id_, problems, nesting)


def _folder(path: Path, file: str, problems: list[str]) -> Iterator[Record]:
    tree = _tree_or_none(path, problems, file)
    if tree:
        yield tree_record(tree, stem(path), file, problems)
        return
    found = (
        Child(child.name, partial(_tree_or_none, child, problems), partial(_open, child))
        for child in children(path, file, problems)
    )
    yield from _several(found, file, problems, 0)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _tree_or_none(path: Path, problems: list[str], file: str = "") -> mockup.RecordedTree | None:
    if not path.is_dir() or not any((path / mark).is_file() for mark in mockup.TREE_MARKERS):
        return None
    return mockup.tree_of_files(files_below(path.resolve(), file or str(path), problems))


def _archive(
    files: Mapping[str, bytes], file: str, id_: str, problems: list[str], nesting: int
) -> Iterator[Record]:
    if tree := _packed_tree(files):
        yield tree_record(tree, id_, file, problems)
        return
    groups: dict[str, dict[str, bytes]] = {}
    for name in sorted(files):
        top, _, rest = name.partition("/")
        groups.setdefault(top, {})[rest] = files[name]
    if len(groups) == 1:
        (top, below), *_ = groups.items()
        if "" not in below:  # the folder that was packed; what is in it is meant
            yield from _archive(below, f"{file}/{top}", top, problems, nesting)
            return
    found = (
        Child(
            top,
            partial(_packed_tree, below),
            partial(BytesIO, below.get("", b"")),
        )
        for top, below in groups.items()
    )
    yield from _several(found, file, problems, nesting)


def _packed_tree(files: Mapping[str, bytes]) -> mockup.RecordedTree | None:
    return mockup.tree_of_files(files) if mockup.is_tree(files) else None


def _several(
    found: Iterable[Child], file: str, problems: list[str], nesting: int
) -> Iterator[Record]:
    """Yield the pod managers of the children; one that cannot be read does not stop the rest."""
    known = False
    for child in found:
        name = f"{file.rstrip('/')}/{child.name}"
        try:
            for record in _child(child, name, problems, nesting):
                known = True
                yield record
            known = known or is_inventory_name(child.name)
        except NotAnInventory:
            continue  # a folder of captures holds other JSON too
        except InputError as error:
            known = True
            problems.append(str(error))
    if not known:
        hint = "name a tree with an index.json, or a folder of trees and inventory files"
        raise InputError(file, "", "nothing that is one", "recorded inventories or trees", hint)


def _child(child: Child, name: str, problems: list[str], nesting: int) -> Iterator[Record]:
    id_ = stem(Path(child.name))
    with input_errors(name):
        if tree := child.tree():
            yield tree_record(tree, id_, name, problems)
        elif is_inventory_name(child.name):
            with child.open() as stream:
                yield from _stream(stream, name, id_, problems, nesting + 1)
