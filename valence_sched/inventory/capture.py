# SPDX-License-Identifier: Apache-2.0
"""Capture: writes pod managers as one inventory file or as Redfish trees, without credentials.

An unreadable pod manager has no tree, and no blocks in the file.
"""

import secrets as secrets_module
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from valence_sched import errors, files
from valence_sched.drivers.crawl.reading import Reading
from valence_sched.drivers.files import tree as trees
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.inventory.anonymise import Aliases, anonymise_documents, anonymise_podm
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.sources import SourceReader
from valence_sched.model import redact
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.model.quantity import format_count
from valence_sched.model.reading import Selection

if TYPE_CHECKING:
    from valence_sched.inventory.live import LiveReader

MIN_KEY_CHARS = 16  # characters of a key for aliases


class CaptureResult(NamedTuple):
    """The numbers of captured objects, and the reasons of failed readings by pod manager.

    ``left_out`` has a line for each document or pod manager that could not be written as a file.
    """

    podms: int
    blocks: int
    documents: int
    failures: dict[str, str]
    left_out: list[str]


class Redactor:
    """Removes ``secrets`` from readings, and names if it has aliases; collects ``failures``."""

    def __init__(self, aliases: Aliases | None = None, secrets: Collection[str] = ()) -> None:
        self._aliases, self._secrets = aliases, tuple(secrets)
        self.failures: dict[str, str] = {}

    def redact(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        for reading in readings:
            if reading.failure is not None:
                reason = reading.failure.removeprefix(f"{reading.podm.id}: ")
                redacted = redact.redact_text(reason, self._secrets)
                self.failures[reading.podm.id] = errors.one_line(redacted)
            podm = redact.redact_podm(reading.podm, self._secrets)
            documents = redact.redact_documents(reading.documents, self._secrets)
            if self._aliases is not None:
                podm = anonymise_podm(self._aliases, podm)
                documents = anonymise_documents(self._aliases, trees.join_pages(documents))
            yield Reading(podm, reading.failure, documents=documents)


def recorded_readings(
    podms: Iterable[tuple[FullPodm, Record]], diagnostics: Diagnostics, *, documents: bool = False
) -> Iterator[Reading]:
    """Yield the pod managers of an inventory as readings.

    With ``documents``, each has its Redfish documents: those of its recorded tree, else documents
    made from its fields. ``diagnostics`` notes each document that is left out.
    """
    for podm, record in podms:
        if not documents:
            yield Reading(podm)
        elif record.tree is None:
            # redact before rendering: documents encode credentials differently from fields
            clean = redact.redact_podm(podm)
            yield Reading(clean, documents=documents_of(clean))
        else:
            tree = dict(trees.tree_documents(record.tree, record.file, diagnostics))
            yield Reading(podm, documents=tree)


def write_file(readings: Iterable[Reading], file: str, redactor: Redactor) -> CaptureResult:
    def podm(reading: Reading) -> FullPodm:
        if reading.failure is None:
            return reading.podm
        status = "Unknown" if reading.podm.status == "Online" else reading.podm.status
        return replace(reading.podm, status=status, pools=(), blocks=(), stocks=(), nodes=())

    count, blocks = files.write_inventory(map(podm, redactor.redact(readings)), file)
    return CaptureResult(count, blocks, 0, redactor.failures, [])


def write_trees(readings: Iterable[Reading], folder: str, redactor: Redactor) -> CaptureResult:
    """Write each reading as ``FOLDER/ID/redfish/v1/…``; after InputError or PodmError, none."""
    left_out: list[str] = []
    counts: Counter[str] = Counter()

    def fill(root: Path) -> None:
        names: set[str] = set()
        for reading in redactor.redact(readings):
            if reading.failure is not None:
                continue
            podm = reading.podm
            fault = trees.name_fault(podm.id)
            if fault is None and podm.id.casefold() in names:
                fault = "found an ID that differs from another only in case"
            if fault:
                text = f"{podm.id}: {fault}, expected a valid name of a folder"
                left_out.append(errors.one_line(text))
                continue
            names.add(podm.id.casefold())
            lines: list[str] = []
            (root / podm.id).mkdir()
            written = trees.write_tree(reading.documents, root / podm.id, lines.append)
            left_out.extend(f"{podm.id}: {line}" for line in lines)
            counts.update(podms=1, blocks=len(podm.blocks), documents=written)
        if counts["podms"]:
            return
        if redactor.failures:
            (name, reason), *others = redactor.failures.items()
            more = f", and {len(others)} more" if others else ""
            raise errors.PodmError(f"no pod manager could be read: {name}: {reason}{more}")
        raise errors.InputError(folder, "", (left_out or ["no pod manager"])[0], "at least one")

    trees.build_folder(folder, fill)
    sizes = counts["podms"], counts["blocks"], counts["documents"]
    return CaptureResult(*sizes, redactor.failures, left_out)


class Captures:
    """Records pod managers of a selection to files."""

    def __init__(self, sources: SourceReader, loader: InventoryLoader) -> None:
        self._sources, self._loader = sources, loader

    def capture(
        self,
        selection: Selection,
        *,
        file: str | None = None,
        tree: str | None = None,
        aliases: Aliases | None = None,
    ) -> CaptureResult:
        """Record pod managers of inventories or live ones; ``live.only`` limits either by name.

        The output is one inventory file, or with ``tree`` a folder of Redfish documents for each
        pod manager. It has no credentials, and with ``aliases`` no names. UsageError if no pod
        manager is known, UnknownName for a wrong name, InputError or PodmError if nothing can be
        read or written.
        """
        live, sources = selection.live, self._sources
        secrets: list[str] = []
        readings: Iterable[Reading]
        if named := sources.named_sources(selection):
            if live.selects_live:
                raise errors.UsageError("record either inventories or live pod managers, not both")
            selection = Selection(sources=tuple(named), live=live)
            chosen = _select(self._loader.podm_records(selection), live.only)
            readings = recorded_readings(chosen, sources.diagnostics, documents=tree is not None)
        else:
            reader = sources.live_reader(live, raw=tree is not None)
            if not reader:
                raise errors.NoPodm(sources.no_podm_message(live))
            secrets = reader.passwords()
            readings = _live_readings(reader, sources)
        if tree is not None:
            return write_trees(readings, tree, Redactor(aliases, secrets))
        return write_file(readings, file or "", Redactor(aliases, secrets))

    def aliases(self, variable: str | None = None) -> Aliases:
        """Return aliases by the key in a variable, else by a random key; or CredentialError."""
        if variable is None:
            return Aliases(secrets_module.token_bytes(32))
        key = self._sources.config.environ.get(variable, "")
        if len(key) < MIN_KEY_CHARS:
            value = format_count(len(key), "character") if key else "nothing"
            wanted = f"a key of at least {MIN_KEY_CHARS} (a guessed key reveals the names)"
            text = f"found {value} in {variable}, expected {wanted}"
            raise errors.CredentialError(f"--anonymize-key-env: {text}")
        return Aliases(key.encode("utf-8", "surrogateescape"))


def _live_readings(reader: "LiveReader", sources: SourceReader) -> Iterator[Reading]:
    try:
        for reading in reader:
            sources.live_ids.add(reading.podm.id)
            sources.diagnostics.extend(reading.diagnostics)
            yield reading
    finally:
        sources.progress.end_count()
        sources.config.remarks += reader.remarks


def _select(
    podms: Iterable[tuple[FullPodm, Record]], names: Sequence[str]
) -> Iterator[tuple[FullPodm, Record]]:
    known: list[str] = []
    missing = dict.fromkeys(names)
    for podm, record in podms:
        known.append(podm.id)
        if not names or podm.id in names:
            missing.pop(podm.id, None)
            yield podm, record
    for name in missing:
        raise errors.UnknownName("pod manager", name, known)
