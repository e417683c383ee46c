# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes off failed or drained hardware, and rebalancing."""

from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.decision import ReasonGroup
from valence_sched.model.inventory import Devices
from valence_sched.model.scenario import Target

AsksFor = Literal["request", "flavor", "hardware"]
Why = Literal["failed", "drained"]
NEVER = 1 << 30  # stands for: no number of moves is enough


class MovedNode(Noun, frozen=True, kw_only=True):
    """A node that has to be re-placed, with its devices.

    ``asks_for`` is the source of its requirements: its request, its flavor, or all of its hardware.
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
    """A node that cannot be re-placed, with the reasons, the most frequent first.

    If ``reasons`` is empty, the hardware of the node is unknown.
    """

    reasons: tuple[ReasonGroup, ...] = ()


class Relocation(Noun, frozen=True, kw_only=True):
    """The moves of nodes in their order, and the nodes that are stuck.

    ``target`` names the hardware that ``targets`` select. ``nodes`` is the number of moved and
    stuck nodes. ``notes`` are about unknown hardware.
    """

    why: Why
    target: str
    targets: tuple[Target, ...] = ()
    nodes: int
    moves: tuple[NodeMove, ...] = ()
    stuck: tuple[StuckNode, ...] = ()
    notes: tuple[str, ...] = ()


class Survival(Noun, frozen=True, kw_only=True):
    """The test that every node can be re-placed after any ``failures`` pod managers fail.

    ``tried`` of all ``sets`` of pod managers were tried; ``bad_sets`` leave nodes unplaced.
    ``worst`` is the set that leaves the most nodes unplaced; ``stuck`` are these nodes.
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
        if self.bad_sets:
            return False
        return True if self.tried == self.sets else None


class Room(Noun, frozen=True, kw_only=True):
    """The blocks that make one more node."""

    podm: str
    pool: str
    blocks: tuple[str, ...]


class SiteMeasure(Noun, frozen=True, kw_only=True):
    """The measures of a site for moves: room for nodes of a flavor, fragmentation, imbalance.

    ``fragmentation`` is the share of the free amount of a resource that a mix cannot use.
    ``imbalance`` is the standard deviation over pod managers of the use of the most used resource.
    """

    room: int | None = None
    fragmentation: float | None = None
    imbalance: float = 0.0


class RebalanceMove(NodeMove, frozen=True, kw_only=True):
    """A move, with the measures of the site after it."""

    after: SiteMeasure


class Rebalance(Noun, frozen=True, kw_only=True):
    """The moves in their order after which a goal is ``reached``.

    The goal is fragmentation ``below`` a share, imbalance below ``imbalance_below``, or else
    ``room`` for one more node of the flavor. ``resource`` is the measured resource of the
    fragmentation. No plan has fewer than ``least`` moves. If the search is not ``complete``, better
    moves may exist. Each ``waiting`` node needs the blocks of another one, and no spare blocks were
    found.
    """

    flavor: str | None = None
    below: float | None = None
    resource: str | None = None
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
    def after(self) -> SiteMeasure:
        return self.moves[-1].after if self.moves else self.before
