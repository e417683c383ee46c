# SPDX-License-Identifier: Apache-2.0
"""Operations: work that goes on after its answer, in threads, and its state for every process."""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from valence_sched.errors import NameTaken, SchedulerError, ServiceBusy, UnknownName, one_line
from valence_sched.model import claim, effect, inventory, redact
from valence_sched.model.decision import DecisionSummary, Report
from valence_sched.model.problem import problem_of
from valence_sched.model.quantity import format_count
from valence_sched.model.verbs import Operation
from valence_sched.service.visibility import visible_problem

LOG = logging.getLogger(__name__)

BEAT_S = 10.0  # how often a process says that it still works on an operation
LOST_S = 6 * BEAT_S  # without a word for so long, its process is gone
END_PATIENCE_S = 3600.0  # for a state that is away as it ends: no other word of it is left
PREFIX = "operation-"


def digest(content: bytes) -> str:
    """Return the digest of a content for the id of a record."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class RecordStore(Protocol):
    """Documents by id, in one place for all processes of a service; errors as of a store."""

    def put_new(self, id_: str, document: bytes) -> bytes:
        """Store a record unless there is one of this id; return the one that is stored."""

    def replace(self, id_: str, document: bytes, patience_s: float = 0.0) -> None:
        """Replace a record that is there; a state that is away is waited for so long."""

    def get(self, id_: str) -> tuple[bytes, float] | None:
        """Return a record and its age in seconds, None without a record."""

    def record_change(self, line: effect.AuditLine) -> None:
        """Store who changed what; the oldest of many such lines are deleted."""

    def save_decision(self, decision_id: str, report: Report, document: bytes) -> None:
        """Store a decision, which is found by its id and posted to a controller, if any."""

    def newest_decisions(self, most: int, skip: int, owner: str | None) -> list[DecisionSummary]:
        """Return the newest decisions of an owner, None: of everybody, after ``skip`` newer."""

    def newest_claims(
        self, most: int, skip: int, owner: str | None, podm: str | None, *, ended: bool
    ) -> tuple[Sequence[claim.Claim], int]:
        """Return the newest claims after ``skip`` newer ones, and how many there are in all.

        Of an owner and a pod manager, None: of all; with ``ended`` also those that have ended.
        """

    def newest_nodes(
        self, most: int, skip: int, owner: str | None, podm: str | None
    ) -> tuple[Sequence[claim.ComposedNode], int]:
        """Return the nodes of the newest claims as :meth:`newest_claims` does."""


class Operations:
    """The operations of one process, ``most`` at a time; ``ended`` is called after each."""

    def __init__(
        self,
        records: RecordStore,
        most: int,
        beat_s: float = BEAT_S,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self._records, self._most, self._beat_s = records, most, beat_s
        self._note_ended = ended
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._idle = threading.Condition(self._lock)

    def start(self, operation: Operation, work: Callable[[], Any], *, repeat: bool) -> Operation:
        """Begin an operation, unless one of its id runs; return the one that runs then.

        With ``repeat`` one that is done begins again, for its work knows its key; so does, in any
        case, one that failed, or whose process is gone. NameTaken for the key of another request,
        ServiceBusy where the process works on as many as it may.
        """
        record = PREFIX + operation.id
        with self._lock:
            found = self._records.get(record)
            earlier = _current(*found) if found else None
            if earlier and (earlier.state == "running" or (earlier.state == "done" and not repeat)):
                return _same(earlier, operation)
            if len(self._running) >= self._most:
                text = f"{format_count(self._most, 'operation')} run already: try again later"
                raise ServiceBusy(text)
            document = inventory.to_json(operation)
            if earlier is not None:
                self._records.replace(record, document)
            elif (stored := self._records.put_new(record, document)) != document:
                return _same(_current(stored, 0.0), operation)  # another process was faster
            self._running.add(operation.id)
        threading.Thread(target=self._run, args=(operation, work), daemon=True).start()
        return operation

    def get(self, operation_id: str, owner: str | None) -> Operation:
        """Return an operation of an owner, None for any owner; UnknownName without one."""
        found = self._records.get(PREFIX + operation_id) if len(operation_id) <= 40 else None
        if found is not None:
            document, age_s = found
            operation = _current(document, 0.0 if operation_id in self._running else age_s)
            if owner in (None, operation.owner):
                return operation
        raise UnknownName("operation", operation_id, ())

    def wait(self, timeout_s: float) -> bool:
        """Wait until no operation runs in this process; return whether none does."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def _run(self, operation: Operation, work: Callable[[], Any]) -> None:
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(operation, over), daemon=True)
        beating.start()
        try:
            ended = _ended(operation, work)
        finally:
            over.set()
            beating.join()
        try:
            self._records.replace(PREFIX + operation.id, inventory.to_json(ended), END_PATIENCE_S)
        except SchedulerError as error:
            LOG.error("operation %s: its end is not recorded: %s", operation.id, error)
        finally:
            self._note_ended()
            with self._idle:
                self._running.discard(operation.id)
                self._idle.notify_all()

    def _beat(self, operation: Operation, over: threading.Event) -> None:
        document = inventory.to_json(operation)
        while not over.wait(self._beat_s):
            try:
                self._records.replace(PREFIX + operation.id, document)
            except SchedulerError as error:
                LOG.warning("operation %s: %s", operation.id, error)


def _ended(operation: Operation, work: Callable[[], Any]) -> Operation:
    try:
        result = msgspec.Raw(inventory.to_json(work()))
        return replace(operation, state="done", result=result)
    except SchedulerError as error:
        LOG.warning("operation %s: %s", operation.id, redact.redact_text(one_line(str(error))))
        is_tenant = operation.owner is not None
        problem = visible_problem(problem_of(error), is_tenant=is_tenant)
        return replace(operation, state="failed", problem=problem)
    except Exception:
        LOG.exception("operation %s", operation.id)
        text = f"operation {operation.id} failed by a defect of the service: see its log"
        return replace(operation, state="failed", problem=problem_of(SchedulerError(text)))


def new_operation(
    kind: str, owner: str | None, key: str | None, content: bytes, tenant: str | None = None
) -> Operation:
    """Return an operation that is to begin: with a ``key`` of a tenant always the same one.

    ``content`` is the request of the key. Only the ``owner`` may see it, with None only an admin.
    """
    words = "\0".join((kind, owner or "", tenant or "", key or ""))
    id_ = uuid.uuid4().hex if key is None else digest(words.encode())
    asked, none = digest(content), msgspec.Raw(b"null")
    return Operation(id=id_, kind=kind, state="running", owner=owner, content=asked, result=none)


def _same(earlier: Operation, operation: Operation) -> Operation:
    if earlier.content != operation.content:
        raise NameTaken("the idempotency key belongs to another request: use a new one")
    return earlier


def _current(document: bytes, age_s: float) -> Operation:
    operation = msgspec.json.decode(document, type=Operation)
    if operation.state == "running" and age_s > LOST_S:
        return replace(operation, state="interrupted")
    return operation
