# SPDX-License-Identifier: Apache-2.0
"""RecordValidator: decodes the records of one reading, and refuses what a View would refuse."""

from __future__ import annotations

from valence_sched.drivers.recorded import Record
from valence_sched.errors import InputError
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm
from valence_sched.view.builder import ViewBuilder, repeated_id


class RecordValidator:
    """Validates records one after another, without building anything of those that are sound."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._files)

    def podm(self, record: Record) -> FullPodm:
        """Return the pod manager of a record; a noun that a driver made is returned as it is.

        Raises:
            InputError, DuplicateId: a builder of views refuses it; an earlier record has its id.
        """
        podm = _decode_sound(record)
        if podm is None:  # a builder says what is wrong
            lean = decode(record.json, LeanPodm, record.file, record.place)
            self._check_id(lean.id, record)
            ViewBuilder().add(lean, record.file, record.place)
            podm = decode(record.json, FullPodm, record.file, record.place)
        self._check_id(podm.id, record)
        self._files[podm.id] = record.file
        return record.content if isinstance(record.content, Podm) else podm

    def _check_id(self, podm_id: str, record: Record) -> None:
        if podm_id in self._files:
            raise repeated_id(podm_id, self._files[podm_id], record.file, record.place)


def _decode_sound(record: Record) -> FullPodm | None:
    """Return the pod manager of a record, None where anything is wrong with it."""
    try:
        podm = decode(record.json, FullPodm, record.file, record.place)
    except InputError:
        return None
    pools = {pool.id for pool in podm.pools}
    uris = {block.uri for block in podm.blocks}
    unique = len(pools) == len(podm.pools) and len(uris) == len(podm.blocks)
    listed = all(pools.issuperset(block.pools) for block in podm.blocks)
    listed = listed and all(pools.issuperset(stock.pools) for stock in podm.stocks)
    return podm if unique and listed else None
