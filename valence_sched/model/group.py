# SPDX-License-Identifier: Apache-2.0
"""How nodes stand to each other: groups, owners, and where their nodes already are.

A *domain* divides pod managers: ``podm``, ``zone``, ``location``, ``aggregate``, or the values
of a fact, ``facts.rack``. A pod manager stands at one value of most domains, of ``aggregate``
at each it is a member of, and of ``location`` or a fact at none when it does not tell.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from valence_sched.model.noun import Noun

Domain = Annotated[str, Meta(pattern=r"^(podm|zone|location|aggregate|facts\..+)$", max_length=255)]
Several = Annotated[int, Meta(ge=1, le=1_000_000)]


class Spread(Noun, frozen=True):
    """Counts of the group's nodes per value of a domain differ by at most ``max_skew``."""

    over: Domain
    max_skew: Several = 1
    soft: bool = False


class Group(Noun, frozen=True, kw_only=True):
    """Nodes that belong together, and how they stand to each other.

    ``affinity``: in each of these domains all at one value; ``anti_affinity``: no two at one
    value; the ``soft`` forms are wished for. ``at_most`` so many nodes of the group at one value
    of a domain.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    affinity: tuple[Domain, ...] = ()
    anti_affinity: tuple[Domain, ...] = ()
    soft_affinity: tuple[Domain, ...] = ()
    soft_anti_affinity: tuple[Domain, ...] = ()
    at_most: dict[Domain, Several] = {}
    spread: tuple[Spread, ...] = ()


class Company(Noun, frozen=True, kw_only=True):
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
