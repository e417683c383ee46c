# SPDX-License-Identifier: Apache-2.0
"""RecordStore and EventSink: what the processes of one service share besides claims and nodes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import asdict

from valence_sched.errors import SchedulerError, StoreError
from valence_sched.model.claim import Claim
from valence_sched.model.composition import ComposedNode
from valence_sched.model.decision import DecisionSummary, Report
from valence_sched.model.effect import AuditLine

LOG = logging.getLogger("valence_sched.audit")


def digest(content: bytes) -> str:
    """Return what stands for a content in the id of a record, and tells it from another."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class RecordStore(Protocol):
    """Documents by id, in one place for all processes of a service; errors as of a store."""

    def put_new(self, id_: str, document: bytes) -> bytes:
        """Store a record unless there is one of this id; return the one that is stored."""

    def replace(self, id_: str, document: bytes, patience_s: float = 0.0) -> None:
        """Replace a record that is there; a state that is away is waited for so long."""

    def get(self, id_: str) -> tuple[bytes, float] | None:
        """Return a record and its age in seconds, None where there is none."""

    def record_change(self, line: AuditLine) -> None:
        """Store who changed what; the oldest of many such lines are deleted."""

    def save_decision(self, decision_id: str, report: Report, document: bytes) -> None:
        """Store a decision, which is found by its id and posted to a controller, if any."""

    def newest_decisions(self, most: int, skip: int, owner: str | None) -> list[DecisionSummary]:
        """Return the newest decisions of an owner, None: of everybody, after ``skip`` newer."""

    def newest_claims(
        self, most: int, skip: int, owner: str | None, podm: str | None, *, ended: bool
    ) -> tuple[Sequence[Claim], int]:
        """Return the newest claims after ``skip`` newer ones, and how many there are in all.

        Of an owner and a pod manager, None: of all; with ``ended`` also those that have ended.
        """

    def newest_nodes(
        self, most: int, skip: int, owner: str | None, podm: str | None
    ) -> tuple[Sequence[ComposedNode], int]:
        """Return the nodes of the newest claims as :meth:`newest_claims` does."""


class EventSink(Protocol):
    """Takes the events that pod managers send."""

    def podm_of(self, token: str) -> str | None:
        """Return the pod manager that a token was given to, None for what is no token."""

    def take(self, podm: str, records: Iterable[Any]) -> None:
        """Keep a hint that a pod manager may have changed, if its event says so."""


def record_change(records: RecordStore, line: AuditLine) -> None:
    """Log a change, or one that was refused, and store it where the state is not away."""
    fields = {name: value for name, value in asdict(line).items() if name not in ("number", "at")}
    LOG.info("%s", fields, extra={"fields": fields})
    if line.outcome == StoreError.code:
        return
    try:
        records.record_change(line)
    except SchedulerError as error:
        LOG.error("%s: %s of %s is in this log alone: %s", line.request_id, line.verb, line.object,
                  error)  # fmt: skip
