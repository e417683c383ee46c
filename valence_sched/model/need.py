# SPDX-License-Identifier: Apache-2.0
"""Needs, topology constraints and alternatives: the parts of a request, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from valence_sched.errors import suggest
from valence_sched.model.base import Noun

NeedKind = Literal["processor", "memory", "accelerator", "drive", "nic", "stock"]
Measure = Literal["cores", "sockets", "capacity_mib", "devices", "amount"]
Unknown = Literal["reject", "allow", "penalise"]


class Test(Struct, frozen=True, gc=False):
    """One condition on a device: ``words`` in order, ``equal`` text, or ``at_least`` a number."""

    attribute: str
    operator: Literal["words", "equal", "at_least"]
    value: str | int


class Need(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a request: so much of a measure, from devices that pass every test.

    ``amount`` is a total (cores, MiB), a number of devices, or for a stock the size of each of
    ``count`` separate grants. ``unknown`` says what an attribute means that nobody told:
    ``reject`` the device, or ``allow`` it. ``name`` is what bonds call the need.
    """

    kind: NeedKind
    measure: Measure
    amount: Annotated[float, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1)] = 1
    tests: tuple[Test, ...] = ()
    resource: str = ""
    name: str = ""
    unknown: Literal["reject", "allow"] = "reject"

    @property
    def label(self) -> str:
        """Return what is asked for, in an operator's words: ``GPU A100``, ``cores``."""
        if self.kind == "stock":
            return self.resource
        words = [str(test.value) for test in self.tests if test.operator != "at_least"]
        if self.measure == "devices":
            names = {"processor": "CPU", "memory": "memory module"}
            kind = "" if self.kind == "accelerator" and words else names.get(self.kind, self.kind)
            return " ".join(filter(None, [kind, *words]))
        name = {"cores": "cores", "sockets": "sockets", "capacity_mib": "memory"}[self.measure]
        return " ".join([name, *words])

    def total_amount(self, headroom: float = 0.0) -> float:
        """Return what all grants together ask for, and that share more, to a billionth."""
        return round(self.amount * (1.0 + headroom) * self.count, 9)

    @property
    def subject(self) -> Need:
        """Return the need without its amount: what all needs that look at the same things share."""
        return msgspec.structs.replace(self, amount=0, count=1, name="")

    @property
    def unit(self) -> str:
        """Return the unit of the amount, empty for plain counts."""
        return "MiB" if self.measure == "capacity_mib" else ""


class TopologyConstraint(Noun, frozen=True):
    """How the devices of some needs stand to each other, in a ``place`` that blocks tell.

    ``same``: all devices of the named needs stand at one place. ``apart``: no device of one need
    stands where a device of another does; of a single need, no two of its devices. ``zone`` is
    the pool, which all blocks of a node share. Totals go by their kind: ``processor``, ``memory``.
    """

    relation: Literal["same", "apart"]
    place: str
    of: tuple[str, ...]

    def applies_to(self, need: Need) -> bool:
        """Return whether the bond is about a need."""
        return (need.name or need.kind) in self.of


class Alternative(Noun, frozen=True):
    """One way to make the node: its needs, and the bonds between those that have a name."""

    needs: tuple[Need, ...] = ()
    bonds: tuple[TopologyConstraint, ...] = ()


MAX_CONSTRAINTS = 8  # the exact fit looks at every combination of their places


def constraints_problem(alternative: Alternative) -> str | None:
    """Return what is wrong with the bonds of a request, None when nothing is."""
    if len(alternative.bonds) > MAX_CONSTRAINTS:
        return f"{len(alternative.bonds)} bonds, at most {MAX_CONSTRAINTS}: merge some"
    if not alternative.bonds:
        return None
    named: dict[str, list[Need]] = {}
    for need in alternative.needs:
        named.setdefault(need.name or need.kind, []).append(need)
    faults = (_constraint_problem(bond, named) for bond in alternative.bonds)
    return next(filter(None, faults), None) or _contradiction(alternative.bonds, named)


def _constraint_problem(bond: TopologyConstraint, named: dict[str, list[Need]]) -> str | None:
    where = f"bond {bond.relation} {bond.place or '?'} of {', '.join(bond.of) or 'nothing'}"
    if not bond.place or not bond.of:
        return f"{where}: name a place, such as pcie_root, and what is to stand there"
    bindable = [name for name, needs in named.items() if needs[0].kind != "stock"]
    for name in bond.of:
        if name not in named:
            return f"{where}: nothing asked for is named {name!r} ({suggest(name, bindable)})"
        if name not in bindable:
            return f"{where}: {name!r} is an amount, which stands nowhere: bind devices"
        if len({need.kind for need in named[name]}) > 1:
            return f"{where}: {name!r} names devices of several kinds: give each a name of its own"
    if bond.relation == "apart":
        return _apart_problem(bond, where, named[bond.of[0]])
    return None


def _contradiction(
    bonds: Sequence[TopologyConstraint], named: Mapping[str, Sequence[Need]]
) -> str | None:
    """Return which bonds hold devices together and apart at one place."""
    for apart in bonds:
        for same in bonds:
            if (same.relation, apart.relation, apart.place) != ("same", "apart", same.place):
                continue
            both = [name for name in dict.fromkeys(apart.of) if name in same.of]
            alone = len(set(apart.of)) == 1
            if len(both) > 1 or (alone and both and _several(named[both[0]])):
                return (f"bonds same and apart {apart.place} of {', '.join(both)}: devices cannot "
                        "stand at one place and each at its own: leave one out")  # fmt: skip
    return None


def _several(needs: Sequence[Need]) -> bool:
    """Return whether needs ask for more than one device."""
    return sum(need.amount for need in needs) > 1


def _apart_problem(bond: TopologyConstraint, where: str, first: Sequence[Need]) -> str | None:
    several = len(set(bond.of)) > 1
    if not several and any(need.measure != "devices" for need in first):
        return f"{where}: a total cannot stand apart from itself: name what it is to be apart from"
    if bond.place == "zone" and (several or _several(first)):
        return f"{where}: all devices of a node stand in one zone: choose a smaller place"
    return None
