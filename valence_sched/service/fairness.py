# SPDX-License-Identifier: Apache-2.0
"""Fairness: tenants take turns at what one request at a time has, and leave threads for others."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator

from valence_sched.errors import RateLimited, one_line
from valence_sched.model.quantity import format_count


class FairLock:
    """A lock whose waiters are served tenant by tenant, those of one in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    def acquire(self, tenant: str, timeout_s: float) -> bool:
        """Wait for a turn of a tenant; return False where it did not come in time."""
        with self._lock:
            if not self._held:  # nobody waits then: a release hands the lock over
                self._held = True
                return True
            turn = threading.Event()
            self._waiting.setdefault(tenant, deque()).append(turn)
        if turn.wait(timeout_s):
            return True
        with self._lock:
            if turn.is_set():  # it came at the last moment
                return True
            queue = self._waiting[tenant]
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]
            return False

    def release(self) -> None:
        """Hand the lock to the next tenant that waits."""
        with self._lock:
            if not self._waiting:
                self._held = False
                return
            tenant, queue = self._waiting.popitem(last=False)
            queue.popleft().set()
            if queue:
                self._waiting[tenant] = queue  # behind all others


class TenantGate:
    """Lets each tenant have at most so many requests answered at a time, None: any number."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()

    @contextlib.contextmanager
    def passing(self, tenant: str) -> Iterator[None]:
        """Count a request of a tenant while it is answered; RateLimited where it has too many."""
        with self._lock:
            if self._most is not None and self._inside[tenant] >= self._most:
                count = format_count(self._most, "request")
                raise RateLimited(one_line(f"{count} of {tenant!r} are being answered, as many as "
                                           "may be at a time: try again in a moment"))  # fmt: skip
            self._inside[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside[tenant] -= 1
                if not self._inside[tenant]:
                    del self._inside[tenant]
