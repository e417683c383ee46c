# SPDX-License-Identifier: Apache-2.0
"""What-if: answers the questions of commands about sites, and finds the fewest moves to a goal.

Fragmentation is the useless share of the free amount of a resource: ``usable_mix`` chooses the
resource, ``FlavorMix.useless_and_free`` measures it. The ``excess`` of a podm is its useless amount
minus the wanted share of its free amount. A site is below that share if the sum of the excesses is
below 0, or if nothing is free. Imbalance is the standard deviation of use over pod managers, or
pools, as VMware's DRS defines it for hosts; the use of a pod manager or pool is the use of its most
used resource.
"""

import contextlib
import glob
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.scenario_file import parse_checks
from valence_sched.config.settings import Configuration
from valence_sched.core.fit.fit import Fit
from valence_sched.errors import RequestError
from valence_sched.model import relocation as model
from valence_sched.model.check import Check
from valence_sched.model.need import measure_name
from valence_sched.model.replay import Replay, SweepRun, parse_replay
from valence_sched.model.request import Mix, Request
from valence_sched.model.request_spec import RequestSpec, TraceColumn
from valence_sched.model.scenario import Edit, Target, parse_target
from valence_sched.planning import relocate
from valence_sched.planning.capacity import SiteCapacity
from valence_sched.planning.checks import Checker
from valence_sched.planning.edits import edited, scenario_sites, with_policy
from valence_sched.planning.optimise import migrations
from valence_sched.planning.optimise.migrations import MigrationPlan, MigrationState, MovableNode
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.purchase import smallest_purchase
from valence_sched.planning.relocate import Resident, Residents
from valence_sched.planning.replay import replay_all
from valence_sched.planning.site import Site
from valence_sched.planning.succession import Succession
from valence_sched.planning.sweep import Sweep, SweepJournal, encoder, opened_workers
from valence_sched.planning.tune import policy_file, tune
from valence_sched.planning.workload import SyntheticWorkload, Workload, open_workload
from valence_sched.view.fragmentation import FlavorMix, FragmentationMeasure, usable_mix
from valence_sched.view.leftover import imbalance, use_shares
from valence_sched.view.view import View

MOST_MIGRATIONS = 20  # migrations that reduce fragmentation
MOST_FITS = 20_000  # limit of the exhaustive search: fits, plus measured podms
LEAST_GAIN = 1e-9  # the smallest gain that counts: imbalance, or a share of the free amount
DESTINATIONS = 16  # the least used podms that the greedy search for less imbalance tries


def rebalance(
    site: Site,
    most: int,
    request: Request | None = None,
    below: float | None = None,
    mix: Mix | None = None,
    imbalance_below: float | None = None,
    of: str | None = None,
) -> model.Rebalance:
    """Return the fewest moves, at most ``most``, after which one more node of a request fits.

    Other goals are fragmentation of the resource ``of`` ``below`` a share for the ``mix`` (default:
    of the site), or ``imbalance_below`` a number. RequestError: the site lacks the resources of the
    mix. UnknownName: no flavor needs ``of``. Both: the policies cannot place a node.
    """
    movable = _MovableNodes(site)
    view, types, nodes = movable.view, movable.types, movable.nodes
    wanted = None if request is None else movable.type_of(request)
    usable = usable_mix(view, site.mix() if mix is None else mix, of)
    room = None
    if below is not None:
        if usable is None:
            text = "the site lacks a resource of every flavor of the mix: add a flavor to --mix"
            raise RequestError(f"fragmentation: {text}")
        plan = defragment(view, types, nodes, usable, below, most=most)
    elif imbalance_below is not None:
        state = MigrationState(view, types, nodes, model.NEVER)
        plan = _fewest(ImbalanceGoal(state, imbalance_below), most, MOST_FITS)
    else:
        assert wanted is not None, "there is a goal"
        plan = migrations.fewest_migrations(view, types, wanted, nodes, most=most)
        if plan.fit is not None:
            row, uris = plan.fit.row, view.block_tables[view.podm_of[plan.fit.row]].uris
            blocks = tuple(uris[block] for block in plan.fit.blocks)
            room = model.Room(podm=view.podm(row).id, pool=view.pools[row].id, blocks=blocks)
    before, moves = movable.moves(plan.migrations, wanted, usable)
    moving = (movable.residents[migration.node] for migration in plan.migrations)
    return model.Rebalance(
        flavor=None if request is None else request.flavor or request.id,
        below=below,
        imbalance_below=imbalance_below,
        resource=None if usable is None else measure_name(usable.resource),
        moves=moves,
        reached=plan.reached,
        room=room,
        before=before,
        least=plan.least,
        complete=plan.complete,
        waiting=tuple(movable.residents[number].shown.node for number in plan.waiting),
        notes=(*movable.found.notes, *relocate.hardware_notes(moving)),
    )


