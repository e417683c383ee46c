# SPDX-License-Identifier: Apache-2.0
"""Changes of living nodes: devices that are attached, and detached after a drain."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from valence_sched.errors import InputError
from valence_sched.model import codec
from valence_sched.model.base import Noun
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.decision import DecisionResult
from valence_sched.model.flavor import Properties
from valence_sched.model.inventory import Devices, Name, to_json
from valence_sched.model.need import NodeRequest, Toleration
from valence_sched.model.podm_address import is_http_url
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import PasswordReference

#: Whether a change is only planned; with ``server``, its pod manager is read to check it.
DryRun = bool | Literal["server"]
SCHEMA = "valence-sched/node-change"
VERSION = "1.0"


class NodeChange(Noun, frozen=True, kw_only=True):
    """A change of a node, in one of four forms.

    ``attach`` and ``detach`` describe devices and amounts of stocks, which are chosen;
    ``attach_blocks`` and ``detach_blocks`` name blocks, ``detach_amounts`` memory chunks and
    volumes, by their URI or its last part. ``attach_amounts`` are grants of stocks. ``flavor`` is
    the flavor that the node becomes, by the smallest change. With ``idle``, the blocks and amounts
    that the request of the node does not need are detached.

    Blocks are detached from a running node only if its pod manager declares them removable, with
    ``force``, or with ``power_cycle``: the node is shut down, changed, and started again if it was
    on. ``policy`` chooses the devices, by default the policy of the flavor. Taints of attached
    blocks are tolerated by ``tolerations``, the flavor, or the request of the node. ``before`` has
    the blocks and amounts of the node that the change was planned for. A planned change may have a
    flavor, its ``flavor_request``, and the exact blocks and amounts. Blocks are attached before
    others are detached, unless there is no room for all of them, or with ``detach_first``.

    With ``shrinkable``, nothing is attached or detached: the node is marked as shrinkable to the
    flavor ``floor``, by default to its own request, or no longer. ``power_cycle`` then applies to
    each later change that shrinks the node.
    """

    attach: Properties | None = None
    attach_blocks: tuple[Name, ...] = ()
    attach_amounts: tuple[Grant, ...] = ()
    detach: Properties | None = None
    detach_blocks: tuple[Name, ...] = ()
    detach_amounts: tuple[Name, ...] = ()
    flavor: Name | None = None
    flavor_request: NodeRequest | None = None
    idle: bool = False
    policy: Name | None = None
    tolerations: tuple[Toleration, ...] = ()
    force: bool = False
    power_cycle: bool = False
    before: tuple[Name, ...] = ()
    detach_first: bool = False
    shrinkable: bool | None = None
    floor: Name | None = None

    def __post_init__(self) -> None:
        by_devices = self.attach is not None or self.detach is not None
        becomes = self.flavor is not None and not (self.names_parts and self.before)
        marks = self.shrinkable is not None
        if (self.names_parts or by_devices) + becomes + self.idle + marks != 1:
            raise ValueError("Expected devices or blocks, else a flavor, else idle or shrinkable")
        if self.floor is not None and not self.shrinkable:
            raise ValueError("Expected shrinkable with a floor")
        if self.flavor_request is not None and (self.flavor is None or becomes):
            raise ValueError("Expected a planned change to a flavor with flavor_request")

    @property
    def names_parts(self) -> bool:
        """Whether the change names blocks or amounts."""
        blocks = self.attach_blocks or self.detach_blocks
        return bool(blocks or self.attach_amounts or self.detach_amounts)


class BlockChange(Struct, frozen=True):
    """A block that is attached or detached, with its devices as last read."""

    uri: str
    devices: Devices = Devices()


class NodeChangeResult(Struct, frozen=True, kw_only=True):
    """A planned or finished change, and the node after it.

    Nothing was written unless ``done``. ``decision`` has the reasons if no free devices fit. A
    change that is not needed attaches and detaches nothing. ``attached_amounts`` are memory chunks
    and volumes, or before the change the grants of stocks; ``detached_amounts`` are memory chunks
    and volumes. ``flavor_request`` is the request of the flavor that the node becomes. ``no_room``
    is the reason why blocks are detached before others are attached, empty if they are attached
    first. ``hazard`` is the reason why the blocks and amounts must not be detached from the node as
    it runs. ``refusal`` is the reason why the pod manager would refuse the change, empty without a
    reason, None if it was not checked.
    """

    node: ComposedNode
    attached: tuple[BlockChange, ...] = ()
    detached: tuple[BlockChange, ...] = ()
    attached_amounts: tuple[Grant, ...] = ()
    detached_amounts: tuple[Grant, ...] = ()
    decision: DecisionResult | None = None
    flavor_request: NodeRequest | None = None
    done: bool = False
    power_cycled: bool = False
    no_room: str = ""
    hazard: str = ""
    refusal: str | None = None

    @property
    def fits(self) -> bool:
        return self.decision is None or bool(self.decision.report.placements)

    @property
    def changes(self) -> bool:
        """Whether the change attaches or detaches a block or an amount."""
        amounts = self.attached_amounts or self.detached_amounts
        return bool(self.attached or self.detached or amounts)


def attach_again(blocks: Sequence[str], *, power_cycle: bool) -> NodeChange:
    """Return the change that gives a node blocks that it had, in spite of their taints."""
    every = (Toleration(operator="Exists"),)
    return NodeChange(attach_blocks=tuple(blocks), power_cycle=power_cycle, tolerations=every)


def exact_change(change: NodeChange, result: NodeChangeResult) -> NodeChange:
    """Return a planned change with its exact blocks and amounts, to be applied later."""
    return NodeChange(
        attach_blocks=uris(result.attached),
        detach_blocks=uris(result.detached),
        attach_amounts=result.attached_amounts,
        detach_amounts=uris(result.detached_amounts),
        flavor=change.flavor,
        flavor_request=result.flavor_request,
        policy=change.policy,
        tolerations=change.tolerations,
        force=change.force,
        power_cycle=change.power_cycle,
        before=result.node.parts,
        detach_first=bool(result.no_room),
    )


def uris(changes: Iterable[BlockChange | Grant]) -> tuple[str, ...]:
    return tuple(one.uri for one in changes)


def format_parts(blocks: int, amounts: int) -> str:
    """Return numbers of changed parts: ``2 blocks and 1 amount``, ``1 block``."""
    counts = ((blocks, "block"), (amounts, "amount"))
    return " and ".join(format_count(number, noun) for number, noun in counts if number)


class NodeChangePlan(Noun, frozen=True, kw_only=True):
    """A change of a node on a pod manager with its exact blocks and amounts, to be applied later.

    ``digest`` covers all other fields.
    """

    schema: str
    version: str
    node: Name
    podm: Name
    change: NodeChange
    digest: str = ""


def plan_change(change: NodeChange, result: NodeChangeResult) -> NodeChangePlan:
    """Return the plan of a change that attaches or detaches at least one block or amount."""
    exact, node = exact_change(change, result), result.node
    plan = NodeChangePlan(
        schema=SCHEMA, version=VERSION, node=node.id, podm=node.podm, change=exact
    )
    return replace(plan, digest=codec.document_digest(to_json(plan)))


def parse_change_plan(data: bytes, file: str) -> tuple[NodeChangePlan, list[str]]:
    """Parse the plan of a change, with warnings; errors as for a plan."""
    return codec.decode_document(data, NodeChangePlan, SCHEMA, VERSION, file, has_digest=True)


LEAST_DRAIN_S, MOST_DRAIN_S = 1, 3600


class DrainSettings(Noun, frozen=True, kw_only=True):
    """The hook that must drain a node within ``deadline_s`` before blocks are detached from it.

    ``command`` is a program with its arguments; no shell is involved. ``url`` receives a POST,
    which the key of ``key`` signs.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    key: PasswordReference | None = None
    deadline_s: Annotated[float, Meta(ge=LEAST_DRAIN_S, le=MOST_DRAIN_S)] = 60.0


