# SPDX-License-Identifier: Apache-2.0
"""Groups: affinity, anti-affinity and spread rules, and the counts of placed members they need.

A *domain* divides pod managers: ``podm``, ``zone``, ``location``, ``aggregate``, or the values
of a fact, ``facts.rack``. A pod manager stands at one value of most domains, of ``aggregate``
at each it is a member of, and of ``location`` or a fact at none when it does not tell.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from valence_sched.errors import RequestError, one_line
from valence_sched.model.base import Noun

DOMAINS = ("podm", "zone", "location", "aggregate")
FACT_PREFIX = "facts."

Domain = Annotated[str, Meta(pattern=r"^(podm|zone|location|aggregate|facts\..+)$", max_length=255)]
NodeCount = Annotated[int, Meta(ge=1, le=1_000_000)]


class Spread(Noun, frozen=True):
    """Counts of the group's nodes per value of a domain differ by at most ``max_skew``."""

    over: Domain
    max_skew: NodeCount = 1
    soft: bool = False


class Group(Noun, frozen=True, kw_only=True):
    """Nodes that belong together, and how they stand to each other.

    ``affinity``: in each of these domains all at one value; ``anti_affinity``: no two at one
    value; the ``soft`` forms are wished for. ``at_most`` so many nodes of the group at one value
    of a domain. The name may be left out where a flavor lends its own.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)] = ""
    affinity: tuple[Domain, ...] = ()
    anti_affinity: tuple[Domain, ...] = ()
    soft_affinity: tuple[Domain, ...] = ()
    soft_anti_affinity: tuple[Domain, ...] = ()
    at_most: dict[Domain, NodeCount] = {}
    spread: tuple[Spread, ...] = ()

    @property
    def hard(self) -> bool:
        """Return whether any rule must be kept."""
        firm = any(not rule.soft for rule in self.spread)
        return bool(self.affinity or self.anti_affinity or self.at_most or firm)

    @property
    def soft(self) -> bool:
        """Return whether any rule is only wished for."""
        wished = any(rule.soft for rule in self.spread)
        return bool(self.soft_affinity or self.soft_anti_affinity or wished)

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the domains that the rules mention, each once."""
        spread = tuple(rule.over for rule in self.spread)
        together = (*self.affinity, *self.soft_affinity)
        apart = (*self.anti_affinity, *self.soft_anti_affinity, *self.at_most)
        return tuple(dict.fromkeys((*together, *apart, *spread)))


class GroupState(Noun, frozen=True, kw_only=True):
    """What is known before a decision of where other nodes are; plugins never look it up.

    ``members`` counts the nodes of the request's group by domain and value; ``owned`` those of
    its owner by pod manager; ``open`` lists, for each domain that is spread over, the values at
    which some pod manager passes every filter that does not depend on what is free.
    """

    members: dict[str, dict[str, int]] = {}
    owned: dict[str, int] = {}
    open: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.members or self.owned or self.open)

    def fewest_members(self, domain: str) -> int:
        """Return how many nodes of the group are at the emptiest open value of a domain."""
        counts = self.members.get(domain, {})
        return min((counts.get(value, 0) for value in self.open.get(domain, ())), default=0)


def check_domain(domain: str) -> None:
    """Raise RequestError for what is no domain."""
    if domain not in DOMAINS and not (domain.startswith(FACT_PREFIX) and domain != FACT_PREFIX):
        known = f"{', '.join(DOMAINS)}, or facts.NAME for a fact"
        raise RequestError(one_line(f"no domain {domain!r}: name {known}"))
