# SPDX-License-Identifier: Apache-2.0
"""Orders and receipts: what a dispatcher sends to an external composer, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from valence_sched.model.decision import Placement, Recording
from valence_sched.model.need import Alternative


@dataclass(frozen=True, slots=True)
class Order:
    """A decision to dispatch: its document as bytes, and its nodes.

    ``alternatives`` are those of the request that the nodes are made by. ``key`` signs the
    document; it is never printed. ``recording`` says, as the document does, what was not read
    live; a dispatcher that does not send the document must say so in what it sends.
    """

    report: bytes
    placements: tuple[Placement, ...]
    name: str
    alternatives: tuple[Alternative, ...]
    key: bytes | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    recording: Recording | None = None


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