class DrainBody(Struct, frozen=True, kw_only=True):
    """The message to a hook: the node, and the URIs of the blocks that it loses.

    ``id`` is the same in each attempt of a change, and another one after the node was changed.
    """

    id: str
    node: str
    podm: str
    uri: str
    owner: str | None
    flavor: str | None
    blocks: tuple[str, ...]


class DrainAnswer(Struct, frozen=True):
    """The answer of a URL; ``reason`` explains a refusal."""

    drained: bool
    reason: str = ""


def check_drain(settings: DrainSettings, file: str, path: str = "$") -> None:
    """Raise InputError unless there is exactly one valid hook, and a key only for a URL."""
    command, url, key = settings.command, settings.url, settings.key
    if bool(command) == (url is not None):
        found = "both" if command else "neither command nor url"
        raise InputError(file, path, found, "either command or url")
    if command and (not command[0].strip() or "\0" in "".join(command)):
        expected = "a list of a program and its arguments"
        raise InputError(file, f"{path}.command", "an invalid command", expected)
    if url is not None and not is_http_url(url):
        expected = "http://HOST or https://HOST, without a user"
        raise InputError(file, f"{path}.url", "an invalid URL", expected)
    if key is not None and url is None:
        raise InputError(file, path, "a key without a url", "the url whose requests it signs")
    if key is not None:
        key.check_source(file, f"{path}.key")
