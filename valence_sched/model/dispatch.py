# SPDX-License-Identifier: Apache-2.0
"""Orders and receipts: what a dispatcher sends to an external composer, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from valence_sched.model.decision import Placement


@dataclass(frozen=True, slots=True)
class Order:
    """A decision to dispatch: its document as bytes, its nodes, and what each was asked to be.

    ``properties`` are in Valence's words; ``unsaid`` is what these cannot say of what was asked,
    None where they say it all. ``key`` signs the document; it is never printed.
    """

    report: bytes
    placements: tuple[Placement, ...]
    name: str
    properties: dict[str, Any]
    key: bytes | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    unsaid: str | None = None


class Receipt(Struct, frozen=True, kw_only=True):
    """What the other side answered about some nodes of an order, by number."""

    nodes: tuple[int, ...]
    podm: str
    status: int
    reference: str | None = None


class Dispatcher(Protocol):
    """A function of ``valence_sched.dispatchers``: where to, and the order."""

    def __call__(self, url: str, order: Order) -> Sequence[Receipt]:
        """Send once, never twice.

        Raises:
            DispatchFailed: the other side refuses or does not answer; the message says what it
                may have taken nonetheless.
        """
