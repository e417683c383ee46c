# SPDX-License-Identifier: Apache-2.0
"""Checks: tests expectations on a site, each by a real decision."""

import glob
import os.path
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from valence_sched.config.settings import Configuration
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import InputError, SchedulerError, UnknownName
from valence_sched.model import check as model
from valence_sched.model.decision import Report, parse_report
from valence_sched.model.quantity import format_count
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.model.scenario import Drain, Target, target_of
from valence_sched.planning import relocate
from valence_sched.planning.edits import apply_edit, edited, scenario_sites
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.replay import RunProgress, reason_groups, replay_all
from valence_sched.planning.site import Site, find_targets, pools_of
from valence_sched.planning.workload import open_workload
from valence_sched.words import planning as words

MOST_FITS = 1000  # the limit of counted nodes per pod manager, unless more are expected
Found = tuple[bool, str]  # whether an expectation is met, and the actual result
Record = Callable[[str, Report], None]


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks expectations on a site, or on the site after a scenario or edits.

    Files are relative to the file of the expectation. ``record``, if given, receives each golden
    decision, which is then not compared. ``progress`` receives the name of each run, and returns a
    function that receives the number of requests decided so far.
    """

    base: Site
    config: Configuration
    _: KW_ONLY
    strict: bool = False
    record: Record | None = None
    progress: RunProgress = lambda run: lambda requests: None
    survival_progress: relocate.Progress = lambda tried, sets: None
    _scenarios: dict[str, Site] = field(default_factory=dict, init=False)

    def result(self, check: model.Check) -> model.CheckResult:
        """Return the result of one expectation; errors name its place."""
        try:
            met, found = self._found(check, self._site(check))
        except SchedulerError as error:
            raise error.at(check.place) from None
        recorded = isinstance(check.expectation, model.Decides) and self.record is not None
        return model.CheckResult(
            name=model.check_name(check),
            result="recorded" if recorded else "pass" if met else "fail",
            found=found,
            file=check.file,
            line=check.line,
        )

    def _site(self, check: model.Check) -> Site:
        site, reference = self.base, check.expectation.scenario
        if reference is not None:
            if reference not in self._scenarios:
                named = [_beside(check.file, reference)]
                sites = scenario_sites(self.base, named, self.config)
                if len(sites) > 1:
                    which = f"one of them, as in {reference}#{sites[0].name}"
                    raise InputError("scenario", "", format_count(len(sites), "scenario"), which)
                (self._scenarios[reference],) = sites
            site = self._scenarios[reference]
        for number, edit in enumerate(check.edits):
            site = apply_edit(site, edit, f"edits[{number}]")
        return site

    def _found(self, check: model.Check, site: Site) -> Found:
        expectation: model.Expectation = check.expectation
        match expectation:
            case model.Fits(fits=bounds):
                return self._fits(site, bounds)
            case model.Lands(lands=landing):
                return self._lands(site, landing)
            case model.DoesNotFit(does_not_fit=nodes):
                return self._does_not_fit(site, nodes)
            case model.Survives(survives=failures):
                survival = relocate.survive(site, failures, self.survival_progress)
                return bool(survival.answer), "; ".join(words.survival_phrases(survival))
            case model.Fails():
                result = relocate.fail(site, [expectation.target])
                few = len(result.stuck) <= expectation.stuck_at_most
                return few, words.failure_text(result)
            case model.Uses(uses=bounds):
                return self._uses(site, bounds, check.file)
            case model.Decides(decision=golden):
                return self._decides(site, golden, _beside(check.file, golden.file))

    def _fits(self, site: Site, bounds: model.FitBounds) -> Found:
        site, podms = _limited(site, bounds.place)
        least, most = bounds.at_least or 0, bounds.at_most
        limit = max(MOST_FITS, least, 0 if most is None else most + 1)
        request = self._request(site, bounds, podms=podms)
        counted = count_fits(site.decider(strict=self.strict), request, limit)
        counts = [one for one in counted.podms if one[1] and (not podms or one[0] in podms)]
        counts.sort(key=lambda one: -one[1])
        total = sum(number for _, number in counts)
        met = total >= least and (most is None or (total <= most and not counted.undecided))
        return met, words.fit_counts_text(counts, counted.undecided)

    def _lands(self, site: Site, landing: model.Landing) -> Found:
        target = target_of(landing.place)
        pools = {
            (site.podms[match.podm].id, pool.id)
            for match in find_targets(site.podms, target, site.kinds)
            for pool in pools_of(site.podms[match.podm])
            if not match.pools or pool.id in match.pools
        }
        decision = self._decision(site, self._request(site, landing, landing.count))
        nodes = [one.chosen for one in decision.placements]
        if len(nodes) < landing.count:
            return False, _refusal(decision)
        outside = [one for one in nodes if (one.podm, one.pool) not in pools]
        return not outside, words.landing_text(outside or nodes, len(nodes))

    def _does_not_fit(self, site: Site, nodes: model.UnplacedNodes) -> Found:
        site, podms = _limited(site, nodes.place)
        request = self._request(site, nodes, nodes.count, podms=podms)
        decision = self._decision(site, request)
        if placed := [one.chosen for one in decision.placements]:
            return False, words.landing_text(placed, len(placed))
        return not decision.undecided, _refusal(decision, podms)

    def _uses(self, site: Site, bounds: model.WorkloadBounds, file: str) -> Found:
        workload = open_workload(_beside(file, bounds.workload), self.config, {})
        policies = () if bounds.policy is None else (bounds.policy,)
        replay = replay_all([site], policies, workload, self.progress, strict=self.strict)
        (run,) = replay.runs
        few = bounds.podms_at_most is None or run.podms_needed <= bounds.podms_at_most
        met = few and run.refused + run.undecided <= bounds.unplaced_at_most
        return met, words.usage_text(run)

    def _decides(self, site: Site, golden: model.GoldenDecision, file: str) -> Found:
        request = self._request(site, golden, golden.count, seed=golden.seed)
        now = decision_report(self._decision(site, request), explain=False)
        if self.record is not None:
            self.record(file, now)
            return True, f"written to {file}"
        try:
            recorded, _ = parse_report(*self.config.read_document(file))
        except InputError as error:
            if os.path.exists(file):
                raise
            raise InputError(file, "", "no such file", "a decision", "use --record") from error
        if not isinstance(recorded, Report):
            raise InputError(file, "", "several decisions", "one")
        found = list(words.differences(recorded, now, placements_only=golden.placements_only))
        return not found, "; ".join(found[: words.MOST_NAMED]) or "the same"

    def _request(
        self,
        site: Site,
        nodes: model.FitBounds | model.Landing | model.UnplacedNodes | model.GoldenDecision,
        count: int = 1,
        *,
        podms: tuple[str, ...] = (),
        seed: int = 0,
    ) -> Request:
        flavor = site.flavors.get(nodes.flavor)
        if flavor is None:
            raise UnknownName("flavor", nodes.flavor, site.flavors)
        policy = nodes.policy or flavor.policy or site.policy
        spec = RequestSpec(flavor=nodes.flavor, count=count, policy=policy, podms=podms, seed=seed)
        return self.config.compile_request(spec, flavor)

    def _decision(self, site: Site, request: Request) -> Decision:
        return site.decider(strict=self.strict).select_destinations(request)


def _limited(site: Site, place: Target | str | None) -> tuple[Site, tuple[str, ...]]:
    """Return the site with only the pools of a place open, and the ids of its pod managers."""
    if place is None:
        return site, ()
    matches = find_targets(site.podms, target_of(place), site.kinds)
    drains = [
        Drain(Target(podm=glob.escape(site.podms[match.podm].id), pool=glob.escape(pool.id)))
        for match in matches
        if match.pools
        for pool in pools_of(site.podms[match.podm])
        if pool.id not in match.pools
    ]
    return edited(site, drains), tuple(site.podms[match.podm].id for match in matches)


def _refusal(decision: Decision, podms: Sequence[str] = ()) -> str:
    """Return a reason against a request, on one of ``podms``, else the most frequent reason."""
    if decision.undecided:
        return words.undecided_phrase(f"{one.podm}/{one.pool}" for one in decision.undecided)
    if podms:
        verdicts = Verdicts(decision).podm_verdicts()
        reasons = ((one.podm, one.reason) for one in verdicts if one.podm in podms)
    else:
        reasons = ((one.nearest, one.reason) for one in reason_groups(decision))
    first = next((one for one in reasons if one[1] is not None), (None, None))
    return words.refusal_text(decision.request.count, decision.fit_count, *first)


def _beside(file: str, name: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(file), name))