class _MovableNodes:
    """The nodes of a site that may move, and the node types of their requests."""

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
        number = self._numbers.setdefault(id(request), len(self.types))
        if number == len(self.types):
            sealed = self._succession.prepare(request)
            self.types.append(NodeType.of(sealed, self._succession.eligible(sealed)))
        return number

    def moves(
        self, plan: Sequence[migrations.Migration], wanted: int | None, mix: FlavorMix | None
    ) -> tuple[model.SiteMeasure, tuple[model.RebalanceMove, ...]]:
        state = MigrationState(self.view, self.types, self.nodes, model.NEVER)
        measured = None if mix is None else FragmentationMeasure(lambda: state.current, mix)

        def measure() -> model.SiteMeasure:
            return model.SiteMeasure(
                room=None if wanted is None else state.room(wanted),
                fragmentation=None if measured is None else measured.share(),
                imbalance=imbalance(state.current).podms,
            )

        before, moves = measure(), []
        for step, (number, fit) in enumerate(map(structs.astuple, plan), 1):
            source = self.view.podm(state.places[number].row).id
            state.migrate(number, fit)
            move = relocate.move(self.view, self.residents[number], step, fit, source)
            moves.append(model.RebalanceMove(**structs.asdict(move), after=measure()))
        return before, tuple(moves)


