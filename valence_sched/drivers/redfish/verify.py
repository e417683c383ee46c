# SPDX-License-Identifier: Apache-2.0
"""Reads back a node from the documents of systems and blocks to verify a composition."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched.drivers import composer
from valence_sched.drivers.composer import Reply, Session, get_document, read_resource
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import ROOT, fold_uri, link_path, link_paths
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.describe import IN_USE, is_free_host, is_host_part, own_status
from valence_sched.drivers.redfish.methods import ComposeCapabilities, Host, composes_exact_blocks
from valence_sched.drivers.redfish.schema import ListedSystem, ResourceBlock, ServiceRoot
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, NodeState
from valence_sched.model.inventory import Status

Blocks = Mapping[str, ResourceBlock | None]


class Written(NamedTuple):
    """A write of this process: the systems before the write, and whether it succeeded."""

    before: frozenset[str]
    succeeded: bool = False

    def is_new(self, system: ListedSystem) -> bool:
        return fold_uri(system.uri) not in self.before


class NodeReader:
    """Reads nodes of one pod manager without a cache; the block of a node may still be Unused."""

    def __init__(self, session: Session, capabilities: Callable[[], ComposeCapabilities]) -> None:
        self._session, self._capabilities = session, capabilities
        self._made: set[tuple[str, str]] = set()
        self._last: dict[str, ResourceBlock | None] = {}
        self._free: dict[str, Status] = {}
        self._read: dict[str, ListedSystem | None] = {}
        self._seen: list[ListedSystem] = []
        self._problems: list[PodmError] = []  # of unreadable systems
        self._is_host_part = functools.cache(self._read_host_part)

    def conflicts(self, request: CompositionRequest) -> Iterator[str]:
        self._read.clear()
        for uri in request.blocks:
            if why := self.block_conflict(uri):
                yield f"{uri}: {why}"
            elif block := self._last[uri]:
                self._free[uri] = own_status(block)

    def read_node(
        self,
        request: CompositionRequest,
        node: str | None,
        *,
        same_blocks: bool = False,
        written: Written | None = None,
        confirmed: bool = False,
        deleted: bool = False,
    ) -> CompositionResult:
        """Read a node by its URI, or by its name and blocks; ``unknown`` if it is unreadable.

        The node is a system of the requested name, a new system that our write returned or that has
        the blocks, or a host to which the blocks are attached. With ``same_blocks``, any other
        system of the blocks makes it ``unknown``. With ``confirmed``, a node that no block confirms
        is ``unknown``. A ``deleted`` node is ``absent`` if its URI is gone, or its host has only
        its own blocks, and its blocks are free.
        """
        self._read, self._seen, self._problems = {}, [], []
        try:
            blocks = {uri: self.block(uri) for uri in request.blocks}
            if deleted and node and self._is_gone(node, blocks):
                return CompositionResult(state="absent")
            system = next(self._own_systems(request, node, blocks, written), None)
            if system is not None:
                return self._result_of(request, system, blocks, confirmed)
            if self._problems and not all(block and is_free(block) for block in blocks.values()):
                raise self._problems[0]
            if not deleted and (linking := _linking(request, node, blocks)):
                reason = f"found no node, but {', '.join(linking)} links it"
                return CompositionResult(state="unknown", blocks=linking, reason=reason)
            if doubtful := self._doubtful(request, same_blocks, written):
                return CompositionResult(state="unknown", reason=doubtful)
            return _without_node(blocks, self._seen)
        except PodmError as error:
            return composer.unread_result(error, node)

    def system_uris(self) -> frozenset[str]:
        return frozenset(map(fold_uri, self._systems()))

    def block_conflict(self, uri: str, node: str | None = None) -> str | None:
        """Return the state of a block that prevents its use by another node, else None.

        With the ``node`` to which it would be attached, an idle host has its own blocks too.
        """
        block = self.block(uri)
        if block is None or not own_status(block).slots:
            return describe_block(block)
        users = [] if own_status(block).shareable else list(self._holders(block, node))
        return f"found {own_status(block).state}, but part of {', '.join(users)}" if users else None

    def user_conflict(self, uri: str, node: str) -> str | None:
        """Return the use of a block by another client, None if it can be attached or is broken."""
        why, block = self.block_conflict(uri, node), self.last_block(uri)
        if block is None or fold_uri(node) in _folded(block.in_systems):
            return None
        status = own_status(block)
        return why if status.slots or status.reserved or status.state in IN_USE else None

    def host(self, uri: str) -> Host | None:
        """Return a host on which nodes are composed, None for another system."""
        return self._host(self._system(uri))

    def is_idle_host(self, uri: str) -> bool:
        """Read a system again, and return whether it is a host without attached blocks."""
        self._read.pop(fold_uri(uri), None)
        host = self.host(uri)
        return host is not None and not host.attached

    def system(self, uri: str) -> ListedSystem:
        """Read a system again; PodmError if it does not exist or is unreadable."""
        self._read.clear()
        if (found := self._system(uri)) is None:
            raise PodmError(f"{uri}: found no such system")
        return found

    def present_blocks(self, system: ListedSystem, known: Iterable[str]) -> tuple[str, ...]:
        """Return the blocks that a system lists, or if it lists none, known blocks that link it."""
        if uris := tuple(dict.fromkeys(link_paths(system.blocks))):
            return uris
        blocks = filter(None, map(self.block, known))
        return tuple(it.uri for it in blocks if fold_uri(system.uri) in _folded(it.in_systems))

    def block_uris(self) -> Iterator[str]:
        """Yield the blocks of all collections."""
        root = read_resource(self._session, ServiceRoot, ROOT)
        read = functools.partial(read_resource, self._session, schema.CompositionService)
        listed = [service.blocks for service in map(read, link_paths(root.composition))]
        for uri in dict.fromkeys(link_paths(itertools.chain(root.blocks, *listed))):
            yield from composer.member_uris(self._session, uri)

    def fixed_blocks(
        self, system: ListedSystem, leaving: Iterable[str], coming: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return the blocks that cannot leave a system: the own parts of a host.

        A composed system can be without one compute block if it has another.
        """
        listed = _folded(system.blocks)
        gone = listed & {fold_uri(uri) for uri in leaving if self._is_host_part(uri)}
        stays = [uri for uri in (*link_paths(system.blocks), *coming) if fold_uri(uri) not in gone]
        if not gone or (system.is_composed and any(map(self._is_host_part, stays))):
            return ()
        return tuple(uri for uri in leaving if fold_uri(uri) in gone)

    def other_users(self, node: str, blocks: Iterable[str]) -> Iterator[str]:
        """Yield a line for each block that another system lists without a link of the block."""
        wanted = set(map(fold_uri, blocks))
        for system in filter(None, map(self._system, self._systems())):
            if fold_uri(system.uri) != fold_uri(node):
                found = (uri for uri in link_paths(system.blocks) if fold_uri(uri) in wanted)
                yield from (f"{uri}: found part of {system.uri}" for uri in found)

    def shows_use(self, system: ListedSystem) -> bool:
        """Return whether a block of a system shows its use, by its state or a link.

        The link of a host's own part shows nothing of other blocks.
        """
        for block in filter(None, map(self.block, link_paths(system.blocks))):
            links_it = fold_uri(system.uri) in _folded(block.in_systems)
            in_use = own_status(block).state in IN_USE
            if in_use or (links_it and not self._is_host_part(block.uri)):
                return True
        return False

    def host_of(self, request: CompositionRequest) -> Host | None:
        """Return the host with a compute block of the request."""
        for block in filter(None, map(self.last_block, request.blocks)):
            for host in map(self._host, map(self._system, link_paths(block.in_systems))):
                if host is not None and fold_uri(block.uri) in _folded(host.own):
                    return host
        return None

    def _host(self, system: ListedSystem | None) -> Host | None:
        """Return a system as a host, None if it was composed or can be composed as a whole."""
        if system is None or system.is_composed or self._capabilities().composes:
            return None
        uris = tuple(dict.fromkeys(link_paths(system.blocks)))
        blocks = [block for block in map(self.last_block, uris) if block]
        if any(self._is_whole(block, system) for block in blocks):
            return None
        own = {block.uri for block in blocks if self._is_host_part(block.uri)}
        attached = tuple(uri for uri in uris if uri not in own)
        return Host(system.uri, tuple(uri for uri in uris if uri in own), attached) if own else None

    def _read_host_part(self, uri: str) -> bool:
        block = self.last_block(uri)
        return block is not None and is_host_part(composer.live_documents(self._session), block)

    def _is_whole(self, block: ResourceBlock, system: ListedSystem) -> bool:
        is_system = fold_uri(system.uri) in _folded(block.systems)
        return is_free_host(block, len(_folded(system.blocks)), is_system=is_system)

    def _has_attached(self, system: ListedSystem, request: CompositionRequest) -> bool:
        """Return whether a system is the host of the request with at least one of its blocks.

        A request for the host alone has a host without attached blocks.
        """
        if (host := self._host(system)) is None:
            return False
        wanted, attached = _folded(request.blocks), _folded(host.attached)
        own = wanted & _folded(host.own)
        return bool(own) and (not wanted.isdisjoint(attached) if own != wanted else not attached)

    def _is_gone(self, node: str, blocks: Blocks) -> bool:
        system = self._system_or_none(node)
        host = self._host(system)
        if self._problems or None in blocks.values() or (system and (not host or host.attached)):
            return False
        own = _folded(host.own) if host else ()
        known = [block for block in blocks.values() if block and fold_uri(block.uri) not in own]
        linked = (fold_uri(node) in _folded(block.in_systems) for block in known)
        return not any(linked) and all(is_free(it) or own_status(it).shareable for it in known)

    def _result_of(
        self, request: CompositionRequest, system: ListedSystem, blocks: Blocks, confirmed: bool
    ) -> CompositionResult:
        uris = blocks_of(system, request)
        made_of = {uri: blocks[uri] if uri in blocks else self.block(uri) for uri in uris}
        problem = self._problem(request, system, made_of)
        found = CompositionResult(state="composed", node=system.uri, blocks=tuple(made_of))
        if not (problem or not confirmed or self._is_confirmed(system, made_of)):
            states = "; ".join(f"{uri}: {describe_block(block)}" for uri, block in made_of.items())
            reason = f"{system.uri} exists, but is not confirmed by any block ({states})"
            return replace(found, state="unknown", reason=reason)
        composing = [uri for uri, block in made_of.items() if is_composing(block)]
        goes_on = f"{system.uri} exists, and {', '.join(composing)} is Composing"
        reason = problem or (goes_on if composing else "")
        state: NodeState = "left" if problem else "composed"
        return replace(found, state=state, reason=reason, works=bool(composing))

    def _is_confirmed(self, system: ListedSystem, made_of: Blocks) -> bool:
        """Return whether a block shows the system; none does if a service only stores requests.

        The own blocks of a host always show it.
        """
        host = self._host(system)
        own = host.own if host and host.attached else ()
        for uri, block in made_of.items():
            if block is None or uri in own:
                continue
            now, before = own_status(block), self._free.get(uri)
            was = (before.state, before.compositions) if before else None
            is_new = now.state in IN_USE and (now.state, now.compositions) != was
            if is_new or fold_uri(system.uri) in _folded(block.in_systems):
                return True
        return False

    def _problem(self, request: CompositionRequest, system: ListedSystem, made_of: Blocks) -> str:
        missing = request.missing_blocks(made_of)
        if not made_of:
            return f"{system.uri} exists without any block"
        if gone := [uri for uri, block in made_of.items() if block is None]:
            return f"{system.uri} exists, but {', '.join(gone)} does not"
        if broken := [uri for uri, block in made_of.items() if _state(block) == "Failed"]:
            return f"{system.uri} exists, but {', '.join(broken)} is Failed"
        if missing and composes_exact_blocks(self._capabilities(), request):
            return f"{system.uri} exists without {', '.join(missing)}"
        others = sorted(self._other_systems(system, made_of))
        return f"its blocks are also part of {', '.join(others)}" if others else ""

    def _other_systems(self, system: ListedSystem, made_of: Blocks) -> set[str]:
        """Return other systems with the blocks; reads all, since a free block may lack the link."""
        own = [block for block in made_of.values() if block and not own_status(block).shareable]
        near = (self._system(uri) for block in own for uri in link_paths(block.in_systems))
        others = {it.uri for it in near if it is not None and it.is_composed}
        if idle := {fold_uri(block.uri) for block in own if is_free(block)}:
            every = filter(None, map(self._system, self._systems()))
            others.update(it.uri for it in every if it.is_composed and idle & _folded(it.blocks))
        return {uri for uri in others if fold_uri(uri) != fold_uri(system.uri)}

    def _holders(self, block: ResourceBlock, node: str | None = None) -> Iterator[str]:
        for system in filter(None, map(self._system, link_paths(block.in_systems))):
            is_named = fold_uri(block.uri) in _folded(system.blocks)
            is_host = is_named and not self._is_whole(block, system)
            host = self._host(system) if is_host and not node else None
            is_used = system.is_composed or (is_host and (host is None or host.attached))
            if is_used and fold_uri(system.uri) != fold_uri(node or ""):
                yield system.uri

    def _own_systems(
        self, request: CompositionRequest, node: str | None, blocks: Blocks, written: Written | None
    ) -> Iterator[ListedSystem]:
        """Yield our node; search its URI, the systems that its blocks link, then all systems."""
        named = self._system_or_none(node)
        new_to = written.is_new if written is not None and written.succeeded else lambda _: False
        if named is not None and self._has_attached(named, request):
            yield named
        elif named is not None:
            made = (request.name, fold_uri(named.uri))
            is_named = request.names(named.name, named.uri) or _is_made_of(named, request)
            if is_named or made in self._made or new_to(named):
                self._made.add(made)
                yield named
        near = [uri for it in blocks.values() if it for uri in link_paths(it.in_systems)]
        # Systems from before our write are not ours.
        known = set(written.before) - {fold_uri(uri) for uri in near} if written else set()
        for uri in itertools.chain(near, self._systems()):
            system = None if fold_uri(uri) in known else self._system_or_none(uri)
            known.add(fold_uri(uri))
            if system is not None and request.names(system.name, system.uri):
                yield system
        for system in self._seen:
            if new_to(system) and _is_ours(system, request):
                self._made.add((request.name, fold_uri(system.uri)))
                yield system
        yield from (it for it in self._seen if self._has_attached(it, request))

    def _doubtful(self, request: CompositionRequest, same: bool, written: Written | None) -> str:
        """Return the reason to suspect that a system is the node, empty if there is no reason."""
        exact = composes_exact_blocks(self._capabilities(), request)
        wanted = {fold_uri(uri) for uri in request.blocks}
        for it in (it for it in self._seen if it.is_composed):
            called = f"under the name {it.name!r}: the owner is unknown"
            is_new = written is not None and written.is_new(it)
            if same and (_is_made_of(it, request) or (is_new and _is_ours(it, request))):
                return f"{it.uri} has the same blocks, {called}"
            near = is_new and (not exact or wanted & _folded(it.blocks))
            if near and written and written.succeeded:
                return f"the service reported success, and {it.uri} is new, {called}"
        return ""

    def _system_or_none(self, uri: str | None) -> ListedSystem | None:
        try:
            system = self._system(uri)
        except PodmError as error:
            self._problems.append(error)
            return None
        if system is not None:
            self._seen.append(system)
        return system

    def _systems(self) -> Iterator[str]:
        return composer.member_uris(self._session, self._capabilities().systems)

    def _system(self, uri: str | None) -> ListedSystem | None:
        if not uri:
            return None
        folded = fold_uri(uri)
        if folded not in self._read:
            json, system = get_document(self._session, uri), None
            stated = (json or {}).get("@odata.id")
            own = link_path(stated) if isinstance(stated, str) else None
            is_named = own is not None and fold_uri(own) == folded
            if json is not None and "Members" not in json:
                if not json:
                    raise PodmError(f"{uri}: found an empty document, expected a system")
                system = ListedSystem(own if own and is_named else uri, json, NO_NOTES)
            elif own and not is_named:  # a link may name a collection, but this is another document
                raise PodmError(f"{uri}: found the collection {own}, expected a system")
            self._read[folded] = system
        return self._read[folded]

    def block(self, uri: str) -> ResourceBlock | None:
        """Return the present block, None if it is gone; PodmError if it is unreadable."""
        json = get_document(self._session, uri)
        block = self._last[uri] = ResourceBlock(uri, json, NO_NOTES) if json else None
        return block

    def last_block(self, uri: str) -> ResourceBlock | None:
        return self._last[uri] if uri in self._last else self.block(uri)

    def block_of_reply(self, uri: str, reply: Reply) -> ResourceBlock | None:
        json = reply.body
        if reply.status != 200 or not json or not isinstance(json.get("CompositionStatus"), dict):
            return None
        block = self._last[uri] = ResourceBlock(uri, json, NO_NOTES)
        return block


