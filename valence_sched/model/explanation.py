# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision: score parts, runner-up, near misses and sensitivity."""

from typing import Literal

from msgspec import Struct

from valence_sched.model.base import Value, format_value, is_number
from valence_sched.model.quantity import agree, format_bytes

MIB = 1 << 20


class ScorePart(Struct, frozen=True, kw_only=True):
    """The part of a score that one weigher adds: ``weight × score / sum of all weights``."""

    weigher: str
    weight: float
    score: float
    part: float


class Contender(Struct, frozen=True, kw_only=True):
    """A pool that could take the first node; its parts, largest first, add up to its score.

    ``excess`` is what the blocks would have beyond the request: cores, MiB of memory, devices.
    """

    podm: str
    pool: str
    outcome: Literal["chosen", "fits"]
    score: float
    parts: tuple[ScorePart, ...]
    excess: dict[str, float] = {}


class ScoreDifference(Struct, frozen=True, kw_only=True):
    """How much one weigher prefers the chosen pool; below 0 it prefers the runner-up."""

    weigher: str
    difference: float


class RunnerUp(Struct, frozen=True, kw_only=True):
    """The next best pool on another pod manager; the differences add up to the margin."""

    podm: str
    pool: str
    score: float
    margin: float
    differences: tuple[ScoreDifference, ...]

    @property
    def text(self) -> str:
        if not self.margin and not any(one.difference for one in self.differences):
            return f"{self.podm} ({self.pool}), equally good: lots decided"
        by = ", ".join(f"{one.weigher} {one.difference:+.6f}" for one in self.differences)
        return f"{self.podm} ({self.pool}), {self.margin:.6f} behind" + (f": {by}" if by else "")


class Shortfall(Struct, frozen=True, kw_only=True):
    """One reason against a pool: what a filter needs and what the pool has."""

    filter: str
    label: str
    need: Value
    have: Value
    unit: str

    @property
    def text(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if is_number(self.need) and is_number(self.have):
            missing = float(self.need) - float(self.have)  # type: ignore[arg-type]
            if self.unit == "MiB":
                return f"{format_bytes(missing * MIB)} {self.label}"
            return f"{format_value(missing)}{unit} {agree(missing, self.label)}"
        return f"{self.label} {format_value(self.need)}{unit} (has {format_value(self.have)})"


class NodeRemoval(Struct, frozen=True, kw_only=True):
    """A node whose removal would free the blocks that are missing, and the pool it is in."""

    node: str
    uri: str
    pool: str


class NearMiss(Struct, frozen=True, kw_only=True):
    """A pod manager that could almost take the node.

    ``hardware``: every reason against it depends on what is free; ``freeing`` is the node whose
    removal would be enough, None if no single one of the ``tried`` nodes is. ``word``: one filter
    alone rejects it, for another reason than what is free.
    """

    podm: str
    pool: str
    kind: Literal["hardware", "word"]
    lacks: tuple[Shortfall, ...]
    freeing: NodeRemoval | None = None
    nodes: int = 0
    tried: int = 0

    @property
    def text(self) -> str:
        if self.kind == "word":
            values = [(one.label, *map(format_value, (one.need, one.have))) for one in self.lacks]
            but = " and ".join(f"{label}: needs {need}, has {have}" for label, need, have in values)
            return f"{self.podm} fits but for {but} (filter {self.lacks[0].filter})"
        lacks = " and ".join(lack.text for lack in self.lacks)
        return f"{self.podm} lacks {lacks}; {self._remedy}"

    @property
    def _remedy(self) -> str:
        if self.freeing:
            where = f" (in {self.freeing.pool})" if self.freeing.pool != self.pool else ""
            return f"removing node {self.freeing.node}{where} frees it"
        if not self.nodes:
            return "it has no node to remove"
        if self.tried < self.nodes:
            return f"removing one of {self.tried} of its {self.nodes} nodes is not enough"
        return "removing any one of its nodes is not enough"


class Sensitivity(Struct, frozen=True, kw_only=True):
    """A change of one weight, or of the amount of one need, that changes the choice.

    ``podm`` and ``pool`` are the choice after the change, None if nothing fits; ``instead_of`` and
    ``instead_of_pool`` the present choice. ``by_lot``: after the change the seed breaks a tie. An
    amount of 0 means without that need.
    """

    of: Literal["weight", "need"]
    name: str
    unit: str
    was: int | float
    becomes: int | float
    podm: str | None
    pool: str | None
    instead_of: str | None
    instead_of_pool: str | None
    by_lot: bool = False

    @property
    def text(self) -> str:
        return f"{self._effect}, {self._change}" + (" (tie, broken by the seed)" * self.by_lot)

    @property
    def _change(self) -> str:
        if self.of == "weight":
            return f"if the weight of {self.name} is {self.becomes:g} instead of {self.was:g}"
        if not self.becomes:
            return f"without the {self._amount(self.was)} {agree(self.was, self.name)}"
        name = agree(self.becomes, self.name)
        return f"with {self._amount(self.becomes)} {name} instead of {self._amount(self.was)}"

    def _amount(self, value: float) -> str:
        if self.unit == "MiB":
            return format_bytes(value * MIB)
        return f"{format_value(value)} {self.unit}".rstrip()

    @property
    def _effect(self) -> str:
        if self.podm is None:
            return "nothing fits"
        if self.instead_of is None:
            return f"{self.podm} fits"
        if self.podm == self.instead_of:
            return f"pool {self.pool} of {self.podm} instead of {self.instead_of_pool}"
        return f"{self.podm} instead"


class Explanation(Struct, frozen=True, kw_only=True):
    """The explanation of a decision for its first node, computed from the decision's own matrices.

    If not every node was placed, ``nearest_misses`` are about the next node. ``flips`` are sorted
    by the size of the change relative to the present value; ``notes`` say what was left out, and
    why.
    """

    candidates: tuple[Contender, ...] = ()
    runner_up: RunnerUp | None = None
    nearest_misses: tuple[NearMiss, ...] = ()
    flips: tuple[Sensitivity, ...] = ()
    notes: tuple[str, ...] = ()
