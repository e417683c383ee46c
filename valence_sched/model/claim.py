# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks and amounts that pod managers hold for one consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.decision import Placement
from valence_sched.model.inventory import Amount, Count, Name

#: PREPARED holds parts of several pod managers that are not yet one claim; the last three ended.
State = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED", "RELEASED", "EXPIRED", "FAILED"
]
ACTIVE_STATES: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED")
FINAL_STATES: tuple[State, ...] = ("RELEASED", "EXPIRED", "FAILED")


class Grant(Noun, frozen=True):
    """An amount of a stock, in the stock's unit."""

    uri: Name
    amount: Amount


class NodeAllocation(Noun, frozen=True, kw_only=True):
    """What one node is to be made of."""

    node: Count
    pool: Name
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()


class ClaimPart(Noun, frozen=True, kw_only=True):
    """What a claim holds of one pod manager, as of the generation that was decided on.

    ``supplies`` is what is left, before any claim, of stocks that the store does not know
    because an operator declared them: amounts are never held beyond it.
    """

    podm: Name
    generation: Count
    shares: tuple[NodeAllocation, ...]
    supplies: tuple[Grant, ...] = ()

    @property
    def blocks(self) -> Counter[str]:
        """Return the URIs of its blocks, each with how many nodes use it."""
        return Counter(uri for share in self.shares for uri in share.blocks)

    @property
    def amounts(self) -> dict[str, float]:
        """Return the amount of each stock by its URI."""
        found: dict[str, float] = {}
        for share in self.shares:
            for grant in share.grants:
                found[grant.uri] = round(found.get(grant.uri, 0.0) + grant.amount, 9)
        return found


class Claim(Noun, frozen=True, kw_only=True):
    """A claim; times are seconds since 1970 by the clock of the database.

    ``content`` stands for what was asked, so that one idempotency ``key`` cannot ask two things.
    """

    id: Name
    state: State
    owner: str | None = None
    group: str | None = None
    key: str | None = None
    content: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    note: str | None = None
    parts: tuple[ClaimPart, ...] = ()

    @property
    def podms(self) -> tuple[str, ...]:
        """Return the ids of its pod managers."""
        return tuple(part.podm for part in self.parts)

    @property
    def nodes(self) -> int:
        """Return how many nodes it is for."""
        return sum(len(part.shares) for part in self.parts)


def build_claim_parts(
    placements: Iterable[Placement],
    generations: Mapping[str, int],
    supplies: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[ClaimPart, ...]:
    """Return what the nodes of a decision take, a part for each pod manager, sorted by its id.

    ``generations`` are those of the pod managers that were decided on; ``supplies`` as of a part.
    """
    shares: dict[str, list[NodeAllocation]] = {}
    for placement in placements:
        chosen = placement.chosen
        share = NodeAllocation(
            node=placement.node,
            pool=chosen.pool,
            blocks=tuple(block.uri for block in chosen.blocks),
            grants=tuple(Grant(grant.uri, grant.amount) for grant in chosen.grants),
        )
        shares.setdefault(chosen.podm, []).append(share)
    known = supplies or {}
    return tuple(
        ClaimPart(
            podm=podm,
            generation=generations[podm],
            shares=tuple(shares[podm]),
            supplies=tuple(Grant(*told) for told in sorted(known.get(podm, {}).items())),
        )
        for podm in sorted(shares)
    )
