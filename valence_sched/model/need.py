# SPDX-License-Identifier: Apache-2.0
"""Needs, topology constraints, alternatives and the other requirements of one node."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta, Struct

from valence_sched.errors import UsageError, is_not, suggest
from valence_sched.model.base import MAX_WHOLE, Fact, Noun, Portable, Whole
from valence_sched.model.quantity import format_count, format_size

NeedKind = Literal["processor", "memory", "accelerator", "drive", "nic", "stock"]
Measure = Literal["cores", "sockets", "capacity_mib", "devices", "amount"]
Unknown = Literal["reject", "allow", "penalise"]
_Count = Annotated[int, Meta(ge=0, lt=MAX_WHOLE)]
_Amount = Annotated[float, Meta(ge=0, lt=MAX_WHOLE)]
_WORD = re.compile(r"[^\W_]+")
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)")


EFFECT = ":NoPlace"  # the end of a taint: its only effect
TAINTED = "tainted "  # before a taint in the condition of a device
#: A mark of blocks, ``key=value:NoPlace``, that keeps requests without a toleration away.
Taint = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
        r"(=([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?)?:NoPlace$",
        max_length=255,
    ),
]


class Toleration(Noun, frozen=True):
    """Lets a request use blocks with a taint: ``Equal`` with this value, ``Exists`` with any value.

    ``Exists`` without a key tolerates every taint.
    """

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoPlace"] | None = None

    def __post_init__(self) -> None:
        if self.operator == "Exists" and self.value:
            raise ValueError("Expected no value with operator Exists")
        if self.operator == "Equal" and not self.key:
            raise ValueError("Expected a key, or operator Exists")

    def tolerates(self, taint: str) -> bool:
        key, value = taint_key(taint), taint.removesuffix(EFFECT).partition("=")[2]
        if self.operator == "Exists":
            return self.key in ("", key)
        return (self.key, self.value) == (key, value)


class Test(Struct, frozen=True, gc=False):
    """One condition on a device: ``words`` in order, ``equal`` text, or ``at_least`` a number."""

    attribute: str
    operator: Literal["words", "equal", "at_least"]
    value: str | Whole


class Need(Portable, frozen=True, kw_only=True, omit_defaults=True, gc=False, cache_hash=True):
    """An amount of a measure, from devices that pass every test.

    ``amount`` is a total (cores, MiB), a number of devices, or for a stock the size of each of
    ``count`` separate grants. ``unknown`` rejects or allows devices with an unknown value of a
    tested attribute. A device counts if its health is at least ``worst``, and ``tolerations`` has
    one for each taint of its block. Topology constraints refer to the ``name``.
    """

    kind: NeedKind
    measure: Measure
    amount: _Count | _Amount  # 600 and 600.0 remain distinct
    count: Annotated[int, Meta(ge=1, lt=MAX_WHOLE)] = 1
    tests: tuple[Test, ...] = ()
    resource: str = ""
    name: str = ""
    unknown: Literal["reject", "allow"] = "reject"
    worst: Literal["OK", "Warning"] = "Warning"
    tolerations: tuple[Toleration, ...] = ()

    def accepts(self, condition: str | None) -> bool:
        """Return whether a device in a condition (``InventoryDevice.condition``) counts."""
        if condition is None:
            return True
        words = [word for word in condition.split(", ") if not word.startswith(TAINTED)]
        healthy = all(word == self.worst == "Warning" for word in words)
        return healthy and self.tolerates(condition)

    def tolerates(self, condition: str | None) -> bool:
        """Return whether the need tolerates every taint of a condition."""
        found = taints_in(condition)
        return all(any(one.tolerates(taint) for one in self.tolerations) for taint in found)

    @property
    def label(self) -> str:
        """Return a short name of the need for messages: ``GPU A100``, ``cores``."""
        if self.kind == "stock":
            return self.resource
        words = [str(test.value) for test in self.tests if test.operator != "at_least"]
        if self.measure == "devices":
            names = {"processor": "CPU", "memory": "memory module"}
            kind = "" if self.kind == "accelerator" and words else names.get(self.kind, self.kind)
            return " ".join(filter(None, [kind, *words]))
        name = {"cores": "cores", "sockets": "sockets", "capacity_mib": "memory"}[self.measure]
        return " ".join([name, *words])

    @property
    def sizes(self) -> list[str]:
        """Return the least size of each device with its unit: ``1,789 GiB``."""
        least = (test for test in self.tests if test.operator == "at_least")
        return [format_size(float(test.value), test.attribute) for test in least]

    def total_amount(self, headroom: float = 0.0) -> float:
        """Return the sum of all grants plus the share ``headroom``, rounded to a billionth."""
        return round(self.amount * (1.0 + headroom) * self.count, 9)

    @property
    def subject(self) -> Self:
        """Return the need without its amount; needs of the same devices or stock become equal."""
        return msgspec.structs.replace(self, amount=0, count=1, name="")

    @property
    def as_measure(self) -> "Need":
        """Return the measure as in ``MEASURES``: no amount, and devices of any kind."""
        return Need(kind=self.kind, measure=self.measure, amount=0, resource=self.resource)

    @property
    def unit(self) -> str:
        return "MiB" if self.measure == "capacity_mib" else ""


@functools.lru_cache(maxsize=1024)
def measures(needs: tuple[Need, ...]) -> tuple[Need, ...]:
    """Return the measure of each need."""
    return tuple([need.as_measure for need in needs])


def taints_in(condition: str | None) -> list[str]:
    """Return the taints of a condition."""
    words = (condition or "").split(", ")
    return [word.removeprefix(TAINTED) for word in words if word.startswith(TAINTED)]


class TopologyConstraint(Noun, frozen=True):
    """A relation between the devices of some needs in a topology domain, the ``place``.

    ``same``: all devices have one value of the domain. ``apart``: devices of different needs, or
    any two devices of a single need, have different values. ``zone`` is the pool. Totals are named
    by their kind: ``processor``, ``memory``.
    """

    relation: Literal["same", "apart"]
    place: str
    of: tuple[str, ...]

    def applies_to(self, need: Need) -> bool:
        return (need.name or need.kind) in self.of


class Alternative(Noun, frozen=True):
    """One way to make the node: its needs, and the topology constraints between named needs."""

    needs: tuple[Need, ...] = ()
    topology: tuple[TopologyConstraint, ...] = ()


class NameRequirements(Noun, frozen=True):
    """Required names, forbidden names, and lists of names of which one is required."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.any_of)

    @classmethod
    def of(cls, names: tuple[str, ...] | Self) -> Self:
        return cls(required=names) if isinstance(names, tuple) else names

    def plus(self, other: Self) -> Self:
        return type(self)(
            tuple(dict.fromkeys(self.required + other.required)),
            tuple(dict.fromkeys(self.forbidden + other.forbidden)),
            tuple(dict.fromkeys(self.any_of + other.any_of)),
        )

    @property
    def contradiction(self) -> str | None:
        forbidden = set(self.forbidden)
        if contrary := sorted(forbidden.intersection(self.required)):
            return f"{contrary[0]!r} is both required and forbidden"
        for names in self.any_of:
            if names and forbidden.issuperset(names):
                return f"in:{','.join(names)}: each of them is forbidden"
        return None


