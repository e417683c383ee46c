# SPDX-License-Identifier: Apache-2.0
"""Reads back a node from the documents of systems and blocks, to verify a composition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from valence_sched.drivers.composer import Session, get_document
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import link_path
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.capabilities import ComposeCapabilities
from valence_sched.drivers.redfish.reader import statuses
from valence_sched.drivers.redfish.schema import Collection, ListedSystem, ResourceBlock
from valence_sched.errors import PodmError
from valence_sched.model.composition import CompositionRequest, CompositionResult
from valence_sched.model.inventory import Status

MAX_PAGES = 1000
Blocks = Mapping[str, ResourceBlock | None]


class ReadSystems(NamedTuple):
    """The systems that were read, and the errors of those that could not be."""

    systems: list[ListedSystem]
    problems: list[PodmError]


class NodeReader:
    """Reads nodes of one pod manager, anew each time; ``capabilities`` returns what it offers."""

    def __init__(self, session: Session, capabilities: Callable[[], ComposeCapabilities]) -> None:
        self._session, self._capabilities = session, capabilities

    def read_node(
        self, request: CompositionRequest, node: str | None, *, same_blocks: bool = False
    ) -> CompositionResult:
        """Read a node, by its URI or by its name and its blocks.

        A system that is not ours is never taken for the node, wherever a link leads. With
        ``same_blocks`` a system of another name that is made of the very blocks leaves it unknown.

        Raises:
            PodmError: it cannot be read.
        """
        blocks = {uri: self.block(uri) for uri in request.blocks}
        seen = ReadSystems([], [])
        system = next(self._own_systems(request, node, blocks, seen), None)
        if system is not None:
            return self._result_of(request, system, blocks)
        if seen.problems and not all(block and is_free(block) for block in blocks.values()):
            raise seen.problems[0]
        same = [it for it in seen.systems if _is_composed(it) and _is_made_of(it, request)]
        if same_blocks and same:
            words = f"{same[0].uri} is made of the very blocks, under the name {same[0].name!r}"
            return CompositionResult(state="unknown", reason=f"{words}: whose it is cannot be told")
        return _without_node(blocks, seen.systems)

    def block_conflict(self, uri: str) -> str | None:
        """Return the state of a block that no more nodes can have, None when one can."""
        block = self.block(uri)
        if block is None or not status_of(block).slots:
            return describe_block(block)
        users = [] if status_of(block).shareable else list(self._composed_systems(block))
        return f"found {status_of(block).state}, and part of {', '.join(users)}" if users else None

    def _result_of(
        self, request: CompositionRequest, system: ListedSystem, blocks: Blocks
    ) -> CompositionResult:
        made_of = {
            uri: blocks[uri] if uri in blocks else self.block(uri)
            for uri in filter(None, (link_path(link) for link in system.blocks))
        }
        problem = self._problem(request, system, made_of)
        return CompositionResult(
            state="left" if problem else "composed",
            node=system.uri,
            blocks=tuple(made_of),
            reason=problem,
            works=_any_composing(made_of.values()),
        )

    def _problem(self, request: CompositionRequest, system: ListedSystem, made_of: Blocks) -> str:
        """Return why a system is not the node that was wanted; empty when it is."""
        idle = [uri for uri, block in made_of.items() if block is None or is_free(block)]
        broken = [uri for uri, block in made_of.items() if _state(block) == "Failed"]
        missing = [uri for uri in request.blocks if uri not in made_of]
        if not made_of:
            return f"{system.uri} is there without any block"
        if idle:
            return f"{system.uri} is there, and {', '.join(idle)} is not composed"
        if broken:
            return f"{system.uri} is there, and {', '.join(broken)} is Failed"
        if missing and methods.composes_exact_blocks(self._capabilities(), request):
            return f"{system.uri} is there without {', '.join(missing)}"
        others = sorted({other for block in made_of.values() if block
                         for other in self._composed_systems(block) if other != system.uri
                         and not status_of(block).shareable})  # fmt: skip
        return f"its blocks are part of {', '.join(others)} too" if others else ""

    def _composed_systems(self, block: ResourceBlock) -> Iterator[str]:
        for link in block.in_systems:
            system = self._system(link_path(link))
            if system is not None and _is_composed(system):
                yield system.uri

    def _own_systems(
        self, request: CompositionRequest, node: str | None, blocks: Blocks, seen: ReadSystems
    ) -> Iterator[ListedSystem]:
        """Yield our node: the system at its URI, those that its blocks link, all systems."""
        named = self._system_or_none(node, seen)
        if named is not None and (named.name == request.name or _is_made_of(named, request)):
            yield named
        near = [link for block in blocks.values() if block for link in block.in_systems]
        known: set[str | None] = set()
        for link in (*near, *self._systems()):
            uri = link_path(link)
            system = None if uri in known else self._system_or_none(uri, seen)
            known.add(uri)
            if system is not None and request.name and system.name == request.name:
                yield system

    def _system_or_none(self, uri: str | None, seen: ReadSystems) -> ListedSystem | None:
        try:
            system = self._system(uri)
        except PodmError as error:
            seen.problems.append(error)
            return None
        seen.systems.extend([system] if system else [])
        return system

    def _systems(self) -> Iterator[str]:
        page = self._capabilities().systems
        for _ in range(MAX_PAGES):
            json = get_document(self._session, page) if page else None
            if json is None:
                return
            collection = Collection(str(page), json, NO_NOTES)
            yield from collection.members
            page = link_path(collection.next_page)

    def _system(self, uri: str | None) -> ListedSystem | None:
        json = get_document(self._session, uri) if uri else None
        return ListedSystem(str(uri), json, NO_NOTES) if json else None

    def block(self, uri: str) -> ResourceBlock | None:
        """Return a block as it is now, None when it is gone; errors as for :meth:`read_node`."""
        json = get_document(self._session, uri)
        return ResourceBlock(uri, json, NO_NOTES) if json else None


def _without_node(blocks: Blocks, systems: Iterable[ListedSystem]) -> CompositionResult:
    """Return the state of the blocks when there is no node: free, or used by a client.

    Some blocks name no system, so the links of composed systems count as well.
    """
    used = {uri: block for uri, block in blocks.items() if block is None or not is_free(block)}
    foreign = {link_path(link) for it in systems if _is_composed(it) for link in it.blocks}
    ours = [uri for uri, block in used.items() if block and not block.in_systems
            and uri not in foreign]  # fmt: skip
    reason = "; ".join(f"{uri}: {describe_block(block)}" for uri, block in used.items())
    return CompositionResult(
        state="left" if ours else "absent", reason=reason, works=_any_composing(blocks.values())
    )


def status_of(block: ResourceBlock) -> Status:
    """Return how far a block is in use."""
    return statuses([block], ())[block.uri]


def is_free(block: ResourceBlock) -> bool:
    """Return whether no node uses a block, reserved or not."""
    return status_of(block).state in ("Unused", "Unknown")


def describe_block(block: ResourceBlock | None) -> str:
    """Return in words how a block stands."""
    if block is None:
        return "found no such block"
    status = status_of(block)
    words = [status.state, "reserved" if status.reserved else "", status.health or ""]
    by = ", ".join(filter(None, (link_path(link) for link in block.in_systems)))
    return "found " + ", ".join(filter(None, words)) + (f" by {by}" if by else "")


def _is_composed(system: ListedSystem) -> bool:
    return (system.type or "").casefold() == "composed"


def _is_made_of(system: ListedSystem, request: CompositionRequest) -> bool:
    return bool(request.blocks) and {link_path(link) for link in system.blocks} == set(
        request.blocks
    )


def _any_composing(blocks: Iterable[ResourceBlock | None]) -> bool:
    return any(_state(block) == "Composing" for block in blocks)


def _state(block: ResourceBlock | None) -> str | None:
    return status_of(block).state if block else None
