# SPDX-License-Identifier: Apache-2.0
"""Changes of living nodes: devices that are attached and detached."""

from collections.abc import Sequence

from msgspec import Struct

from valence_sched.model.base import Noun
from valence_sched.model.claim import ComposedNode
from valence_sched.model.decision import DecisionResult
from valence_sched.model.flavor import Properties
from valence_sched.model.inventory import Devices, Name


class NodeChange(Noun, frozen=True, kw_only=True):
    """A change of a node, in one of three forms.

    ``attach`` and ``detach`` describe devices, which are chosen; ``attach_blocks`` and
    ``detach_blocks`` name blocks by their URI or its last part. ``flavor`` is the flavor that the
    node becomes, by the smallest change. With ``idle``, the blocks that the request of the node
    does not need are detached.

    Blocks are detached from a running node only if its pod manager declares them removable, with
    ``force``, or with ``power_cycle``: the node is shut down, changed, and started again if it was
    on. ``policy`` chooses the devices, by default the policy of the flavor. ``before`` has the
    blocks of the node that the change was planned for.
    """

    attach: Properties | None = None
    attach_blocks: tuple[Name, ...] = ()
    detach: Properties | None = None
    detach_blocks: tuple[Name, ...] = ()
    flavor: Name | None = None
    idle: bool = False
    policy: Name | None = None
    force: bool = False
    power_cycle: bool = False
    before: tuple[Name, ...] = ()

    def __post_init__(self) -> None:
        by_blocks = bool(self.attach_blocks or self.detach_blocks)
        by_devices = self.attach is not None or self.detach is not None
        if (by_blocks or by_devices) + (self.flavor is not None) + self.idle != 1:
            raise ValueError("Expected devices or blocks, else a flavor, else idle")


class BlockChange(Struct, frozen=True):
    """A block that is attached or detached, with its devices as last read."""

    uri: str
    devices: Devices = Devices()


class NodeChangeResult(Struct, frozen=True, kw_only=True):
    """A planned or finished change, and the node after it.

    Nothing was written unless ``done``. ``decision`` has the reasons if no free devices fit. A
    change that is not needed attaches and detaches nothing. ``hazard`` is the reason why the blocks
    must not be detached from the node as it runs.
    """

    node: ComposedNode
    attached: tuple[BlockChange, ...] = ()
    detached: tuple[BlockChange, ...] = ()
    decision: DecisionResult | None = None
    done: bool = False
    power_cycled: bool = False
    hazard: str = ""

    @property
    def fits(self) -> bool:
        return self.decision is None or bool(self.decision.report.placements)


def exact_change(change: NodeChange, result: NodeChangeResult) -> NodeChange:
    """Return a planned change with its exact blocks, to be applied later."""
    return NodeChange(
        attach_blocks=uris(result.attached),
        detach_blocks=uris(result.detached),
        flavor=None,
        policy=change.policy,
        force=change.force,
        power_cycle=change.power_cycle,
        before=result.node.blocks,
    )


def uris(changes: Sequence[BlockChange]) -> tuple[str, ...]:
    return tuple(one.uri for one in changes)