def _linking(request: CompositionRequest, node: str | None, blocks: Blocks) -> tuple[str, ...]:
    """Return the used blocks that link the node by its URI or its name."""

    def links_it(block: ResourceBlock) -> bool:
        every, own = link_paths(block.in_systems), fold_uri(node or "")
        return any(fold_uri(uri) == own or request.names(None, uri) for uri in every)

    return tuple(uri for uri, it in blocks.items() if it and not is_free(it) and links_it(it))


def _without_node(blocks: Blocks, systems: Iterable[ListedSystem]) -> CompositionResult:
    """Return the result without a node: ``left`` if blocks or links of systems show its use."""
    quiet = {uri for uri, it in blocks.items() if it and (is_free(it) or own_status(it).shareable)}
    used = {uri: block for uri, block in blocks.items() if uri not in quiet}
    foreign = {uri for it in systems if it.is_composed for uri in _folded(it.blocks)}
    nameless = (uri for uri, block in used.items() if block and not block.in_systems)
    ours = [uri for uri in nameless if fold_uri(uri) not in foreign]
    reason = "; ".join(f"{uri}: {describe_block(block)}" for uri, block in used.items())
    works = any(map(is_composing, blocks.values()))
    return CompositionResult(state="left" if ours else "absent", reason=reason, works=works)


