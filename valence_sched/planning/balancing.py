# SPDX-License-Identifier: Apache-2.0
"""Balancing: the fewest moves of nodes that make room for one more, or that end fragmentation.

A node takes its new place before it leaves the old one. Nodes that the inventory says too little
of do not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from valence_sched.errors import RequestError
from valence_sched.model.relocation import (
    NEVER,
    NodeMove,
    Rebalance,
    RebalanceMove,
    Room,
    SiteMeasure,
)
from valence_sched.model.request import Mix, Request
from valence_sched.planning.optimise.defragment import defragment
from valence_sched.planning.optimise.migration_state import Migration, MigrationState, MovableNode
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.optimise.podm_fragmentation import PodmFragmentation
from valence_sched.planning.optimise.podm_room import PodmRoom
from valence_sched.planning.optimise.rebalance import fewest_migrations
from valence_sched.planning.residents import Resident, Residents, hardware_notes
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.view.fragmentation import ACCELERATORS, FlavorMix, flavor_mix, has_accelerators
from valence_sched.view.view import View


def make_room(site: Site, request: Request, most: int, mix: Mix | None = None) -> Rebalance:
    """Return the fewest moves, at most so many, after which one more node of a request fits.

    Fragmentation is that of the ``mix``, by default the site's.

    Raises:
        UnknownName, RequestError: the policies cannot place the node, or those that move.
    """
    movable = _MovableNodes(site)
    wanted = movable.type_of(request)
    nodes = movable.nodes
    plan = fewest_migrations(movable.view, movable.types, wanted, nodes, most=most)
    room = None
    if plan.fit is not None:
        podm, pool, blocks = movable.place(plan.fit.row, plan.fit.blocks)
        room = Room(podm=podm, pool=pool, blocks=blocks)
    before, moves = movable.moves(plan.migrations, wanted, _usable_mix(movable.view, mix, site))
    return Rebalance(flavor=request.flavor or request.id, moves=moves, reached=room is not None,
                     room=room, before=before, least=plan.least, complete=plan.complete,
                     waiting=movable.names(plan.waiting),
                     notes=movable.notes(plan.migrations))  # fmt: skip


def end_fragmentation(
    site: Site, below: float, most: int, request: Request | None = None, mix: Mix | None = None
) -> Rebalance:
    """Return the fewest moves, at most so many, after which fragmentation is below a share.

    It is that of the ``mix``, by default the site's. With a ``request`` the moves say for how many
    of its nodes there is room.

    Raises:
        RequestError: there is no accelerator, or no flavor of the mix that needs one.
        UnknownName, RequestError: the policies cannot place the nodes that move.
    """
    movable = _MovableNodes(site)
    wanted = None if request is None else movable.type_of(request)
    nodes, usable = movable.nodes, _usable_mix(movable.view, mix, site)
    if usable is None:
        raise RequestError(_absence(movable.view))
    plan = defragment(movable.view, movable.types, nodes, usable, below, most=most)
    before, moves = movable.moves(plan.migrations, wanted, usable)
    return Rebalance(
        flavor=None if request is None else request.flavor or request.id,
        below=below,
        moves=moves,
        reached=plan.reached,
        before=before,
        least=plan.least,
        complete=plan.complete,
        notes=movable.notes(plan.migrations),
    )


def _usable_mix(view: View, mix: Mix | None, site: Site) -> FlavorMix | None:
    """Return the compiled mix; None where fragmentation is not defined."""
    shares = site.mix() if mix is None else mix
    if not shares.shares or not has_accelerators(view):
        return None
    return flavor_mix(view, shares, ACCELERATORS) or None


def _absence(view: View) -> str:
    if not has_accelerators(view):
        return "fragmentation: no pod manager has an accelerator, so there is none to reduce"
    return "fragmentation: no flavor of the mix needs an accelerator: name one that does in --mix"


@dataclass(slots=True)
class _MovableNodes:
    """The nodes of a site that may move, and the types of what they ask for again."""

    site: Site
    view: View = field(init=False)
    types: list[NodeType] = field(default_factory=list)
    nodes: Sequence[MovableNode] = field(init=False)
    _residents: Residents = field(init=False)
    _movable: list[Resident] = field(init=False)
    _succession: Succession = field(init=False)
    _numbers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = self.site.view()
        self._residents = Residents(self.view, self.site.policy, self.site.flavors)
        self._succession = Succession(self.site.decider())
        self._movable = [one for one in self._residents if one.request is not None]
        self.nodes = [self._node(one) for one in self._movable]

    def notes(self, migrations: Sequence[Migration]) -> tuple[str, ...]:
        """Return notes about nodes that do not move, and about what those ask for that do."""
        moving = (self._movable[migration.node] for migration in migrations)
        return (*self._residents.notes, *hardware_notes(moving))

    def type_of(self, request: Request) -> int:
        """Return the number of the type of a request; errors as for a decision."""
        number = self._numbers.get(id(request))
        if number is None:
            number = self._numbers[id(request)] = len(self.types)
            self.types.append(NodeType.of(request, self._succession.eligible(request)))
        return number

    def names(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return the names of nodes by their numbers."""
        return tuple(self._movable[number].name for number in numbers)

    def place(self, row: int, blocks: tuple[int, ...]) -> tuple[str, str, tuple[str, ...]]:
        """Return the pod manager, the pool and the blocks of a place, as results name them."""
        table = self.view.block_tables[self.view.podm_of[row]]
        uris = tuple(table.uris[block] for block in blocks)
        return self.view.podm(row).id, self.view.pools[row].id, uris

    def moves(
        self, migrations: Sequence[Migration], wanted: int | None, mix: FlavorMix | None
    ) -> tuple[SiteMeasure, tuple[RebalanceMove, ...]]:
        """Return what the site has before all moves, and the moves, each with what it has after."""
        state = MigrationState(self.view, tuple(self.types), self.nodes, NEVER)
        room = None if wanted is None else PodmRoom(state, wanted)
        fragmentation = None if mix is None else PodmFragmentation(state, mix)

        def measure() -> SiteMeasure:
            return SiteMeasure(
                room=None if room is None else room.total(),
                fragmentation=None if fragmentation is None else fragmentation.share(),
            )

        before, moves = measure(), []
        for step, migration in enumerate(migrations, 1):
            number = migration.node
            source = self.view.podm(state.places[number].row).id
            state.migrate(number, migration.fit)
            moves.append(self._move(self._movable[number], step, source, migration, measure()))
        return before, tuple(moves)

    def _move(
        self, one: Resident, step: int, source: str, migration: Migration, after: SiteMeasure
    ) -> RebalanceMove:
        podm, pool, blocks = self.place(migration.fit.row, migration.fit.blocks)
        moved = structs.replace(one.moved(self.view), podm=source)
        move = NodeMove(
            **structs.asdict(moved), step=step, to_podm=podm, to_pool=pool, to_blocks=blocks
        )
        return RebalanceMove(**structs.asdict(move), after=after)

    def _node(self, one: Resident) -> MovableNode:
        assert one.request is not None, "movable"
        uris = {uri: number for number, uri in enumerate(self.view.block_tables[one.podm].uris)}
        blocks = tuple(uris[uri] for uri in one.node.blocks if uri in uris)
        row = int(self.view.first_row[one.podm])
        return MovableNode(one.node.uri, self.type_of(one.request), row, blocks)
