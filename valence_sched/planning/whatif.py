# SPDX-License-Identifier: Apache-2.0
"""What-if: the questions that commands ask about a site, by the words of a person."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from valence_sched.config.settings import Configuration
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.capacity import PurchaseResult
from valence_sched.model.relocation import (
    NEVER,
    Rebalance,
    RebalanceMove,
    Relocation,
    Room,
    SiteMeasure,
    Survival,
)
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import AddBlocks, Target, parse_target
from valence_sched.planning import relocate
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

if TYPE_CHECKING:
    from valence_sched.planning.capacity import SiteCapacity as SiteCapacity


class WhatIf:
    """Answers questions about sites; targets are text, as for edits."""

    def __init__(self, config: Configuration) -> None:
        self._config = config

    def request(
        self,
        site: Site,
        flavor: str,
        count: int = 1,
        *,
        policy: str | None = None,
        flavor_files: Sequence[str] = (),
    ) -> Request:
        """Return the request for nodes of a flavor: one of the site, or as for a configuration.

        Without a ``policy`` it is that of the flavor, else of the site.
        """
        known = site.flavors.get(flavor) or self._config.flavor(flavor, flavor_files)
        policy = policy or (None if known.policy else site.policy)
        spec = RequestSpec(flavor=known.name, count=count, policy=policy)
        return self._config.compile_request(spec, known)

    def fail(
        self, site: Site, targets: Sequence[str], zones: Mapping[str, Sequence[str]] | None = None
    ) -> Relocation:
        """Return where nodes land again once targets fail; errors as for :func:`relocate.fail`.

        ``zones`` have the ids of the pod managers that fail as well, by what people call them.
        """
        podms = [one for ids in (zones or {}).values() for one in ids]
        parsed = _parsed(targets)
        fails = [*parsed, *(Target(podm=glob.escape(one)) for one in podms)]
        relocation = relocate.fail(site, fails)
        if not zones:
            return relocation
        return replace(relocation, target=", ".join((*map(str, parsed), *zones)))

    def survive(self, site: Site, failures: int, progress: Callable[[int, int], None]) -> Survival:
        """Return whether any so many pod managers may fail; ``progress`` gets tried sets of all."""
        return relocate.survive(site, failures, progress)

    def drain(self, site: Site, targets: Sequence[str]) -> Relocation:
        """Return the moves off targets; errors as for :func:`relocate.drain`."""
        return relocate.drain(site, _parsed(targets))

    def capacity(self, site: Site, *, strict: bool = False) -> SiteCapacity:
        """Return what counts nodes on a site."""
        from valence_sched.planning.capacity import SiteCapacity  # only to count

        return SiteCapacity(site.decider(strict=strict))

    def smallest_purchase(
        self,
        site: Site,
        request: Request,
        choices: Sequence[AddBlocks],
        prices: Mapping[str, float],
    ) -> PurchaseResult:
        """Return what to buy for a request; errors as for :func:`purchase.smallest_purchase`."""
        from valence_sched.planning import purchase  # the optimiser: only to buy

        return purchase.smallest_purchase(site, request, choices, prices)

    def rebalance(
        self,
        site: Site,
        most: int,
        request: Request | None = None,
        below: float | None = None,
        mix: Mapping[str, float] | None = None,
    ) -> Rebalance:
        """Return the fewest moves for a goal; ``mix`` is flavors by share, by default the site's.

        Raises:
            UnknownName: the mix names a flavor that is not known.
            UnknownName, RequestError: as for :func:`rebalance.rebalance`.
        """
        for name in mix or ():
            if name not in site.flavors:
                raise UnknownName("flavor", name, site.flavors)
        shares = [] if mix is None else [(site.flavors[name], mix[name]) for name in mix]
        named = tuple(FlavorShare(one.needs, one.traits, share) for one, share in shares)
        return rebalance(site, most, request, below, None if mix is None else Mix(named))


def _parsed(targets: Sequence[str]) -> list[Target]:
    return [parse_target(text) for text in dict.fromkeys(targets)]


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
            if not has_accelerators(view):
                text = "no pod manager has an accelerator, so there is none to reduce"
            else:
                text = "no flavor of the mix needs an accelerator: name one that does in --mix"
            raise RequestError(f"fragmentation: {text}")
        plan = defragment(view, types, nodes, usable, below, most=most)
    else:
        assert wanted is not None, "a goal is named"
        plan = fewest_migrations(view, types, wanted, nodes, most=most)
        if plan.fit is not None:
            row, table = plan.fit.row, view.block_tables[view.podm_of[plan.fit.row]]
            blocks = tuple(table.uris[block] for block in plan.fit.blocks)
            room = Room(podm=view.podm(row).id, pool=view.pools[row].id, blocks=blocks)
    before, moves = movable.moves(plan.migrations, wanted, usable)
    moving = (movable.residents[migration.node] for migration in plan.migrations)
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
        notes=(*movable.found.notes, *hardware_notes(moving)),
    )


class _MovableNodes:
    """The nodes of a site that may move, and the types of what they ask for again."""

    def __init__(self, site: Site) -> None:
        self.view = site.view()
        self.types: list[NodeType] = []
        self._succession = Succession(site.decider())
        self._numbers: dict[int, int] = {}
        self.found = Residents(self.view, site.policy, site.flavors)
        self.residents: list[Resident] = []
        self.nodes: list[MovableNode] = []
        for one in self.found:
            if one.request is not None:
                numbers = self.view.block_tables[one.podm].numbers
                blocks = tuple(numbers[uri] for uri in one.node.blocks if uri in numbers)
                row = int(self.view.first_row[one.podm])
                node = MovableNode(one.node.uri, self.type_of(one.request), row, blocks)
                self.residents.append(one)
                self.nodes.append(node)

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