def merge_names(kind: str, terms: Iterable[NameRequirements]) -> NameRequirements:
    """Return all name requirements as one; UsageError if they contradict each other."""
    names = functools.reduce(NameRequirements.plus, terms, NameRequirements())
    if contrary := names.contradiction:
        raise UsageError(f"{kind} {contrary}")
    return names


def taint_key(taint: str) -> str:
    return taint.removesuffix(EFFECT).partition("=")[0]


def parse_taint(text: str) -> str:
    """Parse ``key=value:NoPlace`` or ``key:NoPlace``; else ValueError."""
    try:
        return msgspec.convert(text, Taint)
    except msgspec.ValidationError:
        raise is_not("KEY=VALUE:NoPlace, of letters, digits, - _ and .", text) from None


def parse_toleration(text: str) -> Toleration:
    """Parse ``key=value``, or ``key`` for any value; else ValueError."""
    taint = parse_taint(text.removesuffix(EFFECT) + EFFECT).removesuffix(EFFECT)
    key, equals, value = taint.partition("=")
    return Toleration(key, "Equal" if equals else "Exists", value)


def parse_traits(text: str) -> NameRequirements:
    """Parse ``A``, ``!A`` or ``in:A,B`` of Placement; else ValueError."""
    if text.startswith("!in:"):
        raise ValueError(f"{text[:60]!r}: use --forbidden for each trait")
    return parse_aggregates(text)