def defragment(
    view: View,
    node_types: Sequence[NodeType],
    nodes: Sequence[MovableNode],
    mix: FlavorMix,
    wanted: float,
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> MigrationPlan:
    """Return the fewest migrations for fragmentation below a share, else the best found."""
    state = MigrationState(view, node_types, nodes, model.NEVER)

    def spend(podms: int) -> None:
        state.fits_left -= podms

    measure = FragmentationMeasure(lambda: state.current, mix, spend)
    return _fewest(FragmentationGoal(state, measure, wanted), most, fits)


def _fewest(goal: "ImbalanceGoal | FragmentationGoal", most: int, fits: int) -> MigrationPlan:
    """Return the plan of a greedy search, or the first shorter plan that reaches the goal."""
    state = goal.state
    while not goal.is_reached() and len(state.migrations) < most and goal.migrate():
        pass
    reached, greedy = goal.is_reached(), tuple(state.migrations)
    state.go_back((0, 0))
    # trying all single migrations would exceed the fits
    if len(state.nodes) * len(state.view) > fits:
        least = goal.lower_bound(len(greedy) if reached else most)
    else:
        state.fits_left = fits
        shorter = len(greedy) - 1 if reached else most
        found, least = migrations.search_migrations(state, goal, shorter)
        if found is not None:
            return MigrationPlan(found, True, least, True)
    return MigrationPlan(greedy, reached, least, reached or least > most)


@dataclass(frozen=True, slots=True)
class ImbalanceGoal:
    """Imbalance of the pod managers below a number."""

    state: MigrationState
    wanted: float

    def is_reached(self) -> bool:
        return imbalance(self.state.current).podms < self.wanted

    def lower_bound(self, left: int) -> int:
        return 0 if self.is_reached() else 1

    def candidates(self, left: int) -> Iterable[int]:
        """Return all nodes; nodes of the most used podms come first."""
        state = self.state
        use = use_shares(state.current, state.current.podm_block_counts)
        return sorted(range(len(state.places)), key=lambda number: -use[state.podm(number)])

    def migrate(self) -> bool:
        """Migrate the node that lowers the imbalance most, from the most used podm with one."""
        state = self.state
        use = use_shares(state.current, state.current.podm_block_counts)
        before = imbalance(state.current).podms
        by_podm = state.by_podm()
        for podm in sorted(by_podm, key=lambda one: (-use[one], one)):
            best, chosen = before - LEAST_GAIN, None
            for number in {state.signature(one): one for one in by_podm[podm][::-1]}.values():
                fits = state.fits(state.places[number].node_type, avoid=podm)
                fits.sort(key=lambda fit: (use[state.view.podm_of[fit.row]], fit.row))
                for fit in fits[:DESTINATIONS]:
                    mark = state.mark()
                    state.migrate(number, fit)
                    after = imbalance(state.current).podms
                    state.go_back(mark)
                    if after < best:
                        best, chosen = after, (number, fit)
            if chosen is not None:
                state.migrate(*chosen)
                return True
        return False


@dataclass(frozen=True, slots=True)
class FragmentationGoal:
    """Fragmentation below a share of the free amount of a resource."""

    state: MigrationState
    measure: FragmentationMeasure
    wanted: float

    def is_reached(self) -> bool:
        return self.measure.share() < self.wanted

    def lower_bound(self, left: int) -> int:
        """Return 0 at the goal, else 1, or a tighter bound before the first migration."""
        if self.is_reached():
            return 0
        state = self.state
        if state.migrations or not left:
            return 1
        amounts = self.measure.all_amounts()
        useless = sorted((each for each, _ in amounts), reverse=True)
        numbers, resource = range(len(state.places)), self.measure.resource
        held = sorted((state.held(one, resource) for one in numbers), reverse=True)
        free, rest = sum(each for _, each in amounts), math.fsum(useless)
        for number in range(1, left + 1):
            free += held[number - 1] if number <= len(held) else 0.0
            rest -= math.fsum(useless[2 * number - 2 : 2 * number])
            if rest - self.wanted * free < LEAST_GAIN * free:
                return number
        return left + 1

    def candidates(self, left: int) -> Iterable[int]:
        """Return all nodes, first the nodes whose removal decreases the excess most."""
        numbers = itertools.chain.from_iterable(self.state.by_podm().values())
        gains = {number: self.change(number) for number in numbers}
        return sorted(gains, key=lambda number: (gains[number], number))

    def change(self, number: int) -> float:
        """Return the change of the excess of a podm if the node is removed from it."""
        state = self.state
        podm, mark = state.podm(number), state.mark()
        before = self.measure.excess(podm, self.wanted)
        state.release(number)
        after = self.measure.excess(podm, self.wanted)
        state.go_back(mark)
        return after - before

    def migrate(self) -> bool:
        """Make the migration with the largest gain above 0, if any; try likely ones first."""
        state, measure, wanted = self.state, self.measure, self.wanted
        releases = []  # (bound of the change of excess, node, change at its podm, its amount)
        for numbers in state.by_podm().values():
            for number in {state.signature(one): one for one in numbers[::-1]}.values():
                change, held = self.change(number), state.held(number, measure.resource)
                releases.append((change - held, number, change, held))
        amounts = measure.all_amounts()
        useless_first = sorted(enumerate(amounts), key=lambda one: -one[1][0])
        takes: dict[tuple[int, int], list[tuple[float, Fit]]] = {}
        best, chosen = -LEAST_GAIN * sum(free for _, free in amounts), None
        for bound, number, change, held in sorted(releases):
            if bound >= best:
                break
            node_type, source = state.places[number].node_type, state.podm(number)
            for podm, (useless, _) in useless_first:
                # the gain of a podm is at most its useless amount, and that of the node
                if change - min(useless, held) >= best:
                    break
                known = None if podm == source else takes.get((podm, node_type))
                if known is None:
                    known, mark = [], state.mark()
                    before = measure.excess(podm, wanted) + (change if podm == source else 0.0)
                    for fit in state.fits(node_type, only=podm):
                        state.take(fit)
                        if podm == source:
                            state.release(number)
                        known.append((measure.excess(podm, wanted) - before, fit))
                        state.go_back(mark)
                    if podm != source:
                        takes[podm, node_type] = known
                for gain, fit in known:
                    if change + gain < best:
                        best, chosen = change + gain, (number, fit)
        if chosen is not None:
            state.migrate(*chosen)
        return chosen is not None


class WhatIf:
    """Answers questions about sites; targets are text."""

    checker = Checker
    replay = staticmethod(replay_all)
    sweep = Sweep
    sweep_journal = SweepJournal
    sweep_workers = staticmethod(opened_workers)
    tune = staticmethod(tune)
    policy_file = staticmethod(policy_file)
    survive = staticmethod(relocate.survive)
    rebalance = staticmethod(rebalance)
    smallest_purchase = staticmethod(smallest_purchase)
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
        """Return the site of each scenario, by default the given site, after the edits.

        ``policy`` is the default of requests, with ``weights`` overridden. Errors as for edits.
        """
        sites = scenario_sites(site, scenarios, self._config) if scenarios else [site]
        return [with_policy(edited(one, edits), policy, weights or {}) for one in sites]

    def compared_sites(
        self,
        site: Site,
        scenarios: Sequence[str],
        edits: Sequence[Edit],
        policies: Sequence[str],
        weights: Mapping[str, float],
        *,
        unedited: bool,
    ) -> list[Site]:
        """Return the edited sites, the ``unedited`` site first if wanted; errors as for edits."""
        sites = self.edited_sites(site, scenarios, edits)
        for policy in (policies or (None,)) if weights else ():
            sites = [with_policy(one, policy, weights) for one in sites]
        if not (edits or scenarios or weights):
            return sites
        if not scenarios:
            sites = [replace(one, name="edited") for one in sites]
        return [site, *sites] if unedited else sites

    def decides_otherwise(self, site: Site) -> bool:
        """Return whether the policies or flavors of a site differ from the files of the user."""
        ours = (self._config.policies(), self._config.flavors(), "default")
        return (site.policies, site.flavors, site.policy) != ours

    @staticmethod
    def write_site(site: Site, file: str) -> tuple[int, int]:
        """Write a site as an inventory file; return the podms and blocks written."""
        return files.write_inventory(site.documents(), file)

    @staticmethod
    def print_site(site: Site, write: Callable[[str], object]) -> None:
        """Write a site as the JSON of one inventory, a pod manager at a time."""
        files.write_podms(site.documents(), lambda data: write(data.decode()), lines=False)

    def read_checks(self, file: str) -> list[Check]:
        """Read a file of expectations, ``-`` for standard input; InputError if it is invalid."""
        checks, warnings = parse_checks(*self._config.read(file))
        self._config.remarks += warnings
        return checks

    def read_replay(self, file: str) -> tuple[Replay, list[str]]:
        """Read a written replay, ``-`` for standard input; same errors and warnings as a report."""
        return parse_replay(*self._config.read_document(file))

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

        ``columns``, and those in ``column_files``, are of a recorded trace, by field. With
        ``sort``, its lines may be in any order. InputError: a file cannot be read, now or in a run.
        """
        every: dict[str, TraceColumn] = {}
        for name in column_files:
            every |= parsers.parse_trace_columns(*self._config.read(name))
        every |= columns
        return open_workload(file, self._config, every, sort=sort, near_maps=near_maps)

    @contextlib.contextmanager
    def sweep_writer(self, file: str) -> Iterator[Callable[[Sequence[SweepRun]], None]]:
        """Yield the writer of the runs of a sweep, with an open file; same errors as an encoder."""
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
        """Return the request for a flavor; its policy is the site's unless the flavor has one."""
        known = site.flavors.get(flavor) or self._config.flavor(flavor, flavor_files)
        policy = policy or (None if known.policy else site.policy)
        spec = RequestSpec(flavor=known.name, count=count, policy=policy)
        return self._config.compile_request(spec, known)

    def fail(
        self, site: Site, targets: Sequence[str], zones: Mapping[str, Sequence[str]] | None = None
    ) -> model.Relocation:
        """Return the relocation after targets, and all pod managers (ids) of ``zones``, fail."""
        parsed, zones = _parsed(targets), zones or {}
        podms = (Target(podm=glob.escape(one)) for ids in zones.values() for one in ids)
        relocation = relocate.fail(site, [*parsed, *podms])
        return structs.replace(relocation, target=", ".join((*map(str, parsed), *zones)))

    def drain(self, site: Site, targets: Sequence[str]) -> model.Relocation:
        """Return the moves off targets; same errors as :func:`relocate.drain`."""
        return relocate.drain(site, _parsed(targets))

    def capacity(self, site: Site, *, strict: bool = False) -> SiteCapacity:
        return SiteCapacity(site.decider(strict=strict))


def _parsed(targets: Sequence[str]) -> list[Target]:
    return [parse_target(text) for text in dict.fromkeys(targets)]
