# SPDX-License-Identifier: Apache-2.0
"""Composer: the protocol of composing, reading back and removing nodes on a pod manager.

HTTP status is never the outcome: every verb that writes reads back and returns the state of the
node. No write is sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from valence_sched.drivers.document_shape import check_content
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.exchange import GONE
from valence_sched.errors import InputError, PodmError, one_line
from valence_sched.model.composition import CompositionRequest, CompositionResult

#: Statuses of a write whose ETag is not that of the document, or that has none.
PRECONDITION_FAILED, PRECONDITION_REQUIRED = 412, 428

#: Called with each state that a node goes through, for a person who waits.
Watch = Callable[[str], None]


class Reply(NamedTuple):
    """The answer to one HTTP request, whatever its body is.

    ``body`` is None where there is none or it is no JSON object; ``text`` is what it is then.
    """

    status: int
    headers: Mapping[str, str]
    body: Json | None
    text: str = ""


class Session(Protocol):
    """A connection to one pod manager; every verb raises PodmError when no reply came.

    A change or removal is refused where the document is not as it was read last, if the service
    tells ETags: it is to be read again.
    """

    def get(self, uri: str) -> Reply:
        """Read a document."""

    def post(self, uri: str, body: Json) -> Reply:
        """Send a body, once."""

    def patch(self, uri: str, body: Json) -> Reply:
        """Change a document, once."""

    def delete(self, uri: str) -> Reply:
        """Remove a document, once."""


class ComposerReads(Protocol):
    """What one pod manager tells about compositions; nothing of it changes."""

    def refusal(self, request: CompositionRequest) -> str | None:
        """Return why this could not be composed here, whatever is free; None when it could."""

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        """Return a line for each block that is no longer free, with its present state."""

    def preview(self, request: CompositionRequest) -> str | None:
        """Return why the node could not be composed now, None if it could; or PodmError."""

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        """Read a node back, by its URI or, without one, by its name and blocks."""


class Composer(ComposerReads, Protocol):
    """One pod manager, ready to compose."""

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve the blocks where that can be done; return whether it was.

        Raises:
            ClaimLost: another client has reserved one meanwhile.
            PodmError: the reservation is refused, or its state cannot be read.
        """

    def unreserve(self, request: CompositionRequest) -> None:
        """Undo :meth:`reserve`, also of another process; PodmError where a block stays reserved."""

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Compose the node, wait for it, and read it back."""

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """Decompose a node and read back: ``absent`` means that nothing is left of it.

        Another node that has its URI by now is left alone. ``node`` is empty where there is none,
        and only memory chunks or volumes of it are to be deleted.
        """


def get_document(session: Session, uri: str | None) -> Json | None:
    """Return a document, None when there is none; raises PodmError when it cannot be read."""
    if not uri:
        return None
    reply = session.get(uri)
    if reply.status in GONE:
        return None
    if reply.status != 200 or reply.body is None:
        raise PodmError(f"{uri}: {describe_reply(reply)}, expected a document")
    try:
        return check_content(reply.body, uri)
    except InputError as error:
        raise PodmError(str(error)) from None


def describe_reply(reply: Reply) -> str:
    """Return an answer that is no document in words."""
    return one_line(f"HTTP {reply.status}" + (f": {reply.text}" if reply.text else ""), 200)