def parse_forbidden(text: str) -> NameRequirements:
    """Parse the name of a forbidden trait; else ValueError."""
    if text.startswith("in:") or "," in text:
        raise ValueError(f"{text[:60]!r}: repeat the option for each name")
    return NameRequirements(forbidden=_plain_names(text, text))


def parse_aggregates(text: str) -> NameRequirements:
    """Parse ``a``, ``in:a,b``, ``!a`` or ``!in:a,b`` of Placement; else ValueError.

    In Placement, a list without ``in:`` is ambiguous.
    """
    word = text.removeprefix("!")
    is_list = word.startswith("in:")
    if "," in word and not is_list:
        hint = "use in:a,b to require one of them, or repeat the option to require each"
        raise ValueError(f"{text[:60]!r}: {hint}")
    names = _plain_names(text, word.removeprefix("in:"))
    if word != text:
        return NameRequirements(forbidden=names)
    return NameRequirements(any_of=(names,)) if is_list else NameRequirements(names)


def _plain_names(text: str, part: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in part.split(","))
    for name in names:
        if name.startswith("!") or not name:
            wrong = f"{name[:40]!r} is not allowed here" if name.strip("!") else "an empty name"
            raise ValueError(f"{text[:60]!r}: {wrong}")
    return names


def parse_one_of(text: str) -> NameRequirements:
    """Parse a name, or a comma-separated list of which one name is required; else ValueError."""
    names = parse_names(text)
    return NameRequirements(any_of=(names,)) if len(names) > 1 else NameRequirements(names)


def parse_excluded(text: str) -> NameRequirements:
    """Parse a comma-separated list of forbidden names; else ValueError."""
    return NameRequirements(forbidden=parse_names(text))


def parse_names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names; else ValueError."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text[:40]!r} holds an empty name")
    return names


class Proximity(Noun, frozen=True, kw_only=True):
    """The place of an external resource, such as a volume. ``soft`` makes it a preference."""

    thing: str
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    soft: bool = False


