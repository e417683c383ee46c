# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision: score parts, runner-up, near misses and sensitivity."""

from typing import Literal

from msgspec import Struct

from valence_sched.model.base import Value


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


class Shortfall(Struct, frozen=True, kw_only=True):
    """One reason against a pool: what a filter needs and what the pool has."""

    filter: str
    label: str
    need: Value
    have: Value
    unit: str


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
