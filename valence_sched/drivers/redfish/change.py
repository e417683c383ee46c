# SPDX-License-Identifier: Apache-2.0
"""Changes the blocks of a node: one write after another, each verified by reading the node."""

import contextlib
import re
from collections.abc import Container
from typing import Protocol

from valence_sched.drivers import composer
from valence_sched.drivers.composer import PRECONDITION_FAILED, Change, SendResult, Uris, Watch
from valence_sched.drivers.http.exchange import GONE, LATE_READS, MakePatience
from valence_sched.drivers.links import fold_uri
from valence_sched.drivers.redfish.methods import ComposeWrite, RemainingChange
from valence_sched.errors import PodmError

#: Statuses of a write that a service does not offer.
NOT_OFFERED = (*GONE, 405, 501)
#: The changes of other clients after which a write is sent again.
MOST_RACES = 2
_BLOCK_PARAMETER = re.compile(r"\bResourceBlock\b")


class ChangedNode(Protocol):
    """The reads and writes of one dialect that a change needs."""

    def read(self, node: str, attach: Uris, detach: Uris) -> RemainingChange:
        """Return what remains of a change; PodmError if the node is missing or unreadable."""

    def refusal(self, change: RemainingChange) -> Change | None:
        """Return the reason why a change cannot begin, None without a reason."""

    def write(self, change: RemainingChange, closed: Container[str]) -> ComposeWrite | str:
        """Return the next write, or the reason why none is offered."""

    def conflict(self, node: str, block: str) -> str | None:
        """Return the use of a block by another node, None without one."""

    def is_composing(self, block: str) -> bool:
        """Return whether the pod manager still attaches a block."""
        return False


