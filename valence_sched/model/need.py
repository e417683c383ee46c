# SPDX-License-Identifier: Apache-2.0
"""Needs, topology constraints and alternatives: the parts of a request, and their validation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from valence_sched.errors import suggest
from valence_sched.model.base import MAX_WHOLE, Fact, Noun, Portable, Whole
from valence_sched.model.quantity import format_count

NeedKind = Literal["processor", "memory", "accelerator", "drive", "nic", "stock"]
Measure = Literal["cores", "sockets", "capacity_mib", "devices", "amount"]
Unknown = Literal["reject", "allow", "penalise"]
_Count = Annotated[int, Meta(ge=0, lt=MAX_WHOLE)]
_Amount = Annotated[float, Meta(ge=0, lt=MAX_WHOLE)]


class Test(Struct, frozen=True, gc=False):
    """One condition on a device: ``words`` in order, ``equal`` text, or ``at_least`` a number."""

    attribute: str
    operator: Literal["words", "equal", "at_least"]
    value: str | Whole


class Need(Portable, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a request: an amount of a measure, from devices that pass every test.

    ``amount`` is a total (cores, MiB), a number of devices, or for a stock the size of each of
    ``count`` separate grants. ``unknown`` says what to do with a device of which a tested attribute
    is unknown: ``reject`` or ``allow`` it. ``worst`` is the worst health of a device that counts.
    Topology constraints refer to the ``name``.
    """

    kind: NeedKind
    measure: Measure
    amount: _Count | _Amount  # read back as written
    count: Annotated[int, Meta(ge=1, lt=MAX_WHOLE)] = 1
    tests: tuple[Test, ...] = ()
    resource: str = ""
    name: str = ""
    unknown: Literal["reject", "allow"] = "reject"
    worst: Literal["OK", "Warning"] = "Warning"

    def accepts(self, condition: str | None) -> bool:
        """Return whether a device in a condition (``InventoryDevice.condition``) counts."""
        return condition is None or condition == self.worst == "Warning"

    @property
    def label(self) -> str:
        """Return the need in an operator's words: ``GPU A100``, ``cores``."""
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
        """Return the amount of all grants together plus the share ``headroom``, to a billionth."""
        return round(self.amount * (1.0 + headroom) * self.count, 9)

    @property
    def subject(self) -> Need:
        """Return the need without its amount: equal for all needs of the same devices or stock."""
        return msgspec.structs.replace(self, amount=0, count=1, name="")

    @property
    def unit(self) -> str:
        return "MiB" if self.measure == "capacity_mib" else ""


class TopologyConstraint(Noun, frozen=True):
    """A relation between the devices of some needs in a topology domain, the ``place``.

    ``same``: all devices of the named needs have one value of the domain. ``apart``: no device of
    one need has the value of a device of another; of a single need, no two devices have the same
    value. ``zone`` is the pool, which all blocks of a node share. Totals are named by their kind:
    ``processor``, ``memory``.
    """

    relation: Literal["same", "apart"]
    place: str
    of: tuple[str, ...]

    def applies_to(self, need: Need) -> bool:
        return (need.name or need.kind) in self.of


class Alternative(Noun, frozen=True):
    """One way to make the node: its needs, and the topology constraints between named needs."""

    needs: tuple[Need, ...] = ()
    bonds: tuple[TopologyConstraint, ...] = ()


