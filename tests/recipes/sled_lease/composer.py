# SPDX-License-Identifier: Apache-2.0
"""Composes by leasing sleds. Every write is sent once, and its effect is read back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.drivers.composer import Change, Session, Watch, refusal
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult
from valence_sched.model.inventory import Node

from .reader import LeaseRoot, read_podm


class LeaseComposer:
    """One pod manager that leases sleds."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def refusal(self, request: CompositionRequest) -> str | None:
        """Return the reason why the request can never be composed here, else None."""
        whole = len(request.blocks) == 1 and not request.grants
        return None if whole else "a lease is of one whole sled"

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        """Return a line for each sled that is leased now."""
        leased = {uri: node.name for node in self._nodes() for uri in node.blocks}
        return [f"{uri}: leased as {leased[uri]!r}" for uri in request.blocks if uri in leased]

    def previews(self) -> bool:
        """Return False: this pod manager has no preview."""
        return False

    def change_refusal(self, node: str, attach: Sequence[str], detach: Sequence[str]) -> str | None:
        """Return the reason why nothing can be changed."""
        return "a lease is of one whole sled, so its blocks cannot be changed"

    def preview(self, request: CompositionRequest) -> str | None:
        """Refuse: this pod manager has no preview."""
        raise PodmError("it offers no preview")

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve nothing: a sled is leased or free."""
        return False

    def unreserve(self, request: CompositionRequest) -> None:
        """Undo nothing, since nothing is reserved."""

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Lease the sled and read back."""
        body = {"Name": request.name, "Sled": {"@odata.id": request.blocks[0]}}
        try:
            reason = refusal(self._session.post(self._leases(), body)) or ""
        except PodmError as error:
            reason = f"no reply: {error}"
        watch("answered")
        result = self.read_node(request)
        return result if result.state == "composed" else replace(result, reason=reason)

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        """Read the lease of this name."""
        try:
            leases = [one for one in self._nodes() if one.name == request.name]
        except PodmError as error:
            return CompositionResult(state="unknown", node=node, reason=str(error))
        if not leases:
            return CompositionResult(state="absent")
        return CompositionResult(state="composed", node=leases[0].uri, blocks=leases[0].blocks)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        """End the lease and read back; a lease of another name at this URI is not changed."""
        if self.read_node(request).state == "absent":
            return CompositionResult(state="absent")
        try:
            reason = refusal(self._session.delete(node)) or ""
        except PodmError as error:
            reason = f"no reply: {error}"
        result = self.read_node(request)
        if result.state == "composed":
            return replace(result, state="left", reason=reason)
        return result

    def change(
        self, node: str, attach: Sequence[str], detach: Sequence[str], watch: Watch
    ) -> Change:
        """Refuse: a sled has no parts that move."""
        raise PodmError("a lease is of one whole sled, so its blocks cannot be changed")

    def node_blocks(self, node: str) -> Sequence[str] | None:
        """Return the sled of a lease, None if the lease has ended."""
        return next((one.blocks for one in self._nodes() if one.uri == node), None)

    def is_hot_removable(self, block: str) -> bool:
        """Return False: a sled that runs cannot be removed."""
        return False

    def is_on(self, node: str) -> bool | None:
        """Return None: this pod manager does not report the power."""
        return None

    def set_power(self, node: str, on: bool, watch: Watch) -> None:
        """Refuse: this pod manager has no power control."""
        raise PodmError("it offers no power control")

    def _nodes(self) -> Sequence[Node]:
        documents = LinkedDocuments(self._get, NO_NOTES)
        return read_podm(documents, "podm", "sled_lease").nodes

    def _leases(self) -> str:
        root = LeaseRoot(ROOT, self._get(ROOT), NO_NOTES)
        return root.leases[0]

    def _get(self, uri: str) -> dict[str, object]:
        reply = self._session.get(uri)
        if reply.status != 200 or reply.body is None:
            raise PodmError(f"{uri}: HTTP {reply.status}, expected a document")
        return reply.body
