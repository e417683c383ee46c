# SPDX-License-Identifier: Apache-2.0
"""Changes of living nodes: devices that are attached and detached."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.model import codec
from valence_sched.model.base import Noun
from valence_sched.model.claim import ComposedNode
from valence_sched.model.decision import DecisionResult
from valence_sched.model.flavor import Properties
from valence_sched.model.inventory import Devices, Name, to_json
from valence_sched.model.need import Toleration

#: Whether a change is only planned; with ``server``, its pod manager is read to check it.
DryRun = bool | Literal["server"]
SCHEMA = "valence-sched/node-change"
VERSION = "1.0"


class NodeChange(Noun, frozen=True, kw_only=True):
    """A change of a node, in one of three forms.

    ``attach`` and ``detach`` describe devices, which are chosen; ``attach_blocks`` and
    ``detach_blocks`` name blocks by their URI or its last part. ``flavor`` is the flavor that the
    node becomes, by the smallest change. With ``idle``, the blocks that the request of the node
    does not need are detached.

    Blocks are detached from a running node only if its pod manager declares them removable, with
    ``force``, or with ``power_cycle``: the node is shut down, changed, and started again if it was
    on. ``policy`` chooses the devices, by default the policy of the flavor. Taints of attached
    blocks are tolerated by ``tolerations``, the flavor, or the request of the node. ``before`` has
    the blocks of the node that the change was planned for. A planned change may have a flavor and
    the exact blocks.
    """

    attach: Properties | None = None
    attach_blocks: tuple[Name, ...] = ()
    detach: Properties | None = None
    detach_blocks: tuple[Name, ...] = ()
    flavor: Name | None = None
    idle: bool = False
    policy: Name | None = None
    tolerations: tuple[Toleration, ...] = ()
    force: bool = False
    power_cycle: bool = False
    before: tuple[Name, ...] = ()

    def __post_init__(self) -> None:
        by_blocks = bool(self.attach_blocks or self.detach_blocks)
        by_devices = self.attach is not None or self.detach is not None
        becomes = self.flavor is not None and not (by_blocks and self.before)
        if (by_blocks or by_devices) + becomes + self.idle != 1:
            raise ValueError("Expected devices or blocks, else a flavor, else idle")


class BlockChange(Struct, frozen=True):
    """A block that is attached or detached, with its devices as last read."""

    uri: str
    devices: Devices = Devices()


class NodeChangeResult(Struct, frozen=True, kw_only=True):
    """A planned or finished change, and the node after it.

    Nothing was written unless ``done``. ``decision`` has the reasons if no free devices fit. A
    change that is not needed attaches and detaches nothing. ``hazard`` is the reason why the blocks
    must not be detached from the node as it runs. ``refusal`` is the reason why the pod manager
    would refuse the change, empty without a reason, None if it was not checked.
    """

    node: ComposedNode
    attached: tuple[BlockChange, ...] = ()
    detached: tuple[BlockChange, ...] = ()
    decision: DecisionResult | None = None
    done: bool = False
    power_cycled: bool = False
    hazard: str = ""
    refusal: str | None = None

    @property
    def fits(self) -> bool:
        return self.decision is None or bool(self.decision.report.placements)


def exact_change(change: NodeChange, result: NodeChangeResult) -> NodeChange:
    """Return a planned change with its exact blocks, to be applied later."""
    return NodeChange(
        attach_blocks=uris(result.attached),
        detach_blocks=uris(result.detached),
        flavor=change.flavor,
        policy=change.policy,
        tolerations=change.tolerations,
        force=change.force,
        power_cycle=change.power_cycle,
        before=result.node.blocks,
    )


def uris(changes: Sequence[BlockChange]) -> tuple[str, ...]:
    return tuple(one.uri for one in changes)


class NodeChangePlan(Noun, frozen=True, kw_only=True):
    """A change of a node on a pod manager with its exact blocks, to be applied later.

    ``digest`` covers all other fields.
    """

    schema: str
    version: str
    node: Name
    podm: Name
    change: NodeChange
    digest: str = ""


def plan_change(change: NodeChange, result: NodeChangeResult) -> NodeChangePlan:
    """Return the plan of a change that attaches or detaches at least one block."""
    exact, node = exact_change(change, result), result.node
    plan = NodeChangePlan(
        schema=SCHEMA, version=VERSION, node=node.id, podm=node.podm, change=exact
    )
    return replace(plan, digest=codec.document_digest(to_json(plan)))


def parse_change_plan(data: bytes, file: str) -> tuple[NodeChangePlan, list[str]]:
    """Parse the plan of a change, with warnings; errors as for a plan."""
    return codec.decode_with_digest(data, NodeChangePlan, SCHEMA, VERSION, file)
