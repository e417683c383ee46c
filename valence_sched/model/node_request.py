# SPDX-License-Identifier: Apache-2.0
"""Node requests: what one node was asked for, kept so that it can be asked for again."""

from __future__ import annotations

from typing import Any

from valence_sched.model.base import Noun
from valence_sched.model.need import Alternative, Need, TopologyConstraint
from valence_sched.model.request import NameRequirements, Proximity, Request


class NodeRequest(Noun, frozen=True, kw_only=True):
    """The requirements of a request that are about its node alone, with the fields of a request.

    The pod managers that a request names or excludes are left out, and so is its group: they
    chose the place among others, and another time other places are free.
    """

    needs: tuple[Need, ...] = ()
    bonds: tuple[TopologyConstraint, ...] = ()
    fallbacks: tuple[Alternative, ...] = ()
    zone: str | None = None
    aggregates: NameRequirements = NameRequirements()
    locations: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    near: tuple[Proximity, ...] = ()

    @classmethod
    def of(cls, request: Request) -> NodeRequest:
        """Return what a compiled request asks for each of its nodes."""
        return cls(**{name: getattr(request, name) for name in cls.__struct_fields__})

    def again(self, flavor: str | None, owner: str | None, policy: str) -> Request:
        """Return the compiled request for one more such node."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Request(flavor=flavor, owner=owner, policy=policy, **fields)