def is_free(block: ResourceBlock) -> bool:
    return own_status(block).state in ("Unused", "Unknown")


def is_composing(block: ResourceBlock | None) -> bool:
    return _state(block) == "Composing"


def describe_block(block: ResourceBlock | None) -> str:
    if block is None:
        return "found no such block"
    by = ", ".join(link_paths(block.in_systems))
    return f"found {own_status(block).summary}" + (f" by {by}" if by else "")


def blocks_of(system: ListedSystem, request: CompositionRequest) -> tuple[str, ...]:
    """Return the blocks that a system links, each as the request spells it."""
    spelled = {fold_uri(uri): uri for uri in request.blocks}
    uris = link_paths(system.blocks)
    return tuple(dict.fromkeys(spelled.get(fold_uri(uri), uri) for uri in uris))


def _folded(links: Iterable[str]) -> set[str]:
    return set(map(fold_uri, link_paths(links)))


def _is_made_of(system: ListedSystem, request: CompositionRequest) -> bool:
    return bool(request.blocks) and set(blocks_of(system, request)) == set(request.blocks)


def _is_ours(system: ListedSystem, request: CompositionRequest) -> bool:
    return bool(request.blocks) and not request.missing_blocks(blocks_of(system, request))


def _state(block: ResourceBlock | None) -> str | None:
    return own_status(block).state if block else None
