# SPDX-License-Identifier: Apache-2.0
"""What-if: the questions that commands ask about a site, by the words of a person."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.scenario_file import parse_checks
from valence_sched.config.settings import Configuration
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.capacity import PurchaseResult
from valence_sched.model.check import Check
from valence_sched.model.relocation import (
    NEVER,
    Rebalance,
    RebalanceMove,
    Relocation,
    Room,
    SiteMeasure,
    Survival,
)
from valence_sched.model.replay import Replay, SweepRun, parse_replay
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import AddBlocks, Edit, Target, parse_target
from valence_sched.model.workload import TraceColumn
from valence_sched.planning import relocate
from valence_sched.planning.checks import Checker
from valence_sched.planning.edits import edited, scenario_sites, with_policy
from valence_sched.planning.fragmentation import FragmentationMeasure, defragment, usable_mix
from valence_sched.planning.optimise.migrations import (
    Migration,
    MigrationState,
    MovableNode,
    fewest_migrations,
)
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.relocate import Resident, Residents, hardware_notes, move
from valence_sched.planning.replay import replay_all
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.sweep import Sweep, SweepJournal, encoder, opened_workers
from valence_sched.planning.workload import SyntheticWorkload, Workload, open_workload
from valence_sched.view.fragmentation import FlavorMix, has_accelerators

if TYPE_CHECKING:
    from valence_sched.planning.capacity import SiteCapacity as SiteCapacity


class WhatIf:
    """Answers questions about sites; targets are text, as for edits.

    The first ones are what commands use of other modules of planning, with their errors.
    """

    checker = Checker
    replay = staticmethod(replay_all)
    sweep = Sweep
    sweep_journal = SweepJournal
    sweep_workers = staticmethod(opened_workers)
    synthetic_workload = SyntheticWorkload

    def __init__(self, config: Configuration) -> None:
        self._config = config

    def edited_sites(
        self,
        site: Site,
        scenarios: Sequence[str] = (),
        edits: Sequence[Edit] = (),
        *,
        policy: str | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> list[Site]:
        """Return the site of each scenario, ``FILE`` or ``FILE#NAME``, after the edits.

        Without scenarios it is the one site after the edits. ``policy`` decides requests without
        one, with other ``weights`` of its weighers.

        Raises:
            InputError, UnknownName: a scenario file is invalid, or names what the site lacks.
            NothingMatches, UsageError: as of an edit.
        """
        sites = scenario_sites(site, scenarios, self._config) if scenarios else [site]
        return [with_policy(edited(one, edits), policy, weights or {}) for one in sites]

    def decides_otherwise(self, site: Site) -> bool:
        """Return whether a site has other policies or flavors than the files of the user."""
        ours = (self._config.policies(), self._config.flavors(), "default")
        return (site.policies, site.flavors, site.policy) != ours

    @staticmethod
    def write_site(site: Site, file: str) -> tuple[int, int]:
        """Write a site as an inventory file; return its podms and blocks, errors as for one."""
        return files.write_inventory(site.documents(), file)

    @staticmethod
    def print_site(site: Site, write: Callable[[str], object]) -> None:
        """Write a site as the JSON of one inventory, a pod manager at a time."""
        files.write_podms(site.documents(), lambda data: write(data.decode()), lines=False)

    def read_checks(self, file: str) -> list[Check]:
        """Read a file of expectations, ``-`` for standard input.

        InputError, NewerSchema if it is invalid, or has no expectation.
        """
        checks, warnings = parse_checks(self._config.read(file), _name(file))
        self._config.remarks += warnings
        return checks

    def read_replay(self, file: str) -> tuple[Replay, list[str]]:
        """Read a written replay, ``-`` for standard input; errors and warnings as for a report."""
        return parse_replay(self._config.read_document(file), _name(file))

    def workload(
        self,
        file: str,
        columns: Mapping[str, TraceColumn],
        column_files: Sequence[str] = (),
        *,
        sort: bool = False,
        near_maps: Sequence[str] = (),
    ) -> Workload:
        """Return the workload of a file, ``-`` for standard input.

        ``columns``, and those of ``column_files``, are of a recorded trace, by field. With
        ``sort`` its lines may be in any order. InputError: a file cannot be read, also later.
        """
        every: dict[str, TraceColumn] = {}
        for name in column_files:
            every |= parsers.parse_trace_columns(self._config.read(name), name)
        every |= columns
        return open_workload(file, self._config, every, sort=sort, near_maps=near_maps)

    @contextlib.contextmanager
    def sweep_writer(self, file: str) -> Iterator[Callable[[Sequence[SweepRun]], None]]:
        """Yield what writes the runs of a sweep into a file that is open before they are made.

        UsageError, SchedulerError as of an encoder of such files; InputError as for a report.
        """
        encode = encoder(file)
        with files.pending(file) as write:
            yield lambda runs: write(encode(runs))

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


def _name(file: str) -> str:
    return "stdin" if file == "-" else file


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
