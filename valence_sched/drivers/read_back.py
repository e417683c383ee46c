# SPDX-License-Identifier: Apache-2.0
"""What there is of a node on a Redfish service, by its own documents and those of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from valence_sched.drivers import ways
from valence_sched.drivers.block_states import statuses
from valence_sched.drivers.hands import Wire
from valence_sched.drivers.offered import document, offered, path, unheard
from valence_sched.drivers.resources import Collection, ListedSystem, ResourceBlock
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.inventory import Status

MAX_PAGES = 1000


class ReadBack:
    """Looks at one pod manager; every look reads anew."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def look(self, wanted: Wanted, node: str | None) -> Outcome:
        """Read what there is of a node, by its URI or by its name and its blocks.

        Raises:
            PodmError: it cannot be read.
        """
        blocks = {uri: self.block(uri) for uri in wanted.blocks}
        system = self._system(node) if node else None
        if system is None:
            system = next(self._called(wanted.name, blocks), None)
        if system is None:
            return _without_node(blocks)
        made_of = {
            uri: blocks[uri] if uri in blocks else self.block(uri)
            for uri in filter(None, (path(link) for link in system.blocks))
        }
        problem = self._problem(wanted, system, made_of)
        return Outcome(
            state="left" if problem else "composed",
            node=system.uri,
            blocks=tuple(made_of),
            reason=problem,
            works=_any_works(made_of.values()),
        )

    def _problem(
        self, wanted: Wanted, system: ListedSystem, made_of: Mapping[str, ResourceBlock | None]
    ) -> str:
        """Return why a system is not the node that was wanted; empty when it is."""
        idle = [uri for uri, block in made_of.items() if block is None or _is_free(block)]
        missing = [uri for uri in wanted.blocks if uri not in made_of]
        if not made_of:
            return f"{system.uri} is there without any block"
        if idle:
            return f"{system.uri} is there, and {', '.join(idle)} is not composed"
        if missing and ways.takes_blocks(offered(self._wire), wanted):
            return f"{system.uri} is there without {', '.join(missing)}"
        others = sorted({other for block in made_of.values() if block
                         for other in self._composed(block) if other != system.uri
                         and not status_of(block).shareable})  # fmt: skip
        return f"its blocks are part of {', '.join(others)} too" if others else ""

    def _composed(self, block: ResourceBlock) -> Iterator[str]:
        """Yield the composed systems that a block says it is part of."""
        for link in block.in_systems:
            system = self._system(path(link))
            if system is not None and (system.type or "").casefold() == "composed":
                yield system.uri

    def _called(
        self, name: str, blocks: Mapping[str, ResourceBlock | None]
    ) -> Iterator[ListedSystem]:
        """Yield the systems of this name: those of the blocks first, then all there are."""
        near = [link for block in blocks.values() if block for link in block.in_systems]
        for link in dict.fromkeys([*near, *self._systems()]):
            system = self._system(path(link))
            if system is not None and system.name == name:
                yield system

    def _systems(self) -> Iterator[str]:
        page = offered(self._wire).systems
        for _ in range(MAX_PAGES):
            json = document(self._wire, page) if page else None
            if json is None:
                return
            collection = Collection(str(page), json, unheard)
            yield from collection.members
            page = path(collection.next_page)

    def _system(self, uri: str | None) -> ListedSystem | None:
        json = document(self._wire, uri) if uri else None
        return ListedSystem(str(uri), json, unheard) if json else None

    def block(self, uri: str) -> ResourceBlock | None:
        """Return a block as it is now, None when it is gone; errors as for :meth:`look`."""
        json = document(self._wire, uri)
        return ResourceBlock(uri, json, unheard) if json else None


def _without_node(blocks: Mapping[str, ResourceBlock | None]) -> Outcome:
    """Return what is there when the node is not: nothing, or blocks that somebody uses."""
    used = {uri: block for uri, block in blocks.items() if block is None or not _is_free(block)}
    ours = [uri for uri, block in used.items() if block and not block.in_systems]
    reason = "; ".join(f"{uri}: {stands(block)}" for uri, block in used.items())
    return Outcome(
        state="left" if ours else "absent", reason=reason, works=_any_works(blocks.values())
    )


def status_of(block: ResourceBlock) -> Status:
    """Return how far a block is in use."""
    return statuses([block], ())[block.uri]


def _is_free(block: ResourceBlock) -> bool:
    """Return whether no node uses a block, reserved or not."""
    return status_of(block).state in ("Unused", "Unknown")


def _any_works(blocks: Iterable[ResourceBlock | None]) -> bool:
    return any(block is not None and status_of(block).state == "Composing" for block in blocks)


def stands(block: ResourceBlock | None) -> str:
    """Return in words how a block stands."""
    if block is None:
        return "found no such block"
    status = status_of(block)
    words = [status.state, "reserved" if status.reserved else "", status.health or ""]
    by = ", ".join(filter(None, (path(link) for link in block.in_systems)))
    return "found " + ", ".join(filter(None, words)) + (f" by {by}" if by else "")
