# SPDX-License-Identifier: Apache-2.0
"""Claims and nodes brought to terms with what each pod manager really has.

A claim that was being composed when its process died is decided by what is found: its node is
there, or nothing is, or something that must be taken back. What cannot be read stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import Struct

from valence_sched.composing import Reach, name_of, node_of, shares_of, wanted_of
from valence_sched.drivers.hands import Hands
from valence_sched.errors import SchedulerError, one_line
from valence_sched.model.claim import Claim, Part, Share
from valence_sched.model.composed import Composed
from valence_sched.model.composition import Outcome
from valence_sched.model.inventory import FullPodm
from valence_sched.store.store import Store

OURS = "vs-"  # what the names of all nodes composed here begin with


class Deed(Struct, frozen=True, kw_only=True):
    """What was done, or would be: to a claim or node, on a pod manager, and why."""

    kind: str
    id: str
    podm: str
    done: str


@dataclass(frozen=True, slots=True)
class Reaper:
    """Reaps a store; ``reach`` and ``read`` are as of a composer. A dry run changes nothing."""

    store: Store
    reach: Reach
    read: Callable[[str], FullPodm | None]
    dry_run: bool = False

    def reap(self) -> Iterator[Deed]:
        """Yield what was done, one thing after another."""
        for reaped in self.store.claims.reap(dry_run=self.dry_run):
            if reaped.claim.state != "COMPOSING":
                yield _deed(reaped.claim, reaped.what)
        for claim in self.store.claims.stuck():
            yield _deed(claim, self._decided(claim))
        yield from self._nodes()

    def _decided(self, claim: Claim) -> str:
        """Find out what became of a claim that was being composed."""
        found: list[Composed] = []
        for part, share in shares_of(claim):
            try:
                with self.reach(part.podm) as hands:
                    outcome = self._outcome(hands, claim, part, share)
            except SchedulerError as error:
                return one_line(f"left as it is: {part.podm} does not tell: {error}", 200)
            if outcome.works:
                return one_line(f"left as it is: {part.podm} goes on: {outcome.reason}", 200)
            if outcome.state == "composed":
                found.append(node_of(claim, part, share, outcome))
            elif outcome.state != "absent":
                return one_line(f"left as it is: {outcome.reason}", 200)
        if found:
            if not self.dry_run:
                self.store.claims.composed(claim.id, found)
            return f"composed: found {', '.join(node.uri for node in found)}"
        if not self.dry_run:
            self.store.claims.fail(claim.id, "nothing was composed")
        return "freed what it held: nothing was composed"

    def _outcome(self, hands: Hands, claim: Claim, part: Part, share: Share) -> Outcome:
        """Return what there is of a node, taken back where it is only a part of one."""
        known = self.store.last([part.podm]).get(part.podm)
        wanted = wanted_of(claim, share, known)
        outcome = hands.look(wanted)
        if self.dry_run or outcome.works:
            return outcome
        if outcome.state == "left" and outcome.node:
            outcome = hands.remove(wanted, outcome.node, lambda _state: None)
        if outcome.state == "absent":
            hands.unreserve(wanted)
        return outcome

    def _nodes(self) -> Iterator[Deed]:
        """Yield nodes that went without us, and nodes of ours that nobody remembers."""
        known: dict[str, list[Composed]] = {}
        for node in self.store.nodes.list():
            known.setdefault(node.podm, []).append(node)
        names = {name_of(claim, share) for claim in self.store.claims.list()
                 for _, share in shares_of(claim)}  # fmt: skip
        for id_ in sorted(known.keys() | self.store.last()):
            podm = self.read(id_)
            if podm is None:
                continue
            there = {node.uri: node for node in podm.nodes}
            if not self.dry_run:
                self.store.remember(podm)
            for node in known.get(id_, []):
                if node.uri not in there:
                    yield self._gone(node)
            ours = {node.uri for node in known.get(id_, [])}
            for uri, found in there.items():
                name = found.name or ""
                if uri not in ours and name.startswith(OURS) and name not in names:
                    done = "left as it is: no claim is known for it (podm node delete)"
                    yield Deed(kind="node", id=uri, podm=id_, done=done)

    def _gone(self, node: Composed) -> Deed:
        if not self.dry_run:
            self.store.nodes.gone(node.id)
        done = "forgotten, and its claim released: it is not there any more"
        return Deed(kind="node", id=node.id, podm=node.podm, done=done)


def _deed(claim: Claim, done: str) -> Deed:
    return Deed(kind="claim", id=claim.id, podm=", ".join(claim.podms), done=done)
