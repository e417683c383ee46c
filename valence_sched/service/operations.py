# SPDX-License-Identifier: Apache-2.0
"""Operations: work that continues in threads after the answer, and its state for all processes."""

import logging
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from valence_sched.errors import (
    NO_THREADS,
    NameTaken,
    SchedulerError,
    ServiceBusy,
    UnknownName,
    one_line,
)
from valence_sched.model import inventory, redact
from valence_sched.model.base import digest_of
from valence_sched.model.http import problem_of
from valence_sched.model.quantity import format_count
from valence_sched.model.verbs import Operation
from valence_sched.service.visibility import visible_problem

if TYPE_CHECKING:
    from valence_sched.store.service_state import Records

LOG = logging.getLogger(__name__)

BEAT_S = 10.0  # interval of the heartbeats of a process that works on an operation
LOST_S = 6 * BEAT_S  # a process without a heartbeat for this time counts as gone
END_PATIENCE_S = 3600.0  # time to retry storing a result while the state is unavailable
PREFIX = "operation-"


class Operations:
    """The operations of one process, at most ``most`` at a time; each then calls ``ended``."""

    def __init__(
        self,
        records: Callable[[], "Records"],
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
        """Start an operation unless it is running or done; return its present record.

        With ``repeat``, an operation that is done starts again: its work finds the earlier result
        by its key. A failed operation, or an operation whose process is gone, always starts again.
        NameTaken if another request has the key, ServiceBusy if the process already runs ``most``
        operations.
        """
        record = PREFIX + operation.id
        with self._lock:
            found = self._records().get(record)
            earlier = _current(*found) if found else None
            if earlier and (earlier.state == "running" or (earlier.state == "done" and not repeat)):
                return _same(earlier, operation)
            if len(self._running) >= self._most:
                text = f"{format_count(self._most, 'operation')} are running: try again later"
                raise ServiceBusy(text)
            document = inventory.to_json(operation)
            if earlier is not None:
                self._records().replace(record, document)
            elif (stored := self._records().put_new(record, document)) != document:
                return _same(_current(stored, 0.0), operation)  # another process was faster
            self._running.add(operation.id)
        try:
            threading.Thread(target=self._run, args=(operation, work), daemon=True).start()
        except RuntimeError:  # the limit of threads: the operation counts as interrupted
            self._end(operation)
            raise ServiceBusy(NO_THREADS) from None
        return operation

    def get(self, operation_id: str, owner: str | None) -> Operation:
        """Return an operation of an owner, None for any owner; UnknownName if it does not exist."""
        found = self._records().get(PREFIX + operation_id) if len(operation_id) <= 40 else None
        if found is not None:
            document, age_s = found
            operation = _current(document, 0.0 if operation_id in self._running else age_s)
            if owner in (None, operation.owner):
                return operation
        raise UnknownName("operation", operation_id, ())

    def wait(self, timeout_s: float) -> bool:
        with self._idle:
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def _run(self, operation: Operation, work: Callable[[], Any]) -> None:
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(operation, over), daemon=True)
        try:
            beating.start()
            try:
                ended = _ended(operation, work)
            finally:
                over.set()
                beating.join()
            document = inventory.to_json(ended)
            self._records().replace(PREFIX + operation.id, document, END_PATIENCE_S)
        except SchedulerError as error:
            LOG.error("operation %s: its result is not stored: %s", operation.id, error)
        finally:
            try:
                self._note_ended()
            finally:
                self._end(operation)

    def _end(self, operation: Operation) -> None:
        with self._idle:
            self._running.discard(operation.id)
            self._idle.notify_all()

    def _beat(self, operation: Operation, over: threading.Event) -> None:
        document = inventory.to_json(operation)
        while not over.wait(self._beat_s):
            try:
                self._records().replace(PREFIX + operation.id, document)
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
        text = f"operation {operation.id} failed with an internal error: see the log of the service"
        return replace(operation, state="failed", problem=problem_of(SchedulerError(text)))


def new_operation(
    kind: str, owner: str | None, key: str | None, content: bytes, tenant: str | None = None
) -> Operation:
    """Return a new operation of an owner (None: of admins); its ID depends on tenant and key."""
    words = "\0".join((kind, owner or "", tenant or "", key or ""))
    id_ = uuid.uuid4().hex if key is None else digest_of(words.encode())
    asked, none = digest_of(content), msgspec.Raw(b"null")
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
