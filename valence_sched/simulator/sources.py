# SPDX-License-Identifier: Apache-2.0
"""The documents of every pod manager of an inventory: those of a tree as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from valence_sched.drivers.mockup import Tree
from valence_sched.drivers.recorded import Record
from valence_sched.errors import DuplicateId, InputError
from valence_sched.model.documents import decode
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.documents import Documents, Json
from valence_sched.simulator.render import documents_of


def documented(records: Iterable[Record], problems: list[str]) -> Iterator[tuple[str, Documents]]:
    """Yield id and documents of every pod manager; ``problems`` gets a line for what is left out.

    Raises:
        InputError: a source cannot be read as a whole.
        DuplicateId: two pod managers have one id.
    """
    seen: dict[str, str] = {}
    for record in records:
        try:
            podm = decode(record.json, FullPodm, record.file, record.place)
            if podm.id in seen:
                hint = f"the first is in {seen[podm.id]}"
                place = f"{record.place}.id"
                raise DuplicateId(record.file, place, repr(podm.id), "an id of its own", hint)
            seen[podm.id] = record.file
            yield podm.id, _documents(record, podm, problems)
        except DuplicateId:
            raise
        except InputError as error:
            problems.append(str(error))


def _documents(record: Record, podm: FullPodm, problems: list[str]) -> Documents:
    if record.tree is None:
        return Documents(documents_of(podm))
    return Documents(dict(of_tree(record.tree, record.file, problems)))


def of_tree(tree: Tree, file: str, problems: list[str]) -> Iterator[tuple[str, Json]]:
    """Yield URI and content of every document; ``problems`` as for :func:`documented`."""
    for uri in tree.documents:
        try:
            json = tree.get(uri)
        except InputError as error:
            line = f"{file}: {error}"
            if line not in problems:
                problems.append(line)
            continue
        if json is not None:
            yield uri, json
