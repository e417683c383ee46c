# SPDX-License-Identifier: Apache-2.0
"""ZoneChoices: what all zones together choose for a node where one weight or amount differs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET
from msgspec.structs import replace

from valence_sched.core.explain.sensitivity import (
    Choice,
    choice_changes,
    relative_size,
    weight_changes,
)
from valence_sched.core.policy import COST_SCALE
from valence_sched.core.ranking import pool_lot
from valence_sched.errors import one_line
from valence_sched.model.decision import Explanation, PoolRef, Sensitivity
from valence_sched.model.need import Alternative, Need
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request
from valence_sched.model.zone import Offer, Rival
from valence_sched.zones import paths
from valence_sched.zones.selection import PlacedOffer, ZoneSelection


class ZoneChoices:
    """The choices of a decision over zones, each of which is asked for every one of them.

    ``nodes`` are those that fit, which are ``placed`` or too few for that.
    """

    def __init__(
        self,
        selection: ZoneSelection,
        request: Request,
        policy: Policy,
        nodes: list[PlacedOffer],
        *,
        placed: bool,
    ) -> None:
        self._selection, self.request, self.policy = selection, request, policy
        self._offer = nodes[0].chosen if nodes and placed else None
        self.chosen = _pool(self._offer) if self._offer else None
        self.attempt_index = nodes[0].choice - 1 if nodes else 0
        self._most_free: dict[Need, float] = {}

    def needs_anchor(self) -> bool:
        return self._selection.needs_anchor

    def choose(self, alternative: Alternative) -> Choice:
        best_of = self.policy.pick.best_of
        answer = self._selection.first_node(alternative, max(2, best_of))
        best = self._selection.drawn(answer.ranking[:best_of])
        if best is None:
            return Choice(None, bool(answer.undecided), lambda: False)
        pool, cost = _pool(best), best.candidate.cost
        others = [one.candidate.cost for one in answer.ranking if _pool(one).podm != pool.podm]
        return Choice(pool, bool(answer.undecided), lambda: cost in others)

    def weight_changes(self) -> Iterator[Sensitivity] | None:
        assert self._offer is not None, "no weight makes a node fit"
        one, alternative = self._offer.candidate, self.request.alternatives[self.attempt_index]
        rival = Rival(
            cost=one.cost,
            lot=pool_lot(one.podm, one.pool, self.request),
            scores={name: round(score * COST_SCALE) for name, score in one.scores.items()},
        )
        answer = self._selection.first_node(alternative, 0, rival)
        self._most_free = dict(zip(alternative.needs, answer.most_free, strict=False))
        if answer.overtakings is UNSET:
            return None
        found = [replace(one, pool=_below(one.zone, one.pool)) for one in answer.overtakings]
        return weight_changes(self.policy, rival, self.chosen, found)

    def most_free(self, need: Need) -> float:
        return self._most_free.get(need, 0.0)

    def explained(self, explanation: Explanation) -> Explanation:
        """Return an explanation with what changes the choice; a note names silent zones."""
        notes: list[str] = []
        earlier = self._selection.silent
        changes = sorted(choice_changes(self, notes), key=relative_size)
        if silent := self._selection.silent - earlier:
            changes, names = [], ", ".join(sorted(silent))
            notes = [one_line(f"flips: unknown, these zones did not answer: {names}")]
        return replace(explanation, flips=tuple(changes), notes=(*explanation.notes, *notes))


def _pool(offer: Offer) -> PoolRef:
    return _below(offer.zone, PoolRef(podm=offer.candidate.podm, pool=offer.candidate.pool))


def _below(zone: str, pool: PoolRef) -> PoolRef:
    return replace(pool, podm=paths.path(zone, pool.podm))
