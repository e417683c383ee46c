# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes off failed or drained hardware, and rebalancing."""

from __future__ import annotations

from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.inventory import Devices
from valence_sched.model.replay import ReasonGroup

AsksFor = Literal["request", "flavor", "hardware"]
Why = Literal["failed", "drained"]
NEVER = 1 << 30  # moves: no number of them is enough


class MovedNode(Noun, frozen=True, kw_only=True):
    """A node that has to be placed again, with its devices.

    ``asks_for`` is its requirement: its request, its flavor, or all of its hardware.
    """

    node: str
    uri: str
    podm: str
    owner: str | None = None
    devices: Devices = Devices()
    asks_for: AsksFor = "hardware"


class NodeMove(MovedNode, frozen=True, kw_only=True):
    """A move of a node to other blocks, at a ``step`` of the plan, counted from 1."""

    step: int
    to_podm: str
    to_pool: str
    to_blocks: tuple[str, ...]


class StuckNode(MovedNode, frozen=True, kw_only=True):
    """A node that cannot be placed again, the most frequent reasons first.

    Without ``reasons`` the hardware of the node is unknown.
    """

    reasons: tuple[ReasonGroup, ...] = ()


class Relocation(Noun, frozen=True, kw_only=True):
    """The moves of nodes in their order, and the nodes that are stuck.

    ``nodes`` is the number of both. ``notes`` are about unknown hardware.
    """

    why: Why
    target: str
    nodes: int
    moves: tuple[NodeMove, ...] = ()
    stuck: tuple[StuckNode, ...] = ()
    notes: tuple[str, ...] = ()


class Survival(Noun, frozen=True, kw_only=True):
    """Whether any ``failures`` pod managers may fail at once, each of their nodes placed again.

    ``tried`` of all ``sets`` of pod managers were tried; ``bad_sets`` leave nodes without a place.
    ``worst`` leaves the most, with its ``stuck`` nodes.
    """

    failures: int
    sets: int
    tried: int
    bad_sets: int
    worst: tuple[str, ...] = ()
    worst_nodes: int = 0
    stuck: tuple[StuckNode, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> bool | None:
        """Return whether the site survives, None if that is undecided."""
        if self.bad_sets:
            return False
        return True if self.tried == self.sets else None


class Room(Noun, frozen=True, kw_only=True):
    """The blocks that make one more node."""

    podm: str
    pool: str
    blocks: tuple[str, ...]


class SiteMeasure(Noun, frozen=True, kw_only=True):
    """What moves are made for: room for so many more nodes of a flavor, and fragmentation.

    ``fragmentation`` is the share of the free accelerators that a mix of flavors has no use for,
    ``imbalance`` the standard deviation over pod managers of the use of their most used resource.
    None is for values that were not requested, and for fragmentation where the mix has none.
    """

    room: int | None = None
    fragmentation: float | None = None
    imbalance: float = 0.0


class RebalanceMove(NodeMove, frozen=True, kw_only=True):
    """A move, with what the site has after it."""

    after: SiteMeasure


class Rebalance(Noun, frozen=True, kw_only=True):
    """The moves in their order after which a goal is ``reached``.

    The goal is fragmentation ``below`` a share, imbalance below ``imbalance_below``, or where both
    are None ``room`` for one more node of the flavor. No plan has fewer than ``least`` moves. Where
    it is not ``complete``, the search ended before all plans of so many moves were tried; the moves
    are then the best ones it found. ``waiting`` are nodes that would make room if they could move
    at once: each needs a place that one of them still has, and no tried move finds a
    spare one on the way.
    """

    flavor: str | None = None
    below: float | None = None
    imbalance_below: float | None = None
    moves: tuple[RebalanceMove, ...] = ()
    reached: bool
    room: Room | None = None
    before: SiteMeasure
    least: int = 0
    complete: bool = True
    waiting: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_impossible(self) -> bool:
        """Return whether it is proven that no number of moves reaches the goal."""
        return self.least >= NEVER

    @property
    def after(self) -> SiteMeasure:
        return self.moves[-1].after if self.moves else self.before
