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
    """A decision to dispatch: its document as bytes, its nodes, and the properties of each node.

    ``properties`` are those of a Valence compose request; ``unsaid`` names the parts of the request
    that they cannot express, None if there are none. ``key`` signs the document; it is never
    printed.
    """

    report: bytes
    placements: tuple[Placement, ...]
    name: str
    properties: dict[str, Any]
    key: bytes | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    unsaid: str | None = None


class Receipt(Struct, frozen=True, kw_only=True):
    """What the external composer answered about some nodes of an order, by number."""

    nodes: tuple[int, ...]
    podm: str
    status: int
    reference: str | None = None


class Dispatcher(Protocol):
    """A function of the entry point group ``valence_sched.dispatchers``."""

    def __call__(self, url: str, order: Order) -> Sequence[Receipt]:
        """Send an order to a URL once, and never again.

        Raises:
            DispatchFailed: the composer refuses or does not answer; the message says what it may
                have accepted nevertheless.
        """
