# SPDX-License-Identifier: Apache-2.0
"""The inventory document: pod managers, pools, blocks, devices, stocks and nodes.

``None`` means that the pod manager did not report a value, never zero. ``Podm[Raw, Raw]`` keeps
the content of each block as bytes: a million blocks of a few dozen kinds are decoded a few dozen
times (``view.builder.ViewBuilder``).
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import replace

from valence_sched.errors import InputError
from valence_sched.model.base import MAX_WHOLE, Fact, Noun, digest_of
from valence_sched.model.need import TAINTED, NodeRequest, Taint

SCHEMA = "valence-sched/inventory"
VERSION = "1.0"
WHOLE_POOL = "all"  # the id of the pool of a podm that has no pools
DECLARED_SCHEME = "declared:"  # the scheme of the URIs of declared stocks
Count = Annotated[int, Meta(ge=0, lt=MAX_WHOLE)]
Positive = Annotated[int, Meta(ge=1, lt=MAX_WHOLE)]
Amount = Annotated[float, Meta(ge=0, lt=MAX_WHOLE)]
#: Sums of counts and of amounts over pod managers.
CountSum = Annotated[int, Meta(ge=0, le=2**62)]
AmountSum = Annotated[float, Meta(ge=0, le=2.0**100)]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
ZoneName = Annotated[str, Meta(min_length=1, max_length=255)]
Capabilities = dict[str, tuple[str, ...]]
BlockType = Literal[
    "Compute",
    "Processor",
    "Memory",
    "Network",
    "Storage",
    "ComputerSystem",
    "Expansion",
    "IndependentResource",
]
#: The types of whole compute units: a node has one unless the pod manager reports another limit.
SINGLE_PER_NODE: tuple[BlockType, ...] = ("Compute", "ComputerSystem")
CompositionState = Literal[
    "Unused", "Composing", "Composed", "ComposedAndAvailable", "Failed", "Unavailable", "Unknown"
]
#: The composition states of blocks that are in no node and cannot be used.
BROKEN_STATES: tuple[CompositionState, ...] = ("Failed", "Unavailable", "Unknown")
Health = Literal["OK", "Warning", "Critical"]
COUNTED_CONDITIONS = (None, "Warning")  # unless a policy is stricter
PodmStatus = Literal["Online", "Offline", "Unknown"]
D = TypeVar("D")
S = TypeVar("S")
PodmT = TypeVar("PodmT", bound="Podm[Any, Any]")
OTHERS = "another owner"  # shown instead of the owner's name
HIDDEN = "another-owner:"
RESERVED_FOR = "reserved_for"  # the capability that names the owners of a pod manager


class InventoryDevice(Noun, frozen=True, kw_only=True, gc=False):
    """Any device. ``state`` is set unless it is Enabled, ``health`` unless it is OK, as in Redfish.

    A device in another state, or of Critical health, is listed but never counted.
    """

    state: Name | None = None
    health: Health | None = None

    @property
    def condition(self) -> str | None:
        """Critical if its health is Critical, else a state other than Enabled, else the health."""
        return _condition(self.state, self.health)


class Processor(InventoryDevice, frozen=True, kw_only=True, gc=False):
    """``count`` identical CPUs; GPUs are accelerators, and their cores are not CPU cores."""

    count: Positive | None = 1
    cores: Count | None = None
    threads: Count | None = None
    model: str | None = None
    architecture: str | None = None
    instruction_set: str | None = None
    speed_mhz: Count | None = None


class Accelerator(InventoryDevice, frozen=True, kw_only=True, gc=False):
    """``count`` identical accelerators: GPU, FPGA, DSP, Accelerator, Partition or OEM."""

    kind: Name
    count: Positive | None = 1
    model: str | None = None
    memory_mib: Count | None = None


class Memory(InventoryDevice, frozen=True, kw_only=True, gc=False):
    """``count`` identical memory modules that a system can use as main memory."""

    count: Positive | None = 1
    capacity_mib: Count | None = None
    type: str | None = None
    speed_mhz: Count | None = None


class Drive(InventoryDevice, frozen=True, kw_only=True, gc=False):
    """``count`` identical drives; a ``remote`` drive is connected by a network."""

    count: Positive | None = 1
    capacity_bytes: Count | None = None
    media: str | None = None
    protocol: str | None = None
    rpm: Count | None = None
    model: str | None = None
    remote: bool | None = None


class Nic(InventoryDevice, frozen=True, kw_only=True, gc=False):
    """``count`` identical network interfaces."""

    count: Positive | None = 1
    speed_mbps: Count | None = None


class Devices(Noun, frozen=True, kw_only=True, gc=False):
    """All devices of a block."""

    processors: tuple[Processor, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    memory: tuple[Memory, ...] = ()
    drives: tuple[Drive, ...] = ()
    nics: tuple[Nic, ...] = ()


class Status(Noun, frozen=True, kw_only=True, gc=False):
    """The state and use of a block, in Redfish's terms (``ResourceBlock.CompositionStatus``).

    ``enabled`` and ``health`` are the worse value of the block and its system; ``resource_state``
    is the state of a block that is not enabled, such as UnavailableOffline. A request gets the
    block only if it tolerates all its ``taints``.
    """

    state: CompositionState = "Unused"
    reserved: bool = False
    enabled: bool | None = None
    health: Health | None = None
    active: bool = False
    shareable: bool = False
    max_compositions: Count | None = None
    compositions: Count = 0
    client: str | None = None
    resource_state: Name | None = None
    taints: tuple[Taint, ...] = ()

    @property
    def condition(self) -> str | None:
        if self.state in BROKEN_STATES:
            return self.state
        state = self.resource_state or "Disabled" if self.enabled is False else None
        found = _condition(state, self.health)
        if not self.taints or found not in COUNTED_CONDITIONS:
            return found
        return ", ".join((*filter(None, [found]), *(TAINTED + taint for taint in self.taints)))

    @property
    def summary(self) -> str:
        """The state, and what else forbids a use, in words for a reason."""
        words = [self.state, "in use" if self.state == "Unused" and self.compositions else ""]
        words += ["reserved" if self.reserved else "", "in the pool Active" if self.active else ""]
        words += ["" if self.enabled is not False else self.resource_state or "Disabled"]
        return ", ".join(filter(None, (*words, self.health)))

    @property
    def slots(self) -> int:
        """Return the number of nodes that may still use the block, 0 if a state forbids it."""
        if self.reserved or self.active or self.enabled is False or self.health == "Critical":
            return 0
        if self.state == "Unused" and not self.shareable:
            return 1 if self.compositions == 0 else 0
        if not self.shareable or self.state not in ("Unused", "ComposedAndAvailable"):
            return 0
        if self.max_compositions is None:
            return 1
        return max(0, self.max_compositions - self.compositions)

    @property
    def in_use(self) -> bool:
        """Whether a node, or a client that reserved it, uses the block."""
        states = ("Composing", "Composed", "ComposedAndAvailable")
        return self.state in states or self.reserved or self.compositions > 0

    @property
    def release_gain(self) -> int:
        return max(0, self.released().slots - self.slots)

    def used(self, nodes: int) -> Self:
        """Return the status as at least this number of nodes use the block."""
        if self.shareable and self.max_compositions is not None:
            state = "ComposedAndAvailable" if self.state == "Unused" else self.state
            compositions = max(self.compositions, nodes)
            return replace(self, state=state, compositions=compositions)
        return replace(self, state="Composed") if self.slots else self

    def released(self, nodes: int = 1) -> Self:
        """Return the status without nodes that use the block; bad health remains."""
        if self.state not in ("Unused", "Composed", "ComposedAndAvailable"):
            return self
        compositions = max(0, self.compositions - nodes)
        state: CompositionState = "ComposedAndAvailable" if compositions else "Unused"
        return replace(self, state=state, active=False, compositions=compositions)


class Block(Noun, Generic[D, S], frozen=True, kw_only=True, gc=False):
    """The unit of composition; identified by its URI within its podm, never by Id.

    ``places`` is its topology: its ``pcie_root``, ``switch``, ``fabric`` and ``chassis``.
    """

    uri: Name
    name: str | None = None
    type: tuple[BlockType, ...] = ()
    pools: tuple[str, ...] = ()
    places: dict[str, str] | None = None
    status: S = None  # type: ignore[assignment]
    devices: D = None  # type: ignore[assignment]


class Limit(Noun, frozen=True, gc=False):
    """The smallest and the largest number of blocks of one type in one node."""

    min: Count = 0
    max: Count | None = None


class Pool(Noun, frozen=True, kw_only=True):
    """The blocks from which one node can be composed; a Redfish ResourceZone."""

    id: Name
    name: str | None = None
    limits: dict[BlockType, Limit] = {}
    traits: tuple[str, ...] = ()


class Stock(Noun, frozen=True, kw_only=True):
    """A resource that a podm grants by amount; each amount comes from one stock.

    A grant is at least ``min``, at most ``max`` and a multiple of ``step``, all in ``unit``.
    """

    uri: Name
    resource: Name
    unit: str = ""
    name: str | None = None
    pools: tuple[str, ...] = ()
    total: Amount | None = None
    used: Amount = 0.0
    min: Amount = 0.0
    max: Amount | None = None
    step: Amount = 0.0


class Node(Noun, frozen=True, kw_only=True):
    """A composed node: its URI, the URIs of its blocks, its owner and group.

    ``flavor`` and ``request`` are known only for nodes that this program composed. A node is
    ``stale`` if its document, or one of its blocks, cannot be read: its values are as last known.
    """

    uri: Name
    name: str | None = None
    owner: str | None = None
    group: str | None = None
    blocks: tuple[str, ...] = ()
    flavor: Name | None = None
    request: NodeRequest | None = None
    stale: bool = False

    @property
    def label(self) -> str:
        """The name, or the last part of the URI; a stale node is marked."""
        name = self.name or uri_tail(self.uri)
        return f"{name} (not read)" if self.stale else name


class Podm(Noun, Generic[D, S], frozen=True, kw_only=True):
    """A pod manager with its values at one reading. A podm without pools is one pool.

    ``identity`` is the identity of its service: ``uuid:…`` or ``address:…``.
    """

    id: Name
    name: str | None = None
    url: str | None = None
    identity: Name | None = None
    driver: str | None = None
    status: PodmStatus = "Online"
    enabled: bool = True
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    traits: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    generation: Count = 0
    read_at: str | None = None
    pools: tuple[Pool, ...] = ()
    blocks: tuple[Block[D, S], ...] = ()
    stocks: tuple[Stock, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def unusable(self) -> str:
        """The state, if the default policy places no nodes in this state; else empty."""
        if not self.enabled:
            return "disabled"
        return {"Online": "", "Unknown": "unreachable"}.get(self.status, self.status)


FullBlock = Block[Devices, Status]
FullPodm = Podm[Devices, Status]
LeanBlock = Block[Raw, Raw]
LeanPodm = Podm[Raw, Raw]
FREE_STATUS, NO_DEVICES = Status(), Devices()


class InventoryHeader(Noun, frozen=True, kw_only=True):
    """The first line of a JSON Lines inventory; the podms follow, one per line."""

    schema: str
    version: str = VERSION
    captured_at: str | None = None


class Inventory(InventoryHeader, frozen=True, kw_only=True):
    """The inventory document: pod managers as they were captured."""

    podms: tuple[FullPodm, ...] = ()


class InventoryEnvelope(InventoryHeader, frozen=True, kw_only=True):
    """The document with undecoded podms, so that an invalid podm does not affect the others."""

    podms: tuple[Raw, ...] = ()


def _condition(state: str | None, health: Health | None) -> str | None:
    if health == "Critical" or state in (None, "Enabled"):
        return None if health == "OK" else health
    return state


def parse_status(text: bytes) -> Status:
    """Return the status of a block from its JSON; a block without a status is free."""
    return msgspec.json.decode(text, type=Status) if text and text != b"null" else FREE_STATUS


def parse_capabilities(text: str | Capabilities) -> Capabilities:
    """Parse ``key=value;value, key=value`` into ``{key: (values…)}``; ValueError for other text."""
    if not isinstance(text, str):
        return text
    capabilities: Capabilities = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, values = item.partition("=")
        options = tuple(value.strip() for value in values.split(";"))
        if not equals or not key.strip() or not all(options):
            raise ValueError(f"{item!r}, expected key=value or key=value;value")
        capabilities[key.strip()] = capabilities.get(key.strip(), ()) + options
    return capabilities


def capabilities_in(text: str, file: str, path: str) -> Capabilities:
    """Parse the ``capabilities`` below a path of a document; InputError if they are invalid."""
    try:
        return parse_capabilities(text)
    except ValueError as error:
        raise InputError(file, f"{path}.capabilities", str(error)) from None


def to_json(value: object) -> bytes:
    """Encode a noun as JSON with a stable field order and no insignificant space."""
    return msgspec.json.encode(value, order="deterministic")


def free_amount(stock: Stock) -> float:
    """Return the free amount of a stock, rounded to a billionth; 0 if its total is unknown."""
    if stock.total is None:
        return 0.0
    free = stock.total - stock.used
    if free % 1:
        free = round(free, 9)
    return free if free > 0.0 else 0.0


def to_a_billionth(amount: float) -> float:
    """Return an amount rounded to a billionth; other functions inline this expression for speed."""
    return amount if amount % 1 == 0 else round(amount, 9)


def largest_grant(stock: Stock) -> float:
    """Return the largest single grant of the stock."""
    largest = free_amount(stock)
    if stock.max is not None and stock.max < largest:
        largest = stock.max
    if stock.step:
        steps = math.floor(largest / stock.step + 1e-9)
        if steps * stock.step > largest + _rounding_error(largest):  # a tiny part of a huge step
            steps -= 1
        largest = steps * stock.step
        if largest % 1:
            largest = round(largest, 9)
    return largest if largest >= stock.min else 0.0


def grant_size(stock: Stock, requested: float) -> float | None:
    """Return the smallest grant of at least ``requested``, None if the stock has too little."""
    amount = requested if requested >= stock.min else stock.min
    if stock.step:
        steps = math.ceil(amount / stock.step - 1e-9)
        if steps * stock.step < amount - _rounding_error(amount):
            steps += 1
        amount = steps * stock.step
        if amount % 1:
            amount = round(amount, 9)
    return amount if amount <= largest_grant(stock) else None


def _rounding_error(amount: float) -> float:
    return 1e-9 + 1e-15 * amount


def uri_tail(uri: str) -> str:
    """Return the last part of a URI, by which people know the resource."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def uri_tails(uris: Iterable[str]) -> str:
    return ", ".join(map(uri_tail, uris))


def hidden_uri(uri: str) -> str:
    """Return the pseudonym for the URI of another owner's node, the same each time."""
    if uri.startswith(HIDDEN):
        return uri
    return HIDDEN + digest_of(uri.encode(), 8)


def visible_podm(podm: PodmT, owner: str) -> PodmT:
    """Return a pod manager in which nodes of other owners are reduced to their blocks."""
    nodes = tuple(
        node if node.owner == owner else Node(uri=hidden_uri(node.uri), blocks=node.blocks)
        for node in podm.nodes
    )
    return podm if nodes == podm.nodes else replace(podm, nodes=nodes)
