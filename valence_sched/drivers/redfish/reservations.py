# SPDX-License-Identifier: Apache-2.0
"""Block reservations: the ``Reserved`` flags of the blocks of a node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from valence_sched.drivers.composer import PRECONDITION_FAILED, PRECONDITION_REQUIRED, Session
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.drivers.redfish.verify import NodeReader, describe_block, status_of
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.composition import CompositionRequest


class BlockReservations:
    """The ``Reserved`` flags of blocks; only what was set here is cleared, as far as known."""

    def __init__(self, session: Session, back: NodeReader) -> None:
        self._session, self._reader = session, back
        self._reserved: list[str] | None = None

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve every block that one node has to itself, or none; return whether they are.

        Raises:
            ClaimLost: another client has reserved one meanwhile.
            PodmError: the state cannot be read, or the reservation not be undone.
        """
        self._reserved = []
        for block in self._own(request, self._reader.last_block):
            if block.reserved:
                self._release(self._reserved)
                raise ClaimLost(f"{block.uri}: {describe_block(block)}")
            if block.reserved is not None:
                self._reserved.append(block.uri)
            if block.reserved is None or not self._set(block, True):
                self._release(self._reserved)
                return False
        return bool(self._reserved)

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags set here, or all that another process set; PodmError if one stays."""
        mine = self._reserved
        if mine is None:
            mine = [block.uri for block in self._own(request, self._reader.block)]
        self._release(mine)

    def _release(self, uris: Iterable[str]) -> None:
        stays = [f"{uri}: {why}" for uri in uris if (why := self._clear_flag(uri))]
        if stays:
            raise PodmError(f"may be reserved still: {'; '.join(stays)}")
        self._reserved = []

    def clear_own(self) -> None:
        """Clear the flags that were set here, if any were, of blocks that were just read."""
        if self._reserved:
            self.clear(self._reserved)
            self._reserved = []

    def reserved_among(self, uris: Iterable[str]) -> list[str]:
        """Return the blocks that are reserved, whoever did it, as they were read last."""
        blocks = (self._reader.last_block(uri) for uri in uris)
        return [block.uri for block in blocks if block and block.reserved]

    def clear(self, uris: Iterable[str]) -> None:
        """Take Reserved off blocks that were just read, where that can be done."""
        for uri in uris:
            with contextlib.suppress(PodmError):
                block = self._reader.last_block(uri)
                if block is not None and block.reserved:
                    self._set(block, False, verify=False)

    def _own(
        self, request: CompositionRequest, read: Callable[[str], ResourceBlock | None]
    ) -> list[ResourceBlock]:
        """Return the blocks that one node has to itself: a shared block is not reserved."""
        blocks = (read(uri) for uri in request.blocks)
        return [block for block in blocks if block and not status_of(block).shareable]

    def _clear_flag(self, uri: str) -> str:
        """Clear the flag; return why it may still be set, empty when it is not."""
        try:
            block = self._reader.block(uri)
        except PodmError as error:
            return str(error)
        if block is None or not block.reserved or self._set(block, False):
            return ""
        return "it does not let go"

    def _set(self, block: ResourceBlock, reserved: bool, *, verify: bool = True) -> bool:
        """Set or clear the flag; return whether it stands as wanted.

        Some replace the whole object by what is sent, so the whole of it is sent. A change that is
        refused by its ETag is sent once more where nothing changed meanwhile.
        """
        uri, status = block.uri, "CompositionStatus"
        body = {status: dict(block.json[status], Reserved=reserved)}
        try:
            reply = self._session.patch(uri, body)
            if reply.status in (PRECONDITION_FAILED, PRECONDITION_REQUIRED):
                present = self._reader.block(uri)
                if present is None or present.json[status] != block.json[status]:
                    return False
                reply = self._session.patch(uri, body)
            after = self._reader.told_block(uri, reply)
            if after is None and verify:
                after = self._reader.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved
