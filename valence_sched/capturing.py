# SPDX-License-Identifier: Apache-2.0
"""Pod managers recorded as they were read: without credentials, and without names if asked.

Every reading is written, one after the other; what could not be read keeps its place in an
inventory, with its status and nothing to hand out, and has no tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched import files
from valence_sched.drivers import tree_files
from valence_sched.drivers.live import Reading
from valence_sched.drivers.recorded import Record
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model import anonymous, scrub
from valence_sched.model.alias import Aliases
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.render import documents_of
from valence_sched.simulator.sources import of_tree


class Captured(NamedTuple):
    """What a capture holds: pod managers, blocks and, as trees, documents; and what it lacks.

    ``failures`` says of each pod manager that could not be read why, by its name. ``left_out``
    has a line for each document or pod manager that could not be a file.
    """

    podms: int
    blocks: int
    documents: int
    failures: dict[str, str]
    left_out: list[str]


class Clean:
    """Readings as they may be shared, and what went wrong with them so far.

    ``secrets`` are known credentials, which are replaced wherever they stand.
    """

    def __init__(self, aliases: Aliases | None = None, secrets: Collection[str] = ()) -> None:
        self._aliases, self._secrets = aliases, tuple(secrets)
        self.failures: dict[str, str] = {}

    def of(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        """Yield readings without credentials, and without names where there are aliases."""
        for reading in readings:
            if reading.failure is not None:
                why = reading.failure.removeprefix(f"{reading.podm.id}: ")
                self.failures[reading.podm.id] = one_line(scrub.clean(why, self._secrets))
            podm = scrub.podm(reading.podm, self._secrets)
            documents = scrub.documents(reading.documents, self._secrets)
            if self._aliases is not None:
                podm = anonymous.podm(self._aliases, podm)
                documents = anonymous.documents(self._aliases, tree_files.joined(documents))
            yield Reading(podm, reading.failure, documents=documents)


def recorded(
    found: Iterable[tuple[FullPodm, Record]], problems: list[str], *, documents: bool = False
) -> Iterator[Reading]:
    """Yield pod managers of an inventory as if they had been read now.

    With ``documents`` each has its Redfish documents: those of its tree as they were recorded,
    else those that its driver would read. ``problems`` gets a line for each that is left out.
    """
    for podm, record in found:
        if not documents:
            yield Reading(podm)
        elif record.tree is None:
            # Credentials go before rendering: a document spells them in other ways than a field.
            clean = scrub.podm(podm)
            yield Reading(clean, documents=documents_of(clean))
        else:
            yield Reading(podm, documents=dict(of_tree(record.tree, record.file, problems)))


def to_file(
    readings: Iterable[Reading],
    file: str,
    aliases: Aliases | None = None,
    secrets: Collection[str] = (),
) -> Captured:
    """Write readings as one inventory, whole or not at all.

    Raises:
        InputError: the name does not say which form, or the file cannot be written.
    """
    clean = Clean(aliases, secrets)
    podms = (_emptied(reading) for reading in clean.of(readings))
    count, blocks = files.write_inventory(podms, file)
    return Captured(count, blocks, 0, clean.failures, [])


def to_trees(
    readings: Iterable[Reading],
    folder: str,
    aliases: Aliases | None = None,
    secrets: Collection[str] = (),
) -> Captured:
    """Write the documents of each reading as ``FOLDER/ID/redfish/v1/…``, all or nothing.

    Raises:
        InputError: the folder is there already, or cannot be written.
        PodmError: no pod manager could be read.
    """
    clean = Clean(aliases, secrets)
    left_out: list[str] = []
    counts: Counter[str] = Counter()

    def fill(place: Path) -> None:
        taken: set[str] = set()
        for reading in clean.of(readings):
            if reading.failure is not None:
                continue
            podm = reading.podm
            fault = tree_files.name_fault(podm.id)
            if fault is None and podm.id.casefold() in taken:
                fault = "found an id that another has but for its case"
            if fault is not None:
                left_out.append(one_line(f"{podm.id}: {fault}, expected one that can be a folder"))
                continue
            taken.add(podm.id.casefold())
            inside = place / podm.id
            inside.mkdir()
            notes: list[str] = []
            documents = tree_files.write_tree(reading.documents, inside, notes.append)
            left_out.extend(f"{podm.id}: {line}" for line in notes)
            counts.update(podms=1, blocks=len(podm.blocks), documents=documents)
        if not counts["podms"]:
            _refuse(folder, clean.failures, left_out)

    tree_files.build(folder, fill)
    return Captured(
        counts["podms"], counts["blocks"], counts["documents"], clean.failures, left_out
    )


def _emptied(reading: Reading) -> FullPodm:
    """Return the podm of a reading; one that failed hands out nothing, whatever it holds."""
    if reading.failure is None:
        return reading.podm
    status = "Unknown" if reading.podm.status == "Online" else reading.podm.status
    return replace(reading.podm, status=status, pools=(), blocks=(), stocks=(), nodes=())


def _refuse(folder: str, failures: dict[str, str], left_out: list[str]) -> None:
    if failures:
        (name, why), *others = failures.items()
        more = f", and {len(others)} more" if others else ""
        raise PodmError(f"no pod manager could be read: {name}: {why}{more}")
    raise InputError(folder, "", (left_out or ["no pod manager"])[0], "at least one")
