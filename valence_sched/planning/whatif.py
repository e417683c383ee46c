# SPDX-License-Identifier: Apache-2.0
"""What-if: the questions that commands ask about sites."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from valence_sched import files
from valence_sched.config import parsers
from valence_sched.config.scenario_file import parse_checks
from valence_sched.config.settings import Configuration
from valence_sched.errors import UnknownName
from valence_sched.model.check import Check
from valence_sched.model.relocation import Rebalance, Relocation
from valence_sched.model.replay import Replay, SweepRun, parse_replay
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import Edit, Target, parse_target
from valence_sched.model.workload import TraceColumn
from valence_sched.planning import relocate
from valence_sched.planning.capacity import SiteCapacity
from valence_sched.planning.checks import Checker
from valence_sched.planning.edits import edited, scenario_sites, with_policy
from valence_sched.planning.purchase import smallest_purchase
from valence_sched.planning.rebalance import rebalance
from valence_sched.planning.replay import replay_all
from valence_sched.planning.site import Site
from valence_sched.planning.sweep import Sweep, SweepJournal, encoder, opened_workers
from valence_sched.planning.workload import SyntheticWorkload, Workload, open_workload


class WhatIf:
    """Answers questions about sites; targets are text, as for edits.

    The first ones are what commands use of other modules of planning, with their errors.
    """

    checker = Checker
    replay = staticmethod(replay_all)
    sweep = Sweep
    sweep_journal = SweepJournal
    sweep_workers = staticmethod(opened_workers)
    survive = staticmethod(relocate.survive)
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
        """Return the request for nodes of a flavor, of the site or of files.

        Without a ``policy`` it has that of the flavor, else of the site.
        """
        known = site.flavors.get(flavor) or self._config.flavor(flavor, flavor_files)
        policy = policy or (None if known.policy else site.policy)
        spec = RequestSpec(flavor=known.name, count=count, policy=policy)
        return self._config.compile_request(spec, known)

    def fail(
        self, site: Site, targets: Sequence[str], zones: Mapping[str, Sequence[str]] | None = None
    ) -> Relocation:
        """Return where nodes land again once targets fail; errors as for :func:`relocate.fail`.

        ``zones`` have the ids of the pod managers that fail as well, by the names of zones.
        """
        parsed, zones = _parsed(targets), zones or {}
        podms = (Target(podm=glob.escape(one)) for ids in zones.values() for one in ids)
        relocation = relocate.fail(site, [*parsed, *podms])
        return structs.replace(relocation, target=", ".join((*map(str, parsed), *zones)))

    def drain(self, site: Site, targets: Sequence[str]) -> Relocation:
        """Return the moves off targets; errors as for :func:`relocate.drain`."""
        return relocate.drain(site, _parsed(targets))

    def capacity(self, site: Site, *, strict: bool = False) -> SiteCapacity:
        """Return the capacity of a site."""
        return SiteCapacity(site.decider(strict=strict))

    def rebalance(
        self,
        site: Site,
        most: int,
        request: Request | None = None,
        below: float | None = None,
        mix: Mapping[str, float] | None = None,
    ) -> Rebalance:
        """Return the fewest moves for a goal; ``mix`` is flavors by share, by default the site's.

        UnknownName: the mix has an unknown flavor. Other errors as for :func:`rebalance`.
        """
        if unknown := [name for name in mix or () if name not in site.flavors]:
            raise UnknownName("flavor", unknown[0], site.flavors)
        shares = ((site.flavors[name], share) for name, share in (mix or {}).items())
        named = Mix(tuple(FlavorShare(one.needs, one.traits, share) for one, share in shares))
        return rebalance(site, most, request, below, None if mix is None else named)


def _name(file: str) -> str:
    return "stdin" if file == "-" else file


def _parsed(targets: Sequence[str]) -> list[Target]:
    return [parse_target(text) for text in dict.fromkeys(targets)]
