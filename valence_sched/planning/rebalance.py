# SPDX-License-Identifier: Apache-2.0
"""Rebalance: the fewest moves of nodes that make room for one more, or that end fragmentation.

A node takes its new place before it leaves the old one. Nodes that the inventory says too little
of do not move.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from valence_sched.errors import RequestError
from valence_sched.model.relocation import NEVER, Rebalance, RebalanceMove, Room, SiteMeasure
from valence_sched.model.request import Mix, Request
from valence_sched.planning.fragmentation import FragmentationMeasure, defragment, usable_mix
from valence_sched.planning.optimise.migrations import (
    Migration,
    MigrationState,
    MovableNode,
    fewest_migrations,
)
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.relocate import Resident, Residents, hardware_notes, move
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.view.fragmentation import FlavorMix, has_accelerators


def rebalance(
    site: Site,
    most: int,
    request: Request | None = None,
    below: float | None = None,
    mix: Mix | None = None,
) -> Rebalance:
    """Return the fewest moves, at most so many, after which one more node of a request fits.

    With ``below`` they are those after which fragmentation is below that share; with a ``request``
    besides, the moves say for how many of its nodes there is room. Fragmentation is that of the
    ``mix``, by default the site's.

    Raises:
        RequestError: fragmentation is to be reduced, and there is no accelerator, or no flavor of
            the mix that needs one.
        UnknownName, RequestError: the policies cannot place the node, or those that move.
    """
    movable = _MovableNodes(site)
    view, types, nodes = movable.view, movable.types, movable.nodes
    wanted = None if request is None else movable.type_of(request)
    usable = usable_mix(view, site.mix() if mix is None else mix)
    room = None
    if below is not None:
        if usable is None:
            text = "no flavor of the mix needs an accelerator: name one that does in --mix"
            if not has_accelerators(view):
                text = "no pod manager has an accelerator, so there is none to reduce"
            raise RequestError(f"fragmentation: {text}")
        plan = defragment(view, types, nodes, usable, below, most=most)
    else:
        assert wanted is not None, "a goal is named"
        plan = fewest_migrations(view, types, wanted, nodes, most=most)
        if plan.fit is not None:
            row, table = plan.fit.row, view.block_tables[view.podm_of[plan.fit.row]]
            room = Room(podm=view.podm(row).id, pool=view.pools[row].id,
                        blocks=tuple(table.uris[block] for block in plan.fit.blocks))  # fmt: skip
    before, moves = movable.moves(plan.migrations, wanted, usable)
    return Rebalance(
        flavor=None if request is None else request.flavor or request.id,
        below=below,
        moves=moves,
        reached=plan.reached,
        room=room,
        before=before,
        least=plan.least,
        complete=plan.complete,
        waiting=tuple(movable.residents[number].name for number in plan.waiting),
        notes=movable.notes(plan.migrations),
    )


class _MovableNodes:
    """The nodes of a site that may move, and the types of what they ask for again."""

    def __init__(self, site: Site) -> None:
        self.view = site.view()
        self.types: list[NodeType] = []
        self._succession = Succession(site.decider())
        self._numbers: dict[int, int] = {}
        self._notes = (found := Residents(self.view, site.policy, site.flavors)).notes
        self.residents: list[Resident] = []
        self.nodes: list[MovableNode] = []
        for one in found:
            if one.request is not None:
                uris = self.view.block_tables[one.podm].uris
                numbers = {uri: number for number, uri in enumerate(uris)}
                blocks = tuple(numbers[uri] for uri in one.node.blocks if uri in numbers)
                row = int(self.view.first_row[one.podm])
                node = MovableNode(one.node.uri, self.type_of(one.request), row, blocks)
                self.residents.append(one)
                self.nodes.append(node)

    def notes(self, migrations: Sequence[Migration]) -> tuple[str, ...]:
        """Return notes about nodes that do not move, and about what those ask for that do."""
        moving = (self.residents[migration.node] for migration in migrations)
        return (*self._notes, *hardware_notes(moving))

    def type_of(self, request: Request) -> int:
        """Return the number of the type of a request; errors as for a decision."""
        number = self._numbers.setdefault(id(request), len(self.types))
        if number == len(self.types):
            self.types.append(NodeType.of(request, self._succession.eligible(request)))
        return number

    def moves(
        self, migrations: Sequence[Migration], wanted: int | None, mix: FlavorMix | None
    ) -> tuple[SiteMeasure, tuple[RebalanceMove, ...]]:
        """Return what the site has before all moves, and the moves, each with what it has after."""
        state = MigrationState(self.view, tuple(self.types), self.nodes, NEVER)
        fragmentation = None if mix is None else FragmentationMeasure(lambda: state.current, mix)

        def measure() -> SiteMeasure:
            return SiteMeasure(
                room=None if wanted is None else state.room(wanted),
                fragmentation=None if fragmentation is None else fragmentation.share(),
            )

        before, moves = measure(), []
        for step, (number, fit) in enumerate(map(structs.astuple, migrations), 1):
            source = self.view.podm(state.places[number].row).id
            state.migrate(number, fit)
            made = move(self.view, self.residents[number], step, fit, source)
            moves.append(RebalanceMove(**structs.asdict(made), after=measure()))
        return before, tuple(moves)
