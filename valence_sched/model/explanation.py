# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision: score parts, runner-up, near misses and sensitivity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from valence_sched.model.base import Value, format_value


class ScorePart(Struct, frozen=True, kw_only=True):
    """What one weigher adds to a score: ``part = weight × score / sum of all weights``."""

    weigher: str
    weight: float
    score: float
    part: float


class Contender(Struct, frozen=True, kw_only=True):
    """A pool that could take the first node; its parts add up to its score, largest first."""

    podm: str
    pool: str
    outcome: Literal["chosen", "fits"]
    score: float
    parts: tuple[ScorePart, ...]


class ScoreDifference(Struct, frozen=True, kw_only=True):
    """By how much one weigher speaks for the chosen one, below 0 for the other."""

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
        """Return it as a person reads it."""
        if not self.margin and not any(one.difference for one in self.differences):
            return f"{self.podm} ({self.pool}), equally good: lots decided"
        by = ", ".join(f"{one.weigher} {one.difference:+.6f}" for one in self.differences)
        return f"{self.podm} ({self.pool}), {self.margin:.6f} behind" + (f": {by}" if by else "")


class Shortfall(Struct, frozen=True, kw_only=True):
    """One thing that stands against a pool: what a filter needs and what the pool has."""

    filter: str
    label: str
    need: Value
    have: Value
    unit: str

    @property
    def text(self) -> str:
        """Return it as a person reads it: how much is missing where that is a number."""
        unit = f" {self.unit}" if self.unit else ""
        if _is_number(self.need) and _is_number(self.have):
            missing = float(self.need) - float(self.have)  # type: ignore[arg-type]
            return f"{format_value(missing)}{unit} {self.label}"
        return f"{self.label} {format_value(self.need)}{unit} (has {format_value(self.have)})"


class NodeRemoval(Struct, frozen=True, kw_only=True):
    """A node whose blocks, were they free again, would make the difference, and in which pool."""

    node: str
    uri: str
    pool: str


class NearMiss(Struct, frozen=True, kw_only=True):
    """A pod manager that nearly takes the node.

    Of ``hardware``, all that stands against it depends on what is free: ``freeing`` is the node
    that would have to go, None when giving up no single one of the ``tried`` nodes is enough.
    Of ``word``, it would take the node but for one filter.
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
        """Return it as a person reads it."""
        if self.kind == "word":
            but = " and ".join(
                f"{lack.label}: needs {format_value(lack.need)}, has {format_value(lack.have)}"
                for lack in self.lacks
            )
            return f"{self.podm} would do but for {but} (filter {self.lacks[0].filter})"
        lacks = " and ".join(lack.text for lack in self.lacks)
        return f"{self.podm} lacks {lacks}; {self._remedy}"

    @property
    def _remedy(self) -> str:
        if self.freeing:
            where = f" (in {self.freeing.pool})" if self.freeing.pool != self.pool else ""
            return f"freeing node {self.freeing.node} would do{where}"
        if not self.nodes:
            return "it has no node to free"
        if self.tried < self.nodes:
            return f"freeing one of {self.tried} of its {self.nodes} nodes would not do"
        return "freeing any one of its nodes would not do"


class Sensitivity(Struct, frozen=True, kw_only=True):
    """One change that changes the choice: of a weight, or of the amount of one need.

    ``podm`` and ``pool`` are the choice then, None when nothing fits; ``instead_of`` and
    ``instead_of_pool`` the choice now. ``by_lot``: others are as good then. An amount of 0
    means without that need.
    """

    of: Literal["weight", "need"]
    name: str
    unit: str
    was: float
    becomes: float
    podm: str | None
    pool: str | None
    instead_of: str | None
    instead_of_pool: str | None
    by_lot: bool = False

    @property
    def text(self) -> str:
        """Return it as a person reads it."""
        return f"{self._change}: {self._effect}" + (" (by lot)" if self.by_lot else "")

    @property
    def _change(self) -> str:
        if self.of == "weight":
            return f"weight of {self.name} from {self.was:g} to {self.becomes:g}"
        if not self.becomes:
            return f"without {self.name}"
        unit = f" {self.unit}" if self.unit else ""
        return f"{format_value(self.becomes)}{unit} {self.name} instead of {format_value(self.was)}"

    @property
    def _effect(self) -> str:
        if self.podm is None:
            return "nothing fits"
        if self.instead_of is None:
            return f"{self.podm} would do"
        if self.podm == self.instead_of:
            return f"pool {self.pool} of {self.podm} instead of {self.instead_of_pool}"
        return f"{self.podm} instead of {self.instead_of}"


class Explanation(Struct, frozen=True, kw_only=True):
    """What a decision's own matrices say about it, for its first node.

    Where nothing or not all was placed, ``nearest_misses`` are about the next node. ``flips``
    come with the smallest change first, measured against what it is now; ``notes`` say what
    was left out, and why.
    """

    candidates: tuple[Contender, ...] = ()
    runner_up: RunnerUp | None = None
    nearest_misses: tuple[NearMiss, ...] = ()
    flips: tuple[Sensitivity, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self, limit: int = 3) -> Iterator[str]:
        """Yield it in sentences, of each sort at most so many."""
        if self.runner_up:
            yield f"runner-up: {self.runner_up.text}"
        for sort, kind in (("nearest miss", "hardware"), ("but for a word", "word")):
            found = [miss.text for miss in self.nearest_misses if miss.kind == kind]
            yield from _first_lines(sort, found, limit)
        for sort, of in (("flips at another weight", "weight"), ("flips at another need", "need")):
            yield from _first_lines(
                sort, [flip.text for flip in self.flips if flip.of == of], limit
            )
        yield from (f"note: {note}" for note in self.notes)


def _first_lines(sort: str, texts: list[str], most: int) -> Iterator[str]:
    yield from (f"{sort}: {text}" for text in texts[:most])
    if len(texts) > most:
        yield f"{sort}: {len(texts) - most} more in the report"


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
