# SPDX-License-Identifier: Apache-2.0
"""Groups: affinity, anti-affinity and spread rules, and the counts of placed members they need.

A *domain* divides pod managers: ``podm``, ``zone``, ``location``, ``aggregate``, or the values
of a fact, ``facts.rack``. A pod manager has one value of most domains, as many values of
``aggregate`` as it is a member of, and no value of ``location`` or a fact that it does not report.
"""

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
    """A group of nodes, and the rules for the placement of its members.

    ``affinity``: in each of these domains all members have one value; ``anti_affinity``: no two
    members have the same value; the ``soft`` forms are preferences. ``at_most`` so many members
    have the same value of a domain. A group without a name has that of the flavor.
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
        """Return whether any rule is a requirement."""
        hard_spread = any(not rule.soft for rule in self.spread)
        return bool(self.affinity or self.anti_affinity or self.at_most or hard_spread)

    @property
    def soft(self) -> bool:
        """Return whether any rule is a preference."""
        soft_spread = any(rule.soft for rule in self.spread)
        return bool(self.soft_affinity or self.soft_anti_affinity or soft_spread)

    @property
    def known_domains(self) -> tuple[str, ...]:
        """Return the domains of all rules, and those that rules of other requests may be about."""
        return tuple(dict.fromkeys((*DOMAINS, *self.domains)))

    @property
    def domains(self) -> tuple[str, ...]:
        spread = tuple(rule.over for rule in self.spread)
        together = (*self.affinity, *self.soft_affinity)
        apart = (*self.anti_affinity, *self.soft_anti_affinity, *self.at_most)
        return tuple(dict.fromkeys((*together, *apart, *spread)))


class GroupState(Noun, frozen=True, kw_only=True):
    """The counts of nodes placed earlier, as of the beginning of a decision.

    The decision is given them, so that no plug-in looks them up. ``members`` counts the nodes of
    the request's group by domain and value; ``owned`` those of its owner by pod manager; ``open``
    lists, for each domain that is spread over, the values at which some pod manager passes every
    filter that does not depend on what is free.
    """

    members: dict[str, dict[str, int]] = {}
    owned: dict[str, int] = {}
    open: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.members or self.owned or self.open)

    def fewest_members(self, domain: str) -> int:
        """Return the smallest number of members at an open value of a domain."""
        counts = self.members.get(domain, {})
        return min((counts.get(value, 0) for value in self.open.get(domain, ())), default=0)


def check_domain(domain: str) -> None:
    """Raise RequestError if there is no such domain."""
    if domain not in DOMAINS and not (domain.startswith(FACT_PREFIX) and domain != FACT_PREFIX):
        domains = f"{', '.join(DOMAINS)}, or facts.NAME for a fact"
        raise RequestError(one_line(f"no domain {domain!r}: name {domains}"))
