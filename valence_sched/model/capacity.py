# SPDX-License-Identifier: Apache-2.0
"""Capacity: nodes that still fit, exhausted and stranded amounts, and purchases."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from valence_sched.errors import UsageError
from valence_sched.model.base import Noun
from valence_sched.model.decision import Reason, ReasonGroup, SilentZone
from valence_sched.model.inventory import AmountSum, Count, CountSum

MOST_PARTS = 10_000  # the largest sum of the shares of a mix
NOT_REQUESTED = "no flavor requests it"  # why an amount is stranded


class PodmCapacity(Noun, frozen=True, kw_only=True):
    """The number of nodes that fit on a pod manager, and the reasons against one more.

    ``sums`` is an upper bound, computed from the sums of its free amounts. ``bound`` is a proven
    upper bound, None if unknown. ``reasons`` explain why the nearest pool takes no further node,
    the scarcest amount first. They are empty if the count stopped at its limit.
    """

    podm: str
    nodes: Count
    sums: CountSum | None = None
    bound: CountSum | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def runs_out(self) -> str | None:
        amounts = all(one.is_amount for one in self.reasons)
        return self.reasons[0].label if self.reasons and amounts else None


class ProvenMost(Noun, frozen=True, kw_only=True):
    """A proven upper bound of nodes, and the number that the optimiser placed (``found``)."""

    bound: CountSum
    found: CountSum


class Exhaustion(Noun, frozen=True, kw_only=True):
    """A resource, and the pod managers on which it runs out first."""

    resource: str
    podms: tuple[str, ...]


class Capacity(Noun, frozen=True, kw_only=True):
    """The number of nodes of one flavor, or of one mix, that still fit.

    ``podm_sums`` is an upper bound from the free amounts of each pod manager, ``site_sums`` from
    the free amounts of the whole site, or of each zone. ``exhausted`` are the resources that run
    out first, sorted by the number of nodes on their pod managers. For a mix ``by_flavor`` counts
    its nodes; ``refused`` is the flavor of the first node that does not fit. ``silent`` zones do
    not count.
    """

    name: str
    podms: tuple[PodmCapacity, ...]
    podm_sums: CountSum | None = None
    site_sums: CountSum | None = None
    proven: ProvenMost | None = None
    exhausted: tuple[Exhaustion, ...] = ()
    by_flavor: dict[str, Count] = {}
    refused: str | None = None
    warnings: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()

    @property
    def nodes(self) -> int:
        return sum(one.nodes for one in self.podms)

    @property
    def is_optimal(self) -> bool:
        return self.proven is not None and self.proven.bound == max(self.nodes, self.proven.found)


class StrandedAmount(Noun, frozen=True, kw_only=True):
    """Free devices of one kind and model on a pod manager, or an amount of a resource.

    Nodes of the flavors can take the ``usable`` part of it; the ``stranded`` part remains. ``why``
    has each reason with its part of the stranded amount, the largest part first. ``unit`` is empty
    for a count.
    """

    podm: str
    kind: str
    model: str | None
    unit: str
    free: AmountSum
    usable: AmountSum
    why: tuple[tuple[str, AmountSum], ...]

    @property
    def stranded(self) -> float:
        return round(self.free - self.usable, 9)


def exhausted(podms: Iterable[PodmCapacity]) -> tuple[Exhaustion, ...]:
    """Return the resources that run out first, sorted by the number of nodes on their podms."""
    ending = [one for one in podms if one.runs_out is not None]
    taking = [one for one in ending if one.nodes] or ending
    nodes: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for one in sorted(taking, key=lambda one: -one.nodes):
        assert one.runs_out is not None, "only podms with such a resource are counted"
        nodes[one.runs_out] += max(1, one.nodes)
        names.setdefault(one.runs_out, []).append(one.podm)
    order = sorted(nodes, key=lambda resource: (-nodes[resource], resource))
    return tuple(Exhaustion(resource=one, podms=tuple(names[one])) for one in order)


def whole_shares(shares: Mapping[str, float]) -> tuple[int, ...]:
    """Return the smallest whole numbers in the ratio of the shares; UsageError for a large sum."""
    parts = [Fraction(repr(share)) for share in shares.values()]
    least = math.lcm(*(part.denominator for part in parts))
    whole = [int(part * least) for part in parts]
    common = math.gcd(*whole)
    if sum(whole) > MOST_PARTS * common:
        hint = "use small whole numbers, as in gpu-large=1,small=4"
        raise UsageError(f"--mix: the shares add up to more than {MOST_PARTS:,} parts: {hint}")
    return tuple(part // common for part in whole)


class PurchaseLine(Noun, frozen=True, kw_only=True):
    """A ``number`` of equal blocks for one pool; ``price`` is the price of one block."""

    block: str
    podm: str
    pool: str
    number: int
    price: float | None = None


class PurchaseResult(Noun, frozen=True, kw_only=True):
    """The smallest purchase for a number of nodes; ``lines`` is None if no purchase is enough.

    ``total`` is its price, or its number of blocks if no prices are known; ``bound`` is the least
    total of any purchase. ``placed`` of the ``wanted`` nodes fit with these blocks under the
    policy. If no purchase is enough, ``placed`` nodes fit after ``tried`` blocks of each kind are
    added. ``shortages`` are the reasons against the next node.
    """

    flavor: str
    wanted: int
    priced: bool
    lines: tuple[PurchaseLine, ...] | None
    total: float = 0.0
    bound: float = 0.0
    placed: int = 0
    exact_model: bool = True
    tried: int = 0
    shortages: tuple[ReasonGroup, ...] = ()

    @property
    def is_smallest(self) -> bool:
        return self.total == self.bound