class NodeRequest(Noun, frozen=True, kw_only=True):
    """The part of a request that concerns only its node, not its pod managers or its group."""

    needs: tuple[Need, ...] = ()
    topology: tuple[TopologyConstraint, ...] = ()
    other_alternatives: tuple[Alternative, ...] = ()
    zone: str | None = None
    aggregates: NameRequirements = NameRequirements()
    locations: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    near: tuple[Proximity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @classmethod
    def of(cls, request: Struct) -> Self:
        return cls(**{name: getattr(request, name) for name in cls.__struct_fields__})


MAX_CONSTRAINTS = 8  # the exact fit tries every combination of their domain values
_NeedsByName = dict[str, list[Need]]


def constraints_problem(alternative: Alternative) -> str | None:
    """Return the problem of the topology constraints of a request, None if they are valid."""
    constraints = alternative.topology
    if len(constraints) > MAX_CONSTRAINTS:
        number = format_count(len(constraints), "topology constraint")
        return f"{number}, at most {MAX_CONSTRAINTS}: merge some"
    by_name: _NeedsByName = {}
    for need in alternative.needs:
        by_name.setdefault(need.name or need.kind, []).append(need)
    problems = (_constraint_problem(constraint, by_name) for constraint in constraints)
    return next(filter(None, problems), None) or _contradiction(constraints, by_name)


def _constraint_problem(constraint: TopologyConstraint, by_name: _NeedsByName) -> str | None:
    names = ", ".join(constraint.of) or "nothing"
    where = f"topology constraint {constraint.relation} {constraint.place or '?'} of {names}"
    if not constraint.place or not constraint.of:
        return f"{where}: give a place, such as pcie_root, and groups of devices"
    devices = [name for name, needs in by_name.items() if needs[0].kind != "stock"]
    for name in constraint.of:
        if name not in by_name:
            return f"{where}: no devices named {name!r} ({suggest(name, devices)})"
        if name not in devices:
            return f"{where}: {name!r} is an amount without a place: use devices"
        if len({need.kind for need in by_name[name]}) > 1:
            return f"{where}: {name!r} names devices of several kinds: give each kind its own name"
    if constraint.relation == "apart":
        first, multiple = by_name[constraint.of[0]], len(set(constraint.of)) > 1
        if not multiple and any(need.measure != "devices" for need in first):
            return f"{where}: a total amount has no separate devices: request a number of devices"
        if constraint.place == "zone" and (multiple or _several(first)):
            return f"{where}: all devices of a node are in one zone: choose a smaller place"
    return None


def _contradiction(constraints: Sequence[TopologyConstraint], by_name: _NeedsByName) -> str | None:
    """Return the problem of constraints that require devices both together and apart."""
    for apart in constraints:
        for same in constraints:
            if (same.relation, apart.relation, apart.place) != ("same", "apart", same.place):
                continue
            shared = [name for name in dict.fromkeys(apart.of) if name in same.of]
            alone = shared and len(set(apart.of)) == 1
            if len(shared) > 1 or (alone and _several(by_name[shared[0]])):
                where = f"topology constraints same and apart {apart.place} of {', '.join(shared)}"
                return f"{where}: devices cannot be together and apart: remove one constraint"
    return None


def _several(needs: Sequence[Need]) -> bool:
    return sum(need.amount for need in needs) > 1


def has_words(text: str, words: str) -> bool:
    """Return whether a text has whole, adjacent words: ``A100-SXM4-80GB`` has a100, but not A10.

    No text has ``words`` that have neither a letter nor a digit.
    """
    have, want = split_words(text), split_words(words)
    starts = range(len(have) - len(want) + 1) if want else ()
    return any(have[i : i + len(want)] == want for i in starts)


def split_words(text: str) -> list[str]:
    """Return the words of a text for comparison."""
    return _WORD.findall(_TRADEMARKS.sub(" ", text.casefold()))


_GPU = (Test("kind", "equal", "GPU"),)
ACCELERATORS = "accelerators"
MEASURES = {
    "cores": Need(kind="processor", measure="cores", amount=0),
    "memory_mib": Need(kind="memory", measure="capacity_mib", amount=0),
    "gpus": Need(kind="accelerator", measure="devices", amount=0, tests=_GPU),
    ACCELERATORS: Need(kind="accelerator", measure="devices", amount=0),
    "drives": Need(kind="drive", measure="devices", amount=0),
    "nics": Need(kind="nic", measure="devices", amount=0),
}


def need_for_measure(name: str) -> Need:
    """Return the need of a measure: one of ``MEASURES``, else the stock of that name."""
    return MEASURES.get(name) or need_for_stock(name)


def measure_name(need: Need) -> str:
    """Return the name of a measure: of ``MEASURES``, else the stock, else the label."""
    return next((name for name, one in MEASURES.items() if one == need), need.label)


def need_for_stock(name: str, amount: float = 0) -> Need:
    """Return the need for an amount of a stock."""
    return Need(kind="stock", measure="amount", amount=amount, resource=name)
