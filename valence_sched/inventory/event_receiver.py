# SPDX-License-Identifier: Apache-2.0
"""Event receiver: takes the events that pod managers send, in whichever process they arrive.

They reach the process that reads through the store. An event is a hint, and is kept as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from valence_sched.drivers.events import hint_of_records
from valence_sched.inventory.event_listener import EventListener
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

RECORD = "received events"  # the names of those that sent one
#: How often the store is asked for them.
LOOK_S = 0.5


class EventReceiver:
    """Takes events at an address; ``store`` returns the open store.

    Of many events of one pod manager the first is kept until the process that reads has taken it:
    the reading for it begins later than all of them.
    """

    def __init__(self, address: EventAddress, store: Callable[[], Store]) -> None:
        self._address, self._store = address, store

    def podm_of(self, token: str) -> str | None:
        """Return the pod manager that a token was given to, None for what is no token."""
        return self._address.podm_of(token)

    def take(self, podm: str, records: Iterable[Any]) -> None:
        """Keep a hint that a pod manager may have changed, if its event says so."""
        if hint_of_records(records) is None:
            return
        self._store().records.add_word(RECORD, podm.encode())


class ReceivedEvents:
    """The events of pod managers: of streams, and those that any process has received."""

    def __init__(
        self,
        listener: EventListener,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener, self._store, self._clock = listener, store, clock
        self._looked_at = -float("inf")

    def follow(self, members: Mapping[str, Registration]) -> None:
        """Listen to these from now on, and to no others."""
        self._listener.follow(members)

    def take(self) -> dict[str, str]:
        """Return those that sent an event since the last call; StoreError as of a store."""
        found = self._listener.take()
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            for name in self._store.records.take_words(RECORD):
                found.setdefault(name.decode("utf-8", "replace"), "an event that it sent")
        return found

    def close(self) -> None:
        """Listen to nothing more."""
        self._listener.close()
