# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks and amounts that pod managers hold for one consumer."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.decision import Placement
from valence_sched.model.inventory import Amount, Count, Name
from valence_sched.model.node_request import NodeRequest

#: PREPARED holds parts on several pod managers, not yet one claim; the last three are final.
State = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED", "RELEASED", "EXPIRED", "FAILED"
]
ACTIVE_STATES: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED")
FINAL_STATES: tuple[State, ...] = ("RELEASED", "EXPIRED", "FAILED")


class Grant(Noun, frozen=True):
    """An amount of a stock, in the stock's unit; its words are there where a decision told them."""

    uri: Name
    amount: Amount
    resource: str = ""
    unit: str = ""


class NodeAllocation(Noun, frozen=True, kw_only=True):
    """The blocks and amounts that one node of a claim is made of.

    ``places`` are the topology domains that the request constrains: blocks that are equal in all
    else differ in them. ``flavor`` and ``score`` are those of the decision, where it had them.
    """

    node: Count
    pool: Name
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    places: tuple[str, ...] = ()
    flavor: str | None = None
    score: float | None = None


class ClaimPart(Noun, frozen=True, kw_only=True):
    """What a claim holds of one pod manager, at the generation that the decision read.

    ``supplies`` is the free amount, before any claim, of stocks that an operator declared and the
    store does not know: claims never hold more than that. ``request`` is what each node was asked
    for, where the decision had it.
    """

    podm: Name
    generation: Count
    shares: tuple[NodeAllocation, ...]
    supplies: tuple[Grant, ...] = ()
    request: NodeRequest | None = None

    @property
    def blocks(self) -> Counter[str]:
        """Return the URIs of the blocks, each with the number of nodes that use it."""
        return Counter(uri for share in self.shares for uri in share.blocks)

    @property
    def amounts(self) -> dict[str, float]:
        """Return the total amount of each stock by its URI."""
        total: dict[str, float] = {}
        for share in self.shares:
            for grant in share.grants:
                total[grant.uri] = round(total.get(grant.uri, 0.0) + grant.amount, 9)
        return total


class Claim(Noun, frozen=True, kw_only=True):
    """A claim; times are seconds since 1970 by the clock of the database.

    ``content`` is a digest of the request: an idempotency ``key`` is for one request only.
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
        """Return the ids of the pod managers that the claim holds parts of."""
        return tuple(part.podm for part in self.parts)

    @property
    def nodes(self) -> int:
        return sum(len(part.shares) for part in self.parts)


def build_claim_parts(
    placements: Iterable[Placement],
    generations: Mapping[str, int],
    supplies: Mapping[str, Mapping[str, float]] | None = None,
    places: tuple[str, ...] = (),
    flavor: str | None = None,
    request: NodeRequest | None = None,
) -> tuple[ClaimPart, ...]:
    """Return one part per pod manager that takes nodes of a decision, sorted by its id.

    ``generations`` are those that the decision read; ``supplies`` as in a part, by pod manager,
    ``places`` and ``flavor`` as in an allocation, ``request`` as in a part.
    """
    shares: dict[str, list[NodeAllocation]] = {}
    for placement in placements:
        chosen = placement.chosen
        blocks = tuple(block.uri for block in chosen.blocks)
        grants = tuple(
            Grant(grant.uri, grant.amount, grant.resource, grant.unit) for grant in chosen.grants
        )
        share = NodeAllocation(
            node=placement.node,
            pool=chosen.pool,
            blocks=blocks,
            grants=grants,
            places=places,
            flavor=flavor,
            score=chosen.score,
        )
        shares.setdefault(chosen.podm, []).append(share)
    parts = []
    for podm in sorted(shares):
        free = tuple(Grant(*supply) for supply in sorted((supplies or {}).get(podm, {}).items()))
        held, generation = tuple(shares[podm]), generations[podm]
        parts.append(
            ClaimPart(podm=podm, generation=generation, shares=held, supplies=free, request=request)
        )
    return tuple(parts)
