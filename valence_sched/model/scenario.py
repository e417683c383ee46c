# SPDX-License-Identifier: Apache-2.0
"""Scenarios: edits of an inventory, keyed by their verb in a file, and their targets."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from valence_sched.errors import InputError, is_not, suggest
from valence_sched.model import inventory
from valence_sched.model.base import Fact, Noun, parse_fact
from valence_sched.model.codec import convert
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import BlockType, Devices, Name, PodmStatus
from valence_sched.model.policy import Policy, PolicyText, Weight
from valence_sched.model.quantity import format_count

TARGET_FORMS = "PODM, PODM/POOL, BLOCK@PODM, BLOCK@PODM/POOL or KEY=VALUE,…"
_CONDITION = re.compile(r"(\w+)=(.*)", re.DOTALL)
_BLOCK_FIELDS = ("block", "type", "kind", "model", "free")
_WORDS = ("enabled", "reserved", "status", "health", "zone", "aggregates", "traits")
_MAPS = ("facts", "capabilities")
_KEY = rf"{'|'.join(_WORDS)}|(?:{'|'.join(_MAPS)})\.[^=]{{1,256}}"
_ASSIGNMENT = re.compile(rf"(.+?):({_KEY})=(.*)", re.DOTALL)
_ANY_ASSIGNMENT = re.compile(r".+?:([a-z]++)[^:=]*+=.*", re.DOTALL)
SCHEMA = "valence-sched/scenario"
VERSION = "1.0"
MAX_BLOCKS = 100_000  # blocks that one edit adds to one pod manager or pool
MAX_CLONES = 10_000
_PODM_ATTRIBUTES = {"enabled", "status", "zone", "aggregates", "traits", "capabilities", "facts"}


class Target(Noun, frozen=True, kw_only=True):
    """All pod managers, pools or blocks that meet each condition.

    With ``block``, ``type``, ``kind``, ``model`` or ``free`` the targets are blocks, else with
    ``pool`` pools, else pod managers. ``podm`` is an id or a name; ``block`` is a URI, the last
    part of a URI, or a name. These, ``pool``, ``zone``, ``aggregate`` and ``trait`` may be patterns
    with ``*``, ``?`` and ``[…]``. ``model`` are adjacent words of the model of a device, ``kind``
    is the kind of an accelerator. A ``free`` block can be used by at least one more node. A
    ``trait`` belongs to the pod manager or to the pool.
    """

    podm: Name | None = None
    pool: Name | None = None
    block: Name | None = None
    type: BlockType | None = None
    kind: Name | None = None
    model: Name | None = None
    free: bool | None = None
    zone: Name | None = None
    aggregate: Name | None = None
    trait: Name | None = None
    status: PodmStatus | None = None
    enabled: bool | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise ValueError("Expected at least one condition, such as podm: '*'")

    @property
    def selects_blocks(self) -> bool:
        return any(getattr(self, name) is not None for name in _BLOCK_FIELDS)

    @property
    def selects_pools(self) -> bool:
        return self.pool is not None and not self.selects_blocks

    def __str__(self) -> str:
        every = msgspec.structs.asdict(self)
        fields = {key: value for key, value in every.items() if value is not None}
        if "podm" in fields and fields.keys() <= {"podm", "pool", "block"}:
            block = f"{self.block}@" if self.block else ""
            text = f"{block}{self.podm}" + (f"/{self.pool}" if self.pool else "")
            if not _CONDITION.match(text) and _named_place(text) == self:
                return text
        words = {True: "yes", False: "no"}
        return ",".join(f"{key}={words.get(value, value)}" for key, value in fields.items())


def target_of(target: Target | str) -> Target:
    """Return a target, parsed if it is a text; InputError if the text is invalid."""
    return parse_target(target) if isinstance(target, str) else target


def parse_target(text: str) -> Target:
    """Parse one of ``TARGET_FORMS``, whose keys are the fields of a target; else InputError."""
    where = f"target {text!r}"
    if _CONDITION.match(text):
        words = {"yes": True, "no": False}
        conditions: dict[str, Any] = {}
        for part in text.split(","):
            match = _CONDITION.fullmatch(part)
            if match is None:
                raise InputError(where, "", repr(part), "KEY=VALUE")
            if match[1] in conditions:
                raise InputError(where, "", f"{match[1]!r} twice", "it once")
            conditions[match[1]] = words.get(match[2], match[2])
        return convert(conditions, Target, where)
    target = _named_place(text)
    if target is None:
        raise InputError(where, "", "another form", TARGET_FORMS)
    return target


def _named_place(text: str) -> Target | None:
    block, at, place = text.rpartition("@")
    podm, slash, pool = place.partition("/")
    if not podm or (at and not block) or (slash and not pool):
        return None
    return Target(podm=podm, pool=pool or None, block=block or None)


class _TargetedEdit(Noun, frozen=True):
    """An edit; its first field, the verb, is a target or the text of a target."""

    def __post_init__(self) -> None:
        _ = self.target  # an invalid text is refused here

    @property
    def target(self) -> Target:
        return target_of(getattr(self, self.__struct_fields__[0]))


class Fail(_TargetedEdit, frozen=True):
    """Blocks, or a pod manager with all its blocks, fail, and their nodes are lost."""

    fail: Target | str


class Drain(_TargetedEdit, frozen=True):
    """The target gets no new nodes and keeps its present nodes; pod managers are disabled."""

    drain: Target | str


class Remove(_TargetedEdit, frozen=True):
    """Pod managers, pools or blocks are removed with their nodes."""

    remove: Target | str


class Clone(_TargetedEdit, frozen=True):
    """Copies of each pod manager without nodes are added, named ``ID-2``, ``ID-3`` and so on."""

    clone: Target | str
    times: Annotated[int, Meta(ge=1, le=MAX_CLONES)] = 1

    def __post_init__(self) -> None:
        if self.target.selects_blocks or self.target.selects_pools:
            raise ValueError("Expected pod managers to clone, not pools or blocks")


class AddBlocks(Noun, frozen=True):
    """New free blocks are added to each pod manager or pool of the target.

    ``add`` is a template, or a block to copy: its name in the pod manager, or ``BLOCK@PODM``.
    """

    add: Name
    to: Target | str
    count: Annotated[int, Meta(ge=1, le=MAX_BLOCKS)] = 1

    def __post_init__(self) -> None:
        if self.target.selects_blocks:
            raise ValueError("Expected pod managers or pools to add blocks to, not blocks")

    @property
    def target(self) -> Target:
        return target_of(self.to)


class SetAttributes(_TargetedEdit, frozen=True):
    """Attributes are changed.

    Pod managers have ``enabled``, ``status``, ``zone``, ``aggregates``, ``traits``, and single
    ``capabilities`` and ``facts``, which null removes. Pools have ``traits``. Blocks have
    ``enabled``, ``health`` and ``reserved``.
    """

    set: Target | str
    enabled: bool | UnsetType = UNSET
    status: PodmStatus | UnsetType = UNSET
    zone: Name | UnsetType | None = UNSET
    aggregates: tuple[Name, ...] | UnsetType = UNSET
    traits: tuple[Name, ...] | UnsetType = UNSET
    capabilities: dict[Name, Name | tuple[Name, ...] | None] = {}
    facts: dict[Name, Fact | None] = {}
    health: inventory.Health | UnsetType | None = UNSET
    reserved: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        words, known = "pod managers", _PODM_ATTRIBUTES
        if self.target.selects_blocks:
            words, known = "blocks", {"enabled", "health", "reserved"}
        elif self.target.selects_pools:
            words, known = "pools", {"traits"}
        changes = self.changes
        if not changes or not known.issuperset(changes):
            raise ValueError(f"Expected for {words} one or more of {', '.join(sorted(known))}")

    @property
    def changes(self) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        del fields["set"]
        return {name: value for name, value in fields.items() if value is not UNSET and value != {}}


Edit = Fail | Drain | Remove | Clone | AddBlocks | SetAttributes
EDITS: dict[str, type[Edit]] = {noun.__struct_fields__[0]: noun for noun in get_args(Edit)}


def edit_text(edit: Edit) -> str:
    """Return an edit in a few words, its verb first: ``add 2xGPU-03@gpu-east``."""
    if isinstance(edit, AddBlocks):
        return f"add {edit.count}x{edit.add}@{edit.target}"
    if isinstance(edit, Clone) and edit.times > 1:
        return f"clone {edit.target} x{edit.times}"
    if isinstance(edit, SetAttributes):
        names: list[str] = []
        for name, value in edit.changes.items():
            names += [f"{name}.{key}" for key in value] if isinstance(value, dict) else [name]
        return f"set {edit.target}: {', '.join(names)}"
    return f"{edit.__struct_fields__[0]} {edit.target}"


def parse_edit(verb: str, text: str) -> Edit:
    """Parse the text of an edit after its verb, in the form of the option of the verb; ValueError.

    A clone is ``PODM`` or ``PODMxN``, an addition ``BLOCK@PODM`` or ``NxBLOCK@PODM``, a change
    ``TARGET:KEY=VALUE``; the text of the other verbs is their target.
    """
    if verb == "clone":
        match = re.fullmatch(r"(.+?)(?:x([0-9]{1,18}))?", text, re.DOTALL)
        podm, times = match.groups() if match else (text, None)
        fields = {"clone": podm, "times": int(times or 1)}
    elif verb == "add":
        match = re.fullmatch(r"(?:([0-9]{1,18})x)?(.+)@([^@]+)", text, re.DOTALL)
        if match is None:
            raise is_not("NxBLOCK@PODM, as in 2xGPU-03@rack-1", text)
        fields = {"add": match[2], "to": match[3], "count": int(match[1] or 1)}
    else:
        fields = _assignment(text) if verb == "set" else {verb: text}
    try:
        return convert(fields, EDITS[verb], repr(text))
    except InputError as error:
        where = error.document_path.removeprefix("$").removeprefix(".")
        found = "" if error.found.startswith("{") else error.found  # the parsed text
        words = InputError(repr(text), where, found, error.expected, error.hint)
        raise ValueError(str(words)) from None


def _assignment(text: str) -> dict[str, Any]:
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        keys = (*_WORDS, *(f"{word}.NAME" for word in _MAPS))
        near = _ANY_ASSIGNMENT.fullmatch(text)
        hint = suggest(near[1], keys) if near else "as in rack-1:zone=az2"
        raise is_not(f"TARGET:KEY=VALUE ({hint})", text)
    target, key, value = match.groups()
    word, _, name = key.partition(".")
    words = [part.strip() for part in value.split(";") if part.strip()]
    found: Any = {"yes": True, "no": False}.get(value, value or None)
    if word in ("aggregates", "traits"):
        found = words
    elif word == "facts":
        found = {name: parse_fact(value) if value else None}
    elif word == "capabilities":
        found = {name: words or None}
    return {"set": target, word: found}


class EditEffect(Struct, frozen=True, kw_only=True):
    """The numbers of objects that one edit changed, added or removed, and of lost nodes."""

    edit: str
    podms: int = 0
    pools: int = 0
    blocks: int = 0
    stocks: int = 0
    nodes: int = 0

    @property
    def text(self) -> str:
        """Return the edit and its effect in words: ``fail gpu-east: 1 podm, 3 blocks``."""
        nouns = ("podm", "pool", "block", "stock")
        counts = [(getattr(self, f"{noun}s"), noun) for noun in nouns]
        words = [format_count(number, noun) for number, noun in counts if number]
        if self.nodes:
            words.append(format_count(self.nodes, "node lost", "nodes lost"))
        return f"{self.edit}: {', '.join(words) or 'nothing'}"


class Template(Noun, frozen=True, kw_only=True):
    """A kind of block that can be bought: its types, its devices, and the price of one block."""

    name: Name
    description: str = ""
    type: tuple[BlockType, ...] = ()
    devices: Devices = inventory.NO_DEVICES
    places: dict[str, str] | None = None
    shareable: bool = False
    max_compositions: inventory.Count | None = None
    price: inventory.Amount | None = None


def any_of(nouns: Iterable[type]) -> Meta:
    """Return the JSON schema of a map that is one of several nouns."""
    return Meta(extra_json_schema={"anyOf": [{"$ref": f"#/$defs/{n.__name__}"} for n in nouns]})


EditText = Annotated[dict[str, Any], any_of(EDITS.values())]


class ScenarioText(Noun, frozen=True, kw_only=True):
    """A scenario as people write it.

    ``extends`` is a scenario of the same file, a file with one scenario, or ``FILE#NAME``; its
    edits are applied first. ``policy`` is the default policy of requests, ``weights`` override the
    weights of its weighers. ``policies``, ``flavors`` and ``templates`` are added to the known
    entries and replace entries with the same name.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^#]*$")]
    description: str = ""
    extends: Name | None = None
    edits: tuple[EditText, ...] = ()
    policy: Name | None = None
    weights: dict[Name, Weight] = {}
    policies: tuple[PolicyText, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    templates: tuple[Template, ...] = ()


class SingleScenario(ScenarioText, frozen=True, kw_only=True):
    """A file of one scenario."""

    schema: str = SCHEMA
    version: str = VERSION


class ScenarioFile(Noun, frozen=True, kw_only=True):
    """A file of scenarios and of their common templates."""

    schema: str = SCHEMA
    version: str = VERSION
    templates: tuple[Template, ...] = ()
    scenarios: Annotated[tuple[ScenarioText, ...], Meta(min_length=1)]


class Scenario(Struct, frozen=True, kw_only=True):
    """A scenario, and its edits and policies; ``place`` is its file and the path in it."""

    text: ScenarioText
    edits: tuple[Edit, ...]
    policies: tuple[Policy, ...]
    place: str
