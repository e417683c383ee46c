# SPDX-License-Identifier: Apache-2.0
"""Changes of the status of blocks that are not decoded; each distinct text is changed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import msgspec
from msgspec import Raw

from valence_sched.model.inventory import FREE_STATUS, LeanBlock, Status, parse_status, to_json

StatusChange = Callable[[Status], Status]


class StatusChanges:
    """Changes statuses; equal ones are decoded, changed and encoded once for each ``key``."""

    def __init__(self) -> None:
        self._changed: dict[tuple[Hashable, bytes], Raw | None] = {}

    def apply(self, block: LeanBlock, change: StatusChange, key: Hashable = None) -> LeanBlock:
        """Return a block with its status changed; ``key`` tells changes of one function apart."""
        text = bytes(block.status or b"")
        at = (key or change, text)
        if at not in self._changed:
            status = change(parse_status(text))
            self._changed[at] = None if status == FREE_STATUS else Raw(to_json(status))
        return msgspec.structs.replace(block, status=self._changed[at])


def failed(status: Status) -> Status:
    """Return the status of a block after it failed: no node has it or can have it."""
    return msgspec.structs.replace(
        status, state="Failed", health="Critical", active=False, compositions=0
    )


def drained(status: Status) -> Status:
    """Return the status of a block that takes no new node; its present nodes stay."""
    return msgspec.structs.replace(status, enabled=False)


def fresh(status: Status) -> Status:
    """Return the status of a new block of the same kind: it works and is free."""
    return Status(shareable=status.shareable, max_compositions=status.max_compositions)
