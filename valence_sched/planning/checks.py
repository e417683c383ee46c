# SPDX-License-Identifier: Apache-2.0
"""Checks: whether expectations on a site are met, each decided as the real thing would be."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from valence_sched.config.settings import Configuration
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import InputError, SchedulerError, UnknownName
from valence_sched.model.check import (
    Check,
    CheckResult,
    Decides,
    DoesNotFit,
    Expectation,
    Fails,
    FitBounds,
    Fits,
    GoldenDecision,
    Landing,
    Lands,
    Result,
    Survives,
    UnplacedNodes,
    Uses,
    WorkloadBounds,
    check_name,
    place_target,
)
from valence_sched.model.decision import Candidate, Report, parse_report
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Mix, Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import Drain, Target
from valence_sched.planning import relocate
from valence_sched.planning.edits import apply_edit, edited, scenario_sites
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.replay import reason_groups, replay_all
from valence_sched.planning.site import Site, find_targets, pools_of
from valence_sched.planning.workload import open_workload

MOST_FITS = 1000  # nodes that are counted on one pod manager, unless more are expected
MOST_NAMED = 4  # pod managers or differences in one line

Found = tuple[bool, str]  # whether an expectation is met, and what was found
Record = Callable[[str, Report], None]


class Checker:
    """Tells whether expectations are met on a site, or on one that a scenario or edits make of it.

    Files that an expectation names are looked for beside the file that it is in. With ``record``
    golden decisions are not compared: it is called with the file and the decision of each.
    ``progress`` is called with the name of each run of a workload and its requests so far.
    """

    def __init__(
        self,
        base: Site,
        config: Configuration,
        *,
        strict: bool = False,
        record: Record | None = None,
        progress: Callable[[str], Callable[[int], None]] = lambda run: lambda requests: None,
        survival_progress: Callable[[int, int], None] = lambda tried, sets: None,
    ) -> None:
        self._base, self._config, self._strict, self._record = base, config, strict, record
        self._progress, self._survival_progress = progress, survival_progress
        self._scenarios: dict[str, Site] = {}

    def result(self, check: Check) -> CheckResult:
        """Return what became of one expectation.

        SchedulerError, with its place: it names what is not there, or a file of it is invalid.
        """
        try:
            met, found = self._found(check, self._site(check))
        except SchedulerError as error:
            raise error.at(check.place) from None
        recorded = isinstance(check.expectation, Decides) and self._record is not None
        result: Result = "recorded" if recorded else "pass" if met else "fail"
        return CheckResult(
            name=check_name(check), result=result, found=found, file=check.file, line=check.line
        )

    def _site(self, check: Check) -> Site:
        site, reference = self._base, check.expectation.scenario
        if reference is not None:
            if reference not in self._scenarios:
                named = [_beside(check.file, reference)]
                sites = scenario_sites(self._base, named, self._config)
                if len(sites) > 1:
                    which = f"one of them, as in {reference}#{sites[0].name}"
                    raise InputError("scenario", "", format_count(len(sites), "scenario"), which)
                (self._scenarios[reference],) = sites
            site = self._scenarios[reference]
        for number, edit in enumerate(check.edits):
            site = apply_edit(site, edit, f"edits[{number}]")
        return site

    def _found(self, check: Check, site: Site) -> Found:
        expectation: Expectation = check.expectation
        match expectation:
            case Fits(fits=bounds):
                return self._fits(site, bounds)
            case Lands(lands=landing):
                return self._lands(site, landing)
            case DoesNotFit(does_not_fit=nodes):
                return self._does_not_fit(site, nodes)
            case Survives(survives=failures):
                return self._survives(site, failures)
            case Fails():
                result = relocate.fail(site, [expectation.target])
                verb = "lands" if result.nodes == 1 else "land"
                found = f"{len(result.moves):,} of {format_count(result.nodes, 'node')}"
                stuck = _named((one.node for one in result.stuck), ", stuck: ")
                few = len(result.stuck) <= expectation.stuck_at_most
                return few, f"{found} {verb} again{stuck}"
            case Uses(uses=bounds):
                return self._uses(site, bounds, check.file)
            case Decides(decision=golden):
                return self._decides(site, golden, _beside(check.file, golden.file))

    def _fits(self, site: Site, bounds: FitBounds) -> Found:
        site, podms = _limited(site, bounds.place)
        least, most = bounds.at_least or 0, bounds.at_most
        limit = max(MOST_FITS, least, 0 if most is None else most + 1)
        request = self._request(site, bounds, podms=podms)
        counted = count_fits(site.decider(strict=self._strict), request, limit)
        undecided = counted.undecided
        counts = [one for one in counted.podms if one[1] and (not podms or one[0] in podms)]
        counts.sort(key=lambda one: -one[1])
        total = sum(number for _, number in counts)
        named = _named(f"{podm} {number:,}" for podm, number in counts)
        found = f"fits {format_count(total, 'time')}{named}"
        if undecided:
            found += f"; undecided within the budget of the policy{_named(undecided)}"
        met = total >= least and (most is None or (total <= most and not undecided))
        return met, found

    def _lands(self, site: Site, landing: Landing) -> Found:
        target = place_target(landing.place)
        pools = {
            (site.podms[match.podm].id, pool.id)
            for match in find_targets(site.podms, target, site.kinds)
            for pool in pools_of(site.podms[match.podm])
            if not match.pools or pool.id in match.pools
        }
        decision = self._decision(site, self._request(site, landing, landing.count))
        nodes = [one.chosen for one in decision.placements]
        outside = [one for one in nodes if (one.podm, one.pool) not in pools]
        if len(nodes) < landing.count:
            return False, _refusal(decision)
        places = dict.fromkeys(f"{one.podm}/{one.pool}" for one in outside or nodes)
        number = "" if len(nodes) == 1 else f"{len(outside or nodes):,} of {len(nodes):,} "
        verb = "land" if number else "lands"
        return not outside, f"{number}{verb} on{_named(places, ' ')}"

    def _does_not_fit(self, site: Site, nodes: UnplacedNodes) -> Found:
        site, podms = _limited(site, nodes.place)
        request = self._request(site, nodes, nodes.count, podms=podms)
        decision = self._decision(site, request)
        if placements := decision.placements:
            places = dict.fromkeys(f"{one.chosen.podm}/{one.chosen.pool}" for one in placements)
            return False, f"fits on{_named(places, ' ')}"
        return not decision.undecided, _refusal(decision, podms)

    def _survives(self, site: Site, failures: int) -> Found:
        result = relocate.survive(site, failures, self._survival_progress)
        tried = f"{result.tried:,} of {format_count(result.sets, 'set')} tried"
        if result.answer is False:
            bad = format_count(result.bad_sets, "set")
            lost = format_count(result.worst_nodes, "node")
            stuck = f"{len(result.stuck):,} of {lost} cannot land again"
            return False, f"{bad} bad ({tried}), worst:{_named(result.worst, ' ')}: {stuck}"
        return bool(result.answer), f"no bad set found ({tried})"

    def _uses(self, site: Site, bounds: WorkloadBounds, file: str) -> Found:
        workload = open_workload(_beside(file, bounds.workload), self._config, {})
        policies = () if bounds.policy is None else (bounds.policy,)
        replay = replay_all([site], policies, workload, self._progress, strict=self._strict)
        (run,) = replay.runs
        unplaced = run.refused + run.undecided
        found = f"needs {format_count(run.podms_needed, 'pod manager')}, places {run.placed:,} of "
        found += format_count(run.requested, "node")
        few = bounds.podms_at_most is None or run.podms_needed <= bounds.podms_at_most
        return few and unplaced <= bounds.unplaced_at_most, found

    def _decides(self, site: Site, golden: GoldenDecision, file: str) -> Found:
        request = self._request(site, golden, golden.count, seed=golden.seed)
        now = decision_report(self._decision(site, request), explain=False)
        if self._record is not None:
            self._record(file, now)
            return True, f"written to {file}"
        try:
            recorded, _ = parse_report(self._config.read_document(file), file)
        except InputError as error:
            if os.path.exists(file):
                raise
            raise InputError(file, "", "no such file", "a decision", "use --record") from error
        if not isinstance(recorded, Report):
            raise InputError(file, "", "several decisions", "one")
        found = list(differences(recorded, now, placements_only=golden.placements_only))
        return not found, "; ".join(found[:MOST_NAMED]) or "the same"

    def _request(
        self,
        site: Site,
        nodes: FitBounds | Landing | UnplacedNodes | GoldenDecision,
        count: int = 1,
        *,
        podms: Sequence[str] = (),
        seed: int = 0,
    ) -> Request:
        flavor = site.flavors.get(nodes.flavor)
        if flavor is None:
            raise UnknownName("flavor", nodes.flavor, site.flavors)
        policy = nodes.policy or flavor.policy or site.policy
        spec = RequestSpec(
            flavor=nodes.flavor, count=count, policy=policy, podms=tuple(podms), seed=seed
        )
        return self._config.compile_request(spec, flavor)

    def _decision(self, site: Site, request: Request) -> Decision:
        return site.decider(strict=self._strict).select_destinations(request)


def _limited(site: Site, place: Target | str | None) -> tuple[Site, tuple[str, ...]]:
    """Return a site in which nodes are placed nowhere else than in a place, and its pod managers.

    Where the place is pools, the others of their pod managers take no new node.
    """
    if place is None:
        return site, ()
    matches = find_targets(site.podms, place_target(place), site.kinds)
    drains = [
        Drain(Target(podm=glob.escape(site.podms[match.podm].id), pool=glob.escape(pool.id)))
        for match in matches
        if match.pools
        for pool in pools_of(site.podms[match.podm])
        if pool.id not in match.pools
    ]
    return edited(site, drains), tuple(site.podms[match.podm].id for match in matches)


def _refusal(decision: Decision, podms: Sequence[str] = ()) -> str:
    """Return why a request is not placed: of one of these pod managers, else the usual reason."""
    if decision.undecided:
        pools = [f"{one.podm}/{one.pool}" for one in decision.undecided]
        return f"undecided within the budget of the policy{_named(pools)}"
    count, fitting = decision.request.count, decision.fit_count
    text = f"{fitting:,} of {count:,} fit" if fitting else "does not fit"
    if podms:
        verdicts = Verdicts(decision).podm_verdicts()
        reasons = [(one.podm, one.reason) for one in verdicts if one.podm in podms]
    else:
        reasons = [(one.nearest, one.reason) for one in reason_groups(decision)]
    told = [f": {podm}: {reason.text}" for podm, reason in reasons if reason is not None]
    return text + "".join(told[:1])


def _named(names: Iterable[str], before: str = ": ") -> str:
    every = list(names)
    rest = f" and {len(every) - MOST_NAMED:,} more" if len(every) > MOST_NAMED else ""
    return f"{before}{', '.join(every[:MOST_NAMED])}{rest}" if every else ""


def _beside(file: str, name: str) -> str:
    """Return the path of a file that another one names, which is looked for beside it."""
    return os.path.normpath(os.path.join(os.path.dirname(file), name))


def differences(recorded: Report, now: Report, *, placements_only: bool = False) -> Iterator[str]:
    """Yield what differs, each in a few words: what it is, as recorded, and as it is now.

    With ``placements_only`` neither the request nor the policy nor the inventory is compared.
    """
    if recorded.outcome != now.outcome:
        old_outcome, outcome = (one.outcome.replace("_", " ") for one in (recorded, now))
        yield f"outcome: {old_outcome} is now {outcome}"
    if len(recorded.placements) != len(now.placements):
        yield f"nodes: {len(recorded.placements):,} are now {len(now.placements):,}"
    for old, new in zip(recorded.placements, now.placements, strict=False):
        before, after = old.chosen, new.chosen
        where = f"node {old.node} on {_place(before)}"
        blocks, new_blocks = ({one.uri for one in each.blocks} for each in (before, after))
        if _place(before) != _place(after):
            yield f"node {old.node}: {_place(before)} is now {_place(after)}"
        elif blocks != new_blocks:
            lost = ", ".join(sorted(blocks - new_blocks)) or "no block"
            found = ", ".join(sorted(new_blocks - blocks)) or "no other"
            yield f"{where}: blocks: {lost} is now {found}"
        elif before.grants != after.grants:
            yield f"{where}: other amounts of stocks"
    if placements_only:
        return
    before_request, request = (
        msgspec.structs.replace(one.request, mix=Mix()) for one in (recorded, now)
    )
    if before_request != request:
        yield "request: another one is recorded"
    elif recorded.request != now.request:
        yield "request: the mix of flavors to leave room for is another one"
    for what, before_digest, after_digest in (
        ("policy", recorded.policy_digest, now.policy_digest),
        ("inventory", recorded.inventory.digest, now.inventory.digest),
    ):
        if before_digest != after_digest:
            yield f"{what}: digest {before_digest[:12]} is now {after_digest[:12]}"


def _place(candidate: Candidate) -> str:
    return f"{candidate.podm}/{candidate.pool}"
