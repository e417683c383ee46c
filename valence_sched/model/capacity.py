# SPDX-License-Identifier: Apache-2.0
"""Capacity: how many more nodes fit, what ends first, what is stranded, and what to buy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

from valence_sched.errors import UsageError
from valence_sched.model.base import Noun
from valence_sched.model.decision import Reason, SilentZone

MOST_PARTS = 10_000  # that the shares of a mix may come to: more tell no two sites apart
NOT_REQUESTED = "no flavor asks for it"  # why an amount is stranded that nothing is made of


class PodmCapacity(Noun, frozen=True, kw_only=True):
    """A pod manager: the nodes that placing one after another puts on it, and what ends that.

    ``sums`` is how many its free amounts would be enough for, ``bound`` what it never exceeds;
    both None where they are unknown. ``reasons`` is what the next node lacks in the pool that
    comes nearest, the scarcest amount first; none where the count stopped at its limit.
    """

    podm: str
    nodes: int
    sums: int | None = None
    bound: int | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def runs_out(self) -> str | None:
        """Return the resource that runs out first; None where something else ends the count."""
        amounts = all(one.is_amount for one in self.reasons)
        return self.reasons[0].label if self.reasons and amounts else None


class ProvenMost(Noun, frozen=True, kw_only=True):
    """``bound`` nodes are proven never to be exceeded; ``found`` were placed by the optimiser."""

    bound: int
    found: int


class Exhaustion(Noun, frozen=True, kw_only=True):
    """A resource, and the pod managers on which it is the first that the next node lacks."""

    resource: str
    podms: tuple[str, ...]


class Capacity(Noun, frozen=True, kw_only=True):
    """How many more nodes of one flavor, or of one mix, fit.

    ``podm_sums`` is how many nodes the free amounts of each pod manager, added up, would be enough
    for, all together; ``site_sums`` the same of the whole site. ``exhausted`` are the resources
    that run out first, those first whose pod managers took most nodes. Of a mix, ``by_flavor``
    has its nodes, and ``refused`` is the flavor of the first node without a place. What ``silent``
    zones have is not counted.
    """

    name: str
    podms: tuple[PodmCapacity, ...]
    podm_sums: int | None = None
    site_sums: int | None = None
    proven: ProvenMost | None = None
    exhausted: tuple[Exhaustion, ...] = ()
    by_flavor: dict[str, int] = {}
    refused: str | None = None
    warnings: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()

    @property
    def nodes(self) -> int:
        """Return what placing one after another reaches."""
        return sum(one.nodes for one in self.podms)

    @property
    def is_optimal(self) -> bool:
        """Return whether as many nodes as the proven bound were placed, in some order."""
        return self.proven is not None and self.proven.bound == max(self.nodes, self.proven.found)


class StrandedAmount(Noun, frozen=True, kw_only=True):
    """Free devices of one kind and model on a pod manager, or an amount of a resource.

    ``usable`` is what nodes take until no flavor fits any more, ``stranded`` the rest; ``why`` has
    texts with what each part of it lacks, the largest part first. ``unit`` is empty for a count.
    """

    podm: str
    kind: str
    model: str | None
    unit: str
    free: float
    usable: float
    why: tuple[tuple[str, float], ...]

    @property
    def stranded(self) -> float:
        return round(self.free - self.usable, 9)


def exhausted(podms: Iterable[PodmCapacity]) -> tuple[Exhaustion, ...]:
    """Return the resources that run out first, those first whose podms take most nodes.

    Where no node fits at all, they are what podms lack from the start.
    """
    ending = [one for one in podms if one.runs_out is not None]
    taking = [one for one in ending if one.nodes] or ending
    nodes: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for one in sorted(taking, key=lambda one: -one.nodes):
        assert one.runs_out is not None, "it is ending"
        nodes[one.runs_out] += max(1, one.nodes)
        names.setdefault(one.runs_out, []).append(one.podm)
    order = sorted(nodes, key=lambda resource: (-nodes[resource], resource))
    return tuple(Exhaustion(resource=one, podms=tuple(names[one])) for one in order)


def whole_shares(shares: Mapping[str, float]) -> tuple[int, ...]:
    """Return shares as the smallest whole numbers; UsageError for more than MOST_PARTS of them."""
    parts = [Fraction(repr(share)) for share in shares.values()]
    least = math.lcm(*(part.denominator for part in parts))
    whole = [int(part * least) for part in parts]
    common = math.gcd(*whole)
    if sum(whole) > MOST_PARTS * common:
        raise UsageError(
            f"--mix: the shares come to more than {MOST_PARTS:,} parts: use small whole numbers, "
            "as in gpu-large=1,small=4"
        )
    return tuple(part // common for part in whole)


class PurchaseLine(Noun, frozen=True, kw_only=True):
    """So many blocks of one sort for one pool; ``price`` is that of one of them."""

    block: str
    podm: str
    pool: str
    number: int
    price: float | None = None


class PurchaseResult(Noun, frozen=True, kw_only=True):
    """The smallest purchase for a number of nodes, None where no purchase is enough.

    ``total`` is its price, or where blocks have no price their number; ``bound`` is the least that
    any purchase comes to. ``placed`` is how many of the ``wanted`` nodes placing one after another
    reaches with these blocks, by the policy of the request.
    """

    flavor: str
    wanted: int
    priced: bool
    lines: tuple[PurchaseLine, ...] | None
    total: float = 0.0
    bound: float = 0.0
    placed: int = 0
    exact_model: bool = True

    @property
    def is_smallest(self) -> bool:
        """Return whether no purchase is smaller: the result meets the bound."""
        return self.total == self.bound