class BlockChanger:
    """Changes the blocks of the nodes of one pod manager."""

    def __init__(
        self, session: composer.Session, patience: MakePatience, podm: ChangedNode
    ) -> None:
        self._session, self._patience, self._podm = session, patience, podm

    def present(self, node: str) -> tuple[str, ...] | None:
        """Return the present blocks of a node, None if it is gone; PodmError if unreadable."""
        if composer.get_document(self._session, node) is None:
            return None
        return self._podm.read(node, (), ()).present

    def refusal(self, node: str, attach: Uris, detach: Uris) -> str | None:
        """Return the reason why a change cannot begin, as far as readings show, else None."""
        rest = self._podm.read(node, attach, detach)
        if not rest.size:
            return None
        if refused := self._podm.refusal(rest):
            return refused.reason
        way = self._podm.write(rest, ())
        if isinstance(way, str):
            return way
        if not way.on_host:
            return None
        allowed = self._session.get(way.target).headers.get("Allow", "PATCH")
        if "PATCH" in allowed.upper().replace(",", " ").split():
            return None
        return f"{way.target}: PATCH is not allowed (Allow: {allowed})"

    def change(self, node: str, attach: Uris, detach: Uris, watch: Watch) -> Change:
        """Attach and detach blocks, and stop at the first write without an effect.

        A write that the service does not offer is replaced by the next way. After a write that was
        refused because the node has changed, the rest of the change is computed anew.
        """
        rest = self._podm.read(node, attach, detach)
        if not rest.size:
            return self._wait_until_composed(rest, attach, watch)
        if refused := self._podm.refusal(rest):
            return refused
        done = self._write_all(rest, attach, watch)
        if done.blocks is None or not (lost := rest.lost(done.blocks)):
            return done
        reason = "; ".join(filter(None, (done.reason, f"{node} has lost {', '.join(lost)}")))
        return done._replace(reason=reason, lost=lost)

    def _write_all(self, rest: RemainingChange, attach: Uris, watch: Watch) -> Change:
        closed, races = set[str](), 0
        problem = form_problem = ""
        while rest.size:
            way = self._podm.write(rest._replace(tagged=races < MOST_RACES), closed)
            if isinstance(way, str):
                return Change(rest.present, problem or way)
            watch(f"changing ({way.name})")
            sent = self._send(rest, way, watch)
            size, after = rest.size, self._wait_for_effect(rest, way, sent, watch)
            if isinstance(after, str):
                reason = "; ".join(filter(None, (sent.reason, after)))
                return Change(None, reason, works=sent.goes_on)
            rest = after
            if rest.size < size:
                form_problem = ""
            elif sent.status in NOT_OFFERED:
                closed.add(way.target)
                problem = sent.reason
            elif self._has_other_form(rest, way, sent, closed):
                closed.add(way.name)
                form_problem = sent.reason
            elif sent.status == PRECONDITION_FAILED and races < MOST_RACES:
                races += 1
            else:
                return self._failure(rest, sent, form_problem or sent.reason)
        return self._wait_until_composed(rest, attach, watch)

    def _send(self, change: RemainingChange, way: ComposeWrite, watch: Watch) -> SendResult:
        def is_undone() -> bool:
            now = self._podm.read(change.node, change.attach, change.detach)
            return set(map(fold_uri, now.present)) == set(map(fold_uri, change.present))

        pauses = self._patience()
        return composer.write(
            self._session, way.target, way.body, pauses, watch, is_undone, changes=way.on_host
        )

    def _wait_for_effect(
        self, change: RemainingChange, way: ComposeWrite, sent: SendResult, watch: Watch
    ) -> RemainingChange | str:
        """Read the node until the write has its effect; a refused write may have had it too.

        Return what remains of the change, or a problem if the node is unreadable.
        """
        patience, rest = self._patience(), change
        is_open = not (sent.refused or sent.unsent) or sent.status == 500
        for left in reversed(range(LATE_READS)):
            problem = ""
            try:
                rest = self._podm.read(change.node, change.attach, change.detach)
            except PodmError as error:
                problem = f"could not be read back: {error}"
            else:
                has_effect = not rest.size or (rest.size < change.size and not way.on_host)
                if (has_effect and not change.lost(rest.present)) or not is_open:
                    break
            if not left or not patience.pause():
                break
            watch("reading back")
        return problem or rest

    def _has_other_form(
        self, change: RemainingChange, way: ComposeWrite, sent: SendResult, closed: set[str]
    ) -> bool:
        """Return whether the same action may take the block in another form."""
        if sent.status != 400 or not _BLOCK_PARAMETER.search(sent.reason):
            return False
        other = self._podm.write(change, closed | {way.name})
        return not isinstance(other, str) and other.target == way.target

    def _failure(self, rest: RemainingChange, sent: SendResult, problem: str) -> Change:
        words = [f"without {', '.join(rest.attach)}"] if rest.attach else []
        words += [f"with {', '.join(rest.detach)}"] if rest.detach else []
        unchanged = f"the service reported success, but {rest.node} is {' and '.join(words)}"
        users: list[str] = []
        with contextlib.suppress(PodmError):
            found = ((it, self._podm.conflict(rest.node, it)) for it in rest.attach)
            users = [f"{block}: {why}" for block, why in found if why]
        conflicts = sent.status == PRECONDITION_FAILED or bool(users)
        reason = "; ".join([problem or unchanged, *users])
        may_follow = sent.goes_on or sent.succeeded
        full = sent.is_full and bool(rest.attach)
        return Change(rest.present, reason, may_follow, conflicts, is_full=full)

    def _wait_until_composed(self, done: RemainingChange, attach: Uris, watch: Watch) -> Change:
        patience = self._patience()
        while True:
            busy: list[str] = []
            with contextlib.suppress(PodmError):  # the list of the node decides
                busy = list(filter(self._podm.is_composing, attach))
            if not busy or not patience.pause():
                break
            watch("composing")
        reason = f"{', '.join(busy)} is Composing" if busy else ""
        return Change(done.present, reason, works=bool(busy))
