# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks and amounts that pod managers hold for one consumer."""

from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta

from valence_sched.errors import ClaimState, one_line
from valence_sched.model.base import Noun
from valence_sched.model.inventory import Amount, Count, Name
from valence_sched.model.request import NodeRequest

#: PREPARED holds parts on several pod managers, not yet one claim; the last three are final.
State = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED", "RELEASED", "EXPIRED", "FAILED"
]
ACTIVE_STATES: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED")
FINAL_STATES: tuple[State, ...] = ("RELEASED", "EXPIRED", "FAILED")

TTL_S = 600.0  # how long a claim is held
LONGEST_TTL_S = 90.0 * 86400
TtlSeconds = Annotated[float, Meta(ge=1, le=LONGEST_TTL_S)]


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
    ``charges`` is what the blocks and amounts count against the quota of an owner, by resource.
    """

    node: Count
    pool: Name
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    places: tuple[str, ...] = ()
    flavor: str | None = None
    score: float | None = None
    charges: dict[str, float] = {}


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
        return tuple(part.podm for part in self.parts)

    @property
    def nodes(self) -> int:
        return sum(len(part.shares) for part in self.parts)


def disabled_error(claim_id: str, podm: str, zone: str = "") -> ClaimState:
    """Return the error about a held claim on a pod manager of a zone that was disabled since."""
    where = f" of zone {zone}" if zone else ""
    enable, release = f"podm set {podm} --enable", f"podm claim release {claim_id}"
    text = f"claim {claim_id}: pod manager {podm!r}{where} is disabled"
    return ClaimState(one_line(f"{text}: enable it ({enable}) or release the claim ({release})"))