class NameRequirements(Noun, frozen=True):
    """Names that are required, names that are forbidden, and lists of which one is required."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.any_of)

    @classmethod
    def of(cls, names: tuple[str, ...] | NameRequirements) -> NameRequirements:
        """Return the requirements; plain names are all required."""
        return names if isinstance(names, NameRequirements) else cls(required=names)

    def plus(self, other: NameRequirements) -> NameRequirements:
        return NameRequirements(
            tuple(dict.fromkeys(self.required + other.required)),
            tuple(dict.fromkeys(self.forbidden + other.forbidden)),
            tuple(dict.fromkeys(self.any_of + other.any_of)),
        )

    @property
    def contradiction(self) -> str | None:
        """Return what of the names cannot hold, None when they do not contradict each other."""
        forbidden = set(self.forbidden)
        if contrary := sorted(forbidden.intersection(self.required)):
            return f"{contrary[0]!r} is both required and forbidden"
        for names in self.any_of:
            if names and forbidden.issuperset(names):
                return f"in:{','.join(names)}: each of them is forbidden"
        return None


class Proximity(Noun, frozen=True, kw_only=True):
    """An external resource, such as a volume, with the place that a resolver found for it.

    With ``soft`` a place near it is a preference, else a requirement.
    """

    thing: str
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    soft: bool = False


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
    def of(cls, request: Struct) -> NodeRequest:
        return cls(**{name: getattr(request, name) for name in cls.__struct_fields__})


MAX_CONSTRAINTS = 8  # the exact fit tries every combination of their domain values
_NeedsByName = dict[str, list[Need]]


def constraints_problem(alternative: Alternative) -> str | None:
    """Return what is wrong with the topology constraints of a request, None if they are valid."""
    if len(alternative.bonds) > MAX_CONSTRAINTS:
        bonds = format_count(len(alternative.bonds), "bond")
        return f"{bonds}, at most {MAX_CONSTRAINTS}: merge some"
    if not alternative.bonds:
        return None
    by_name: _NeedsByName = {}
    for need in alternative.needs:
        by_name.setdefault(need.name or need.kind, []).append(need)
    problems = (_constraint_problem(constraint, by_name) for constraint in alternative.bonds)
    return next(filter(None, problems), None) or _contradiction(alternative.bonds, by_name)


def _constraint_problem(constraint: TopologyConstraint, by_name: _NeedsByName) -> str | None:
    names = ", ".join(constraint.of) or "nothing"
    where = f"bond {constraint.relation} {constraint.place or '?'} of {names}"
    if not constraint.place or not constraint.of:
        return f"{where}: name a place, such as pcie_root, and what is to stand there"
    bindable = [name for name, needs in by_name.items() if needs[0].kind != "stock"]
    for name in constraint.of:
        if name not in by_name:
            return f"{where}: nothing asked for is named {name!r} ({suggest(name, bindable)})"
        if name not in bindable:
            return f"{where}: {name!r} is an amount, which stands nowhere: bind devices"
        if len({need.kind for need in by_name[name]}) > 1:
            return f"{where}: {name!r} names devices of several kinds: give each a name of its own"
    if constraint.relation == "apart":
        first, multiple = by_name[constraint.of[0]], len(set(constraint.of)) > 1
        if not multiple and any(need.measure != "devices" for need in first):
            why = "a total cannot stand apart from itself"
            return f"{where}: {why}: name what it is to be apart from"
        if constraint.place == "zone" and (multiple or _several(first)):
            return f"{where}: all devices of a node stand in one zone: choose a smaller place"
    return None


def _contradiction(bonds: Sequence[TopologyConstraint], by_name: _NeedsByName) -> str | None:
    """Return which constraints require devices to be both together and apart in one domain."""
    for apart in bonds:
        for same in bonds:
            if (same.relation, apart.relation, apart.place) != ("same", "apart", same.place):
                continue
            shared = [name for name in dict.fromkeys(apart.of) if name in same.of]
            alone = shared and len(set(apart.of)) == 1
            if len(shared) > 1 or (alone and _several(by_name[shared[0]])):
                where = f"bonds same and apart {apart.place} of {', '.join(shared)}"
                why = "devices cannot stand at one place and each at its own"
                return f"{where}: {why}: leave one out"
    return None


def _several(needs: Sequence[Need]) -> bool:
    return sum(need.amount for need in needs) > 1


_WORD = re.compile(r"[^\W_]+")
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)")


def has_words(text: str, words: str) -> bool:
    """Return whether the text contains the words whole, in order and side by side.

    Case and the marks (R), (TM) and (C) are ignored. A model name is free text, so that a part of
    a word must not match::

        has_words("NVIDIA A100-SXM4-80GB", "a100")      True
        has_words("NVIDIA A100-SXM4-80GB", "A10")       False
        has_words("NVIDIA A100-SXM4-80GB", "A100 80GB") False, SXM4 is between them
    """
    have, want = split_words(text), split_words(words)
    return any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return _WORD.findall(_TRADEMARKS.sub(" ", text.casefold()))


_GPU = (Test("kind", "equal", "GPU"),)
#: The amounts that people and expressions name.
MEASURES = {
    "cores": Need(kind="processor", measure="cores", amount=0),
    "memory_mib": Need(kind="memory", measure="capacity_mib", amount=0),
    "gpus": Need(kind="accelerator", measure="devices", amount=0, tests=_GPU),
    "accelerators": Need(kind="accelerator", measure="devices", amount=0),
    "drives": Need(kind="drive", measure="devices", amount=0),
    "nics": Need(kind="nic", measure="devices", amount=0),
}


def need_for_measure(name: str) -> Need:
    """Return the need of a measure: one of ``MEASURES``, else the stock of that name."""
    return MEASURES.get(name) or need_for_stock(name)


def need_for_stock(name: str, amount: float = 0) -> Need:
    """Return the need of an amount of a stock resource."""
    return Need(kind="stock", measure="amount", amount=amount, resource=name)
